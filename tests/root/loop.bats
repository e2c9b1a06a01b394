# Boxes whose layers the kernel mounts through loop devices only: the state directory is a tmpfs.
# shellcheck disable=SC2016,SC2154 # quoted scripts are the box's; box is set by others
load ../helpers

setup_file()
{
	sbx_setup_file
	mkdir "$SBX_STATE"
	mount -t tmpfs -o size=64m,mode=0755 none "$SBX_STATE"
	printf 'disk_reserve = 0\n' >"$SBX_TMP/conf"
	export SBX_CONFIG=$SBX_TMP/conf
	small_image
}

teardown_file()
{
	unmount_shared
	umount "$SBX_STATE"
	sbx_teardown_file
}

teardown()
{
	sbx-stop --all
}

# What is attached of this file's layers, files that are deleted too.
attached()
{
	losetup -l -n -O NAME,BACK-FILE,RO,AUTOCLEAR | grep -F "$SBX_STATE/"
}

freed()
{
	! attached
}

@test "boxes start, write and end; the devices are shared, and freed at unmount" {
	box
	first=$box
	run -0 sbx-exec "$box" -- sh -c 'echo new >/new; rm /etc/group; cat /new; busybox echo ran'
	assert_output $'new\nran'
	run -0 attached
	assert_equal "${#lines[@]}" 2
	for line in "${lines[@]}"; do assert_regex "$line" ' 1 +1$'; done
	box
	run -0 sbx-exec "$box" -- cat /etc/group
	run -0 attached
	assert_equal "${#lines[@]}" 2
	sbx-stop "$first" "$box"
	unmount_shared
	within 10 freed
}

@test "what is read is what was imported" {
	root=$BATS_TEST_TMPDIR/root
	small_root "$root"
	head -c 3000000 /dev/urandom >"$root/large"
	printf x >"$root/one"
	: >"$root/none"
	truncate -s 1M "$root/hole"
	sbx-img import --name random "$root" >/dev/null
	box=$(sbx-create -i random -m 64M)
	run -0 sbx-exec "$box" -- sh -c 'cd / && sha256sum large one none hole'
	assert_output "$(cd "$root" && sha256sum large one none hole)"
	sbx-stop "$box"
	unmount_shared
	within 10 freed
}

@test "an image without a byte of data" {
	mkdir -p "$BATS_TEST_TMPDIR/root/dir"
	sbx-img import --name empty "$BATS_TEST_TMPDIR/root" >/dev/null
	box=$(sbx-create -i empty -m 64M)
	assert_equal "$(sbx-ls -o state "$box")" running
	sbx-stop "$box"
	unmount_shared
	within 10 freed
}

@test "many layers at once: more devices than there were nodes" {
	local k root
	for k in $(seq 8); do
		root=$BATS_TEST_TMPDIR/$k
		mkdir -p "$root/bin"
		cp "$O/cache/small-root/bin/busybox" "$root/bin"
		echo "$k" >"$root/which"
		sbx-img import --name "many-$k" "$root" >/dev/null
	done
	seq 8 | xargs -P 8 -I{} sbx-create -i many-{} -m 64M --name many-{} >/dev/null
	for k in $(seq 8); do
		run -0 sbx-exec "many-$k" -- /bin/busybox cat /which
		assert_output "$k"
	done
	sbx-stop --all
	unmount_shared
	within 10 freed
}

@test "without nodes for new devices in /dev" {
	unshare -m sh -ec '
		mkdir "$1"
		mount -t tmpfs none "$1"
		for n in null zero loop-control; do cp -a "/dev/$n" "$1/$n"; done
		mount --move "$1" /dev
		"$2" "$4" "$3"/img/layer/*/meta "$3"/img/data/*
		test -x "$4/bin/busybox"
		umount "$4"
	' sh "$BATS_TEST_TMPDIR/dev" "$(helper)" "$(one_layer)" "$BATS_TEST_TMPDIR"
	within 10 freed
}

# The program that mounts a layer.
helper()
{
	cc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/erofs-mount" "$top/tests/helpers/erofs-mount.c" \
		"$O/dyn/libsbx.a"
	echo "$SBX_TMP/erofs-mount"
}

# A state directory on the tmpfs with one layer alone.
one_layer()
{
	SBX_STATE=$SBX_STATE/other small_image
	echo "$SBX_STATE/other"
}

@test "sbx-doctor says so, and frees what it tried" {
	run -0 sbx-doctor
	assert_line --regexp $'^warn\terofs\t.*through loop devices'
	assert_line --regexp $'^ok\toverlay\t'
	run -0 leftovers
	refute_output
	within 10 freed
}
