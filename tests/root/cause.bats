# Why a command or a box ended: every cause has a name of its own, and one exit code.
# shellcheck disable=SC2030,SC2031,SC2154 # code and others are set by functions, anew in each test
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

# status_of OPTION... -- COMMAND...: runs it in $box; the record is in $SBX_TMP/st, the code in $code.
status_of()
{
	code=0
	rm -f "$SBX_TMP/st"
	timeout 60 sbx-exec --status "$SBX_TMP/st" "$@" 2>"$SBX_TMP/err" || code=$?
}

cause_of()
{
	value cause "$SBX_STATE/box/$1/end"
}

has_end()
{
	test -e "$SBX_STATE/box/$1/end"
}

# Takes memory until something ends it.
hog='x=0123456789abcdef; while :; do x=$x$x; done'

@test "cause: exit, signal and timeout" {
	box
	status_of "$box" -- sh -c 'exit 3'
	assert_equal "$code $(value end "$SBX_TMP/st") $(value code "$SBX_TMP/st")" '3 exit 3'
	status_of "$box" -- sh -c 'kill -9 $$'
	assert_equal "$code $(value end "$SBX_TMP/st") $(value signal "$SBX_TMP/st")" '137 signal 9'
	status_of "$box" -- sh -c 'kill -USR1 $$'
	assert_equal "$code $(value end "$SBX_TMP/st") $(value signal "$SBX_TMP/st")" '138 signal 10'
	status_of -t 1 "$box" -- sh -c 'echo a; sleep 9' >"$SBX_TMP/out"
	assert_equal "$code $(value end "$SBX_TMP/st")" '124 timeout'
	assert_equal "$(cat "$SBX_TMP/out")" a
	[ "$(value wall_ms "$SBX_TMP/st")" -ge 1000 ]
	# A command that exits with 124 or 137 of its own has not timed out, nor was it killed.
	status_of "$box" -- sh -c 'exit 124'
	assert_equal "$code $(value end "$SBX_TMP/st") $(value code "$SBX_TMP/st")" '124 exit 124'
	status_of "$box" -- sh -c 'exit 137'
	assert_equal "$code $(value end "$SBX_TMP/st") $(value signal "$SBX_TMP/st")" '137 exit 0'
	sbx-stop "$box"
}

@test "cause: a command killed for memory is oom, one killed by kill -9 is not" {
	box -m 32M
	status_of "$box" -- sh -c "$hog"
	assert_equal "$code $(value end "$SBX_TMP/st") $(value signal "$SBX_TMP/st")" '137 oom 9'
	[ "$(value mem_peak "$SBX_TMP/st")" -gt $((16 << 20)) ]
	run -0 cat "$SBX_TMP/err"
	assert_output --partial 'killed for memory'
	status_of "$box" -- sh -c 'kill -9 $$'
	assert_equal "$code $(value end "$SBX_TMP/st")" '137 signal'
	status_of "$box" -- true
	assert_equal "$code $(value end "$SBX_TMP/st")" '0 exit'
	sbx-stop "$box"
}

@test "cause: a grandchild killed for memory is oom though the shell exits 0" {
	box -m 32M
	status_of "$box" -- sh -c "sh -c 'sh -c \"\$1\"; true' sh '$hog'; exit 0"
	assert_equal "$code $(value end "$SBX_TMP/st") $(value code "$SBX_TMP/st")" '0 oom 0'
	# The record of the next command says nothing of it.
	status_of "$box" -- true
	assert_equal "$(value end "$SBX_TMP/st")" exit
	sbx-stop "$box"
}

@test "cause: a memory hog in one command is not the cause of another's end" {
	box -m 32M
	bg sbx-exec --status "$SBX_TMP/other" "$box" -- sh -c 'sleep 2; exit 4'
	local other=$!
	status_of "$box" -- sh -c "$hog"
	assert_equal "$(value end "$SBX_TMP/st")" oom
	wait "$other" || true
	# It may have been picked in the hog's stead, but then its own record says that.
	[ "$(value end "$SBX_TMP/other")" = exit ] || [ "$(value end "$SBX_TMP/other")" = oom ]
	sbx-stop "$box"
}

@test "cause: one memory hog among ten boxes, nine live" {
	local ids hog_box id
	ids=$(sbx-create -i small -m 32M -n 10)
	hog_box=$(head -n 1 <<<"$ids")
	sbx-exec -j 10 -o id,end - -- sh -c \
		"[ \$SBX_ID = $hog_box ] || exec sleep 2; $hog" <<<"$ids" >"$SBX_TMP/ten" || true
	assert_equal "$(grep -c '	exit$' "$SBX_TMP/ten")" 9
	assert_equal "$(grep '	oom$' "$SBX_TMP/ten")" "$hog_box	oom"
	for id in $ids; do
		[ "$id" = "$hog_box" ] || assert_equal "$(sbx-exec "$id" -- echo live)" live
	done
	# The hog's box lives too: only its command was killed.
	assert_equal "$(sbx-exec "$hog_box" -- echo live)" live
	sbx-stop - <<<"$ids"
}

@test "cause: after the box's pid 1 has died the next command says so at once" {
	box
	local keeper
	keeper=$(value keeper "$SBX_RUN/box/$box/state")
	kill -9 "$(value pid "$SBX_RUN/box/$box/state")"
	within 10 has_end "$box"
	assert_equal "$(cause_of "$box")" init-died
	run -123 timeout 3 sbx-exec "$box" -- true
	assert_output "sbx-exec: box '$box' has ended (init-died)"
	run -123 timeout 3 sbx-exec "$box" -- true
	run -123 timeout 3 sbx-exec -d "$box" -- true
	run -0 sbx-ls -o state,cause
	assert_line "dead	init-died"
	# No keeper goes round for a dead box.
	within 5 refute [ -e "/proc/$keeper" ]
	sbx-stop "$box"
	run -123 sbx-exec "$box" -- true
	assert_output --partial "$box"
}

@test "cause: a box that ends under a command is not a kill by signal" {
	box
	bg sbx-exec --status "$SBX_TMP/bd" "$box" -- sleep 60
	local client=$! code=0
	within 10 grep -q ev=exec "$SBX_STATE/box/$box/log/records"
	sleep 0.2
	kill -9 "$(value pid "$SBX_RUN/box/$box/state")"
	wait "$client" || code=$?
	assert_equal "$code $(value end "$SBX_TMP/bd")" '123 box-died'
	assert_equal "$(cause_of "$box")" init-died
	grep -q 'ev=end.*end=box-died' "$SBX_STATE/box/$box/log/records"
	sbx-stop "$box"
}

@test "cause: a box that is stopped under a command" {
	box
	bg sbx-exec --status "$SBX_TMP/bs" "$box" -- sh -c 'trap "" TERM; while :; do sleep 1; done'
	local client=$! code=0
	within 10 grep -q ev=exec "$SBX_STATE/box/$box/log/records"
	sleep 0.2
	run -0 timeout 15 sbx-stop --keep "$box"
	wait "$client" || code=$?
	assert_equal "$code $(value end "$SBX_TMP/bs")" '123 box-died'
	assert_equal "$(cause_of "$box")" stopped
	run -123 sbx-exec "$box" -- true
	assert_output --partial '(stopped)'
	sbx-stop "$box"
}

@test "cause: a keeper that is killed takes its box with it" {
	box
	local pid code=0
	pid=$(value pid "$SBX_RUN/box/$box/state")
	bg sbx-exec --status "$SBX_TMP/lost" "$box" -- sleep 60
	local client=$!
	within 10 grep -q ev=exec "$SBX_STATE/box/$box/log/records"
	sleep 0.2
	kill -9 "$(value keeper "$SBX_RUN/box/$box/state")"
	wait "$client" || code=$?
	assert_equal "$code $(value end "$SBX_TMP/lost")" '123 box-died'
	within 10 refute [ -e "/proc/$pid" ]
	run -123 timeout 3 sbx-exec "$box" -- true
	assert_output --partial '(lost)'
	run -0 timeout 20 sbx-reap
	refute [ -e "$SBX_STATE/box/$box" ]
}

@test "cause: ttl ends a box, also during a command" {
	box --ttl 1s
	within 15 has_end "$box"
	assert_equal "$(cause_of "$box")" ttl
	run -123 sbx-exec "$box" -- true
	assert_output --partial '(ttl)'
	sbx-stop "$box"

	box --ttl 2s
	status_of "$box" -- sh -c 'trap "" TERM; echo begun; sleep 60'
	assert_equal "$code $(value end "$SBX_TMP/st")" '123 box-died'
	assert_equal "$(cause_of "$box")" ttl
	sbx-stop "$box"
}

@test "cause: idle ends a box that nobody uses, not one that works" {
	box --idle 2s
	status_of "$box" -- sleep 4
	assert_equal "$code $(value end "$SBX_TMP/st")" '0 exit'
	within 20 has_end "$box"
	assert_equal "$(cause_of "$box")" idle
	run -123 sbx-exec "$box" -- true
	assert_output --partial '(idle)'
	sbx-stop "$box"
}

@test "cause: root in the box cannot end it by signals to its pid 1" {
	box
	run sbx-exec "$box" -- sh -c 'for s in TERM INT KILL STOP HUP USR1 SEGV; do kill -$s 1; done; echo sent'
	assert_output --partial sent
	run -0 sbx-exec "$box" -- echo alive
	assert_output alive
	# kill -9 of every process it can see is the end of the command alone.
	run -137 sbx-exec "$box" -- sh -c 'kill -9 -1; kill -9 $$'
	run -0 sbx-exec "$box" -- echo alive
	sbx-stop "$box"
}
