#!/bin/sh
# Installs kern for the current user, or updates it; nothing outside the home folder is touched.
#
#   sh install.sh                          from a clone: installs that clone
#   curl -fsSL https://raw.githubusercontent.com/0xjgv/kern/main/install.sh | sh
#
#   KERN_SOURCE   what to install instead: a folder, an archive's URL or a git URL
#   KERN_REPO     the GitHub repository to install from (0xjgv/kern)
#   KERN_PYTHON   the Python to use (3.11 or newer)
#   KERN_EXTRAS   what comes with it: semantic, for instance, or several with a comma; later runs keep it
#
# To uninstall: rm -r ~/.local/share/kern ~/.local/bin/kern
#
# POSIX sh, since `sh` is dash on Debian. Everything is a function until the last line, so that a
# download that broke off does nothing.

say() { printf '%s\n' "$*"; }
warn() { say "warning: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

die() { # WHAT_IS_WRONG WHAT_TO_TYPE_NEXT
    say "kern install: $1" >&2
    say "  hint: $2" >&2
    exit 1
}

usage() {
    say "usage: sh install.sh    (no arguments; run it again to update)"
    say "  KERN_SOURCE=...  a folder, an archive's URL or a git URL to install"
    say "  KERN_REPO=...    a GitHub repository, owner/name"
    say "  KERN_PYTHON=...  the Python to use, 3.11 or newer"
    say "  KERN_EXTRAS=...  what comes with it, such as semantic; empty: nothing more"
}

how_to_get() { # PACKAGE
    if have apt-get; then say "apt install $1"
    elif have brew; then say "brew install $1"
    elif have dnf; then say "dnf install $1"
    elif have pacman; then say "pacman -S $1"
    elif have apk; then say "apk add $1"
    else say "install $1"
    fi
}

find_python() { # sets python
    if [ -n "${KERN_PYTHON:-}" ]; then
        set -- "$KERN_PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11 python
    fi
    # Being on PATH proves nothing: version managers put stubs there. sys.executable is what such a
    # stub starts; which one it starts may depend on the folder, and this script changes folders.
    probe='import sys
fit = sys.version_info >= (3, 11)
print(sys.executable if fit else "%d.%d.%d" % tuple(sys.version_info[:3]))
sys.exit(0 if fit else 1)'
    too_old=
    for name; do
        if python=$("$name" -c "$probe" 2>/dev/null) && [ -n "$python" ]; then return; fi
        [ -z "$python" ] || too_old="$too_old, $name is $python"
    done
    [ -n "$too_old" ] || too_old=", tried $*"
    die "no Python 3.11 or newer (${too_old#, })" \
        "$(how_to_get python3), or https://www.python.org/downloads; or KERN_PYTHON=/path/to/python"
}

find_source() { # SCRIPT; sets `source`, as a person writes it, and `requirement`, as pip wants it
    source=${KERN_SOURCE:-}
    if [ -z "$source" ] && [ "$(basename -- "$1")" = install.sh ] && [ -f "$1" ]; then
        # Piped, $0 is sh; and an installed kern has no pyproject.toml beside its copy of this.
        clone=$(CDPATH='' cd -P -- "$(dirname -- "$1")" && pwd)
        if grep -q "^name *= *[\"']kern[\"']" "$clone/pyproject.toml" 2>/dev/null; then
            source=$clone
        fi
    fi
    if [ -z "$source" ]; then
        repo=${KERN_REPO:-0xjgv/kern}
        case $repo in
            */*/* | /* | */ | *[!A-Za-z0-9._/-]*) repo= ;;
            */*) ;;
            *) repo= ;;
        esac
        [ -n "$repo" ] || die "KERN_REPO is not owner/name: $KERN_REPO" \
            "KERN_REPO=0xjgv/kern, or give the whole URL as KERN_SOURCE"
        source=https://github.com/$repo/archive/refs/heads/main.tar.gz
    fi

    if [ -d "$source" ]; then
        source=$(CDPATH='' cd -P -- "$source" && pwd) || die "cannot enter $source" "ls -ld $source"
        [ -f "$source/pyproject.toml" ] || die "no pyproject.toml in $source" \
            "KERN_SOURCE=/path/to/a/clone/of/kern"
    elif [ -f "$source" ]; then
        case $source in /*) ;; *) source=$PWD/$source ;; esac
    fi
    case $source in
        /* | file://* | git+*) requirement=$source ;;
        http*://*.tar.gz | http*://*.tar.gz[?#]* | http*://*.tgz | http*://*.zip | \
            http*://*.zip[?#]* | http*://*.whl) requirement=$source ;;
        *://*) requirement=git+$source ;;
        *@*:*) requirement=git+ssh://${source%%:*}/${source#*:} ;; # git@host:owner/name
        *) requirement= ;;
    esac
    case $requirement in
        "" | /* | file://* | git+file://* | https://* | git+https://* | git+ssh://* | ssh://*) ;;
        *) die "not fetched without encryption: $source" "use https:// or ssh:// in KERN_SOURCE" ;;
    esac
    case $requirement in
        "") missing=$source ;;
        /*) [ -e "$requirement" ] && missing= || missing=$source ;;
        *) missing= ;;
    esac
    [ -z "$missing" ] || die "no such folder: $missing" \
        "KERN_SOURCE=/path/to/a/clone/of/kern, or a URL; without it $SITE is installed"
}

add_extras() { # to `requirement`; sets `extras`: those asked for now, or else with the kern in place
    extras=${KERN_EXTRAS-}
    if [ -z "${KERN_EXTRAS+given}" ] && [ -f "$data/current/extras" ]; then
        read -r extras <"$data/current/extras" || : # which says that there is no line's end
    fi
    case $extras in
        "") return ;;
        *[!a-z,]* | ,* | *,) die "KERN_EXTRAS is no list of names: $extras" "KERN_EXTRAS=semantic" ;;
    esac
    case $requirement in
        /*) requirement=${requirement}[$extras] ;;
        *) requirement="kern[$extras] @ $requirement" ;;
    esac
}

check_places() { # sets data, bin and new; makes the folders
    case ${HOME:-} in
        /*) ;;
        *) die "HOME is not set, so there is no place to install to" "HOME=/home/you, then again" ;;
    esac
    data=$HOME/.local/share/kern
    case ${XDG_DATA_HOME:-} in /*) data=$XDG_DATA_HOME/kern ;; esac # relative ones count as unset
    bin=$HOME/.local/bin

    if [ -e "$bin/kern" ] || [ -L "$bin/kern" ]; then
        case $(readlink "$bin/kern") in
            */kern/current/bin/kern) ;;
            *) die "$bin/kern is something else, so it is left alone" \
                "mv $bin/kern $bin/kern.old, then run this again" ;;
        esac
    fi
    for name in current prompts source; do
        [ -L "$data/$name" ] || [ ! -e "$data/$name" ] ||
            die "$data/$name is not kern's link" "move it away, then run this again"
    done

    # A new folder for each version: a virtual environment cannot be moved once it is made, and the
    # old one must work until the new one is known to.
    id=$(date +%Y%m%d-%H%M%S)-$$
    new=$data/versions/$id
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    for folder in "$data/versions" "$bin" "$new"; do
        if ! mkdir -p "$folder" || [ ! -w "$folder" ]; then
            die "cannot write to $folder" "make it writable, or set XDG_DATA_HOME or HOME"
        fi
    done
}

ticking() { # no silence for longer than a few seconds, however slow the network is
    stop_ticking
    (
        spent=0
        while sleep 3 >/dev/null 2>&1; do
            spent=$((spent + 3))
            say "  $1: $spent s"
        done
    ) &
    ticker=$!
}

stop_ticking() {
    # It may just have begun, and still have this shell's traps: then any other signal is lost.
    [ -z "$ticker" ] || kill -KILL "$ticker" 2>/dev/null
    [ -z "$ticker" ] || wait "$ticker" 2>/dev/null
    ticker=
}

clean_up() {
    trap '' INT TERM HUP
    stop_ticking
    # A signal may fall between the switch and the line that takes this trap back.
    [ "$(readlink "$data/current" 2>/dev/null)" != "versions/$id" ] || return 0
    cd / && rm -rf "$new"
    rmdir "$data/versions" "$data" 2>/dev/null
    [ ! -x "$data/current/bin/kern" ] || say "The installed kern is as it was." >&2
}

make_venv() { # [WITHOUT_UV]; sets `installer`: what puts packages into it, see install_with
    installer=uv
    [ -z "${1:-}" ] && have uv && uv venv --quiet --python "$python" "$new" >/dev/null 2>&1 && return
    rm -rf "$new"
    # To unpack a pip of its own takes seconds; since 22.3 another one's can serve.
    installer=pip
    "$python" -m pip --python "$python" --version >/dev/null 2>&1 &&
        "$python" -m venv --without-pip "$new" >/dev/null 2>&1 && return
    rm -rf "$new"
    installer=own
    words=$("$python" -m venv "$new" 2>&1) && return
    # Debian splits ensurepip off; these bring their own pip.
    rm -rf "$new"
    have virtualenv && virtualenv --quiet --python "$python" "$new" >/dev/null 2>&1 && return
    rm -rf "$new"
    "$python" -m virtualenv --quiet "$new" >/dev/null 2>&1 && return
    rm -rf "$new"
    say "$words" >&2
    case ${python##*/} in
        python3.*) package=${python##*/}-venv ;;
        *) package=python3-venv ;;
    esac
    die "$python cannot make a virtual environment in $new" \
        "apt install $package (Debian, Ubuntu), or install virtualenv or uv, then run this again"
}

install_with() { # INSTALLER; byte code is written when a module is first used
    case $1 in
        uv) # it would take what it built of an older state of the same folder
            uv pip install --quiet --refresh-package kern --python "$new/bin/python" "$requirement"
            return ;;
        pip) set -- "$python" -m pip --python "$new/bin/python" ;;
        *) set -- "$new/bin/python" -m pip ;;
    esac
    "$@" install --quiet --no-compile --disable-pip-version-check --no-input "$requirement"
}

install_package() {
    log=$new/install.log
    # A pipe has the status of its last command, so a file says how it ended.
    { install_with "$installer" 2>&1 || : >"$new/failed"; } | tee "$log" >&2
    [ -e "$new/failed" ] || return 0
    stop_ticking
    if [ "$installer" = uv ]; then # it reads neither pip's settings nor the system's certificates
        say "uv could not install it; pip tries"
        rm -rf "$new"
        make_venv without
        ticking "fetching kern and the libraries that it uses"
        install_package
        return
    fi
    # Without a network pip's last line says that no version of some package exists.
    trouble='failed to establish|connection (refused|broken|reset)|max retries|timed out'
    trouble=$trouble'|name resolution|could not resolve|connect to proxy|unreachable'
    if grep -Eqi "$trouble" "$log"; then
        die "pip could not reach the network while installing $source" \
            "check the connection (a proxy: export https_proxy=http://host:port), run this again"
    fi
    die "pip could not install $source; its own words are above" \
        "fix that and run this again, or install from elsewhere: KERN_SOURCE=folder or URL"
}

switch() { # by the new version's own Python: `mv` cannot replace a link to a folder portably
    "$new/bin/python" -I - "$data" "$id" "$bin/kern" "$source" "$extras" <<'PYTHON'
import contextlib
import fcntl
import os
import pathlib
import shutil
import sys
import time

import kern

data, version, command, source, extras = pathlib.Path(sys.argv[1]), *sys.argv[2:]
versions = data / "versions"
new = versions / version


def link(at: pathlib.Path, target: object) -> None:
    spare = at.with_name(f".{at.name}.{os.getpid()}")
    spare.unlink(missing_ok=True)
    spare.symlink_to(str(target))
    os.replace(spare, at)


def content(package: pathlib.Path | None) -> dict[str, bytes]:
    found = package.rglob("*") if package else ()
    return {
        str(file.relative_to(package)): file.read_bytes()
        for file in found
        if file.is_file() and file.suffix != ".pyc"
    }


def prune(keep: set[str]) -> None:
    for old in versions.iterdir():
        with contextlib.suppress(OSError):  # another install may be cleaning up after itself
            # Without a `source` it is being built, unless its install was killed long ago.
            building = not (old / "source").exists() and time.time() - old.stat().st_mtime < 86400
            if old.name not in keep and not building:
                shutil.rmtree(old)


try:
    prompts = pathlib.Path(kern.__file__).parent / "bundled" / "prompts"
    if not prompts.is_dir():
        sys.exit(f"no prompts in {prompts}")
    with (versions / ".lock").open("w") as lock:
        with contextlib.suppress(OSError):  # a file system without locks is no reason to give up
            fcntl.flock(lock, fcntl.LOCK_EX)
        current = data / "current"
        previous = os.path.basename(os.readlink(current)) if current.is_symlink() else ""
        old = next((versions / previous).glob("lib/python*/site-packages/kern"), None)
        had = versions / previous / "extras"
        alike = extras == (had.read_text() if had.is_file() else "")
        if previous and alike and content(old) == content(pathlib.Path(kern.__file__).parent):
            (new / "same").touch()
        (new / "extras").write_text(extras)
        (new / "source").touch(0o600)  # a URL may hold a token
        (new / "source").write_text(source + "\n")
        link(new / "prompts", os.path.relpath(prompts, new))
        link(current, f"versions/{version}")
        link(data / "prompts", "current/prompts")
        link(data / "source", "current/source")
        link(pathlib.Path(command), current / "bin" / "kern")
        # A run that began before the update still imports from the previous version.
        prune({version, previous, ".lock"})
except OSError as exc:
    sys.exit(str(exc))
PYTHON
}

closing_words() {
    have claude || warn "claude is not on PATH; runs need it (\`kern demo\` does not):" \
        "https://docs.claude.com/en/docs/claude-code/setup"
    have jq || warn "jq is not on PATH; it reads the stage files nicely: $(how_to_get jq)"
    case ":$PATH:" in
        *":$bin:"* | *":$bin/:"*)
            first=$(command -v kern) || first=
            [ "$first" = "$bin/kern" ] || [ "$first" = "$bin//kern" ] || [ -z "$first" ] ||
                warn "\`kern\` starts $first, which comes before $bin on PATH"
            ;;
        *)
            case ${SHELL##*/} in
                zsh) profile=.zshrc ;;
                bash) profile=.bashrc ;;
                *) profile=.profile ;;
            esac
            say "$bin is not on PATH. Type:"
            # shellcheck disable=SC2016  # the profile expands it
            if [ "${SHELL##*/}" = fish ]; then
                say "  fish_add_path ~/.local/bin"
            else
                say "  echo 'export PATH=\"\$HOME/.local/bin:\$PATH\"' >> ~/$profile"
                say "  export PATH=\"\$HOME/.local/bin:\$PATH\""
            fi
            ;;
    esac
    say "Next: kern demo, or kern init in a repository of yours."
}

main() {
    set -u
    if [ $# -gt 0 ]; then
        usage
        case $1 in -h | --help) exit 0 ;; *) exit 2 ;; esac
    fi
    # What these say is meant for another Python, or breaks pip in a virtual environment.
    unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX
    export PIP_USER=0
    ticker=
    SHELL=${SHELL:-} SITE=https://github.com/0xjgv/kern

    find_python
    have git || die "git is not on PATH" "$(how_to_get git)"
    find_source "$0"
    check_places
    add_extras
    cd "$data" || die "cannot enter $data" "ls -ld $data" # -m would import from a clone

    say "Installing kern${extras:+ with $extras} from $source (with $python)"
    ticking "making a virtual environment"
    make_venv
    ticking "fetching kern and the libraries that it uses"
    install_package
    stop_ticking
    if ! version=$("$new/bin/kern" --version 2>&1); then
        say "$version" >&2
        die "the new version does not run" "report it, with the lines above, at $SITE/issues"
    fi
    switch || die "the new version could not be put in place" "ls -la $data $bin; df $data"
    trap - EXIT # from here on another install may have switched again: this one is its spare
    if [ -e "$new/same" ]; then
        say "$version is up to date: $source has nothing newer"
        return
    fi
    say "$version is installed: $bin/kern"
    closing_words
}

{ main "$@"; }
