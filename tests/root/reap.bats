# sbx-reap: what it removes, what it leaves, beside whom it can run; and a full state disk.
# limit: 300
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

# A pid 1 whose keeper was killed waits, dead, for the node's init to collect it.
teardown_file()
{
	within 10 sh -c '! grep -qsa "$SBX_NODE\." /proc/[0-9]*/cgroup'
	sbx_teardown_file
}

teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || { sbx-stop --all; sbx-reap; } || true
	if mountpoint -q "$SBX_TMP/disk"; then
		(
			export SBX_STATE=$SBX_TMP/disk/state SBX_RUN=$SBX_TMP/disk-run
			sbx-stop --all
			sbx-reap
			unmount_shared
		) || true
		umount "$SBX_TMP/disk"
	fi
}

keeper()
{
	sed -n 's/^keeper = //p' "$SBX_RUN/box/$1/state"
}

dead()
{
	kill -KILL "$(keeper "$1")"
	within 5 sh -c '[ "$(sbx-ls -o state '"$1"')" = dead ]'
}

things()
{
	find "$SBX_STATE"/{box,slot,name} "$SBX_RUN/box" -mindepth 1 2>/dev/null
	find /sys/fs/cgroup -maxdepth 4 -path "*/sbx/$SBX_NODE.*" 2>/dev/null
}

@test "quiet and idle where nothing is to do, also where nothing was ever made" {
	run -0 sbx-reap
	assert_output ""
	run -0 sbx-reap -v
	assert_output ""
	SBX_STATE=$BATS_TEST_TMPDIR/none run -0 sbx-reap -v
	assert_output ""
	assert [ ! -e "$BATS_TEST_TMPDIR/none" ]
}

@test "what lives stays, what is dead goes; --dry-run tells and does nothing; -v tells" {
	box --name live
	live=$box
	box --name gone
	dead "$box"
	run -0 sbx-reap --dry-run
	assert_output "$(printf '%s\tlost' "$box")"
	assert [ -d "$SBX_STATE/box/$box" ]
	assert [ -L "$SBX_STATE/name/gone" ]
	run -0 sbx-reap -v
	assert_output "$(printf '%s\tlost' "$box")"
	assert [ ! -e "$SBX_STATE/box/$box" ]
	assert [ ! -e "$SBX_RUN/box/$box" ]
	assert [ ! -L "$SBX_STATE/name/gone" ]
	assert_equal "$(find "$SBX_STATE/slot" -type l -printf '%l\n')" "$live"
	sbx-exec "$live" -- true
	sbx-stop "$live"
}

@test "--keep leaves what died of late" {
	box --ttl 300ms
	within 10 sh -c '[ "$(sbx-ls -o state '"$box"')" = dead ]'
	run -0 sbx-reap -v --keep 1h
	assert_output ""
	assert_equal "$(sbx-ls -o cause "$box")" ttl
	sleep 1
	run -0 sbx-reap -v --keep 500ms
	assert_output "$(printf '%s\tttl' "$box")"
}

@test "half-made things of every kind" {
	id() { echo "$SBX_NODE.0000000000$1"; }
	mkdir -p "$SBX_STATE/slot" "$SBX_STATE/name" "$SBX_RUN/box/$(id 0)"		# before the lock
	mkdir -p "$SBX_RUN/box/$(id 1)"
	touch "$SBX_RUN/box/$(id 1)/lock" "$SBX_RUN/box/$(id 1)/state.new"
	mkdir -p "$SBX_RUN/box/.$(id 6)"			# a removal's last step
	touch "$SBX_RUN/box/.$(id 6)/lock"
	mkdir -p "$SBX_STATE/box/$(id 2)"			# before the spec
	ln -s "$(id 2)" "$SBX_STATE/slot/7"
	mkdir -p "$SBX_STATE/box/$(id 3)/log"
	echo 'id = ' >"$SBX_STATE/box/$(id 3)/spec.new"		# within it
	mkdir -p "$SBX_STATE/box/$(id 4)/upper/etc"		# a torn one
	echo 'id = x' >"$SBX_STATE/box/$(id 4)/spec"
	ln -s "$(id 5)" "$SBX_STATE/slot/9"			# a slot and a name of nobody
	ln -s "$(id 5)" "$SBX_STATE/name/nobody"
	ln -s "../../etc/passwd" "$SBX_STATE/name/odd"
	for c in memory pids cpu unified; do
		if [ -d "/sys/fs/cgroup/$c/sbx" ]; then mkdir -p "/sys/fs/cgroup/$c/sbx/$(id 4)/0"; fi
	done
	run -1 sbx-ls
	assert_output --partial "$(id 4)"
	run -0 sbx-reap -v
	assert_line "$(printf '%s\thalf-made' "$(id 0)")"
	assert_line "$(printf '%s\tlost' "$(id 4)")"
	assert_line "$(printf 'slot/9\tno-box')"
	assert_line "$(printf 'nobody\tno-box')"
	assert_equal "$(things)" ""
	run -0 sbx-reap -v
	assert_output ""
}

@test "a damaged spec of a live box: it is named, can be stopped, and others are not held up" {
	box
	other=$box
	box --name hurt
	chmod u+w "$SBX_STATE/box/$box/spec"
	printf 'garbage\0\1\2' >"$SBX_STATE/box/$box/spec"
	run -1 sbx-ls
	assert_output --partial "$other"
	assert_output --partial "$box"
	# No layer may go while it is not known what a box uses.
	run -1 sbx-reap
	assert_output --partial "$box"
	sbx-exec "$other" -- true
	sbx-stop "$box"
	assert_equal "$(sbx-ls -q)" "$other"
	sbx-reap
	assert [ ! -L "$SBX_STATE/name/hurt" ]
	sbx-stop "$other"
	assert_equal "$(things)" ""
}

@test "a torn last line of the log, and .new files, disturb nobody" {
	box
	sbx-exec "$box" -- true
	printf 'seq=9\tev=ex' >>"$SBX_STATE/box/$box/log/records"
	touch "$SBX_STATE/box/$box/spec.new" "$SBX_RUN/box/$box/state.new"
	sbx-exec "$box" -- true
	sbx-ls >/dev/null
	sbx-stop "$box"
	assert_equal "$(things)" ""
}

# Its ttl is long over, as the clock of its spec says.
age()
{
	sed "s/^created_ms = .*/created_ms = 1000000000000/" "$SBX_STATE/box/$1/spec" >"$BATS_TEST_TMPDIR/spec"
	cat "$BATS_TEST_TMPDIR/spec" >"$SBX_STATE/box/$1/spec"
}

@test "a keeper that is stopped: sbx-ls answers, and past its ttl and grace reap clears it" {
	box --ttl 1h --name stuck
	stuck=$box
	box
	kill -STOP "$(keeper "$stuck")"
	assert_equal "$(timeout 5 sbx-ls -q | wc -l)" 2
	# It is not past its time yet: it lives.
	timeout 20 sbx-reap
	assert_equal "$(sbx-ls -q | wc -l)" 2
	age "$stuck"
	run -0 timeout 20 sbx-reap --dry-run
	assert_output "$(printf '%s\tttl' "$stuck")"
	run -0 timeout 20 sbx-reap -v
	assert_output "$(printf '%s\tttl' "$stuck")"
	assert_equal "$(sbx-ls -q)" "$box"
	sbx-exec "$box" -- true
	sbx-stop "$box"
	assert_equal "$(things)" ""
}

@test "a keeper that is stopped: sbx-stop kills its box and it after its time" {
	box --name stuck
	pid=$(keeper "$box")
	bg sbx-exec "$box" -- sleep 98765
	within 5 sh -c 'grep -qsa "[s]leep.98765" /proc/[0-9]*/cmdline'
	kill -STOP "$pid"
	run -0 timeout 20 sbx-stop -t 500ms stuck
	assert_output ""
	assert_equal "$(things)" ""
	within 5 sh -c '! kill -0 '"$pid"' 2>/dev/null'
	within 5 sh -c '! grep -qsa "[s]leep.98765" /proc/[0-9]*/cmdline'
}

@test "after a reboot (no run directory) boxes are dead and lost, and reap removes them" {
	ids=$(sbx-create -i small -n 3)
	for id in $ids; do dead "$id"; done
	unmount_shared
	rm -rf --one-file-system "$SBX_RUN"
	assert_equal "$(sbx-ls -o state,cause | sort -u)" "$(printf 'dead\tlost')"
	run sbx-exec "${ids%%$'\n'*}" -- true
	assert_equal "$status" 123
	# Two at once, and a creation beside them.
	bg sbx-reap
	one=$!
	bg sbx-reap
	two=$!
	box
	wait "$one"
	wait "$two"
	assert_equal "$(sbx-ls -q)" "$box"
	sbx-exec "$box" -- true
	sbx-stop "$box"
	assert_equal "$(things)" ""
}

@test "the run directory goes while boxes live: reap ends and removes them" {
	sbx-create -i small -n 2 >/dev/null
	unmount_shared
	rm -rf --one-file-system "$SBX_RUN"
	sbx-reap
	assert_equal "$(sbx-ls -q)" ""
	within 5 sh -c '! grep -qsa "$SBX_NODE\\." /proc/[0-9]*/cmdline'
	assert_equal "$(things)" ""
}

@test "eight reaps at once over 24 dead boxes: each succeeds, all boxes are removed" {
	ids=$(sbx-create -i small -n 24)
	for id in $ids; do kill -KILL "$(keeper "$id")"; done
	within 10 sh -c '[ "$(sbx-ls -q -s dead | wc -l)" = 24 ]'
	seq 8 | xargs -P 8 -I@ sh -c 'sbx-reap -v >>"$0/out" 2>>"$0/err" || echo @ >>"$0/bad"' "$BATS_TEST_TMPDIR"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/{err,bad} 2>/dev/null)" ""
	sbx-reap
	assert_equal "$(things)" ""
	assert_equal "$(cut -f1 "$BATS_TEST_TMPDIR/out" | grep "^$SBX_NODE" | sort -u)" "$(sort <<<"$ids")"
}

@test "reap without pause while 96 creations run: none fails, none is reaped" {
	bg sh -c 'while [ ! -e "$0/done" ]; do sbx-reap -v >>"$0/reaped" 2>>"$0/err" || echo reap >>"$0/bad"; done' \
		"$BATS_TEST_TMPDIR"
	reaper=$!
	seq 96 | xargs -P 16 -I@ sh -c 'sbx-create -i small >>"$0/ids" 2>>"$0/err" || echo @ >>"$0/bad"' \
		"$BATS_TEST_TMPDIR"
	touch "$BATS_TEST_TMPDIR/done"
	wait "$reaper"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/{err,bad} 2>/dev/null)" ""
	assert_equal "$(sbx-ls -q -s running | sort)" "$(sort "$BATS_TEST_TMPDIR/ids")"
	sbx-stop --all
	assert_equal "$(things)" ""
}

@test "layers are unmounted when no box uses them, and mounted again for the next" {
	box
	assert [ "$(grep -c " $SBX_RUN/layer/" /proc/self/mountinfo)" = 1 ]
	sbx-reap
	assert [ "$(grep -c " $SBX_RUN/layer/" /proc/self/mountinfo)" = 1 ]
	sbx-stop "$box"
	sbx-reap
	assert_equal "$(grep -c " $SBX_RUN/" /proc/self/mountinfo)" 0
	box
	sbx-exec "$box" -- true
	sbx-stop "$box"
}

@test "a full state disk: 75 and why, nothing is half-made; sbx-reap frees the space" {
	d=$SBX_TMP/disk
	mkdir "$d"
	truncate -s 48M "$BATS_TEST_TMPDIR/img"
	mkfs.ext4 -q -m 0 -N 4096 "$BATS_TEST_TMPDIR/img"
	mount -o loop "$BATS_TEST_TMPDIR/img" "$d"
	echo 'disk_reserve = 0' >"$BATS_TEST_TMPDIR/conf"
	(
		export SBX_STATE=$d/state SBX_RUN=$SBX_TMP/disk-run SBX_CONFIG=$BATS_TEST_TMPDIR/conf
		small_image
		hog=$(sbx-create -i small -m 64M)
		sbx-exec "$hog" -- sh -c 'cat /dev/zero >/big' 2>/dev/null || true
		dd if=/dev/zero of="$d/rest" bs=1k 2>/dev/null || true
		assert_equal "$(df --output=avail "$d" | tail -n 1 | tr -d ' ')" 0
		# Until one fails: small files may still find room in what is left of directories.
		for _ in $(seq 20); do
			status=0
			sbx-create -i small -m 64M >"$BATS_TEST_TMPDIR/id" 2>"$BATS_TEST_TMPDIR/err" || status=$?
			[ "$status" = 0 ] || break
		done
		cat "$BATS_TEST_TMPDIR/err"
		assert_equal "$status" 75
		assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/err")" 1
		grep -q "'$SBX_STATE'" "$BATS_TEST_TMPDIR/err"
		# A box that lives goes on, and its commands run although the log has no room.
		sbx-ls >/dev/null
		kill -KILL "$(keeper "$hog")"
		within 5 sh -c '[ "$(sbx-ls -o state '"$hog"')" = dead ]'
		sbx-reap
		[ "$(df --output=avail "$d" | tail -n 1)" -gt 10000 ] || fail "no space came back"
		# With the default reserve the refusal comes before the disk is full.
		SBX_CONFIG='' run sbx-create -i small
		assert_equal "$status" 75
		assert_output --partial disk_reserve
		sbx-create -i small -m 64M >/dev/null
		sbx-stop --all
		sbx-reap
		assert_equal "$(things)" ""
		unmount_shared
	)
}
