#include <stdlib.h>

#include "base/id.h"
#include "tap.h"

static void making(void)
{
	char a[ID_MAX + 1], b[ID_MAX + 1];
	const char *longest = "a23456789012345678901234567890123456789012345678";

	is_num(id_new(a, "n017"), 0, "an ID");
	ok(id_valid(a), "is valid");
	ok(!strncmp(a, "n017.", 5), "begins with its node");
	is_num(strlen(id_tail(a)), ID_TAIL, "its tail");
	is_num(id_new(b, "n017"), 0, "another");
	ok(strcmp(a, b) != 0, "is another");
	ok(strncmp(a, b, 12) <= 0, "they sort by time");
	is_num(strlen(longest), ID_NODE_MAX, "the longest node name");
	id_new(a, longest);
	ok(id_valid(a) && strlen(a) == ID_MAX, "gives the longest ID");
}

static void validity(void)
{
	static const char *const bad[] = {
		"",
		".",
		"..",
		"n.",
		".1k3v9x2q8ab",
		"n.1k3v9x2q8a",
		"n.1k3v9x2q8abc",
		"n.1k3v9x2q8aB",
		"n.1k3v9x2q8ai",
		"n.1k3v9x2q8a/",
		"N.1k3v9x2q8ab",
		"-n.1k3v9x2q8ab",
		"n/.1k3v9x2q8ab",
		"n.n.1k3v9x2q8ab",
		"n.1k3v9x2q8ab\n",
		"n .1k3v9x2q8ab",
		"../../.1k3v9x2q8ab",
		"a234567890123456789012345678901234567890123456789.1k3v9x2q8ab"};
	static const char *const bad_label[] = {
		"",    ".",   "..",
		"-x",  ".x",  "a/b",
		"a b", "a\n", "a234567890123456789012345678901234567890123456789012345678901234"};

	ok(id_valid("n017.1k3v9x2q8ab"), "a valid ID");
	ok(id_valid("a-b_c.1k3v9x2q8ab"), "dash and underscore in a node");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(!id_valid(bad[i]), bad[i][0] && !strchr(bad[i], '\n') ? bad[i] : "not an ID");
	ok(id_label_valid("Web-1.b_c"), "a label");
	for (size_t i = 0; i < sizeof(bad_label) / sizeof(bad_label[0]); i++)
		ok(!id_label_valid(bad_label[i]), "not a label");
}

static void node(void)
{
	char n[ID_NODE_MAX + 1];

	setenv("SBX_NODE", "x-1", 1);
	is_num(id_this_node(n), 0, "SBX_NODE");
	is_str(n, "x-1", "is taken");
	setenv("SBX_NODE", "X", 1);
	is_num(id_this_node(n), -1, "a bad SBX_NODE is refused");
	unsetenv("SBX_NODE");
	is_num(id_this_node(n), 0, "the host's name");
	ok(id_node_valid(n), "is made valid");
}

static void reading(void)
{
	char text[] = "\nn1.a\trunning\nname\r\n\nlast";
	FILE *f = fmemopen(text, sizeof(text) - 1, "r");

	is_str(id_read(f), "n1.a", "the first field of a record");
	is_str(id_read(f), "name", "a carriage return ends it");
	is_str(id_read(f), "last", "empty lines are passed over, a last line may be cut off");
	ok(!id_read(f), "the end");
	fclose(f);
}

int main(void)
{
	making();
	validity();
	node();
	reading();
	return done();
}
