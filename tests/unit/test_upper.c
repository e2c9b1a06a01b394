/* Attributes that hold host ids, as an upper directory has them, become those of an image. */
#include "store/import_upper.h"
#include "tap.h"

static const struct upper u = {.id_base = 0x00a00000, .id_count = 65536};

/* Revision 3 with the effective flag, cap_net_raw, and a root id: little-endian words. */
static const unsigned char cap3[24] = {1, 0, 0, 3, 0, 0x20, 0, 0, [20] = 0, 0, 0xa0, 0};

static void capabilities(void)
{
	unsigned char v[24];

	memcpy(v, cap3, sizeof(v));
	is_num(upper_capability(&u, v, sizeof(v)), 20,
	       "a capability of the box's root is revision 2");
	ok(v[3] == 2 && v[0] == 1 && !memcmp(v + 4, cap3 + 4, 16), "with the same bits");
	is_num(upper_capability(&u, v, 20), 20, "one of revision 2 stays");
	memcpy(v, cap3, sizeof(v));
	v[20] = 1;
	is_num(upper_capability(&u, v, sizeof(v)), -1, "one of another root is dropped");
	is_num(upper_capability(&u, v, 3), -1, "a short one is dropped");
	is_num(upper_capability(&u, v, 20), -1, "one of a wrong length is dropped");
	v[3] = 1;
	is_num(upper_capability(&u, v, 12), -1, "an old revision is dropped");
}

static void acls(void)
{
	unsigned char v[] = {2, 0, 0, 0, 1, 0, 6,    0, 255, 255, 255, 255,
			     2, 0, 6, 0, 5, 0, 0xa0, 0, 8,   0,	  6,   0,
			     7, 0, 0, 0, 4, 0, 6,    0, 255, 255, 255, 255};

	is_num(upper_acl(&u, v, sizeof(v)), sizeof(v), "an ACL keeps its length");
	ok(v[8] == 255 && v[32] == 255, "an entry without an id stays");
	ok(v[16] == 5 && !v[17] && !v[18] && !v[19], "a user's id is shifted");
	ok(v[24] == 0xfe && v[25] == 0xff && !v[26], "a group outside the range becomes 65534");
	is_num(upper_acl(&u, v, 3), -1, "a short one is dropped");
	is_num(upper_acl(&u, v, 11), -1, "a broken one is dropped");
	v[0] = 1;
	is_num(upper_acl(&u, v, sizeof(v)), -1, "another version is dropped");
}

int main(void)
{
	capabilities();
	acls();
	return done();
}
