# Images of many layers: the same tree in a box however they are merged, also the one that podman makes
# of them; shared lower layers; what is damaged, foreign or interrupted; a registry.
# limit: 900
# shellcheck disable=SC2154
load ../helpers
load ../depot

setup_file()
{
	sbx_setup_file
	gcc -static -O1 -o "$SBX_TMP/list-tree" "$top/tests/helpers/list-tree.c"
	small_root "$SBX_TMP/root"
	cp "$SBX_TMP/list-tree" "$SBX_TMP/root/bin/list-tree"
	description | oci_build oci "$SBX_TMP/oci:t"
}

teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || sbx-stop --all || true
	[ ! -d "$SBX_TMP/full" ] || umount "$SBX_TMP/full" 2>/dev/null || true
	depots_end
}

# Every case that a layer can make of the one below it.
description()
{
	cat <<-END
		user root
		layer gzip
		tree $SBX_TMP/root
		dir a
		file a/x one
		xattr user.note kept
		dir b
		file b/old old
		symlink lib a
		file keep 'the content stays'
		link hl keep
		file gone gone
		dir t
		random t/cap 9000
		mode 755
		cap 13
		file t/two 2
		link t/zwei t/two
		dir op
		file op/lower l
		dir op/sub
		file op/sub/lower l
		file becomes-dir f
		dir becomes-file
		file becomes-file/in f
		dir all-goes
		file all-goes/f f
		layer zstd
		whiteout b
		file b/c/d new
		whiteout keep
		file dummy ''
		link .wh.gone dummy
		link t/cap2 t/cap
		mode 755
		opaque op
		file op/upper u
		file op/sub/upper u
		whiteout becomes-dir
		dir becomes-dir
		file becomes-dir/in i
		whiteout becomes-file
		file becomes-file f
		whiteout all-goes/f
		layer gzip
		layer plain
		whiteout t/zwei
		file a/x one
		owner 12 34
		mode 4711
		mtime 1234567890
		dir t
		mode 1777
		owner 5 6
		dir gone
		file gone/again g
		fifo pipe
		char null 1 3
		zeros zero 100K
		whiteout becomes-dir/in
	END
	# Podman refuses the first, and with vfs it leaves the link of the last a link.
	[ "${1:-}" = tame ] || cat <<-END
		layer zstd
		symlink x /tmp/sbx-evil
		file x/f evil
		file ../../up up
		symlink r /../../../etc
		link ../../r2 ../../../hl
		opaque lib
	END
}

layers_of()
{
	sbx-img show "$1" | awk '$1 == "layer" { print $2 }'
}

# Less what a box has of its own, and the time of the directory that this is in.
image_only()
{
	sed -E '/^\.\/(dev|proc|sys|etc\/(hosts|hostname|resolv\.conf))( |\/)/d; s/^(\.\/etc [^ ]* [^ ]*) .*/\1/'
}

# In a box of image $1, with -d as list-tree has it.
tree_of()
{
	box=$(sbx-create -i "$1" -m 64M --pids 64 3>&-)
	sbx-exec "$box" -- list-tree "${@:2}" / | image_only
	sbx-stop "$box"
}

clean_state()
{
	[ -z "$(ls -A "$SBX_STATE/img/tmp")" ]
	[ -z "$(find "$SBX_STATE/img" -name '*.new' -o -name new)" ]
}

podman_at()
{
	podman --root "$SBX_TMP/podman" --runroot "$SBX_TMP/podman-run" --tmpdir "$SBX_TMP/podman-tmp" \
		--storage-driver vfs "$@"
}

@test "oci: merged, apart and half merged give the same tree in a box" {
	sbx-img import --name one "$SBX_TMP/oci" >/dev/null
	sbx-img import --name apart --collapse 0 "$SBX_TMP/oci" >/dev/null
	sbx-img import --name half --collapse 11K "$SBX_TMP/oci" >/dev/null
	# The empty layer is none.
	assert_equal "$(layers_of one | wc -l) $(layers_of apart | wc -l)" '1 4'
	[ "$(layers_of half | wc -l)" -lt 4 ] && [ "$(layers_of half | wc -l)" -gt 1 ]
	tree_of one >"$SBX_TMP/one"
	tree_of apart | diff "$SBX_TMP/one" -
	tree_of half | diff "$SBX_TMP/one" -
	clean_state
	[ ! -e /tmp/sbx-evil ]
	[ ! -e /up ]
}

@test "oci: the rules for what a layer does to those below" {
	run -0 grep -Ev '^\./(bin|etc|root|usr|var)( |/)' "$SBX_TMP/one"
	for line in './a 40755 0:0 .*' './a/x 104711 12:34 1234567890.0 3 .*' './b/c/d 100644 .* 3 .*' \
		'./hl 100644 .* 17 .*' './lib 40755 .*' './t 41777 5:6 .*' './t/cap2 = ./t/cap' \
		'./t/cap 100755 .* security.capability=.*' './op/upper .*' './op/sub/upper .*' \
		'./becomes-dir 40755 .*' './becomes-file 100644 .* 1 .*' './all-goes 40755 .*' \
		'./gone/again .*' './pipe 10644 .*' './null 20644 .* 1:3' './zero 100644 .* 102400 .*' \
		'./x 120777 .* -> /tmp/sbx-evil' './tmp/sbx-evil/f .*' './up .*' './r2 = ./hl' \
		'./r 120777 .* -> /../../../etc'; do
		grep -Eqx -- "$line" <<<"$output" || fail "no line '$line' in $output"
	done
	for path in b/old keep gone t/zwei op/lower op/sub/lower becomes-dir/in becomes-file/in all-goes/f \
		lib/x x/f .wh.gone .wh.b; do
		run -1 grep -E -- "^\./$path( 10| =)" "$SBX_TMP/one"
	done
	# The link's target stays, what changed later has only its last attributes.
	run -1 grep user.note "$SBX_TMP/one"
}

@test "oci: podman makes the same of it" {
	description tame | sed 's/^layer zstd/layer gzip/' | oci_build docker "$SBX_TMP/tame.tar:tame:t"
	sbx-img import --name tame --collapse 0 "$SBX_TMP/tame.tar" >/dev/null
	run -0 podman_at load -q -i "$SBX_TMP/tame.tar"
	mnt=$(podman_at image mount localhost/tame:t 2>/dev/null || podman_at image mount docker.io/library/tame:t)
	[ -d "$mnt" ]
	# A directory's time depends on the order of a layer's files.
	"$SBX_TMP/list-tree" -d "$mnt" | image_only >"$SBX_TMP/theirs"
	tree_of tame -d | diff "$SBX_TMP/theirs" - || false
	podman_at image umount -a
	podman_at rmi -af
	sbx-img rm tame
}

@test "oci: a subtree of many layers" {
	local i
	{
		printf 'layer gzip\ndir d\nfile d/one 1\nfile two 2\nlayer plain\nwhiteout two\nfile d/three 3\n'
		printf 'link d/four d/one\nmode 640\nlayer zstd\nwhiteout d/one\n'
	} | oci_build oci "$SBX_TMP/sub:t"
	sbx-img import --name sub:one --at /work/here "$SBX_TMP/sub" >/dev/null
	sbx-img import --name sub:apart --at /work/here --collapse 0 "$SBX_TMP/sub" >/dev/null
	assert_equal "$(layers_of sub:apart | wc -l)" 3
	# A blob that two layers refer to is counted once.
	for i in $(layers_of sub:apart); do echo "$SBX_STATE/img/layer/$i/meta"; done >"$SBX_TMP/files"
	sbx-img show sub:apart | sed -n "s|^device\t|$SBX_STATE/img/data/|p" | sort -u >>"$SBX_TMP/files"
	assert_equal "$(sbx-img show sub:apart | sed -n 's/^size_bytes\t//p')" "$(xargs -a "$SBX_TMP/files" cat | wc -c)"
	for i in one apart; do
		box=$(sbx-create -i one --workspace "sub:$i" -m 64M 3>&-)
		sbx-exec "$box" -- list-tree /work >"$SBX_TMP/sub.$i"
		sbx-stop "$box"
	done
	diff "$SBX_TMP/sub.one" "$SBX_TMP/sub.apart"
	run -0 cut -d' ' -f1,2 "$SBX_TMP/sub.one"
	assert_output './here 40755
./here/d 40755
./here/d/four 100640
./here/d/three 100644'
	sbx-img rm sub:one sub:apart
}

@test "oci: images that share lower layers share them on disk and in mounts" {
	for own in one two; do
		{
			printf 'layer gzip\ntree %s\nrandom base 300K s\nlayer zstd\nrandom mid 200K m\n' "$SBX_TMP/root"
			printf 'layer gzip\nrandom own 100K %s\nwhiteout mid\n' "$own"
		} | oci_build oci "$SBX_TMP/share.$own:t"
	done
	for size in 0 600K; do
		for own in one two; do
			sbx-img import --name "$own:$size" --collapse "$size" "$SBX_TMP/share.$own" >/dev/null
			layers_of "$own:$size" >"$SBX_TMP/layers.$own"
		done
		common=$(grep -cxFf "$SBX_TMP/layers.one" "$SBX_TMP/layers.two")
		assert_equal "$common" $(($(wc -l <"$SBX_TMP/layers.one") - 1))
		[ "$common" -ge 1 ]
		assert_equal "$(head -n "$common" "$SBX_TMP/layers.one")" "$(head -n "$common" "$SBX_TMP/layers.two")"
		a=$(sbx-create -i "one:$size" -m 64M 3>&-)
		b=$(sbx-create -i "two:$size" -m 64M 3>&-)
		for l in $(sort -u "$SBX_TMP"/layers.{one,two}); do
			assert_equal "$(grep -cF " $SBX_RUN/layer/$l " /proc/self/mountinfo)" 1
			assert_equal "$(grep -cF "= $l" "$SBX_STATE/box/$a/spec" "$SBX_STATE/box/$b/spec" |
				cut -d: -f2 | paste -sd+ | bc)" "$(grep -cxF "$l" "$SBX_TMP"/layers.{one,two} |
				cut -d: -f2 | paste -sd+ | bc)"
		done
		# One file's content in one blob on the disk.
		assert_equal "$(cat "$SBX_STATE"/img/layer/*/info | grep ^device | sort -u | wc -l)" \
			"$(find "$SBX_STATE/img/data" -type f | wc -l)"
		sbx-exec "$a" -- sh -c 'test -e /base && test ! -e /mid && test -e /own'
		sbx-stop "$a" "$b"
		sbx-img rm one:"$size" two:"$size"
	done
}

@test "oci: more layers than an image can have are merged from the top" {
	{
		printf 'layer plain\ntree %s\n' "$SBX_TMP/root"
		for i in $(seq 100); do printf 'layer plain\nfile f%s %s\nwhiteout f%s\n' "$i" "$i" $((i - 2)); done
	} | oci_build oci "$SBX_TMP/many:t"
	sbx-img import --name many --collapse 0 "$SBX_TMP/many" >/dev/null
	sbx-img import --name few "$SBX_TMP/many" >/dev/null
	assert_equal "$(layers_of many | wc -l)" 64
	tree_of few >"$SBX_TMP/few"
	tree_of many | diff "$SBX_TMP/few" -
	assert_equal "$(grep -c '^\./f[0-9]' "$SBX_TMP/few")" 2
	sbx-img rm many few
}

@test "oci: one flipped bit in any blob, layers apart" {
	local f
	for f in "$SBX_TMP"/oci/blobs/sha256/*; do
		cp -r "$SBX_TMP/oci" "$SBX_TMP/bad"
		python3 - "$SBX_TMP/bad/blobs/sha256/${f##*/}" <<-'END'
			import sys
			b = bytearray(open(sys.argv[1], "rb").read())
			b[len(b) // 2] ^= 4
			open(sys.argv[1], "wb").write(b)
		END
		run sbx-img import --collapse 0 "$SBX_TMP/bad"
		rm -r "$SBX_TMP/bad"
		assert_equal "$status" 125
	done
	clean_state
}

@test "oci: a full disk at any point, layers apart" {
	local k good=0
	mkdir -p "$SBX_TMP/full"
	printf 'layer gzip\nrandom a 60K\nlayer zstd\nrandom b 60K\nwhiteout a\nlayer plain\nrandom c 60K\n' |
		oci_build oci "$SBX_TMP/three:t"
	for k in $(seq 100 20 400); do
		mount -t tmpfs -o "mode=700,size=${k}k" none "$SBX_TMP/full"
		SBX_STATE=$SBX_TMP/full run sbx-img import --collapse 0 --name f "$SBX_TMP/three"
		if [ "$status" -eq 0 ]; then
			good=$((good + 1))
			SBX_STATE=$SBX_TMP/full sbx-img rm f
		else
			assert_output --partial 'No space left on device'
		fi
		run find "$SBX_TMP/full/img/"{tmp,layer,data,image} -mindepth 1
		assert_output ''
		umount "$SBX_TMP/full"
	done
	[ "$good" -gt 2 ]
	[ "$good" -lt 16 ]
}

@test "oci: kill -9 at many points, layers apart" {
	local ms l pid
	for ms in $(seq 5 15 200); do
		bg sbx-img import -q --collapse 0 --name k "$SBX_TMP/oci" >/dev/null 2>&1
		pid=$!
		sleep "$(printf '0.%03d' "$ms")"
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
		for l in "$SBX_STATE"/img/layer/*; do
			[ ! -e "$l" ] || [ -e "$l/info" ]
		done
	done
	sbx-img import -q --collapse 0 --name k "$SBX_TMP/oci" >/dev/null
	clean_state
	tree_of k | diff "$SBX_TMP/one" -
	sbx-img rm k
}

# A Debian root, a package on it, and a layer that takes away and changes.
debian_description()
{
	local tar pkg=$SBX_TMP/package
	tar=$("$top/mk/debian-root" "$O/cache" python3-minimal 3>&-)
	mkdir -p "$SBX_TMP/debian" "$pkg"
	tar -C "$SBX_TMP/debian" --exclude './dev/*' -xf "$tar"
	cp "$SBX_TMP/list-tree" "$SBX_TMP/debian/usr/bin/"
	dpkg -L bats | tar -C / --no-recursion -T - -c 2>/dev/null | tar -C "$pkg" -x
	cat <<-END
		env LANG=C.UTF-8
		cmd python3
		layer gzip
		tree $SBX_TMP/debian
		layer zstd
		tree $pkg
		layer gzip
		whiteout usr/share/bash-completion
		whiteout etc/motd
		opaque var/lib/dpkg/info
		file var/lib/dpkg/info/only 'the rest is gone'
		file etc/issue changed
		mode 600
		link usr/bin/python3-too usr/bin/python3.11
		mode 755
	END
}

@test "oci: a real image from a registry, as podman has it" {
	registry_start
	debian_description | oci_build oci "$SBX_TMP/deb:t"
	skopeo copy -q --dest-tls-verify=false "oci:$SBX_TMP/deb:t" "docker://$REGISTRY/team/deb:1"
	run -125 sbx-img pull "docker://$REGISTRY/team/deb:1"
	assert_output --partial "server gave HTTP response to HTTPS client"
	run -125 sbx-img pull --insecure "docker://$REGISTRY/team/deb:2"
	assert_output --partial "manifest unknown"
	clean_state
	run -0 --separate-stderr sbx-img pull --insecure --collapse 0 "docker://$REGISTRY/team/deb:1"
	assert_equal "$stderr" ''
	[[ $output =~ ^[0-9a-f]{64}$ ]]
	assert_equal "$(sbx-img ls -o name,tag,digest | grep ^deb)" "deb	1	$output"
	assert_equal "$(layers_of deb:1 | wc -l)" 3
	sbx-img show deb:1 | grep -qx "source	docker://$REGISTRY/team/deb:1"
	sbx-img pull --insecure --name deb:one "docker://$REGISTRY/team/deb:1" >/dev/null
	assert_equal "$(layers_of deb:one | wc -l)" 1
	clean_state
	tree_of deb:1 -d >"$SBX_TMP/deb.apart"
	tree_of deb:one -d | diff "$SBX_TMP/deb.apart" -
	box=$(sbx-create -i deb:1 -m 128M 3>&-)
	run -0 sbx-exec "$box" -- python3 -c 'print(6 * 7)'
	assert_output 42
	sbx-stop "$box"
	podman_at pull -q --tls-verify=false "docker://$REGISTRY/team/deb:1"
	mnt=$(podman_at image mount "$REGISTRY/team/deb:1")
	"$SBX_TMP/list-tree" -d "$mnt" | image_only >"$SBX_TMP/theirs"
	diff "$SBX_TMP/theirs" "$SBX_TMP/deb.apart" | head -20
	cmp "$SBX_TMP/theirs" "$SBX_TMP/deb.apart"
	podman_at image umount -a
	podman_at rmi -af
}

@test "oci: kill -9 of a pull: skopeo goes too, and the next clears up" {
	local pid ms
	registry_start
	printf 'layer plain\nrandom big 30M\n' | oci_build oci "$SBX_TMP/big:t"
	skopeo copy -q --dest-tls-verify=false "oci:$SBX_TMP/big:t" "docker://$REGISTRY/big:t"
	for ms in 050 100 200 400; do
		bg "$O/libexec/sbx-img-pull" --insecure "docker://$REGISTRY/big:t" >/dev/null 2>&1
		pid=$!
		sleep "0.$ms"
		kill -9 "$pid" || true
		wait "$pid" 2>/dev/null || true
		within 30 gone_skopeo
	done
	sbx-img pull --insecure --name pulled "docker://$REGISTRY/big:t" >/dev/null
	clean_state
	sbx-img rm pulled
}

gone_skopeo()
{
	! pgrep -f "skopeo copy.*$SBX_TMP/state"
}

@test "oci: other transports, names, and references that are none" {
	sbx-img pull "oci:$SBX_TMP/oci:t" >/dev/null
	assert_equal "$(sbx-img ls -o name,tag | grep ^oci)" 'oci	t'
	description | sed 's/^layer zstd/layer gzip/' | oci_build docker "$SBX_TMP/x.tar:some/app:9"
	assert_equal "$(sbx-img pull "docker-archive:$SBX_TMP/x.tar:some/app:9")" "$(sbx-img pull "oci:$SBX_TMP/oci:t")"
	assert_equal "$(sbx-img ls -o name,tag | grep ^app)" 'app	9'
	for ref in alpine:3 docker:alpine docker:// http://x/y ''; do
		run -125 sbx-img pull -- "$ref"
		assert_output "sbx-img pull: '$ref' is no reference: write docker://HOST/NAME[:TAG], or docker-archive:FILE, oci:DIR"
	done
	run -125 sbx-img pull -- --all
	assert_output --partial 'is no reference'
	run -125 sbx-img pull "docker://localhost:1/%x"
	assert_output "sbx-img pull: cannot make a name of '%x': give one with --name"
	run -125 env PATH=/nowhere "$O/bin/sbx-img" pull "oci:$SBX_TMP/oci:t"
	assert_output --partial "cannot find skopeo: install the package 'skopeo'"
	SBX_STATE=$SBX_TMP/a:b run -125 sbx-img pull "oci:$SBX_TMP/oci:t"
	assert_output --partial 'has a colon'
	clean_state
	printf 'arch arm64\nlayer plain\nfile f f\n' | oci_build oci "$SBX_TMP/arm:t"
	run -125 sbx-img pull "oci:$SBX_TMP/arm:t"
	assert_output --partial 'the image is for linux/arm64, this node is linux/'
	clean_state
}
