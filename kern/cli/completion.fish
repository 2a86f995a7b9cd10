# kern completion fish > ~/.config/fish/completions/kern.fish
function __kern_complete
    set -l before (commandline -opc)
    kern --complete fish $before[2..-1] (commandline -ct) 2>/dev/null
end
complete -c kern -f -k -a '(__kern_complete)'
complete -c kern -n '__fish_seen_subcommand_from plan add' -F
