# eval "$(kern completion bash)" in ~/.bashrc
_kern() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=($(set -f; kern --complete bash "$line" 2>/dev/null))
}
complete -o nosort -o default -F _kern kern 2>/dev/null || complete -o default -F _kern kern
