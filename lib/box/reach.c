#include "box/reach.h"

#include "box/probe.h"
#include "store/depot.h"

int reach_depot(struct state *depot, const struct conf *conf, const char *path, int make)
{
	return probe_depot(conf, path) < 0 ? -1 : depot_open(depot, conf, path, make);
}

int reach_images(struct state *st, const char *depot, int make)
{
	struct conf conf;

	if (!depot)
		return state_open(st, make);
	return conf_load(&conf) < 0 ? -1 : reach_depot(st, &conf, depot, 0);
}
