# sbx-log: records and output, living and dead, and following.
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

@test "one record a command, in the order of beginnings; argv as a shell would read it" {
	box
	sbx-exec -u 1000 -w /tmp "$box" -- printf '%s|' "it's" '' 'a b' "$(printf 'n\nl')" >"$SBX_TMP/out"
	run -3 sbx-exec "$box" -- sh -c 'exit 3'
	sbx-exec -d "$box" -- sleep 60
	run -0 sbx-log -o seq,ev,end,code,user,cwd "$box"
	assert_output "$(printf '%s\n' $'0\tcreate\t-\t-\t-\t-' $'1\texec\texit\t0\t1000\t/tmp' \
		$'2\texec\texit\t3\t-\t-' $'3\texec\t-\t-\t-\t-')"
	# Through a shell, quoted words come out as they went in.
	eval "set -- $(sbx-log --json "$box" 1 | python3 -c 'import json,sys; print(json.load(sys.stdin)["argv"])')"
	[ $# -eq 6 ]
	[ "$3" = "it's" ]
	[ "$4" = '' ]
	[ "$6" = "$(printf 'n\nl')" ]
	run -0 sbx-log --raw -o seq,ev "$box" 2
	assert_output "$(printf '2\texec\n2\tend')"
}

@test "the kept output is there byte for byte; what is missing is said" {
	box
	sbx-exec "$box" -- sh -c 'printf "\377\0\r\n"; printf err >&2' >/dev/null 2>&1
	run -0 sbx-log --stdout "$box" 1
	sbx-log --stdout "$box" 1 | od -An -tx1 >"$SBX_TMP/bytes"
	assert_equal "$(cat "$SBX_TMP/bytes")" " ff 00 0d 0a"
	run -0 sbx-log --stderr "$box" 1
	assert_output err
	sbx-exec --max-output 10 "$box" -- seq 100 >/dev/null
	run -0 --separate-stderr sbx-log --stdout "$box" 2
	assert_equal "$output" "$(seq 5)"
	[[ $stderr == *"not all of the output of command 2 was kept"* ]]
	run -125 sbx-log --stdout "$box" 9
	run -125 sbx-log "$box" 9
	run -125 sbx-log --stdout "$box"
}

@test "a dead box's log, with a torn last line, until it is removed" {
	box
	sbx-exec "$box" -- true
	sbx-exec -d "$box" -- sleep 60
	sbx-stop --keep "$box"
	printf 'seq=9\tev=exec\tti' >>"$SBX_STATE/box/$box/log/records"
	run -0 sbx-log -o seq,end,cause "$box"
	assert_output "$(printf '0\t-\t-\n1\texit\t-\n2\tbox-died\t-\n3\t-\tstopped')"
	run -0 timeout 5 sbx-log -f -o seq "$box"
	sbx-stop "$box"
	run -123 sbx-log "$box"
}

@test "-f follows a box to its end, printing each command as it ends" {
	box
	local pid
	sbx-log -f -o ev,end,cause "$box" >"$SBX_TMP/follow" 3>&- &
	pid=$!
	within 5 grep -q create "$SBX_TMP/follow"
	sbx-exec -d "$box" -- sleep 0.5
	sbx-exec "$box" -- true
	within 5 grep -q exit "$SBX_TMP/follow"
	within 5 eval '[ "$(grep -c exit "$SBX_TMP/follow")" -eq 2 ]'
	sbx-stop --keep "$box"
	wait "$pid"
	assert_equal "$(tail -1 "$SBX_TMP/follow")" "$(printf 'stop\t-\tstopped')"
}

@test "-f follows a command's output to its end, all of it" {
	box
	local n
	n=$(sbx-exec -d "$box" -- sh -c 'for i in 1 2 3 4 5; do echo $i; sleep 0.1; done')
	run -0 timeout 20 sbx-log -f --stdout "$box" "$n"
	assert_output "$(seq 5)"
	run -0 timeout 20 sbx-log -f -o seq,end "$box" "$n"
	assert_output "$(printf '%s\texit' "$n")"
}

@test "followed on a terminal, a command's words cannot drive it" {
	box
	sbx-exec "$box" -- true $'\e[2J'
	sbx-stop --keep "$box"
	run -0 script -qec "sbx-log -f -o seq,argv $box" /dev/null
	refute_output --partial $'\e'
	assert_output --partial "true '?[2J'"
}
