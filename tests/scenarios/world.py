"""A story's world: a folder with the project, a home, the agent; sealed from the machine."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.stable import Server

Row = dict[str, Any]
TOP = Path(__file__).resolve().parent.parent.parent
ENDS = ("exit", "first", "line", "asked", "log", "tree", "status", "refs", "spec", "learnings")
ENDS += ("yours", "left", "shell")  # type: ignore[assignment]
MODE = os.environ.get("KERN_TEST_SANDBOX", "off")
HELD = ", in the sandbox"  # ends the name of a story that is told in both
HOOKS = os.environ.get("KERN_TEST_HOOKS", "")
NEEDS: dict[str, Callable[[], object]] = {
    "hooks": lambda: HOOKS,
    "bwrap": lambda: not subprocess.call(["bwrap", "--dev-bind", "/", "/", "true"], stderr=-3),
    "git-lfs": lambda: shutil.which("git-lfs"),
    "ssh-keygen": lambda: shutil.which("ssh-keygen"),
}
CONFIG = "[user]\nname=t\nemail=t@example.com\n[init]\ndefaultBranch=main\n[core]\nfsync=none\n"
RESEARCHED = re.compile(  # what the stand-in finds where its script has nothing else
    r"(?m)> \*\*Research:\*\*(?=(\r?)$)"
    r"(?:\r?\n *>   - (?:Files: a.txt:1-1|Pattern: a.txt:1|Constraint: none)(?=\r?$)){3}"
)
# What no two runs have alike.
VARIES = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b"
    r"|\b\d+(?:\.\d+)?(?= (?:s|ms|min)\b)|(?<=kern-)run-\w+|(?<=\bpid )\d+"
)
# What kern keeps of its own in a home, and what `furnish` lays there.
OWN = re.compile(
    r"home/\.(?:gitconfig|(?:local|local/state|config|cache)$|cache/pre-commit|(?:local/state|config)/kern)"
)
LOOKS = {
    "log": "git log --reverse --format=%s $START..HEAD",
    "tree": "git diff --name-status --no-renames $START HEAD",
    "status": "git status --porcelain --ignored -uall",
    "refs": "git for-each-ref --format='%(refname)'; git symbolic-ref HEAD; git worktree list",
}
USUAL = ("refs/heads/main", "worktree W/project")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass
class World:
    top: Path
    row: Row
    server: Server

    @property
    def env(self) -> dict[str, str]:
        top, mode = str(self.top), self.row.get("mode", MODE)
        path = [f"{top}/fake/bin", os.environ["PATH"], *([f"{HOOKS}/bin"] if HOOKS else [])]
        path += [f"{HOOKS}/node_modules/.bin"] if HOOKS else []
        env = {"HOME": f"{top}/home", "TMPDIR": f"{top}/tmp", "TZ": "UTC", "LANG": "C.UTF-8"}
        env |= {"FAKE_CLAUDE": f"{top}/fake", "KERN_DIR": f"{top}/kern", "W": top, "HOOKS": HOOKS}
        env |= {
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(TOP),
            "TOP": str(TOP),
            "KERN_SANDBOX": mode,
        }
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "KERN_TRUST": "1", "IS_SANDBOX": "1"}
        env |= {"KERN_TEST_WAITS": "0.2"}
        env |= {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE_")}
        return env | {k: v.replace("$W", top) for k, v in self.row.get("env", {}).items()}

    def shell(self, lines: str, *, must: bool = True) -> str:
        """What it prints."""
        argv, root = ["bash", "-ec" if must else "-c", lines], self.top / "project"
        done = subprocess.run(argv, cwd=root, env=self.env, capture_output=True, text=True)
        assert not must or not done.returncode, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout + ("" if must else done.stderr)

    def furnish(self, fresh: Path) -> Row:
        """What is there before the first kern."""
        shutil.copytree(fresh, self.top, symlinks=True)
        row, fake = self.row, self.top / "fake"
        self.write({"SPEC.md": row.get("spec", "- [ ] add a greeting\n"), **row.get("files", {})})
        (fake / "script.json").write_text(json.dumps(row.get("agent", {})))
        if row.get("mode", MODE) != "off":
            own, places = (
                self.top / "home/.config/kern/config.toml",
                [str(fake)] + [HOOKS] * bool(HOOKS),
            )
            own.parent.mkdir(parents=True)
            own.write_text(f'[sandbox]\nwrite = {places}\nenv = ["FAKE_CLAUDE", "W", "HOOKS"]\n')
        self.shell(f"{row.get('setup', '')}\ngit add -A; git commit -qm tasks --allow-empty")
        self.write(row.get("yours", {}))
        look = "git rev-parse -q --verify HEAD || true"
        start = self.shell(f"{{ {row.get('person', 'true')}\n}} >&2; {look}").strip()
        row["env"] = {**row.get("env", {}), "START": start}
        return self.look()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.top / "project" / name.removeprefix("x:")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755 if name.startswith("x:") else 0o644)

    def play(self) -> Row:
        """What is there at the end."""
        typed, between = self.row["kern"], as_list(self.row.get("then_person", []))
        ran = []
        dies = as_list(self.row.get("dies", []))
        for number, words in enumerate(as_list(typed)):
            last = dies[number] if number < len(dies) else ""
            ran.append(self.kern(words, str(self.top / "events") if last else "", last, "SIGKILL"))
            if number < len(between):
                self.shell(between[number])
        codes, outs = [code for code, _ in ran], [out for _, out in ran]
        return {"exit": codes, "line": outs, "first": outs, **self.look()}

    def kern(
        self, typed: str, events: str = "", at: int | str = 0, what: str = ""
    ) -> tuple[int, str]:
        """Its exit code, and what it says; with something that happens, see forked.py."""
        (self.top / "stdin").write_text(self.row.get("stdin", ""))
        (self.top / "out").write_text("")
        cwd = self.top / "project" / self.row.get("cwd", ".")
        job: Row = {"argv": shlex.split(typed), "cwd": str(cwd), "env": self.env, "at": at}
        job |= {name: str(self.top / name) for name in ("stdin", "out")}
        job |= {"err": job["out"], "events": events, "what": what}
        ended = threading.Event()
        beside = threading.Thread(target=self.do_meanwhile, args=(ended,))
        beside.start()
        try:
            code = int(self.server.ask(job))
        finally:
            ended.set()
            beside.join()
        return code, self.plain((self.top / "out").read_text())

    def do_meanwhile(self, ended: threading.Event) -> None:
        open_ = dict(self.row.get("meanwhile", {}))
        open_ = {k: v for k, v in open_.items() if not (self.top / "fake" / k).exists()}
        while open_ and not ended.wait(0.01):
            for name in [one for one in open_ if (self.top / f"fake/{one}.waits").exists()]:
                with (self.top / "meanwhile").open("a") as file:
                    file.write(self.shell(open_.pop(name), must=False))
                (self.top / "fake" / name).touch()

    def plain(self, text: str) -> str:
        """Without what no two runs have alike."""
        text = re.sub(r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] ", "", text)
        return RESEARCHED.sub("> **R**", VARIES.sub("…", text.replace(str(self.top), "W")))

    def look(self) -> Row:
        """All that a person can look at, in the words of git and of files."""
        asks = "; echo =====; ".join(f"{{ {look}; }} 2>/dev/null" for look in LOOKS.values())
        parts = [part.strip("\n") for part in self.shell(asks, must=False).split("=====\n")]
        seen: Row = {k: self.plain(v).splitlines() for k, v in zip(LOOKS, parts, strict=True)}
        seen["tree"] = [line.replace("\t", " ") for line in seen["tree"]]
        refs = [re.sub(r"^(W/\S*) .*", r"worktree \1", line) for line in seen["refs"]]
        seen["refs"] = [line for line in refs if line not in USUAL]
        yours = [name.removeprefix("x:") for name in self.row.get("yours", {})]
        seen |= {"spec": self.text("SPEC.md"), "learnings": self.text("LEARNINGS.md")}
        seen |= {"yours": {name: self.text(name) for name in yours}, "asked": self.asked()}
        places = (path for name in ("tmp", "home") for path in (self.top / name).rglob("*"))
        left = [one for path in places if not OWN.match(one := str(path.relative_to(self.top)))]
        shell = self.row.get("then", {}).get("shell", {})
        seen["shell"] = {k: self.plain(self.shell(k, must=False)).strip("\n") for k in shell}
        return seen | {"left": sorted([*left, *self.living()])}

    def text(self, name: str) -> str:
        path = self.top / "project" / name
        return (
            self.plain(path.read_bytes().decode(errors="replace")).strip("\n")
            if path.is_file()
            else ""
        )

    def asked(self) -> str:
        made = (self.top / "fake/calls.jsonl").read_text().splitlines()
        stages = [call["stage"] for call in map(json.loads, made) if not call["again"]]
        return " ".join(sorted(stages) if "-j" in str(self.row["kern"]) else stages)

    def living(self) -> Iterator[str]:
        """What kern started here, and lives; a zombie has no environment."""
        mark = f"FAKE_CLAUDE={self.top / 'fake'}\0".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (place / "environ").read_bytes():
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    yield f"alive: {self.plain(words.strip())}"


def make_fresh(top: Path) -> Path:
    """One committed repository and one agent; every story begins with a copy."""
    body = (TOP / "tests/scenarios/agent.py").read_text()
    files = {"home/.gitconfig": CONFIG, "fake/calls.jsonl": ""}
    files |= {"fake/auth.json": '{"loggedIn": true, "authMethod": "claude.ai"}'}
    files |= {"fake/bin/claude": f"#!{sys.executable} -IS\n{body}"}
    files |= {"fake/bin/kern": f'#!/bin/sh\nexec {sys.executable} -m kern "$@"\n'}
    files |= {"project/a.txt": "one\ntwo\n", "project/own.txt": "mine\n"}
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
        (top / name).chmod(0o755 if "/bin/" in name else 0o644)
    env = {"PATH": os.environ["PATH"], "HOME": str(top / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in ("init -q --template=", "add -A", "commit -qm start"):
        subprocess.run(["git", *words.split()], cwd=top / "project", env=env, check=True)
    for name in ("tmp", "project/.git/hooks", "project/.git/info"):
        (top / name).mkdir()
    return top
