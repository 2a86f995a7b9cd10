"""Hostile surroundings: links and pipes for files, texts that instruct, control characters,
secrets, neighbours. What a repository or an agent brings along is data.
"""

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern import plain
from kern.git import refs, repository
from kern.model import LEARNINGS, SPEC
from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern, executable, patience
from tests.kit.terminal import on_terminal
from tests.words.test_plain import UNSAFE

NASTY = "\x1b[5mblink\x1b]0;owned\x07 \x9b2J bell\x07 \u202eflip\u061c \x08\x7f\U000e0041\udcff"
NAME = "x\x1b[5m\u202ey\x9b2J"  # what git and the disk take


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    with patience(300):
        yield


def replaced(place: Path, how: str, outside: Path) -> None:
    """Put something else where a file belongs."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    match how:
        case "pipe":
            os.mkfifo(place)
        case "link out":
            outside.mkdir(exist_ok=True)
            (outside / "theirs").write_text("- [ ] theirs\n")
            place.symlink_to(outside / "theirs")
        case "link to a device":
            place.symlink_to("/dev/zero")


# -------------------------------------------------------------------- files that are none


@pytest.mark.parametrize("how", ["pipe", "link out", "link to a device"])
def test_advice_that_is_no_file_of_the_project_is_not_handed_on(
    repo: Path, fake: Fake, inline: Inline, tmp_path: Path, how: str
) -> None:
    (repo / ".git" / "info" / "exclude").write_text("CLAUDE.md\n")
    replaced(repo / "CLAUDE.md", how, tmp_path / "outside")
    heard = inline(1)
    assert heard.code == 0, heard.err
    assert "<guidance>" not in fake.calls[0]["system"]
    assert ("CLAUDE.md is a link out of the repository" in heard.err) == (how != "pipe")


# -------------------------------------------------------------------- control characters

# What a terminal is sent on purpose: colours, the live line.
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]?[KAJ])|\r")


def harmless(sent: str) -> None:
    assert "\x1b[5m" not in sent
    assert "\x1b]" not in sent
    bad = UNSAFE.search(OWN.sub("", sent))
    assert not bad, repr(sent[max(0, bad.start() - 80) : bad.end() + 20]) if bad else ""
    assert "Traceback" not in sent


@pytest.fixture
def spoiled(repo: Path, git: Git, fake: Fake, tmp_path: Path) -> Path:
    """The project in a folder and on a branch with control characters in their names, and in all
    its texts.
    """
    text = f"- [ ] add {NASTY}\n- [ ] wait\n  > **After:** {NASTY}\n- [-] {NASTY}\n".encode(
        "utf-8", "surrogateescape"
    )
    (repo / SPEC).write_bytes(text)
    git("commit", "--quiet", "--all", f"--message={NASTY.replace(chr(0xDCFF), '')}")
    git("symbolic-ref", "HEAD", "refs/heads/br\u202ean\x9bch")
    git("update-ref", "HEAD", "main")
    place = tmp_path / NAME
    repo.rename(place)
    return place


@pytest.mark.unheld
def test_a_run_on_a_terminal_sends_it_nothing_of_others(
    spoiled: Path, git: Git, fake: Fake, tmp_path: Path
) -> None:
    (spoiled / SPEC).write_text("- [ ] add \x1b[5ma greeting\u202e\n- [ ] second\n")
    (spoiled / NAME).write_text("mine\n")
    git("add", "--all", cwd=spoiled)
    git("commit", "--quiet", "--message=mine", cwd=spoiled)
    hook = spoiled / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    shown = shlex.quote(NASTY.replace("\udcff", ""))
    hook.write_text(f"#!/bin/sh\nprintf '%s' {shown} $$ >&2\nexit 1\n")  # other words each time
    hook.chmod(0o755)
    denied = [{"tool_name": f"Bash{NASTY}", "tool_input": {"command": NASTY}}]
    asked = {"permission_denials": denied}
    work = [f"echo 1 > ./{shlex.quote(NAME + 'new')}", f"echo 2 >> {shlex.quote(NAME)}"]
    commit = f"git commit -q --no-verify --allow-empty -m {shown}"
    fake.script(
        research=[
            {"stderr": NASTY.replace("\udcff", ""), "run": work[:1], "exit": 1},
            {"result": f"{NASTY}\n- Files: a.txt\n\nREADY", "fields": asked, "run": work[:1]},
        ],
        implement=[
            {"run": [*work, commit], "result": f"{NASTY}\n\nFAILED: {NASTY}", "fields": asked},
            {"run": ["git config core.x y", *work, "echo 4 > m"], "result": f"{NASTY}\n\nSUCCESS"},
            {"run": ["echo 3 > n"], "result": f"{NASTY}\n\nSUCCESS"},
        ],
        commit=[{"result": NASTY, "fields": asked}],
    )

    code, sent = on_terminal("-v", "2", "0", cwd=spoiled)
    assert fake.stages.count("research") >= 2, sent
    harmless(sent)
    for words in (
        "blink",
        "refused: Bash",
        "changed while kern worked in your tree",
        "hook refused",
    ):
        assert words in sent
    assert "the commit was undone" in sent
    text = (spoiled / SPEC).read_text()
    assert "**Attempt 3:**" in text
    assert not UNSAFE.search(text.replace("\x1b[5ma greeting\u202e", ""))
    assert code == 1


def test_names_are_utf_8_in_a_plain_locale(
    repo: Path, fake: Fake, git: Git, kern: Kern, tmp_path: Path
) -> None:
    git("switch", "--quiet", "-c", "brânch")
    top = repo.rename(tmp_path / "prüfung")
    plain_locale = {"LC_ALL": "POSIX", "KERN_DIR": str(tmp_path / "öut")}
    fake.script(implement=[{"run": ["echo ja > 'wörk.txt'"], "result": "SUCCESS"}])
    for argv in ("1 0", "show 1", "report --html"):
        ran = kern(*argv.split(), env=plain_locale, cwd=top, started=True)
        assert (ran.code, "Traceback" in ran.err) == (0, False), ran.err
    names = git("-c", "core.quotePath=off", "show", "--name-only", "--format=", cwd=top)
    assert set(names.splitlines()) == {"SPEC.md", "wörk.txt"}
    assert (tmp_path / "öut" / "prüfung" / "brânch" / "last").exists()


def test_a_locale_that_takes_names_for_others_is_refused(repo: Path, kern: Kern) -> None:
    """Taken for another encoding they would be the names of other files."""
    ascii_names = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = kern("1", "0", env=ascii_names, started=True)
    assert ran.code == 2 and "would take them for ascii" in ran.err
    assert "PYTHONUTF8=1 kern" in ran.err


# -------------------------------------------------------------------- secrets

SECRETS = {"ANTHROPIC_API_KEY": "sk-secret-123", "GITHUB_TOKEN": "ghp-secret-456"}
REMOTE = "https://user:remote-secret-789@example.org/x.git"
VALUES = [value.encode() for value in (*SECRETS.values(), "remote-secret-789")]


def kept_by_git(root: Path, revisions: list[str]) -> bytes:
    """Every object that is reached from there, whole: what a push of it would send."""

    def git(*argv: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            ["git", *argv], cwd=root, input=given, capture_output=True, check=True
        )
        return done.stdout

    names = git("rev-list", "--objects", "--no-object-names", *revisions)
    return git("cat-file", "--batch", given=names)


@pytest.fixture
def secretive(monkeypatch: pytest.MonkeyPatch, git: Git, repo: Path) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_TRACE2_ENV_VARS", ",".join(SECRETS))
    git("remote", "add", "origin", REMOTE)


def test_kern_writes_no_secret_of_its_surroundings_anywhere(
    secretive: None, repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    """What an agent prints is its own: the transcript and the result hold it as it came."""
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    executable(hook, "#!/bin/sh\nexit 0\n")
    fails = {"run": ["echo half > half", "git push -q origin main"], "result": "FAILED: no"}
    fake.script(
        implement=[
            fails,
            {"run": ["git config user.x y", "git switch -q -c other"], "result": "FAILED: no"},
            {"run": ["echo 1 > n"], "result": "## Learned\nUse x late.\n\nSUCCESS"},
        ],
        commit=[{"run": ["git commit -q --allow-empty -m x"], "result": "x"}],
    )

    heard = inline(1)
    assert heard.code == 0, heard.err
    kept = git("for-each-ref", "--format=%(refname)", "refs/kern").split()
    assert len(kept) >= 2
    places = [tmp_path / "kern", repo / ".git" / "kern", repo / ".git" / "logs"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert any("history" in path.parts for path in files)
    # A shadow of git's folder has the address as git's own has it.
    assert not [path for path in files if "shadow" in path.parts]
    written = {str(path): path.read_bytes() for path in files}
    written |= {"refs": kept_by_git(repo, [*kept, "HEAD"]), "terminal": heard.err.encode()}
    written |= {name: (repo / name).read_bytes() for name in (SPEC, LEARNINGS)}
    for place, data in written.items():
        assert not [value for value in VALUES if value in data], place


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        *((name, "hunter2", ["hunter2"]) for name in ("DB_PASSWORD", "apiKey", "MYSQL_PWD")),
        *((name, "hunter2", ["hunter2"]) for name in ("MY_PASSWD", "AWS_CREDENTIALS", "TOKEN_2")),
        ("DB_PASSWORD", "short", []),
        ("DEPLOY_KEY", "-----BEGIN\n  abcdefgh\nend", ["abcdefgh", "-----BEGIN"]),
        *((name, "hunter2", []) for name in ("PWD", "KEYBOARD", "TOKENIZERS", "PASSWORD_FILE")),
        *((name, "hunter2", []) for name in ("GIT_CONFIG_KEY_0", "SSH_KEY_PATH", "PATH")),
    ],
)
def test_the_values_of_what_is_named_like_a_secret_are_hidden(
    name: str, value: str, hidden: list[str]
) -> None:
    secrets = plain.secrets({name: value, "EDITOR": "vi"})
    said = f"before {value} after"
    told = plain.masked(said, secrets)
    assert (told != said) == bool(hidden)
    assert not [one for one in hidden if one in told]
    assert plain.masked(f"<{hidden[0] if hidden else ''}>", secrets) == f"<{'***' * bool(hidden)}>"


# -------------------------------------------------------------------- neighbours


def test_what_is_kept_in_the_same_moment_is_kept_apart(repo: Path, git: Git) -> None:
    """The attempts of one task in two worktrees of a repository."""
    head = git("rev-parse", "HEAD")
    trees = []
    for number in range(6):
        (repo / "n").write_text(f"{number}\n")
        git("add", "n")
        trees.append(git("write-tree"))
    start = threading.Barrier(6)

    def keep(tree: str) -> str:
        own = repository.open_at(repo)
        start.wait(PATIENCE_S)
        return refs.keep(own, "task-123456", "1", tree, "kept\n", head)

    with ThreadPoolExecutor(6) as threads:
        kept = list(threads.map(keep, trees))
    assert len(set(kept)) == 6
    assert [git("rev-parse", f"refs/{ref}^{{tree}}") for ref in kept] == trees
