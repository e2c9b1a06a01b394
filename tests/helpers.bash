# What every bats file starts with:  load ../helpers
# Each file gets state and run directories and a node name of its own, and fails at its end if a box,
# a control group, a mount, a process or a link of that node is left.
# A file with a setup_file or teardown_file of its own calls sbx_setup_file or sbx_teardown_file in it.
# shellcheck shell=bash

top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
bats_require_minimum_version 1.8.0
bats_load_library bats-support
bats_load_library bats-assert

sbx_setup_file()
{
	export O=${O:-$top/build}
	export PATH=$O/bin:$PATH BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-120}
	SBX_TMP=$(mktemp -d /tmp/sbx-test.XXXXXX)
	SBX_NODE=$(basename "$BATS_TEST_FILENAME" .bats | tr 'A-Z.' 'a-z-' | cut -c1-30)-$$
	export SBX_TMP SBX_NODE SBX_STATE=$SBX_TMP/state SBX_RUN=$SBX_TMP/run
	export SBX_LIBEXEC=$O/libexec SBX_SHARE=$top/share/sbx SBX_CONFIG=''
}

# The tools clean up; what they leave is a fault of theirs and is shown, not tidied away.
sbx_teardown_file()
{
	local left status=0
	if [ -d "$SBX_STATE/box" ]; then
		sbx-stop --all </dev/null || status=1
		sbx-reap </dev/null || status=1
	fi
	left=$(leftovers)
	if [ -n "$left" ]; then
		printf 'left behind:\n%s\n' "$left" >&2
		status=1
	fi
	unmount_shared
	rm -rf --one-file-system "$SBX_TMP" || status=1
	return "$status"
}

setup_file()
{
	sbx_setup_file
}

teardown_file()
{
	sbx_teardown_file
}

# One line for each thing of this file's node that exists. Mounts that serve all boxes of a node
# (in RUN, but not in RUN/box) stay until the node is shut down.
leftovers()
{
	local p id
	for p in "$SBX_STATE"/box/* "$SBX_RUN"/box/* "$SBX_STATE"/slot/* "$SBX_STATE"/name/*; do
		if [ -e "$p" ] || [ -L "$p" ]; then echo "state: $p"; fi
	done
	find /sys/fs/cgroup -maxdepth 4 -type d -path "*/sbx*/$SBX_NODE.*" 2>/dev/null | sed 's/^/cgroup: /'
	awk -v a="$SBX_RUN/box/" -v b="$SBX_STATE/" '
		index($5, a) == 1 || index($5, b) == 1 { print "mount: " $5 }' /proc/self/mountinfo
	# The dot keeps grep's own command line from matching.
	grep -lsa "$SBX_NODE\\." /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup | cut -d/ -f3 | sort -un |
		while read -r id; do
			read -r p 2>/dev/null <"/proc/$id/comm" && echo "process: $id $p"
		done
	# A link of ours carries its box's ID as alias.
	grep -ls "^$SBX_NODE\." /sys/class/net/*/ifalias 2>/dev/null | sed 's/^/link: /'
}

# What the node keeps mounted as long as it is up is this file's alone: it goes with the file.
unmount_shared()
{
	awk -v a="$SBX_RUN/" 'index($5, a) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
		while read -r p; do umount "$p"; done
}

# bg COMMAND...: in the background, without the descriptors bats waits for. Its pid is in $!.
bg()
{
	"$@" 3>&- 4>&- </dev/null &
}

# within SECONDS COMMAND...: succeeds as soon as COMMAND does, fails when the time is over.
within()
{
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { echo "not within time: $*" >&2; return 1; }
		sleep 0.05
	done
}

# box [OPTION...]: one box of the image "small"; its ID is in $box.
box()
{
	box=$(sbx-create -i small -m 64M --pids 64 "$@" 3>&-)
	export box
}

# value KEY FILE: the last value of a key=value file (a status record).
value()
{
	sed -n "s/^$1 *= *//p" "$2" | tail -n 1
}

# The small root file system, one static busybox, is made once for all files.
small_cache()
{
	local root=$O/cache/small-root name
	[ -d "$root" ] && return
	mkdir -p "$O/cache"
	(
		flock 9
		[ -d "$root" ] && exit 0
		rm -rf "$root.new"
		mkdir -p "$root.new"/{bin,dev,etc,proc,root,sys,tmp,usr,var}
		chmod 1777 "$root.new/tmp"
		chmod 700 "$root.new/root"
		cp "$(command -v busybox)" "$root.new/bin/busybox"
		for name in $(busybox --list); do
			[ "$name" = busybox ] || ln -s busybox "$root.new/bin/$name"
		done
		printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n' \
			>"$root.new/etc/passwd"
		printf 'root:x:0:\nuser:x:1000:\n' >"$root.new/etc/group"
		mv "$root.new" "$root"
	) 9>"$root.lock" 3>&-
}

# small_root DIR: a copy of it, to be changed by a test.
small_root()
{
	small_cache && cp -a "$O/cache/small-root" "$1"
}

# small_image [NAME]: imports it.
small_image()
{
	small_cache && sbx-img import --name "${1:-small}" "$O/cache/small-root" >/dev/null
}

# debian_image NAME [PACKAGE...]: imports a Debian root (with python3-minimal if no package is named),
# which is made once for all files.
debian_image()
{
	local name=$1 tar
	shift
	[ $# -gt 0 ] || set -- python3-minimal
	tar=$("$top/mk/debian-root" "$O/cache" "$@" 3>&-) &&
		sbx-img import --name "$name" "$tar" >/dev/null
}
