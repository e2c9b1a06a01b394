#include <stdlib.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/die.h"
#include "base/fd.h"
#include "tap.h"

static char path[] = "/tmp/test_conf.XXXXXX";

static int load(struct conf *c, const char *text)
{
	if (fd_replace(-1, path, text, strlen(text), 0) < 0)
		return -2;
	return conf_load(c);
}

int main(void)
{
	struct conf c = {0};
	int fd = mkstemp(path);

	close(fd);
	unsetenv("SBX_STATE");
	unsetenv("SBX_RUN");
	unsetenv("SBX_NODE");
	unsetenv("SBX_SHARE");
	unsetenv("SBX_LIBEXEC");
	setenv("SBX_CONFIG", path, 1);
	is_num(load(&c, ""), 0, "an empty file");
	is_str(c.state, "/var/lib/sbx", "built in");
	is_num(c.mem, 2ll << 30, "built in memory");
	is_num(load(&c, "mem = 512M\nnode = n1\ncpus = 0.5\nttl = 1h\nstate = /a\n"), 0, "values");
	ok(c.mem == 512 << 20 && c.cpus == 500 && c.ttl_ms == 3600000, "are read");
	is_str(c.state, "/a", "a path");
	is_str(c.node, "n1", "a node");
	setenv("SBX_STATE", "/b", 1);
	setenv("SBX_NODE", "n2", 1);
	is_num(load(&c, "state = /a\nnode = n1\n"), 0, "the environment");
	is_str(c.state, "/b", "goes before the file");
	is_str(c.node, "n2", "also for the node");
	setenv("SBX_STATE", "relative", 1);
	is_num(load(&c, ""), -1, "a relative path is refused");
	ok(strstr(fail_text(), "SBX_STATE 'relative'"), "by the variable's name");
	unsetenv("SBX_STATE");
	is_num(load(&c, "mem = 1G\nmemm = 1\n"), -1, "an unknown key");
	ok(strstr(fail_text(), ":2: unknown key 'memm'"), "with its line");
	is_num(load(&c, "\nmem = x\n"), -1, "a bad value");
	ok(strstr(fail_text(), ":2: mem 'x' is not a size"), "with its line");
	is_num(load(&c, "id_base = 1\n"), -1, "ranges below 65536");
	is_num(load(&c, "id_base = 4294836224\nmax_boxes = 4095\n"), -1, "ranges beyond the ids");
	unlink(path);
	is_num(conf_load(&c), -1, "a named file that is absent");
	return done();
}
