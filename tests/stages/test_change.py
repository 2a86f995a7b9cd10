"""What a judge is shown of a change: all files, and of none so much that others are unseen; and
what it does to tests.
"""

import tracemalloc
from pathlib import Path

from kern.git.repository import open_at
from kern.model import Aide
from kern.spec.parse import parse
from kern.stages import briefs, change, prompts
from kern.stages.change import HUGE
from kern.stages.prompts import BUDGET, CHARS_PER_TOKEN
from tests.conftest import Git, commit_all

ROOM = BUDGET[Aide.JUDGE] * CHARS_PER_TOKEN
FORM = prompts.read(Aide.JUDGE, Path("prompts/judge.md").read_text(), "prompts/judge.md")


def test_what_a_program_wrote_is_known_by_its_name() -> None:
    for path in ("web/yarn.lock", "go.sum", "a/vendor/x.go", "app.min.js", "t/__snapshots__/a"):
        assert change.generated(path), path
    for path in ("a.py", "lock.py", "map.go", "distance.c", "vendor.py", "package.json"):
        assert not change.generated(path), path


def seen(root: Path, git: Git, *, before: str = "HEAD") -> str:
    """The change from a commit to the working tree, as a judge reads it, whole."""
    git("add", "--all")
    new = git("write-tree")
    old = git("rev-parse", f"{before}^{{tree}}")
    task = parse("- [ ] do it\n").tasks[0]
    prompt = briefs.judged(open_at(root), FORM, task, "it is clear", old, new)
    return prompt.text


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_judge_sees_the_sources_behind_a_lock_file(repo: Path, git: Git) -> None:
    write(repo, {"old.py": "".join(f"{number}\n" for number in range(200))})
    commit_all(git, "more")
    (repo / "old.py").rename(repo / "new.py")
    with (repo / "new.py").open("a") as file:
        file.write("the end\n")
    lock = "".join(f'"{number}": "x",\n' for number in range(5000))
    write(repo, {"package-lock.json": lock, "zoo.py": "print(1)\n"})
    # What the task itself says of files hides none.
    write(repo, {".gitattributes": "*.py linguist-generated -diff\n"})
    (repo / "image").write_bytes(bytes(range(256)) * 40)

    text = seen(repo, git)

    assert "+print(1)" in text
    assert "+the end" in text
    assert "binary new.py\n" in text
    assert "+5000 -0 package-lock.json (generated)" in text
    assert "binary image\n" in text
    assert "image\n[binary]" in text
    assert text.index("+print(1)") < text.index('+"0": "x"')
    assert "[cut here for length: read the file for the rest]" in text


def test_of_a_huge_file_no_patch_is_made(repo: Path, git: Git) -> None:
    (repo / "tests").mkdir()
    write(repo, {"tests/test_a.py": "assert 1\n"})
    (repo / "tests/data").write_bytes(b"\0assert 1\n" * (HUGE // 10 + 1))
    git("add", "--all")
    old = git("write-tree")
    write(repo, {"tests/test_a.py": "", "tests/data": ""})
    git("add", "--all")
    found, new = open_at(repo), git("write-tree")
    tracemalloc.start()
    assert change.weakened(found, old, new) == ["tests/data (binary)", "tests/test_a.py (+0 -1)"]
    assert "[not shown, read them: tests/data]" in change.shown(found, old, new, ROOM)
    assert tracemalloc.get_traced_memory()[1] < HUGE
    tracemalloc.stop()
