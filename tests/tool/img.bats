# sbx-img: what goes in comes out, nothing reaches the host, and no failure leaves anything behind.
# limit: 600
# shellcheck disable=SC2154,SC2002,SC2030,SC2031,SC2012,SC2010,SC2086,SC2231

bats_require_minimum_version 1.5.0

setup_file()
{
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export top O=${O:-$top/build}
	export PATH=$O/bin:$PATH BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-120}
	T=$(mktemp -d /tmp/sbx-img.XXXXXX)
	export T SBX_STATE=$T/state SBX_RUN=$T/run SBX_CONFIG=
	cc -D_GNU_SOURCE -I"$top/lib" -o "$T/erofs-mount" "$top/tests/helpers/erofs-mount.c" "$O/dyn/libsbx.a"
	source_of tree "$T/tree"
	cp /bin/true "$T/tree/capped"
	setcap cap_net_raw+ep "$T/tree/capped"
	source_of oci "$T/oci"
	source_of docker "$T/docker.tar"
	mkdir "$T/m" "$T/small"
	printf hi >"$T/small/f"
}

teardown_file()
{
	rm -rf --one-file-system "$T"
}

setup()
{
	rm -rf "$SBX_STATE" "$SBX_RUN"
}

teardown()
{
	while umount "$T/m" 2>/dev/null; do :; done
	while umount "$T/full" 2>/dev/null; do :; done
}

source_of()
{
	python3 "$top/tests/helpers/image_source.py" "$@"
}

layer_of()
{
	sbx-img show "$1" | awk '$1 == "layer" { print $2 }'
}

# Mounts image $1 at $T/m.
look()
{
	mount_layer "$T/m" "$(layer_of "$1")"
}

# Mounts layer $2 at $1.
mount_layer()
{
	local l=$SBX_STATE/img/layer/$2
	mapfile -t dev < <(data_of "$2")
	"$T/erofs-mount" "$1" "$l/meta" "${dev[@]}"
}

# The files of data of layer $1.
data_of()
{
	sed -n "s|^device = \\([0-9a-f]*\\) .*|$SBX_STATE/img/data/\\1|p" "$SBX_STATE/img/layer/$1/info"
}

# Everything stat can say of a tree; the size and link count of a directory are the file system's own.
listing()
{
	(cd "$1" && find . ! -type s \( -type d -printf '%y %m %U %G - - %T@ %p\0' -o \
		-printf '%y %m %U %G %n %s %T@ %p %l\0' \) | sort -z | tr '\0\n' '\n?'
	find . \( -type c -o -type b \) -exec stat -c '%t %T %n' {} + | sort
	find . ! -type s -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex 2>/dev/null |
		sed '/^$/d; /trusted.overlay/d; /# file: owned/d')
}

same_trees()
{
	diff <(listing "$1") <(listing "$2") | cut -c1-200
	diff -r --no-dereference "$1/big" "$2/big"
	for f in plain exact large sparse allhole capped; do cmp "$1/$f" "$2/$f"; done
	[ -z "$(diff <(listing "$1") <(listing "$2"))" ]
}

clean_state()
{
	[ -z "$(ls -A "$SBX_STATE/img/tmp")" ]
	[ -z "$(find "$SBX_STATE/img" -name '*.new')" ]
}

@test "a directory comes back as it was, and fsck.erofs is content" {
	run --separate-stderr sbx-img import --name t "$T/tree"
	[ "$status" -eq 0 ]
	[[ $output =~ ^[0-9a-f]{64}$ ]]
	[[ $stderr == *"left out 1 socket, 1 extended attribute that"* ]]
	look t
	same_trees "$T/tree" "$T/m"
	l=$(layer_of t)
	fsck.erofs --device="$(data_of "$l")" "$SBX_STATE/img/layer/$l/meta"
	# Two pieces of data, not 400 MB.
	[ "$(stat -c %s "$(data_of "$l")")" -lt 8000000 ]
	clean_state
}

@test "device nodes of an image cannot be used" {
	sbx-img import --name t "$T/tree"
	look t
	run cat "$T/m/chr"
	[ "$status" -ne 0 ]
}

@test "a tar, plain or compressed, from a file or a pipe, gives the directory's image" {
	tar -C "$T/tree" --sort=name --format=pax --pax-option=delete=atime,delete=ctime --acls \
		--xattrs --xattrs-include='*' -S -cf "$T/t.tar" . 2>/dev/null
	sbx-img import --name t "$T/t.tar"
	look t
	same_trees "$T/tree" "$T/m"
	d=$(sbx-img ls -o digest)
	for c in gzip xz zstd; do
		$c -q -c <"$T/t.tar" >"$T/t.z"
		[ "$(sbx-img import -q "$T/t.z")" = "$d" ]
		[ "$(sbx-img import -q - <"$T/t.z")" = "$d" ]
	done
	[ "$(cat "$T/t.tar" | sbx-img import -q -)" = "$d" ]
	rm "$T/t.tar" "$T/t.z"
}

@test "the same content twice is one layer and one record" {
	a=$(sbx-img import --name a -q "$T/tree")
	b=$(sbx-img import --name b -q "$T/tree")
	[ "$a" = "$b" ]
	[ "$(ls "$SBX_STATE/img/layer" | wc -l)" -eq 1 ]
	[ "$(sbx-img ls -o name,digest)" = "$(printf 'a\t%s\nb\t%s' "$a" "$a")" ]
}

check_oci()
{
	look "$1"
	run -0 bash -c "cd $T/m && find . -mindepth 1 -printf '%y %p %l\n' | sort"
	diff - <(echo "$output") <<-'EOT'
		d ./a 
		d ./b 
		d ./b/c 
		d ./lib 
		d ./tmp 
		d ./tmp/sbx-evil 
		f ./a/x 
		f ./b/c/d 
		f ./dummy 
		f ./hl 
		f ./tmp/sbx-evil/f 
		f ./up 
		l ./r /../../../etc
		l ./x /tmp/sbx-evil
	EOT
	[ "$(stat -c %s "$T/m/hl")" -eq 5000 ]
	[ "$(cat "$T/m/a/x")" = one ]
	umount "$T/m"
	[ ! -e /tmp/sbx-evil ]
	[ ! -e /up ]
}

@test "OCI layers are merged by the rules, and nothing outside is touched" {
	sbx-img import --name o "$T/oci"
	check_oci o
	run -0 sbx-img show o
	for line in user$'\t'nobody workdir$'\t'/a entrypoint$'\t'/e cmd$'\t'sh "cmd	x y" env$'\t'A=1 \
		created$'\t'2024-05-06T07:08:09.000Z; do
		grep -Fqx "$line" <<<"$output"
	done
	sbx-img show --json o | python3 -c 'import json, sys; j = json.load(sys.stdin); assert j["cmd"] == ["sh", "-c", "x y"]'
}

@test "an OCI layout in a tar, in any order, from a file or a pipe" {
	d=$(sbx-img import "$T/oci")
	for order in "index.json oci-layout blobs" "blobs oci-layout index.json" .; do
		tar -C "$T/oci" -cf "$T/o.tar" $order
		[ "$(sbx-img import "$T/o.tar")" = "$d" ]
		[ "$(sbx-img import - <"$T/o.tar")" = "$d" ]
		[ "$(gzip -c "$T/o.tar" | sbx-img import -)" = "$d" ]
	done
	rm "$T/o.tar"
	clean_state
}

@test "a docker-save tar, with linked and compressed layers" {
	sbx-img import --name d "$T/docker.tar"
	check_oci d
	[ "$(sbx-img import - <"$T/docker.tar")" = "$(sbx-img show d | awk 'NR == 1 { print $2 }')" ]
}

@test "what skopeo writes: docker archive, OCI archive, zstd layers" {
	command -v skopeo || skip "no skopeo"
	d=$(sbx-img import "$T/oci")
	skopeo copy -q "oci:$T/oci" "docker-archive:$T/d.tar:x:1"
	skopeo copy -q "oci:$T/oci" "oci-archive:$T/a.tar"
	skopeo copy -q --dest-compress-format zstd "oci:$T/oci" "oci:$T/z"
	for s in d.tar a.tar z; do [ "$(sbx-img import "$T/$s")" = "$d" ]; done
	rm -r "$T/d.tar" "$T/a.tar" "$T/z"
}

@test "a foreign architecture is refused by name" {
	source_of oci "$T/arm" arm64
	run sbx-img import "$T/arm"
	rm -r "$T/arm"
	[ "$status" -eq 125 ]
	[[ $output == *"the image is for linux/arm64"* ]]
	clean_state
}

@test "one flipped bit in any blob is found" {
	for f in "$T"/oci/blobs/sha256/*; do
		cp -r "$T/oci" "$T/bad"
		python3 - "$T/bad/blobs/sha256/${f##*/}" <<-'EOT'
			import sys
			b = bytearray(open(sys.argv[1], "rb").read())
			b[len(b) - 9] ^= 1
			open(sys.argv[1], "wb").write(b)
		EOT
		run sbx-img import "$T/bad"
		rm -r "$T/bad"
		[ "$status" -eq 125 ]
	done
	[ -z "$(sbx-img ls)" ]
	clean_state
}

@test "truncated and nonsense sources are refused and leave nothing" {
	tar -C "$T/tree" -cf "$T/s.tar" exact
	gzip -c "$T/s.tar" >"$T/s.gz"
	head -c 1100 "$T/s.tar" >"$T/x1"
	head -c 60 "$T/s.gz" >"$T/x2"
	head -c 5000 /dev/urandom >"$T/x3"
	: >"$T/x4"
	for x in x1 x2 x3 x4 nothing; do
		run sbx-img import "$T/$x"
		[ "$status" -eq 125 ]
		[ "${#lines[@]}" -eq 1 ]
	done
	rm "$T"/x? "$T/s.tar" "$T/s.gz"
	clean_state
	[ -z "$(find "$SBX_STATE/img/layer" "$SBX_STATE/img/data" "$SBX_STATE/img/image" -mindepth 1)" ]
}

@test "names: tags, parts, removal, digests" {
	d=$(sbx-img import --name swe/py311:1 "$T/small")
	sbx-img tag swe/py311:1 other
	sbx-img tag "${d:0:8}" third:x
	[ "$(sbx-img ls -o name,tag)" = "$(printf 'other\tlatest\nswe/py311\t1\nthird\tx')" ]
	sbx-img rm other swe/py311:1
	[ "$(sbx-img ls -o name)" = third ]
	[ -d "$SBX_STATE/img/layer/$(layer_of third:x)" ]
	run sbx-img rm third
	[ "$status" -eq 1 ]
	sbx-img rm "$d"
	[ -z "$(ls -A "$SBX_STATE/img/layer" "$SBX_STATE/img/data" | sed '/:$/d; /^$/d')" ]
	[ -z "$(ls -A "$SBX_STATE/img/image")" ]
	[ -z "$(ls -A "$SBX_STATE/img/name")" ]
	for bad in ../x /x x/ a:b:c a:../b %none .x; do
		run sbx-img import --name "$bad" "$T/small"
		[ "$status" -eq 125 ]
	done
}

@test "an image without a name stays until it is removed by digest" {
	d=$(sbx-img import "$T/small")
	sbx-img gc
	[ "$(sbx-img ls -o name,tag,digest)" = "$(printf -- '-\t-\t%s' "$d")" ]
	sbx-img tag "$d" n
	[ "$(sbx-img ls -o name)" = n ]
	sbx-img rm n
	[ -z "$(sbx-img ls)" ]
}

@test "a box keeps its layers after rm; a mounted layer is unmounted with the last" {
	d=$(sbx-img import --name b "$T/small")
	l=$(layer_of b)
	mkdir -p "$SBX_STATE/box/n1.00000000000" "$SBX_RUN/layer/$l"
	printf 'image_digest = %s\nlayer = %s\n' "$d" "$l" >"$SBX_STATE/box/n1.00000000000/spec"
	mount_layer "$SBX_RUN/layer/$l" "$l"
	sbx-img rm b
	[ -e "$SBX_STATE/img/layer/$l/meta" ]
	[ -e "$SBX_RUN/layer/$l/f" ]
	rm -r "$SBX_STATE/box/n1.00000000000"
	sbx-img gc
	[ ! -e "$SBX_STATE/img/layer/$l" ]
	[ ! -e "$SBX_RUN/layer/$l" ]
}

@test "kill -9 at many points of an import: the next one clears up and works" {
	for ms in $(seq 1 6 140); do
		sbx-img import -q --name k "$T/tree" >/dev/null 2>&1 &
		sleep "$(printf '0.%03d' "$ms")"
		kill -9 $! 2>/dev/null || true
		wait $! || true
		# Whatever is published is whole.
		for l in "$SBX_STATE"/img/layer/*; do
			[ ! -e "$l" ] || [ -e "$l/info" ]
		done
	done
	sbx-img import --name s "$T/small"
	clean_state
	sbx-img import -q --name k "$T/tree"
	look k
	cmp "$T/tree/large" "$T/m/large"
	umount "$T/m"
	[ "$(ls "$SBX_STATE/img/layer" | wc -l)" -eq 2 ]
	sbx-img rm k s
	[ -z "$(ls -A "$SBX_STATE/img/layer" "$SBX_STATE/img/data" | sed '/:$/d; /^$/d')" ]
}

@test "a full disk at any point: a clear message, nothing left, rm works" {
	mkdir -p "$T/full" "$T/mid"
	head -c 100000 /dev/urandom >"$T/mid/f"
	good=0
	for k in $(seq 40 8 200); do
		mount -t tmpfs -o "mode=700,size=${k}k" none "$T/full"
		run env SBX_STATE="$T/full" sbx-img import --name f "$T/mid"
		if [ "$status" -eq 0 ]; then
			good=$((good + 1))
			SBX_STATE=$T/full sbx-img rm f
		else
			[[ $output == *"No space left on device"* ]]
		fi
		[ -z "$(find "$T/full/img/tmp" "$T/full/img/layer" "$T/full/img/image" -mindepth 1 2>/dev/null)" ]
		umount "$T/full"
	done
	[ "$good" -gt 2 ]
	[ "$good" -lt 20 ]
	rm -r "$T/mid"
}

@test "imports, tags and removals at once" {
	pids=()
	for i in $(seq 12); do
		{
			mkdir "$T/p$i"
			echo "$i" >"$T/p$i/f"
			sbx-img import --name "p:$i" "$T/p$i" >/dev/null &&
				sbx-img tag "p:$i" "q:$i" && sbx-img rm "p:$i" && echo ok >"$T/p$i/ok"
			true
		} 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	[ "$(ls "$T"/p*/ok | wc -l)" -eq 12 ]
	[ "$(sbx-img ls -o name | sort | uniq -c | tr -s ' ')" = " 12 q" ]
	[ "$(ls "$SBX_STATE/img/layer" | wc -l)" -eq 12 ]
	rm -r "$T"/p[0-9]*
	clean_state
}

@test "misuse is one line and 125" {
	for args in "" frob import "import a b" show "tag x" rm "ls x"; do
		# shellcheck disable=SC2086
		run sbx-img $args
		[ "$status" -eq 125 ]
		[ "${#lines[@]}" -eq 1 ]
	done
	sbx-img --help | grep -q '^usage: sbx-img'
	[ "$(sbx-img --help | wc -l)" -le 24 ]
	sbx-img --opts | grep -q '^operand'
}

@test "the manual's examples run" {
	mkdir "$T/ex"
	awk '/^\.Sh/ { on = /EXAMPLES/ } on && /^\.Ed/ { in_ = 0 } on && in_ { print } on && /^\.Bd/ { in_ = 1 }' \
		"$top/share/man/man1/sbx-img.1" >"$T/ex/script"
	[ -s "$T/ex/script" ]
	(cd "$T/ex" && bash -euo pipefail script)
	[ "$(sbx-img ls -o name,tag)" = "$(printf 'team/base\t1')" ]
	rm -r "$T/ex"
}
