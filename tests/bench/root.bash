# The root file system all are measured on, and the removal of the temporary directory.

# $O, $root and $work are set by the script that reads this.
# shellcheck shell=bash disable=SC2034,SC2154

make_root() {
	[ -d "$root" ] && return
	mkdir -p "$O/cache"
	rm -rf "$root.new"
	echo "bench: making a Debian root with mmdebstrap" >&2
	mmdebstrap --quiet --variant=minbase --include=python3-minimal \
		"${BENCH_SUITE:-bookworm}" "$root.new" ${BENCH_MIRROR:+"$BENCH_MIRROR"}
	mv "$root.new" "$root"
}

remove_work() {
	awk -v d="$work/" 'index($2, d) == 1 { print $2 }' /proc/self/mounts | sort -r |
		while read -r at; do umount -l "$at" || true; done
	rm -rf --one-file-system "$work"
}
