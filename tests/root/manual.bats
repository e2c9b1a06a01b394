# The commands under EXAMPLES of each manual page run as they are printed. What a page takes for given
# (the boxes "mybox", "a", "b", "box1" and run=17, an ID, a task, a repository, an image with "make")
# is made here. All examples run; four are changed: the ID is a real box's, the shell gets a terminal
# and its input from script(1), cron's line loses the time and the user, /mnt/depot is elsewhere.
# shellcheck disable=SC2154,SC2030,SC2031 # lines is set by run; box and work are a test's own
load ../helpers
load ../depot

setup_file()
{
	sbx_setup_file
	local root=$SBX_TMP/root
	small_root "$root"
	mkdir -p "$root"/{home/agent,work}
	echo 'agent:x:1001:1001:agent:/home/agent:/bin/sh' >>"$root/etc/passwd"
	echo 'PRETTY_NAME="small"' >"$root/etc/os-release"
	cat >"$root/bin/make" <<-'EOT'
		#!/bin/sh
		[ "$1" = -C ] && cd "$2" && cat Makefile && echo '{"reward":1}' >result.json
		echo made "$@"
	EOT
	chmod 755 "$root/bin/make"
	sbx-img import --name small "$root" >/dev/null
	sbx-img tag small debian
}

setup()
{
	work=$(mktemp -d "$SBX_TMP/work.XXXXXX")
	cd "$work" || return
}

teardown()
{
	sbx-stop --all
	depots_end
	rm -rf "$work"
}

# printed PAGE: what its EXAMPLES show, as a reader sees it. Examples are indented deeper than text.
printed()
{
	mandoc -T ascii -O width=300 "$top"/share/man/man[178]/"$1".[178] | col -bx |
		awk '/^[A-Z]/ { on = $0 == "EXAMPLES" } on' | sed -n 's/^ \{9,\}//p'
}

# examples PAGE: all of them as one script.
examples()
{
	printed "$1" >shown
	[ -s shown ]
	run ! grep -v -e '^[$#] ' -e '^\* \* \* \* \* root ' shown
	sed -e 's/^[$#] //' -e "s,/mnt/depot,$SBX_TMP/depot,g" -e 's/^\* \* \* \* \* root //' \
		-e "s/n017\.1k3v9x2q8ab/$box/g" -e "s/1k3v9x2q8ab/${box#*.}/g" \
		-e "s/^sbx-exec -T.*/echo 'echo in-\$((40 + 2)); exit' | script -qec '&' typescript/" shown >script
	run --separate-stderr bash -euo pipefail script 3>&-
	[ "$status" -eq 0 ] || fail "$(printf 'exit %s\n%s\n%s\n' "$status" "$output" "$stderr")"
	assert_equal "$stderr" ''
}

@test "manual: sbx" {
	tar -C "$SBX_TMP/root" -czf rootfs.tar.gz .
	mkdir task
	examples sbx
	assert_line 'made test'
	assert_equal "$(value end end) $(sbx-ls | wc -l)" 'exit 0'
}

@test "manual: sbx-create" {
	mkdir repo linter
	echo 'echo checked "$PWD"' >linter/run
	examples sbx-create
	assert_line 'checked /workspace/repo'
	assert_line 'PRETTY_NAME="small"'
	assert_equal "$(grep -c "^$SBX_NODE\..*	exit	0	" <<<"$output")" 16
	assert_equal "$(sbx-ls | wc -l)" 0
}

@test "manual: sbx-exec" {
	box --name mybox -l run=17
	box -l run=17
	examples sbx-exec
	assert_line 'made test'
	assert_line 'end=exit'
	assert_line 2
	assert_line --partial in-42
}

@test "manual: sbx-stop" {
	box -l run=17
	box
	examples sbx-stop
	refute_output
	assert_equal "$(sbx-ls | wc -l)" 0
}

@test "manual: sbx-ls" {
	box --ttl 1s
	within 15 sbx-wait "$box"
	box -l run=17
	examples sbx-ls
	assert_line --index 0 "$box"
	assert_line --index 1 --regexp '^ +1 ttl$'
}

@test "manual: sbx-stat" {
	box
	box --name mybox
	examples sbx-stat
	assert_equal "${#lines[@]}" 3
	assert_line --regexp "^[0-9]+	$box\$"
}

@test "manual: sbx-wait" {
	box --name mybox
	box --ttl 1s -l run=17
	examples sbx-wait
	assert_output 'made'
}

@test "manual: sbx-log" {
	box --name mybox
	run -0 sbx-exec mybox -- true
	run -7 sbx-exec mybox -- sh -c 'exit 7'
	sbx-exec -d mybox -- sh -c 'echo begun; sleep 1; echo done'
	examples sbx-log
	assert_line --index 0 --regexp '^2	exit	7	'
	assert_line --index -2 begun
	assert_line --index -1 'done'
}

@test "manual: sbx-cp" {
	box --name a
	sbx-exec a -- sh -c 'mkdir -p /work/src && echo source >/work/src/f'
	box --name b
	box --name box1
	box
	mkdir task results
	echo 'all:' >task/Makefile
	git init -q .
	git -c user.name=t -c user.email=t@localhost commit -q --allow-empty -m empty
	echo file >tracked
	git add tracked
	git -c user.name=t -c user.email=t@localhost commit -q -m 'add a file'
	examples sbx-cp
	assert_equal "$(cat results/17.json)" '{"reward":1}'
	assert_equal "$(sbx-exec b -- cat /work/src/f)" source
	assert_equal "$(sbx-exec box1 -- stat -c %U /home/agent/tracked)" agent
	run ! sbx-exec box1 -- ls /home/agent/.git
}

@test "manual: sbx-snap" {
	box --name mybox
	examples sbx-snap
	assert_equal "${#lines[@]}" 6
	assert_line --index 5 --regexp '^[0-9]+	[0-9]+	[0-9]+$'
}

@test "manual: sbx-fork" {
	box --name mybox
	examples sbx-fork
	assert_equal "$(grep -c "^$SBX_NODE\..*	exit	0	" <<<"$output")" 8
	assert_equal "$(sbx-ls | wc -l)" 1
}

@test "manual: sbx-reap" {
	box --ttl 1s
	within 15 sbx-wait "$box"
	examples sbx-reap
	assert_output --partial "$box"
	assert_equal "$(sbx-ls | wc -l)" 1
}

@test "manual: sbx-img push, fetch, verify, cache, trace" {
	examples sbx-img-push
	examples sbx-img-verify
	refute_output
	examples sbx-img-fetch
	assert_line --partial swe/py311
	examples sbx-img-cache
	examples sbx-img-trace
	assert_line --regexp '^[0-9]+	/bin/busybox$'
}

@test "manual: sbx-img-pull" {
	registry_start
	printf 'layer gzip\ntree %s\nlayer zstd\nfile more more\n' "$SBX_TMP/root" | oci_build oci "oci:t"
	skopeo copy -q --dest-tls-verify=false oci:oci:t "docker://$REGISTRY/team/base:1"
	printf 'layer plain\ntree %s\n' "$SBX_TMP/root" | oci_build docker saved.tar:team/base:1
	mkdir -p .config/containers
	printf '[[registry]]\nprefix = "registry.example"\nlocation = "%s"\ninsecure = true\n' "$REGISTRY" \
		>.config/containers/registries.conf
	HOME=$PWD examples sbx-img-pull
	assert_equal "$(sbx-img show base:apart | grep -c '^layer')" 2
	sbx-img rm base:1 base:apart
}

@test "manual: sbx-img-diff" {
	cp -a "$SBX_TMP/root" changed
	echo new >changed/etc/new
	echo 'root:x:0:0:other:/root:/bin/sh' >changed/etc/passwd
	sbx-img import --name changed changed >/dev/null
	examples sbx-img-diff
	assert_line --regexp '^A	/etc/new	'
	assert_line --regexp '^content.*	/etc/passwd$'
	assert_equal "${#lines[@]}" 2
	sbx-img rm changed
}

@test "manual: sbx-img-export" {
	examples sbx-img-export
	assert_line manifest.json
	[ -f small.tar ] && [ -f layout/index.json ]
}

@test "manual: sbx-img-collapse" {
	examples sbx-img-collapse
	assert_equal "${#lines[@]}" 1
	sbx-img rm flat
}
