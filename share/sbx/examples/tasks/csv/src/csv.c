#include "csv.h"

int csv_field(const char *line, int n, char *out, int room)
{
	int len = 0;

	(void)room;
	for (; n > 0; line++) {
		if (!*line)
			return -1;
		if (*line == ',')
			n--;
	}
	while (*line && *line != ',')
		out[len++] = *line++;
	out[len] = 0;
	return len;
}
