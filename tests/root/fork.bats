# Forks: what they share with their box, how long that lives, and what is left when one fails.
# limit: 900
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154 # scripts are the box's; box is set by box
load ../helpers

setup_file()
{
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300}
	sbx_setup_file
	small_image
}

teardown()
{
	sbx-stop --all
	sbx-img gc
}

in_box()
{
	sbx-exec "$box" -- sh -c "$1"
}

spec()
{
	value "$2" "$SBX_STATE/box/$1/spec"
}

count()
{
	find "$SBX_STATE/img/$1" -mindepth 1 -maxdepth 1 | wc -l
}

layers_mounted()
{
	awk -v a="$SBX_RUN/layer/" 'index($5, a) == 1' /proc/self/mountinfo | wc -l
}

@test "a fork begins as the box is, and is a box of the same kind" {
	box --name parent -e A=1 -e B=2 -l run=17 -l k=v -u user -w /tmp --ttl 1h --idle 30m -c 0.5 --no-new-privs
	sbx-exec -d "$box" -- sleep 100
	in_box 'echo mine >/tmp/f; echo typed >/tmp/.ash_history'
	fork=$(sbx-fork -e C=3 -e B=4 -l k=w --name child --ttl 2h parent)
	assert_equal "$(sbx-exec child -- sh -c 'cat /tmp/f /tmp/.ash_history; echo $A$B$C; id -u; pwd')" \
		$'mine\ntyped\n143\n1000\n/tmp'
	for key in user workdir mem_bytes pids cpu_milli idle_ms max_output no_new_privs net seccomp; do
		assert_equal "$key $(spec "$fork" $key)" "$key $(spec "$box" $key)"
	done
	assert_equal "$(spec "$fork" parent)" "$box"
	assert_equal "$(spec "$fork" ttl_ms)" 7200000
	assert_equal "$(grep '^label' "$SBX_STATE/box/$fork/spec")" $'label = run=17\nlabel = k=w'
	assert_equal "$(sbx-exec child -- hostname)" "${fork#*.}"
	# Processes are not forked, and each goes its own way.
	assert_equal "$(sbx-exec child -- sh -c 'ps | grep -c "[s]leep 100"')" 0
	sbx-exec child -- sh -c 'echo more >>/tmp/f'
	assert_equal "$(in_box 'cat /tmp/f')" mine
	assert_equal "$(in_box 'ps | grep -c "[s]leep 100"')" 1
}

@test "a fork of a fork, of a composed box, of one that has ended" {
	echo tool >"$BATS_TEST_TMPDIR/tool"
	mkdir "$BATS_TEST_TMPDIR/tree"
	mv "$BATS_TEST_TMPDIR/tool" "$BATS_TEST_TMPDIR/tree/"
	sbx-img import --name tools --at /opt/tools "$BATS_TEST_TMPDIR/tree" >/dev/null
	box --toolkit tools
	in_box 'echo 1 >/root/f; rm /opt/tools/tool; echo 2 >/opt/tools/new'
	one=$(sbx-fork "$box")
	sbx-exec "$one" -- sh -c 'echo 2 >>/root/f'
	two=$(sbx-fork "$one")
	sbx-stop --keep "$two"
	three=$(sbx-fork "$two")
	assert_equal "$(sbx-exec "$three" -- sh -c 'cat /root/f; ls /opt/tools; stat -c %a /tmp /opt')" \
		$'1\n2\nnew\n1777\n755'
	assert_equal "$(grep -c '^layer = ' "$SBX_STATE/box/$three/spec")" 5
	sbx-img rm tools
}

@test "the image of a fork lives as long as its boxes" {
	images=$(count image) layers=$(count layer)
	box
	in_box 'echo x >/root/x'
	forks=$(sbx-fork -n 3 "$box")
	assert_equal "$(wc -l <<<"$forks")" 3
	assert_equal "$(count image) $(count layer)" "$((images + 1)) $((layers + 1))"
	assert_equal "$(sbx-img ls | grep -vc '^small	')" 0
	sbx-stop "$box"
	{ read -r last; sbx-stop -; } <<<"$forks"
	sbx-img gc
	assert_equal "$(sbx-exec "$last" -- cat /root/x)" x
	assert_equal "$(sbx-create -i "$(spec "$last" image)" -m 64M | sbx-exec - -- cat /root/x | grep -c "	exit	0	")" 1
	sbx-stop --all
	sbx-img gc
	assert_equal "$(count image) $(count layer) $(count tmp)" "$images $layers 0"
}

@test "a collection at any time does not take what is being forked" {
	box
	bg bash -c 'while [ -e "$1" ]; do sbx-img gc; done' gc "$SBX_STATE/box/$box"
	pid=$!
	for i in 1 2 3 4 5; do
		in_box "echo $i >/root/x"
		fork=$(sbx-fork "$box")
		assert_equal "$(sbx-exec "$fork" -- cat /root/x)" "$i"
		sbx-stop "$fork"
	done
	sbx-stop "$box"
	wait "$pid"
}

# The gap between the publication and the first spec: the stage's directory is what holds the image.
published()
{
	[ "$(count image)" -gt "$1" ]
}

@test "a collection between the publication and the boxes" {
	box
	in_box 'echo gap >/root/x'
	images=$(count image)
	# The last lock it takes is the shared one under which the boxes are made; before it, the gate.
	strace -o "$BATS_TEST_TMPDIR/calls" -e trace=flock sbx-fork "$box" >"$BATS_TEST_TMPDIR/first"
	sbx-stop - <"$BATS_TEST_TMPDIR/first"
	sbx-img gc
	nth=$(($(grep -n 'LOCK_SH' "$BATS_TEST_TMPDIR/calls" | tail -n 1 | cut -d: -f1) - 1))
	bg strace -o "$BATS_TEST_TMPDIR/trace" -e trace=flock \
		-e inject=flock:delay_enter=5000000:when="$nth" sbx-fork "$box" >"$BATS_TEST_TMPDIR/out"
	pid=$!
	within 20 published "$images"
	sbx-img gc
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
	wait "$pid"
	assert_equal "$(sbx-exec - -- cat /root/x <"$BATS_TEST_TMPDIR/out" | grep -c "	exit	0	")" 1
}

@test "a fork that has no room for all: those made live, the exit is sbx-create's" {
	printf 'max_boxes = 4\n' >"$BATS_TEST_TMPDIR/conf"
	export SBX_CONFIG=$BATS_TEST_TMPDIR/conf
	box
	run -75 --separate-stderr sbx-fork -n 9 "$box"
	assert_equal "${#lines[@]}" 3
	assert_regex "$stderr" 'sbx-fork: made 3 of 9 boxes'
	assert_equal "$(sbx-exec - -- true <<<"$output" | grep -c "	exit	0	")" 3
	images=$(count image)
	run -75 --separate-stderr sbx-fork "$box"
	assert_equal "$output$(count image)" "$images"
	[ -n "$(sbx-exec "$box" -- echo runs)" ]
}

@test "misuse, and boxes that are not there" {
	box
	run -125 sbx-fork
	run -125 sbx-fork -n 0 "$box"
	run -125 sbx-fork -n 2 --name x "$box"
	run -125 sbx-fork -l nothing "$box"
	run -123 sbx-fork nobody
	run -0 --separate-stderr sbx-fork -v "$box"
	assert_regex "$stderr" "^sbx-fork: box '$box' was frozen for [0-9.]+ ms\$"
}

has_lines()
{
	[ "$(wc -l <"$2")" -ge "$1" ]
}

# Boxes that were not printed have gone, or go with the next reap.
only_printed()
{
	sbx-reap >/dev/null
	sbx-ls -q | grep -vx "$box" | sort | diff - <(sort "$BATS_TEST_TMPDIR/out")
}

@test "kill -9 half-way: the boxes that were printed live on, the rest goes" {
	box
	in_box 'echo x >/root/x'
	bg sbx-fork -n 200 "$box" >"$BATS_TEST_TMPDIR/out"
	pid=$!
	within 60 has_lines 5 "$BATS_TEST_TMPDIR/out"
	kill -KILL "$pid"
	wait "$pid" || true
	within 60 only_printed
	n=$(wc -l <"$BATS_TEST_TMPDIR/out")
	assert_equal "$(sbx-exec - -- cat /root/x <"$BATS_TEST_TMPDIR/out" | grep -c "	exit	0	")" "$n"
	in_box 'echo runs'
	assert_equal "$(count tmp)" 0
}

@test "a hundred forks of a box with ten thousand changed files share one layer" {
	layers=$(count layer) mounts=$(layers_mounted)
	box -m 512M
	in_box 'mkdir /w; for i in $(seq 10000); do echo $i >/w/$i; done'
	used=$(du -s "$SBX_STATE/img" | cut -f1)
	begin=$(date +%s%N)
	sbx-fork -n 100 "$box" >"$BATS_TEST_TMPDIR/forks"
	forked=$((($(date +%s%N) - begin) / 1000000))
	assert_equal "$(wc -l <"$BATS_TEST_TMPDIR/forks")" 100
	assert_equal "$(count layer)" $((layers + 1))
	[ "$(layers_mounted)" -le $((mounts + 2)) ]
	# The layer: a block for each file, and metadata. The boxes: nothing of it.
	[ $(($(du -s "$SBX_STATE/img" | cut -f1) - used)) -lt 60000 ]
	while read -r id; do
		[ "$(find "$SBX_STATE/box/$id/upper" | wc -l)" -lt 10 ]
	done <"$BATS_TEST_TMPDIR/forks"
	assert_equal "$(sbx-exec "$(tail -n 1 "$BATS_TEST_TMPDIR/forks")" -- sh -c 'ls /w | wc -l')" 10000
	sbx-stop - <"$BATS_TEST_TMPDIR/forks"
	begin=$(date +%s%N)
	sbx-create -i small -n 100 >"$BATS_TEST_TMPDIR/plain"
	echo "# fork -n 100: $forked ms; create -n 100: $((($(date +%s%N) - begin) / 1000000)) ms" >&3
}
