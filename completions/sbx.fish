# Completion for fish of every sbx command, from "TOOL --opts" (see sbx.bash for its lines).

function __sbx_kind
    set -l cur (commandline -ct)
    for kind in (string split ' ' -- $argv[1])
        switch $kind
            case 'ID*'
                sbx-ls -o id,name 2>/dev/null | string split \t | string match -v -- -
            case 'IMAGE*'
                sbx-img ls -o name,tag 2>/dev/null | string replace \t :
            case 'FILE*'
                __fish_complete_path $cur
            case 'DIR*'
                __fish_complete_directories $cur
            case 'COMMAND*'
                __fish_complete_command
            case '*|*'
                string match -qr '^[a-z]' -- $kind; and string split '|' -- $kind
        end
    end
end

function __sbx_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l tool $words[1]
    set -l prev $words[-1]
    set -l operand
    set -l verbs
    set -l given
    set -l verb
    if test (count $words) -gt 1; and $tool --opts 2>/dev/null </dev/null | string match -q -- "verb\t$words[2]\t*"
        set verb $words[2]
    end
    for line in ($tool $verb --opts 2>/dev/null </dev/null)
        set -l field (string split \t -- $line)
        switch $field[1]
            case operand
                set operand $field[2]
            case verb
                set -a verbs $field[2]\t$field[3]
            case '*'
                if contains -- $prev $field[1..2]; and test "$field[3]" != -; and test "$prev" != -
                    __sbx_kind $field[3]
                    return
                end
                test "$field[1]" != -; and set -a given $field[1]\t$field[4]
                test "$field[2]" != -; and set -a given $field[2]\t$field[4]
        end
    end
    if string match -q -- '-*' $cur
        printf '%s\n' $given
    else if test (count $words) -eq 1; and test (count $verbs) -gt 0
        printf '%s\n' $verbs
    else
        __sbx_kind "$operand"
    end
end

for dir in $PATH
    for tool in $dir/sbx-*
        complete -c (basename $tool) -f -a '(__sbx_complete)'
    end
end
