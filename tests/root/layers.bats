# Images of several layers with whiteouts, opaque and renamed directories: what others and we make of
# them is what the kernel shows.
# limit: 600
# shellcheck disable=SC2030,SC2031,SC2086,SC2153,SC2154
load ../helpers
load ../helpers/layers

# A small root and two layers of changes over it.
setup_file()
{
	export BATS_TEST_TIMEOUT=300
	local lower work n
	sbx_setup_file
	layer_tools "$SBX_TMP"
	sbx-img ls >/dev/null
	small_root "$SBX_TMP/root"
	mkdir "$SBX_TMP/look"
	lower=$SBX_TMP/root
	layers=$(make_layer "$SBX_TMP/root")
	for n in 1 2 3; do
		work=$SBX_TMP/work$n
		churn_layer "$lower" "$n" 60 "$work"
		layers+=" $(make_layer "$work/up")"
		lower=$work/up:$lower
	done
	export layers
	make_image stack $layers
}

teardown()
{
	unmount_layers "$SBX_TMP/look"
	umount "$BATS_TEST_TMPDIR/full" 2>/dev/null || true
	[ -n "$BATS_TEST_COMPLETED" ] || sbx-stop --all || true
}

# Everything below $1, with content.
listing()
{
	(cd "$1" && find . -mindepth 1 \( -type d -printf '%p %y %m %U %G %T@\n' -o \
		-printf '%p %y %m %U %G %T@ %s %l\n' \) | sort
	find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

# What the kernel shows of the stack.
expected()
{
	mount_layers "$SBX_TMP/look" $layers
	listing "$SBX_TMP/look"
	unmount_layers "$SBX_TMP/look"
}

# The one layer of image $1, mounted.
one_layer()
{
	mount_layers "$SBX_TMP/look" "$(sbx-img show "$1" | awk '$1 == "layer" { print $2 }')"
	listing "$SBX_TMP/look"
	unmount_layers "$SBX_TMP/look"
}

same_listing()
{
	diff "$1" "$2" | head -20
	cmp "$1" "$2"
}

@test "an exported stack comes back as the kernel shows it, in every form" {
	local n=0 form
	expected >"$BATS_TEST_TMPDIR/want"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/want")" -gt 300 ]
	for form in '' '--compress none' '--compress zstd' '--format docker' '--format docker --compress gzip'; do
		n=$((n + 1))
		# shellcheck disable=SC2086
		sbx-img export $form stack "$BATS_TEST_TMPDIR/$n.tar"
		sbx-img import -q --name "back$n" "$BATS_TEST_TMPDIR/$n.tar"
		one_layer "back$n" >"$BATS_TEST_TMPDIR/got"
		same_listing "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
		run -0 sbx-img diff stack "back$n"
		refute_output
	done
	sbx-img export stack "$BATS_TEST_TMPDIR/layout/"
	sbx-img import -q --name layout "$BATS_TEST_TMPDIR/layout"
	run -0 sbx-img diff stack layout
	[ "$(find "$BATS_TEST_TMPDIR/layout" -type f | wc -l)" -eq 8 ]
	sbx-img show layout | grep -qx 'user	1000'
	sbx-img show layout | grep -qx 'cmd	/bin/sh'
	sbx-img show layout | grep -qx 'env	A=1'
}

@test "podman loads an exported stack and has the same tree" {
	local p c form
	command -v podman >/dev/null || skip "there is no podman"
	p="podman --root $SBX_TMP/pod --runroot $SBX_TMP/podrun --storage-driver vfs --cgroup-manager cgroupfs --events-backend file"
	expected | sed 's/[0-9]*\.[0-9]* /&/' >"$BATS_TEST_TMPDIR/want"
	for form in oci docker; do
		sbx-img export --format "$form" --name "localhost/stack:$form" stack "$BATS_TEST_TMPDIR/$form.tar"
		# shellcheck disable=SC2086
		{
			$p load -q -i "$BATS_TEST_TMPDIR/$form.tar" 3>&-
			c=$($p image mount "localhost/stack:$form" 3>&-)
			listing "$c" >"$BATS_TEST_TMPDIR/got"
			$p image unmount "localhost/stack:$form" 3>&-
		}
		same_listing "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
	done
	# shellcheck disable=SC2086
	$p rmi -af 3>&-
	rm -rf --one-file-system "$SBX_TMP/pod" "$SBX_TMP/podrun"
}

@test "collapse makes one layer by metadata alone, and a box sees the same" {
	local before after a b
	before=$(find "$SBX_STATE/img/data" -type f -printf '%f %s %i\n' | sort)
	run --separate-stderr sbx-img collapse stack flat
	assert_equal "$status" 0
	[[ $output =~ ^[0-9a-f]{64}$ ]]
	assert_equal "$stderr" "sbx-img collapse: 'flat' has one layer, made of 4; its data are those of 'stack'"
	after=$(find "$SBX_STATE/img/data" -type f -printf '%f %s %i\n' | sort)
	assert_equal "$after" "$before"
	assert_equal "$(sbx-img ls -o name,layers | sort)" "$(sbx-img ls -o name,layers | sort | sed 's/^flat.*/flat	1/')"
	run -0 sbx-img diff stack flat
	refute_output
	expected >"$BATS_TEST_TMPDIR/want"
	one_layer flat >"$BATS_TEST_TMPDIR/got"
	same_listing "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
	a=$(sbx-create -i stack -m 64M --pids 64 -u 0 3>&-)
	b=$(sbx-create -i flat -m 64M --pids 64 -u 0 3>&-)
	# shellcheck disable=SC2016
	for box in "$a" "$b"; do
		sbx-exec "$box" -- sh -c 'cd / && find . -xdev | sort; find bin churn -type f | sort | xargs cat | sha256sum' >"$BATS_TEST_TMPDIR/$box"
		grep -q /churn/ "$BATS_TEST_TMPDIR/$box"
	done
	cmp "$BATS_TEST_TMPDIR/$a" "$BATS_TEST_TMPDIR/$b"
	sbx-stop "$a" "$b"
	# Names go, the data of what is left stay.
	sbx-img tag stack kept
	sbx-img rm stack
	sbx-img diff kept flat
	sbx-img tag kept stack
}

@test "a full disk ends an export with nothing left" {
	mkdir "$BATS_TEST_TMPDIR/full"
	mount -t tmpfs -o size=64k full "$BATS_TEST_TMPDIR/full"
	run sbx-img export stack "$BATS_TEST_TMPDIR/full/x.tar"
	echo "$status $output"
	[ "$status" -eq 125 ] && [[ $output == *"No space left on device"* ]]
	run sbx-img export stack "$BATS_TEST_TMPDIR/full/x/"
	[ "$status" -eq 125 ] && [[ $output == *"No space left on device"* ]]
	[ -z "$(ls -A "$BATS_TEST_TMPDIR/full")" ]
}

@test "an export that is killed leaves only what is named as temporary" {
	local t
	for t in 0.02 0.05 0.1 0.2 0.4; do
		timeout -s KILL "$t" sbx-img export stack "$BATS_TEST_TMPDIR/x.tar" || true
		timeout -s KILL "$t" sbx-img export stack "$BATS_TEST_TMPDIR/y/" || true
		if [ -e "$BATS_TEST_TMPDIR/x.tar" ]; then tar tf "$BATS_TEST_TMPDIR/x.tar" | grep -qx oci-layout; fi
		if [ -e "$BATS_TEST_TMPDIR/y" ]; then [ -e "$BATS_TEST_TMPDIR/y/oci-layout" ]; fi
		[ -z "$(find "$BATS_TEST_TMPDIR" -mindepth 1 -maxdepth 1 ! -name x.tar ! -name y ! -name '.sbx-export.*')" ]
		rm -rf "$BATS_TEST_TMPDIR"/{x.tar,y,.sbx-export.*}
	done
}
