# sbx-lint: what gives answers away is found; repositories made to break readers break nothing.
# The repositories are made by git here and are part of the image that all boxes have.
# limit: 600
# shellcheck shell=bash disable=SC2016,SC2154
load ../helpers

lint=$O/libexec/sbx-lint

git_config()
{
	export HOME=$SBX_TMP/home GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost
	export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost
	mkdir -p "$HOME"
	git config --global init.defaultBranch main
	git config --global protocol.file.allow always
	git config --global advice.detachedHead false
}

# origin DIR: three commits and two tags; the last commit is the answer.
origin()
{
	git init -q "$1"
	for n in 1 2 answer; do
		mkdir -p "$1/src/deep"
		echo "$n" >"$1/src/deep/file"
		echo "$n" >"$1/file-$n"
		git -C "$1" add -A
		git -C "$1" commit -q -m "the $n"
	done
	git -C "$1" tag -a -m old v1 HEAD~2
	git -C "$1" tag v2 HEAD~1
}

# A clone without its origin's future.
clean_clone()
{
	git clone -q --no-local --single-branch --branch v2 "$SBX_TMP/origin" "$1"
	git -C "$1" switch -q -c work
	git -C "$1" remote remove origin
}

setup_file()
{
	sbx_setup_file
	git_config
	root=$SBX_TMP/root
	small_root "$root"
	mkdir -p "$root/work"
	origin "$SBX_TMP/origin"
	sbx-img import --name small "$root" >/dev/null
	export root
}

setup()
{
	git_config
	lint=$O/libexec/sbx-lint
}

teardown()
{
	if [ -n "${box-}" ]; then sbx-stop -q "$box"; fi
}

# with DIR: a box that has DIR's content as its /work.
with()
{
	box
	sbx-cp "$1" "$box:/work/"
}

kinds()
{
	cut -f1 <<<"$output" | sort -u | paste -sd' '
}

@test "lint: a box with nothing, and clean clones of all kinds" {
	local d=$BATS_TEST_TMPDIR/d
	mkdir "$d"
	clean_clone "$d/plain"
	git clone -q --bare --no-local --single-branch --branch v2 "$SBX_TMP/origin" "$d/bare.git"
	git clone -q --no-local "$SBX_TMP/origin" "$d/whole"
	git clone -q --no-local --depth 1 --no-tags "file://$SBX_TMP/origin" "$d/shallow"
	git init -q "$d/empty"
	clean_clone "$d/main"
	git -C "$d/main" worktree add -q "$d/main/tree" HEAD~1
	git -C "$d/plain" -c commit.gpgsign=false commit -q --allow-empty -m 'work of its own'
	echo staged >"$d/plain/new"
	git -C "$d/plain" add new
	: >"$d/.bash_history"
	with "$d"
	run -0 "$lint" "$box"
	refute_output
	run -0 "$lint" --json "$box"
	refute_output
	run -0 "$lint" -H "$box"
	assert_output "$(printf 'kind\tpath\tcount\tdetail')"
}

@test "lint: a commit that was reset away, in a pack or loose" {
	local d=$BATS_TEST_TMPDIR/d id
	mkdir "$d"
	git clone -q --no-local "$SBX_TMP/origin" "$d/packed"
	git -C "$d/packed" remote remove origin
	git -C "$d/packed" reset -q --hard HEAD~1
	origin "$d/loose"
	git -C "$d/loose" reset -q --hard HEAD~1
	rm -r "$d/loose/.git/logs" "$d/loose/.git/ORIG_HEAD"
	id=$(git -C "$SBX_TMP/origin" rev-parse HEAD)
	[ -n "$(find "$d/packed/.git" -name '*.pack')" ]
	[ -z "$(find "$d/loose/.git" -name '*.pack')" ]
	with "$d"
	run -1 "$lint" "$box"
	assert_line --regexp "^git-unreachable	/work/d/packed	[0-9]+	1 commits, newest $id the answer\$"
	assert_line --regexp "^git-unreachable	/work/d/loose	[0-9]+	1 commits, newest [0-9a-f]{40} the answer\$"
	assert_line "git-ref	/work/d/packed	1	ORIG_HEAD"
	assert_line --regexp "^git-reflog	/work/d/packed	4	"
	refute_line --partial 'unchecked'
	[ "${#lines[@]}" -eq 4 ]
}

@test "lint: tags, remote branches, stash, notes and work trees that are ahead" {
	local d=$BATS_TEST_TMPDIR/d
	mkdir "$d"
	git clone -q --no-local "$SBX_TMP/origin" "$d/r"
	git -C "$d/r" checkout -q -b work HEAD~1
	git -C "$d/r" branch -q -D main
	git -C "$d/r" tag -a -m future v3 origin/main
	echo change >>"$d/r/file-1"
	git -C "$d/r" stash -q
	git -C "$d/r" fetch -q origin
	git -C "$d/r" worktree add -q --detach "$d/tree" v3
	git -C "$d/r" pack-refs --all
	with "$d"
	run -1 "$lint" -o kind,path,detail "$box"
	assert_line --regexp "^git-unreachable	/work/d/r	3 commits, newest [0-9a-f]{40} (WIP|index) on work"
	assert_line "git-ref	/work/d/r	refs/remotes/origin/HEAD refs/remotes/origin/main refs/stash refs/tags/v3 FETCH_HEAD worktrees/tree/HEAD"
	assert_line --regexp '^git-reflog	/work/d/r	'
	refute_line --partial v1
	refute_line --partial /work/d/tree
}

@test "lint: objects that another repository lends" {
	local d=$BATS_TEST_TMPDIR/d
	mkdir "$d"
	clean_clone "$d/r"
	git clone -q --bare --no-local "$SBX_TMP/origin" "$d/lender.git"
	echo ../../../lender.git/objects >"$d/r/.git/objects/info/alternates"
	with "$d"
	run -1 "$lint" "$box"
	assert_line "git-alternate	/work/d/r	1	../../../lender.git/objects"
	assert_line --regexp '^git-unreachable	/work/d/r	[0-9]+	1 commits, newest .* the answer$'
	[ "${#lines[@]}" -eq 2 ]
}

@test "lint: histories, backups and core files" {
	local d=$BATS_TEST_TMPDIR/d
	mkdir -p "$d/.local/share/fish" "$d/a"
	printf 'make\ngit diff' >"$d/.bash_history"
	printf 'import answer\n' >"$d/.python_history"
	printf -- '- cmd: ls\n' >"$d/.local/share/fish/fish_history"
	: >"$d/.psql_history"
	echo old >"$d/a/main.c~"
	echo swap >"$d/a/.main.c.swp"
	printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0' >"$d/a/core.17"
	printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0' >"$d/a/core"
	mkfifo "$d/a/.zsh_history"
	ln -s /etc/passwd "$d/a/.ash_history"
	printf x >"$d/a/$(printf 'new\nline\033~')"
	tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/d.tar" d
	box
	sbx-exec "$box" -- tar -C /work -xf - <"$BATS_TEST_TMPDIR/d.tar"
	run -1 "$lint" "$box"
	assert_equal "$(sort <<<"$output")" "$(sort <<-EOT
		history	/work/d/.bash_history	2	13 bytes
		history	/work/d/.python_history	1	14 bytes
		history	/work/d/.local/share/fish/fish_history	1	10 bytes
		backup	/work/d/a/main.c~	1	4 bytes
		backup	/work/d/a/.main.c.swp	1	5 bytes
		core	/work/d/a/core.17	1	18 bytes
		backup	/work/d/a/new\nline$(printf '\033')~	1	1 bytes
	EOT
	)"
	run -1 "$lint" --json "$box"
	jq -es 'length == 7 and all(.count >= 1)' <<<"$output"
}

# hostile DIR: each repository beneath is made to break or to abuse its reader.
hostile()
{
	local r
	mkdir "$1"
	for r in config alternates link corrupt index fifo head loop gitfile big; do
		git clone -q --no-local "$SBX_TMP/origin" "$1/$r"
	done
	cat >>"$1/config/.git/config" <<-'EOT'
		[core]
			fsmonitor = touch /work/ran
			pager = touch /work/ran
			editor = touch /work/ran
			sshCommand = touch /work/ran
			hooksPath = /work/hooks
			worktree = /proc
			attributesFile = /dev/zero
		[filter "x"]
			clean = touch /work/ran
			smudge = touch /work/ran
		[include]
			path = /dev/zero
		[include]
			path = config
	EOT
	echo '* filter=x' >"$1/config/.git/info/attributes"
	printf '/etc\n/proc/self\n/dev\n.\n../objects\n' >"$1/alternates/.git/objects/info/alternates"
	mv "$1/link/.git" "$1/link/git"
	ln -s /proc/self/root/work/d/link/git "$1/link/.git"
	for r in "$1"/corrupt/.git/objects/pack/*.pack; do
		chmod u+w "$r"
		dd if=/dev/urandom of="$r" bs=1 seek=20 count=400 conv=notrunc status=none
	done
	head -c 5000 /dev/urandom >"$1/index/.git/index"
	for r in "$1"/index/.git/objects/pack/*.idx; do
		chmod u+w "$r"
		dd if=/dev/urandom of="$r" bs=1 seek=1100 count=200 conv=notrunc status=none
	done
	rm "$1/fifo/.git/HEAD"
	mkfifo "$1/fifo/.git/HEAD"
	printf 'ref: refs/heads/../../../../etc/passwd\n' >"$1/head/.git/HEAD"
	printf 'ref: refs/heads/loop\n' >"$1/loop/.git/refs/heads/loop"
	printf 'ref: refs/heads/loop\n' >"$1/loop/.git/HEAD"
	rm -r "$1/gitfile/.git"
	printf 'gitdir: /proc/self/fd/1\n' >"$1/gitfile/.git"
	# A blob that says it is 4 GiB.
	python3 - "$1/big/.git/objects" <<-'EOT'
		import os, sys, zlib
		d = sys.argv[1] + "/ff"
		os.makedirs(d, exist_ok=True)
		for i, kind in enumerate((b"tree", b"commit", b"blob", b"what")):
		    z = zlib.compress(kind + b" 4294967296\0" + b"0" * 1000000)
		    open(d + "/%038x" % i, "wb").write(z)
	EOT
}

@test "lint: hostile repositories run nothing, hang nothing, crash nothing" {
	local d=$BATS_TEST_TMPDIR/d r
	hostile "$d"
	tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/d.tar" d
	box -m 256M
	sbx-exec "$box" -- tar -C /work -xf - <"$BATS_TEST_TMPDIR/d.tar"
	sbx-exec "$box" -- sh -c 'mkdir /work/hooks; for h in post-checkout fsmonitor-watchman; do
		printf "#!/bin/sh\ntouch /work/ran\n" >/work/hooks/$h; chmod 755 /work/hooks/$h; done'
	run -1 timeout 60 "$lint" -t 40s "$box"
	echo "$output"
	refute_output --partial 'ended the reader'
	for r in config corrupt index fifo head loop big; do
		assert_line --regexp "^unchecked	/work/d/$r	"
	done
	assert_line "git-alternate	/work/d/alternates	5	/etc /proc/self /dev . ../objects"
	run ! sbx-exec "$box" -- ls /work/ran
}

@test "lint: what takes too long ends at the limit" {
	local d=$BATS_TEST_TMPDIR/d
	mkdir "$d"
	clean_clone "$d/a"
	with "$d"
	sbx-exec "$box" -- sh -c 'mkfifo /tmp/fifo; cd /work/d/a/.git && rm config && ln -s /tmp/fifo config'
	run -1 timeout 60 "$lint" -t 2s "$box"
	assert_output "unchecked	/work/d/a	1	it took too long"
}

# The process that hangs in a repository, from the box's own view.
searcher()
{
	pid=$(sbx-exec "$box" -- sh -c 'grep -lx sbx-lint /proc/[0-9]*/comm | tail -n 1' | cut -d/ -f3)
	[ -n "$pid" ]
}

no_searcher()
{
	! searcher
}

@test "lint: the search has a command's rights and less, and ends with its caller" {
	local d=$BATS_TEST_TMPDIR/d caller
	mkdir "$d"
	clean_clone "$d/a"
	with "$d"
	sbx-exec "$box" -- sh -c 'mkfifo /tmp/fifo; cd /work/d/a/.git && rm config && ln -s /tmp/fifo config'
	SECRET=of-the-node bg "$lint" -t 5m "$box" >"$BATS_TEST_TMPDIR/out"
	caller=$!
	within 30 searcher
	searcher
	run -0 sbx-exec "$box" -- cat "/proc/$pid/status"
	assert_line --regexp '^CapEff:	0000000000000002$'
	assert_line --regexp '^CapPrm:	0000000000000002$'
	assert_line --regexp '^NoNewPrivs:	1$'
	assert_line --regexp '^Seccomp_filters:	2$'
	assert_line --regexp '^Uid:	0	0	0	0$'
	run ! sbx-exec "$box" -- ls "/proc/$pid/fd"
	run ! sbx-exec "$box" -- cat "/proc/$pid/maps"
	run sbx-exec "$box" -- cat "/proc/$pid/environ"
	refute_output --partial of-the-node
	kill -9 "$caller"
	within 30 no_searcher
}

@test "lint: it says what it needs, and what became of the box" {
	box
	run -0 "$lint" "$box"
	run -0 sbx-log "$box"
	assert_output --partial sbx-lint
	run -125 "$lint"
	run -125 "$lint" -t 0 "$box"
	run -123 "$lint" nosuchbox
	sbx-stop -q "$box"
	run -123 "$lint" "$box"
	box=
}
