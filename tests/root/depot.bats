# Depots: what is pushed can be fetched and run, nothing of it is read before it is used, what lies is
# refused, and a depot that is slow, silent or gone harms only who reads from it.
# limit: 900
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers
load ../depot

setup_file()
{
	sbx_setup_file
	D=$SBX_TMP/depot
	M=$SBX_TMP/mnt
	export D M
	debian_image deb
	small_image
	sbx-img push deb "$D" >/dev/null
	sbx-img push small "$D" >/dev/null
}

teardown()
{
	slow_ctl "$M" go >/dev/null 2>&1 || true
	sbx-stop --all || true
	node n1
	[ ! -d "$SBX_STATE" ] || { sbx-stop --all; sbx-reap; unmount_shared; rm -rf "$SBX_STATE"; }
	node
	depots_end
}

teardown_file()
{
	sbx_teardown_file
}

# node [NAME]: from here on the tools work for another node, with its own directories.
node()
{
	SBX_STATE=$SBX_TMP/${1:-}state SBX_RUN=$SBX_TMP/${1:-}run
	export SBX_STATE SBX_RUN
}

conf()
{
	printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/sbx.conf"
	export SBX_CONFIG=$BATS_TEST_TMPDIR/sbx.conf
}

# fetched IMAGE DEPOT [OPTION...]: a fresh node has it, and a box of it; its ID is in $box.
fetched()
{
	node n1
	sbx-img fetch "$1" "$2" >/dev/null
	box=$(sbx-create -i "$1" "${@:3}" 3>&-)
}

layer_of()
{
	sbx-img show "$@" | sed -n 's/^layer	//p'
}

data_of()
{
	sbx-img show "$@" | sed -n 's/^device	//p'
}

# flip FILE OFFSET: one bit of it.
flip()
{
	python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)
f.seek(-1, 1); f.write(bytes([b[0] ^ 1]))' "$1" "$2"
}

@test "push and fetch are idempotent, and bring metadata only" {
	run -0 sbx-img push -v deb "$D"
	assert_line --partial '0 bytes of data copied'
	assert_equal "$(sbx-img ls --depot "$D" -o name | sort | xargs)" 'deb small'
	local digest
	digest=$(sbx-img ls --depot "$D" -o name,digest | sed -n 's/^deb	//p')
	fetched deb "$D"
	assert_equal "$(sbx-exec "$box" -- python3 -c 'print(6 * 7)')" 42
	[ "$(du -sm "$SBX_STATE/img" | cut -f1)" -lt 4 ]
	assert_equal "$(sbx-img fetch "$digest" "$D")" "$digest"
	assert_equal "$(sbx-img show deb | sed -n 's/^depot	//p')" "$(realpath "$D")"
	assert_equal "$(sbx-img ls -o digest)" "$digest"
}

@test "a layer that is here whole stays as it is" {
	run -0 sbx-img fetch deb "$D"
	refute [ "$(sbx-img show deb | grep -c '^depot')" -gt 0 ]
	box=$(sbx-create -i deb 3>&-)
	sbx-exec "$box" -- true
	[ -s "$SBX_STATE/img/data/$(data_of deb)" ]
}

@test "ls -lR reads no data, python reads less than a fifth" {
	slow_depot "$D" "$M"
	fetched deb "$M"
	# The program itself and its libraries lie in the image.
	sbx-exec "$box" -- ls -l / >/dev/null
	slow_ctl "$M" reset
	sbx-exec "$box" -- ls -lR / >/dev/null 2>&1 || true
	assert_equal "$(slow_stat "$M" bytes)" 0
	sbx-exec "$box" -- python3 -c 'import re'
	local all
	all=$(sbx-img show deb | sed -n 's/^data_bytes	//p')
	echo "python: $(slow_stat "$M" bytes) of $all" >&3
	[ "$(($(slow_stat "$M" bytes) * 5))" -lt "$all" ]
}

@test "a slow depot delays only who reads from it" {
	slow_depot "$D" "$M"
	fetched deb "$M"
	local id=$box begin
	slow_ctl "$M" delay_us 20000000
	bg sbx-exec "$id" -- python3 -c 'import re'
	sleep 0.5
	begin=$SECONDS
	[ "$(sbx-ls | wc -l)" -eq 1 ]
	node
	box
	sbx-exec "$box" -- true
	[ $((SECONDS - begin)) -lt 15 ]
	slow_ctl "$M" delay_us 0
	slow_ctl "$M" go
}

@test "a depot that vanishes gives EIO, is named, and new boxes work when it is back" {
	slow_depot "$D" "$M"
	fetched deb "$M"
	local old=$box digest
	digest=$(layer_of deb)
	sbx-exec "$old" -- true
	depot_vanish "$M"
	run sbx-exec "$old" -- python3 -c 1
	assert_failure
	run -0 sbx-stat "$old"
	assert_line --regexp "^layer_error=$digest $(realpath "$SBX_TMP")/mnt: .*not connected"
	run -75 sbx-create -i deb
	assert_output --partial "depot '"
	[ "$(sbx-ls -o state)" = running ]
	slow_depot "$D" "$M"
	box=$(sbx-create -i deb 3>&-)
	assert_equal "$(sbx-exec "$box" -- python3 -c 'print(1)')" 1
	assert_equal "$(sbx-stat -o layer_error "$box")" -
	sbx-stop "$old"
}

@test "a depot that hangs: limits hold, and it is given up in the end" {
	conf 'depot_timeout = 1s' 'depot_abort = 1s'
	slow_depot "$D" "$M"
	fetched deb "$M"
	sbx-exec "$box" -- true
	slow_ctl "$M" hang
	run -124 sbx-exec -t 1 "$box" -- python3 -c 1
	run -75 sbx-create -i deb
	assert_output --partial 'does not answer'
	run -0 sbx-stat "$box"
	assert_line --regexp 'layer_error=.* does not answer'
	[ "$(sbx-ls -o state)" = running ]
	sbx-reap
	sleep 1.1
	run -0 sbx-reap -v
	assert_line "$(realpath "$M")	silent"
	run sbx-exec "$box" -- python3 -c 1
	assert_failure
	sbx-stop "$box"
	slow_depot "$D" "$M"
	box=$(sbx-create -i deb 3>&-)
	sbx-exec "$box" -- python3 -c 1
}

@test "sshfs: a box runs, a dead server is an error, and a new one works" {
	sshfs_depot "$D" "$M"
	fetched deb "$M"
	assert_equal "$(sbx-exec "$box" -- python3 -c 'print(1)')" 1
	depot_vanish "$M"
	run sbx-exec "$box" -- perl -v
	assert_failure
	run -75 sbx-create -i deb
	sshfs_depot "$D" "$M"
	box=$(sbx-create -i deb 3>&-)
	sbx-exec "$box" -- python3 -c 1
}

@test "sshfs: push through it" {
	sshfs_depot "$SBX_TMP/other" "$M"
	sbx-img push small "$M" >/dev/null
	sbx-img verify --depot "$SBX_TMP/other"
	fetched small "$M"
	assert_equal "$(sbx-exec "$box" -- echo hi)" hi
}

@test "one flipped bit is found and named, in metadata and in data" {
	local d=$BATS_TEST_TMPDIR/d layer data
	cp -a "$D" "$d"
	layer=$(layer_of --depot "$d" small)
	data=$(data_of --depot "$d" small)
	sbx-img verify --depot "$d"
	flip "$d/img/data/$data" 5000
	run -1 sbx-img verify --depot "$d" small
	assert_output --partial "layer '$layer': data '$d/img/data/$data'"
	sbx-img verify --depot "$d" deb
	flip "$d/img/data/$data" 5000
	flip "$d/img/layer/$layer/meta" 4100
	run -1 sbx-img verify --depot "$d"
	assert_output --partial "layer '$layer': metadata"
}

@test "damaged metadata are not mounted, damaged data not pushed" {
	node n1
	small_image
	local meta data
	meta=$SBX_STATE/img/layer/$(layer_of small)/meta data=$SBX_STATE/img/data/$(data_of small)
	flip "$meta" 4100
	run -125 sbx-create -i small
	assert_output --partial "layer '$(layer_of small)'"
	assert_output --partial 'damaged'
	flip "$meta" 4100
	flip "$data" 77
	run -125 sbx-img push small "$BATS_TEST_TMPDIR/d"
	assert_output --partial 'damaged'
	assert_equal "$(find "$BATS_TEST_TMPDIR/d/img"/{data,layer,name,image} -type f)" ''
}

@test "a depot that lies is refused in one line" {
	local d=$BATS_TEST_TMPDIR/d layer image
	cp -a "$D" "$d"
	layer=$(layer_of --depot "$d" small)
	image=$(sbx-img ls --depot "$d" -o name,digest | sed -n 's/^small	//p')
	node n1
	flip "$d/img/layer/$layer/meta" 4100
	lies
	flip "$d/img/layer/$layer/meta" 4100
	sed -i 's/^device = .\{5\}/device = 00000/' "$d/img/layer/$layer/info"
	lies
	cp "$D/img/layer/$layer/info" "$d/img/layer/$layer/info"
	echo 'env = LD_PRELOAD=/evil' >>"$d/img/image/$image"
	lies
	cp "$D/img/image/$image" "$d/img/image/$image"
	sbx-img fetch small "$d"
}

@test "no link or fifo in a depot leads a box to what lies elsewhere" {
	local d=$BATS_TEST_TMPDIR/d data
	cp -a "$D" "$d"
	data=$(data_of --depot "$d" small)
	node n1
	sbx-img fetch small "$d"
	mv "$d/img/data/$data" "$BATS_TEST_TMPDIR/elsewhere"
	ln -s "$BATS_TEST_TMPDIR/elsewhere" "$d/img/data/$data"
	run -75 sbx-create -i small
	assert_output --partial 'cannot open'
	run ! sbx-img cache small
	rm "$d/img/data/$data"
	mkfifo "$d/img/data/$data"
	run -75 sbx-create -i small
	assert_output --partial 'no file of the right size'
	rm "$d/img/image/"*
	mkfifo "$d/img/image/$(sbx-img ls -o digest)"
	run -125 sbx-img fetch small "$d"
}

@test "push goes through no link of a depot, and clears only what pushes left" {
	local d=$BATS_TEST_TMPDIR/d v=$BATS_TEST_TMPDIR/victim dir
	cp -a "$D" "$d"
	mkdir -p "$v/node.abcdef"
	touch "$v/precious" "$v/node.abcdef/file"
	touch -d '3 days ago' "$v/precious" "$v/node.abcdef"
	for dir in img/tmp img/data img/name img/index img; do
		mv "$d/$dir" "$d/aside"
		ln -s "$v" "$d/$dir"
		run -125 sbx-img push --name x small "$d"
		assert_output --partial "$(realpath "$d")/$dir' is no directory of the depot itself"
		rm "$d/$dir"
		mv "$d/aside" "$d/$dir"
	done
	assert_equal "$(cd "$v" && find . | sort | xargs)" '. ./node.abcdef ./node.abcdef/file ./precious'
	mkdir "$d/img/tmp/notes" "$d/img/tmp/n1.aBc123"
	touch -d '3 days ago' "$d"/img/tmp/*
	sbx-img push --name x small "$d"
	assert_equal "$(ls "$d/img/tmp")" notes
	sbx-img verify --depot "$d"
}

@test "a layer stays with the depot it came from while that has it" {
	local a=$BATS_TEST_TMPDIR/a b=$BATS_TEST_TMPDIR/b
	cp -a "$D" "$a"
	cp -a "$D" "$b"
	node n1
	sbx-img fetch --name one small "$a"
	sbx-img fetch --name two small "$b"
	assert_equal "$(from one)" "$(realpath "$a")"
	# What was derived from the one refers to it.
	mkdir -p "$SBX_STATE/img/cache"
	cp -r "$SBX_STATE/img/layer/$(layer_of one)" "$SBX_STATE/img/cache/"
	sbx-img fetch --move --name two small "$b"
	assert_equal "$(from one)" "$(realpath "$b")"
	assert_equal "$(ls "$SBX_STATE/img/cache")" ''
	mv "$b/img/data/$(data_of one)" "$BATS_TEST_TMPDIR/"
	sbx-img fetch small "$a"
	assert_equal "$(from one)" "$(realpath "$a")"
	box=$(sbx-create -i two 3>&-)
	assert_equal "$(sbx-exec "$box" -- echo hi)" hi
}

@test "a depot that is silent is given up only when that is asked for" {
	conf 'depot_timeout = 1s'
	slow_depot "$D" "$M"
	node n1
	sbx-img fetch small "$M"
	slow_ctl "$M" hang
	run -75 sbx-img fetch small "$D"
	assert_output --partial -- '--move'
	assert_equal "$(from small)" "$(realpath "$SBX_TMP")/mnt"
	sbx-img fetch --move small "$D"
	assert_equal "$(from small)" "$(realpath "$D")"
}

from()
{
	sbx-img show "$1" | sed -n 's/^depot	//p'
}

@test "a push that waits for its depot keeps nobody else from the images" {
	cp -a "$D" "$BATS_TEST_TMPDIR/d"
	slow_depot "$BATS_TEST_TMPDIR/d" "$M"
	sbx-img tag small pushed
	slow_ctl "$M" delay_us 5000000
	bg sbx-img push --no-dedup pushed "$M"
	local push=$!
	within 60 waiting
	slow_ctl "$M" hang
	sbx-img tag small other
	sbx-img rm pushed other small
	sbx-img gc
	kill -0 "$push"
	assert_equal "$(sbx-img ls -o name)" deb
	slow_ctl "$M" delay_us 0
	slow_ctl "$M" go
	wait "$push"
	assert_equal "$(sbx-img ls --depot "$M" -o name | sort | xargs)" 'deb pushed small'
	sbx-img verify --depot "$M"
	small_image
}

waiting()
{
	[ "$(slow_stat "$M" waiting)" -ge 1 ]
}

lies()
{
	run --separate-stderr -125 sbx-img fetch small "$d"
	assert_output ''
	assert_equal "${#stderr_lines[@]}" 1
	assert_equal "$(sbx-img ls)" ''
}

@test "two pushes at once, and pushes cut off anywhere, leave a whole depot" {
	local d=$BATS_TEST_TMPDIR/d i a b
	bg sbx-img push small "$d"
	a=$!
	bg sbx-img push small "$d"
	b=$!
	wait "$a"
	wait "$b"
	sbx-img verify --depot "$d"
	for i in 1 2 3 4 5 6 7 8; do
		bg sbx-img push deb "$d"
		sleep "0.$((i * 7))"
		kill -9 $! 2>/dev/null || true
		wait $! || true
		sbx-img verify --depot "$d"
	done
	sbx-img push deb "$d"
	touch -d '2 days ago' "$d"/img/tmp/* 2>/dev/null || true
	sbx-img push small "$d"
	assert_equal "$(ls "$d/img/tmp")" ''
	sbx-img verify --depot "$d"
}

@test "fetch and cache cut off anywhere, then again" {
	node n1
	local i
	for i in 1 2 3 4; do
		bg sbx-img fetch deb "$D"
		sleep "0.0$((i * 2))"
		kill -9 $! 2>/dev/null || true
		wait $! || true
	done
	sbx-img fetch deb "$D"
	for i in 1 2 3 4; do
		bg sbx-img cache deb
		sleep "0.$((i * 2))"
		kill -9 $! 2>/dev/null || true
		wait $! || true
	done
	sbx-img cache deb
	sbx-img gc
	assert_equal "$(ls "$SBX_STATE/img/tmp")" ''
	sbx-img verify
}

@test "a cached image needs its depot no more" {
	slow_depot "$D" "$M"
	fetched deb "$M"
	sbx-exec "$box" -- true
	sbx-img cache deb
	depot_end "$M"
	box=$(sbx-create -i deb 3>&-)
	assert_equal "$(sbx-exec "$box" -- python3 -c 'print(1)')" 1
	run -0 sbx-stat "$box"
	refute_line --partial layer_depot
	sbx-img verify
}

@test "what a trace names is brought, and hardly anything else is read then" {
	local t=$BATS_TEST_TMPDIR/trace all
	slow_depot "$D" "$M"
	fetched deb "$M" --trace
	sbx-exec "$box" -- python3 -c 'import re'
	sbx-img trace "$box" >"$t"
	grep -q "^$(layer_of deb)	/usr/bin/python3[.0-9]*	0	" "$t"
	sbx-stop "$box"
	all=$(slow_stat "$M" bytes)
	sbx-img cache --from-trace "$t" deb
	slow_ctl "$M" reset
	box=$(sbx-create -i deb 3>&-)
	sbx-exec "$box" -- python3 -c 'import re'
	echo "python: $all bytes read, $(slow_stat "$M" bytes) after the trace" >&3
	[ "$(($(slow_stat "$M" bytes) * 50))" -lt "$all" ]
	# What was not brought is read from the depot as before.
	sbx-exec "$box" -- sh -c 'cat /usr/bin/* >/dev/null'
	[ "$(slow_stat "$M" bytes)" -gt 1000000 ]
	sbx-img verify
	# It goes with its image.
	sbx-stop "$box"
	sbx-reap
	sbx-img rm deb
	assert_equal "$(find "$SBX_STATE"/img/{cache,data,layer} -type f)" ''
}

@test "sbx-img trace refuses a box that is not traced" {
	box
	run -125 sbx-img trace "$box"
	assert_output --partial -- '--trace'
}

@test "files that the depot has are not stored again" {
	local d=$BATS_TEST_TMPDIR/d before after r=$BATS_TEST_TMPDIR/root
	node n1
	mkdir "$r"
	tar -C "$r" -xf "$("$top/mk/debian-root" "$O/cache" python3-minimal)"
	echo one >"$r/etc/one"
	sbx-img import --name one "$r" >/dev/null
	sbx-img push one "$d" >/dev/null
	before=$(du -sm "$d/img/data" | cut -f1)
	rm "$r/etc/one"
	head -c 300000 /dev/urandom >"$r/etc/two"
	mv "$r/usr/bin" "$r/usr/tools"
	sbx-img import --name two "$r" >/dev/null
	local digest
	digest=$(sbx-img push two "$d")
	after=$(du -sm "$d/img/data" | cut -f1)
	[ $((after - before)) -le 1 ]
	# The second time, and from a node that made the same image.
	assert_equal "$(sbx-img push two "$d")" "$digest"
	sbx-img verify --depot "$d"
	sbx-reap
	sbx-img rm one two
	assert_equal "$(sbx-img fetch two "$d")" "$digest"
	sbx-img cache two
	sbx-img verify
	# The same files, from data of two images.
	box=$(sbx-create -i two 3>&-)
	sbx-exec "$box" -- /usr/tools/sha256sum /etc/two /usr/tools/perl | sed 's/ .*//' >"$BATS_TEST_TMPDIR/in"
	sha256sum "$r/etc/two" "$r/usr/tools/perl" | sed 's/ .*//' >"$BATS_TEST_TMPDIR/out"
	diff "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	assert_equal "$(sbx-img ls -o digest)" "$digest"
}
