# sbx-exec: who a command is and where, how it ends, and that nothing of it stays.
load ../helpers

setup_file()
{
	sbx_setup_file
	small_root "$SBX_TMP/small-root"
	cat >>"$SBX_TMP/small-root/etc/passwd" <<-E
		dev:x:1001:1002:dev:/home/dev:/bin/sh
		nohome:x:1003:1003:none:/does/not/exist:/bin/sh
	E
	cat >>"$SBX_TMP/small-root/etc/group" <<-E
		dev:x:1002:
		docker:x:2000:user,dev
		audio:x:2001:dev
	E
	mkdir -p "$SBX_TMP/small-root/home/dev" "$SBX_TMP/small-root/srv"
	printf 'not a program' >"$SBX_TMP/small-root/bin/plain"
	printf '#!/bin/none\n' >"$SBX_TMP/small-root/bin/noint"
	printf '#!/bin/sh\necho script "$@"\n' >"$SBX_TMP/small-root/bin/script"
	gcc -D_GNU_SOURCE -static -O1 -o "$SBX_TMP/small-root/bin/hold" "$top/tests/root/hold.c"
	chmod 755 "$SBX_TMP/small-root/bin/noint" "$SBX_TMP/small-root/bin/script"
	sbx-img import --name small "$SBX_TMP/small-root" >/dev/null
	box
	export box
}

# ended PID: its exit code is in $code.
ended()
{
	code=0
	wait "$1" || code=$?
}

# ex COMMAND...: in the file's box
ex()
{
	sbx-exec "$box" -- "$@"
}

# in_box PATTERN: is there such a command line in the box? The pattern must not match itself.
in_box()
{
	sbx-exec "$box" -- sh -c 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" " "' |
		grep -q -e "$1"
}

not_in_box()
{
	! in_box "$1"
}

cpu_ticks()
{
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

@test "exec: a background process does not hold a call open" {
	local i
	for i in 1 2 3; do
		run -0 timeout 10 sbx-exec "$box" -- sh -c 'sleep 999 & echo hi'
		assert_output hi
		run -0 timeout 10 sbx-exec "$box" -- sh -c 'setsid sleep 998 & echo hi'
		assert_output hi
		run -0 timeout 10 sbx-exec "$box" -- sh -c 'sleep 997 </dev/null >/dev/null 2>&1 & echo hi'
		assert_output hi
	done
	[ "$(sbx-exec "$box" -- sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "' |
		grep -o 'sleep 99[789]' | wc -l)" -ge 9 ]
	ex killall sleep
}

@test "exec: a background process goes on writing after the call has returned" {
	run -0 timeout 10 sbx-exec "$box" -- sh -c '
		(i=0; while [ $i -lt 50 ]; do echo line $i; echo $i >/tmp/lines; i=$((i+1)); sleep 0.01; done
		echo done >/tmp/lines) & echo hi'
	assert_line hi
	within 20 sbx-exec "$box" -- grep -q done /tmp/lines
}

@test "exec: a background process that floods its old stdout costs the keeper no CPU" {
	local keeper before after
	run -0 timeout 10 sbx-exec "$box" -- sh -c 'yes & yes >&2 & echo hi'
	keeper=$(value keeper "$SBX_RUN/box/$box/state")
	before=$(cpu_ticks "$keeper")
	sleep 1
	after=$(cpu_ticks "$keeper")
	ex killall yes
	# A hundred ticks are one CPU for the whole second.
	[ $((after - before)) -lt 30 ]
}

@test "exec: -t ends the whole tree of a command" {
	local before
	run -124 sbx-exec -t 1 "$box" -- sh -c 'while :; do echo x >>/tmp/grow; sleep 0.01; done'
	before=$(ex wc -c /tmp/grow)
	sleep 0.3
	assert_equal "$(ex wc -c /tmp/grow)" "$before"

	run -124 timeout 20 sbx-exec -t 1 "$box" -- sh -c \
		"setsid sh -c 'trap \"\" TERM INT HUP; sleep 991'; sleep 991"
	not_in_box 'sleep 991'
	run -124 timeout 20 sbx-exec -t 1 "$box" -- sh -c 'trap "" TERM; sleep 992 & setsid sleep 992 &
		(setsid sh -c "trap \"\" TERM; sleep 992 & wait" &) ; wait'
	not_in_box 'sleep 992'
	run -124 timeout 20 sbx-exec -t 250ms "$box" -- sh -c 'while :; do :; done'
	run -0 sbx-exec -t 60 "$box" -- echo alive
	assert_output alive
}

@test "exec: -t that ends one command leaves the others of the box" {
	bg sbx-exec "$box" -- sh -c 'sleep 990; :'
	local other=$!
	within 10 in_box 'sleep 990'
	run -124 sbx-exec -t 250ms "$box" -- sleep 50
	in_box 'sleep 990'
	kill "$other"
	wait "$other" || true
}

# hold_all BOX: a tracer in it that lets go of nothing; its client is in $!.
hold_all()
{
	sbx-exec "$1" -- rm -f /tmp/held
	bg sbx-exec "$1" -- sh -c 'exec hold seize >/tmp/held'
}

# held BOX CODE COMMAND...: with such a tracer, COMMAND ends with CODE, and soon; the tracer is killed.
held()
{
	local a=$1 want=$2 tracer
	shift 2
	hold_all "$a"
	tracer=$!
	within 10 test -e "$SBX_STATE/box/$a/upper/tmp/held"
	run "-$want" timeout -s KILL 15 "$@"
	ended "$tracer"
	assert_equal "$code" 137
	# It did hold something, or this test shows nothing.
	grep -q seized "$SBX_STATE/box/$a/upper/tmp/held"
}

@test "exec: a tracer in the box that holds a dead command does not hold the client" {
	local a
	a=$(sbx-create -i small)
	# Long enough to be seized; a child, or a signal that is not SIGKILL, would wait for the tracer.
	local spin='i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'
	held "$a" 3 sbx-exec "$a" -- sh -c "$spin; exit 3"
	held "$a" 137 sbx-exec --status "$SBX_TMP/st-held" "$a" -- sh -c "$spin; kill -KILL \$\$"
	assert_equal "$(value end "$SBX_TMP/st-held") $(value signal "$SBX_TMP/st-held")" 'signal 9'
	held "$a" 124 sbx-exec -t 1 "$a" -- sleep 9
	# A thread that is held keeps even the pidfd silent.
	held "$a" 124 sbx-exec -t 1 "$a" -- hold threads
	run -0 timeout 10 sbx-exec "$a" -- true
	run -0 timeout 15 sbx-stop "$a"
}

@test "exec: kill -9 of the client ends its command's tree, unless it is detached" {
	bg sbx-exec "$box" -- sh -c 'trap "" TERM HUP; sleep 981 & setsid sleep 981 & sleep 981'
	local client=$! n
	within 10 in_box 'sleep 981'
	kill -9 "$client"
	wait "$client" || true
	within 10 not_in_box 'sleep 981'

	run -0 sbx-exec -d "$box" -- sleep 982
	assert_output --regexp '^[0-9]+$'
	within 10 in_box 'sleep 982'
	sleep 0.2
	in_box 'sleep 982'
	ex killall sleep
}

@test "exec: the exit code is the command's" {
	run -0 ex true
	run -1 ex false
	run -7 ex sh -c 'exit 7'
	run -255 ex sh -c 'exit 255'
	run -137 ex sh -c 'kill -9 $$'
	run -143 ex sh -c 'kill -TERM $$'
	run -139 ex sh -c 'kill -SEGV $$'
	run -7 bash -c "trap '' CHLD; exec sbx-exec $box -- sh -c 'exit 7'"
	run -127 ex no-such-command
	assert_output "sbx-exec: cannot run 'no-such-command': No such file or directory"
	run -127 ex /no/such/command
	run -127 ex ''
	run -126 ex /bin/plain
	assert_output --partial 'Permission denied'
	run -126 ex /etc
	run -127 ex noint
	run -0 ex script 'a  b' ''
	assert_output 'script a  b '
}

@test "exec: misuse is 125 and says what is missing" {
	run -125 sbx-exec
	run -125 sbx-exec "$box"
	assert_output --partial 'needs a command'
	run -125 sbx-exec "$box" --
	run -125 sbx-exec --no-such-option "$box" true
	run -125 sbx-exec -t nonsense "$box" true
	run -125 sbx-exec -T -d "$box" true
	run -125 sbx-exec -e =x "$box" true
	run -123 sbx-exec "$SBX_NODE.00000000000" true
	assert_output --partial "$SBX_NODE.00000000000"
	refute [ -e "$SBX_STATE/box/$SBX_NODE.00000000000" ]
}

@test "exec: options after the box are the command's" {
	run -0 sbx-exec "$box" echo -t 1 --help
	assert_output -- '-t 1 --help'
	run -0 sbx-exec "$box" -- echo -- x
	assert_output -- '-- x'
}

@test "exec: -u takes names and groups of the box, and numbers" {
	run -0 ex id
	assert_output --partial 'uid=0(root) gid=0(root)'
	run -0 sbx-exec -u user "$box" -- sh -c 'id -u; id -g; id -G; echo $HOME; pwd'
	assert_line --index 0 1000
	assert_line --index 1 1000
	assert_line --index 2 '1000 2000'
	assert_line --index 3 /tmp
	assert_line --index 4 /tmp
	run -0 sbx-exec -u dev "$box" -- sh -c 'id -u; id -g; id -G; pwd'
	assert_output $'1001\n1002\n1002 2000 2001\n/home/dev'
	run -0 sbx-exec -u dev:audio "$box" -- id -G
	assert_output 2001
	run -0 sbx-exec -u dev:77 "$box" -- sh -c 'id -u; id -G'
	assert_output $'1001\n77'
	run -0 sbx-exec -u 1001 "$box" -- sh -c 'id -u; id -G; echo $HOME'
	assert_output $'1001\n1002 2000 2001\n/home/dev'
	run -0 sbx-exec -u 4242 "$box" -- sh -c 'id -u; id -G; echo $HOME; pwd'
	assert_output $'4242\n0\n/\n/'
	run -0 sbx-exec -u 4242:4343 "$box" -- sh -c 'id -u; id -G'
	assert_output $'4242\n4343'
	run -0 sbx-exec -u nohome "$box" -- pwd
	assert_output /
}

@test "exec: a user or group the box does not have is refused before anything runs" {
	run -125 sbx-exec -u nobody-here "$box" -- touch /tmp/ran
	assert_output --partial "no user 'nobody-here' in the box"
	run -125 sbx-exec -u user:nogroup-here "$box" -- touch /tmp/ran
	assert_output --partial "no group 'nogroup-here' in the box"
	run -125 sbx-exec -u 65536 "$box" -- touch /tmp/ran
	run -125 sbx-exec -u 4294967295 "$box" -- touch /tmp/ran
	run -125 sbx-exec -u -1 "$box" -- touch /tmp/ran
	run -1 ex test -e /tmp/ran
}

@test "exec: -w is the directory, and a missing one is refused" {
	run -0 sbx-exec -w /srv "$box" -- pwd
	assert_output /srv
	run -125 sbx-exec -w /no/such "$box" -- touch /tmp/ran
	assert_output --partial "/no/such"
	run -125 sbx-exec -w /etc/passwd "$box" -- touch /tmp/ran
	run -125 sbx-exec -u user -w /root "$box" -- touch /tmp/ran
	run -1 ex test -e /tmp/ran
}

@test "exec: the environment is the box's, not the caller's" {
	FROM_CALLER=1 LD_PRELOAD='' run -0 ex env
	refute_output --partial FROM_CALLER
	refute_output --partial SBX_STATE
	assert_line "SBX_ID=$box"
	assert_line HOME=/root
	assert_line PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	run -0 sbx-exec -e A=1 -e B= -e 'C=a  b=c' -e A=2 -e HOME=/x "$box" -- env
	assert_line A=2
	refute_line A=1
	assert_line B=
	assert_line 'C=a  b=c'
	assert_line HOME=/x
	refute_line HOME=/root
	D=fromhere run -0 sbx-exec -e D -e NOT_SET_AT_ALL "$box" -- env
	assert_line D=fromhere
	refute_output --partial NOT_SET_AT_ALL
	run -0 sbx-exec -e PATH=/srv:/bin "$box" -- sh -c 'echo $PATH'
	assert_output /srv:/bin
	run -127 sbx-exec -e PATH=/srv "$box" -- ls
}

# docker_image NAME CONFIG: the small root as a docker archive with that config.
docker_image()
{
	local dir=$SBX_TMP/docker-$1 sum
	mkdir -p "$dir"
	tar -C "$SBX_TMP/small-root" -cf "$dir/layer.tar" .
	sum=$(sha256sum "$dir/layer.tar" | cut -d' ' -f1)
	printf '{"architecture":"amd64","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$2" "$sum" >"$dir/config.json"
	printf '[{"Config":"config.json","RepoTags":["%s:latest"],"Layers":["layer.tar"]}]' "$1" \
		>"$dir/manifest.json"
	tar -C "$dir" -cf "$dir.tar" manifest.json config.json layer.tar
	sbx-img import --name "$1" "$dir.tar" >/dev/null
}

@test "exec: defaults come from the image, then the box, then the command" {
	docker_image conf '{"Env":["FROM_IMAGE=i","BOTH=i"],"WorkingDir":"/srv","User":"dev"}'
	local a b
	a=$(sbx-create -i conf)
	b=$(sbx-create -i conf -u user -w /etc -e BOTH=b -e BOX=b)
	run -0 sbx-exec "$a" -- sh -c 'id -un; pwd; echo $FROM_IMAGE $BOTH $HOME'
	assert_output $'dev\n/srv\ni i /home/dev'
	run -0 sbx-exec "$b" -- sh -c 'id -un; pwd; echo $FROM_IMAGE $BOTH $BOX'
	assert_output $'user\n/etc\ni b b'
	run -0 sbx-exec -u 0 -w / -e BOTH=c "$b" -- sh -c 'id -un; pwd; echo $FROM_IMAGE $BOTH $BOX'
	assert_output $'root\n/\ni c b'
	sbx-stop "$a" "$b"
}

@test "exec: signals to the client reach the command" {
	local sig client
	for sig in INT TERM USR1 HUP; do
		ex rm -f /tmp/got /tmp/ready
		bg sbx-exec --status "$SBX_TMP/sig" "$box" -- sh -c \
			"trap 'echo $sig >/tmp/got; exit 9' $sig; touch /tmp/ready; while :; do sleep 0.05; done"
		client=$!
		within 10 sbx-exec "$box" -- test -e /tmp/ready
		kill -s "$sig" "$client"
		ended "$client"
		assert_equal "$code" 9
		assert_equal "$(ex cat /tmp/got)" "$sig"
	done
	bg sbx-exec "$box" -- sleep 50
	client=$!
	within 10 in_box 'sleep 50'
	kill -TERM "$client"
	ended "$client"
	assert_equal "$code" 143
}

@test "exec: --status and --status-fd give the same keys" {
	run -3 sbx-exec --status "$SBX_TMP/st" "$box" -- sh -c 'echo out; echo error >&2; exit 3'
	run -0 cut -d= -f1 "$SBX_TMP/st"
	assert_output $'end\ncode\nsignal\nwall_ms\ncpu_ms\nmem_peak\nstdout_bytes\nstderr_bytes\ntruncated\nseq'
	assert_equal "$(value end "$SBX_TMP/st")" exit
	assert_equal "$(value code "$SBX_TMP/st")" 3
	assert_equal "$(value signal "$SBX_TMP/st")" 0
	assert_equal "$(value stdout_bytes "$SBX_TMP/st")" 4
	assert_equal "$(value stderr_bytes "$SBX_TMP/st")" 6
	assert_equal "$(value truncated "$SBX_TMP/st")" 0
	sbx-exec --status-fd 7 "$box" -- sh -c 'kill -TERM $$' 7>"$SBX_TMP/st7" || true
	assert_equal "$(value end "$SBX_TMP/st7")" signal
	assert_equal "$(value signal "$SBX_TMP/st7")" 15
	assert_equal "$(cut -d= -f1 "$SBX_TMP/st7")" "$(cut -d= -f1 "$SBX_TMP/st")"
	[ "$(value seq "$SBX_TMP/st7")" -gt "$(value seq "$SBX_TMP/st")" ]
}

@test "exec: a status record that cannot be written is refused before the command runs" {
	run -125 sbx-exec --status /no/such/dir/st "$box" -- touch /tmp/ran
	assert_output --partial "/no/such/dir/st"
	run -125 sbx-exec --status-fd 88 "$box" -- touch /tmp/ran
	run -1 ex test -e /tmp/ran
	# One that fails at its end cannot be refused any more, but is no success either.
	run -125 sbx-exec --status /dev/full "$box" -- true
}

@test "exec: -d prints the number and leaves output in the log" {
	local n
	run -0 timeout 10 sbx-exec -d --status "$SBX_TMP/std" "$box" -- sh -c 'sleep 0.3; echo out; echo err >&2; exit 5'
	n=$output
	within 10 grep -q '^end=' "$SBX_TMP/std"
	assert_equal "$(value code "$SBX_TMP/std")" 5
	assert_equal "$(value seq "$SBX_TMP/std")" "$n"
	assert_equal "$(cat "$SBX_STATE/box/$box/log/$n.out")" out
	assert_equal "$(cat "$SBX_STATE/box/$box/log/$n.err")" err
	grep -q "seq=$n	ev=exec.*detach=1" "$SBX_STATE/box/$box/log/records"
	grep -q "seq=$n	ev=end.*code=5" "$SBX_STATE/box/$box/log/records"
	# The time limit of a detached command holds as well.
	run -0 sbx-exec -d -t 250ms --status "$SBX_TMP/std2" "$box" -- sleep 60
	within 10 grep -q '^end=timeout' "$SBX_TMP/std2"
	# One that cannot be started says so to the caller.
	run -123 sbx-exec -d "$SBX_NODE.00000000000" -- true
}

@test "exec: -d of a command that cannot be started leaves that in the log" {
	local n seq failed=0 records=$SBX_STATE/box/$box/log/records
	# Somewhere between too few descriptors for a number and enough for all it fails after the number.
	for n in $(seq 8 40); do
		seq=$(ulimit -n "$n"; sbx-exec -d "$box" -- true 2>/dev/null) || continue
		within 10 grep -q "seq=$seq	ev=end" "$records"
		refute grep -q "seq=$seq	ev=end.*client-gone" "$records"
		if grep -q "seq=$seq	ev=end.*end=exit	code=125" "$records"; then
			failed=$((failed + 1))
		fi
	done
	[ "$failed" -gt 0 ]
}

@test "exec: an argument of 130 KB and an environment of 2 MB work or are refused with the limit" {
	local big env=() i
	big=$(head -c 130000 /dev/zero | tr '\0' a)
	run -0 sbx-exec "$box" -- sh -c 'echo ${#1}' sh "$big"
	assert_output 130000
	big=$(head -c 100000 /dev/zero | tr '\0' e)
	for i in $(seq 12); do env+=(-e "V$i=$big"); done
	run -0 sbx-exec "${env[@]}" "$box" -- sh -c 'echo ${#V1} ${#V12}'
	assert_output '100000 100000'
	for i in $(seq 13 20); do env+=(-e "V$i=$big"); done
	(
		ulimit -s 65536
		run sbx-exec "${env[@]}" "$box" -- sh -c 'echo ${#V1} ${#V20}'
		if [ "$status" -eq 0 ]; then
			assert_output '100000 100000'
		else
			assert_equal "$status" 126
			assert_output --partial '2 MiB'
		fi
	)
	# And the box still answers.
	run -0 ex echo ok
}

@test "exec: a box whose pid 1 is stopped, or that hangs, does not stop others" {
	local a b pid client
	a=$(sbx-create -i small) b=$(sbx-create -i small)
	pid=$(value pid "$SBX_RUN/box/$a/state")
	kill -STOP "$pid"
	bg sbx-exec "$b" -- sh -c 'trap "" TERM; while :; do sleep 1; done'
	client=$!
	run -0 timeout 3 sbx-ls
	assert_line --partial "$a"
	run -0 timeout 3 sbx-reap
	run -0 timeout 3 sbx-exec "$box" -- echo other
	assert_output other
	run -0 timeout 3 sbx-exec "$b" -- echo same
	assert_output same
	run timeout 3 sbx-exec "$a" -- echo stopped
	run -0 timeout 10 sbx-stop "$a" "$b"
	ended "$client"
	assert_equal "$code" 123
}

@test "exec: a keeper that is stopped holds up no other box, and is found out" {
	local a keeper
	a=$(sbx-create -i small)
	keeper=$(value keeper "$SBX_RUN/box/$a/state")
	kill -STOP "$keeper"
	run -0 timeout 3 sbx-ls
	run -0 timeout 3 sbx-reap
	run -0 timeout 3 sbx-exec "$box" -- echo other
	kill -CONT "$keeper"
	run -0 sbx-exec "$a" -- echo again
	run -0 sbx-stop "$a"
}

@test "exec: a client that is stopped does not hold sbx-stop up" {
	local a client
	a=$(sbx-create -i small)
	bg sbx-exec "$a" -- sleep 60
	client=$!
	within 10 grep -q ev=exec "$SBX_STATE/box/$a/log/records"
	sleep 0.2
	kill -STOP "$client"
	run -0 timeout 15 sbx-stop "$a"
	refute [ -e "$SBX_STATE/box/$a" ]
	kill -CONT "$client" 2>/dev/null || true
	wait "$client" || true
}

# Where only a process that is born in the group counts (v2), there is no room for the command itself;
# where a process is moved into it (v1), there is, but not for its children.
@test "exec: a box at its limit of tasks says so" {
	local a
	a=$(sbx-create -i small --pids 8)
	bg sbx-exec "$a" -- sh -c 'for i in 1 2 3 4 5 6; do sleep 60 & done; : >/tmp/full; wait'
	within 10 test -e "$SBX_STATE/box/$a/upper/tmp/full"
	run timeout 10 sbx-exec "$a" -- sh -c 'true & wait'
	[ "$status" -ne 0 ]
	assert_output --regexp "limit of tasks|can't fork: Resource temporarily unavailable"
	run -0 timeout 15 sbx-stop "$a"
}

@test "exec: a fork bomb is held by its box" {
	local a
	a=$(sbx-create -i small --pids 40)
	run timeout 20 sbx-exec -t 1 "$a" -- sh -c 'f() { f | f & f; }; f'
	run -0 timeout 3 sbx-exec "$box" -- echo other
	run -0 timeout 15 sbx-stop "$a"
}

@test "exec: '-' runs the command in each box and prints one record each" {
	local ids
	ids=$(sbx-create -i small -n 5)
	run -0 sbx-exec -j 3 - -- true <<<"$ids"
	assert_equal "${#lines[@]}" 5
	for id in $ids; do assert_line --regexp "^$id	exit	0	0	0	"; done
	run -0 sbx-exec -j 5 --json - -- sh -c 'echo "$SBX_ID"' <<<"$ids"
	assert_equal "$(jq -r .id <<<"$output" | sort)" "$(sort <<<"$ids")"
	assert_equal "$(jq -s 'map(.stdout_bytes) | add' <<<"$output")" $((5 * (${#SBX_NODE} + 13)))
	# The exit of one is in its record, and in the exit of all.
	run -1 sbx-exec -j 2 -H - -- sh -c "test \$SBX_ID != $(head -1 <<<"$ids")" <<<"$ids"
	assert_line --index 0 --partial 'exit'
	assert_line --regexp "^$(head -1 <<<"$ids")	exit	1	1	"
	# Lines of other tools begin with the ID; an unknown one is warned of, the rest goes on.
	run -1 --separate-stderr sbx-exec -j 2 -o id,end - -- true < <(awk '{ print $0 "\trunning\tx" } END { print "nobody" }' <<<"$ids")
	assert_equal "${#lines[@]}" 5
	[ -n "$stderr" ]
	run -1 sbx-exec -j 5 -t 250ms -o end,exit - -- sleep 60 <<<"$ids"
	assert_equal "$(sort -u <<<"$output")" $'timeout\t124'
	sbx-stop - <<<"$ids"
}

@test "exec: a box that has ended is a record of its own among many" {
	local a b
	a=$(sbx-create -i small) b=$(sbx-create -i small)
	kill -9 "$(value pid "$SBX_RUN/box/$a/state")"
	within 10 test -e "$SBX_STATE/box/$a/end"
	run -1 --separate-stderr sbx-exec -o id,end,exit - -- true <<<"$a"$'\n'"$b"
	assert_line "$a	failed	123"
	assert_line "$b	exit	0"
	sbx-stop "$a" "$b"
}

@test "exec: --no-stdin in a while-read loop leaves the rest of the list" {
	local ids n=0
	ids=$(sbx-create -i small -n 3)
	while read -r id; do
		sbx-exec --no-stdin "$id" -- cat
		n=$((n + 1))
	done <<<"$ids"
	assert_equal "$n" 3
	sbx-stop - <<<"$ids"
}
