#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/rec.h"
#include "tap.h"

static const struct rec_col cols[] = {{"id", REC_TEXT, 0},    {"mem_bytes", REC_BYTES, 0},
				      {"wall_ms", REC_MS, 0}, {"start", REC_TIME, 0},
				      {"note", REC_TEXT, 1},  {0}};

/* Two records, written with OPTS, as text. */
static char *write_two(struct rec_opts opts, const char *odd, int terminal)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = terminal ? fopen("/dev/null", "we") : open_memstream(&text, &len);
	struct rec *r = rec_open(out, cols, &opts);

	if (!r)
		return NULL;
	rec_text(r, 0, odd);
	rec_num(r, 1, 1536);
	rec_num(r, 2, 1500);
	rec_num(r, 3, 0);
	rec_text(r, 4, "n");
	rec_end(r);
	rec_text(r, 0, NULL);
	rec_end(r);
	is_num(rec_close(r), 0, "written");
	fclose(out);
	return text;
}

static void lines(void)
{
	autofree char *a = write_two((struct rec_opts){.lines = 1}, "a\nb\\", 0);

	is_str(a,
	       "id=a\nid=b\\\\\nmem_bytes=1536\nwall_ms=1500\nstart=1970-01-01T00:00:00.000Z\n\n",
	       "lines: a list names each of its lines, what is empty is left out");
}

static void tsv(void)
{
	autofree char *a = write_two((struct rec_opts){0}, "a\tb\nc\\", 0);
	autofree char *b = write_two((struct rec_opts){.header = 1, .cols = "note,id"}, "x", 0);
	autofree char *c = write_two((struct rec_opts){.nul = 1, .cols = "id"}, "x", 0);

	is_str(a, "a\\tb\\nc\\\\\t1536\t1500\t1970-01-01T00:00:00.000Z\n-\t-\t-\t-\n", "TSV");
	is_str(b, "note\tid\nn\tx\n-\t-\n", "header and chosen columns");
	ok(c && !memcmp(c, "x\0-\0", 4), "NUL after records");
	ok(!write_two((struct rec_opts){.cols = "id,nope"}, "x", 0), "an unknown column");
	ok(strstr(fail_text(), "nope") && strstr(fail_text(), "mem_bytes"),
	   "is named, with all there are");
	ok(!write_two((struct rec_opts){.cols = ""}, "x", 0), "no column");
	ok(!write_two((struct rec_opts){.cols = "id,"}, "x", 0), "an empty column");
}

/* jq is the judge of what is JSON. */
static void json(void)
{
	char odd[256], file[] = "/tmp/test_rec.XXXXXX", cmd[128];
	autofree char *text = NULL, *plain = NULL;
	int fd = mkstemp(file);

	for (int i = 0; i < 255; i++)
		odd[i] = (char)(i + 1);
	odd[255] = 0;
	text = write_two((struct rec_opts){.json = 1}, odd, 0);
	plain = write_two((struct rec_opts){.json = 1}, "\xe2\x82\xac\xff\xed\xa0\x80", 0);
	is_str(plain,
	       "{\"id\":\"\xe2\x82\xac\\ufffd\\ufffd\\ufffd\\ufffd\",\"mem_bytes\":1536,"
	       "\"wall_ms\":1500,\"start\":\"1970-01-01T00:00:00.000Z\"}\n"
	       "{\"id\":null,\"mem_bytes\":null,\"wall_ms\":null,\"start\":null}\n",
	       "JSON: what is not UTF-8 is replaced");
	ok(fd >= 0 && text && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "all bytes");
	close(fd);
	snprintf(cmd, sizeof(cmd), "jq -e . <%s >/dev/null 2>&1", file);
	if (system("command -v jq >/dev/null 2>&1")) /* NOLINT(cert-env33-c): a test's own words */
		skip("jq takes it", "jq is not installed");
	else
		is_num(system(cmd), 0, "jq takes it"); /* NOLINT(cert-env33-c) */
	unlink(file);
}

/* On a terminal: aligned, a header, human units, and no control bytes. */
static void table(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	char name[64] = "", got[1024];
	struct rec *r;
	FILE *out;
	ssize_t n;

	if (master < 0 || grantpt(master) || unlockpt(master) ||
	    ptsname_r(master, name, sizeof(name))) {
		skip("a table", "no terminal");
		return;
	}
	slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	out = slave < 0 ? NULL : fdopen(slave, "w");
	if (!out)
		return;
	r = rec_open(out, cols, &(struct rec_opts){.cols = "id,mem_bytes,wall_ms"});
	rec_text(r, 0, "\033[31mred");
	rec_num(r, 1, 1536);
	rec_num(r, 2, 60000);
	rec_end(r);
	rec_close(r);
	n = read(master, got, sizeof(got) - 1);
	got[n < 0 ? 0 : n] = 0;
	is_str(got, "ID         MEM   WALL\r\n?[31mred  1.5K  1m00s\r\n", "a table on a terminal");
	fclose(out);
	close(master);
}

static void full(void)
{
	FILE *out = fopen("/dev/full", "we");
	struct rec *r = out ? rec_open(out, cols, &(struct rec_opts){0}) : NULL;
	int quiet = dup(2), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!r)
		return;
	rec_text(r, 0, "x");
	rec_end(r);
	dup2(null, 2);
	is_num(rec_close(r), EX_SBX, "a full disk is an error");
	dup2(quiet, 2);
	fclose(out);
	close(null);
	close(quiet);
}

int main(void)
{
	lines();
	tsv();
	json();
	table();
	full();
	return done();
}
