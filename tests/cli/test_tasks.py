"""`kern add`, `edit`, `retry`, as processes in real repositories, beside runs too."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Kern
from tests.kit.stable import Ran

Background = Callable[..., "subprocess.Popen[str]"]
LIST = "# Mine\r\n\r\n- [ ] first\r\n- [x] second\r\n  - [x] part\r\n\r\nprose \udcff"


def write(repo: Path, text: str) -> None:
    (repo / "SPEC.md").write_bytes(text.encode("utf-8", "surrogateescape"))


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_bytes().decode("utf-8", "surrogateescape")


def edited(kern: Kern, script: str) -> Ran:
    """With an editor that runs the script; the copy is $1."""
    return kern("edit", env={"VISUAL": "", "EDITOR": f"sh -c '{script}' sh"})


def test_what_a_person_changes_in_the_copy_is_applied_and_shown(repo: Path, kern: Kern) -> None:
    write(repo, LIST)
    ran = edited(kern, 'printf "%s\\n" "- [x] first" "  > **Held:** no" > "$1"')
    assert (ran.code, ran.err) == (0, "")
    assert "-- [ ] first\n" in ran.out.replace("\r", "") and "+  > **Held:** no" in ran.out
    assert spec(repo) == "- [x] first\n  > **Held:** no\n"
    assert edited(kern, "true").out == "SPEC.md is unchanged\n"
    assert not list((repo / ".git" / "kern").glob("SPEC*"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "ended with 3: SPEC.md is unchanged"),
        ('echo nothing > "$1"', "not taken: it is no text, or no task is left in it"),
        ('echo "\\`\\`\\`" >> "$1"', "code fence opened here is never closed"),
        ('printf "\\000" >> "$1"', "not taken: it is no text, or no task is left in it"),
    ],
)
def test_an_editor_that_fails_or_leaves_garbage_changes_nothing(
    repo: Path, kern: Kern, script: str, said: str
) -> None:
    before = spec(repo)
    ran = edited(kern, script)
    assert (ran.code, ran.out, spec(repo)) == (2, "", before)
    assert said in ran.err and "SPEC.edited.md" in ran.err
    assert (repo / ".git" / "kern" / "SPEC.edited.md").exists()


def test_many_at_once_lose_nothing(repo: Path, background: Background) -> None:
    for process in [background("add", f"task {number}") for number in range(4)]:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, ""), out
    lines = spec(repo).splitlines()
    assert sorted(lines) == ["- [ ] add a greeting", *(f"- [ ] task {n}" for n in range(4))]
