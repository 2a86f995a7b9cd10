"""Stage 3 and its witness: a commit that holds exactly the task's change, or none."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kern import answer, edit, history, index, plain, process, trace, workspace
from kern.briefs import Briefs
from kern.documents import LEARNINGS, SPEC, Documents, encode
from kern.errors import Asked, KernError, LimitReached, TransientFault
from kern.events import Sink, Warned
from kern.keeper import some
from kern.observe import Situation, StageFile, day, lesson, said, trees
from kern.pipeline import Saved, Stage
from kern.repo import Entry, Head, Repo
from kern.spec import Task
from kern.stages import Caller, Said
from kern.witness import Witness, trailer

TRIES = 2
HOOKS = ("pre-commit", "commit-msg")


class Committer:
    def __init__(
        self,
        repo: Repo,
        witness: Witness,
        papers: Documents,
        briefs: Briefs,
        caller: Caller,
        sink: Sink,
        save: Callable[[Said, Situation], None],
    ) -> None:
        self.repo = repo
        self.witness = witness
        self.papers = papers
        self.briefs = briefs
        self.caller = caller
        self.sink = sink
        self.save = save

    @property
    def _mark(self) -> str:
        """HEAD's reflog says by this who made a commit."""
        return f"kern {self.caller.run} stage 3"

    def commit(self, at: Situation, task: Task, *, ask: bool) -> str:
        """`ask` the agent first; kern commits where it did not. An outcome where that failed, else
        empty.
        """
        second = at.files[Stage.IMPLEMENT]
        start, tree = trees(second)
        merged, conflicts = self.witness.expected(start, tree, at.head.commit)
        if conflicts:
            return f"{Saved.FAILED}: {overlap(at, conflicts)}"
        there_already = merged == self.repo.text("rev-parse", f"{at.head.commit}^{{tree}}")
        whole = self._with_papers(merged, task, lesson(second), day(second))
        if ask and not there_already:
            reason = ""
            for _ in range(TRIES):
                reason = self._ask(at, task, whole, second, reason)
                if not reason or self._rejected(at):
                    return ""
                if self.repo.head().commit != at.head.commit:
                    raise KernError(
                        f"HEAD moved during stage 3 in a way that is not kern's to undo: {reason}",
                        hint="look at `git log`; then run kern again: it resumes",
                    )
        why = self._commit_self(at, task, whole, (start, tree), task.text)
        return f"{Saved.FAILED}: {why}" if why else ""

    def conclude(self, at: Situation, task: Task, learned: str, date: str) -> str:
        """An experiment that did not work: kern commits SPEC.md and LEARNINGS.md and nothing else.
        Why a hook did not let it; empty where HEAD has it.
        """
        tree = self.repo.text("rev-parse", f"{at.head.commit}^{{tree}}")
        whole = self._with_papers(tree, task, learned, date, proved=False)
        return self._commit_self(at, task, whole, (tree, tree), f"Conclude: {task.text}")

    def _rejected(self, at: Situation) -> bool:
        value = workspace.load(self.caller.scope, Stage.COMMIT)
        return answer.parse(Stage.COMMIT, said(value)).code is answer.Code.REJECT

    def _with_papers(
        self, merged: str, task: Task, learned: str, date: str, *, proved: bool = True
    ) -> str:
        """The tree to commit: SPEC.md with `[x]` and LEARNINGS.md, both from the disk as they are
        now.
        """
        papers: dict[str, Entry | None] = {}
        ignored = self.repo.ignored(SPEC, LEARNINGS)
        if SPEC not in ignored:
            text, parsed = self.papers.spec()
            fresh = parsed.find(task.key)
            if fresh is None:
                raise KernError(
                    f"the task is no longer in {SPEC}: {task.text}", hint="run kern again"
                )
            papers[SPEC] = self._entry(SPEC, edit.tick(text, parsed, fresh, proved=proved))
        if LEARNINGS not in ignored:
            text = self.papers.read(LEARNINGS) or ""
            if learned:
                text = edit.add_learning(text, date, task.text, learned)
            if text:
                papers[LEARNINGS] = self._entry(LEARNINGS, text)
        return index.tree_with(self.repo, merged, papers)

    def _entry(self, name: str, text: str) -> Entry:
        known = self.repo.entries(self.repo.head().commit).get(name)
        mode = known.mode if known and known.mode != "120000" else "100644"
        return Entry(mode, self.repo.blob(encode(text), path=name))

    def _ask(
        self, at: Situation, task: Task, whole: str, second: StageFile, taken_back: str
    ) -> str:
        """One run of the agent on a private index; why its commit does not hold, empty when it
        does.
        """
        prompt = self.briefs.commit(task, said(second), at.head.commit, whole, taken_back)
        told = self.caller.scope.folder / ".git-trace"
        told.unlink(missing_ok=True)
        own = history.identity(self.repo)
        testimony = {"GIT_TRACE2_EVENT": str(told)}
        with index.private(self.repo, copy=True) as private:
            index.read_into(self.repo, whole, private)

            def again() -> bool:
                index.read_into(self.repo, whole, private)
                return self.repo.head().commit == at.head.commit

            try:
                outcome = self.caller.call(
                    Stage.COMMIT,
                    prompt,
                    self.briefs.templates[Stage.COMMIT].model,
                    task=task.text,
                    attempt=at.attempt,
                    env={**private, "GIT_REFLOG_ACTION": self._mark, **testimony},
                    again=again,
                )
            except (TransientFault, LimitReached, Asked):
                if again():
                    raise
                outcome = None  # it died after its commit
        if outcome is not None:
            self.save(outcome, at)
        misused = trace.misused(self._told(told), self._hooks())
        misused = misused or history.forged(self.repo, self.repo.head().commit, own)
        return self._check(at, task, trees(second), misused)

    def _hooks(self) -> list[str]:
        return self.repo.hooks(*HOOKS)

    def _told(self, place: Path) -> list[str]:
        """What git itself wrote of the stage's git processes."""
        try:
            text = place.read_text("utf-8", "replace")
            place.unlink()
        except FileNotFoundError:
            return []
        return text.splitlines()

    def _check(self, at: Situation, task: Task, change: tuple[str, str], misused: str = "") -> str:
        """HEAD's new commit is the task's, or it is taken back; why, empty when it holds."""
        now = self.repo.head()
        if now.branch != at.head.branch:
            history.switch_back(self.repo, at.head)
            self.sink(Warned(f"stage 3 switched to {now.name}: switched back"))
            now = self.repo.head()
        if now.commit == at.head.commit:
            return "nothing was committed"
        commits = history.since(self.repo, at.head.commit, now.commit)
        marked = history.marked(self.repo, "stage 3")
        if commits is None and history.moved_by(self.repo, now, at.head.commit, "stage 3"):
            return self._take_back(at, now, "it rewrote the commit before it")
        if not commits or any(commit.sha not in marked for commit in commits):
            ticked = any(self.witness.ticks(c, task.key) for c in commits or ())
            return "" if ticked else "a commit came in that is not stage 3's"
        why = misused or "it is more than one commit"
        if len(commits) == 1 and not misused:
            why = self.witness.objection(commits[0], task.key, *change)
        return self._take_back(at, now, why) if why else ""

    def _take_back(self, at: Situation, now: Head, why: str) -> str:
        history.move_head(self.repo, at.head.commit, now.commit, "not the task's commit")
        self.sink(Warned(f"stage 3's commit taken back: {why}"))
        return why

    def _commit_self(
        self, at: Situation, task: Task, whole: str, change: tuple[str, str], subject: str
    ) -> str:
        """kern's own commit, the person's hooks included; why one refused or spoilt it."""
        message = f"{plain.line(subject, 200)}\n\nKern-Task: {trailer(task.key)}\n"
        marks = {
            "GIT_REFLOG_ACTION": self._mark,
            "KERN_ROOT": str(self.repo.root),  # the next run ends it if this one is killed
            **dict([self.caller.mark]),
        }
        timeout = self.caller.settings.timeouts.commit
        try:
            code, told = index.record(self.repo, message, whole, marks, timeout)
        except TimeoutError:
            process.sweep(self.caller.mark)
            return f"a commit hook was not done after {process.span(timeout)}"
        if code == 0:
            why = self._check(at, task, change)
            return f"a hook changed the commit: {why}" if why else ""
        if code == 1 and self.repo.hooks(*HOOKS, "prepare-commit-msg"):
            last = plain.line(" ".join(told.splitlines()[-3:]) or "no output", 160)
            return f"a commit hook refused: {last}"
        raise KernError(
            f"git commit failed: {plain.line(told, 400)}",
            hint="settle it (identity, signing key, disk), then run kern again: it resumes here",
        )


def overlap(at: Situation, conflicts: Sequence[str]) -> str:
    """Why the task's change cannot be told from what is the person's."""
    moved = at.start is not None and at.start.base != at.head.commit
    whose = "your commit" if moved else "your uncommitted changes"
    return f"the change overlaps {whose} in {some(conflicts)}: commit or stash it"
