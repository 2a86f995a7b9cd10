#compdef kern
# eval "$(kern completion zsh)" in ~/.zshrc
_kern() {
    local found
    found=$(kern --complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    local -a values=("${(@f)found}")
    if [[ -n $found ]]; then
        _describe -V kern values -U
    else
        _files
    fi
}
if [[ $funcstack[1] = _kern ]]; then
    _kern
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _kern kern
fi
