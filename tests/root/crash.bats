# kill -9 at each step of each program: sbx-reap clears what is left, and the name and the slot can be
# used again. There is one slot and one name, so each round proves that for the round before.
# limit: 900
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers

# The calls that change something or tell somebody, and those between them that open what follows.
CALLS='mkdir mkdirat openat symlinkat renameat unlinkat write writev flock socketpair sendto recvfrom sendmsg
connect poll clone clone3 kill wait4 bind listen setns fsopen fsconfig fsmount move_mount open_tree
mount_setattr fchown accept4 pidfd_send_signal umount2 unlink rmdir readlinkat exit_group'

setup_file()
{
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300}
	sbx_setup_file
	small_image
	printf 'max_boxes = 1\nmem = 64M\n' >"$SBX_TMP/sbx.conf"
	export SBX_CONFIG=$SBX_TMP/sbx.conf
}

teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || { sbx-stop --all; sbx-reap; } || true
}

things()
{
	find "$SBX_STATE"/{box,slot,name} "$SBX_RUN/box" -mindepth 1 2>/dev/null
	find /sys/fs/cgroup -maxdepth 4 -path "*/sbx/$SBX_NODE.*" 2>/dev/null
}

# What was being made or ended when its program died is ending by itself, or is for sbx-reap.
cleared()
{
	sbx-reap && [ -z "$(things)" ]
}

no_process()
{
	! grep -qsa "$SBX_NODE\\." /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup
}

# killed CALL N COMMAND...: it gets SIGKILL at its Nth CALL. Fails if it has fewer.
killed()
{
	local call=$1 n=$2
	shift 2
	strace -o "$BATS_TEST_TMPDIR/trace" -e trace="$call" -e "inject=$call:signal=SIGKILL:when=$n" "$@" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null
	grep -q 'killed by SIGKILL' "$BATS_TEST_TMPDIR/trace"
}

# calls COMMAND...: "CALL COUNT" for each of CALLS that COMMAND makes.
calls()
{
	strace -o "$BATS_TEST_TMPDIR/calls" "$@" >/dev/null 2>&1 </dev/null
	counted "$BATS_TEST_TMPDIR/calls"
}

# Every step of the rare calls; of one that is made often, some. CRASH_STRIDE=1: each.
counted()
{
	sed -n 's/^\([a-z0-9_]*\)(.*/\1/p' "$1" | sort | uniq -c | while read -r n call; do
		case " ${CALLS//$'\n'/ } " in
		*" $call "*) ;;
		*) continue ;;
		esac
		for ((i = 1; i <= n; i += i < 3 ? 1 : ${CRASH_STRIDE:-6})); do echo "$call $i"; done
	done
}

@test "sbx-create killed at each step" {
	calls sbx-create -i small --name again >"$BATS_TEST_TMPDIR/steps"
	sbx-stop again
	n=0
	while read -r call i <&4; do
		killed "$call" "$i" sbx-create -i small --name again || true
		# Who read the ID may use the box; without one there is none to come.
		if [ -s "$BATS_TEST_TMPDIR/out" ]; then sbx-stop -q "$(cat "$BATS_TEST_TMPDIR/out")" || true; fi
		within 15 cleared || fail "after $call $i: $(things)"
		n=$((n + 1))
	done 4<"$BATS_TEST_TMPDIR/steps"
	echo "# $n steps" >&3
	box --name again
	sbx-exec again -- true
	sbx-stop again
	within 5 no_process
}

# A libexec directory whose sbx-keep is traced by strace with OPTIONS.
traced_keep()
{
	local dir=$BATS_TEST_TMPDIR/libexec
	mkdir -p "$dir"
	ln -sf "$O"/libexec/* "$dir/"
	rm -f "$dir/sbx-keep"
	cat >"$dir/sbx-keep" <<-EOF
		#!/bin/sh
		exec strace -o "$BATS_TEST_TMPDIR/trace" $* "$O/libexec/sbx-keep" "\$@"
	EOF
	chmod 755 "$dir/sbx-keep"
	export SBX_LIBEXEC=$dir
}

@test "sbx-keep killed at each step of its life" {
	traced_keep
	sbx-create -i small --name again
	sbx-exec again -- true
	sbx-stop again
	counted "$BATS_TEST_TMPDIR/trace" >"$BATS_TEST_TMPDIR/steps"
	n=0
	while read -r call i <&4; do
		traced_keep -e "trace=$call" -e "inject=$call:signal=SIGKILL:when=$i"
		code=0
		id=$(sbx-create -i small --name again 2>"$BATS_TEST_TMPDIR/err") || code=$?
		if [ $code -eq 0 ]; then
			code=0
			sbx-exec "$id" -- true 2>/dev/null || code=$?
			case $code in 0 | 123) ;; *) fail "after $call $i: sbx-exec gave $code" ;; esac
			sbx-stop -q "$id" 2>"$BATS_TEST_TMPDIR/err" || true
		else
			assert_equal "$code" 125
			assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/err")" 1
		fi
		within 15 cleared || fail "after $call $i: $(things)"
		n=$((n + 1))
	done 4<"$BATS_TEST_TMPDIR/steps"
	echo "# $n steps" >&3
	export SBX_LIBEXEC=$O/libexec
	box --name again
	sbx-exec again -- true
	sbx-stop again
	within 5 no_process
}

@test "sbx-stop killed at each step, and run again" {
	box --name again
	calls sbx-stop again >"$BATS_TEST_TMPDIR/steps"
	n=0
	while read -r call i <&4; do
		id=$(sbx-create -i small --name again) || fail "before $call $i"
		killed "$call" "$i" sbx-stop again || true
		if [ -e "$SBX_STATE/box/$id" ]; then sbx-stop "$id" || fail "after $call $i"; fi
		within 15 cleared || fail "after $call $i: $(things)"
		n=$((n + 1))
	done 4<"$BATS_TEST_TMPDIR/steps"
	echo "# $n steps" >&3
	within 5 no_process
}

# A dead box with files, the image of its ID's name and slot, and a creation that was cut off.
dead_box()
{
	id=$(sbx-create -i small --name again)
	sbx-exec "$id" -- sh -c 'mkdir -p /root/a/b/c; touch /root/a/b/c/d'
	kill -KILL "$(keeper "$id")"
	within 5 sh -c '[ "$(sbx-ls -o state '"$id"')" = dead ]'
	mkdir -p "$SBX_RUN/box/$SBX_NODE.00000000000" "$SBX_STATE/box/$SBX_NODE.00000000001/upper/x"
	ln -sf "$SBX_NODE.00000000002" "$SBX_STATE/name/lost"
}

keeper()
{
	sed -n 's/^keeper = //p' "$SBX_RUN/box/$1/state"
}

@test "sbx-reap killed at each step, and run again" {
	dead_box
	calls sbx-reap >"$BATS_TEST_TMPDIR/steps"
	n=0
	while read -r call i <&4; do
		dead_box || fail "before $call $i"
		killed "$call" "$i" sbx-reap || true
		sbx-reap || fail "after $call $i"
		assert_equal "$(things)" ""
		n=$((n + 1))
	done 4<"$BATS_TEST_TMPDIR/steps"
	echo "# $n steps" >&3
	within 5 no_process
}

@test "a keeper killed: its box dies with it, sbx-exec says so with 123, reap removes it" {
	box
	bg sbx-exec "$box" -- sh -c 'sleep 1000 & setsid sleep 1000 & sleep 1000'
	client=$!
	within 5 sh -c '[ "$(grep -lsa "[s]leep.1000" /proc/[0-9]*/cmdline | wc -l)" -ge 1 ]'
	kill -KILL "$(keeper "$box")"
	code=0
	wait "$client" || code=$?
	assert_equal "$code" 123
	run --separate-stderr sbx-exec "$box" -- true
	assert_equal "$status" 123
	assert_equal "$stderr" "sbx-exec: box '$box' has ended (lost)"
	assert_equal "$(sbx-ls -o state,cause "$box")" "$(printf 'dead\tlost')"
	# Nothing of the box runs on.
	within 5 sh -c '! grep -qs . /sys/fs/cgroup/unified/sbx/'"$box"'/cgroup.procs'
	run -0 sbx-reap -v
	assert_line "$(printf '%s\tlost' "$box")"
	assert_equal "$(things)" ""
	within 5 no_process
}
