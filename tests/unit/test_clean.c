#include <stdlib.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/num.h"
#include "store/clean.h"

#include "tap.h"

static struct clean *rules(const char *text)
{
	struct clean *c = NULL;

	if (clean_parse("t", text, strlen(text), &c) < 0)
		printf("# %s\n", fail_text());
	return c;
}

static int goes(const char *text, const char *path, int is_dir)
{
	struct clean *c = rules(text);
	int r = c ? clean_match(c, path, is_dir) : -1;

	clean_free(c);
	return r;
}

static void test_patterns(void)
{
	static const struct {
		const char *rules, *path;
		int is_dir, want;
	} t[] = {
		{"/tmp/*", "/tmp/a", 0, 1},
		{"/tmp/*", "/tmp/.a", 1, 1},
		{"/tmp/*", "/tmp", 1, 0},
		{"/tmp/*", "/home/tmp/a", 0, 0},
		{"/tmp/*", "/tmp/a/b", 0, 0},
		{"/tmp/**", "/tmp/a/b", 0, 1},
		{"/tmp/**", "/tmp", 1, 0},
		{"tmp/*", "/tmp/a", 0, 1},
		{"tmp/*", "/home/tmp/a", 0, 0},
		{"name", "/name", 0, 1},
		{"name", "/a/b/name", 1, 1},
		{"name", "/a/b/names", 0, 0},
		{"**/name", "/name", 0, 1},
		{"**/name", "/a/b/name", 0, 1},
		{"**/a/b", "/x/a/a/b", 0, 1},
		{"**/a/b", "/x/a/c/b", 0, 0},
		{"/a/**/b", "/a/b", 0, 1},
		{"/a/**/b", "/a/x/y/b", 0, 1},
		{"/a/**/b", "/a/x/y/c", 0, 0},
		{"/a/**/b/**/c", "/a/b/x/b/c", 0, 1},
		{"**", "/a", 0, 1},
		{"/**", "/a/b", 1, 1},
		{"/", "/", 1, -1},
		{"**", "/", 1, 0},
		{"**", "", 1, 0},
		{"name/", "/a/name", 1, 1},
		{"name/", "/a/name", 0, 0},
		{"*.c", "/x/a.c", 0, 1},
		{"*.c", "/x/.c", 0, 1},
		{"a*b*c", "/aXbYbZc", 0, 1},
		{"a*b*c", "/aXbYbZ", 0, 0},
		{"a**c", "/abc", 0, 1},
		{"a?c", "/abc", 0, 1},
		{"a?c", "/ac", 0, 0},
		{"a?c", "/a/c", 0, 0},
		{"a*c", "/a/c", 0, 0},
		{"[a-c]x", "/bx", 0, 1},
		{"[a-c]x", "/dx", 0, 0},
		{"[!a-c]x", "/dx", 0, 1},
		{"[^a-c]x", "/bx", 0, 0},
		{"[]a]", "/]", 0, 1},
		{"[a-]", "/-", 0, 1},
		{"[\\]]", "/]", 0, 1},
		{"[c-a]", "/b", 0, 0},
		{"[\x80-\xff]", "/\xe9", 0, 1},
		{"\\*", "/*", 0, 1},
		{"\\*", "/a", 0, 0},
		{"\\#a", "/#a", 0, 1},
		{"\\!a", "/!a", 0, 1},
		{"#a", "/#a", 0, 0},
		{"a  ", "/a", 0, 1},
		{"a\\ ", "/a ", 0, 1},
		{"a\r\n", "/a", 0, 1},
		{"a b", "/a b", 0, 1},
		{"/a/b", "/a//b", 0, 1},
		{"a\n!a", "/a", 0, 0},
		{"!a\na", "/a", 0, 1},
		{"*.x\n!/keep/*.x\n/keep/z.x", "/keep/y.x", 0, 0},
		{"*.x\n!/keep/*.x\n/keep/z.x", "/keep/z.x", 0, 1},
		{"core\n!core/", "/src/core", 1, 0},
		{"core\n!core/", "/src/core", 0, 1},
		{"\n# none\n\n", "/a", 0, 0},
		{"a\xff*", "/a\xff\x80\n", 0, 1},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		autofree char *what = xasprintf("'%s' on '%s'%s", t[i].rules, t[i].path,
						t[i].is_dir ? " (directory)" : "");

		for (char *p = what; *p; p++)
			if (*p == '\n' || *p == '#')
				*p = '_';
		is_num(goes(t[i].rules, t[i].path, t[i].is_dir), t[i].want, what);
	}
}

static void test_mistakes(void)
{
	static const char *const t[][2] = {
		{"a\n!\n", "t:2: there is no pattern"},
		{"/\n", "t:1: there is no pattern"},
		{"a//b", "t:1: a name is empty"},
		{"//", "t:1: a name is empty"},
		{"a/../b", "t:1: '.' and '..' match nothing"},
		{"./a", "t:1: '.' and '..' match nothing"},
		{"\n\n[a", "t:3: a '[' is not closed"},
		{"[]", "t:1: a '[' is not closed"},
		{"[a/b]", "t:1: a '[' is not closed"},
		{"a\\", "t:1: nothing follows a '\\'"},
	};
	struct clean *c;
	char line[CLEAN_LINE + 2];

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		c = NULL;
		ok(clean_parse("t", t[i][0], strlen(t[i][0]), &c) < 0 && !c,
		   "a mistake is refused");
		is_str(fail_text(), t[i][1], "and told with its line");
	}
	ok(clean_parse("t", "a\0b", 3, &c) < 0, "a NUL is refused");
	memset(line, 'a', sizeof(line));
	ok(clean_parse("t", line, CLEAN_LINE, &c) == 0, "a line may be long");
	clean_free(c);
	ok(clean_parse("t", line, CLEAN_LINE + 1, &c) < 0, "but not too long");
	ok(clean_load("/nonexistent/rules", &c) < 0, "a file that is not there");
}

static void repeat(struct buf *b, const char *s, int n)
{
	while (n--)
		buf_str(b, s);
}

/* What backtracks over every star would take longer than the universe has. */
static void test_hostile(void)
{
	autobuf stars = BUF_INIT, globs = BUF_INIT, name = BUF_INIT, deep = BUF_INIT;
	uint64_t begin = num_mono_us();
	struct clean *c;

	repeat(&stars, "*a", 127);
	buf_str(&stars, "*b");
	buf_chr(&name, '/');
	repeat(&name, "a", 255);
	is_num(goes(stars.p, name.p, 0), 0, "many stars on a long name");
	repeat(&globs, "**/a/", 100);
	buf_chr(&globs, 'b');
	repeat(&deep, "/a", 2000);
	is_num(goes(globs.p, deep.p, 0), 0, "many '**' on a deep path");
	buf_str(&deep, "/b");
	is_num(goes(globs.p, deep.p, 0), 1, "a deep path that matches");
	buf_clear(&deep);
	for (int i = 0; i < 2000; i++)
		buf_str(&deep, name.p);
	c = rules("**/*a*a*a*a*b/**/*c*/d\n");
	is_num(clean_match(c, deep.p, 0), 0, "half a megabyte of path");
	clean_free(c);
	ok(num_mono_us() - begin < 60000000, "in bounded time");
}

/* The rules that are installed: what goes, and what must not. */
static void test_defaults(const char *path)
{
	static const char *const out[] = {"/root/.bash_history",
					  "/home/u/.python_history",
					  "/root/.local/share/fish/fish_history",
					  "/tmp/x",
					  "/var/tmp/.y",
					  "/var/lib/apt/lists/x_Packages",
					  "/a/.f.c.swp",
					  "/a/f~",
					  "/a/#f#",
					  "/a/.#f",
					  "/a/core.123",
					  "/var/cache/apt/archives/x.deb",
					  "/root/.lesshst",
					  "/w/.ipython/profile_x/history.sqlite",
					  "/root/.wget-hsts"};
	static const char *const dirs[] = {"/root/.cache/pip", "/root/.npm/_cacache",
					   "/w/.pytest_cache"};
	static const char *const keep[] = {"/tmp",
					   "/var/tmp",
					   "/var/lib/apt/lists",
					   "/root/.cache",
					   "/root/.npm",
					   "/usr/lib/python3/core",
					   "/usr/share/man/man5/core.5",
					   "/root/.ssh/known_hosts",
					   "/root/.cargo/registry",
					   "/root/go/pkg/mod",
					   "/a/__pycache__",
					   "/a/.git",
					   "/opt/conda/pkgs",
					   "/var/log",
					   "/a/.swp",
					   "/a/history"};
	struct clean *c = NULL;

	if (!ok(clean_load(path, &c) == 0, "the installed rules have no mistake"))
		return;
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		ok(clean_match(c, out[i], 0), strchr(out[i], '#') ? "an editor's file" : out[i]);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ok(clean_match(c, dirs[i], 1), dirs[i]);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
		ok(!clean_match(c, keep[i], 1), keep[i]);
	clean_free(c);
}

int main(void)
{
	test_patterns();
	test_mistakes();
	test_hostile();
	test_defaults("share/sbx/clean.rules");
	return done();
}
