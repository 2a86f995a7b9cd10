"""What each stage is told: its prompt, composed of SPEC.md, LEARNINGS.md, what git knows, and the
project's own advice to agents, the text of CLAUDE.md and AGENTS.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kern import plain
from kern.agents import protocol
from kern.checks.result import Red
from kern.errors import KernError
from kern.git import history
from kern.git.repository import Repo
from kern.memory import entries, recall
from kern.model import LEARNINGS, Key, Stage, Tier
from kern.obeyed import COMMON, MAIN, OURS
from kern.spec import imports, notes
from kern.spec.file import Documents, real
from kern.spec.notes import Checks
from kern.spec.parse import Kind, Spec, Task, is_experiment
from kern.stages import change
from kern.stages.prompts import BUDGET, CHARS_PER_TOKEN, Prompt, Template, compose
from kern.system import workspace

RECENT_COMMITS = 10
_MESSAGES = 5  # whole ones, to write another like them
_MOST_OF_A_NEIGHBOUR = 200  # characters: with the goal, six lines of about 300 tokens in all
_LONGEST_MESSAGE = 240  # characters
_MOST_FAULTS = 5  # of LEARNINGS.md, said at a time
_TRAILER = "Kern-Task: "
GOAL = r"(?m)^\ufeff?> \*\*Goal:\*\*(.*(?:\n>(?! \*\*Goal:\*\*).*)*)(?:\n|\Z)"
_MOST_GUIDANCE = 40_000  # characters of all of it
NOTHING: Mapping[str, Sequence[str]] = {}


class Guidance(NamedTuple):
    text: str = ""
    notices: tuple[str, ...] = ()  # what a person should know was left out, and why


def recent(repo: Repo) -> list[str]:
    return [f"{one.sha[:7]} {one.subject}" for one in history.recent(repo, RECENT_COMMITS)]


def goals(text: str) -> list[str]:
    """What a SPEC.md wants to reach, each as it was given."""
    lines = re.findall(GOAL, text.replace("\r", ""))
    return [re.sub(r"\n> ?", "\n", quoted).strip() for quoted in lines]


def brief(
    repo: Repo,
    documents: Documents,
    form: Template,
    task: Task,
    checks: Checks | None = None,
    state: Sequence[str] = (),
    due: Tier = Tier.IMPLEMENT,
    researched: str = "",
    red: Red | None = None,
    mending: Mapping[str, Sequence[str]] = NOTHING,
) -> Prompt:
    """What research and implement are told, with those learnings that the task and what research
    found call for. `state`: what the task's own gates say before it. `red`: the gate that failed
    the attempt before. `mending`: its `failure`, and what it left in the tree.
    """
    text, spec = documents.spec()
    now, learnings = spec.find(task.key), entries.parse(documents.read(LEARNINGS) or "")
    above = spec.tasks[now.parent] if now and now.parent is not None else None
    works = form.stage is Stage.IMPLEMENT
    reads = works and all(protocol.find(by.agent).guidance for by in form.runners)
    advice, damage = guidance(on_disk(repo.root), by_itself=reads), learnings.faults[:_MOST_FAULTS]
    told = [] if works else [f"{LEARNINGS}: {fault}" for fault in damage]
    mode = "experiment" if is_experiment(task.text) else "implement"
    words = {
        "task": task_text(task, above),
        "checks": "\n".join(f"- {check}" for check in checks.shown) if checks else "",
        "guidance": advice.text,
        "neighbours": _neighbours(spec, now, " ".join(goals(text))),
        "mode": "decompose" if due is Tier.DECOMPOSE else "mend" if mending else mode,
        "attempts": _attempts(task, above, None if mending else red),
        "snapshot": state,
        "research": _notes(task, above, researched),
        "answer": [researched],
        "commits": recent(repo),
        **mending,
    }
    query = partial(recall.told, learnings.entries, f"{task_text(task)}\n\n{researched}")
    return compose(form, words, (*advice.notices, *told), query)


def _attempts(task: Task, above: Task | None, red: Red | None) -> list[str]:
    """What was tried, with the end of what the red gate printed."""
    notes = [
        (whole, f"{note.kind} {note.number or ''}".strip() + f": {note.text}")
        for whole, one in (("At the whole of which this is a part: ", above), ("", task))
        for note in (one.of(Kind.ATTEMPT, Kind.SKIPPED) if one else ())
    ]
    attempts = [f"{whole}{note}" for whole, note in notes]
    if attempts and red:
        attempts[-1] += f"\nThe end of what {red.name} printed then:\n{red.output}"
    return attempts


def _notes(task: Task, above: Task | None, researched: str) -> list[str]:
    """Research's, where they say more than its answer: a person may have written there."""
    whole = above.of(Kind.RESEARCH) if above else ()
    return [f"Found for the whole of which this is a part:\n{note.text}" for note in whole] + [
        note.text
        for note in task.of(Kind.RESEARCH)
        if any(line.strip().lstrip("- ") not in researched for line in note.text.splitlines())
    ]


def _neighbours(spec: Spec, now: Task | None, goal: str) -> str:
    """The goal and the tasks around this one, in few words; empty where there is neither."""
    parts = [f"- the goal: {goal}"] if goal else []
    if now:
        beside = [one for one in spec.tasks if one.parent == now.parent]
        at = beside.index(now)
        parts += [f"- before this one: {one.text}" for one in beside[max(0, at - 2) : at]]
        parts += [f"- after this one: {one.text}" for one in beside[at + 1 : at + 4]]
    return "\n".join(plain.line(part, _MOST_OF_A_NEIGHBOUR) for part in parts)


def commit(
    repo: Repo, form: Template, task: Task, implemented: str, old: str, new: str, refused: str = ""
) -> Prompt:
    """`refused`: why its first message did not pass."""
    again = f"A first message did not pass: {refused}\n\n" if refused else ""
    advice = before(repo, old)
    words = {
        "task": task_text(task),
        "trailer": trailer(task.key, imports.references(task)),
        "guidance": advice.text,
        "diff": [change.shown(repo, old, new, _room(form) // 2)],
        "answer": [again + implemented],
        "commits": ["\n\n---\n\n".join(_messages(repo))],
    }
    return compose(form, words, advice.notices)


def judged(
    repo: Repo, form: Template, task: Task, criterion: str, old: str, new: str, doubt: str = ""
) -> Prompt:
    """`doubt`: which gates are green only with the change's own tests."""
    weaker = "; ".join(filter(None, (doubt, *change.weakened(repo, old, new))))
    hints = [f"Tests that were there before: {weaker}"] if weaker else []
    diff = change.shown(repo, old, new, _room(form) - len(weaker) - 100)
    words = {"task": task_text(task), "criterion": criterion, "diff": [*hints, diff]}
    advice = before(repo, old)
    return compose(form, {**words, "guidance": advice.text}, advice.notices)


def _room(form: Template) -> int:
    return BUDGET[form.stage] * CHARS_PER_TOKEN


def _messages(repo: Repo) -> list[str]:
    """The recent ones, without the lines that name other tasks: none of them is to be copied."""
    whole = [one.message for one in history.recent(repo, _MESSAGES)]
    own = (re.sub(rf"^{_TRAILER}.*\n?", "", text, flags=re.M).strip() for text in whole)
    return [text[:_LONGEST_MESSAGE] for text in own if text]


def trailer(key: Key, refs: Sequence[str] = ()) -> str:
    """The lines by which a commit message names the issue that the task refers to, and the task."""
    return "\n".join([*(f"Refs: {ref}" for ref in refs), f"{_TRAILER}{task_name(key)}"])


def task_name(key: Key) -> str:
    """What stands behind `Kern-Task:` in the task's commit."""
    return plain.line(key.text, 10_000)


def task_text(task: Task, above: Task | None = None) -> str:
    """As a stage reads it: the parent's text, its own, what a person wrote under it and answered.
    `above`: the parent, for what was written and answered there.
    """
    part = [f"(part of: {task.key.parent})"] if task.key.parent else []
    whole = [f"  {line}" for line in (*above.body, *notes.answers(above))] if above else []
    return "\n".join([*part, *whole, task.text, *task.body, *notes.answers(task)])


def before(repo: Repo, old: str) -> Guidance:
    """As the tree before a change has it: what judges the change does not obey it."""

    def read(name: str) -> bytes | None:
        entry = repo.entry(old, name)
        return repo.data(entry.blob) if entry and entry.mode.startswith("100") else None

    return guidance(read)


def on_disk(root: Path) -> Callable[[str], bytes | None]:
    return lambda name: workspace.read(real(root, name))


def guidance(read: Callable[[str], bytes | None], *, by_itself: bool = False) -> Guidance:
    """The text of CLAUDE.md and AGENTS.md at the top level, once where both say the same; that of a
    folder an agent reads with its files. `by_itself`: the agent's CLI reads CLAUDE.md without kern.
    """
    names, notices = dict[str, str](), list[str]()  # by the text
    for name in (*MAIN, COMMON):
        try:
            text = plain.decode(read(name) or b"")
        except KernError as exc:
            notices.append(f"not handed on: {exc}")
            continue
        if by_itself and name in MAIN and text.strip():
            return Guidance()
        names.setdefault(re.sub(OURS, "", text).strip(), name)
    whole = "\n\n".join(f"From {name}:\n\n{text}" for text, name in names.items() if text)
    if len(whole) > _MOST_GUIDANCE:
        notices.append(
            f"the project's guidance is cut to {_MOST_GUIDANCE:,} of {len(whole):,} characters"
        )
        whole = f"{whole[:_MOST_GUIDANCE]}\n[cut here for length]"
    return Guidance(whole, tuple(notices))
