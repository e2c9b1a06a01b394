# Completion for bash of every sbx command. The words come from "TOOL --opts", so they are those of
# the version that runs.
#	letter TAB long TAB argument TAB help	"-" where there is none
#	verb TAB name TAB help
#	operand TAB kinds

# _sbx_kind TOOL KIND...: the words an argument of that kind may be.
_sbx_kind()
{
	local tool=$1 kind
	shift
	for kind; do
		case $kind in
		ID*) sbx-ls -o id,name 2>/dev/null | tr '\t' '\n' | grep -v '^-$' ;;
		IMAGE*) sbx-img ls -o name,tag 2>/dev/null | awk -F'\t' '{ print $1 ":" $2; if ($2 == "latest") print $1 }' ;;
		FILE*) compgen -f -- "$cur" ;;
		DIR*) compgen -d -- "$cur" ;;
		COMMAND*) compgen -c -- "$cur" ;;
		COLS*) "$tool" -o . 2>&1 >/dev/null | sed -n 's/.*(there are \(.*\))$/\1/p' | tr ',' '\n' ;;
		[a-z]*\|*) tr '|' '\n' <<<"$kind" ;;
		esac
	done
}

_sbx()
{
	local tool=$1 cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} opts kind
	opts=$("$tool" --opts 2>/dev/null </dev/null) || return
	if [ "$COMP_CWORD" -gt 1 ] && grep -q "^verb	${COMP_WORDS[1]}	" <<<"$opts"; then
		opts=$("$tool" "${COMP_WORDS[1]}" --opts 2>/dev/null </dev/null) || return
	fi
	# bash takes "--name=value" for three words.
	[ "$cur" = = ] && cur=
	[ "$prev" = = ] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	if [[ $prev == -* ]]; then
		kind=$(awk -F'\t' -v word="$prev" '($1 == word || $2 == word) && $3 != "-" { print $3 }' <<<"$opts")
	fi
	if [ -z "$kind" ] && [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(awk -F'\t' '
			$1 ~ /^-.$/ { print $1 }
			$2 ~ /^--./ { print $2 }' <<<"$opts")" -- "$cur")
		return
	fi
	if [ -z "$kind" ]; then
		kind=$(sed -n 's/^operand\t//p' <<<"$opts")
		if [ "$COMP_CWORD" -eq 1 ] && grep -q '^verb	' <<<"$opts"; then
			kind=$(awk -F'\t' '$1 == "verb" { printf "%s%s", n++ ? "|" : "", $2 } END { if (n == 1) printf "|" }' <<<"$opts")
		fi
	fi
	compopt -o filenames 2>/dev/null
	[[ $kind == *FILE* || $kind == *DIR* ]] || compopt +o filenames 2>/dev/null
	# shellcheck disable=SC2086 # kinds are words
	mapfile -t COMPREPLY < <(compgen -W "$(_sbx_kind "$tool" $kind)" -- "$cur")
	# bash breaks words at colons: what is before the last one is typed already.
	if [[ $cur == *:* && ${COMP_WORDBREAKS-} == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")
	fi
}

# By the names on the path, and those that come later through bash-completion's own loader.
mapfile -t _sbx_tools < <(compgen -c sbx- | sort -u)
[ ${#_sbx_tools[@]} -eq 0 ] || complete -F _sbx "${_sbx_tools[@]}"
unset _sbx_tools
