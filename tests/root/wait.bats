# sbx-wait: boxes and commands, before, while and after they end.
# shellcheck disable=SC2154,SC2016 # box and lines are set by others; quoted scripts are the box's
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

# ended CODE PID: not with run, whose subshell cannot wait for a child of this shell.
ended()
{
	local code=0
	wait "$2" || code=$?
	assert_equal "$code" "$1"
}

teardown()
{
	sbx-stop --all
}

@test "a command's end: its code, its signal, its time limit, now and later" {
	box
	local n
	n=$(sbx-exec -d "$box" -- sh -c 'sleep 0.3; exit 7')
	run -7 sbx-wait "$box" "$n"
	refute_output
	run -7 sbx-wait --status-fd 1 "$box" "$n"
	assert_line end=exit
	assert_line code=7
	assert_line "seq=$n"
	n=$(sbx-exec -d "$box" -- sh -c 'kill -9 $$')
	run -137 sbx-wait "$box" "$n"
	n=$(sbx-exec -d -t 0.2 "$box" -- sleep 60)
	run -124 sbx-wait "$box" "$n"
	refute_output
	run -125 sbx-wait "$box" 99
	assert_output --partial "has no command 99"
}

@test "its own time limit is a 124 and ends nothing" {
	box
	local n
	n=$(sbx-exec -d "$box" -- sleep 60)
	run -124 sbx-wait -t 0.2 "$box" "$n"
	assert_output --partial "has not ended yet"
	run -124 sbx-wait -t 0.2 "$box"
	run -0 sbx-ls -o state "$box"
	assert_output running
}

@test "a box that dies under a command: 123, also when asked later" {
	box
	local n pid
	n=$(sbx-exec -d "$box" -- sleep 60)
	bg sbx-wait "$box" "$n"
	pid=$!
	sleep 0.2
	sbx-stop --keep "$box"
	ended 123 "$pid"
	run -123 sbx-wait "$box" "$n"
	run -0 sbx-wait --status-fd 1 "$box"
	assert_line cause=stopped
}

@test "a keeper killed by force leaves no waiter behind" {
	box
	local n w1 w2
	n=$(sbx-exec -d "$box" -- sleep 60)
	bg sbx-wait "$box" "$n"
	w1=$!
	bg sbx-wait --status "$SBX_TMP/status" "$box"
	w2=$!
	sleep 0.2
	kill -9 "$(pgrep -f "sbx-keep $box")"
	ended 123 "$w1"
	ended 0 "$w2"
	run -0 value cause "$SBX_TMP/status"
	assert_output lost
}

@test "the cause is told though the box's files go at once" {
	box
	bg sbx-wait --status "$SBX_TMP/status" "$box"
	local pid=$!
	sleep 0.2
	sbx-stop "$box"
	ended 0 "$pid"
	run -0 value cause "$SBX_TMP/status"
	assert_output stopped
	run -123 sbx-wait "$box"
}

@test "many boxes, from stdin too; an unknown one is a 1 after the wait" {
	sbx-create -i small -n 8 --ttl 500ms 3>&- >"$SBX_TMP/ids"
	sbx-ls >"$SBX_TMP/records"
	run -0 sbx-wait -t 30 - <"$SBX_TMP/records"
	run -0 sbx-ls -o state,cause
	assert_equal "$(sort -u <<<"$output")" "$(printf 'dead\tttl')"
	run -1 sbx-wait "$(head -1 "$SBX_TMP/ids")" nowhere
	assert_output "sbx-wait: no box 'nowhere' on this node"
}

@test "no end is missed: short commands, waited for at once" {
	box
	for i in $(seq 20); do
		run "-$i" sbx-wait -t 20 "$box" "$(sbx-exec -d "$box" -- sh -c "exit $i")"
	done
}
