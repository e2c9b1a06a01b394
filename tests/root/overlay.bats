# Layers that the kernel's overlayfs made are read as it shows them: renamed directories, whiteouts,
# opaque directories.
# limit: 600
# shellcheck disable=SC2154
load ../helpers

setup_file()
{
	export BATS_TEST_TIMEOUT=500
	sbx_setup_file
	cc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/erofs-mount" "$top/tests/helpers/erofs-mount.c" \
		"$O/dyn/libsbx.a"
	cc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/trees" "$top/tests/helpers/trees.c" \
		"$O/dyn/libsbx.a" -lcrypto
}

teardown()
{
	while umount "$SBX_TMP"/t/m 2>/dev/null; do :; done
	for m in "$SBX_TMP"/t/layer/*/m; do umount "$m" 2>/dev/null || true; done
	rm -rf --one-file-system "$SBX_TMP/t"
}

# One more layer: what churn.py with seed $1 does to a mount of those in $metas.
add_layer()
{
	local n=$SBX_TMP/t/layer/$1 ndev
	mkdir -p "$n"/{up,work,m}
	mount -t overlay churn -o "redirect_dir=on,xino=off,index=off,lowerdir=$lower,upperdir=$n/up,workdir=$n/work" "$SBX_TMP/t/m"
	python3 "$top/tests/helpers/churn.py" "$SBX_TMP/t/m" "$1" 70
	umount "$SBX_TMP/t/m"
	ndev=$("$SBX_TMP/trees" make "$n/up" "$n/meta" "$n/blob")
	if [ "$ndev" -eq 0 ]; then
		"$SBX_TMP/erofs-mount" "$n/m" "$n/meta"
	else
		"$SBX_TMP/erofs-mount" "$n/m" "$n/meta" "$n/blob"
	fi
	metas+=("$n/meta")
	lower=$n/m:$lower
}

compare()
{
	mount -t overlay look -o "ro,redirect_dir=follow,lowerdir=$lower" "$SBX_TMP/t/m"
	(cd "$SBX_TMP/t/m" && find . -type d -printf '%p %y %m %U %G %T@ 0 \n' -o \
		-printf '%p %y %m %U %G %T@ %s %l\n') | sort >"$SBX_TMP/t/kernel"
	umount "$SBX_TMP/t/m"
	"$SBX_TMP/trees" find "${metas[@]}" | sort >"$SBX_TMP/t/ours"
	diff -u "$SBX_TMP/t/kernel" "$SBX_TMP/t/ours"
}

@test "layers laid over each other are what the kernel shows" {
	local lower metas seed k whiteouts=0 redirects=0 opaque=0
	for seed in 1 2 3 4; do
		mkdir -p "$SBX_TMP"/t/{m,empty,layer}
		lower=$SBX_TMP/t/empty
		metas=()
		for k in 1 2 3 4; do
			add_layer $((seed * 100 + k))
			[ "$k" = 1 ] || compare
		done
		whiteouts=$((whiteouts + $(find "$SBX_TMP"/t/layer/*/up -type c | wc -l)))
		redirects=$((redirects + $(getfattr -R -n trusted.overlay.redirect "$SBX_TMP"/t/layer/*/up 2>/dev/null | grep -c = || true)))
		opaque=$((opaque + $(getfattr -R -n trusted.overlay.opaque "$SBX_TMP"/t/layer/*/up 2>/dev/null | grep -c = || true)))
		teardown
	done
	# The test is about these.
	echo "$whiteouts whiteouts, $redirects redirects, $opaque opaque directories"
	[ "$whiteouts" -gt 20 ] && [ "$redirects" -gt 5 ] && [ "$opaque" -gt 5 ]
}
