#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/fd.h"
#include "box/spec.h"
#include "tap.h"

static const char good[] =
	"id = n.a\nslot = 3\nid_base = 1879048192\nid_count = 65536\n"
	"layer = one\nlayer = two\nlabel = task=1\nlabel = empty=\nlabel = tasks=2\n"
	"mem_bytes = 1048576\nhostname = h\nenv = A=b=c\n";

static int load(const struct state *st, const char *text, size_t n)
{
	struct spec s;
	int r, fd = fd_dir(st->box, "n.a", 1);

	fd_replace(fd, "spec", text, n, 0);
	close(fd);
	r = spec_load(st, "n.a", &s);
	if (!r)
		spec_free(&s);
	return r;
}

static void whole(const struct state *st)
{
	autospec s = {0};
	size_t i = 0;

	is_num(spec_load(st, "n.a", &s), 0, "a whole one");
	is_num(s.slot, 3, "its slot");
	is_num(s.mem_bytes, 1 << 20, "its memory");
	is_str(s.name, "", "no name is an empty one");
	is_str(s.net, "none", "no network unless it says so");
	is_str(spec_next(&s, "layer", &i), "one", "a first layer");
	is_str(spec_next(&s, "layer", &i), "two", "a second");
	ok(!spec_next(&s, "layer", &i), "no third");
	is_str(spec_label(&s, "task"), "1", "a label, not the one it is the start of");
	is_str(spec_label(&s, "empty"), "", "an empty label");
	ok(!spec_label(&s, "tas"), "no label");
	ok(spec_has_label(&s, "task") && spec_has_label(&s, "task=1"), "by key, and by both");
	ok(!spec_has_label(&s, "task=2") && !spec_has_label(&s, "none"), "and not by others");
}

/* A spec cut off or hurt anywhere is refused or still says whose it is: it never crashes a tool. */
static void hurt(const struct state *st)
{
	char text[sizeof(good)];
	size_t n = sizeof(good) - 1, refused = 0;

	for (size_t i = 0; i < n; i++)
		refused += load(st, good, i) < 0;
	ok(refused >= (size_t)(strstr(good, "layer") - good) - 1,
	   "cut off before its ids: refused");
	for (size_t i = 0; i < n; i++) {
		memcpy(text, good, sizeof(text));
		text[i] = (char)(text[i] ^ 0x80);
		load(st, text, n);
		text[i] = 0;
		load(st, text, n);
	}
	ok(1, "hurt at each byte");
}

int main(void)
{
	char dir[] = "/tmp/test_spec.XXXXXX";
	struct state st = {.conf = {.state = dir}};
	struct spec s;

	ok(mkdtemp(dir), "a directory");
	st.box = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_num(spec_load(&st, "n.a", &s), -1, "none");
	is_num(errno, ENOENT, "is told from a damaged one");
	is_num(load(&st, good, sizeof(good) - 1), 0, "written");
	whole(&st);
	hurt(&st);
	is_num(load(&st, "id = n.b\nid_base = 65536\nid_count = 65536\n", 42), -1, "another box's");
	ok(strstr(fail_text(), "sbx-stop"), "names the cure");
	is_num(load(&st, "id = n.a\nid_base = 0\nid_count = 65536\n", 38), -1,
	       "the node's own ids");
	is_num(load(&st, "id = n.a\nid_base = 65536\nid_count = 4294967295\n", 48), -1,
	       "too many ids");
	fd_rmtree(AT_FDCWD, dir);
	return done();
}
