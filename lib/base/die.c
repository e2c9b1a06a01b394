#include "base/die.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *prog = "sbx";

static struct failure last = {.text = "unknown error", .code = EX_SBX};

void die_init(const char *argv0)
{
	const char *slash = argv0 ? strrchr(argv0, '/') : NULL;

	if (argv0 && *argv0)
		prog = slash ? slash + 1 : argv0;
	signal(SIGPIPE, SIG_IGN);
	/*
	 * A file we open must never land on 0, 1 or 2, where a child would inherit it. A closed stdout
	 * stays one that cannot be written: results that nobody gets are an error.
	 */
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd)
			_exit(EX_SBX);
}

static int __attribute__((format(printf, 3, 0)))
remember(int code, int err, const char *fmt, va_list ap)
{
	int n = vsnprintf(last.text, sizeof(last.text), fmt, ap);

	if (err && n >= 0 && (size_t)n < sizeof(last.text))
		snprintf(last.text + n, sizeof(last.text) - (size_t)n, ": %s", strerror(err));
	last.code = code;
	return -1;
}

int fail(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	remember(EX_SBX, err, fmt, ap);
	va_end(ap);
	errno = err;
	return -1;
}

int failx(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	remember(EX_SBX, 0, fmt, ap);
	va_end(ap);
	errno = err;
	return -1;
}

int fail_as(int code, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	remember(code, 0, fmt, ap);
	va_end(ap);
	errno = err;
	return -1;
}

int fail_more(const char *fmt, ...)
{
	int err = errno;
	char old[sizeof(last.text)];
	va_list ap;
	size_t n;

	memcpy(old, last.text, sizeof(old));
	va_start(ap, fmt);
	remember(last.code, 0, fmt, ap);
	va_end(ap);
	n = strlen(last.text);
	snprintf(last.text + n, sizeof(last.text) - n, ": %s", old);
	errno = err;
	return -1;
}

const char *fail_text(void)
{
	return last.text;
}

int fail_code(void)
{
	return last.code;
}

void fail_save(struct failure *f)
{
	last.err = errno;
	*f = last;
}

int fail_again(const struct failure *f)
{
	last = *f;
	errno = f->err;
	return -1;
}

/* One write for one line: messages of tools that run side by side do not mix. */
static void print_line(const char *text)
{
	char line[sizeof(last.text) + 128];
	int n = snprintf(line, sizeof(line), "%s: %s\n", prog, text);

	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* there is nowhere left to say it */
}

void warn(void)
{
	print_line(last.text);
}

void warnf(const char *fmt, ...)
{
	char text[sizeof(last.text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_line(text);
}

_Noreturn void die(void)
{
	fflush(stdout);
	warn();
	exit(last.code);
}

_Noreturn void dief(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	remember(code, 0, fmt, ap);
	va_end(ap);
	die();
}

int finish(FILE *out)
{
	if (!fflush(out) && !ferror(out))
		return 0;
	warnf("cannot write output: %s", strerror(errno ? errno : EIO));
	return EX_SBX;
}
