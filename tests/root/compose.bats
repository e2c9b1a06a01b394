# Boxes of several images: what lies over what, what of the images below stays as it was, what is
# refused, who keeps which layer, and what a change of one image costs.
# limit: 600
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154,SC2086
load ../helpers

setup_file()
{
	export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300}
	sbx_setup_file
	# Crowds of boxes, whatever else the machine does.
	printf 'mem_reserve = 64M\nmem = 64M\npids = 64\n' >"$SBX_TMP/sbx.conf"
	export SBX_CONFIG=$SBX_TMP/sbx.conf
	gcc -D_GNU_SOURCE -I"$top/lib" -o "$SBX_TMP/make-image" "$top/tests/helpers/make-image.c" \
		"$O/dyn/libsbx.a" -larchive -lcrypto -ljson-c
	local root=$SBX_TMP/root
	small_root "$root"
	mkdir -p "$root"/{home/user,etc/opt,work/deep} "$root"/usr/lib
	ln -s usr/lib "$root/lib"
	chown 1000:1000 "$root/home/user"
	chmod 700 "$root/home/user"
	chown 0:5 "$root/etc/opt"
	chmod 2775 "$root/etc/opt"
	echo base | tee "$root/work/f" "$root/work/only-base" "$root/work/deep/f" >/dev/null
	sbx-img import --name base "$root" >/dev/null
}

setup()
{
	cd "$BATS_TEST_TMPDIR" || return
}

teardown()
{
	[ -n "$BATS_TEST_COMPLETED" ] || sbx-stop --all || true
}

# image NAME [--at PATH] WORD...: an image that has, for each word PATH=TEXT, a file.
image()
{
	local name=$1 at=() word
	shift
	if [ "$1" = --at ]; then
		at=(--at "$2")
		shift 2
	fi
	rm -rf src
	mkdir -m 755 src
	for word; do
		mkdir -p "src/$(dirname "${word%%=*}")"
		echo "${word#*=}" >"src/${word%%=*}"
	done
	sbx-img import --name "$name" "${at[@]}" src >/dev/null
}

# make OPTION...: a box of "base" and what the options add; its ID is in $box.
make()
{
	box=$(sbx-create -i base "$@" 3>&-)
}

in_box()
{
	sbx-exec "$box" -- "$@"
}

refused()
{
	local text=$1
	shift
	run --separate-stderr sbx-create -i base "$@"
	assert_equal "$status" 125
	assert_equal "$output" ""
	assert_equal "$stderr" "sbx-create: $text"
	assert_equal "$(sbx-ls -q)" ""
}

layers()
{
	sed -n 's/^layer = //p' "$SBX_STATE/box/$1/spec"
}

layer_of()
{
	sbx-img show "$1" | sed -n 's/^layer	//p'
}

@test "the workspace lies over the base, toolkits over it in their order, file by file" {
	image space work/f=space work/deep/space=space
	image one work/f=one work/one=one work/both=one
	image two work/both=two work/deep/two=two
	make --workspace space --toolkit one --toolkit two
	assert_equal "$(in_box sh -c 'cd /work && cat f both one only-base deep/f deep/space deep/two' | xargs)" \
		"one two one base base space two"
	assert_equal "$(in_box ls /work | xargs)" "both deep f one only-base"
	assert_equal "$(layers "$box")" "$(for i in base space one two; do layer_of $i; done)"
	in_box sh -c 'echo box >/work/f; rm /work/only-base'
	assert_equal "$(in_box sh -c 'cat /work/f; ls /work | xargs')" $'box\nboth deep f one'
	sbx-stop "$box"
	make --toolkit two --toolkit one --workspace space
	assert_equal "$(in_box cat /work/both)" one
	assert_equal "$(in_box cat /work/f)" one
	sbx-stop "$box"
}

@test "whiteouts and opaque directories of an upper image hide what is below" {
	image one work/deep/one=one
	image two work/f=two
	"$SBX_TMP/make-image" hidden hide=/work/f opaque=/work/deep
	make --workspace one --toolkit hidden
	assert_equal "$(in_box sh -c 'ls /work /work/deep' | xargs)" "/work: deep only-base /work/deep:"
	sbx-stop "$box"
	make --workspace one --toolkit hidden --toolkit two
	assert_equal "$(in_box cat /work/f)" two
	sbx-stop "$box"
	make --workspace hidden --toolkit one
	assert_equal "$(in_box ls /work/deep)" one
	sbx-stop "$box"
}

@test "env: a later image's value replaces an earlier one's, and -e all; user and workdir" {
	"$SBX_TMP/make-image" eb over=base env=A=base env=B=base env=C=base user=root workdir=/work
	"$SBX_TMP/make-image" es dir=/s env=B=space env=S=space user=1000 workdir=/work/deep
	"$SBX_TMP/make-image" et dir=/t env=C=tool env=S=tool env=D=tool user=0 workdir=/etc
	"$SBX_TMP/make-image" es2 dir=/s2
	box=$(sbx-create -i eb --workspace es --toolkit et -e D=option)
	assert_equal "$(in_box sh -c 'echo $A $B $C $S $D $(id -u) $(pwd)')" \
		"base space tool tool option 1000 /work/deep"
	assert_equal "$(sed -n 's/^env = //p' "$SBX_STATE/box/$box/spec" | xargs)" \
		"A=base B=space C=tool S=tool D=tool D=option"
	sbx-stop "$box"
	box=$(sbx-create -i eb --workspace es2 --toolkit et)
	assert_equal "$(in_box sh -c 'echo $(id -u) $(pwd)')" "0 /work"
	sbx-stop "$box"
}

@test "import --at: the image holds only that subtree, whatever the source is" {
	mkdir -p src/bin
	echo tool >src/bin/tool
	chmod 750 src
	chown 1000:1000 src
	touch -d @1000000 src
	sbx-img import --name a --at /opt/x/tool src >/dev/null
	tar -C src -c . | sbx-img import --name b --at //opt/./x/tool/ - >/dev/null
	for i in a b; do
		assert_equal "$(sbx-img show $i | sed -n 's/^at	//p')" /opt/x/tool
		make --toolkit $i
		assert_equal "$(in_box stat -c '%n %a %u %g %Y' /opt /opt/x /opt/x/tool | xargs)" \
			"/opt 755 0 0 0 /opt/x 755 0 0 0 /opt/x/tool 750 1000 1000 1000000"
		assert_equal "$(in_box cat /opt/x/tool/bin/tool)" tool
		run ! grep '^dir' "$SBX_STATE/box/$box/spec"
		[ ! -e "$SBX_STATE/box/$box/upper/opt" ]
		sbx-stop "$box"
	done
	for at in / // /. opt/x /a/../b .. '' "/$(printf %0256d 0)"; do
		run --separate-stderr sbx-img import --at "$at" src
		assert_equal "$status" 125
		[[ $stderr == "sbx-img: "*"is no place for a subtree"* ]] || fail "$at: $stderr"
	done
}

@test "import --at an image archive: its layers become the subtree, its settings stay" {
	python3 "$top/tests/helpers/image_source.py" oci oci
	sbx-img import --name plain oci >/dev/null
	sbx-img import --name low --at /low oci >/dev/null
	assert_equal "$(sbx-img show low | grep -e ^env -e ^user -e ^workdir)" \
		"$(sbx-img show plain | grep -e ^env -e ^user -e ^workdir)"
	box=$(sbx-create -i base -w / -u root --toolkit low)
	assert_equal "$(in_box ls / | grep low)" low
	[ "$(in_box sh -c 'find /low | wc -l')" -gt 1 ]
	sbx-stop "$box"
}

@test "the directories above a subtree keep the base's mode and owner" {
	mkdir src
	echo x >src/f
	for at in /tmp/x/y /root/.cache/tool /home/user/.local/bin /etc/opt/tool /home/other; do
		sbx-img import --name "at$(tr -c 'a-z\n' - <<<"$at")" --at "$at" src >/dev/null
	done
	make --toolkit at-tmp-x-y --toolkit at-root--cache-tool --toolkit at-home-user--local-bin \
		--toolkit at-etc-opt-tool --toolkit at-home-other
	assert_equal "$(in_box stat -c '%n %a %u %g' /tmp /tmp/x /root /root/.cache /home /home/user \
		/home/user/.local /etc /etc/opt)" "$(cat <<-'EOT'
		/tmp 1777 0 0
		/tmp/x 755 0 0
		/root 700 0 0
		/root/.cache 755 0 0
		/home 755 0 0
		/home/user 700 1000 1000
		/home/user/.local 755 0 0
		/etc 755 0 0
		/etc/opt 2775 0 5
		EOT
	)"
	assert_equal "$(in_box cat /tmp/x/y/f /root/.cache/tool/f /home/user/.local/bin/f /etc/opt/tool/f | xargs)" "x x x x"
	# Another user of the box does what the modes let him, and no more.
	sbx-exec -u user "$box" -- sh -c 'touch /tmp/mine && touch /home/user/mine && ! ls /root'
	# What the base has there is still there.
	assert_equal "$(in_box cat /etc/passwd | wc -l)" 2
	sbx-stop "$box"
}

@test "a subtree within another one's, and over an image that changes the directory" {
	mkdir -p one two src/work
	chmod 1777 one
	chmod 700 src/work
	chown 1000 src/work
	echo one >one/f
	echo two >two/f
	sbx-img import --name outer --at /opt/tool one >/dev/null
	sbx-img import --name inner --at /opt/tool/plugin two >/dev/null
	sbx-img import --name work src >/dev/null
	sbx-img import --name work-sub --at /work/repo two >/dev/null
	for order in "outer inner" "inner outer"; do
		make --toolkit ${order% *} --toolkit ${order#* }
		assert_equal "$(in_box stat -c '%a' /opt /opt/tool /opt/tool/plugin | xargs)" "755 1777 755"
		assert_equal "$(in_box cat /opt/tool/f /opt/tool/plugin/f | xargs)" "one two"
		sbx-stop "$box"
	done
	for order in "work work-sub" "work-sub work"; do
		make --toolkit ${order% *} --toolkit ${order#* }
		assert_equal "$(in_box stat -c '%a %u' /work)" "700 1000"
		assert_equal "$(in_box cat /work/f /work/repo/f | xargs)" "base two"
		sbx-stop "$box"
	done
}

@test "a subtree behind a link or a file of another image is refused, with the cure" {
	image lib --at /lib/tool f=x
	image over --at /lib f=x
	image file --at /work/f/tool f=x
	image ok --at /usr/lib/tool f=x
	refused "image 'lib' holds '/lib/tool', but '/lib' is a link to 'usr/lib' in the images below it: import it with --at /usr/lib/tool" --toolkit lib
	refused "image 'over' holds '/lib', but '/lib' is a link to 'usr/lib' in the images below it: import it with --at /usr/lib" --workspace over
	refused "image 'file' holds '/work/f/tool', but '/work/f' is a file in the images below it: import it with another --at" --toolkit ok --toolkit file
	# Where another image has taken the link or file away, nothing is in the way.
	"$SBX_TMP/make-image" gone hide=/work/f
	make --toolkit gone --toolkit file --toolkit ok
	assert_equal "$(in_box cat /work/f/tool/f /lib/tool/f | xargs)" "x x"
	sbx-stop "$box"
}

@test "the root directory is the base's, whatever lies over it" {
	mkdir -m 700 src
	echo x >src/f
	chown 1000 src
	sbx-img import --name private src >/dev/null
	make --toolkit private
	assert_equal "$(in_box stat -c '%a %u' /)" "755 0"
	sbx-exec -u user "$box" -- cat /etc/passwd >/dev/null
	sbx-stop "$box"
	# Of a base of several layers the topmost; not a layer that came twice and went to the top.
	chmod 711 src
	"$SBX_TMP/make-image" two over=private dir=/x
	box=$(sbx-create -i two --workspace base --toolkit private)
	assert_equal "$(in_box stat -c '%a %u' /)" "755 0"
	assert_equal "$(layers "$box" | wc -l)" 3
	sbx-stop "$box"
	box=$(sbx-create -i private --workspace base --toolkit private)
	assert_equal "$(in_box stat -c '%a %u' /)" "700 1000"
	sbx-stop "$box"
}

@test "the same toolkit twice, and an image that brings the base's layers along" {
	image one work/f=one
	image two work/f=two
	"$SBX_TMP/make-image" onbase over=base dir=/onbase
	make --toolkit one --toolkit two --toolkit one
	assert_equal "$(in_box cat /work/f)" one
	assert_equal "$(layers "$box")" "$(for i in base two one; do layer_of $i; done)"
	assert_equal "$(sbx-ls -o toolkits)" one,two,one
	sbx-stop "$box"
	make --toolkit onbase
	assert_equal "$(layers "$box")" "$(layer_of onbase)"
	sbx-stop "$box"
}

@test "20 toolkits at once, in -n 50 boxes: one mount a layer" {
	local args=()
	for i in $(seq 20); do
		image "t$i" --at "/tmp/t$i" "f=$i"
		args+=(--toolkit "t$i")
	done
	make "${args[@]}"
	assert_equal "$(in_box sh -c 'cat /tmp/t*/f | sort -n | xargs; stat -c %a /tmp')" "$(seq 20 | xargs)"$'\n1777'
	assert_equal "$(grep -c '^dir = ' "$SBX_STATE/box/$box/spec")" 1
	sbx-stop "$box"
	sbx-create -i base "${args[@]}" -n 50 >ids
	assert_equal "$(wc -l <ids)" 50
	sbx-exec -j 4 - -- cat /tmp/t1/f /tmp/t20/f <ids >out
	assert_equal "$(wc -l <out)" 50
	for i in base $(seq -f t%g 20); do
		assert_equal "$(grep -c " $SBX_RUN/layer/$(layer_of "$i") " /proc/self/mountinfo)" 1
	done
	sbx-stop - <ids
}

@test "too many layers: the limit is named" {
	for i in $(seq 8); do "$SBX_TMP/make-image" -n 63 "m$i"; done
	run --separate-stderr sbx-create -i base $(seq -f '--toolkit m%g' 8)
	assert_equal "$status" 125
	assert_equal "$stderr" "sbx-create: a box of 505 layers: overlayfs takes at most 500"
	make $(seq -f '--toolkit m%g' 7)
	assert_equal "$(in_box sh -c 'ls -d /m* | wc -l')" 441
	sbx-stop "$box"
	sbx-img rm m1 m2 m3 m4 m5 m6 m7 m8
}

@test "an unknown image is named" {
	image one work/f=one
	refused "toolkit: no image 'none' on this node (see sbx-img ls)" --toolkit one --toolkit none
	refused "workspace: no image 'none:1' on this node (see sbx-img ls)" --workspace none:1
}

@test "sbx-stat, sbx-ls and the spec say what a box was made from; -i means the base" {
	image space work/s=s
	image one work/1=1
	make --workspace space --toolkit one --toolkit space
	local base space one
	base=$(sbx-img show base | sed -n 's/^digest	//p')
	space=$(sbx-img show space | sed -n 's/^digest	//p')
	one=$(sbx-img show one | sed -n 's/^digest	//p')
	assert_equal "$(grep -e ^image -e ^workspace -e ^toolkit "$SBX_STATE/box/$box/spec")" "$(cat <<-EOT
		image = base
		image_digest = $base
		workspace = space
		workspace_digest = $space
		toolkit = one
		toolkit_digest = $one
		toolkit = space
		toolkit_digest = $space
		EOT
	)"
	assert_equal "$(sbx-ls -o image,workspace,toolkits)" "base	space	one,space"
	assert_equal "$(sbx-stat --json "$box" | jq -r '.image, .workspace, .workspace_digest, .toolkits, .toolkit_digests')" \
		"$(printf '%s\n' base space "$space" one space "$one" "$space")"
	assert_equal "$(sbx-ls -q -i base)" "$box"
	assert_equal "$(sbx-ls -q -i space; sbx-ls -q -i one)" ""
	sbx-stop "$box"
	make
	assert_equal "$(sbx-ls -o workspace,toolkits)" "-	-"
	sbx-stop "$box"
}

@test "rm and gc keep the images and layers of a box until it ends" {
	image space work/s=s
	image one work/1=1
	make --workspace space --toolkit one
	local dir=$SBX_STATE/img
	local kept=("$dir/layer/$(layer_of space)" "$dir/layer/$(layer_of one)" \
		"$dir/image/$(sbx-img show space | sed -n 's/^digest	//p')" \
		"$dir/image/$(sbx-img show one | sed -n 's/^digest	//p')")
	sbx-img rm space one
	sbx-img gc
	for p in "${kept[@]}"; do [ -e "$p" ] || fail "$p is gone"; done
	assert_equal "$(in_box cat /work/s /work/1 | xargs)" "s 1"
	sbx-stop "$box"
	sbx-img gc
	for p in "${kept[@]}"; do [ ! -e "$p" ] || fail "$p is there"; done
}

@test "gc and rm beside creations: no box is made of what is gone" {
	image one --at /opt/one f=one
	bg sh -c 'while :; do sbx-img tag one other; sbx-img rm other; sbx-img gc; done' 2>gc.err
	local pid=$!
	for i in $(seq 10); do sbx-create -i base --toolkit one -n 3; done >ids
	kill "$pid"
	wait "$pid" || true
	assert_equal "$(wc -l <ids)" 30
	assert_equal "$(cat gc.err)" ""
	assert_equal "$(sbx-exec -j 4 - -- cat /opt/one/f <ids | wc -l)" 30
	sbx-stop - <ids
}

# stored: every file of the images with its inode number, time and size.
stored()
{
	(cd "$SBX_STATE/img" && find data layer -type f -printf '%p %i %T@ %s\n' | sort)
}

@test "a rebuilt toolkit costs its own layer, however many bases it goes with" {
	local b k
	for b in 1 2 3; do
		rm -rf "base$b"
		small_root "base$b"
		head -c 4M /dev/urandom >"base$b/data"
		sbx-img import --name "b$b" "base$b" >/dev/null
	done
	for k in 1 2 3; do
		mkdir "tool$k"
		echo "tool $k, version 1" >"tool$k/version"
		head -c 1M /dev/urandom >"tool$k/data"
		sbx-img import --name "k$k" --at "/opt/tool$k" "tool$k" >/dev/null
	done
	sbx_nine()
	{
		local x y
		for x in 1 2 3; do
			for y in 1 2 3; do
				box=$(sbx-create -i "b$x" --toolkit "k$y" 3>&-)
				in_box cat "/opt/tool$y/version"
			done
		done
	}
	sbx_nine >out1
	assert_equal "$(sort out1 | uniq -c | awk '{ print $1, $5 }' | xargs)" "3 1 3 1 3 1"
	stored >before
	echo "tool 2, version 2" >tool2/version
	head -c 1M /dev/urandom >tool2/data
	sbx-img import --name k2 --at /opt/tool2 tool2 >/dev/null
	sbx_nine >out2
	assert_equal "$(grep -c 'tool 2, version 2' out2)" 3
	assert_equal "$(grep -c 'version 1' out2)" 6
	stored >after
	# All that was there is there, untouched: same inodes, times and sizes.
	assert_equal "$(comm -23 before after)" ""
	# New is one layer (two files) and one blob, the toolkit's.
	comm -13 before after >new
	cat new
	assert_equal "$(wc -l <new)" 3
	assert_equal "$(grep -c "^layer/$(layer_of k2)/" new)" 2
	bytes=$(awk '{ n += $4 } END { print n }' new)
	echo "# rebuilt: $bytes bytes written; one toolkit over one base would be $(du -sb base1 | cut -f1) more when merged" >&3
	[ "$bytes" -ge $((1 << 20)) ] && [ "$bytes" -lt $(((1 << 20) + 32768)) ]
	sbx-stop --all
}
