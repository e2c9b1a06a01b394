# What a command reads and writes: byte for byte, apart, bounded, and never lost or waited for.
# shellcheck disable=SC2030,SC2031 # a state directory of its own, in a subshell
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
	box
	export box
}

# rss PID: its resident memory in KiB.
rss()
{
	awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

# kept N SUFFIX: the size of what the log of $box kept of the last command.
kept()
{
	stat -c %s "$SBX_STATE/box/$box/log/$(value seq "$SBX_TMP/st").$1" 2>/dev/null || echo 0
}

# The disk of the last test, if that failed.
teardown()
{
	if mountpoint -q "$SBX_TMP/disk"; then
		SBX_STATE=$SBX_TMP/disk/state SBX_RUN=$SBX_TMP/run-disk sbx-stop --all || true
		SBX_RUN=$SBX_TMP/run-disk unmount_shared
		umount "$SBX_TMP/disk"
	fi
}

@test "output: stdout and stderr are apart and in order" {
	run -0 --separate-stderr sbx-exec "$box" -- sh -c 'echo a; echo b >&2; echo c; echo d >&2'
	assert_output $'a\nc'
	assert_equal "$stderr" $'b\nd'
}

@test "output: is delivered as it comes, not at the end" {
	local client line
	mkfifo "$SBX_TMP/fifo"
	exec 7<>"$SBX_TMP/fifo"
	bg sbx-exec "$box" -- sh -c 'echo first; sleep 30' >&7
	client=$!
	read -r -t 20 line <&7
	exec 7>&-
	assert_equal "$line" first
	kill -0 "$client"
	kill "$client"
	wait "$client" || true
}

@test "output: what came before a time limit is delivered" {
	local code=0
	sbx-exec -t 1 --status "$SBX_TMP/st" "$box" -- sh -c 'echo a; echo b >&2; sleep 9' \
		>"$SBX_TMP/out" 2>"$SBX_TMP/err" || code=$?
	assert_equal "$code $(cat "$SBX_TMP/out") $(value end "$SBX_TMP/st")" '124 a timeout'
	grep -qx b "$SBX_TMP/err"
}

@test "output: yes on both streams is capped in the log and flagged; memory stays flat" {
	local client code peak=0 now
	bg sbx-exec -t 3 --max-output 1M --status "$SBX_TMP/st" "$box" -- sh -c 'yes >&2 & yes' \
		>/dev/null 2>&1
	client=$!
	while kill -0 "$client" 2>/dev/null; do
		now=$(rss "$client" 2>/dev/null || true)
		[ "${now:-0}" -le "$peak" ] || peak=$now
		sleep 0.2
	done
	wait "$client" || code=$?
	assert_equal "$code" 124
	[ "$peak" -gt 0 ]
	[ "$peak" -lt 4096 ]
	assert_equal "$(value truncated "$SBX_TMP/st")" 1
	assert_equal "$(kept out) $(kept err)" "$((1 << 20)) $((1 << 20))"
	[ "$(value stdout_bytes "$SBX_TMP/st")" -gt $((2 << 20)) ]
	[ "$(value stderr_bytes "$SBX_TMP/st")" -gt $((2 << 20)) ]
	[ "$(rss "$(value keeper "$SBX_RUN/box/$box/state")")" -lt 4096 ]
}

@test "output: more than the cap is drained, delivered whole, and the rest of the run works" {
	local bytes
	bytes=$(sbx-exec --max-output 1M --status "$SBX_TMP/st" "$box" -- sh -c \
		'head -c 104857600 /dev/zero; echo after >&2; exit 6' 2>"$SBX_TMP/err" | wc -c)
	assert_equal "$bytes $(cat "$SBX_TMP/err")" "$((100 << 20)) after"
	assert_equal "$(value truncated "$SBX_TMP/st") $(value stdout_bytes "$SBX_TMP/st") $(value code "$SBX_TMP/st")" \
		"1 $((100 << 20)) 6"
	assert_equal "$(kept out) $(kept err)" "$((1 << 20)) 6"
}

@test "output: a cap of 0 keeps nothing; the limit itself is not over it" {
	sbx-exec --max-output 0 --status "$SBX_TMP/st" "$box" -- echo x >/dev/null
	assert_equal "$(value truncated "$SBX_TMP/st") $(kept out)" '1 0'
	sbx-exec --max-output 4 --status "$SBX_TMP/st" "$box" -- echo abc >/dev/null
	assert_equal "$(value truncated "$SBX_TMP/st") $(kept out)" '0 4'
	sbx-exec --max-output 3 --status "$SBX_TMP/st" "$box" -- echo abc >/dev/null
	assert_equal "$(value truncated "$SBX_TMP/st") $(kept out)" '1 3'
}

@test "output: any bytes pass unchanged, and JSON stays valid" {
	sbx-exec --status "$SBX_TMP/st" "$box" -- printf '\xff\xe2\0\r' >"$SBX_TMP/bytes"
	assert_equal "$(od -An -tx1 "$SBX_TMP/bytes")" ' ff e2 00 0d'
	assert_equal "$(od -An -tx1 "$SBX_STATE/box/$box/log/$(value seq "$SBX_TMP/st").out")" ' ff e2 00 0d'
	run -0 sbx-exec --json - -- printf '\xff\xe2\0\r' <<<"$box"
	assert_equal "$(jq -r .stdout_bytes <<<"$output")" 4
	# Also as arguments: the log's record stays one line, and other tools can read it.
	sbx-exec --status "$SBX_TMP/st" "$box" -- printf %s $'a\tb\nc\\\xff' >"$SBX_TMP/bytes"
	assert_equal "$(od -An -tx1 "$SBX_TMP/bytes")" ' 61 09 62 0a 63 5c ff'
	assert_equal "$(grep -c "^seq=$(value seq "$SBX_TMP/st")	" "$SBX_STATE/box/$box/log/records")" 2
	head -c 1000000 /dev/urandom >"$SBX_TMP/random"
	sbx-exec "$box" -- cat <"$SBX_TMP/random" >"$SBX_TMP/back"
	cmp "$SBX_TMP/back" "$SBX_TMP/random"
}

@test "output: 10 MB on stdin work, slow readers and writers too" {
	local sum
	head -c 10000000 /dev/urandom >"$SBX_TMP/ten"
	sum=$(sha256sum <"$SBX_TMP/ten")
	assert_equal "$(sbx-exec "$box" -- sha256sum <"$SBX_TMP/ten")" "$sum"
	# shellcheck disable=SC2002 # a pipe, not a file
	assert_equal "$(cat "$SBX_TMP/ten" | sbx-exec "$box" -- sha256sum)" "$sum"
	assert_equal "$(sbx-exec "$box" -- cat <"$SBX_TMP/ten" | sha256sum)" "$sum"
	assert_equal "$(sbx-exec "$box" -- sh -c 'sleep 0.5; cat' <"$SBX_TMP/ten" |
		{ sleep 1; sha256sum; })" "$sum"
}

@test "output: stdin that the command does not read is no error, and its end is seen" {
	run -0 sbx-exec "$box" -- true </dev/zero
	run -0 bash -c 'yes | timeout 20 sbx-exec "$1" -- head -n 1' sh "$box"
	assert_output y
	run -0 timeout 10 sbx-exec "$box" -- cat </dev/null
	refute_output
	# A stdin that stays open and silent does not hold the call.
	mkfifo "$SBX_TMP/silent"
	exec 7<>"$SBX_TMP/silent"
	assert_equal "$(timeout 10 sbx-exec "$box" -- echo done <&7)" done
	exec 7>&-
}

@test "output: streams that are closed for us are no way to another file" {
	run -0 bash -c 'exec 0<&-; sbx-exec "$1" -- sh -c "cat; echo ok"' sh "$box"
	assert_output ok
	run bash -c 'exec 1>&-; sbx-exec "$1" -- echo lost' sh "$box"
	refute_output --partial lost
	run -0 bash -c 'exec 0<&- 2>&-; sbx-exec "$1" -- sh -c "echo ok; echo error >&2"' sh "$box"
	assert_output ok
}

@test "output: a reader that has gone ends the writer as in a plain pipe" {
	run -0 bash -c 'timeout 20 sbx-exec "$1" -- yes | head -n 1' sh "$box"
	assert_output y
	run -0 bash -c 'timeout 20 sbx-exec --status "$2/st" "$1" -- sh -c "yes; echo rest >&2" | head -n 1' \
		sh "$box" "$SBX_TMP"
	assert_line y
	assert_line rest
	assert_equal "$(value end "$SBX_TMP/st")" exit
	not_left=$(sbx-exec "$box" -- ps | grep -c '[y]es' || true)
	assert_equal "$not_left" 0
}

@test "output: a full disk under stdout is an error, the command still ends" {
	run timeout 20 bash -c 'sbx-exec "$1" -- echo lost >/dev/full' sh "$box"
	assert_equal "$status" 125
	assert_output --partial 'No space left on device'
	run timeout 20 bash -c 'sbx-exec "$1" -- yes >/dev/full' sh "$box"
	assert_equal "$status" 125
	assert_output --partial 'No space left on device'
	run timeout 20 bash -c 'echo "$1" | sbx-exec --prefix - -- echo lost >/dev/full' sh "$box"
	assert_equal "$status" 1
	assert_output --partial 'No space left on device'
	run timeout 20 bash -c 'echo "$1" | sbx-exec - -- true >/dev/full' sh "$box"
	assert_equal "$status" 125
	run timeout 20 bash -c 'sbx-exec -d "$1" -- true >/dev/full' sh "$box"
	assert_equal "$status" 125
}

@test "output: O_NONBLOCK is not set on the caller's own streams" {
	mkfifo "$SBX_TMP/fifo2" "$SBX_TMP/fifo3"
	run -0 timeout 30 bash -c '
		sbx-exec "$1" -- cat <"$2/fifo2" >"$2/fifo3" &
		exec 7>"$2/fifo2" 8<"$2/fifo3"
		sleep 0.5
		flags() { sed -n "s/^flags:[^0-9]*//p" /proc/$$/fdinfo/$1; }
		f7=$(flags 7) f8=$(flags 8)
		echo $(( ($f7 | $f8) & 04000 ))
		exec 7>&-; cat <&8; wait' sh "$box" "$SBX_TMP"
	assert_output 0
}

@test "output: a stalled reader holds its own command up, not the box" {
	mkfifo "$SBX_TMP/stall"
	exec 7<>"$SBX_TMP/stall"
	bg sbx-exec -t 60 "$box" -- dd if=/dev/zero bs=4096 count=1280 >&7
	local client=$!
	sleep 0.5
	kill -0 "$client"
	run -0 timeout 3 sbx-exec "$box" -- echo other
	assert_output other
	# The time limit holds also for one that waits for its reader.
	bg sbx-exec -t 1 "$box" -- yes >&7
	local second=$!
	sleep 2
	run -0 timeout 3 sbx-exec "$box" -- sh -c 'ps | grep -c "[y]es$" || true'
	assert_output 0
	head -c 5000000 <&7 >/dev/null
	kill "$client" "$second" 2>/dev/null || true
	timeout 5 cat <&7 >/dev/null || true
	wait "$client" "$second" || true
	exec 7>&-
}

@test "output: --prefix puts the box before each line, and lines stay whole" {
	local ids
	ids=$(sbx-create -i small -n 4)
	run -0 sbx-exec -j 4 --prefix - -- sh -c \
		'i=0; while [ $i -lt 200 ]; do echo "line $i of $SBX_ID end"; i=$((i+1)); done; printf "no newline"' \
		<<<"$ids"
	assert_equal "${#lines[@]}" $((4 * 201))
	run -0 awk -F '\t' '
		NF != 2 { bad++ }
		$2 == "no newline" { last[$1]++; next }
		$2 != "line " n[$1]++ " of " $1 " end" { bad++ }
		END { for (i in n) c += n[i] == 200 && last[i] == 1; print c, bad + 0 }' <<<"$output"
	assert_output '4 0'
	# Their stderr goes to ours, likewise.
	run -0 --separate-stderr sbx-exec -j 4 --prefix - -- sh -c 'echo out; echo err >&2' <<<"$ids"
	assert_equal "$(sort <<<"$output")" "$(awk '{ print $0 "\tout" }' <<<"$ids" | sort)"
	assert_equal "$(sort <<<"$stderr")" "$(awk '{ print $0 "\terr" }' <<<"$ids" | sort)"
	sbx-stop - <<<"$ids"
}

@test "output: a line that is long, or has no end, is bounded" {
	run -0 bash -c 'echo "$1" | sbx-exec --prefix - -- sh -c "head -c 3145728 /dev/zero | tr \"\\0\" x" |
		awk "{ n += length(\$2) } END { print n }"' sh "$box"
	assert_output $((3 << 20))
}

@test "output: a full state disk loses the log, not the command" {
	local disk=$SBX_TMP/disk
	mkdir "$disk"
	truncate -s 32M "$disk.img"
	mkfs.ext4 -q "$disk.img"
	mount -o loop "$disk.img" "$disk"
	(
		export SBX_STATE=$disk/state SBX_RUN=$SBX_TMP/run-disk
		printf 'disk_reserve = 1M\n' >"$SBX_TMP/disk.conf"
		export SBX_CONFIG=$SBX_TMP/disk.conf
		small_image
		box
		head -c 100M /dev/zero >"$disk/fill" || true
		code=0
		sbx-exec "$box" -- sh -c 'yes | head -c 5000000; exit 5' >"$SBX_TMP/out" || code=$?
		echo "$code" >"$SBX_TMP/disk-code"
		sbx-create -i small >"$SBX_TMP/disk-create" 2>&1 || echo $? >>"$SBX_TMP/disk-create"
		rm "$disk/fill"
		sbx-stop --all
		unmount_shared
	)
	umount "$disk"
	case $(cat "$SBX_TMP/disk-code") in
	5) assert_equal "$(stat -c %s "$SBX_TMP/out")" 5000000 ;;
	75) ;; # its record could not be begun: a clear refusal
	*) fail "exit $(cat "$SBX_TMP/disk-code")" ;;
	esac
	assert_equal "$(tail -n 1 "$SBX_TMP/disk-create")" 75
}

# last_end HOW: did the last command of the box end so?
last_end()
{
	tail -n 1 "$SBX_STATE/box/$box/log/records" | grep -q "ev=end.*end=$1"
}

@test "output: a reader of --prefix that stands still does not stop the time limit" {
	local client reader
	mkfifo "$SBX_TMP/stalled"
	exec 7<>"$SBX_TMP/stalled"
	bg bash -c 'echo "$1" | sbx-exec -t 1 --prefix - -- yes "a line of some length"' sh "$box" >&7
	client=$!
	within 10 last_end timeout
	# What it held comes when the reader goes on, in whole lines.
	cat <"$SBX_TMP/stalled" >"$SBX_TMP/lines" 3>&- 7>&- &
	reader=$!
	exec 7>&-
	wait "$client" || true
	wait "$reader"
	[ "$(wc -l <"$SBX_TMP/lines")" -gt 1000 ]
	sed '$d' "$SBX_TMP/lines" >"$SBX_TMP/whole"
	run -1 grep -vx "$box	a line of some length" "$SBX_TMP/whole"
}
