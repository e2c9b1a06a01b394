# sbx-ls: what it lists, filters and columns, and that nothing holds it up.
# shellcheck disable=SC2154,SC2016 # box and lines are set by others; quoted scripts are the box's
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
	small_image other:v1
}

teardown()
{
	sbx-stop --all
}

@test "a record for each box, the oldest first, with the columns of the manual" {
	box --name first -l run=17 -l k=v --ttl 1h
	local first=$box
	sleep 0.2
	box
	run -0 sbx-ls -H
	assert_line --index 0 "$(printf 'id\tname\tstate\timage\tcreated\tage_ms\tttl_left_ms\tlabels\tcause')"
	assert_line --index 1 --regexp "^$first"$'\tfirst\trunning\tsmall\t2[0-9TZ:.-]+\t[0-9]+\t3[0-9]{6}\trun=17,k=v\t-$'
	assert_line --index 2 --regexp "^$box"$'\t-\trunning\tsmall\t2[0-9TZ:.-]+\t[0-9]+\t-\t-\t-$'
	run -0 sbx-ls -o id,mem_bytes,pids,net,hostname,cpu_milli "$box"
	assert_output "$(printf '%s\t67108864\t64\tnone\t%s\t-' "$box" "${box#*.}")"
}

@test "JSON lines have the same names and plain numbers" {
	box -l 'odd="x\y'
	run -0 sbx-ls --json
	run -0 python3 -c 'import json,sys
r = json.loads(sys.argv[1])
assert r["state"] == "running" and r["cause"] is None and r["labels"] == "odd=\"x\\y"
assert isinstance(r["age_ms"], int) and r["ttl_left_ms"] is None' "$output"
}

@test "filters by state, label and image" {
	box -l a=1 -l b=2
	local one=$box
	box -l a=2
	local two=$box three
	three=$(sbx-create -i other:v1 -l a=1 3>&-)
	sbx-stop --keep "$two"
	run -0 sbx-ls -q -l a=1
	assert_equal "$(sort <<<"$output")" "$(printf '%s\n%s' "$one" "$three" | sort)"
	run -0 sbx-ls -q -l a -l b
	assert_output "$one"
	run -0 sbx-ls -q -s dead
	assert_output "$two"
	run -0 sbx-ls -o cause -s dead -s creating
	assert_output stopped
	run -0 sbx-ls -q -i other:v1
	assert_output "$three"
	run -0 sbx-ls -q -i small:latest
	assert_equal "$(sort <<<"$output")" "$(printf '%s\n%s' "$one" "$two" | sort)"
	run -0 sbx-ls -q -i "$(sbx-ls -o digest "$three" | cut -c1-12)"
	assert_line "$three"
	run -0 sbx-ls -q -i other
	refute_output
	run -125 sbx-ls -s alive
	assert_output --partial "--state 'alive'"
}

@test "operands are IDs, starts of tails, names; one that fits nothing is a 1" {
	box --name here
	local tail=${box#*.}
	run -0 sbx-ls -q here
	assert_output "$box"
	run -0 sbx-ls -q "${tail:0:9}"
	assert_output "$box"
	run -1 sbx-ls -q "$box" nowhere
	assert_line "$box"
	assert_line "sbx-ls: no box 'nowhere' on this node"
}

@test "a stopped keeper, a damaged spec and a half-made box do not hold it up" {
	box
	local pid bad=$SBX_NODE.0000000zzzz half=$SBX_NODE.0000000zzzy
	pid=$(pgrep -f "sbx-keep $box")
	kill -STOP "$pid"
	mkdir "$SBX_STATE/box/$bad" "$SBX_STATE/box/$half"
	echo 'id = nonsense' >"$SBX_STATE/box/$bad/spec"
	run -1 timeout 1 sbx-ls -o id,state,cause
	kill -CONT "$pid"
	assert_line "$(printf '%s\trunning\t-' "$box")"
	assert_line "$(printf '%s\tdead\tlost' "$bad")"
	assert_line "$(printf '%s\tdead\tlost' "$half")"
	assert_line --partial "the spec of box '$bad' is damaged"
}

@test "on a terminal -q prints IDs alone, and a list has a header" {
	box
	run -0 script -qec "sbx-ls -q" /dev/null
	assert_output "$box"$'\r'
	run -0 script -qec "sbx-ls" /dev/null
	assert_line --index 0 --regexp '^ID +NAME +STATE'
}

@test "3,200 boxes are listed within a second, in few system calls each" {
	mkdir -p "$SBX_TMP/many/box" "$SBX_TMP/many-run"
	chmod 700 "$SBX_TMP/many" "$SBX_TMP/many-run"
	python3 - "$SBX_TMP/many/box" "$SBX_NODE" <<'EOF'
import os, sys
a = "0123456789abcdefghjkmnpqrstvwxyz"
for i in range(3200):
    id = f"{sys.argv[2]}.1m1eqt0{a[i // 32768 % 32]}{a[i // 1024 % 32]}{a[i // 32 % 32]}{a[i % 32]}"
    os.mkdir(f"{sys.argv[1]}/{id}")
    with open(f"{sys.argv[1]}/{id}/spec", "w") as f:
        f.write(f"id = {id}\nimage = small\nslot = 1\nid_base = 65536\nid_count = 65536\n")
EOF
	export SBX_STATE=$SBX_TMP/many SBX_RUN=$SBX_TMP/many-run
	sbx-ls >/dev/null
	local best=9999 begin took
	for _ in 1 2 3; do
		begin=$(date +%s%3N)
		sbx-ls >"$SBX_TMP/list"
		took=$(($(date +%s%3N) - begin))
		[ "$took" -ge "$best" ] || best=$took
	done
	echo "took $best ms"
	[ "$(wc -l <"$SBX_TMP/list")" -eq 3200 ]
	[ "$best" -lt 1000 ]
}
