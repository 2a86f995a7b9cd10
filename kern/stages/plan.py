"""Asks the planner what is to be done, and takes its tasks into SPEC.md; or what of LEARNINGS.md
is to be changed. What cannot be trusted as a whole is refused. And the goal as SPEC.md states it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from kern import events, plain
from kern.errors import KernError, UsageError
from kern.git.repository import Repo
from kern.memory import entries
from kern.memory.entries import Entry
from kern.memory.recall import shown
from kern.model import LEARNINGS, SPEC, Aide, Marker, Role
from kern.spec import edit, imports, order
from kern.spec.file import Documents
from kern.spec.imports import Added, Item
from kern.spec.parse import Kind, Spec, Task, is_experiment, parse
from kern.stages import answer, belief, briefs, prompts
from kern.stages.answer import Code
from kern.stages.call import Caller
from kern.stages.prompts import Template
from kern.system import workspace

MOST_TASKS = 50
LONGEST = 600  # characters of a learning
_KEPT = (Kind.GATE, Kind.JUDGE, Kind.AFTER)  # of the notes; the others are kern's to write
_MOST_TOLD = 3000  # characters of finished tasks
# In a quote it would be a diagnostic: a check that silently does not count is worse.
_NEARLY_CHECK = r"(?im)^(\W{0,2}(?:gate|judge)s?\b)"
# Agents like one around Markdown.
_FENCE = r"(?m)\A\s*(?:`{3,}|~{3,})\w*\n|^\s*(?:`{3,}|~{3,})\s*\Z"
_NUMBERED = r"(?m)^- (L\d+) "


class Mode(StrEnum):
    PLAN = "plan"
    REVIEW = "review"
    IMPROVE = "improve"
    TIDY = "tidy"  # LEARNINGS.md


@dataclass(frozen=True, slots=True)
class Plan:
    items: tuple[Item, ...] = ()
    titles: tuple[str, ...] = ()  # of the new tasks
    done: str = ""  # why nothing is missing
    before: str = ""  # LEARNINGS.md as it was read
    text: str = ""  # and with the changes, a line for each entry
    answer: Path = Path()  # where it lies as it came, beside the stage files


@dataclass(frozen=True, slots=True)
class Planner:
    repo: Repo
    documents: Documents
    templates: Mapping[Role, Template]
    caller: Caller

    def ask(self, mode: Mode, goal: str = "") -> Plan:
        """What one process proposes. Raises KernError where that cannot be trusted as a whole."""
        there, tidies = self.documents.read(LEARNINGS) or "", mode is Mode.TIDY
        advice, form = briefs.guidance(briefs.on_disk(self.repo.root)), self.templates[Aide.PLANNER]
        words, name = self._open(there, goal), prompts.FILES[Aide.PLANNER]
        if tidies:
            words, name = self._finished(there), prompts.TIDY
            own = prompts.template(self.repo.root, Aide.PLANNER, name, self.caller.settings)
            form = replace(own, runners=form.runners)
        words |= {"guidance": advice.text, "mode": mode, "commits": briefs.recent(self.repo)}
        prompt = prompts.compose(form, words, advice.notices)
        reply = self.caller.call(prompt, task="", attempt=1)
        text, place = reply.reply.text, self.caller.scope.folder / name
        workspace.replace(place, plain.encode(text))
        reason = answer.parse(Aide.PLANNER, text).reason
        repeats = belief.repeats(text, reason, form.contract, goal)
        with refused(place, LEARNINGS if tidies else SPEC):
            if wrong := reply.fault or belief.REPEATED * repeats:
                raise UsageError(wrong)
            plan = changes(text, there) if tidies else read(text, self.known(), mode)
            if mode is Mode.REVIEW and not (plan.titles or plan.done):
                raise UsageError("nothing in it is new")
        return replace(plan, answer=place)

    def _open(self, there: str, goal: str) -> dict[str, str | Sequence[str]]:
        """Of specifications the paths are listed: they may be many."""
        tasks = sorted(parse(self.known()).tasks, key=lambda task: task.marker is not Marker.DONE)
        specs = (path.relative_to(self.repo.root) for path in self.repo.root.glob("specs/**/*.md"))
        return {
            "goal": goal or "(none is stated: go by the specifications)",
            "specs": sorted(map(str, specs)),
            "tasks": [f"[{task.marker}] {task.text}" for task in tasks],  # the open ones last
            "learnings": [shown(one) for one in entries.parse(there).entries if not one.unwanted],
        }

    def _finished(self, there: str) -> dict[str, str | Sequence[str]]:
        """The tasks that are done, each with what was asked about it and answered."""
        done = (task for task in self.documents.spec()[1].tasks if task.marker is Marker.DONE)
        asked = ((task.text, task.of(Kind.QUESTION, Kind.ANSWER)) for task in done)
        tasks = [
            "\n  ".join([f"- {text}", *(f"{note.kind}: {note.text}" for note in notes)])
            for text, notes in asked
        ]
        used = (one for one in entries.parse(there).entries if not one.retired)
        return {
            "learnings": [plain.line(one.line, 160) for one in used],
            "tasks": prompts.newest(tasks, _MOST_TOLD),
        }

    def known(self) -> str:
        """SPEC.md; the tasks of the example that kern init wrote are nobody's."""
        return prompts.without_example(self.documents.spec_text())

    def take(self, plan: Plan, goal: str = "") -> None:
        """Write it into SPEC.md as that is now, or refuse it where it no longer fits."""

        def apply(text: str, _: Spec) -> tuple[str, tuple[str, ...]]:
            result = self.planned(text, plan, goal)
            return result.text, result.new

        added = self.documents.update(apply)
        self.caller.sink(events.new("plan", added=added, done=plan.done))

    def planned(self, text: str, plan: Plan, goal: str = "") -> Added:
        """SPEC.md with the plan in it."""
        with refused(plan.answer, SPEC):
            return added(with_goal(prompts.without_example(text), goal), plan)

    def relearn(self, plan: Plan) -> None:
        """Write what a person was shown, unless LEARNINGS.md has changed since it was read."""
        with self.documents.alone(), refused(plan.answer, LEARNINGS):
            if (self.documents.read(LEARNINGS) or "") != plan.before:
                raise UsageError("the file has changed since")
            self.documents.write(LEARNINGS, plan.text)


@contextmanager
def refused(place: Path, name: str) -> Iterator[None]:
    """As the end of the run, a UsageError over what was answered for the file of that name."""
    try:
        yield
    except UsageError as exc:
        hint = f"{name} is untouched; the answer: {place}"
        raise KernError(f"the planner's answer is refused: {exc}", hint=hint) from None


# ---------------------------------------------------------------- tasks


def read(text: str, there: str, mode: Mode) -> Plan:
    """`there` is SPEC.md as it is. Raises UsageError."""
    replied = answer.parse(Aide.PLANNER, text)
    if replied.code is Code.DONE and not replied.listed:
        return Plan(done=replied.reason)
    listed = parse(re.sub(_FENCE, "", replied.listed))
    faults = [f"in its list of tasks: {fault.message}" for fault in listed.diagnostics]
    if replied.code is not Code.TASKS:
        faults.insert(0, "it does not end in TASKS or DONE: reason")
    if not 0 < len(listed.tasks) <= MOST_TASKS:
        count = len(listed.tasks) or "no"
        faults.append(f"it lists {count} tasks; at most {MOST_TASKS} are sensible at a time")
    measured = [bool(one.of(Kind.GATE)) and not one.of(Kind.AFTER) for one in listed.tasks]
    if mode is Mode.IMPROVE and measured != [True]:
        faults.append("one improvement at a time is asked for, with a gate that measures it")
    if faults:
        raise UsageError(faults[0])
    plan = Plan(tuple(_item(task, mode) for task in listed.tasks))
    return replace(plan, titles=added(there, plan).new)


def added(text: str, plan: Plan) -> Added:
    """What of a plan is new to that SPEC.md, in it. Raises UsageError where it does not fit: an
    `After` leads nowhere, or in a circle.
    """
    new = imports.added(text, plan.items)
    old = {fault.message for fault in order.faults(parse(text))}
    if wrong := [one.message for one in order.faults(parse(new.text)) if one.message not in old]:
        raise UsageError(f"in its order: {wrong[0]}")
    return new


def _item(task: Task, mode: Mode) -> Item:
    """Of what is no word of the planner's to say nothing."""
    prefix = "Experiment: " if mode is Mode.IMPROVE and not is_experiment(task.text) else ""
    own_notes = ((note.kind, plain.block(note.text).strip()) for note in task.of(*_KEPT))
    notes = tuple(f"> **{kind}:** {text}" for kind, text in own_notes)
    done = task.marker is Marker.DONE
    return Item(prefix + task.text, "\n".join(task.body), "", done, task.parent, notes)


# ---------------------------------------------------------------- the goal


def goal_of(root: Path, text: str) -> str:
    """What SPEC.md, that text, states; it may be empty where specifications say it all."""
    goals = "\n\n".join(briefs.goals(text))
    if not goals and not any(root.glob("specs/**/*.md")):
        raise UsageError(
            "there is no goal to hold the work against",
            hint='kern plan "what you want" writes it into SPEC.md; or put it into specs/*.md',
        )
    return goals


def with_goal(text: str, goal: str) -> str:
    """State the goal below the title, once."""
    body = re.sub(_NEARLY_CHECK, r"- \1", plain.block(goal).strip())
    if not body or body in briefs.goals(text):
        return text
    mark, text = "\ufeff" * text.startswith("\ufeff"), text.removeprefix("\ufeff")
    title = text.startswith("# ")
    lines = [f"> {line}".rstrip() for line in f"**Goal:** {body}".split("\n")]
    return mark + edit.insert(text, int(title), ["", *lines] if title else [*lines, ""])


# ---------------------------------------------------------------- entries of LEARNINGS.md


def changes(text: str, there: str) -> Plan:
    """As `read`, for LEARNINGS.md: the answer lists the entries that are to read otherwise, by
    their numbers, and new ones without. Votes are kern's to count.
    """
    replied, old_entries = answer.parse(Aide.PLANNER, text), entries.parse(there).entries
    listed = re.sub(r"\n[ \t]+(?=\S)", " ", plain.block(re.sub(_FENCE, "", replied.listed)))
    if replied.code is Code.DONE and not listed:
        return Plan(before=there, text=entries.written(there, old_entries), done=replied.reason)
    new, numbers = entries.parse(f"## Learnings\n{listed}"), re.findall(_NUMBERED, listed)
    by_id, free = {one.id: one for one in old_entries}, entries.numbers(old_entries)
    unknown = [name for name in numbers if name not in by_id or by_id[name].retired]
    faults = [f"in its list: {fault}" for fault in new.faults]
    faults += [f"there is no entry {name} in use" for name in unknown]
    if replied.code is not Code.CHANGES:
        faults.insert(0, "it does not end in either CHANGES or DONE: reason")
    if not new.entries:
        faults.append("in its list: no entry below `## Changes`")
    if not all(one.words and len(one.text) <= LONGEST for one in new.entries):
        faults.append(f"a text is empty or longer than {LONGEST} characters")
    if faults:
        raise UsageError(faults[0])
    for one in new.entries:
        name = one.id if one.id in numbers else next(free)
        old = by_id.get(name, Entry(name, ""))
        by_id[name] = replace(one, id=name, helpful=old.helpful, harmful=old.harmful)
    return Plan(before=there, text=entries.written(there, by_id.values()))
