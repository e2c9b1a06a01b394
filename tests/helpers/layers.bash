# Images of several layers, made of the upper directories of overlays.
# shellcheck shell=bash disable=SC2154

# Compiles what the rest needs into $1.
layer_tools()
{
	cc -D_GNU_SOURCE -I"$top/lib" -o "$1/trees" "$top/tests/helpers/trees.c" "$O/dyn/libsbx.a" -lcrypto
	cc -D_GNU_SOURCE -I"$top/lib" -o "$1/erofs-mount" "$top/tests/helpers/erofs-mount.c" "$O/dyn/libsbx.a"
	trees=$1/trees mounter=$1/erofs-mount
	export trees mounter
}

# make_layer DIR: the directory as a layer of this state directory, whiteouts and all; prints its digest.
make_layer()
{
	local tmp=$SBX_STATE/img/tmp/new.$$ img=$SBX_STATE/img sha digest
	mkdir -p "$img"/{layer,data,image,name,tmp} "$tmp"
	if [ "$("$trees" make "$1" "$tmp/meta" "$tmp/blob")" -gt 0 ]; then
		sha=$(sha256sum <"$tmp/blob" | cut -d' ' -f1)
		mv "$tmp/blob" "$img/data/$sha"
	else
		rm "$tmp/blob"
	fi
	{
		echo "meta_sha256 = $(sha256sum <"$tmp/meta" | cut -d' ' -f1)"
		[ -z "$sha" ] || echo "device = $sha $(($(stat -c %s "$img/data/$sha") / 4096))"
		echo "meta_bytes = $(stat -c %s "$tmp/meta")"
		echo "kind = test"
	} >"$tmp/info"
	digest=$(awk '{ print $3 }' <(grep -E '^(meta_sha256|device) ' "$tmp/info") | sha256sum | cut -d' ' -f1)
	rm -rf "$img/layer/$digest"
	mv "$tmp" "$img/layer/$digest"
	echo "$digest"
}

# make_image NAME LAYER...: an image of these layers, lowest first.
make_image()
{
	local name=$1 text digest
	shift
	text=$(printf 'layer = %s\n' "$@"; printf 'env = A=1\ncmd = /bin/sh\nuser = 1000\nworkdir = /tmp\n')
	digest=$(sha256sum <<<"$text" | cut -d' ' -f1)
	printf '%s\ncreated_ms = 1700000000000\n' "$text" >"$SBX_STATE/img/image/$digest"
	mkdir -p "$SBX_STATE/img/name/$name"
	echo "$digest" >"$SBX_STATE/img/name/$name/latest"
}

# churn_layer LOWER SEED STEPS WORK: what churn.py makes of /churn in a mount of LOWER, as an upper
# directory in WORK/up.
churn_layer()
{
	mkdir -p "$4"/{up,work,m}
	mount -t overlay churn -o "redirect_dir=on,xino=off,index=off,lowerdir=$1,upperdir=$4/up,workdir=$4/work" "$4/m"
	mkdir -p "$4/m/churn"
	python3 "$top/tests/helpers/churn.py" "$4/m/churn" "$2" "$3"
	umount "$4/m"
}

# mount_layers DIR DIGEST...: each layer, lowest first, and all of them over each other at DIR.
mount_layers()
{
	local dir=$1 lower=$SBX_TMP/none l dev
	shift
	mkdir -p "$SBX_TMP/none"
	for l; do
		mapfile -t dev < <(sed -n "s|^device = \\([0-9a-f]*\\) .*|$SBX_STATE/img/data/\\1|p" "$SBX_STATE/img/layer/$l/info")
		mkdir -p "$SBX_TMP/mnt/$l"
		"$mounter" "$SBX_TMP/mnt/$l" "$SBX_STATE/img/layer/$l/meta" "${dev[@]}"
		lower=$SBX_TMP/mnt/$l:$lower
	done
	mount -t overlay look -o "ro,redirect_dir=follow,lowerdir=$lower" "$dir"
}

unmount_layers()
{
	local m
	while umount "$1" 2>/dev/null; do :; done
	for m in "$SBX_TMP"/mnt/*; do umount "$m" 2>/dev/null || true; done
}
