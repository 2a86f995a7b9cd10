"""kern against the bare agent processes that a person's own script would run, on a scripted API."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kern.agents.protocol import DEFAULT
from kern.model import Stage
from tests.agents.conformance import CLIS, Cli
from tests.bench.measuring import Row, environment, interleaved, ratio, row, sample
from tests.kit.scripted_server import ScriptedServer, Turn

TASKS = ("add a greeting", "add a farewell", "add a question")
PLAIN = ("-p", "--output-format", "json")
CLAUDE = CLIS[DEFAULT]
MOST, MOST_OF_DEFAULT = 1.07, 1.05  # times as long as the bare processes
SAID = {"flags": "kern's flags", "default": "claude's default flags"}

# Notes down what kern gives the agent, one folder for each call in the order of the prompts: an
# agent may be started before its own is there. What kern only asks the program is no call.
RECORDER = """#!/bin/sh
[ -n "$KERN_ROOT" ] || exec '{binary}' "$@"
cat > '{calls}'/.$$
n=$(ls '{calls}' | wc -l)
mkdir '{calls}'/$n
mv '{calls}'/.$$ '{calls}'/$n/prompt
printf '%s\\0' "$@" > '{calls}'/$n/argv
env -0 > '{calls}'/$n/env
pwd > '{calls}'/$n/root
cp -r .git/kern/scratch '{calls}'/$n/scratch
exec '{binary}' "$@" < '{calls}'/$n/prompt
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One process as kern started it."""

    stage: Stage
    argv: tuple[str, ...]
    env: Mapping[str, str]
    prompt: bytes
    root: str
    scratch: Path  # a copy of what kern laid there

    def within(self, root: Path) -> tuple[list[str], dict[str, str]]:
        def moved(text: str) -> str:
            laid = text.replace(f"{self.root}/.git/kern/scratch", str(self.scratch))
            return laid.replace(self.root, str(root))

        own = {name: moved(value) for name, value in self.env.items()}
        return [moved(word) for word in self.argv], own


def rows(folder: Path, rounds: int) -> Iterator[Row]:
    for name, cli in CLIS.items():
        if cli.binary and name != "http":  # which has no program of its own
            yield from _compared(folder / name, cli, rounds, delay=0.0)
        if cli.binary and cli is CLAUDE:
            yield from _compared(folder / "slowly", cli, rounds // 2, delay=0.5)


def _compared(folder: Path, cli: Cli, rounds: int, *, delay: float) -> Iterator[Row]:
    """With an agent's default flags claude alone: what others do then is not one kind of work."""
    folder.mkdir()
    most = {"flags": MOST} | ({"default": MOST_OF_DEFAULT} if cli is CLAUDE else {})
    asked: dict[str, list[int]] = {name: [] for name in ("kern", *most)}
    with ScriptedServer(_script(cli), delay) as server:
        bench = Bench(folder, cli, server)
        calls = bench.record()
        acts: dict[str, Callable[[], None]] = {"kern": bench.kern}
        acts |= {name: partial(bench.bare, calls, plain=name == "default") for name in most}
        interleaved(acts, 1)
        noting = {name: partial(bench.measured, asked[name], act) for name, act in acts.items()}
        taken = interleaved(noting, rounds)
    requests = {name: len(sizes) // rounds for name, sizes in asked.items()}
    answers = f"answers after {delay:g} s" if delay else "answers at once"
    for name, bound in most.items():
        note = f"{requests['kern']} against {requests[name]} requests"
        label = f"`kern 3 0` against nine bare {cli.name} processes, {SAID[name]}, API {answers}"
        yield row(label, ratio(taken, "kern", name), "x", most=bound, note=note)
    if cli is CLAUDE and not delay:
        size = sum(asked["kern"]) / rounds / len(TASKS) / 1000
        yield row("request bytes per finished task", size, "KB", most=170)


def _script(cli: Cli) -> dict[str, list[list[Turn]]]:
    """Each stage uses one tool and answers, but for the commit stage, which words the message."""
    search: Turn = {"tool": "Grep", "input": {"pattern": "line", "output_mode": "content"}}
    look: Turn = {"tool": "Read", "input": {"file_path": "a.txt"}}
    found: Turn = {"text": "- Files: a.txt:1-3\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY"}
    work: Turn = {"tool": "Bash", "input": {"command": "echo more >> a.txt"}}
    done: Turn = {"text": "Appended to a.txt.\n\n## Learned\n\na.txt grows.\n\nSUCCESS"}
    commits: list[list[Turn]] = [[{"text": f"Do it: {task}"}] for task in TASKS]
    return {
        "research": [[search if cli is CLAUDE else look, found]],
        "implement": [[work, done]],
        "commit": commits * 99,
    }


class Bench:
    def __init__(self, folder: Path, cli: Cli, server: ScriptedServer) -> None:
        self.folder = folder
        self.cli = cli
        self.binary = cli.program
        self.server = server
        self.count = 0
        home = folder / "home"
        self.env = environment(home)
        self.env |= {**cli.ready(home, server.url), cli.agent.variable: str(self.binary)}
        self.chosen = {}
        if cli is not CLAUDE:
            models = "".join(f'{role}.model = "{cli.model}"\n' for role in Stage)
            self.chosen["kern.toml"] = f'agents = ["{cli.name}"]\n[stages]\n{models}'

    def measured(self, sizes: list[int], act: Callable[[], None]) -> None:
        """The act, with the sizes of its requests noted down."""
        before = len(self.server.requests)
        act()
        sizes += [request.size for request in self.server.requests[before:] if request.stage]

    def project(self) -> Path:
        self.count += 1
        spec = "".join(f"- [ ] {task}\n" for task in TASKS)
        text = "".join(f"line {number}\n" for number in range(50))
        place = self.folder / f"project{self.count}"
        return sample(place, self.env, {"SPEC.md": spec, "a.txt": text, **self.chosen})

    def record(self) -> list[Call]:
        """What kern sends, from a run that is not measured."""
        calls = self.folder / "calls"
        calls.mkdir()
        recorder = self.folder / "recorder"
        recorder.write_text(RECORDER.format(calls=calls, binary=self.binary))
        recorder.chmod(0o755)
        self.kern({self.cli.agent.variable: str(recorder)})
        found = []
        for number, place in enumerate(sorted(calls.iterdir(), key=lambda path: int(path.name))):
            argv = (place / "argv").read_bytes().decode().split("\0")[:-1]
            pairs = (one.partition("=") for one in (place / "env").read_text().split("\0")[:-1])
            env = {name: value for name, _, value in pairs if not name.startswith("GIT_")}
            stage, root = list(Stage)[number % 3], (place / "root").read_text().strip()
            prompt = (place / "prompt").read_bytes()
            found.append(Call(stage, tuple(argv), env, prompt, root, place / "scratch"))
        if len(found) != 3 * len(TASKS):
            raise RuntimeError(f"{len(found)} agent processes instead of three for each task")
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
        words = bool(self.cli.agent.unheld)
        for call in calls:
            if call.stage is Stage.COMMIT:
                self._git(root, "add", "--all")
            argv, env = call.within(root)
            subprocess.run(
                [str(self.binary), *(PLAIN if plain else argv)],
                cwd=root,
                env=self.env if plain else env | {"GIT_CONFIG_NOSYSTEM": "1"},
                input=call.prompt,
                capture_output=True,
                check=True,
            )
            if call.stage is Stage.COMMIT and words:
                self._git(root, "commit", "--quiet", "--message=done")

    def _git(self, root: Path, *argv: str) -> None:
        subprocess.run(["git", *argv], cwd=root, env=self.env, check=True)
