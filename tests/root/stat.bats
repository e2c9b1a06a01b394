# sbx-stat: specification, state, use and end of a box.
# shellcheck disable=SC2154,SC2016 # box and lines are set by others; quoted scripts are the box's
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

teardown()
{
	sbx-stop --all
}

@test "a living box: what was asked, how it is, what it uses" {
	box --name mine -c 0.5 --ttl 1h -l a=b -e X=1 -e Y=2 -u 1000
	sbx-exec "$box" -- true
	sbx-exec -d "$box" -- sleep 60
	sbx-stat mine >"$SBX_TMP/stat"
	for pair in "id=$box" name=mine state=running ttl_ms=3600000 cpu_milli=500 mem_bytes=67108864 \
		pids=64 labels=a=b user=1000 net=none commands=2 running=1 tasks=2 oom_kills=0 env=X=1 env=Y=2; do
		grep -qx -- "$pair" "$SBX_TMP/stat" || fail "no '$pair'"
	done
	[ "$(value mem_peak_bytes "$SBX_TMP/stat")" -gt 100000 ]
	run -1 grep '^cause=\|^idle_for_ms=\|^disk' "$SBX_TMP/stat"
}

@test "records have the same names; several boxes, stdin, unknown ones" {
	box
	local one=$box
	box
	run -0 sbx-stat -o id,state "$one" "$box"
	assert_output "$(printf '%s\trunning\n%s\trunning' "$one" "$box")"
	sbx-ls >"$SBX_TMP/list"
	run -0 sbx-stat --json - <"$SBX_TMP/list"
	[ "${#lines[@]}" -eq 2 ]
	python3 -c 'import json,sys; [json.loads(l) for l in sys.stdin]' <<<"$output"
	run -1 sbx-stat -o id "$one" nowhere
	assert_line "$one"
	assert_line "sbx-stat: no box 'nowhere' on this node"
	run -123 sbx-stat nowhere
}

@test "a dead box: why, and what it had used" {
	box
	run sbx-exec "$box" -- sh -c 'dd if=/dev/zero of=/dev/null bs=80M count=1'
	sbx-stop --keep "$box"
	sbx-stat "$box" >"$SBX_TMP/stat"
	run -0 value cause "$SBX_TMP/stat"
	assert_output stopped
	[ "$(value oom_kills "$SBX_TMP/stat")" -ge 1 ]
	[ "$(value mem_peak_bytes "$SBX_TMP/stat")" -gt 30000000 ]
}

@test "--disk counts as du does, follows no link and stops at nothing" {
	box
	sbx-exec "$box" -- sh -c 'mkdir -p /d/e/f; head -c 3M /dev/zero >/d/e/f/g; ln -s / /d/l
		ln /d/e/f/g /d/h; mkfifo /d/p; i=0; while [ $i -lt 600 ]; do mkdir d; cd d; i=$((i + 1)); done'
	run -0 sbx-stat --disk "$box"
	sbx-stat --disk "$box" >"$SBX_TMP/stat"
	local du
	du=$(du -s --count-links --block-size=1 "$SBX_STATE/box/$box/upper" | cut -f1)
	assert_equal "$(value disk_bytes "$SBX_TMP/stat")" "$du"
	run -0 value disk_partial "$SBX_TMP/stat"
	assert_output 0
}

@test "a stopped keeper and a stopped box do not hold it up" {
	box
	local keeper
	keeper=$(pgrep -f "sbx-keep $box")
	sbx-exec -d "$box" -- sh -c 'kill -STOP -1'
	kill -STOP "$keeper"
	run -0 timeout 1 sbx-stat -o state "$box"
	kill -CONT "$keeper"
	assert_output running
}
