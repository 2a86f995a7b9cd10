#!/bin/sh
# Installs kern for you, or updates it: by `uv tool install` where uv is, else into a virtual
# environment below ~/.local/share/kern, with a link in ~/.local/bin.
#
#   sh install.sh                          from a clone: installs that clone
#   curl -fsSL https://raw.githubusercontent.com/0xjgv/kern/main/install.sh | sh
#
#   KERN_SOURCE   what to install instead: a folder, an archive's URL or a git URL
#   KERN_EXTRAS   what comes with it: semantic, dask, mcp, or several with commas
#   KERN_PYTHON   the Python to use (3.11 or newer)
#
# All is in functions until the last line, so a download that broke off does nothing.

die() { # WHAT_IS_WRONG WHAT_TO_TYPE_NEXT
    printf 'kern install: %s\n  hint: %s\n' "$1" "$2" >&2
    exit 1
}

find_source() { # SCRIPT; sets `source`, and `requirement`, as uv and pip want it
    source=${KERN_SOURCE:-https://github.com/0xjgv/kern/archive/refs/heads/main.tar.gz}
    here=$(dirname -- "$1")
    case ${KERN_SOURCE:-}${1##*/} in
        install.sh) ! grep -qs '^name = "kern"' "$here/pyproject.toml" || source=$here ;;
    esac
    [ ! -d "$source" ] || source=$(CDPATH='' cd -- "$source" && pwd)
    case $source in
        /* | git+* | *://*.tar.gz | *://*.zip | *://*.whl) requirement=$source ;;
        *://*) requirement=git+$source ;;
        *@*:*) requirement=git+ssh://${source%%:*}/${source#*:} ;; # git@host:owner/name
        *) requirement=/$source ;;
    esac
    case $requirement in
        https://* | git+https://* | git+ssh://* | git+file://* | file://*) ;;
        /*) [ -e "$requirement" ] || die "no such folder: $source" "KERN_SOURCE=/a/clone/of/kern" ;;
        *) die "not fetched without encryption: $source" "use https:// or ssh:// in KERN_SOURCE" ;;
    esac
    [ -z "${KERN_EXTRAS:-}" ] || case $requirement in
        /*) requirement="${requirement}[$KERN_EXTRAS]" ;;
        *) requirement="kern[$KERN_EXTRAS] @ $requirement" ;;
    esac
}

by_uv() { # sets `environment` and `command`
    command -v uv >/dev/null && uv tool install ${KERN_PYTHON:+--python "$KERN_PYTHON"} \
        --reinstall-package kern "$requirement" || return
    environment=$(uv tool dir)/kern command=$(uv tool dir --bin)/kern
}

by_venv() { # the same; a new folder for each version: the old one works until the new one does
    for python in ${KERN_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11} ""; do
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    done
    [ -n "$python" ] || die "no Python 3.11 or newer" "install one, or uv; or KERN_PYTHON=/a/python"
    data=${XDG_DATA_HOME:-$HOME/.local/share}/kern command=$HOME/.local/bin/kern
    old=$(readlink "$command" || :)
    [ ! -e "$command" ] && [ ! -L "$command" ] || case $old in
        */kern/versions/* | */kern/current/*) ;;
        *) die "$command is something else, so it is left alone" "mv $command $command.old" ;;
    esac
    environment=$data/versions/$(date +%Y%m%d-%H%M%S)-$$
    trap '[ "$(readlink "$command")" = "$environment/bin/kern" ] || rm -rf "$environment"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    mkdir -p "$data/versions" "${command%/*}" || die "cannot write to $data" "ls -ld $data"
    "$python" -m venv "$environment" || die "$python makes no virtual environment" \
        "apt install python3-venv (Debian, Ubuntu), or install uv; then run this again"
    "$environment/bin/python" -m pip install --disable-pip-version-check "$requirement" ||
        die "pip could not install $source" "its words are above; mend that, then run this again"
    "$environment/bin/kern" --version >/dev/null || die "it does not run" "report the lines above"
    ln -s "$environment/bin/kern" "$command.$$"
    mv -f "$command.$$" "$command"
    for other in "$data"/versions/*/source; do # a run that began before still imports from `old`
        case ${other%/*}/bin/kern in "$old" | "$data/versions/*/bin/kern") ;; *) rm -rf "${other%/*}" ;; esac
    done
}

main() { # SCRIPT
    set -eu
    unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX # they are meant for another Python
    export PIP_USER=0
    command -v git >/dev/null || die "git is not on PATH" "apt install git, or brew install git"
    case ${HOME:-} in /*) ;; *) die "HOME is not set" "HOME=/home/you sh install.sh" ;; esac
    find_source "$1"
    echo "Installing kern from $source"
    by_uv || by_venv
    (umask 077 && printf '%s\n' "$source" "${KERN_EXTRAS:-}" >"$environment/source")
    echo "$("$command" --version) is installed: $command"
    case :$PATH: in *":${command%/*}:"*) ;; *) echo "Type: export PATH=\"${command%/*}:\$PATH\"" ;; esac
    command -v claude >/dev/null || echo "Runs need claude, which is not on PATH; kern demo does not."
    echo "Next: kern demo, or kern init in a repository of yours."
}

{ main "$0"; }
