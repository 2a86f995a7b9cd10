"""A finished task that cannot land is done anew, beginning with what it had."""

import json
import re
from pathlib import Path

from kern.fleet import documents, land
from kern.fleet.work import SentBack
from kern.spec.parse import parse
from tests.conftest import Fake, Git, Kern
from tests.fleet.landings import Yard

BOTH = {"run": ["sed -i s/four/$KERN_WORKER/ a.txt", "sleep 1"], "result": "Did.\n\nSUCCESS"}
MENDS = {
    "run": ["cp a.txt $FAKE_CLAUDE/seen", "grep -v '^[<=>|]' a.txt > b", "mv b a.txt"],
    "result": "Both stand there.\n\nSUCCESS",
}


def test_what_collided_is_mended_on_top_of_what_it_collided_with(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("commit", "-qam", "tasks")
    fake.script(implement=[BOTH, BOTH, MENDS])
    ran = kern("-j", "2")
    assert ran.code == 0, ran.said
    lines = (repo / "a.txt").read_text().splitlines()
    assert sorted(lines[3:5]) == ["1", "2"], "both intents"
    seen = (fake.folder / "seen").read_text()
    assert "<<<<<<< branch\n" in seen and ">>>>>>> task\n" in seen
    assert fake.stages.count("implement") == 3 and fake.stages.count("research") == 2
    asked = fake.calls[-2]["prompt"] if "prompt" in fake.calls[-2] else json.dumps(fake.calls[-2])
    assert "it collides with" in asked and "leave no such marker" in asked
    text = (repo / "SPEC.md").read_text()
    assert text.count("- [x]") == 2 and text.count("**Attempt 1:** it collides with") == 1
    assert git("status", "--porcelain") == ""
    assert git("for-each-ref", "refs/heads/kern", "refs/kern/landed") == ""


def test_attempts_of_the_worker_count_and_come_along(repo: Path) -> None:
    yard = Yard(repo)
    yard.spec("one", "two")
    one, two = (yard.work(name, f"sed -i s/four/{name}/ a.txt") for name in ("one", "two"))
    failed = two.spec.replace("two\n", "two\n  > **Attempt 1:** no (kept: kern/attempts/x/1)\n")
    two = type(two)(two.key, two.branch, two.base, two.commit, 2, failed)
    site = yard.site()
    ends = [land.land(site, each, lambda *_: (None, "")) for each in (one, two)]
    assert isinstance(ends[1], SentBack)
    task = documents.found(parse((repo / "SPEC.md").read_text()), two.key)
    assert task and [note.number for note in task.notes] == [1, 2]
    (text,), kept = land.sent_back(site, task)
    assert (repo / ".git/refs/kern").is_dir() and site.repo.tree(kept) == json.loads(text)["kern"][
        "tree"
    ]
    told = json.loads(text)
    assert told["kern"]["attempt"] == 2 and told["result"] == "Do it: two"
    older = parse((repo / "SPEC.md").read_text().rpartition("  > **Attempt 2")[0]).tasks[1]
    assert land.sent_back(site, older) == ((), ""), "an attempt of its own"


def test_a_task_that_collided_was_done_and_is_open_again_begins_anew(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    (repo / "SPEC.md").write_text("- [ ] one\n- [ ] two\n")
    git("commit", "-qam", "tasks")
    fake.script(implement=[BOTH, BOTH, MENDS, {"run": ["date > new"], "result": "SUCCESS"}])
    ran = kern("-j", "2", "2")
    assert ran.code == 0, ran.said  # a task that went back is still the same one of the two
    assert (repo / "SPEC.md").read_text().count("- [x]") == 2
    assert re.search(r"attempt 1 failed: it collides with .*  \((one|two)\)\n", ran.out)
    assert re.search(r"attempt 1 failed: it collides with .*  \((one|two)\)\n", kern("log").out)
    text = (repo / "SPEC.md").read_text()
    number = 1 + (text.index("Attempt 1") > text.index("] two"))
    task = ("one", "two")[number - 1]
    (repo / "SPEC.md").write_text(text.replace(f"[x] {task}", f"[ ] {task}"))
    git("commit", "-qam", "open again")
    ran = kern("-j", "1", "--task", str(number))
    assert ran.code == 0, ran.said
    assert (repo / "new").exists() and fake.stages.count("implement") == 4
    assert git("log", "-1", "--format=%s") == "do the task"
