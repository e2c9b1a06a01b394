# Snapshots of boxes: what is in them, that they are of one moment, and what is left when one fails.
# limit: 900
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154 # scripts are the box's; box is set by box
load ../helpers

setup_file()
{
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300}
	sbx_setup_file
	small_root "$SBX_TMP/root"
	musl-gcc -static -Os -o "$SBX_TMP/root/bin/inode" "$top/tests/helpers/inode.c"
	gcc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/make-image" "$top/tests/helpers/make-image.c" \
		"$O/dyn/libsbx.a" -larchive -lcrypto -ljson-c
	mkdir -p "$SBX_TMP"/root/{lib/deep/er,data/sub,opt/old}
	echo low >"$SBX_TMP/root/lib/deep/er/file"
	echo low >"$SBX_TMP/root/data/sub/file"
	echo low >"$SBX_TMP/root/data/gone"
	echo low >"$SBX_TMP/root/opt/old/file"
	sbx-img import --name small "$SBX_TMP/root" >/dev/null
}

teardown()
{
	if mountpoint -q "$SBX_STATE/img/tmp"; then umount "$SBX_STATE/img/tmp"; fi
	sbx-stop --all
}

in_box()
{
	sbx-exec "$box" -- sh -c "$1"
}

# All that a box shows of its files but what is mounted in it, one line each.
listing()
{
	sbx-exec "$1" -- sh -c 'find / -xdev ! -path /etc/hosts -print0 | sort -z | xargs -0 stat -c "%n %F %a %u:%g %h %Y"
		find / -xdev -type f ! -path /etc/hosts -print0 | sort -z | xargs -0 md5sum
		find / -xdev -type l -print0 | sort -z | xargs -0 -n 1 readlink' |
		sed -E 's,^(/[^ ]* directory [0-9]+ [0-9:]+) [0-9]+,\1,; s,^(/|/etc|/proc|/sys|/dev|/tmp) (.*) [0-9]+$,\1 \2,'
}

# same A B: two boxes show the same files.
same()
{
	listing "$1" >"$BATS_TEST_TMPDIR/a"
	listing "$2" >"$BATS_TEST_TMPDIR/b"
	diff "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
}

# from IMAGE: one more box, in $copy.
from()
{
	copy=$(sbx-create -i "$1" -m 64M 3>&-)
}

group()
{
	find /sys/fs/cgroup -maxdepth 3 -path "*/sbx/$box" -exec test -e {}/cgroup.freeze \; -print
}

frozen()
{
	grep -q 'frozen 1' "$(group)/cgroup.events"
}

thawed()
{
	grep -q 'frozen 0' "$(group)/cgroup.events"
}

no_image()
{
	! sbx-img ls -o name | grep -qx "$1"
}

# What images consist of, to be compared with what there is later.
stored()
{
	(cd "$SBX_STATE/img" && find data image layer name tmp -maxdepth 1 | sort)
}

@test "a box of the snapshot has what the box had" {
	box
	in_box 'set -e
		echo new >/root/new; chown user:user /root/new; chmod 4755 /root/new
		mkdir -m 2750 /root/dir; chown 1000:7 /root/dir
		ln /root/new /root/dir/linked; ln -s ../gone /root/dangling; mkfifo -m 600 /root/fifo
		rm /data/gone; rm -r /data/sub; mkdir /data/sub; echo top >/data/sub/other
		mv /lib/deep /lib/moved; echo more >/lib/moved/er/more; mv /opt/old /root/dir/old
		chmod 700 /usr; touch -d "2001-02-03 04:05:06" /etc/passwd
		printf odd >"$(printf "/root/odd\377\n -name")"
		: >/root/empty'
	digest=$(sbx-snap "$box" snap)
	assert_equal "$digest" "$(sbx-img ls -o name,digest | sed -n 's/^snap\t//p')"
	assert_equal "$(sbx-img show snap | sed -n 's/^kind\t//p' | tail -n 1)" snapshot
	from snap
	same "$box" "$copy"
	assert_equal "$(sbx-exec "$copy" -- cat /lib/moved/er/file /data/sub/other /root/dir/old/file)" $'low\ntop\nlow'
	run -1 sbx-exec "$copy" -- ls /data/sub/file
	in_box 'test /root/new -ef /root/dir/linked'
	sbx-exec "$copy" -- test /root/new -ef /root/dir/linked
}

@test "five snapshots, each of a box of the one before" {
	box
	was=$box
	for i in 1 2 3 4 5; do
		sbx-exec "$was" -- sh -c "set -e
			mv /lib/deep* /lib/deep$i; mv /lib/deep$i/er* /lib/deep$i/er$i; echo $i >/lib/deep$i/er$i/n$i
			rm -r /data/sub; mkdir /data/sub; echo $i >/data/sub/n$i
			echo $i >>/data/sum; rm -f /opt/old/* /opt/old/.n*; echo $i >/opt/old/.n$i; chmod 75$i /opt"
		sbx-snap "$was" chain:"$i" >/dev/null
		from chain:"$i"
		same "$was" "$copy"
		was=$copy
	done
	assert_equal "$(sbx-exec "$copy" -- sh -c 'ls -A /data/sub /lib /lib/deep5 /lib/deep5/er5 /opt/old')" \
		"$(printf '/data/sub:\nn5\n\n/lib:\ndeep5\n\n/lib/deep5:\ner5\n\n/lib/deep5/er5:\nfile\nn1\nn2\nn3\nn4\nn5\n\n/opt/old:\n.n5')"
	assert_equal "$(sbx-exec "$copy" -- cat /data/sum | tr -d '\n')" 12345
	assert_equal "$(sbx-img ls -o name,tag,layers | grep -c '^chain')" 5
	assert_equal "$(sbx-img ls -o name,tag,layers | grep '^chain	5')" $'chain\t5\t6'
}

@test "attributes keep what they mean: capabilities, ACLs, user attributes" {
	local cap=0100000200200000000000000000000000000000
	local acl=0200000001000600ffffffff02000600e803000004000400ffffffff10000600ffffffff20000400ffffffff
	box
	in_box "set -e
		echo >/root/f; inode xattr /root/f security.capability $cap; inode xattr /root/f user.note 616200
		echo >/root/a; inode xattr /root/a system.posix_acl_access $acl
		mkdir /root/d; inode xattr /root/d system.posix_acl_default $acl
		inode xattr /data/gone user.note 63"
	sbx-snap "$box" attr >/dev/null
	from attr
	for b in "$box" "$copy"; do
		assert_equal "$(sbx-exec "$b" -- inode xattr /root/f security.capability)" $cap
		assert_equal "$(sbx-exec "$b" -- inode xattr /root/f user.note)" 616200
		assert_equal "$(sbx-exec "$b" -- inode xattr /root/a system.posix_acl_access)" $acl
		assert_equal "$(sbx-exec "$b" -- inode xattr /root/d system.posix_acl_default)" $acl
		assert_equal "$(sbx-exec "$b" -- inode xattr /data/gone user.note)" 63
	done
	layer=$(sbx-img show attr | sed -n 's/^layer\t//p' | tail -n 1)
	[ "$(getfattr -n security.capability -e hex --only-values "$SBX_RUN/layer/$layer/root/f" | wc -c)" = 20 ]
	run getfattr -h -R -m - "$SBX_RUN/layer/$layer"
	refute_line --regexp '^trusted\.overlay\.(origin|impure|nlink|uuid)'
}

@test "sockets stay out, sparse files stay sparse, large ones are not held in memory" {
	box
	in_box 'inode socket /root/socket
		dd if=/dev/urandom of=/root/sparse bs=4096 count=1 seek=1000000 2>/dev/null
		dd if=/dev/zero of=/root/zero bs=1M count=40 2>/dev/null'
	in_box 'test -S /root/socket'
	bytes=$(ulimit -v 60000; sbx-snap -o bytes "$box" sparse)
	[ "$bytes" -lt $((41 << 20)) ]
	from sparse
	run -1 sbx-exec "$copy" -- ls /root/socket
	assert_equal "$(sbx-exec "$copy" -- md5sum /root/sparse)" "$(in_box 'md5sum /root/sparse')"
}

@test "written, not synced, snapshot, new box: it is there" {
	box
	in_box 'dd if=/dev/urandom of=/root/data bs=64k count=64 2>/dev/null; md5sum /root/data >/root/sum'
	sbx-snap "$box" unsynced >/dev/null
	from unsynced
	sbx-exec "$copy" -- md5sum -c /root/sum
}

@test "two files that grow in turn agree in every snapshot" {
	box
	sbx-exec -d "$box" -- sh -c 'i=0; while :; do i=$((i + 1)); echo $i >>/root/a; echo $i >>/root/b; done'
	within 20 in_box 'test -s /root/b'
	for i in 1 2 3 4 5 6; do
		sbx-snap "$box" turn:"$i" >/dev/null
		from turn:"$i"
		sbx-exec "$copy" -- sh -c 'a=$(wc -l </root/a) b=$(wc -l </root/b)
			echo "$a $b"
			[ $((a - b)) -ge 0 ] && [ $((a - b)) -le 1 ] &&
			[ "$(tail -n 1 /root/a)" = $a ] && [ "$(tail -n 1 /root/b)" = $b ]'
	done
	thawed
	n=$(in_box 'wc -l </root/a')
	within 20 in_box "[ \$(wc -l </root/a) -gt $n ]"
}

@test "what the box was given stays out: environment of -e, mount points, this node's names" {
	local root=$BATS_TEST_TMPDIR/root
	cp -a "$SBX_TMP/root" "$root"
	rm -rf "${root:?}"/{dev,proc,sys,etc/hosts}
	sbx-img import --name bare "$root" >/dev/null
	box=$(sbx-create -i bare --net host -e SECRET=1 -u user -m 64M 3>&-)
	sbx-snap "$box" given >/dev/null
	from given
	layer=$(sbx-img show given | sed -n 's/^layer\t//p' | tail -n 1)
	assert_equal "$(cd "$SBX_RUN/layer/$layer" && find . | sort | tr '\n' ' ')" '. ./etc '
	run -1 grep -r SECRET "$SBX_STATE/img/image"
	assert_equal "$(sbx-exec "$copy" -- sh -c 'id -u; echo ".$SECRET."')" $'0\n..'
	sbx-exec "$copy" -- test -e /dev/null
}

@test "the image runs as the box's images do" {
	"$SBX_TMP/make-image" base over=small env=A=base env=B=base user=user workdir=/tmp
	"$SBX_TMP/make-image" space dir=/space env=B=space workdir=/data
	"$SBX_TMP/make-image" tool dir=/tool env=C=tool user=7
	box=$(sbx-create -i base --workspace space --toolkit tool -e A=mine -u 0 -w / -m 64M 3>&-)
	in_box 'touch /tool/x; rmdir /space'
	sbx-snap "$box" composed >/dev/null
	from composed
	assert_equal "$(sbx-exec "$copy" -- sh -c 'echo $A $B $C $(id -u) $PWD; ls -d /tool/* /space 2>&1')" \
		$'base space tool 1000 /data\nls: /space: No such file or directory\n/tool/x'
	assert_equal "$(sbx-img ls -o name,layers | sed -n 's/^composed\t//p')" 5
	sbx-img rm base space tool
}

@test "rules say what stays out" {
	box
	in_box 'echo secret >/root/.ash_history; echo t >/tmp/t; echo w >/root/work; rm /data/gone'
	sbx-snap "$box" clean >/dev/null
	sbx-snap --keep-all "$box" all >/dev/null
	printf '/root/work\n/data/\n' >"$BATS_TEST_TMPDIR/rules"
	sbx-snap --clean "$BATS_TEST_TMPDIR/rules" "$box" ruled >/dev/null
	from clean
	sbx-exec "$copy" -- sh -c '! ls /root/.ash_history /tmp/t /data/gone 2>/dev/null && ls -d /tmp && cat /root/work'
	from all
	sbx-exec "$copy" -- sh -c 'cat /root/.ash_history /tmp/t /root/work && ! ls /data/gone'
	from ruled
	sbx-exec "$copy" -- sh -c 'cat /root/.ash_history /data/gone && ! ls /root/work'
	echo '[' >"$BATS_TEST_TMPDIR/rules"
	run -125 sbx-snap --clean "$BATS_TEST_TMPDIR/rules" "$box" bad
	assert_output --partial "$BATS_TEST_TMPDIR/rules:1"
	run -125 sbx-snap --clean "$BATS_TEST_TMPDIR/none" "$box" bad
	no_image bad
}

@test "--lint warns and the snapshot is made" {
	box
	in_box 'echo secret >/root/.ash_history'
	run -0 --separate-stderr sbx-snap --lint --keep-all "$box" linted
	assert_regex "$stderr" 'sbx-snap: lint: .*/root/\.ash_history'
	assert_equal "$output" "$(sbx-img ls -o name,digest | sed -n 's/^linted\t//p')"
	in_box 'rm /root/.ash_history'
	run -0 --separate-stderr sbx-snap --lint "$box" linted
	assert_equal "$stderr" ''
}

@test "a box that has ended but is there can be snapshot" {
	box
	in_box 'echo left >/root/f'
	sbx-stop --keep "$box"
	run -0 sbx-snap -o frozen_ms "$box" ended
	assert_output 0
	from ended
	assert_equal "$(sbx-exec "$copy" -- cat /root/f)" left
	# As after the node was started again.
	rm -r "$SBX_RUN/box/$box"
	sbx-snap "$box" again >/dev/null
	sbx-stop "$box"
	run -123 sbx-snap "$box" gone
	no_image gone
}

@test "output: a record if it is asked for, silence on stderr, misuse" {
	box
	run -0 --separate-stderr sbx-snap --json "$box" one
	assert_equal "$stderr" ''
	assert_equal "$(jq -r 'keys_unsorted | join(" ")' <<<"$output")" 'digest layer frozen_ms files bytes'
	run -0 --separate-stderr sbx-snap -v "$box" one
	assert_regex "$stderr" "^sbx-snap: box '$box' was frozen for [0-9.]+ ms\$"
	run -125 sbx-snap "$box"
	run -125 sbx-snap "$box" 'bad name'
	run -125 sbx-snap --keep-all --clean x "$box" one
	run -125 sbx-snap -o nothing "$box" one
	run -123 sbx-snap nobody one
}

@test "a box with as many layers as there may be: collapse is named" {
	"$SBX_TMP/make-image" -n 64 full
	box=$(sbx-create -i full -m 64M 3>&-)
	run -125 sbx-snap "$box" toomany
	assert_output --partial 'sbx-img collapse'
	run -125 sbx-fork "$box"
	sbx-stop "$box"
	sbx-img rm full
}

# held COMMAND...: it stops for five seconds when the box is frozen and before its files are read.
held()
{
	bg strace -f -o "$BATS_TEST_TMPDIR/trace" -e trace=openat2 -e inject=openat2:delay_enter=5000000 "$@"
	within 20 frozen
}

@test "a box that ends while it is read: no image" {
	box
	stored >"$BATS_TEST_TMPDIR/before"
	held sbx-snap "$box" cut >"$BATS_TEST_TMPDIR/out" 2>&1
	pid=$!
	sbx-stop "$box"
	code=0
	wait "$pid" || code=$?
	assert_equal "$code" 123
	grep -q "box '$box' ended while it was read" "$BATS_TEST_TMPDIR/out"
	stored | diff "$BATS_TEST_TMPDIR/before" -
}

staged()
{
	local new
	new=$(find "$SBX_STATE/img/tmp" -path '*/data/new' -size +0)
	[ -n "$new" ] && thawed
}

@test "a box and its image removed before the snapshot is published: it keeps their layers" {
	echo lone >"$SBX_TMP/root/lone"
	sbx-img import --name lone "$SBX_TMP/root" >/dev/null
	rm "$SBX_TMP/root/lone"
	box=$(sbx-create -i lone -m 64M 3>&-)
	in_box 'echo x >/root/x'
	bg strace -o "$BATS_TEST_TMPDIR/trace" -e trace=fdatasync -e inject=fdatasync:delay_enter=5000000:when=1 \
		sbx-snap "$box" kept
	pid=$!
	within 20 staged
	sbx-stop "$box"
	sbx-img rm lone
	wait "$pid"
	from kept
	assert_equal "$(sbx-exec "$copy" -- cat /lone /root/x)" $'lone\nx'
}

@test "no space: nothing is left, the box runs" {
	box
	in_box 'dd if=/dev/urandom of=/root/big bs=1M count=4 2>/dev/null'
	stored >"$BATS_TEST_TMPDIR/before"
	mount -t tmpfs -o size=1M tmpfs "$SBX_STATE/img/tmp"
	run -75 sbx-snap "$box" full
	assert_output --partial 'No space left'
	assert_equal "$(ls "$SBX_STATE/img/tmp")" ''
	umount "$SBX_STATE/img/tmp"
	within 10 thawed
	in_box 'echo runs'
	stored | diff "$BATS_TEST_TMPDIR/before" -
}

@test "kill -9 at twenty points: the box goes on, no stray data" {
	box
	in_box 'for i in $(seq 50); do echo $i >/root/$i; done'
	strace -o "$BATS_TEST_TMPDIR/calls" sbx-snap "$box" first
	sbx-img rm first
	stored >"$BATS_TEST_TMPDIR/before"
	n=0
	# Every call from the connection to the keeper on, as "NAME COUNT".
	sed -n 's/^\([a-z0-9_]*\)(.*/\1/p' "$BATS_TEST_TMPDIR/calls" | awk '{ print $1, ++n[$1] }' |
		sed -n '/^connect /,$p' | grep -v '^exit' | shuf -n 20 >"$BATS_TEST_TMPDIR/points"
	while read -r call i <&4; do
		in_box "echo $n >/root/round"
		strace -o "$BATS_TEST_TMPDIR/trace" -e trace="$call" -e "inject=$call:signal=SIGKILL:when=$i" \
			sbx-snap "$box" cut >/dev/null 2>&1 || true
		grep -q 'killed by SIGKILL' "$BATS_TEST_TMPDIR/trace" || echo "# not killed: $call $i" >&3
		within 10 thawed || fail "after $call $i"
		in_box 'echo runs'
		# Published is published: then it is whole.
		if ! no_image cut; then
			from cut
			assert_equal "$(sbx-exec "$copy" -- cat /root/round)" "$n"
			sbx-stop "$copy"
			sbx-img rm cut
		fi
		sbx-img gc
		stored | diff "$BATS_TEST_TMPDIR/before" - || fail "after $call $i"
		n=$((n + 1))
	done 4<"$BATS_TEST_TMPDIR/points"
	assert_equal "$n" 20
}

@test "ten thousand changed files" {
	box -m 512M
	in_box 'mkdir /w; for i in $(seq 10000); do echo $i >/w/$i; done'
	for _ in 1 2 3; do
		sbx-snap -o frozen_ms,files "$box" many >>"$BATS_TEST_TMPDIR/took"
	done
	echo "# frozen_ms, files: $(tr '\n\t' ', ' <"$BATS_TEST_TMPDIR/took")" >&3
	[ "$(tail -n 1 "$BATS_TEST_TMPDIR/took" | cut -f2)" -ge 10001 ]
	from many
	assert_equal "$(sbx-exec "$copy" -- sh -c 'cat /w/* | sort -n | md5sum')" "$(seq 10000 | md5sum)"
}
