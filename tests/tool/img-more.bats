# sbx-img diff, export and collapse: what they print and refuse. No root.
# shellcheck disable=SC2030,SC2031,SC2154
load ../helpers

setup_file()
{
	sbx_setup_file
	mkdir -p "$SBX_TMP/a/dir/sub"
	cd "$SBX_TMP/a" || return
	echo one >file
	ln file dir/hard
	ln -s file link
	echo gone >dir/sub/gone
	mkfifo fifo
	truncate -s 3M sparse
	printf middle | dd of=sparse bs=1 seek=1000000 conv=notrunc status=none
	: >"$(printf 'tab\there')"
	: >"$(printf 'byte\377')"
	setfattr -n user.colour -v blue file
	touch -d @1000000000.123456789 file
	cp -a "$SBX_TMP/a" "$SBX_TMP/b"
	cd "$SBX_TMP/b" || return
	echo two >file
	touch -d @1000000000.123456789 file
	rm -r dir/sub
	chmod 600 fifo
	rm link
	mkdir link
	echo new >link/new
	touch -d @1 "$(printf 'tab\there')"
	touch -r "$SBX_TMP/a" .
	touch -r "$SBX_TMP/a/dir" dir
	sbx-img import -q --name a "$SBX_TMP/a"
	sbx-img import -q --name b "$SBX_TMP/b"
}

@test "diff prints each name that differs and what of it" {
	run sbx-img diff -o change,path,type,what a b
	assert_equal "$status" 1
	assert_output "$(printf '%s\n' 'D	/dir/sub	d	-' 'D	/dir/sub/gone	f	-' \
		'M	/dir/hard	f	content' 'M	/fifo	p	mode' 'M	/file	f	content' 'T	/link	d	-' \
		'A	/link/new	f	-' 'M	/tab\there	f	time' | sort -t'	' -k2)"
	run sbx-img diff -H a b
	assert_line --index 0 'change	path	type	old_mode	new_mode	old_bytes	new_bytes	what'
	run -1 sbx-img diff --json a b
	assert_line --index 0 --partial '{"change":"M","path":"/dir/hard"'
	jq -es 'length == 8' <<<"$output"
}

@test "diff of an image with itself is empty and exits 0" {
	run -0 sbx-img diff a a
	refute_output
	# Other data, the same content.
	tar -C "$SBX_TMP/a" --xattrs -cf "$SBX_TMP/a.tar" --format pax ./file ./link
	mkdir "$SBX_TMP/c"
	tar -C "$SBX_TMP/c" --xattrs --xattrs-include='*' -xf "$SBX_TMP/a.tar"
	touch -r "$SBX_TMP/a" "$SBX_TMP/c"
	sbx-img import -q --name c "$SBX_TMP/c"
	run -1 sbx-img diff -o path a c
	refute_line /file
	refute_line /
}

@test "diff says 125 when it cannot tell" {
	run -125 sbx-img diff a
	run -125 sbx-img diff a nothing
	assert_output "sbx-img diff: no image 'nothing' on this node (see sbx-img ls)"
	run -125 sbx-img diff -o nonsense a b
	local data=$SBX_STATE/img/data
	mv "$data" "$data.away"
	mkdir "$data"
	run -125 sbx-img diff a b
	assert_output --partial "cannot open"
	rmdir "$data"
	mv "$data.away" "$data"
}

@test "damaged metadata are refused" {
	local meta
	meta=$SBX_STATE/img/layer/$(sbx-img show a | awk '$1 == "layer" { print $2 }')/meta
	cp "$meta" "$SBX_TMP/meta"
	printf '\377\377' | dd of="$meta" bs=1 seek=1500 conv=notrunc status=none
	run -125 sbx-img diff a b
	assert_output --partial "metadata are damaged"
	: >"$meta"
	run -125 sbx-img export a "$SBX_TMP/x.tar"
	assert_output --partial "metadata are damaged"
	[ ! -e "$SBX_TMP/x.tar" ]
	cp "$SBX_TMP/meta" "$meta"
}

@test "an export comes back the same, byte for byte each time" {
	local form
	for form in oci docker; do
		sbx-img export --format $form a "$SBX_TMP/1.tar"
		sbx-img export --format $form a "$SBX_TMP/2.tar"
		sbx-img export --format $form a - >"$SBX_TMP/3.tar"
		cmp "$SBX_TMP/1.tar" "$SBX_TMP/2.tar"
		cmp "$SBX_TMP/1.tar" "$SBX_TMP/3.tar"
		sbx-img import -q --name back "$SBX_TMP/1.tar"
		run -0 sbx-img diff a back
		refute_output
	done
	sbx-img export a "$SBX_TMP/oci/"
	jq -e '.manifests[0].annotations."org.opencontainers.image.ref.name" == "a:latest"' "$SBX_TMP/oci/index.json"
	sbx-img export --name other:1 --format docker a "$SBX_TMP/1.tar"
	tar -xOf "$SBX_TMP/1.tar" manifest.json | jq -e '.[0].RepoTags == ["other:1"]'
	[ -z "$(find "$SBX_TMP" -maxdepth 1 -name '.sbx-export*')" ]
}

@test "skopeo takes what is exported" {
	command -v skopeo >/dev/null || skip "there is no skopeo"
	local s=(skopeo --insecure-policy copy -q)
	sbx-img export a "$SBX_TMP/lay/"
	sbx-img export a "$SBX_TMP/lay.tar"
	sbx-img export --format docker a "$SBX_TMP/dock.tar"
	"${s[@]}" "oci:$SBX_TMP/lay:a:latest" "dir:$SBX_TMP/d1"
	"${s[@]}" "oci-archive:$SBX_TMP/lay.tar" "dir:$SBX_TMP/d2"
	"${s[@]}" "docker-archive:$SBX_TMP/dock.tar" "oci:$SBX_TMP/d3:x"
	skopeo inspect "oci:$SBX_TMP/lay" | jq -e '.Os == "linux"'
	sbx-img import -q --name back "$SBX_TMP/d3"
	run -0 sbx-img diff a back
}

@test "export refuses what it cannot do, and leaves what was there" {
	mkdir -p "$SBX_TMP/full" "$SBX_TMP/empty"
	echo keep >"$SBX_TMP/full/keep"
	run -125 sbx-img export a "$SBX_TMP/full"
	assert_output --partial "is no empty directory"
	run -125 sbx-img export --format docker a "$SBX_TMP/empty"
	assert_output --partial "a docker archive is one file"
	[ -d "$SBX_TMP/empty" ] && [ -z "$(ls -A "$SBX_TMP/empty")" ]
	sbx-img export a "$SBX_TMP/empty"
	[ -f "$SBX_TMP/empty/index.json" ]
	run -125 sbx-img export a "$SBX_TMP/no/such/x.tar"
	run -125 sbx-img export --format zip a "$SBX_TMP/x"
	run -125 sbx-img export --compress lz4 a "$SBX_TMP/x"
	run -125 sbx-img export nothing "$SBX_TMP/full/keep"
	assert_equal "$(cat "$SBX_TMP/full/keep")" keep
	mkdir "$SBX_TMP/wh"
	: >"$SBX_TMP/wh/.wh.x"
	sbx-img import -q --name wh "$SBX_TMP/wh"
	run -125 sbx-img export wh "$SBX_TMP/full/keep"
	assert_output --partial "the name '.wh.x' would remove another"
	assert_equal "$(cat "$SBX_TMP/full/keep")" keep
	run bash -c 'sbx-img export a - >/dev/full'
	assert_equal "$status" 125
}

@test "collapse of one layer is that layer" {
	run --separate-stderr sbx-img collapse a flat:1
	assert_equal "$status" 0
	assert_equal "$stderr" "sbx-img collapse: 'flat:1' has one layer, made of 1; its data are those of 'a'"
	run -0 sbx-img diff a flat:1
	run -125 sbx-img collapse a
	run -125 sbx-img collapse nothing x
	run -125 sbx-img collapse a 'bad name'
	[ -z "$(ls -A "$SBX_STATE/img/tmp")" ]
}

@test "data on a depot are read there" {
	local info depot=$SBX_TMP/depot
	mkdir -p "$depot/img"
	info=$SBX_STATE/img/layer/$(sbx-img show a | awk '$1 == "layer" { print $2 }')/info
	sbx-img export a "$SBX_TMP/here.tar"
	echo "depot = $depot" >>"$info"
	mv "$SBX_STATE/img/data" "$depot/img/data"
	mkdir "$SBX_STATE/img/data"
	run sbx-img diff -o what,path a b
	assert_output --partial "cannot open"
	sbx-img export a "$SBX_TMP/there.tar"
	cmp "$SBX_TMP/here.tar" "$SBX_TMP/there.tar"
	sbx-img collapse -q a flat:depot
	sbx-img show flat:depot | grep -qx "depot	$depot"
	run -0 sbx-img diff a flat:depot
}
