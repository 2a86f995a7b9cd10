"""What every measurement needs: sample repositories and interleaved runs."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
# The last: an installed kern has byte code.
STRIPPED = (
    *("GIT_", "ANTHROPIC_", "CLAUDE", "KERN_", "XDG_", "IS_SANDBOX"),
    "PYTHONDONTWRITEBYTECODE",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `bound` is the most that is right; without one it is only shown."""

    what: str
    shown: str
    bound: str = ""
    met: bool | None = None


def row(what: str, value: float, unit: str, *, most: float | None = None, note: str = "") -> Row:
    shown = f"{value:.2f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return Row(
        what,
        f"{shown}{f' ({note})' if note else ''}",
        "" if most is None else f"≤ {most:g} {unit}",
        None if most is None else value <= most,
    )


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the caller's configuration, an own home, kern from this source tree."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = bench\n\temail = bench@localhost\n[init]\n\tdefaultBranch = main\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STRIPPED)}
    return {
        **kept,
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "KERN_DIR": str(home / "kern"),
        "PYTHONPATH": str(SOURCE),
        "KERN_TRUST": "1",
        "KERN_SANDBOX": os.environ.get("KERN_TEST_SANDBOX", "off"),
        "IS_SANDBOX": "1",
        **more,
    }


def sample(root: Path, env: Mapping[str, str], files: Mapping[str, str]) -> Path:
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    for argv in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "start")):
        subprocess.run(["git", *argv], cwd=root, env=env, check=True, capture_output=True)
    return root


def interleaved(acts: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each act, taken in turns, so that a busy minute hits all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            taken[name].append(time.perf_counter() - began)
    return taken


def ratio(taken: Mapping[str, Sequence[float]], ours: str, theirs: str) -> float:
    """The median of the ratios within each round."""
    pairs = zip(taken[ours], taken[theirs], strict=True)
    return statistics.median(a / b for a, b in pairs)
