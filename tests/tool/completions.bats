# Completions: each shell is asked for the words after a command line.
load ../helpers

setup_file()
{
	sbx_setup_file
	mkdir "$SBX_TMP/bin"
	# A tool that has one option of each kind, and what lists boxes and images.
	cat >"$SBX_TMP/bin/sbx-fake" <<-'END'
		#!/bin/sh
		printf '%s\t%s\t%s\t%s\n' -f --flag - 'a flag' -n --count COUNT 'a count' -i --image IMAGE 'an image' \
			- --net 'none|host' 'a network' -b - ID 'a box' -h --help - help
		printf 'operand\tID\n'
	END
	printf '#!/bin/sh\nprintf "verb\\tpush\\tpush it\\nverb\\tpull\\tpull it\\n-h\\t--help\\t-\\thelp\\noperand\\tIMAGE\\n"\n' \
		>"$SBX_TMP/bin/sbx-verbs"
	printf '#!/bin/sh\nprintf "n1.1k3v9x2q8ab\\tweb\\nn1.1k3v9x2q8ac\\t-\\n"\n' >"$SBX_TMP/bin/sbx-ls"
	printf '#!/bin/sh\nprintf "debian\\tlatest\\nswe/py\\tv1\\n"\n' >"$SBX_TMP/bin/sbx-img"
	chmod +x "$SBX_TMP"/bin/*
	export PATH=$SBX_TMP/bin:$PATH
}

# words SHELL LINE: what SHELL offers at the end of LINE, one a line.
words()
{
	case $1 in
	bash) bash --norc -c '
		. "$1/completions/sbx.bash"
		line=$2
		read -ra COMP_WORDS <<<"$line"
		[[ $line == *" " ]] && COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		complete -p "${COMP_WORDS[0]}" >/dev/null || exit
		_sbx "${COMP_WORDS[0]}"
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top" "$2" ;;
	zsh) timeout 20 zsh -f "$BATS_TEST_DIRNAME/zsh-words.zsh" "$top/completions" "$2" ;;
	fish) HOME=$SBX_TMP fish --no-config -c "source '$top/completions/sbx.fish'; complete -C '$2'" | cut -f1 ;;
	esac
}

check_shell()
{
	run -0 words "$1" 'sbx-fake --'
	assert_line -- --flag
	assert_line -- --net
	run -0 words "$1" 'sbx-fake --net '
	assert_line none
	assert_line host
	run -0 words "$1" 'sbx-fake -i '
	assert_line --partial debian
	run -0 words "$1" 'sbx-fake -b '
	assert_line n1.1k3v9x2q8ab
	run -0 words "$1" 'sbx-fake -f '
	assert_line n1.1k3v9x2q8ac
	assert_line web
	run -0 words "$1" 'sbx-verbs pu'
	assert_line push
	assert_line pull
	run -0 words "$1" 'sbx-verbs push '
	assert_line --partial swe/py
}

@test "bash" {
	check_shell bash
	run -0 words bash 'sbx-fake --net = h'
	assert_output host
}

@test "fish" {
	command -v fish || skip "no fish"
	check_shell fish
}

@test "zsh" {
	command -v zsh || skip "no zsh"
	run -0 words zsh 'sbx-fake --'
	assert_output --partial 'a count'
	assert_output --partial -- --net
	run -0 words zsh 'sbx-fake --net '
	assert_output --partial none
	assert_output --partial host
	run -0 words zsh 'sbx-verbs '
	assert_output --partial 'push it'
}

@test "every command lists its options for the completions" {
	for tool in "$O"/bin/sbx-*; do
		run -0 "$tool" --opts
		assert_line --regexp '^operand	'
		assert_line --regexp '^-h	--help	-	'
	done
}
