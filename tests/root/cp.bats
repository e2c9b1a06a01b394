# sbx-cp in both directions, with trees that break others and boxes that do not keep still.
# limit: 600
# shellcheck shell=bash disable=SC2016,SC2154
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

setup()
{
	box
	dir=$BATS_TEST_TMPDIR
	cd "$dir" || return
}

teardown()
{
	sbx-stop -q "$box"
}

in_box()
{
	sbx-exec "$box" -- sh -c "$1" </dev/null 3>&-
}

# As cp -a sees a tree: names, types, modes, owners, sizes, times, targets, links.
tree()
{
	(cd "$1" && find . -mindepth 1 ! -type d -printf '%P %y %m %U:%G %s %T@ %l %n\n' -o \
		-mindepth 1 -printf '%P %y %m %U:%G %T@\n' | sort)
}

make_odd_tree()
{
	mkdir -p "$1"/sub/deep
	echo text >"$1/file"
	ln "$1/file" "$1/sub/hard"
	printf '#!/bin/sh\n' >"$1/sub/run"
	chmod 755 "$1/sub/run"
	: >"$1/empty"
	ln -s nowhere "$1/dangling"
	ln -s /etc/passwd "$1/absolute"
	ln -s ../../../../../../etc "$1/outward"
	ln -s sub "$1/dirlink"
	printf 1 >"$1/$(printf 'new\nline')"
	printf 2 >"$1/-dash"
	printf 3 >"$1/$(printf 'bytes\377\351')"
	printf 4 >"$1/ünï"
	printf 5 >"$1/$(printf 'n%.0s' {1..250})"
	chmod 0 "$1/empty"
	chmod 500 "$1/sub/deep"
	touch -h -d '2001-02-03 04:05:06.123456789' "$1/file" "$1/dangling" "$1/sub"
}

@test "an odd tree goes in and comes out as it was" {
	make_odd_tree src
	run -0 sbx-cp src "$box:/root/t"
	refute_output
	run -0 sbx-cp "$box:/root/t" back
	refute_output
	diff <(tree src) <(tree back)
	diff -r --no-dereference src back
}

@test "specials are named and left out" {
	mkdir src
	mkfifo src/fifo
	mknod src/dev c 1 3
	echo x >src/file
	python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("src/sock")'
	run -1 sbx-cp src "$box:/root"
	assert_line "sbx-cp: 'src/fifo' is a fifo: not copied"
	assert_line "sbx-cp: 'src/sock' is a socket: not copied"
	assert_line "sbx-cp: 'src/dev' is a device: not copied"
	[ "${#lines[@]}" -eq 3 ]
	run -0 in_box 'ls /root/src'
	assert_output file
	in_box 'mkfifo /root/src/fifo'
	run -1 sbx-cp -q "$box:/root/src" out
	refute_output
	[ "$(ls out)" = file ]
}

@test "where a copy goes: the rules of cp -a" {
	mkdir -p d/e
	echo 1 >f
	echo 2 >d/e/g
	sbx-cp f "$box:/root"
	sbx-cp f "$box:/root/name"
	sbx-cp f d "$box:/root/"
	sbx-cp d "$box:/root/new"
	sbx-cp d "$box:/root/new"
	sbx-cp d/. "$box:/root/contents"
	sbx-cp d/. "$box:/root/contents/"
	run -0 in_box 'cd /root && find . -type f | sort'
	assert_output "$(printf './%s\n' contents/e/g d/e/g f name new/d/e/g new/e/g)"
	sbx-cp "$box:/root/f" "$box:/root/name" .
	sbx-cp "$box:/root/contents/." out
	[ "$(find out -type f)" = out/e/g ] && [ "$(cat name)" = 1 ]
}

@test "what cannot be done is one line" {
	echo 1 >f
	mkdir d
	run -125 sbx-cp f f "$box:/root/none"
	assert_output "sbx-cp: '/root/none' is not a directory"
	run -125 sbx-cp f "$box:/root/none/"
	assert_output "sbx-cp: there is no directory '/root/none/'"
	run -125 sbx-cp f "$box:/none/f"
	assert_output --partial 'No such file or directory'
	run -1 sbx-cp "$box:/root/none" .
	assert_output "sbx-cp: cannot open '/root/none': No such file or directory"
	sbx-cp f "$box:/root/f"
	run -1 sbx-cp d "$box:/root/f"
	assert_output "sbx-cp: 'f' is there and is not a directory"
	run -125 sbx-cp "$box:/root/f" /dev/null
	assert_output "sbx-cp: '/dev/null' is neither a file nor a directory"
	run -125 sbx-cp f "$box:/dev/null"
	assert_output "sbx-cp: '/dev/null' is neither a file nor a directory"
	run -125 sbx-cp f g
	run -125 sbx-cp "$box:/a" "$box:/b"
	run -123 sbx-cp f "nothing-like-it:/x"
}

@test "owners: the box's user, --owner, the caller" {
	echo 1 >f
	chmod 6755 f
	sbx-cp f "$box:/tmp/a"
	sbx-cp --owner user f "$box:/tmp/b"
	sbx-cp --owner 12:34 f "$box:/tmp/c"
	run -0 in_box 'cd /tmp && stat -c "%n %u:%g %a" a b c'
	assert_output $'a 0:0 6755\nb 1000:1000 6755\nc 12:34 6755'
	run -125 sbx-cp --owner nobody-here f "$box:/tmp/d"
	assert_output "sbx-cp: no user 'nobody-here' in the box"
	sbx-cp "$box:/tmp/b" out
	[ "$(stat -c '%u:%g %a' out)" = "$(id -u):$(id -g) 755" ]
	sbx-stop "$box"
	box -u user
	sbx-cp f "$box:/tmp/a"
	run -0 in_box 'stat -c %u:%g /tmp/a'
	assert_output 1000:1000
}

@test "a tar stream in and out is what tar makes and reads" {
	make_odd_tree src
	local format
	for format in gnu posix; do
		in_box 'mkdir /root/in'
		tar -cz --format=$format src | sbx-cp - "$box:/root/in"
		sbx-cp "$box:/root/in/src" - >out.tar
		mkdir out
		tar -xpf out.tar -C out
		[ $format = gnu ] || diff <(tree src) <(tree out/src)
		diff -r --no-dereference src out/src
		rm -rf out
		in_box 'rm -rf /root/in'
	done
	echo 1 >f
	chown 77:88 f
	tar -c f | sbx-cp - "$box:/tmp"
	run -0 in_box 'stat -c %u:%g /tmp/f'
	assert_output 77:88
	run -125 sbx-cp - "$box:/tmp" </etc/passwd
	assert_output --partial 'tar stream'
}

@test "a tar that climbs, or writes through a link, stays where it is put" {
	python3 - <<-'P'
	import tarfile, io
	t = tarfile.open("evil.tar", "w")
	def add(name, type=tarfile.REGTYPE, link=""):
	    i = tarfile.TarInfo(name); i.type = type; i.linkname = link; i.size = 4 if type == tarfile.REGTYPE else 0
	    t.addfile(i, io.BytesIO(b"evil"))
	add("../up"); add("/abs"); add("x", tarfile.SYMTYPE, "/"); add("x/through"); add("a/../../b")
	add("hard", tarfile.LNKTYPE, "/etc/passwd"); add("hard2", tarfile.LNKTYPE, "x/etc/passwd"); add("ok")
	P
	in_box 'mkdir /root/in'
	run -1 sbx-cp - "$box:/root/in" <evil.tar
	run -0 in_box 'cd /root/in && find . ! -name . | sort'
	assert_line ./abs
	assert_line ./ok
	assert_line ./x
	refute_line ./hard
	refute_line ./hard2
	run -1 in_box 'ls /through /root/up /root/b'
}

@test "a sparse file stays sparse" {
	truncate -s 1G big
	printf end | dd of=big bs=1 seek=700M conv=notrunc status=none
	truncate -s 64M hole
	sbx-cp big hole "$box:/root"
	run -0 in_box 'cd /root; stat -c %s big hole; du -k big hole | cut -f1'
	assert_line --index 0 1073741824
	[ "${lines[2]}" -lt 100 ] && [ "${lines[3]}" -lt 100 ]
	sbx-cp "$box:/root/big" out
	cmp big out
	[ "$(du -k out | cut -f1)" -lt 100 ]
}

@test "10,000 small files" {
	mkdir src
	(cd src && for d in {1..100}; do mkdir "$d"; for f in {1..100}; do echo "$d/$f" >"$d/$f"; done; done)
	sbx-cp src "$box:/root"
	sbx-cp "$box:/root/src" out
	diff -r src out
}

@test "links as SRC and DST stay in the box" {
	echo mine >marker
	in_box 'mkdir /root/d /jail; ln -s / /root/up; ln -s ../../../../../../../../jail /root/jail; ln -s '"$dir"'/marker /root/host'
	echo new >f
	sbx-cp f "$box:/root/jail/in"
	run -0 in_box 'cat /jail/in'
	assert_output new
	run -125 sbx-cp f "$box:/root/host"
	sbx-cp "$box:/root/up" up
	[ "$(readlink up)" = / ]
	run -1 sbx-cp -L "$box:/root/host" stolen
	sbx-cp -L "$box:/root/up/etc/passwd" pw
	run -0 in_box 'cat /etc/passwd'
	assert_output "$(cat pw)"
	[ "$(cat marker)" = mine ] && [ ! -e stolen ]
}

@test "no file system of the kernel, no magic link" {
	echo 1 >f
	for p in /proc/version /proc/self/environ /proc/1/root/etc/passwd /sys/kernel /proc /dev/pts/ptmx; do
		run -1 sbx-cp "$box:$p" out
		[ ! -e out ] || [ -z "$(ls -A out)" ]
		rm -rf out
	done
	for p in /proc/sys/kernel/core_pattern /proc/1/cwd/f /proc/1/root/f /sys/f /proc/self/fd/0; do
		run -125 sbx-cp f "$box:$p"
	done
	run -1 in_box 'ls /f'
}

# Out: what the box hands over must be of the box. In: what is written must be in the box.
@test "a box that swaps directories and links all the time" {
	mkdir victim
	echo node >victim/f
	echo node >"$dir/marker"
	bg sbx-exec "$box" -- sh -c "mkdir -p /race/a/victim /race/b $dir; ln -s / /race/l; ln -s $dir /race/m
		echo box >/race/a/victim/f; echo box >/race/a/marker
		while :; do mv /race/a /race/x; mv /race/l /race/a; mv /race/a /race/l; mv /race/m /race/a; mv /race/a /race/m; mv /race/x /race/a; done"
	local racer=$! i
	within 10 in_box 'test -e /race/a/victim/f'
	echo in >marker2
	for ((i = 0; i < 25; i++)); do
		sbx-cp -q "$box:/race/a/victim" out >/dev/null 2>&1 || true
		sbx-cp -q "$box:/race/a/marker" out2 >/dev/null 2>&1 || true
		sbx-cp -q "$box:/race" out3 >/dev/null 2>&1 || true
		sbx-cp -q marker2 "$box:/race/a/marker" >/dev/null 2>&1 || true
		sbx-cp -q victim "$box:/race/a/" >/dev/null 2>&1 || true
		sbx-cp -q marker2 "$box:/race/a$dir/marker" >/dev/null 2>&1 || true
		[ ! -e out2 ] || [ "$(cat out2)" != node ]
		[ ! -e out/f ] || ! grep -q node out/f || in_box 'grep -rq node /race /victim'
		rm -rf out out2 out3
	done
	kill "$racer"
	wait "$racer" || true
	[ "$(cat "$dir/marker")" = node ] && [ "$(cat victim/f)" = node ]
	[ ! -e /marker ] && [ ! -e /victim ]
}

@test "no room in the box, no room on the node: one line each, 125" {
	head -c 60M /dev/zero >big
	run -125 sbx-cp big "$box:/dev/shm/big"
	assert_output "sbx-cp: cannot write 'big': No space left on device"
	run -0 in_box 'ls -A /dev/shm'
	refute_output
	sbx-cp big "$box:/root/big"
	mkdir small
	mount -t tmpfs -o size=4m tmpfs small
	run sbx-cp "$box:/root/big" small/
	umount small
	[ "$status" -eq 125 ]
	assert_output "sbx-cp: cannot write 'big': No space left on device"
}

@test "--max-size ends a copy" {
	in_box 'head -c 3000000 /dev/zero >/root/big'
	run -1 sbx-cp --max-size 1M "$box:/root/big" .
	assert_output "sbx-cp: there is more to copy than --max-size allows"
	[ -z "$(ls -A)" ]
	sbx-cp --max-size 3M "$box:/root/big" .
}

@test "a file is replaced as a whole; a killed copy leaves no half of it" {
	echo old >f
	sbx-cp f "$box:/root/f"
	head -c 200M /dev/zero >big
	bg sbx-cp big "$box:/root/f"
	sleep 0.05
	kill -9 $!
	wait $! || true
	run -0 in_box 'stat -c %s /root/f'
	[ "$output" = 4 ] || [ "$output" = 209715200 ]
	within 5 bash -c '! pgrep -f "^sbx-cp big $1"' - "$box"
}

@test "a box that ends under a copy, or has ended" {
	mkfifo pipe
	bg bash -c 'exec sbx-cp - "$1:/root" <pipe 2>err' - "$box"
	local pid=$!
	exec 8>pipe
	sleep 0.3
	sbx-stop "$box"
	local status=0
	wait $pid || status=$?
	exec 8>&-
	[ "$status" -eq 123 ]
	grep -q 'has ended under the copy' err
	run -123 sbx-cp err "$box:/root"
}

@test "the box sees nothing of a copy" {
	mkfifo pipe
	bg bash -c 'exec sbx-cp - "$1:/root" <pipe' - "$box"
	exec 8>pipe
	sleep 0.3
	run -0 in_box 'ls /proc | grep "^[0-9]" | wc -l; cat /proc/*/comm'
	refute_output --partial sbx-cp
	local child
	child=$(pgrep -P $! || true)
	run cat "/proc/$child/status"
	assert_line --regexp '^NoNewPrivs:.1$'
	assert_line --regexp '^CapEff:.000000000000001b$'
	exec 8>&-
	wait $! || true
}

@test "the log names each copy" {
	echo 1 >f
	sbx-cp f "$box:/root/f"
	sbx-cp "$box:/root/f" g
	grep -rq $'what=in\tpath=/root/f' "$SBX_STATE/box/$box/log"
	grep -rq $'what=out\tpath=/root/f' "$SBX_STATE/box/$box/log"
}
