# The helpers themselves: a box starts, and what a test leaves behind is seen.
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
}

@test "a box of the small image runs a command" {
	box
	run -0 sbx-exec "$box" -- sh -c 'id -u; cat /etc/passwd | head -1'
	assert_line --index 0 0
	assert_line --index 1 root:x:0:0:root:/root:/bin/sh
	run -0 leftovers
	assert_line --partial "state: $SBX_STATE/box/$box"
	assert_line --regexp '^cgroup: '
	assert_line --regexp '^process: [0-9]+ sbx-keep'
	run -0 sbx-stop "$box"
	run -0 leftovers
	refute_output
}
