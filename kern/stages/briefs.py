"""What each stage is told: its prompt, composed of SPEC.md, LEARNINGS.md, what git knows, and the
project's own advice to agents, the text of CLAUDE.md and AGENTS.md.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kern import plain
from kern.checks.result import Red
from kern.git import history
from kern.git.repository import LINK, Repo
from kern.memory import entries, recall
from kern.memory.entries import Learnings
from kern.model import LEARNINGS, Key, Stage, Tier
from kern.obeyed import COMMON, MAIN, OURS
from kern.spec import imports, notes
from kern.spec.file import Documents
from kern.spec.notes import Checks
from kern.spec.parse import Kind, Spec, Task, is_experiment
from kern.stages import change, proposal
from kern.stages.answer import Answer
from kern.stages.prompts import BUDGET, CHARS_PER_TOKEN, Prompt, Template, compose

RECENT_COMMITS = 10
_MESSAGES = 5  # whole ones, to write another like them
_MOST_OF_A_NEIGHBOUR = 200  # characters: with the goal, six lines of about 300 tokens in all
_LONGEST_MESSAGE = 240  # characters
_MOST_FAULTS = 5  # of LEARNINGS.md, said at a time
_TRAILER = "Kern-Task: "
_MOST_GUIDANCE = 40_000  # characters of all of it


class Guidance(NamedTuple):
    text: str = ""
    notices: tuple[str, ...] = ()  # what a person should know was left out, and why


class Known(NamedTuple):
    """What the project has learned and done lately, and how it wants to be worked on."""

    learnings: Learnings
    commits: Sequence[str]
    guidance: Guidance = Guidance()
    goal: str = ""
    spec: Spec = Spec((), ())


class Mending(NamedTuple):
    """An attempt that failed over something that can be mended: its work is in the tree again."""

    failure: str  # what failed, and what that printed
    kept: str  # the change: statistics and patch


def known(
    repo: Repo,
    documents: Documents,
    researched: Answer | None = None,
    *,
    by_itself: bool = False,
) -> Known:
    """With the guidance of the folders that stage 1 named. `by_itself`: the agent may read
    CLAUDE.md without kern.
    """
    text, parsed = documents.spec()
    files = named_files(researched.findings if researched else ())
    return Known(
        entries.parse(documents.read(LEARNINGS) or ""),
        [f"{one.sha[:7]} {one.subject}" for one in history.recent(repo, RECENT_COMMITS)],
        guidance_on_disk(repo.root, files, by_itself=by_itself),
        " ".join(proposal.goals(text)),
        parsed,
    )


def brief(
    form: Template,
    task: Task,
    context: Known,
    checks: Checks | None = None,
    state: Sequence[str] = (),
    due: Tier = Tier.IMPLEMENT,
    researched: str = "",
    red: Red | None = None,
    mending: Mending | None = None,
) -> Prompt:
    """What research and implement are told, with those learnings that the task and what research
    found call for. `state`: what the task's own gates say before it. `red`: the gate that failed
    the attempt before.
    """
    above, notices = _parent(task, context), context.guidance.notices
    if form.stage is Stage.RESEARCH:
        damage = context.learnings.faults[:_MOST_FAULTS]
        notices = (*notices, *(f"{LEARNINGS}: {fault}" for fault in damage))
    listed = "\n".join(f"- {check}" for check in checks.shown) if checks else ""
    whole = (f"At the whole of which this is a part: {text}" for text in _attempts(above))
    attempts = [*whole, *_attempts(task)]
    if attempts and red and not mending:
        attempts[-1] += f"\nThe end of what {red.name} printed then:\n{red.output}"
    research = above.of(Kind.RESEARCH) if above else ()
    sections = {
        "attempts": attempts,
        "snapshot": state,
        "failure": [mending.failure] if mending else [],
        "kept": [mending.kept] if mending else [],
        "research": [
            *(f"Found for the whole of which this is a part:\n{note.text}" for note in research),
            *(one.text for one in task.of(Kind.RESEARCH) if not _repeats(one.text, researched)),
        ],
        "answer": [researched],
        "commits": context.commits,
    }
    mode = "experiment" if is_experiment(task.text) else "implement"
    mode = "decompose" if due is Tier.DECOMPOSE else "mend" if mending else mode
    exempt = {
        "task": task_text(task, above),
        "checks": listed,
        "guidance": context.guidance.text,
        "neighbours": _neighbours(task, context),
        "mode": mode if form.stage is Stage.IMPLEMENT else "",
    }
    query = f"{task_text(task)}\n\n{researched}"
    return compose(
        form, exempt, sections, notices, partial(recall.told, context.learnings.entries, query)
    )


def _repeats(note: str, answer: str) -> bool:
    """Whether all of the note stands in the answer that it was made of."""
    return all(line.strip().lstrip("- ") in answer for line in note.splitlines())


def _parent(task: Task, context: Known) -> Task | None:
    now = context.spec.find(task.key)
    return context.spec.tasks[now.parent] if now and now.parent is not None else None


def _neighbours(task: Task, context: Known) -> str:
    """The goal and the tasks around this one, in few words; empty where there is neither."""
    parts = [f"- the goal: {context.goal}"] if context.goal else []
    if now := context.spec.find(task.key):
        beside = [one for one in context.spec.tasks if one.parent == now.parent]
        at = beside.index(now)
        parts += [f"- before this one: {one.text}" for one in beside[max(0, at - 2) : at]]
        parts += [f"- after this one: {one.text}" for one in beside[at + 1 : at + 4]]
    return "\n".join(plain.line(part, _MOST_OF_A_NEIGHBOUR) for part in parts)


def _attempts(task: Task | None) -> list[str]:
    return [
        f"{note.kind} {note.number or ''}".strip() + f": {note.text}"
        for note in (task.notes if task else ())
        if note.kind in (Kind.ATTEMPT, Kind.SKIPPED)
    ]


def commit(
    repo: Repo, form: Template, task: Task, implemented: str, old: str, new: str, refused: str = ""
) -> Prompt:
    """`refused`: why its first message did not pass."""
    again = f"A first message did not pass: {refused}\n\n" if refused else ""
    sections = {
        "diff": [change.shown(repo, old, new, _room(form) // 2)],
        "answer": [again + implemented],
        "commits": ["\n\n---\n\n".join(_messages(repo))],
    }
    words = {"task": task_text(task), "trailer": trailer(task.key, imports.references(task))}
    advice = guidance_in_tree(repo, old, repo.changed(old, new))
    return compose(form, {**words, "guidance": advice.text}, sections, advice.notices)


def judged(
    repo: Repo, form: Template, task: Task, criterion: str, old: str, new: str, doubt: str = ""
) -> Prompt:
    """`doubt`: which gates are green only with the change's own tests."""
    weaker = "; ".join(filter(None, (doubt, *change.weakened(repo, old, new))))
    hints = [f"Tests that were there before: {weaker}"] if weaker else []
    diff = change.shown(repo, old, new, _room(form) - len(weaker) - 100)
    words = {"task": task_text(task), "criterion": criterion}
    advice = guidance_in_tree(repo, old, repo.changed(old, new))
    words |= {"guidance": advice.text}
    return compose(form, words, {"diff": [*hints, diff]}, advice.notices)


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


# ---------------------------------------------------------------- the project's guidance


def gathered(
    read: Callable[[str], str], paths: Iterable[str] = (), *, by_itself: bool = False
) -> Guidance:
    """Of the top level, then of the folders above the paths; a text that stands in two files once.
    `read`: a file's text, empty where there is none. `by_itself`: the agent's CLI reads CLAUDE.md
    without kern.
    """
    inside = ("", *(path for path in paths if not path.startswith(("/", ".."))))
    folders = {above for path in inside for above in PurePosixPath(f"{path}_").parents}
    names = dict[str, str]()  # by the text
    for folder in sorted(folders, key=lambda one: (len(one.parts), one)):
        texts = {name: read(str(folder / name)) for name in (*MAIN, COMMON)}
        there = {name: re.sub(OURS, "", text).strip() for name, text in texts.items()}
        if not (by_itself and any(there[name] for name in MAIN)):
            for name, text in there.items():
                names.setdefault(text, str(folder / name))
    text = "\n\n".join(f"From {name}:\n\n{text}" for text, name in names.items() if text)
    if len(text) <= _MOST_GUIDANCE:
        return Guidance(text)
    notice = f"the project's guidance is cut to {_MOST_GUIDANCE:,} of {len(text):,} characters"
    return Guidance(f"{text[:_MOST_GUIDANCE]}\n[cut here for length]", (notice,))


def named_files(findings: Iterable[tuple[str, str]]) -> list[str]:
    """The files that research names: `src/a.py:1-9, tests/`."""
    texts = (text for label, text in findings if label in ("Files", "Pattern"))
    return re.findall(r"[^\s,;:`*()]+", " ".join(texts))


def guidance_on_disk(
    root: Path, beneath: Iterable[str] = (), *, by_itself: bool = False
) -> Guidance:
    away = list[str]()

    def read(name: str) -> str:
        try:
            place = Path(os.path.realpath(root / name))
            if not place.is_file():
                return ""
            if place.is_relative_to(root) and root / ".git" not in place.parents:
                return plain.decode(place.read_bytes()[: 4 * _MOST_GUIDANCE])
        except (OSError, ValueError):  # no name that a file can have
            return ""
        away.append(f"{name} is a link out of the repository: not handed on")
        return ""

    texts = gathered(read, beneath, by_itself=by_itself)
    return texts._replace(notices=(*texts.notices, *away))


def guidance_in_tree(repo: Repo, tree: str, changed: Iterable[str]) -> Guidance:
    """As a tree holds it, for those that look at a change: the change's own words on how to look at
    it do not count.
    """

    def read(name: str) -> str:
        entry = repo.entry(tree, name)
        text = plain.decode(repo.data(entry.blob)) if entry else ""
        if entry and entry.mode == LINK:
            leads = posixpath.normpath(posixpath.join(posixpath.dirname(name), text))
            inside = not leads.startswith(("/", ".."))
            text = plain.decode(repo.content(tree, leads) or b"") if inside else ""
        return text

    return gathered(read, changed)
