# sbx-create: what each option does inside, what is refused and how, what is left after a refusal.
# limit: 600
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

# A test that failed must not fail the next ones.
teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || sbx-stop --all || true
}

# refused CODE TEXT ARG...: sbx-create ARG fails with CODE, one line with TEXT, no ID and no box.
refused()
{
	local code=$1 text=$2
	shift 2
	run --separate-stderr sbx-create "$@"
	assert_equal "$status" "$code"
	assert_equal "$output" ""
	# shellcheck disable=SC2154 # set by run
	assert_equal "${#stderr_lines[@]}" 1
	[[ $stderr == "sbx-create: "*"$text"* ]] || fail "'$text' is not in '$stderr'"
	nothing_made
}

nothing_made()
{
	assert_equal "$(find "$SBX_STATE"/{box,slot,name} "$SBX_RUN/box" -mindepth 1 2>/dev/null)" ""
	assert_equal "$(find /sys/fs/cgroup -maxdepth 4 -path "*/sbx/$SBX_NODE.*")" ""
}

conf()
{
	printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/sbx.conf"
	export SBX_CONFIG=$BATS_TEST_TMPDIR/sbx.conf
}

in_box()
{
	sbx-exec "$box" -- "$@"
}

# image NAME: the small root, changed by what is on stdin (run in it), imported as NAME.
image()
{
	rm -rf "${BATS_TEST_TMPDIR:?}/$1"
	small_root "$BATS_TEST_TMPDIR/$1"
	(cd "$BATS_TEST_TMPDIR/$1" && bash -e)
	sbx-img import --name "$1" "$BATS_TEST_TMPDIR/$1" >/dev/null
}

@test "-n prints that many IDs, alone on stdout, and each box runs a command" {
	run --separate-stderr sbx-create -i small -n 5
	assert_equal "$status" 0
	assert_equal "$stderr" ""
	assert_equal "${#lines[@]}" 5
	for id in "${lines[@]}"; do
		[[ $id =~ ^"$SBX_NODE".[0-9a-z]{11}$ ]]
		assert_equal "$(sbx-exec "$id" -- hostname)" "${id##*.}"
	done
	sbx-stop "${lines[@]}"
}

@test "-m binds: the limit of the group, /dev/shm, and a hog" {
	box -m 32M
	# Half of it is for /dev/shm.
	assert_equal "$(in_box sh -c "df -k /dev/shm | awk 'END { print \$2 }'")" 16384
	run in_box sh -c 'dd if=/dev/zero of=/dev/shm/x bs=1M count=20'
	assert_output --partial "No space left"
	in_box rm -f /dev/shm/x
	sbx-exec --status "$BATS_TEST_TMPDIR/st" "$box" -- sh -c 'x=; dd if=/dev/zero bs=64M count=1 | cat >/dev/null' || true
	assert_equal "$(value end "$BATS_TEST_TMPDIR/st")" oom
	run cat /sys/fs/cgroup/memory/sbx/"$box"/memory.limit_in_bytes /sys/fs/cgroup/sbx/"$box"/memory.max
	assert_line $((32 << 20))
	sbx-stop "$box"
}

@test "--pids binds" {
	box --pids 8
	run in_box sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; wait'
	assert_output --partial "an't fork"
	sbx-stop "$box"
}

@test "-c binds: a quarter of a CPU" {
	box -c 0.25
	sbx-exec -t 2 --status "$BATS_TEST_TMPDIR/st" "$box" -- sh -c 'while :; do :; done' || true
	assert_equal "$(value end "$BATS_TEST_TMPDIR/st")" timeout
	cpu=$(value cpu_ms "$BATS_TEST_TMPDIR/st")
	# A quarter of 2 s, and what one period (100 ms) may add on each side.
	[ "$cpu" -ge 50 ] && [ "$cpu" -le 800 ] || fail "cpu_ms $cpu"
	sbx-stop "$box"
}

@test "--name is unique, stands for the ID, and is free again after the box" {
	box --name worker
	refused_name=$box
	run --separate-stderr sbx-create -i small --name worker
	assert_equal "$status" 125
	assert_equal "$stderr" "sbx-create: the name 'worker' is taken by box '$refused_name'"
	assert_equal "$(sbx-exec worker -- hostname)" "${box##*.}"
	assert_equal "$(sbx-ls -q | wc -l)" 1
	sbx-stop worker
	box --name worker
	sbx-stop worker
}

@test "of 12 creations with one name at once, one gets it" {
	seq 12 | xargs -P 12 -I@ sh -c 'sbx-create -i small --name one >>$0/out 2>>$0/err; echo $? >>$0/rc' \
		"$BATS_TEST_TMPDIR"
	assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/out")" 1
	assert_equal "$(grep -c '^0$' "$BATS_TEST_TMPDIR/rc")" 1
	assert_equal "$(grep -c '^125$' "$BATS_TEST_TMPDIR/rc")" 11
	sbx-stop one
}

@test "a name whose box is gone is taken over, by one" {
	mkdir -p "$SBX_STATE/name"
	ln -s "$SBX_NODE.00000000000" "$SBX_STATE/name/stale"
	seq 12 | xargs -P 12 -I@ sh -c 'sbx-create -i small --name stale >>$0/out 2>/dev/null' \
		"$BATS_TEST_TMPDIR" || true
	assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/out")" 1
	assert_equal "$(readlink "$SBX_STATE/name/stale")" "$(cat "$BATS_TEST_TMPDIR/out")"
	sbx-stop stale
}

@test "--hostname" {
	box --hostname build-7
	assert_equal "$(in_box hostname)" build-7
	assert_equal "$(in_box grep -c build-7 /etc/hosts)" 1
	sbx-stop "$box"
}

@test "-e K=V, -e K takes the caller's, the last one wins, one that is unset is left out" {
	unset NOT_SET
	FROM_ME='a b' box -e X=1 -e FROM_ME -e NOT_SET -e 'Y=p=q r' -e X=2
	run -0 in_box env
	assert_line X=2
	refute_line X=1
	assert_line "FROM_ME=a b"
	assert_line "Y=p=q r"
	assert_line SBX_ID="$box"
	refute_output --partial NOT_SET
	sbx-stop "$box"
}

@test "-l, and the filters of sbx-ls" {
	a=$(sbx-create -i small -l task=1 -l kind=x)
	b=$(sbx-create -i small -l task=2 -l kind=x)
	assert_equal "$(sbx-ls -q -l task=1)" "$a"
	assert_equal "$(sbx-ls -q -l kind=x -l task=2)" "$b"
	assert_equal "$(sbx-ls -q -l kind | wc -l)" 2
	assert_equal "$(sbx-ls -q -l kind=y)" ""
	sbx-stop --all -l task=1
	assert_equal "$(sbx-ls -q)" "$b"
	sbx-stop "$b"
}

@test "--ttl and --idle end a box, with their cause" {
	a=$(sbx-create -i small --ttl 500ms)
	b=$(sbx-create -i small --idle 500ms)
	c=$(sbx-create -i small --idle 1s)
	# Idle is the time without a command: one that runs keeps the box.
	sbx-exec "$c" -- sleep 2
	within 10 sh -c '[ "$(sbx-ls -s dead | wc -l)" -ge 2 ]'
	assert_equal "$(sbx-ls -o cause "$a")" ttl
	assert_equal "$(sbx-ls -o cause "$b")" idle
	run ! sbx-exec "$a" -- true
	assert_equal "$status" 123
	assert_output --partial "ttl"
	sbx-stop "$a" "$b" "$c"
}

@test "-u and -w" {
	box -u user -w /var
	assert_equal "$(in_box sh -c 'id -u; id -g; pwd' | tr '\n' ' ')" "1000 1000 /var "
	assert_equal "$(sbx-exec -u 5:7 "$box" -- sh -c 'id -u; id -g' | tr '\n' ' ')" "5 7 "
	sbx-stop "$box"
}

@test "--net none has lo alone, --net host shares the node's links" {
	box
	assert_equal "$(in_box sh -c 'ls /sys/class/net; cat /proc/net/dev | wc -l' | tr '\n' ' ')" "lo 3 "
	in_box ping -c 1 -W 2 127.0.0.1
	sbx-stop "$box"
	box --net host
	assert_equal "$(in_box cat /proc/net/dev | awk -F: 'NR > 2 { print $1 }' | sort)" \
		"$(awk -F: 'NR > 2 { print $1 }' /proc/net/dev | sort)"
	assert_equal "$(in_box cat /etc/resolv.conf)" "$(cat /etc/resolv.conf)"
	sbx-stop "$box"
}

@test "--seccomp FILE: its rules are the box's" {
	sed 's/\<mkdir\>//; s/\<mkdirat\>//' "$SBX_SHARE/seccomp/default" >"$BATS_TEST_TMPDIR/no-mkdir"
	box --seccomp "$BATS_TEST_TMPDIR/no-mkdir"
	run ! in_box mkdir /tmp/x
	in_box touch /tmp/x
	sbx-stop "$box"
	box
	in_box mkdir /tmp/x
	sbx-stop "$box"
	refused 125 "no seccomp profile 'nada'" -i small --seccomp nada
	refused 125 "'/nada'" -i small --seccomp /nada
	echo 'gibberish here' >"$BATS_TEST_TMPDIR/bad"
	refused 125 "$BATS_TEST_TMPDIR/bad" -i small --seccomp "$BATS_TEST_TMPDIR/bad"
}

@test "--no-new-privs" {
	box
	assert_equal "$(in_box grep NoNewPrivs /proc/self/status | tr -dc 0-9)" 0
	sbx-stop "$box"
	box --no-new-privs
	assert_equal "$(in_box grep NoNewPrivs /proc/self/status | tr -dc 0-9)" 1
	sbx-stop "$box"
}

@test "misuse: one line that names the option and what it takes, 125" {
	refused 125 "no image 'nope' on this node (see sbx-img ls)" -i nope
	refused 125 "needs an image" -n 1
	refused 125 "-n must be at least 1" -i small -n 0
	refused 125 "-m '10Q' is not a size" -i small -m 10Q
	refused 125 "--memory must be at least 4M" -i small -m 1M
	refused 125 "--ttl '5y' is not a duration" -i small --ttl 5y
	refused 125 "--idle 'x' is not a duration" -i small --idle x
	refused 125 "-c '0' is not a number of CPUs" -i small -c 0
	refused 125 "--pids must be at least 2" -i small --pids 1
	refused 125 "--name goes with one box" -i small -n 2 --name x
	refused 125 "--name 'a/b' is not a name" -i small --name a/b
	refused 125 "--hostname 'a b' is not a host name" -i small --hostname 'a b'
	refused 125 "--net 'bridge' is not none or host" -i small --net bridge
	refused 125 "--label 'foo' is not K=V" -i small -l foo
	refused 125 "--env '=x' is not K=V" -i small -e =x
	refused 125 "takes no operands" -i small extra
	refused 125 "--nonsense" -i small --nonsense
}

@test "without a state directory: the reader says so, the maker makes it" {
	export SBX_STATE=$BATS_TEST_TMPDIR/none SBX_RUN=$BATS_TEST_TMPDIR/none-run
	for tool in "sbx-ls" "sbx-exec x -- true" "sbx-stop x"; do
		run --separate-stderr $tool
		assert_equal "$status" 125
		assert_equal "$stderr" "${tool%% *}: '$SBX_STATE' does not exist: nothing was made on this node yet"
	done
	run -0 sbx-reap
	assert_output ""
	refused 125 "no image 'small'" -i small
	assert [ -d "$SBX_STATE" ]
}

@test "a state directory of somebody else, open to others, relative, or not a directory" {
	d=$BATS_TEST_TMPDIR/d
	mkdir "$d"
	chmod 777 "$d"
	SBX_STATE=$d refused 125 "'$d' must belong to you" -i small
	chmod 755 "$d"
	chown nobody "$d"
	SBX_STATE=$d refused 125 "'$d' must belong to you" -i small
	SBX_STATE=relative refused 125 "SBX_STATE 'relative' is not an absolute path" -i small
	touch "$d/file"
	SBX_STATE=$d/file refused 125 "'$d/file': Not a directory" -i small
	SBX_RUN=$d refused 125 "'$d' must belong to you" -i small
}

@test "not root: one line, and nothing is made" {
	tool=$BATS_TEST_TMPDIR/sbx-create
	cp "$O/bin/sbx-create" "$tool"
	chmod 755 "$tool"
	(
		d=$BATS_TEST_TMPDIR
		while [ "$d" != / ] && [ "$d" != /tmp ]; do
			chmod o+x "$d"
			d=$(dirname "$d")
		done
	)
	run --separate-stderr setpriv --reuid 65534 --clear-groups "$tool" -i small
	assert_equal "$status" 125
	assert_equal "$stderr" \
		"sbx-create: must run as root (sandboxes need id ranges, mounts and cgroups)"
}

@test "max_boxes: those that fit are made and printed, 75" {
	conf 'max_boxes = 3'
	run --separate-stderr sbx-create -i small -n 5
	assert_equal "$status" 75
	assert_equal "${#lines[@]}" 3
	[[ $stderr == *"all 3 slots of this node are taken (max_boxes in sbx.conf)"* ]]
	[[ $stderr == *"made 3 of 5 boxes"* ]]
	assert_equal "$(sbx-ls -q | wc -l)" 3
	sbx-stop "${lines[0]}"
	box
	sbx-stop --all
}

@test "mem_reserve and disk_reserve: 75, nothing is left" {
	conf 'mem_reserve = 900T'
	refused 75 "short of memory" -i small
	conf 'disk_reserve = 900T'
	refused 75 "'$SBX_STATE' is short of space" -i small
}

@test "a bad sbx.conf: file and line" {
	conf '# fine' 'max_boxs = 3'
	refused 125 "sbx.conf:2: unknown key 'max_boxs'" -i small
	conf 'mem = lots'
	refused 125 "sbx.conf:1: mem 'lots' is not a size" -i small
	SBX_CONFIG=/nowhere/sbx.conf refused 125 "cannot open '/nowhere/sbx.conf'" -i small
}

# ids FILE: every box that is not printed is gone, every one that is printed lives.
only_told()
{
	assert_equal "$(sbx-ls -q | sort)" "$(sort "$1")"
	sbx-stop --all
	run -0 leftovers
	refute_output
}

@test "a box whose ID could not be printed is removed: full, closed, broken stdout" {
	run --separate-stderr bash -c 'sbx-create -i small >/dev/full'
	assert_equal "$status" 125
	[[ $stderr == *"cannot print the ID of box '$SBX_NODE."*"', it is removed: No space left on device" ]]
	run --separate-stderr bash -c 'sbx-create -i small >&-'
	assert_equal "$status" 125
	[[ $stderr == *"it is removed: Bad file descriptor" ]]
	run -0 leftovers
	refute_output
	sbx-create -i small -n 12 2>/dev/null | head -n 1 >"$BATS_TEST_TMPDIR/ids"
	# What head did not read but the pipe took is told, as far as anybody can know: at most a few.
	assert [ "$(sbx-ls -q | wc -l)" -le 4 ]
	sbx-stop --all
}

@test "interrupted: what was begun is finished and printed, no more is begun" {
	bg sbx-create -i small -n 200 >"$BATS_TEST_TMPDIR/ids"
	pid=$!
	within 10 test -s "$BATS_TEST_TMPDIR/ids"
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	assert_equal "$status" 143
	n=$(wc -l <"$BATS_TEST_TMPDIR/ids")
	[ "$n" -lt 200 ] || fail "all 200 were made"
	only_told "$BATS_TEST_TMPDIR/ids"
}

@test "an image without /proc, /sys, /dev, /tmp, /etc gets what a box needs" {
	image bare <<-'EOF'
		rm -rf proc sys dev tmp etc var
	EOF
	box=$(sbx-create -i bare)
	in_box sh -c 'test -d /proc/self && test -c /dev/null && test -d /tmp && test -d /sys/class && echo x >/tmp/x'
	assert_equal "$(in_box stat -c %a /tmp)" 1777
	sbx-stop "$box"
	# The image itself is as it was.
	box=$(sbx-create -i bare)
	in_box sh -c '! test -e /tmp/x'
	sbx-stop "$box"
}

@test "an image whose /proc, /dev or /sys is a link or a file is refused, and nothing is left" {
	for dir in proc sys dev; do
		image "link-$dir" <<-EOF
			rm -rf $dir; ln -s /tmp $dir
		EOF
		refused 125 "the image's '$dir' is not a directory" -i "link-$dir"
		image "file-$dir" <<-EOF
			rm -rf $dir; echo >$dir
		EOF
		refused 125 "the image's '$dir' is not a directory" -i "file-$dir"
	done
}

@test "an image whose /tmp or /etc is a link or a file: the box runs, nothing outside is touched" {
	mkdir "$BATS_TEST_TMPDIR/outside"
	find /etc -maxdepth 1 -printf '%p %T@ %i\n' | sort >"$BATS_TEST_TMPDIR/before"
	for how in "ln -s $BATS_TEST_TMPDIR/outside tmp" "echo >tmp" "ln -s ../../../../../etc tmp"; do
		image odd-tmp <<-EOF
			rm -rf tmp; $how
		EOF
		box=$(sbx-create -i odd-tmp)
		in_box true
		sbx-stop "$box"
	done
	for how in "ln -s $BATS_TEST_TMPDIR/outside etc" "echo >etc" "ln -s ../../../../../etc etc" "ln -s /proc/1/root/etc etc"; do
		image odd-etc <<-EOF
			rm -rf etc; $how
		EOF
		box=$(sbx-create -i odd-etc)
		in_box true
		sbx-stop "$box"
	done
	assert_equal "$(ls -A "$BATS_TEST_TMPDIR/outside")" ""
	find /etc -maxdepth 1 -printf '%p %T@ %i\n' | sort | diff "$BATS_TEST_TMPDIR/before" -
}

@test "an image whose /etc/hosts or /etc/resolv.conf is a link, a fifo or a directory" {
	sum=$(cat /etc/hosts /etc/resolv.conf | sha256sum)
	for how in "ln -s /proc/self/mem hosts" "ln -s /etc/passwd hosts" "ln -s ../bin/busybox hosts" \
		"mkfifo hosts" "mkdir hosts" "ln -s /proc/1/root/etc/resolv.conf resolv.conf" "ln -s /nowhere hosts"; do
		image odd-hosts <<-EOF
			cd etc; $how
		EOF
		box=$(sbx-create -i odd-hosts --net host)
		in_box true
		assert_equal "$(in_box sh -c 'ls /dev/shm | wc -l')" 0
		in_box grep -q ^root: /etc/passwd
		sbx-stop "$box"
	done
	assert_equal "$(cat /etc/hosts /etc/resolv.conf | sha256sum)" "$sum"
}

@test "one EROFS mount a layer for all boxes; the image's files are not chowned" {
	layer=$(find "$SBX_STATE/img/layer" -mindepth 1 -maxdepth 1)
	run -0 sbx-create -i small -n 8
	ids=("${lines[@]}")
	for l in $layer; do
		n=$(awk -v at="$SBX_RUN/layer/${l##*/}" '$5 == at' /proc/self/mountinfo | wc -l)
		[ "$n" -le 1 ] || fail "$n mounts of $l"
	done
	assert_equal "$(find "$SBX_RUN"/layer/*/bin/busybox -printf '%U:%G\n' | sort -u)" 0:0
	for box in "${ids[@]}"; do
		assert_equal "$(in_box stat -c %u:%g /bin/busybox)" 0:0
		in_box touch /root/mine
	done
	# What a box writes belongs to its own range, and no two ranges meet.
	assert_equal "$(find "$SBX_STATE"/box/*/upper/root/mine -printf '%U\n' | sort -u | wc -l)" 8
	for box in "${ids[@]}"; do
		assert_equal "$(in_box cat /proc/self/uid_map /proc/self/gid_map | awk '{ print $3 }' | sort -u)" 65536
		in_box awk '{ print $2 }' /proc/self/uid_map
	done | sort -n | awk 'NR > 1 && $1 < last + 65536 { bad = 1 } { last = $1 } END { exit bad }'
	sbx-stop "${ids[@]}"
}

@test "two state directories on one node do not disturb each other" {
	box
	here=$box
	(
		export SBX_STATE=$SBX_TMP/state2 SBX_RUN=$SBX_TMP/run2
		small_image
		other=$(sbx-create -i small)
		assert_equal "$(sbx-ls -q)" "$other"
		run ! sbx-exec "$here" -- true
		sbx-exec "$other" -- true
		sbx-reap
		sbx-stop --all
		sbx-reap
		run -0 sbx-ls -q
		assert_output ""
		unmount_shared
	)
	sbx-exec "$here" -- true
	sbx-stop "$here"
}

@test "a state directory on tmpfs or on an overlay works, or is refused with the cause" {
	d=$BATS_TEST_TMPDIR/fs
	mkdir -p "$d/tmpfs" "$d/o"/{lower,upper,work,at}
	mount -t tmpfs -o size=64m none "$d/tmpfs"
	mount -t overlay -o "lowerdir=$d/o/lower,upperdir=$d/o/upper,workdir=$d/o/work" none "$d/o/at"
	for at in "$d/tmpfs/s" "$d/o/at/s"; do
		(
			export SBX_STATE=$at SBX_RUN=$SBX_TMP/run3
			echo "disk_reserve = 0" >"$d/conf"
			export SBX_CONFIG=$d/conf
			small_image
			if id=$(sbx-create -i small 2>"$d/err"); then
				sbx-exec "$id" -- sh -c 'echo x >/x && mv /root /moved'
				sbx-stop "$id"
			else
				cat "$d/err"
				assert_equal "$(wc -l <"$d/err")" 1
				grep -q overlay "$d/err"
			fi
			run -0 leftovers
			refute_output
			sbx-reap
			unmount_shared
		)
	done
	umount "$d/o/at" "$d/tmpfs"
}
