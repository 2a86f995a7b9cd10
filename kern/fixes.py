"""What the commit's hooks changed in the task's files: taken into the task's change, so that the
gates decide on it. A formatter is no reason to throw work away.
"""

from collections.abc import Callable, Mapping

from kern import index, workspace
from kern.keeper import Keeper
from kern.observe import Situation
from kern.pipeline import Stage
from kern.plain import some
from kern.repo import Change, Repo
from kern.snapshot import Snapshots
from kern.stagefile import noted, trees
from kern.workspace import Scope

MOST = 2  # times in one attempt
# What a verdict on the tree of before says.
VERDICT = ("outcome", "proof", "red")


def sound(task: Mapping[str, Change], hooks: Mapping[str, Change], times: int) -> bool:
    """Whether what the hooks changed is the task's alone: no other file, and none in which a person
    had gone on since stage 2. `times`: how often they did already.
    """
    own = hooks.keys() <= task.keys()
    return own and bool(hooks) and times < MOST and all(hooks[p][0] == task[p][1] for p in hooks)


def watch(
    repo: Repo, snapshots: Snapshots, keeper: Keeper, scope: Scope, at: Situation
) -> Callable[[], bool]:
    """To be called before the hooks run. What it returns is called after them: whether they changed
    anything that was taken in. stage2.json has no outcome then.
    """
    second = at.files[Stage.IMPLEMENT]
    start, tree = trees(second)
    there = repo.hooks("pre-commit")  # without one nothing changes the tree behind kern's back
    before = snapshots.take(start) if there else ""

    def take_in() -> bool:
        hooks = repo.changed(before, snapshots.take(start)) if before else {}
        fresh = workspace.load(scope, Stage.IMPLEMENT)  # with the record of what stands early
        times = noted(fresh).get("fixed")
        times = times if isinstance(times, int) else 0
        if fresh is None or not sound(repo.changed(start, tree), hooks, times):
            return False
        fixed = index.tree_with(repo, tree, {path: new for path, (_, new) in hooks.items()})
        kern = {name: value for name, value in noted(fresh).items() if name not in VERDICT}
        kern |= {"tree": fixed, "fixed": times + 1}
        workspace.save(scope, Stage.IMPLEMENT, {**fresh, "kern": kern})
        keeper.warn(
            f"a commit hook changed {some(sorted(hooks))}: now part of the task's change; the "
            "gates run again"
        )
        return True

    return take_in
