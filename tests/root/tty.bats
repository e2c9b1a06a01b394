# limit: 200
# sbx-exec -T: a real terminal in the box, that follows the caller's and leaves it as it was.
load ../helpers

setup_file()
{
	sbx_setup_file
	small_image
	box
	export box
}

# tty STEP... -- COMMAND...: a person at a terminal of 30 rows and 90 columns
tty()
{
	python3 "$top/tests/root/person.py" 30x90 "$@"
}

@test "tty: all three streams are a terminal of the box" {
	run -0 tty -- sbx-exec -T "$box" -- sh -c 'test -t 0 -a -t 1 -a -t 2 && tty; stty size'
	assert_line --regexp '^/dev/pts/[0-9]+$'
	assert_line '30 90'
	assert_line 'exit 0'
	assert_line restored
	# Without -T it is none, whatever the caller has.
	run -0 tty -- sbx-exec "$box" -- sh -c 'test -t 0 || test -t 1 || echo none'
	assert_line none
}

@test "tty: the size follows the caller's" {
	run -0 tty wait:begun size:41x101 wait:resized -- sbx-exec -T "$box" -- sh -c \
		'trap "echo resized; stty size; exit 0" WINCH; echo begun; while :; do sleep 0.05; done'
	assert_line '41 101'
	assert_line 'exit 0'
}

@test "tty: ^C interrupts the command, not the client" {
	run -0 tty wait:begun 'type:\x03' wait:got -- sbx-exec -T "$box" -- sh -c \
		'trap "echo got it; exit 5" INT; echo begun; while :; do sleep 0.05; done'
	assert_line 'exit 5'
	assert_line restored
	run -0 tty wait:begun 'type:\x03' -- sbx-exec -T "$box" -- sh -c 'echo begun; exec sleep 60'
	assert_line 'exit 130'
	assert_line restored
}

@test "tty: ^D ends input, and a shell is a shell" {
	run -0 tty wait:begun 'type:hello\n' wait:hello wait:hello 'type:\x04' -- \
		sbx-exec -T "$box" -- sh -c 'echo begun; cat; echo after; exit 6'
	assert_line after
	assert_line 'exit 6'
	run -0 tty 'wait:# ' 'type:echo $((6*7))\n' wait:42 'type:exit 3\n' -- sbx-exec -T "$box" -- sh -i
	assert_line 'exit 3'
	assert_line restored
}

@test "tty: the end of a command, a time limit or a kill gives the terminal back" {
	run -0 tty -- sbx-exec -T -t 1 "$box" -- sleep 60
	assert_line 'exit 124'
	assert_line restored
	run -0 tty -- sbx-exec -T "$box" -- sh -c 'kill -9 $$'
	assert_line 'exit 137'
	assert_line restored
	run -0 tty -- sbx-exec -T "$box" -- no-such-command
	assert_line 'exit 127'
	assert_line restored
	run -0 tty -- sbx-exec -T "$box" -- stty raw -echo
	assert_line 'exit 0'
	assert_line restored
}

@test "tty: works without a terminal of the caller's" {
	run -0 sbx-exec -T "$box" -- sh -c 'test -t 1 && echo yes' </dev/null
	assert_output --partial yes
	run -0 bash -c 'echo text | timeout 20 sbx-exec -T "$1" -- cat' sh "$box"
	assert_output --partial text
	run -7 sbx-exec -T "$box" -- sh -c 'exit 7' </dev/null
}

@test "tty: a background process does not hold the terminal or the call" {
	run -0 tty -- timeout --foreground 15 sbx-exec -T "$box" -- sh -c 'trap "" HUP; sleep 971 & echo hi'
	assert_line hi
	assert_line 'exit 0'
	assert_line restored
}
