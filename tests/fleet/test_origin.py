"""What leads from a folder that worktrees get back to the person's tree, and what does not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.fleet import origin

SITE = "lib/python3.11/site-packages"
Make = Callable[[Path, Path], None]  # of a folder, and the tree around it


def text(name: str, content: str) -> Make:
    """`{tree}` in it stands for the tree."""

    def made(folder: Path, tree: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content.replace("{tree}", str(tree)))

    return made


def link(name: str, target: str) -> Make:
    def made(folder: Path, tree: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target.replace("{tree}", str(tree)))

    return made


def both(*makes: Make) -> Make:
    def made(folder: Path, tree: Path) -> None:
        for make in makes:
            make(folder, tree)

    return made


def installed(url: str, **more: object) -> Make:
    return text(f"{SITE}/p-0.dist-info/direct_url.json", json.dumps({"url": url, **more}))


PATH_FILE = f"{SITE}/__editable__.p-0.pth"
FINDER = "import __editable___p_0_finder; __editable___p_0_finder.install()\n"
MAPPING = "MAPPING: dict[str, str] = {'p': '{tree}/src/p'}\n"


@pytest.mark.parametrize(
    ("make", "copied", "linked"),
    [
        (text(PATH_FILE, "{tree}\n"), PATH_FILE, PATH_FILE),
        (text(PATH_FILE, "# of p\n{tree}/src\n"), PATH_FILE, PATH_FILE),
        (text(f"{SITE}/p.egg-link", "{tree}/src\n../\n"), f"{SITE}/p.egg-link", ...),
        (
            both(text(PATH_FILE, FINDER), text(f"{SITE}/__editable___p_0_finder.py", MAPPING)),
            f"{SITE}/__editable___p_0_finder.py",
            ...,
        ),
        (installed("file://{tree}", dir_info={}), f"{SITE}/p-0.dist-info/direct_url.json", ...),
        (text("CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL={tree}\n"), "CMakeCache.txt", ...),
        (link("@x/a", "{tree}/packages/a"), "@x/a", ...),
        (link("@x/a", "../../packages/a"), "", "@x/a"),
        (link("deep/er/node_modules/a", "{tree}/packages/a"), "deep/er/node_modules/a", ...),
        # What leads to itself, to another dependency, to a neighbour or to nothing of the tree.
        (text(PATH_FILE, "{tree}2/src\n{tree}/.deps/lib\nlib2\nimport os, sys\n"), "", ""),
        (text(f"{SITE}/p/x.pth", "{tree}/src\n"), "", ""),  # none that Python reads
        (installed("file://{tree}/p.whl", archive_info={}), "", ""),
        (installed("https://example.com/p.git", vcs_info={}), "", ""),
        (text(f"{SITE}/p-0.dist-info/direct_url.json", "no JSON"), "", ""),
        (
            both(link("lib64", "lib"), text("lib/x", ""), link("bin/python", "/usr/bin/python3")),
            "",
            "",
        ),
        (both(link("a", "{tree}/.deps/b"), link(".bin/a", "../b/cli.js")), "", ""),
        (link("circle", "circle"), "", ""),
    ],
)
def test_what_leads_back(tmp_path: Path, make: Make, copied: str, linked: object) -> None:
    tree = tmp_path / "my trée"
    folder = tree / ".deps"
    folder.mkdir(parents=True)
    make(folder, tree)
    found = origin.of(tree, [folder])
    assert found.traced(folder, linked=False) == copied
    assert found.traced(folder, linked=True) == (copied if linked is ... else linked)


def test_a_folder_that_is_a_link_is_looked_at_where_it_lies(tmp_path: Path) -> None:
    tree, away = tmp_path / "tree", tmp_path / "venvs/p"
    (tree / "src").mkdir(parents=True)
    text(PATH_FILE, "{tree}/src\n")(away, tree)
    (tree / ".venv").symlink_to(away)
    (tree / "code").symlink_to("src")
    found = origin.of(tree, [tree / ".venv", tree / "code"])
    assert found.traced(tree / ".venv", linked=False) == PATH_FILE
    assert found.traced(tree / "code", linked=True) == "src"
    assert found.traced(tree / "code", linked=False) == ""  # the copy leads to the worktree's


def test_a_large_folder_is_looked_at_in_time(tmp_path: Path) -> None:
    """Its files are not read."""
    deps = tmp_path / "node_modules"
    for number in range(100):
        (deps / f"p{number}").mkdir(parents=True)
        (deps / f"p{number}/secret").touch(mode=0)
    (deps / "gone").mkdir(mode=0)
    assert origin.of(tmp_path, [deps]).traced(deps, linked=True) == ""
    (deps / "p99/me").symlink_to(tmp_path)
    assert origin.of(tmp_path, [deps]).traced(deps, linked=True) == "p99/me"
