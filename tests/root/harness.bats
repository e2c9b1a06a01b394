# What tests of depots and registries stand on: it delays, counts, hangs, vanishes, and goes away.
# limit: 600
load ../helpers
load ../depot

setup_file()
{
	sbx_setup_file
	mkdir "$SBX_TMP/dir"
	head -c 4M /dev/urandom >"$SBX_TMP/dir/four"
	echo hello >"$SBX_TMP/dir/small"
	export MNT=$SBX_TMP/mnt
}

teardown()
{
	depots_end
}

# hits N KEY MNT: is the count of KEY at least N?
hits()
{
	[ "$(slow_stat "$3" "$2")" -ge "$1" ]
}

@test "harness: slowfs counts reads by file, and none that the page cache answers" {
	slow_depot "$SBX_TMP/dir" "$MNT"
	assert_equal "$(slow_stat "$MNT" reads) $(slow_stat "$MNT" /four)" '0 0 0'
	run -0 ls -lR "$MNT"
	assert_equal "$(slow_stat "$MNT" bytes)" 0
	cmp "$MNT/four" "$SBX_TMP/dir/four"
	cmp "$MNT/four" "$SBX_TMP/dir/four"
	assert_equal "$(slow_stat "$MNT" bytes)" $((4 << 20))
	assert_equal "$(slow_stat "$MNT" /four)" "$(slow_stat "$MNT" reads) $((4 << 20))"
	assert_equal "$(slow_stat "$MNT" /small)" '0 0'
	slow_ctl "$MNT" reset
	assert_equal "$(slow_stat "$MNT" bytes) $(slow_stat "$MNT" /four)" '0 0 0'
	run -1 slow_ctl "$MNT" nonsense
	assert_output "unknown command 'nonsense'"
}

@test "harness: slowfs delays each read, those at the same time at once" {
	local began i
	slow_depot "$SBX_TMP/dir" "$MNT" 1000000
	began=$(date +%s%3N)
	bg cat "$MNT/small" >/dev/null
	dd if="$MNT/four" iflag=direct bs=4k count=1 of=/dev/null 2>/dev/null
	wait "$!"
	[ $(($(date +%s%3N) - began)) -ge 1000 ]
	# However many there are, all wait at the same time.
	slow_ctl "$MNT" delay_us 1000000000
	for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
		bg dd if="$MNT/four" iflag=direct bs=4k skip="$i" count=1 of=/dev/null 2>/dev/null
	done
	within 60 hits 20 waiting "$MNT"
}

@test "harness: slowfs limits all reads together to its bandwidth" {
	local began
	slow_depot "$SBX_TMP/dir" "$MNT" 0 2097152
	began=$(date +%s%3N)
	cat "$MNT/four" >/dev/null
	# Two seconds, but for what is still under way when the last byte has come.
	[ $(($(date +%s%3N) - began)) -ge 1900 ]
	slow_ctl "$MNT" bandwidth 0
}

@test "harness: slowfs is written to as a file system is" {
	local d=$MNT/a/b
	slow_depot "$SBX_TMP/dir" "$MNT"
	mkdir -p "$d"
	cp "$SBX_TMP/dir/four" "$d/new"
	sync "$d/new"
	mv "$d/new" "$d/four"
	echo more >>"$d/four"
	chmod 400 "$d/four"
	ln "$d/four" "$d/hard"
	ln -s four "$d/soft"
	truncate -s 5 "$MNT/small"
	assert_equal "$(stat -c '%s %a %h' "$SBX_TMP/dir/a/b/four") $(readlink "$d/soft")" \
		"$(((4 << 20) + 5)) 400 2 four"
	cmp -n $((4 << 20)) "$d/soft" "$SBX_TMP/dir/four"
	assert_equal "$(slow_stat "$MNT" written)" $(((4 << 20) + 5))
	rm -r "$MNT/a"
	[ ! -e "$SBX_TMP/dir/a" ]
	assert_equal "$(cat "$SBX_TMP/dir/small")" hello
	echo hello >"$MNT/small"
	assert_equal "$(cat "$SBX_TMP/dir/small")" hello
}

@test "harness: slowfs hangs, answers its control meanwhile, and goes on" {
	local reader
	slow_depot "$SBX_TMP/dir" "$MNT"
	slow_ctl "$MNT" hang
	bg cat "$MNT/small" >"$SBX_TMP/out"
	reader=$!
	within 30 hits 1 waiting "$MNT"
	kill -0 "$reader"
	slow_ctl "$MNT" go
	wait "$reader"
	assert_equal "$(cat "$SBX_TMP/out")" hello
	# All reads are errors, nothing else is.
	slow_ctl "$MNT" fail
	run -1 cat "$MNT/four"
	assert_output --partial 'Input/output error'
	run -0 stat "$MNT/four"
	slow_ctl "$MNT" go
	cmp "$MNT/four" "$SBX_TMP/dir/four"
	# A hung one goes away all the same.
	slow_ctl "$MNT" hang
	bg cat "$MNT/small"
	reader=$!
	within 30 hits 1 waiting "$MNT"
	depot_end "$MNT"
	run ! wait "$reader"
}

@test "harness: a depot that vanishes is ENOTCONN, and can come back" {
	slow_depot "$SBX_TMP/dir" "$MNT"
	exec 7<"$MNT/four"
	depot_vanish "$MNT"
	run -1 cat "$MNT/small"
	assert_output --partial 'Transport endpoint is not connected'
	run -1 cat <&7
	assert_output --partial 'Transport endpoint is not connected'
	exec 7<&-
	slow_depot "$SBX_TMP/dir" "$MNT"
	run -0 cat "$MNT/small"
	assert_output hello
}

@test "harness: sshfs over an sshd of our own" {
	sshfs_depot "$SBX_TMP/dir" "$MNT"
	cmp "$MNT/four" "$SBX_TMP/dir/four"
	echo there >"$MNT/by-ssh"
	assert_equal "$(cat "$SBX_TMP/dir/by-ssh")" there
	rm "$MNT/by-ssh"
	# A second one shares the sshd.
	sshfs_depot "$SBX_TMP/dir" "$SBX_TMP/mnt2"
	cmp "$SBX_TMP/mnt2/four" "$SBX_TMP/dir/four"
	depot_vanish "$MNT"
	run -1 cat "$MNT/small"
	assert_output --partial 'Transport endpoint is not connected'
	run -0 cat "$SBX_TMP/mnt2/small"
	assert_output hello
}

# description: three layers with all that layers can do.
description()
{
	cat <<-END
		user nobody
		workdir /work
		env A=1 'B=two words'
		entrypoint /bin/sh -c
		cmd 'echo "x y"'
		label who=test
		layer gzip
		tree $SBX_TMP/dir srv
		file bin/tool 'does this' # and that
		mode 4755
		cap 13
		dir old
		file old/a a
		file old/b b
		layer zstd
		opaque old
		file old/c c
		whiteout srv/small
		link srv/again srv/four
		file data binary
		xattr user.bin 0x00ff8081
		owner 12345 4000000000
		layer plain
		random noise 3M
		zeros none 1M
		dir work
		owner 65534 65534
		file $(printf 'n%.0s' {1..200})/ü long
		symlink sl ../../etc
		fifo ff
		char null 1 3
	END
}

# blob LAYOUT DIGEST: its path.
blob()
{
	echo "$1/blobs/sha256/${2#*:}"
}

# digests LAYOUT: of its one image's layers.
digests()
{
	jq -r '.layers[].digest' "$(blob "$1" "$(jq -r '.manifests[0].digest' "$1/index.json")")"
}

@test "harness: built layers are what was described, the same each time" {
	local layer
	description | oci_build oci "$SBX_TMP/oci"
	description | oci_build oci "$SBX_TMP/oci2:other"
	description | sed 's/^user .*/arch arm64/' | oci_build oci "$SBX_TMP/oci2:arm"
	description | oci_build docker "$SBX_TMP/docker.tar:name:tag"
	assert_equal "$(digests "$SBX_TMP/oci")" "$(digests "$SBX_TMP/oci2")"
	assert_equal "$(ls "$SBX_TMP/oci/blobs/sha256" | wc -l) $(ls "$SBX_TMP/oci2/blobs/sha256" | wc -l)" '5 7'
	(cd "$SBX_TMP/oci/blobs/sha256" && sha256sum --quiet -c <(ls | awk '{ print $1 "  " $1 }'))
	mkdir "$SBX_TMP/x"
	for layer in $(digests "$SBX_TMP/oci"); do
		bsdtar -xpf "$(blob "$SBX_TMP/oci" "$layer")" -C "$SBX_TMP/x" --xattrs
	done
	cd "$SBX_TMP/x"
	cmp srv/again "$SBX_TMP/dir/four"
	assert_equal "$(getcap bin/tool) $(stat -c %a bin/tool) $(stat -c %u:%g data)" \
		'bin/tool cap_net_raw=ep 4755 12345:4000000000'
	assert_equal "$(getfattr --absolute-names -e hex -n user.bin data | sed -n 's/^user.bin=//p')" 0x00ff8081
	assert_equal "$(cat n*/ü) $(readlink sl) $(stat -c '%F %t:%T' null) $(stat -c %s noise none | xargs)" \
		"long ../../etc character special file 1:3 $((3 << 20)) $((1 << 20))"
	[ -e old/.wh..wh..opq ] && [ -e srv/.wh.small ] && [ -p ff ]
	rm -rf "$SBX_TMP/x"
}

@test "harness: a registry takes a built image through skopeo and gives it back" {
	registry_start
	rm -rf "$SBX_TMP/oci"
	description | oci_build oci "$SBX_TMP/oci:t"
	skopeo copy -q --dest-tls-verify=false "oci:$SBX_TMP/oci:t" "docker://$REGISTRY/some/name:t"
	skopeo copy -q --src-tls-verify=false "docker://$REGISTRY/some/name:t" "oci:$SBX_TMP/back:t"
	# What was not compressed is now.
	assert_equal "$(digests "$SBX_TMP/back" | head -2)" "$(digests "$SBX_TMP/oci" | head -2)"
	zcat "$(blob "$SBX_TMP/back" "$(digests "$SBX_TMP/back" | tail -1)")" |
		cmp - "$(blob "$SBX_TMP/oci" "$(digests "$SBX_TMP/oci" | tail -1)")"
	run -0 skopeo inspect --config "oci:$SBX_TMP/back:t"
	assert_equal "$(jq -r '.config | .User, .WorkingDir, .Env[2], .Entrypoint[1], .Cmd[0], .Labels.who' <<<"$output")" \
		$'nobody\n/work\nB=two words\n-c\necho "x y"\ntest'
	description | sed s/zstd/gzip/ | oci_build docker "$SBX_TMP/d.tar:name:tag"
	skopeo copy -q --dest-tls-verify=false "docker-archive:$SBX_TMP/d.tar" "docker://$REGISTRY/other:t"
	run -0 skopeo inspect --tls-verify=false "docker://$REGISTRY/other:t"
	assert_equal "$(jq '.Layers | length' <<<"$output")" 3
}

@test "harness: nothing is left" {
	slow_depot "$SBX_TMP/dir" "$MNT"
	sshfs_depot "$SBX_TMP/dir" "$SBX_TMP/mnt2"
	registry_start
	[ "$(pgrep -fc "$SBX_TMP/")" -ge 4 ]
	depots_end
	run -1 pgrep -af "$SBX_TMP/"
	run -1 grep -F "$SBX_TMP" /proc/self/mountinfo
	[ ! -e "$SBX_TMP/served" ]
}
