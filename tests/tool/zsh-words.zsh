# Usage: zsh -f zsh-words.zsh DIRECTORY LINE: what zsh shows when the tab key is pressed after LINE.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' list-prompt ''; LISTMAX=0; stty columns 200; print READY"
zpty -r z out '*READY*READY*'
zpty -n -w z "$2"$'\t\t'
sleep 2
out=
while zpty -rt z chunk; do out+=$chunk; done
print -r -- $out
zpty -d z
