# Many boxes at once, and many one after the other: none fails, none meets another, nothing is left.
# CYCLES=10000 soaks longer; BOXES and AT_ONCE change the crowd.
# limit: 600
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers

setup_file()
{
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300}
	sbx_setup_file
	small_image
	# Room for the crowd, whatever else the machine does.
	printf 'mem_reserve = 64M\nmem = 64M\npids = 64\n' >"$SBX_TMP/sbx.conf"
	export SBX_CONFIG=$SBX_TMP/sbx.conf
}

teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || sbx-stop --all || true
}

# census: what there is of this node, as numbers that must come back.
census()
{
	echo "cgroups $(find /sys/fs/cgroup -maxdepth 4 -path '*/sbx/*' -type d | grep -c "$SBX_NODE")"
	echo "mounts $(grep -c "$SBX_TMP" /proc/self/mountinfo)"
	echo "locks $(find "$SBX_STATE" "$SBX_RUN" -xdev -name '*lock*' | wc -l)"
	echo "files $(find "$SBX_STATE" "$SBX_RUN" -xdev | wc -l)"
	echo "processes $(grep -lsa "$SBX_NODE\\." /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup | wc -l)"
}

@test "800 creations side by side: none fails" {
	n=${BOXES:-800}
	seq "$n" | xargs -P "${AT_ONCE:-64}" -I@ sh -c 'sbx-create -i small >>"$0/ids" 2>>"$0/err" || echo @ >>"$0/bad"' \
		"$BATS_TEST_TMPDIR"
	assert_equal "$(cat "$BATS_TEST_TMPDIR/err" "$BATS_TEST_TMPDIR/bad" 2>/dev/null)" ""
	assert_equal "$(sort -u "$BATS_TEST_TMPDIR/ids" | wc -l)" "$n"
	assert_equal "$(sbx-ls -q -s running | wc -l)" "$n"
	# Every slot is somebody's, and nobody has two.
	assert_equal "$(find "$SBX_STATE/slot" -type l -printf '%l\n' | sort)" "$(sort "$BATS_TEST_TMPDIR/ids")"

	# With that many alive, looking and cleaning are still quick.
	start=$(date +%s%N)
	sbx-ls >/dev/null
	sbx-reap
	ms=$((($(date +%s%N) - start) / 1000000))
	echo "# $n boxes: sbx-ls and sbx-reap took $ms ms" >&3
	[ "$ms" -lt 5000 ] || fail "sbx-ls and sbx-reap took $ms ms"

	# Each can run a command.
	shuf -n 300 "$BATS_TEST_TMPDIR/ids" | sbx-exec -j 16 - -- true >"$BATS_TEST_TMPDIR/out"
	assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/out")" 300
	sbx-stop - <"$BATS_TEST_TMPDIR/ids"
	run -0 leftovers
	refute_output
}

@test "50 first commands against an absent state directory: none fails" {
	export SBX_STATE=$BATS_TEST_TMPDIR/a/b/state SBX_RUN=$BATS_TEST_TMPDIR/a/run
	small_cache
	seq 50 | xargs -P 50 -I@ sh -c '
		case $(($1 % 5)) in
		0) sbx-img import --name small "$O/cache/small-root" >/dev/null ;;
		1) sbx-reap ;;
		2) sbx-img ls >/dev/null ;;
		3) sbx-create -i small 2>&1 >>"$0/ids" | grep -v "no image .small." ;;
		4) sbx-ls 2>&1 >/dev/null | grep -v "nothing was made on this node yet" ;;
		esac >>"$0/err" 2>&1 || true' "$BATS_TEST_TMPDIR" @
	assert_equal "$(cat "$BATS_TEST_TMPDIR/err")" ""
	sbx-create -i small >>"$BATS_TEST_TMPDIR/ids"
	assert_equal "$(sbx-ls -q | sort)" "$(sort "$BATS_TEST_TMPDIR/ids")"
	sbx-stop --all
	sbx-reap
	unmount_shared
}

@test "200 created and stopped side by side: no box holds a mount of another" {
	export census=$BATS_TEST_TMPDIR
	bg sh -c '
		while [ ! -e "$0/done" ]; do
			for m in /proc/[0-9]*/mountinfo; do
				# An overlay of ours shows its upper by the box it belongs to.
				n=$(grep -c " - overlay sbx " "$m" 2>/dev/null)
				[ "${n:-0}" -le 1 ] || echo "$n overlays in $m" >>"$0/shared"
			done
			sleep 0.2
		done' "$census"
	watch=$!
	seq 200 | xargs -P 16 -I@ sh -c '
		id=$(sbx-create -i small 2>>"$0/err") && sbx-exec "$id" -- true 2>>"$0/err" && sbx-stop "$id" 2>>"$0/err" ||
			echo "@ $id" >>"$0/bad"' "$BATS_TEST_TMPDIR"
	touch "$census/done"
	wait "$watch" || true
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/{err,bad,shared} 2>/dev/null)" ""
	run -0 leftovers
	refute_output
}

@test "the host's mount table does not grow with boxes, and a box sees its own mounts alone" {
	before=$(wc -l </proc/self/mountinfo)
	run -0 sbx-create -i small -n 20
	ids=("${lines[@]}")
	after=$(wc -l </proc/self/mountinfo)
	[ "$after" -le $((before + 3)) ] || fail "$before mounts, then $after"
	n=$(sbx-exec "${ids[0]}" -- sh -c 'cat /proc/self/mountinfo' | tee "$BATS_TEST_TMPDIR/m" | grep -c overlay)
	assert_equal "$n" 1
	# Its root's own line names the upper; nothing else of the node is there.
	assert_equal "$(grep -v ' / / .* - overlay ' "$BATS_TEST_TMPDIR/m" | grep -c "$SBX_TMP")" 0
	sbx-stop "${ids[@]}"
}

@test "${CYCLES:-300} cycles of create, exec, stop leave what there was" {
	# One round first: what is made once for the node is there after it.
	box
	sbx-exec "$box" -- true
	sbx-stop "$box"
	census >"$BATS_TEST_TMPDIR/before"
	cycles=${CYCLES:-300}
	seq $((cycles / 10)) | xargs -P 4 -I@ sh -c '
		sbx-create -i small -n 10 >"$0/@" && sbx-exec "$(head -n 1 "$0/@")" -- true && sbx-stop - <"$0/@" ||
			echo "@" >>"$0/bad"
		rm -f "$0/@"' "$BATS_TEST_TMPDIR"
	assert [ ! -e "$BATS_TEST_TMPDIR/bad" ]
	census | diff "$BATS_TEST_TMPDIR/before" -
}

@test "a fork bomb inside: others go on, and stop removes all of it" {
	box --pids 256
	bomb=$box
	box
	other=$box
	bg sbx-exec "$bomb" -- sh -c 'b() { b | b & }; b; sleep 100'
	sleep 1
	start=$(date +%s%N)
	sbx-exec -t 20 "$other" -- true
	sbx-ls >/dev/null
	echo "# beside a fork bomb: $((($(date +%s%N) - start) / 1000000)) ms" >&3
	sbx-stop "$bomb"
	assert_equal "$(sbx-ls -q)" "$other"
	sbx-stop "$other"
	run -0 leftovers
	refute_output
}

@test "root inside makes control groups and processes in them: stop removes all" {
	box
	sbx-exec "$box" -- sh -c 'for c in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir -p $c/a/b/c; done; sleep 1000 & sleep 1000 & setsid sleep 1000 & true' 2>/dev/null || true
	sbx-stop "$box"
	run -0 leftovers
	refute_output
}

@test "ten boxes, one memory hog: nine live" {
	sbx-create -i small -n 10 -m 32M >"$BATS_TEST_TMPDIR/ids"
	hog=$(head -n 1 "$BATS_TEST_TMPDIR/ids")
	sbx-exec --status "$BATS_TEST_TMPDIR/st" "$hog" -- sh -c 'dd if=/dev/zero bs=200M count=1 | cat >/dev/null' || true
	assert_equal "$(value end "$BATS_TEST_TMPDIR/st")" oom
	tail -n 9 "$BATS_TEST_TMPDIR/ids" | while read -r id; do
		sbx-exec "$id" -- true </dev/null || echo "$id" >>"$BATS_TEST_TMPDIR/bad"
	done
	assert [ ! -e "$BATS_TEST_TMPDIR/bad" ]
	sbx-stop - <"$BATS_TEST_TMPDIR/ids"
}

@test "one box with its pid 1 stopped: sbx-ls, sbx-reap and other boxes answer within a second" {
	box
	stuck=$box
	box
	pid=$(sbx-ls -o pid "$stuck")
	kill -STOP "$pid"
	for cmd in "sbx-ls" "sbx-reap" "sbx-exec $box -- true"; do
		start=$(date +%s%N)
		timeout 10 $cmd >/dev/null
		ms=$((($(date +%s%N) - start) / 1000000))
		[ "$ms" -lt 2000 ] || fail "$cmd took $ms ms"
	done
	sbx-stop "$stuck" "$box"
	run -0 leftovers
	refute_output
}
