/*
 * What clients and a keeper say to each other over RUN/box/ID/ctl: SOCK_SEQPACKET, one kv line a
 * message, requests with "op", every answer with "ok=1", or "err" (text) and "code" (exit code).
 *
 *   op=exec argv=A\0B user= cwd= detach=0|1  begins a command
 *                                    (tool=1: not one of the user's, a tool's search)
 *     -> ok seq, fds: PROTO_FD_*     the client runs it: the connection is the command's life, if it
 *                                    closes without "end" the keeper kills the command
 *   op=end end= code= signal= ...    as the status record has it; fds: pipes to drain
 *     -> ok [died=1]                 died: the box ended under the command
 *   op=wait [seq=N]                  -> when command N, or the box, has ended: ok and its record
 *   op=root what= path=              -> fds: root directory (O_PATH), pidfd of pid 1
 *   op=freeze                        freezes all processes of the box until the connection closes, and
 *                                    that of whoever else asked for it; it can be ended nevertheless
 *     -> ok frozen_us                how long it took; not within 10 s: err, and the box goes on
 *   op=stop cause=                   -> nothing; the connection closes when the box is gone
 */
#ifndef BOX_PROTO_H
#define BOX_PROTO_H

enum {
	PROTO_FD_PID1 = 0, /* pidfd */
	PROTO_FD_V2,	   /* the slot's cgroup; on a hybrid node mem, cpu and pids follow */
	PROTO_FD_PTS,	   /* devpts root */
	PROTO_FD_MEM,
	PROTO_FD_CPU,
	PROTO_FD_PIDS,
	PROTO_DRAINS = 2,	    /* at most this many with "end" */
	PROTO_ARGV_MAX = 16 * 1024, /* bytes of argv that go into the log */
};

/* How a keeper is started: sbx-keep ID with these fds. */
enum {
	/*
	 * SOCK_SEQPACKET. The keeper says "ok", or "CODE text" when the box could not be made; the
	 * maker answers "told" when the ID is printed. Until then the box ends with its maker:
	 * nobody else knows that it is there.
	 */
	KEEP_FD_READY = 3,
	KEEP_FD_LOCK = 4, /* holds RUN/box/ID/lock */
};

/* Seconds a client that does not let go of a dead command has before the keeper kills it. */
enum { PROTO_GRACE_MS = 2000 };
#endif
