# The example rollout on a real Debian: one task of C and one of Python, two candidates of each.
# The root is the demo's, made once by mmdebstrap and kept; that takes minutes, all else seconds.
# limit: 1800
# shellcheck disable=SC2154 # lines is set by run
load ../helpers

setup_file()
{
	sbx_setup_file
	export PATH=$top/share/sbx/examples:$PATH TMPDIR=$SBX_TMP
	debian_image demo python3 gcc libc6-dev make patch
	local task
	mkdir "$SBX_TMP/tasks"
	for task in csv words; do
		cp -r "$top/share/sbx/examples/tasks/$task" "$SBX_TMP/tasks/$task"
	done
	rm "$SBX_TMP"/tasks/csv/candidates/{crash,loop}.patch "$SBX_TMP"/tasks/words/candidates/{hog,loop}.patch
}

running()
{
	[ -n "$(sbx-ls -q -s running)" ]
}

@test "rollout: each candidate gets its reward, and nothing is left" {
	run -0 --separate-stderr rollout.sh demo "$SBX_TMP/tasks"
	assert_equal "$stderr" ''
	assert_equal "$(cut -f 1-2,4 <<<"$output")" "$(printf '%s\n' 'csv	right	exit 0' 'csv	wrong	exit 0' \
		'words	right	exit 0' 'words	wrong	exit 0')"
	# A right one gets all, a wrong one a part; each has run and used memory.
	run awk -F '\t' '($2 == "right") != ($3 == "1.00") || $3 < 0 || $3 > 1 || $5 < 1 || $6 < 1' <<<"$output"
	refute_output
	assert_equal "$(sbx-ls | wc -l) $(leftovers)" '0 '
	run ! ls -d "$SBX_TMP"/tmp.*
}

@test "rollout: ended half-way, it takes its boxes with it" {
	bg setsid rollout.sh demo "$SBX_TMP/tasks" >"$SBX_TMP/out"
	local pid=$!
	within 20 running
	kill -- "-$pid"
	wait "$pid" || true
	assert_equal "$(sbx-ls | wc -l) $(leftovers)" '0 '
	run ! ls -d "$SBX_TMP"/tmp.*
}
