/*
 * Names and numbers of system calls come from libseccomp, the filter is written here: neighbours
 * with one action become one range, and a binary search finds the range. libseccomp's own tree has
 * a leaf for each number, which made the default profile several times as long, and the kernel
 * walks a filter for every number there is when it is loaded. Rules are also tried in order here,
 * so that "allow if ..., else EPERM" can be said, which libseccomp cannot with a mask.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/fd.h"
#include "kern/seccomp.h"
#include "kern/seccomp_parse.h"

enum {
	INSNS = SECCOMP_MAX / sizeof(struct sock_filter),
	X32_BIT = 0x40000000, /* __X32_SYSCALL_BIT: x32 calls come under the x86_64 name */
};

struct call {
	uint32_t nr;
	const struct seccomp_rule *rule;
};

/* Numbers from FIRST up to the next range: ACTION, or, while NCALLS, the calls' rules before it. */
struct range {
	uint32_t first;
	uint32_t action;
	const struct call *call;
	size_t ncalls;
};

struct code {
	struct sock_filter f[INSNS];
	size_t n; /* counts on past INSNS, to tell how long it would have been */
};

static void put(struct code *c, unsigned code, uint32_t k, size_t jt, size_t jf)
{
	if (c->n < INSNS)
		c->f[c->n] = (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
	c->n++;
}

static void put_ret(struct code *c, uint32_t action)
{
	put(c, BPF_RET | BPF_K, action, 0, 0);
}

/* The low half of an argument. */
static uint32_t arg_offset(unsigned arg)
{
	uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) + arg * 8;

	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? at + 4 : at;
}

/* Whether the accumulator, when R is reached from PREV, holds what R's first condition looks at. */
static int loaded(const struct seccomp_rule *prev, const struct seccomp_rule *r)
{
	return prev && prev->nconds == 1 && r->nconds && prev->cond[0].arg == r->cond[0].arg &&
	       prev->cond[0].mask == r->cond[0].mask;
}

static size_t cond_size(const struct seccomp_cond *c, int is_loaded)
{
	return is_loaded ? 1 : 2 + (c->mask != UINT32_MAX);
}

static size_t rule_size(const struct seccomp_rule *prev, const struct seccomp_rule *r)
{
	size_t n = 1;

	for (unsigned i = 0; i < r->nconds; i++)
		n += cond_size(&r->cond[i], !i && loaded(prev, r));
	return n;
}

/* The conditions, each of which jumps behind the rule's return if it does not hold. */
static void put_rule(struct code *c, const struct seccomp_rule *prev, const struct seccomp_rule *r)
{
	size_t left = rule_size(prev, r);

	for (unsigned i = 0; i < r->nconds; i++) {
		const struct seccomp_cond *k = &r->cond[i];
		int have = !i && loaded(prev, r);

		if (!have)
			put(c, BPF_LD | BPF_W | BPF_ABS, arg_offset(k->arg), 0, 0);
		if (!have && k->mask != UINT32_MAX)
			put(c, BPF_ALU | BPF_AND | BPF_K, k->mask, 0, 0);
		left -= cond_size(k, have);
		put(c, BPF_JMP | BPF_JEQ | BPF_K, k->value, k->not ? left : 0, k->not ? 0 : left);
	}
	put_ret(c, r->action);
}

static size_t range_size(const struct range *r)
{
	size_t n = 1;

	for (size_t i = 0; i < r->ncalls; i++)
		n += rule_size(i ? r->call[i - 1].rule : NULL, r->call[i].rule);
	return n;
}

static void put_range(struct code *c, const struct range *r)
{
	for (size_t i = 0; i < r->ncalls; i++)
		put_rule(c, i ? r->call[i - 1].rule : NULL, r->call[i].rule);
	put_ret(c, r->action);
}

/* A conditional jump reaches 255 instructions: a longer left half needs one more to jump over it.
 */
static size_t tree_size(const struct range *r, size_t n)
{
	size_t left;

	if (n == 1)
		return range_size(r);
	left = tree_size(r, n / 2);
	return 1 + (left > 255) + left + tree_size(r + n / 2, n - n / 2);
}

static void put_tree(struct code *c, const struct range *r, size_t n)
{
	size_t half = n / 2, left;

	if (n == 1) {
		put_range(c, r);
		return;
	}
	left = tree_size(r, half);
	put(c, BPF_JMP | BPF_JGE | BPF_K, r[half].first, left > 255 ? 0 : left, left > 255);
	if (left > 255)
		put(c, BPF_JMP | BPF_JA, (uint32_t)left, 0, 0);
	put_tree(c, r, half);
	put_tree(c, r + half, n - half);
}

static int by_number(const void *pa, const void *pb)
{
	const struct call *a = pa, *b = pb;

	if (a->nr != b->nr)
		return a->nr < b->nr ? -1 : 1;
	return a->rule < b->rule ? -1 : a->rule > b->rule;
}

/*
 * i386 got calls of its own for what socketcall and ipc bundle (Linux 4.3 and 5.1); libseccomp
 * names the bundle by a negative number there. The table is arch/x86/entry/syscalls/syscall_32.tbl.
 */
static int i386_direct(const char *name)
{
	static const struct {
		const char *name;
		int nr;
	} calls[] = {
		{"socket", 359},      {"socketpair", 360}, {"bind", 361},
		{"connect", 362},     {"listen", 363},	   {"accept4", 364},
		{"getsockopt", 365},  {"setsockopt", 366}, {"getsockname", 367},
		{"getpeername", 368}, {"sendto", 369},	   {"sendmsg", 370},
		{"recvfrom", 371},    {"recvmsg", 372},	   {"shutdown", 373},
		{"semget", 393},      {"semctl", 394},	   {"shmget", 395},
		{"shmctl", 396},      {"shmat", 397},	   {"shmdt", 398},
		{"msgget", 399},      {"msgsnd", 400},	   {"msgrcv", 401},
		{"msgctl", 402},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].nr;
	return -1;
}

/*
 * The number of a rule's call; negative if ARCH has no such call; -1 after fail() if no
 * architecture has one. A call newer than this machine's libseccomp needs its number in the
 * profile.
 */
static int resolve(const char *source, uint32_t arch, const struct seccomp_rule *r, int *nr)
{
	*nr = seccomp_syscall_resolve_name_arch(arch, r->name);
	if (*nr == __NR_SCMP_ERROR && r->number >= 0)
		*nr = (int)r->number;
	if (*nr == __NR_SCMP_ERROR)
		return failx("%s:%d: no system call '%.64s' (one that is newer than libseccomp is "
			     "written NAME=NUMBER)",
			     source, r->line, r->name);
	if (*nr < 0 && arch == SCMP_ARCH_X86)
		*nr = i386_direct(r->name);
	return 0;
}

/* The calls of one architecture, sorted by number; as many as rules at most. */
static int arch_calls(const struct seccomp_profile *p, const char *source, uint32_t arch,
		      struct call *call, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < p->n; i++) {
		int nr;

		if (resolve(source, arch, &p->rule[i], &nr) < 0)
			return -1;
		if (nr >= 0)
			call[(*n)++] = (struct call){(uint32_t)nr, &p->rule[i]};
	}
	qsort(call, *n, sizeof(*call), by_number);
	return 0;
}

/* Appends a range unless it goes on with the action of the last one. */
static void add_range(struct range *r, size_t *n, struct range one)
{
	const struct range *last = *n ? &r[*n - 1] : NULL;

	if (last && last->first == one.first)
		(*n)--;
	else if (last && !last->ncalls && !one.ncalls && last->action == one.action)
		return;
	r[(*n)++] = one;
}

/* Ranges over all 2^32 numbers: at most two for each call and two more. */
static size_t arch_ranges(const struct call *call, size_t n, uint32_t fallback, uint32_t arch,
			  struct range *r)
{
	struct range none = {.action = fallback};
	size_t nr = 0, k;

	add_range(r, &nr, none);
	for (size_t i = 0; i < n; i += k) {
		struct range one = {.first = call[i].nr, .action = fallback, .call = &call[i]};

		for (k = 0; i + k < n && call[i + k].nr == one.first; k++)
			if (one.ncalls == k) {
				if (call[i + k].rule->nconds)
					one.ncalls++;
				else
					one.action = call[i + k].rule->action;
			}
		add_range(r, &nr, one);
		none.first = one.first + 1;
		if (i + k == n || call[i + k].nr != none.first)
			add_range(r, &nr, none);
	}
	/* Nothing needs x32, and it is a second way to every call. */
	if (arch == SCMP_ARCH_X86_64)
		add_range(r, &nr,
			  (struct range){.first = X32_BIT, .action = SECCOMP_RET_ERRNO | ENOSYS});
	return nr;
}

static int put_arch(struct code *c, const struct seccomp_profile *p, const char *source,
		    uint32_t arch)
{
	autofree struct call *call = xcalloc(p->n + 1, sizeof(*call));
	autofree struct range *range = xcalloc(2 * p->n + 2, sizeof(*range));
	size_t ncalls, n;

	if (arch_calls(p, source, arch, call, &ncalls) < 0)
		return -1;
	n = arch_ranges(call, ncalls, p->fallback, arch, range);
	put(c, BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
	put(c, BPF_JMP | BPF_JA, (uint32_t)tree_size(range, n) + 1, 0, 0);
	put(c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	put_tree(c, range, n);
	return 0;
}

/* The 32-bit calls that a 64-bit kernel also has; 0 if none. */
static uint32_t compat(uint32_t native)
{
	if (native == SCMP_ARCH_X86_64)
		return SCMP_ARCH_X86;
	if (native == SCMP_ARCH_AARCH64)
		return SCMP_ARCH_ARM;
	return 0;
}

int seccomp_compile(const char *source, const char *text, int fd)
{
	uint32_t native = seccomp_arch_native(), other = compat(native);
	autofree struct code *c = xcalloc(1, sizeof(*c));
	autoprofile p = {0};

	if (seccomp_parse(&p, source, text) < 0)
		return -1;
	put(c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	if (put_arch(c, &p, source, native) < 0)
		return -1;
	if (other && put_arch(c, &p, source, other) < 0)
		return -1;
	put_ret(c, SECCOMP_RET_KILL_PROCESS);
	if (c->n > INSNS)
		return failx("%s: the filter has %zu instructions, the kernel takes %d", source,
			     c->n, (int)INSNS);
	if (fd_write_all(fd, c->f, c->n * sizeof(c->f[0])) < 0)
		return fail("cannot write the filter of '%s'", source);
	return 0;
}
