#include "base/die.h"
#include "box/runner.h"

const char *outcome_end_name(enum end e)
{
	static const char *const names[] = {"exit", "signal", "timeout", "oom", "box-died"};

	return names[e];
}

int outcome_exit_code(const struct outcome *o)
{
	if (o->end == END_BOX_DIED)
		return EX_GONE;
	if (o->end == END_TIMEOUT)
		return EX_TIMEOUT;
	if (o->lost)
		return EX_SBX;
	return o->signal ? 128 + o->signal : o->code;
}

void outcome_status(const struct outcome *o, struct buf *b)
{
	buf_fmt(b, "end=%s\ncode=%d\nsignal=%d\nwall_ms=%llu\ncpu_ms=%llu\nmem_peak=%llu\n",
		outcome_end_name(o->end), o->code, o->signal, (unsigned long long)o->wall_ms,
		(unsigned long long)o->cpu_ms, (unsigned long long)o->mem_peak);
	buf_fmt(b, "stdout_bytes=%llu\nstderr_bytes=%llu\ntruncated=%d\nseq=%llu\n",
		(unsigned long long)o->stdout_bytes, (unsigned long long)o->stderr_bytes,
		o->truncated, (unsigned long long)o->seq);
}
