"""The command, see tests/faults."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from tests.faults.table import TOP, Fault, objections, read
from tests.scenarios.test_scenarios import ROWS

AT_ONCE = 2
CAUGHT, GREEN, BROKEN = 1, 0, 2  # pytest's exit codes; more than these are a fault of the runner's
PARTS = ("kern", "prompts", "tests", "pyproject.toml", "SPEC.example.md", "LEARNINGS.example.md")


@dataclass(frozen=True)
class Outcome:
    fault: Fault
    code: int
    seconds: float
    printed: str

    def __str__(self) -> str:
        word = {CAUGHT: "caught", GREEN: "NOT CAUGHT"}.get(self.code, "BROKEN")
        return f"{word:10} {self.seconds:6.1f} s  {self.fault.name}"


def copy(target: Path) -> Path:
    for part in PARTS:
        source = TOP / part
        if source.is_dir():
            shutil.copytree(source, target / part, symlinks=True)
        elif source.exists():
            target.mkdir(exist_ok=True)
            shutil.copy(source, target / part)
    return target


def played(place: Path, stories: Sequence[str]) -> tuple[int, str]:
    """How these end there: all of kern and its tests are the copy's."""
    module = "tests/scenarios/test_scenarios.py::test_scenario"
    workers = f"-n{min(AT_ONCE, len(stories) - 1)}"
    argv = [sys.executable, "-m", "pytest", "-qx", workers, "-p", "no:cacheprovider", "--tb=short"]
    argv += [f"{module}[{story}]" for story in stories]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def planted(fault: Fault, place: Path) -> Outcome:
    file, began = place / fault.file, time.monotonic()
    text = file.read_text()
    file.write_text(text.replace(fault.old, fault.new))
    try:
        code, printed = played(place, [fault.story])
    finally:
        file.write_text(text)
    return Outcome(fault, code, time.monotonic() - began, printed)


def main(words: Sequence[str], faults: Mapping[str, Fault]) -> int:
    chosen = [one for one in faults.values() if any(word in one.name for word in words or [""])]
    if wrong := objections(chosen, ROWS):
        print("\n".join(wrong))
        return 2
    places: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory(prefix="kern-faults-") as folder:
        for number in range(AT_ONCE):
            places.put(copy(Path(folder) / str(number)))

        def plant(fault: Fault) -> Outcome:
            place = places.get()
            try:
                outcome = planted(fault, place)
                print(outcome, flush=True)
                return outcome
            finally:
                places.put(place)

        code, printed = played(copy(Path(folder) / "sound"), [*{fault.story for fault in chosen}])
        if code:
            print(f"without any fault the stories are red:\n{printed[-3000:]}")
            return 2
        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(plant, chosen))
    missed = [one for one in outcomes if one.code != CAUGHT]
    for one in missed:
        print(f"\n{one}: {one.fault.file}: {one.fault.story}")
        print(one.printed[-2000:] if one.code not in (CAUGHT, GREEN) else "its story is green")
    print(f"{len(outcomes)} faults, {len(missed)} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], read()))
