#!/bin/sh
# A rollout as a reinforcement-learning loop runs it: every candidate patch of every task is tried in
# a sandbox of its own; its reward is the share of the task's tests that pass. Copy and change it.
#
# Usage: rollout.sh [IMAGE [TASKS]]
#
# A task is a directory:
#	src/		the program with its fault	-> /work in the box, then patched
#	tests/run	prints "ok ..." for each test that passes	-> /tests, after the patch
#	total		how many tests there are
#	candidates/	NAME.patch: what the policy under training proposed
#
# Prints a line for each candidate: task, candidate, reward, how its tests ended, ms, peak bytes.
set -eu

image=${1:-demo}
tasks=${2:-$(dirname "$0")/tasks}
jobs=${ROLLOUT_JOBS:-$(nproc)}

# try BOX CANDIDATE: one episode.
try()
{
	box=$1
	patch=$2
	task=$(dirname "$(dirname "$patch")")
	status=$work/$box.status
	out=$work/$box.out

	# Whatever the tests print is hostile text: it is counted here, never run.
	sbx-cp "$task/src" "$box:/work"
	sbx-exec -w /work "$box" -- patch -s -p1 <"$patch"
	sbx-cp "$task/tests" "$box:/tests"
	sbx-exec -t 10s -w /work --no-stdin --status "$status" "$box" -- sh /tests/run \
		>"$out" 2>"$out.err" || true # how it ended is in the status record

	total=$(cat "$task/total")
	passed=$(grep -c '^ok ' "$out" || true)
	awk -F= -v OFS='\t' -v task="$(basename "$task")" -v name="$(basename "$patch" .patch)" \
		-v passed="$passed" -v total="$total" '
		{ v[$1] = $2 }
		END {
			if (passed > total) passed = total
			how = v["end"]
			if (how == "exit" || how == "signal") how = how " " v[how == "exit" ? "code" : how]
			print task, name, sprintf("%.2f", passed / total), how, v["wall_ms"], v["mem_peak"]
		}' "$status"
	sbx-stop "$box"
}

if [ "${1:-}" = --try ]; then
	try "$2" "$3"
	exit
fi

work=$(mktemp -d)
export work
label=rollout=$$
# Whatever happens to this script, its boxes end with it; --ttl covers even a kill -9.
trap 'sbx-stop -q --all -l "$label"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

ls "$tasks"/*/candidates/*.patch >"$work/candidates"
sbx-create -i "$image" -n "$(wc -l <"$work/candidates")" -m 128M -c 1 --pids 64 --ttl 10m \
	-l "$label" >"$work/boxes"
paste "$work/boxes" "$work/candidates" | xargs -P "$jobs" -n 2 sh "$0" --try | sort
