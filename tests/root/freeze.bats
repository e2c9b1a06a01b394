# A box held still by connections to its keeper: how it begins, how it ends, what goes on meanwhile.
# limit: 300
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # quoted scripts are the box's; box is set by others
load ../helpers

setup_file()
{
	sbx_setup_file
	cc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/freeze" "$top/tests/helpers/freeze.c" "$O/dyn/libsbx.a"
	small_image
}

teardown()
{
	local p
	for p in $holders; do kill -KILL "$p" 2>/dev/null || true; done
	fsfreeze -u "$SBX_STATE/box" 2>/dev/null || true
	sbx-stop --all
	if mountpoint -q "$SBX_STATE/box"; then umount "$SBX_STATE/box"; fi
}

# hold: freezes $box; the holder's pid is in $holder, what it says in $said.
hold()
{
	said=$(mktemp "$BATS_TEST_TMPDIR/said.XXXXXX")
	bg "$SBX_TMP/freeze" "$box" >"$said" 2>&1
	holder=$!
	holders+=" $holder"
	within 30 grep -q . "$said"
	grep -q '^frozen [0-9]*$' "$said"
}

# writer: a command that makes a file of the box longer all the time.
writer()
{
	sbx-exec -d "$box" -- sh -c 'while :; do echo >>/count; done' >/dev/null
	within 10 moved ""
}

count()
{
	stat -c %s "$SBX_STATE/box/$box/upper/count"
}

# moved N: the writer has gone on from N.
moved()
{
	[ "$(count)" != "$1" ]
}

still()
{
	local at
	at=$(count)
	[ -n "$at" ]
	sleep 0.3
	assert_equal "$(count)" "$at"
	grep -q 'frozen 1' "$(group)/cgroup.events"
}

going()
{
	within 10 moved "$(count)"
	grep -q 'frozen 0' "$(group)/cgroup.events"
}

group()
{
	find /sys/fs/cgroup -maxdepth 3 -path "*/sbx/$box" -exec test -e {}/cgroup.freeze \; -print
}

keeper()
{
	sed -n 's/^keeper = //p' "$SBX_RUN/box/$box/state"
}

gone()
{
	! sbx-ls -q | grep -qx "$1"
}

ended()
{
	[ "$(sbx-ls -o state "$box")" = dead ]
}

@test "a writer stands still while the box is held, and goes on when the holder lets go" {
	box
	writer
	hold
	still
	kill -USR1 "$holder"
	within 10 grep -q thawed "$said"
	going
	hold
	still
	sbx-stop "$box"
	within 10 grep -q ended "$said"
}

@test "a holder that is killed holds no more" {
	box
	writer
	hold
	still
	kill -KILL "$holder"
	going
}

@test "two holders: the last one thaws" {
	box
	writer
	hold
	first=$holder
	hold
	still
	kill -KILL "$first"
	still
	kill -KILL "$holder"
	going
}

@test "a command begun meanwhile waits for the thaw, its time limit does not" {
	box
	hold
	bg sbx-exec "$box" -- sh -c 'echo done' >"$BATS_TEST_TMPDIR/out"
	waiter=$!
	run -124 sbx-exec -t 1 --status "$BATS_TEST_TMPDIR/status" "$box" -- sleep 60
	assert_equal "$(value end "$BATS_TEST_TMPDIR/status")" timeout
	assert [ ! -s "$BATS_TEST_TMPDIR/out" ]
	kill -KILL "$holder"
	wait "$waiter"
	assert_equal "$(cat "$BATS_TEST_TMPDIR/out")" "done"
	run -0 sbx-exec "$box" -- sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "'
	refute_output --partial "sleep 60"
}

@test "a time limit set before the freeze ends its command, too" {
	box
	bg sbx-exec -t 2 "$box" -- sh -c 'sleep 60 & sleep 60'
	client=$!
	within 10 sh -c 'sbx-exec "$1" -- sh -c "cat /proc/[0-9]*/cmdline" | tr "\0" " " | grep -q "[s]leep 60"' sh "$box"
	hold
	code=0
	wait "$client" || code=$?
	assert_equal "$code" 124
}

@test "time to live and idle time end a frozen box" {
	box --ttl 2
	writer
	hold
	within 20 ended
	within 10 grep -q ended "$said"
	assert_equal "$(sbx-ls -o cause "$box")" ttl
	sbx-stop "$box"
	box --idle 2
	hold
	within 20 ended
	assert_equal "$(sbx-ls -o cause "$box")" idle
}

@test "a keeper killed: its frozen box dies with it" {
	box
	writer
	hold
	kill -KILL "$(keeper)"
	within 10 ended
	within 10 grep -q ended "$said"
	within 10 sh -c '! grep -qsa "$1" /proc/[0-9]*/cgroup' sh "$box"
	sbx-reap
	within 10 gone "$box"
}

@test "a hundred processes that come and go" {
	box --pids 1024
	sbx-exec -d "$box" -- sh -c 'for i in $(seq 90); do sleep 1000 & done
		while :; do for i in 1 2 3 4; do /bin/true & done; wait -n; echo >>/count; done'
	within 20 moved ""
	for _ in 1 2 3 4 5; do
		hold
		still
		kill -KILL "$holder"
		going
	done
}

# A write to a file system that is frozen itself sleeps uninterruptibly.
@test "a box that cannot be frozen goes on, and who asked is told" {
	d=$BATS_TEST_TMPDIR/disk
	truncate -s 64M "$d"
	mkfs.ext4 -q "$d"
	mount -o loop "$d" "$SBX_STATE/box"
	printf 'disk_reserve = 0\n' >"$BATS_TEST_TMPDIR/conf"
	export SBX_CONFIG=$BATS_TEST_TMPDIR/conf
	box
	writer
	fsfreeze -f "$SBX_STATE/box"
	bg "$SBX_TMP/freeze" "$box" >"$BATS_TEST_TMPDIR/said" 2>&1
	holders=$!
	code=0
	wait "$holders" || code=$?
	freeze=$(cat "$(group)/cgroup.freeze")
	fsfreeze -u "$SBX_STATE/box"
	assert_equal "$code" 75
	assert_equal "$freeze" 0
	grep -q "cannot be frozen" "$BATS_TEST_TMPDIR/said"
	going
	hold
	still
	sbx-stop "$box"
}
