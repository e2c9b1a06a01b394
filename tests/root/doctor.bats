# sbx-doctor: this node has what it needs, and what is taken away is missed.
load ../helpers

@test "nothing is missing here, and nothing is left of the trials" {
	mkdir -p "$SBX_TMP/dir"
	run -0 env SBX_STATE="$SBX_TMP/dir/state" sbx-doctor
	for need in config root erofs idmap overlay cgroup namespaces seccomp state run space memory \
		sbx-keep sbx-init sbx-seccomp share; do
		assert_line --regexp "^ok"$'\t'"$need"$'\t'
	done
	[ -z "$(ls -A "$SBX_TMP/dir")" ]
	run -1 grep -q doctor /proc/self/mountinfo
	run -0 find /sys/fs/cgroup -maxdepth 4 -type d -path '*/sbx/doctor.*'
	refute_output
}

@test "programs that are absent, or that others can write, are named with a cure" {
	mkdir "$SBX_TMP/libexec"
	cp "$SBX_LIBEXEC"/sbx-{keep,init} "$SBX_TMP/libexec"
	chmod 777 "$SBX_TMP/libexec/sbx-init"
	SBX_LIBEXEC=$SBX_TMP/libexec SBX_SHARE=/nowhere run -1 sbx-doctor -q
	assert_line --regexp $'^missing\tsbx-init\tothers can write .*\tchown root:root .*chmod 755'
	assert_line --regexp $'^missing\tsbx-seccomp\tcannot find '
	assert_line --regexp $'^missing\tshare\t'
	refute_line --partial sbx-keep
}

@test "a bad line in sbx.conf is missed with its place, and the rest still told" {
	printf 'max_boxes = 10\nnonsense = 1\n' >"$SBX_TMP/bad.conf"
	SBX_CONFIG=$SBX_TMP/bad.conf run -1 sbx-doctor
	assert_line --regexp $'^missing\tconfig\t.*bad.conf:2: unknown key'
	assert_line --regexp $'^ok\terofs'
}

@test "a node configured for less or more than it has" {
	printf 'disk_reserve = 1000T\n' >"$SBX_TMP/reserve.conf"
	SBX_CONFIG=$SBX_TMP/reserve.conf run -1 sbx-doctor -q
	assert_line --regexp $'^missing\tspace\t'
	printf 'id_base = 100000\nmax_boxes = 10\n' >"$SBX_TMP/ids.conf"
	if grep -q ':100000:' /etc/subuid; then
		SBX_CONFIG=$SBX_TMP/ids.conf run -0 sbx-doctor -q
		assert_line --regexp $'^warn\tids\t/etc/subuid: '
	fi
}

@test "a state directory that cannot be an upper, or that is not ours" {
	mkdir "$SBX_TMP/open"
	chmod 777 "$SBX_TMP/open"
	SBX_STATE=$SBX_TMP/open run -1 sbx-doctor -q
	assert_line --regexp $'^missing\tstate\tothers can write'
	mkdir "$SBX_TMP/proc"
	SBX_STATE=/proc/sbx run -1 sbx-doctor -q
	assert_line --regexp $'^missing\terofs\t'
}

@test "records for programs" {
	run -0 sbx-doctor --json
	python3 -c 'import json,sys
for l in sys.stdin:
    r = json.loads(l)
    assert r["status"] in ("ok", "warn", "info") and r["need"] and r["detail"]' <<<"$output"
}
