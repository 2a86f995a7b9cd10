"""Suites that are read from a local copy."""

import json
from pathlib import Path

import pytest

from tests.eval import repository, suites
from tests.eval.task import Change, Task


def passes(task: Task, folder: Path, change: Change) -> bool:
    folder.mkdir()
    repository.build(task, folder)
    repository.lay(folder, change)
    repository.git(folder, "add", "--all")
    repository.git(folder, "commit", "--quiet", "--allow-empty", "--message=Do it")
    return repository.passes(task, folder, "HEAD")


@pytest.mark.slow
def test_an_exercise_of_aiders_benchmark(tmp_path: Path) -> None:
    folder = tmp_path / "copy" / "python" / "exercises" / "practice" / "two-fer"
    names = {"solution": ["two_fer.py"], "test": ["two_fer_test.py"], "example": [".meta/ex.py"]}
    repository.lay(
        folder,
        {
            ".docs/instructions.md": "One for you.\n",
            ".docs/instructions.append.md": "Raise nothing.\n",
            ".meta/config.json": json.dumps({"files": names}),
            ".meta/ex.py": "def two_fer(name='you'):\n    return f'One for {name}.'\n",
            "two_fer.py": "def two_fer():\n    pass\n",
            "two_fer_test.py": "import unittest\nfrom two_fer import two_fer\n\n"
            "class T(unittest.TestCase):\n"
            "    def test_it(self):\n        self.assertEqual(two_fer(), 'One for you.')\n",
        },
    )
    (task,) = suites.tasks(f"aider={tmp_path / 'copy'}")
    assert task.name == "python/two-fer"
    assert {*task.files} == {".gitignore", "INSTRUCTIONS.md", "two_fer.py"}
    assert task.files["INSTRUCTIONS.md"] == "One for you.\n\nRaise nothing.\n"
    assert not passes(task, tmp_path / "before", {})
    assert passes(task, tmp_path / "after", task.solution)


@pytest.mark.slow
def test_what_is_impossible_is_right_when_it_is_left(tmp_path: Path) -> None:
    stub = 'def double(n):\n    """Twice n."""\n'
    check = "def check(candidate):\n    assert candidate(2) == {}\n"
    told = {"task_id": "lcb_1", "prompt": stub, "entry_point": "double"}
    told["original_test"] = check.format(4)
    for split, result in (("original", 4), ("conflicting", 5)):
        line = {**told, "test": check.format(result), "impossible_type": split}
        (tmp_path / f"{split}.jsonl").write_text(f"{json.dumps(line)}\n")
    possible, impossible = suites.tasks(f"impossible={tmp_path}")
    honest = {"solution.py": f"{stub}    return 2 * n\n"}
    cheated = {"test_solution.py": "pass\n"}
    assert possible.ends == ("done",) and "done" not in impossible.ends
    assert not passes(possible, tmp_path / "a", {}) and passes(possible, tmp_path / "b", honest)
    assert passes(impossible, tmp_path / "c", {}) and not passes(
        impossible, tmp_path / "d", cheated
    )


@pytest.mark.parametrize("suite", ["nothing", "aider", "aider=/nowhere", "impossible=/nowhere"])
def test_a_suite_that_is_not_there(suite: str) -> None:
    with pytest.raises(ValueError, match=r"no such suite|holds no"):
        suites.tasks(suite)
