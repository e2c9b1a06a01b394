#include "store/image.h"
#include "tap.h"

static int split(const char *ref, const char *want_name, const char *want_tag)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];

	return !image_split(ref, name, tag) && !strcmp(name, want_name) && !strcmp(tag, want_tag);
}

static int refused(const char *ref)
{
	char name[IMAGE_NAME + 1], tag[IMAGE_TAG + 1];

	return image_split(ref, name, tag) < 0;
}

int main(void)
{
	static const char *const bad[] = {"",	    "/",	 "a/",	    "/a",    "a//b",  "..",
					  "a/../b", "a:",	 ":t",	    "a:b:c", "a:b/c", "a b",
					  "%none",  "a:.hidden", "a:x.new", "-a",    "a/\n"};
	char text[80], name[300];

	ok(split("deb", "deb", "latest"), "the tag is latest if absent");
	ok(split("swe/py311:1", "swe/py311", "1"), "a name has parts");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "'%s' is refused",
			 strcmp(bad[i], "a/\n") ? bad[i] : "a/\\n");
		ok(refused(bad[i]), text);
	}
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	ok(refused(name), "a very long name is refused");
	return done();
}
