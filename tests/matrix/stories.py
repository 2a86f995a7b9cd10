"""What can happen to one task: a script for the agent, and how to tell that the story is over."""

from dataclasses import dataclass
from typing import Any

from tests.kit.frameworks import HOOKS

Step = dict[str, Any]

TASK = "- [ ] add a greeting\n"
READY: Step = {"result": "- Files: a.txt:1-1\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
WORK = ["sed -i s/seven/SEVEN/ a.txt", "echo work >> work.txt"]
DONE = "Wrote it.\n\nSUCCESS"
WORKS = {"run": WORK, "result": DONE}
OTHER = {"run": ["rm -f work.txt", "echo other >> other.txt"], "result": DONE}
KNOWN = "## Greetings\n\nNobody greets twice.\n"  # what it learned before
USES_AND_LEARNS = {"run": WORK, "result": "## Learned\nGreet late.\n\nUsed: L1\n\nSUCCESS"}
MISUSES = {
    "run": [*WORK, "echo KEY=theirs > .env"],
    "result": "Used: L1\n\nFAILED: it does not link",
}
LEARNS = {"run": WORK, "result": "Wrote it.\n\n## Learned\nGreet late.\n\nSUCCESS"}
FAILS = {"run": WORK, "result": "FAILED: it does not link"}
# Each leaves another tree: the same one twice would be no progress.
FAIL_AGAIN = [{**FAILS, "run": [*WORK, f"echo {n} > try.txt"]} for n in range(3)]
BREAKS = {"run": ["echo broken >> work.txt"], "result": DONE}
MENDS = {"run": ["rm -f broken.txt", "test -e work.txt && touch a"], "result": DONE}
CHECKS = "[gates]\ncheck = 'cat work.txt 2>/dev/null; ! grep -qs broken work.txt'\n"
SPLITS = {"result": "## Subtasks\n- [ ] one half\n- [ ] other half\n\nDECOMPOSED"}
COMMITS: Step = {"result": "do the task"}
COMMITS_ITSELF = {
    "run": ["env -u GIT_INDEX_FILE git commit -q --allow-empty -m 'sweep up'"],
    "result": "do the task",
}
REJECTS = {"result": "REJECT: it holds a password"}
THERE = {"result": "NO_TASK: it is there already"}
NEXT = {"result": "NO_TASK: the next one"}  # ends a story in which no commit does
TRIES = "- [ ] Experiment: add a greeting\n"
TEACHES = {
    "run": WORK,
    "result": "Wrote it.\n\n## Learned\nNo one greets.\n\nFAILED: nobody saw it",
}
REFUSES_ALL = "#!/bin/sh\nexit 1\n"
ASKS = {"run": WORK, "result": "Began.\n\nNEEDS_ANSWER: early or late?"}
ASKS_FIRST: Step = {"result": "- Files: a.txt:1-1\n\nNEEDS_ANSWER: early or late?"}
REFUSES = "#!/bin/sh\n! git diff --cached --name-only | grep -q work.txt\n"


@dataclass(frozen=True)
class Story:
    """One task's walk. `kern 1 0` is run until SPEC.md holds `ends`; the first run is disturbed."""

    agent: dict[str, list[Step]]
    asks: str = "research implement commit"  # whom, when nothing happens
    commits: str = "do the task"
    ends: str = "- [x] add a greeting"
    spec: str = TASK
    hook: str = ""  # the repository's pre-commit
    framework: str = ""  # whose hook it is instead
    hooked: str = ""  # the call in the midst of which, in that hook, it happens as well
    settings: str = ""  # its kern.toml
    finished: tuple[str, ...] = ()  # tasks that workers of an earlier run have finished
    learnings: str = ""  # its LEARNINGS.md
    own: tuple[str, ...] = ()  # the steps that no earlier story has

    def steps(self, stage: str) -> list[Step]:
        return self.agent.get(stage) or [{"research": READY, "commit": COMMITS}[stage]]


STORIES = {
    "learns": Story({"implement": [USES_AND_LEARNS]}, learnings=KNOWN),
    "fails once": Story(
        {"implement": [MISUSES, WORKS]},
        "research implement implement commit",
        learnings=KNOWN,
        own=("BOOK",),
    ),
    "succeeds": Story({"implement": [WORKS]}),
    "decomposed": Story(
        {"research": [READY, READY, NEXT], "implement": [*FAIL_AGAIN, SPLITS]},
        "research implement implement research implement implement research",
        commits="",
        ends="**Skipped:** the next one",
        own=("DECOMPOSE", "RELEASE"),
    ),
    "subtask skipped": Story(
        {"research": [READY, READY, NEXT], "implement": [*FAIL_AGAIN]},
        "research implement implement research implement research",
        commits="",
        ends="**Skipped:** the next one",
        spec="- [ ] all\n  - [ ] add a greeting\n  - [ ] the next\n",
        own=("SKIP",),
    ),
    "no task": Story(
        {"research": [THERE, NEXT]},
        "research research",
        commits="",
        ends="**Skipped:** the next one",
        spec=f"{TASK}- [ ] the next\n",
        own=("SKIP_UNFIT",),
    ),
    "asks": Story(
        {"research": [READY, NEXT], "implement": [ASKS]},
        "research implement research",
        commits="",
        ends="**Skipped:** the next one",
        spec=f"{TASK}- [ ] the next\n",
        own=("ASK",),
    ),
    "asks first": Story(
        {"research": [ASKS_FIRST, NEXT]},
        "research research",
        commits="",
        ends="**Skipped:** the next one",
        spec=f"{TASK}- [ ] the next\n",
        own=("ASK_FIRST",),
    ),
    "its agent commits": Story(
        {"implement": [WORKS], "commit": [COMMITS_ITSELF]}, own=("COMMIT", "REPROVE")
    ),
    "rejected": Story(
        {"implement": [WORKS, OTHER], "commit": [REJECTS, COMMITS]},
        "research implement commit implement commit",
        own=("COMMIT", "REJECT"),
    ),
    "gate": Story(
        {"implement": [BREAKS, OTHER]},
        "research implement implement commit",
        settings=CHECKS,
        own=("PROVE",),
    ),
    "mends": Story(
        {"implement": [{"run": [*WORK, "touch broken.txt"], "result": DONE}, MENDS]},
        "research implement implement commit",
        settings="[gates]\ncheck = 'test ! -e broken.txt'\n",
    ),
    "no progress": Story(
        {"research": [READY, NEXT], "implement": [FAILS, FAILS, SPLITS]},
        "research implement implement implement research",
        commits="",
        ends="**Skipped:** the next one",
    ),
    "hook refuses": Story(
        {"implement": [WORKS, OTHER]},
        "research implement commit implement commit",
        hook=REFUSES,
        own=("COMMIT", "BOOK"),
    ),
    "experiment": Story(
        {"implement": [WORKS]}, ends="- [x] Experiment: add a greeting", spec=TRIES
    ),
    "experiment fails": Story(
        {"implement": [{**WORKS, "result": "I am not sure"}, TEACHES]},
        "research implement implement",
        commits="Conclude: Experiment: add a greeting",
        ends="- [x] Experiment: add a greeting",
        spec=TRIES,
        own=("CONCLUDE", "FINISH"),
    ),
    "experiment refused": Story(
        {"implement": [TEACHES]},
        "research implement",
        commits="",
        ends="**Blocked:**",
        spec=TRIES,
        hook=REFUSES_ALL,
        own=("CONCLUDE",),
    ),
    "pre-commit": Story({"implement": [WORKS]}, framework="pre-commit", hooked="pre-commit hook"),
    "lint-staged": Story({"implement": [WORKS]}, framework="lint-staged", hooked="pre-commit hook"),
}
# One lands, the other collides with it and goes back.
STORIES["lands"] = Story(
    {"research": [THERE, NEXT]},
    "research research",
    commits="Do it",
    ends="**Skipped:** the next one",
    spec=f"{TASK}- [ ] the next\n- [ ] the last\n",
    finished=("add a greeting", "the next"),
    own=("START",),
)
MAIN = ("learns", "fails once")


def playable() -> list[str]:
    """Those whose hook framework is installed, where they need one."""
    return [name for name, story in STORIES.items() if HOOKS or not story.framework]
