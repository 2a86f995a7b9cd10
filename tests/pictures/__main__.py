"""The pictures of the README, made anew:  python -m tests.pictures

A real run on the sample of `kern demo`, with its agent, in a terminal of tmux; what that shows is
drawn as SVG. Nothing but tmux is needed.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kern.cli import demo

TOP = Path(__file__).resolve().parent.parent.parent
FOLDER = TOP / "kern" / "help"
COLUMNS, ROWS = 108, 28
PATIENCE_S = 120.0


class Terminal:
    """Of tmux, in a server of its own."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.call = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        shell = "exec env PS1='$ ' sh"
        self.tmux("new-session", "-d", *size, shell, env=env, cwd=folder / "sample")

    def tmux(self, *argv: str, env: dict[str, str] | None = None, cwd: Path = TOP) -> str:
        done = subprocess.run(
            [*self.call, *argv], env=env, cwd=cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def shown(self, wanted: Callable[[str], object]) -> str:
        """The screen with its colours, as soon as it is as wanted."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if wanted(self.tmux("capture-pane", "-p")):
                return self.tmux("capture-pane", "-p", "-e")
            time.sleep(0.1)
        sys.exit(f"this never came:\n{self.tmux('capture-pane', '-p')}")


def draw(screen: str, title: str, name: str, folder: Path) -> None:
    """Without the machine's own paths."""
    private = re.escape(str(folder))
    told = re.sub(rf"{private}/kern(?:/\S*)?", "/tmp/claude/kern/sample/main", screen)
    told = re.sub(rf"{private}/sample", "~/sample", told)
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text.from_ansi(told.rstrip()), no_wrap=True, overflow="crop", crop=True)
    drawn = console.export_svg(title=title, unique_id=name)
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.S)  # a picture loads nothing
    (FOLDER / f"{name}.svg").write_text(re.sub(r" +$", "", drawn, flags=re.M))
    print(f"{FOLDER / name}.svg")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        root = folder / "sample"
        demo.sample(root)
        subprocess.run(["git", "-C", root, "branch", "-m", "main"], check=True)
        (folder / "home").mkdir()
        agent, command = folder / "claude", folder / "kern-command" / "kern"
        command.parent.mkdir()
        played = Path(__file__).with_name("agent.py")  # in a sandbox only its copy is seen
        source = played.read_text().replace("__file__", repr(str(played)))
        agent.write_text(f"#!{sys.executable}\n{source}")
        command.write_text(
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(TOP))} exec {sys.executable} -m kern "$@"\n'
        )
        for place in (agent, command):
            place.chmod(0o755)
        env = {
            **{name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ},
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "KERN_DIR": str(folder / "kern"),
            "KERN_CLAUDE": str(agent),
            "KERN_TRUST": "1",
            "TERM": "xterm-256color",
            "IS_SANDBOX": "1",
        }
        terminal = Terminal(folder, env)
        try:
            terminal.type("clear; kern 2 0 --max-cost 5")
            live = terminal.shown(lambda said: "Bash" in said and "words.sh FILE" in said)
            draw(live, "kern 2 0 --max-cost 5", "live", folder)
            terminal.shown(lambda said: said.rstrip().endswith("\n$"))
            terminal.type("clear; kern report")
            told = terminal.shown(lambda said: said.rstrip().endswith("\n$"))
            draw(told.rstrip().removesuffix("$"), "kern report", "report", folder)
        finally:
            terminal.tmux("kill-server")


if __name__ == "__main__":
    main()
