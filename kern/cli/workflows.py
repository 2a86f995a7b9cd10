"""`kern ci init`: the two GitHub workflows of `offered/`."""

import re
import subprocess
from pathlib import Path

from kern import plain
from kern.cli import asking
from kern.cli.skill import OFFERED, place
from kern.git import repository
from kern.system import workspace

_FOLDER = ".github/workflows"
_LABELS = ("kern", "kern-now")
_PERMIT = "gh api -X PUT repos/{owner}/{repo}/actions/permissions/workflow"
_PERMIT += " -F can_approve_pull_request_reviews=true  # lets them open pull requests"


def init(folder: Path, *, yes: bool) -> None:
    repo, secrets = repository.open_at(folder), set[str]()
    for offered in sorted(OFFERED.glob("*.yml")):
        name, text = f"{_FOLDER}/{offered.name}", offered.read_text("utf-8")
        is_written = _write(place(repo, name), name, text, yes=yes)
        print(f"{'written' if is_written else 'kept':8} {name}")
        secrets |= set(re.findall(r"secrets\.(\w+)", text))
    if why := _no_gh():
        print(f"{why}; or do on GitHub's pages what these lines do:")
    print(
        "next:",
        *(f"gh label create {name}" for name in _LABELS),
        *(f"gh secret set {name}" for name in sorted(secrets)),
        _PERMIT,
        f'git add {_FOLDER} && git commit -m "Let kern work by night" && git push',
        sep="\n  ",
    )


def _write(path: Path, name: str, text: str, *, yes: bool) -> bool:
    """Over one that is there only after its change was shown, and a yes."""
    there = workspace.read(path)
    if there == text.encode():
        return False
    if there is not None:
        print(asking.difference(name, plain.decode(there), text), flush=True)
        if not (yes or asking.yes(f"Change {name} like this? [y/N]")):
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    workspace.replace(path, text.encode(), mode=0o644)
    return True


def _no_gh() -> str:
    try:
        done = subprocess.run(["gh", "auth", "status"], capture_output=True, timeout=10)
    except FileNotFoundError:
        return "gh is not installed: https://cli.github.com"
    except (OSError, subprocess.SubprocessError) as exc:
        return f"gh does not run: {plain.line(str(exc))}"
    return "gh is not logged in: gh auth login" if done.returncode else ""
