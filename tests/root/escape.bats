# What root in a box cannot see, reach or do.
load ../helpers

setup_file()
{
	sbx_setup_file
	local root=$SBX_TMP/small-root
	small_root "$root"
	gcc -D_GNU_SOURCE -static -O1 -o "$root/bin/probe" "$top/tests/root/probe.c"
	cp "$root/bin/probe" "$root/bin/setid"
	chown 0:0 "$root/bin/setid"
	chmod 4755 "$root/bin/setid"
	mknod "$root/disk" b 7 0
	mknod "$root/mem" c 1 1
	sbx-img import --name small "$root" >/dev/null
	box
	other=$(sbx-create -i small)
	export box other
}

ex()
{
	sbx-exec "$box" -- "$@"
}

@test "escape: calls that reach beyond the box are refused" {
	run -0 ex probe calls
	refute_line --regexp ' ok$'
	assert_line 'mount EPERM'
	assert_line 'umount EPERM'
	assert_line 'setns EPERM'
	assert_line 'bpf EPERM'
	assert_line 'io_uring ENOSYS'
}

@test "escape: no process of the node is seen or can be signalled" {
	run -0 ex sh -c 'ls /proc | grep -c "^[0-9]"'
	[ "$output" -lt 8 ]
	run -0 ex probe kill $$ "$PPID" "$(value keeper "$SBX_RUN/box/$box/state")"
	refute_line --regexp ' ok$'
	run -0 ex readlink /proc/self/ns/pid
	refute_output "$(readlink /proc/self/ns/pid)"
}

@test "escape: no file of the node is reached by /proc/1/root, the cwd or a descriptor" {
	# pid 1 is not dumpable: its links cannot even be looked at.
	run -1 ex ls /proc/1/root/
	run -1 ex readlink /proc/1/exe
	run -1 ex cat /proc/1/environ
	refute [ -n "$(ex sh -c 'cd /proc/1/cwd && cat ../../../../../../etc/hostname 2>/dev/null')" ]
	exec 7</etc/passwd 8</
	run -0 sbx-exec "$box" -- probe fds
	exec 7<&- 8<&-
	refute_output
	run -0 ex sh -c 'grep -c . /proc/self/mountinfo; grep " / / " /proc/self/mountinfo'
	assert_line --partial ' - overlay '
}

@test "escape: device nodes that the image brings do not open" {
	run ex sh -c 'head -c 1 /disk; head -c 1 /mem; echo x >/disk'
	assert_equal "$(grep -c 'Permission denied' <<<"$output")" 3
	refute [ "$(ex sh -c 'head -c 1 /disk 2>/dev/null | wc -c')" -gt 0 ]
	refute [ "$(ex sh -c 'head -c 1 /mem 2>/dev/null | wc -c')" -gt 0 ]
	run -0 ex sh -c 'find /dev -type b'
	refute_output
	run -0 ex sh -c 'echo x >/dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c'
	assert_output $'4\n4'
}

@test "escape: what /proc tells of the node is masked, and /proc/sys and /sys are read-only" {
	local f
	for f in kcore kpagecount kpageflags kpagecgroup keys key-users timer_list kmsg slabinfo vmallocinfo; do
		[ -e "/proc/$f" ] || continue
		assert_equal "$(ex sh -c "head -c 64 /proc/$f 2>/dev/null | wc -c")" 0
	done
	[ ! -e /proc/sysrq-trigger ] || assert_equal "$(ex stat -c %t:%T /proc/sysrq-trigger)" "$(ex stat -c %t:%T /dev/null)"
	run -1 ex sh -c 'echo x >/proc/sys/kernel/hostname'
	run -1 ex sh -c 'echo "|/bin/sh" >/proc/sys/kernel/core_pattern'
	run -1 ex sh -c 'mkdir /sys/x'
	run -1 ex sh -c 'echo 1 >/sys/kernel/mm/ksm/run'
	run -1 ex sh -c 'echo 1 >/proc/irq/default_smp_affinity'
	refute [ -n "$(ex ls /sys/firmware 2>/dev/null)" ]
}

@test "escape: root of the box is nobody outside, and no two boxes share an id" {
	local a b
	a=$(value id_base "$SBX_STATE/box/$box/spec") b=$(value id_base "$SBX_STATE/box/$other/spec")
	assert_equal "$(ex awk '{ print $1, $2, $3 }' /proc/self/uid_map)" "0 $a 65536"
	assert_equal "$(ex awk '{ print $1, $2, $3 }' /proc/self/gid_map)" "0 $a 65536"
	[ "$a" -ge 65536 ]
	[ $((a > b ? a - b : b - a)) -ge 65536 ]
	ex sh -c 'touch /tmp/mine; mkdir /tmp/dir; chown 1000:1000 /tmp/dir'
	assert_equal "$(stat -c %u:%g "$SBX_STATE/box/$box/upper/tmp/mine")" "$a:$a"
	assert_equal "$(stat -c %u:%g "$SBX_STATE/box/$box/upper/tmp/dir")" "$((a + 1000)):$((a + 1000))"
	run -1 ex chown 70000 /tmp/mine
	bg sbx-exec "$box" -- sleep 977
	local client=$! pid
	within 10 pgrep -f '^sleep 977$'
	pid=$(pgrep -f '^sleep 977$')
	assert_equal "$(stat -c %u "/proc/$pid")" "$a"
	kill "$client"
	wait "$client" || true
}

@test "escape: capabilities are the usual set, and none for another user" {
	local name
	run -0 ex sh -c 'grep ^Cap /proc/self/status'
	assert_line --regexp '^CapInh:.0+$'
	assert_line --regexp '^CapPrm:.00000000a80425fb$'
	assert_line --regexp '^CapEff:.00000000a80425fb$'
	assert_line --regexp '^CapBnd:.00000000a80425fb$'
	assert_line --regexp '^CapAmb:.0+$'
	for name in sys_admin net_admin sys_ptrace sys_module sys_rawio sys_time sys_boot bpf perfmon; do
		refute [ -n "$(capsh --decode=00000000a80425fb | grep "cap_$name")" ]
	done
	run -0 sbx-exec -u user "$box" -- sh -c 'grep -E "^Cap(Prm|Eff|Inh|Amb)" /proc/self/status'
	refute_line --regexp '[1-9a-f]$'
}

@test "escape: the network is lo alone" {
	run -0 ex ls /sys/class/net
	assert_output lo
	run -0 ex sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1'
	assert_output --regexp '^ *lo$'
	run ex sh -c 'ping -c 1 -w 1 192.0.2.1'
	[ "$status" -ne 0 ]
}

@test "escape: two boxes share no process, socket, memory segment or port" {
	bg sbx-exec "$other" -- probe serve
	local client=$!
	within 10 sbx-exec "$other" -- sh -c 'ps | grep -q "[p]robe serve"'
	within 10 sbx-exec "$other" -- sh -c 'probe look | grep -q "port ok"'
	run -0 sbx-exec "$other" -- probe look
	refute_line --regexp ' E'
	run -0 ex probe look
	assert_output $'abstract ECONNREFUSED\nport ECONNREFUSED\nshm ENOENT'
	run ex sh -c 'ps | grep "[p]robe serve"'
	refute_output
	kill "$client"
	wait "$client" || true
}

@test "escape: set-id programs work inside, and --no-new-privs turns them off" {
	local a
	run -0 sbx-exec -u user "$box" -- setid ids
	assert_output '1000 0'
	a=$(sbx-create -i small --no-new-privs)
	run -0 sbx-exec -u user "$a" -- setid ids
	assert_output '1000 1000'
	sbx-stop "$a"
}

# A process is in the box's pid namespace before it has become the box's in all else.
@test "escape: nothing of the node is read from a process on its way in" {
	local watcher
	bg sbx-exec "$box" -- probe watch >"$SBX_TMP/watch"
	watcher=$!
	within 10 grep -q watching "$SBX_TMP/watch"
	for _ in $(seq 50); do
		NODE_SECRET=abc sbx-exec --status "$SBX_TMP/status-secret" "$box" -- true
	done
	kill "$watcher"
	wait "$watcher" || true
	# It was met at all; its links lead nowhere; its mounts, links and environment are the box's.
	run -0 grep -a -c '^cmdline: sbx-exec' "$SBX_TMP/watch"
	run ! grep -a -E 'NODE_SECRET|libexec' "$SBX_TMP/watch"
	run ! grep -a -E '^exe -> .*sbx' "$SBX_TMP/watch"
	run ! grep -a ' /sys/fs/cgroup' "$SBX_TMP/watch"
	run ! grep -a -E '^ *(eth|en[ops]|veth|br|docker|ifb)[a-z0-9]*:' "$SBX_TMP/watch"
}
