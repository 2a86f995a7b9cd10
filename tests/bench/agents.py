"""kern against the bare agent processes that a person's own script would run, on a scripted API."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kern.agents import claude
from kern.agents.protocol import Launch
from kern.model import Stage
from tests.bench.measuring import Row, environment, interleaved, ratio, row, sample
from tests.kit.scripted_server import ScriptedServer, Turn

TASKS = ("add a greeting", "add a farewell", "add a question")
SPEC = "".join(f"- [ ] {task}\n" for task in TASKS)
PLAIN = ("-p", "--output-format", "json")

# Notes down what kern gives the agent, one folder for each call in the order of the prompts: an
# agent may be started before its own is there.
RECORDER = """#!/bin/sh
cat > '{calls}'/.$$
n=$(ls '{calls}' | wc -l)
mkdir '{calls}'/$n
mv '{calls}'/.$$ '{calls}'/$n/prompt
printf '%s\\0' "$@" > '{calls}'/$n/argv
exec '{binary}' "$@" < '{calls}'/$n/prompt
"""


@dataclass(frozen=True, slots=True)
class Call:
    stage: Stage
    argv: tuple[str, ...]
    prompt: bytes


def rows(folder: Path, rounds: int) -> Iterator[Row]:
    binary = os.environ.get("KERN_TEST_CLAUDE")
    if not binary:
        yield Row("kern against bare claude processes", "needs KERN_TEST_CLAUDE")
        return
    yield from _compared(folder / "at-once", Path(binary).resolve(), rounds, delay=0.0)
    yield from _compared(folder / "slowly", Path(binary).resolve(), rounds // 2, delay=0.5)


def _compared(folder: Path, binary: Path, rounds: int, *, delay: float) -> Iterator[Row]:
    folder.mkdir()
    asked: dict[str, list[int]] = {}
    with ScriptedServer(_script(), delay) as server:
        bench = Bench(folder, binary, server)
        calls = bench.record()
        acts = {
            "kern": bench.measured("kern", asked, bench.kern),
            "default": bench.measured("default", asked, lambda: bench.bare(calls, plain=True)),
            "flags": bench.measured("flags", asked, lambda: bench.bare(calls, plain=False)),
        }
        interleaved(acts, 1)
        asked.clear()
        taken = interleaved(acts, rounds)
    shares = {name: len(sizes) // rounds for name, sizes in asked.items()}
    answers = f"answers after {delay:g} s" if delay else "answers at once"
    for name, what, most in (
        ("default", "claude's default flags", 1.05),
        ("flags", "kern's flags", None),
    ):
        note = f"{shares['kern']} against {shares[name]} requests, rounds {_spread(taken, name)}"
        label = f"`kern 3 0` against nine bare claude processes, {what}, API {answers}"
        yield row(label, ratio(taken, "kern", name), "x", most=most, note=note)
    for name, who, bound in (
        ("kern", "kern", 200.0),
        ("default", "bare claude, default flags", None),
    ):
        size = sum(asked[name]) / rounds / len(TASKS) / 1000
        if not delay:
            yield row(f"request bytes per finished task, {who}", size, "KB", most=bound)


def _spread(taken: Mapping[str, list[float]], name: str) -> str:
    found = sorted(a / b for a, b in zip(taken["kern"], taken[name], strict=True))
    return f"{found[0]:.2f}-{found[-1]:.2f}"


def _script() -> dict[str, list[list[Turn]]]:
    """Each stage uses one tool and answers."""
    look: Turn = {"tool": "Grep", "input": {"pattern": "line", "output_mode": "content"}}
    found: Turn = {"text": "- Files: a.txt:1-3\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
    work: Turn = {"tool": "Bash", "input": {"command": "echo more >> a.txt"}}
    done: Turn = {"text": "Appended to a.txt.\n\n## Learned\n\na.txt grows.\n\nSUCCESS"}
    return {
        "research": [[look, found]],
        "implement": [[work, done]],
        "commit": [[_commit(task), {"text": "committed"}] for task in TASKS] * 99,
    }


def _commit(task: str) -> Turn:
    command = f"git commit -q -m 'Do it: {task}' -m 'Kern-Task: {task}'"
    return {"tool": "Bash", "input": {"command": command}}


class Bench:
    def __init__(self, folder: Path, binary: Path, server: ScriptedServer) -> None:
        self.folder = folder
        self.binary = binary
        self.server = server
        self.count = 0
        self.env = environment(
            folder / "home",
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="dummy",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_MAX_RETRIES="0",
            DISABLE_AUTOUPDATER="1",
            KERN_CLAUDE=str(binary),
        )

    def measured(
        self, name: str, asked: dict[str, list[int]], act: Callable[[], None]
    ) -> Callable[[], None]:
        """The act, with the sizes of its requests noted down."""

        def run() -> None:
            before = len(self.server.requests)
            act()
            sizes = [request.size for request in self.server.requests[before:] if request.stage]
            asked.setdefault(name, []).extend(sizes)

        return run

    def project(self) -> Path:
        self.count += 1
        text = "".join(f"line {number}\n" for number in range(50))
        place = self.folder / f"project{self.count}"
        return sample(place, self.env, {"SPEC.md": SPEC, "a.txt": text})

    def record(self) -> list[Call]:
        """What kern sends, from a run that is not measured."""
        calls = self.folder / "calls"
        calls.mkdir()
        recorder = self.folder / "claude"
        recorder.write_text(RECORDER.format(calls=calls, binary=self.binary))
        recorder.chmod(0o755)
        self.kern({"KERN_CLAUDE": str(recorder)})
        found = []
        for number, place in enumerate(sorted(calls.iterdir(), key=lambda path: int(path.name))):
            argv = (place / "argv").read_bytes().decode().split("\0")[:-1]
            stage = list(Stage)[number % 3]
            found.append(Call(stage, tuple(argv), (place / "prompt").read_bytes()))
        if len(found) != 3 * len(TASKS):
            raise RuntimeError(f"{len(found)} agent processes instead of nine")
        return found

    def kern(self, more: Mapping[str, str] | None = None) -> None:
        root = self.project()
        done = subprocess.run(
            [sys.executable, "-m", "kern", str(len(TASKS)), "0"],
            cwd=root,
            env={**self.env, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode or (root / "SPEC.md").read_text().count("- [x]") != len(TASKS):
            raise RuntimeError(f"kern did not finish the tasks:\n{done.stderr[-3000:]}")

    def bare(self, calls: list[Call], *, plain: bool) -> None:
        root = self.project()
        for call in calls:
            if call.stage is Stage.COMMIT:
                subprocess.run(["git", "add", "--all"], cwd=root, env=self.env, check=True)
            lean = {} if plain else claude.environment(Launch(call.stage, ""))
            subprocess.run(
                [str(self.binary), *(PLAIN if plain else call.argv)],
                cwd=root,
                env={**self.env, **lean},
                input=call.prompt,
                capture_output=True,
                check=True,
            )
