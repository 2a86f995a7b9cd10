"""What kern offers to a project: a skill for the agents that a person talks to, and two GitHub
workflows. Nothing that is there is changed without a yes.
"""

import re
import subprocess
from pathlib import Path

from kern import plain
from kern.cli import asking
from kern.errors import UsageError
from kern.git import repository
from kern.git.repository import Repo
from kern.obeyed import COMMON, OURS, SKILL
from kern.spec.file import real
from kern.system import workspace

OFFERED = Path(__file__).with_name("offered")
_WORKFLOWS = ".github/workflows"
_LABELS = ("kern", "kern-now")
_PERMIT = "gh api -X PUT repos/{owner}/{repo}/actions/permissions/workflow"
_PERMIT += " -F can_approve_pull_request_reviews=true  # lets them open pull requests"


def skill(folder: Path) -> None:
    """`kern init --agents`: a skill, and a paragraph at the end of AGENTS.md."""
    repo = repository.open_at(folder)
    there = {one: plain.decode(workspace.read(_place(repo, one)) or b"") for one in (SKILL, COMMON)}
    paragraph = OFFERED.joinpath(COMMON).read_text("utf-8")
    if re.search(OURS, there[COMMON].replace("\r\n", "\n")):
        paragraph = ""
    texts = {
        SKILL: there[SKILL] or OFFERED.joinpath("SKILL.md").read_text("utf-8"),
        COMMON: "\n\n".join(filter(None, (there[COMMON], paragraph))),
    }
    if names := [name for name, text in texts.items() if _write(repo, name, text, yes=True)]:
        print(f'next: git add {" ".join(names)} && git commit -m "Tell agents of kern"')


def workflows(folder: Path, *, yes: bool) -> None:
    """`kern ci init`."""
    repo, secrets = repository.open_at(folder), set[str]()
    for offered in sorted(OFFERED.glob("*.yml")):
        text = offered.read_text("utf-8")
        _write(repo, f"{_WORKFLOWS}/{offered.name}", text, yes=yes)
        secrets |= set(re.findall(r"secrets\.(\w+)", text))
    if why := _no_gh():
        print(f"{why}; or do on GitHub's pages what these lines do:")
    print(
        "next:",
        *(f"gh label create {name}" for name in _LABELS),
        *(f"gh secret set {name}" for name in sorted(secrets)),
        _PERMIT,
        f'git add {_WORKFLOWS} && git commit -m "Let kern work by night" && git push',
        sep="\n  ",
    )


def _write(repo: Repo, name: str, text: str, *, yes: bool) -> bool:
    """Over a file that is there only after its change was shown, and a yes."""
    place = _place(repo, name)
    there, new = workspace.read(place), plain.encode(text)
    is_new = there != new
    if is_new and there is not None:
        print(asking.difference(name, plain.decode(there), text), flush=True)
        is_new = yes or asking.yes(f"Change {name} like this? [y/N]")
    if is_new:
        place.parent.mkdir(parents=True, exist_ok=True)
        workspace.replace(place, new, private=False)
    print(f"{'written' if is_new else 'kept':8} {name}")
    return is_new


def _place(repo: Repo, name: str) -> Path:
    """Of a file in the tree, whatever links lie on the way to it."""
    target = real(repo.root, name)
    if repo.git_dir in target.parents:
        what = f"{name} is a link out of the working tree: {target}"
        raise UsageError(what, hint="put a file in its place")
    return target


def _no_gh() -> str:
    try:
        done = subprocess.run(["gh", "auth", "status"], capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as exc:
        return f"gh (https://cli.github.com) does not run: {plain.line(str(exc))}"
    return "gh is not logged in: gh auth login" if done.returncode else ""
