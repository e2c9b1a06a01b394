#include "base/die.h"
#include "store/import.h"

int import_oci(struct import *im, struct source *s, struct import_config *c)
{
	(void)im;
	(void)s;
	(void)c;
	return failx("oci: not yet");
}

int import_docker(struct import *im, struct source *s, struct import_config *c)
{
	return import_oci(im, s, c);
}
