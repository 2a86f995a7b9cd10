"""A story's world: a folder with the project, a home, the agent; sealed from the machine."""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import zip_longest
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
MEASURES = {k: v for k, v in os.environ.items() if k.startswith("COVERAGE_")}  # see coverage.py
NEEDS: dict[str, object] = {
    one: shutil.which(one) for one in ("bwrap", "curl", "git-lfs", "jq", "script", "ssh-keygen")
}
NEEDS["bwrap"] = NEEDS["bwrap"] and not subprocess.call("bwrap --dev-bind / / true", shell=True)
NEEDS["unshare"] = not subprocess.call("unshare -rm true", shell=True)
NEEDS["hooks"] = HOOKS and shutil.which("node")
SEALED = """HOME={W}/home TMPDIR={W}/tmp TZ=UTC LANG=C.UTF-8 FAKE_CLAUDE={W}/fake KERN_DIR={W}/kern
GIT_CONFIG_NOSYSTEM=1 KERN_TRUST=1 IS_SANDBOX=1 KERN_TEST_WAITS=0.2 PYTHONPATH={TOP} TOP={TOP}"""
# What the stand-in finds where its script has nothing else.
FOUND = r"> \*\*Research:\*\*(\r?\n *>   - (Files: a.txt:1-1|Pattern: a.txt:1|Constraint: none)){3}"
# What no two runs have alike.
VARIES = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b"
    r"|\b\d+(?:\.\d+)?(?= (?:s|ms|min)\b)|(?<=kern-)run-\w+|(?<=\bpid )\d+"
)
# What kern keeps of its own in a home, and what `furnish` lays there.
OWN = (
    r"home/\.(gitconfig|(local(/state)?|config|cache)$|cache/pre-commit|(local/state|config)/kern)"
)
LOOKS = {
    "log": "[ ! $START ] || git log --reverse --format=%s $START..HEAD",
    "tree": "[ ! $START ] || git diff --name-status --no-renames $START HEAD",
    "status": "git status --porcelain --ignored -uall",
    "refs": "git for-each-ref --format='%(refname)'; head=$(<.git/HEAD);"
    '[ "$head" = "${head#ref: }" ] || echo "${head#ref: }";'
    "[ ! -e .git/worktrees ] || git worktree list --porcelain | grep ^worktree",
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
        path = [f"{top}/fake/bin", os.environ["PATH"]]
        path += [f"{HOOKS}/{name}" for name in ("bin", "node_modules/.bin") if HOOKS]
        env = dict(one.format(W=top, TOP=TOP).split("=", 1) for one in SEALED.split())
        env |= {"PATH": ":".join(path), "W": top, "HOOKS": HOOKS, "KERN_SANDBOX": mode}
        own = {k: v.replace("$W", top) for k, v in self.row.get("env", {}).items()}
        return env | MEASURES | own

    def shell(self, lines: str, *, must: bool = True) -> str:
        """What it prints."""
        argv, root = ["bash", "-ec" if must else "-c", lines], self.top / "project"
        done = subprocess.run(argv, cwd=root, env=self.env, capture_output=True, text=True)
        assert not must or not done.returncode, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout + ("" if must else done.stderr)

    def furnish(self, fresh: Path) -> Row:
        """What is there before the first kern."""
        shutil.copytree(fresh, self.top, symlinks=True)
        row = self.row
        files = {"SPEC.md": row.get("spec", "- [ ] add a greeting\n"), **row.get("files", {})}
        self.write(files | {"../fake/script.json": json.dumps(row.get("agent", {}))})
        if row.get("mode", MODE) != "off":
            places = [str(self.top / "fake"), HOOKS, MEASURES.get("COVERAGE_FOLDER", "")]
            names = ["FAKE_CLAUDE", "W", "HOOKS", *MEASURES]
            own = f"[sandbox]\nwrite = {[*filter(None, places)]}\nenv = {names}\n"
            self.write({"../home/.config/kern/config.toml": own})
        head = "git rev-parse -q --verify HEAD || true"
        commit = f"{row.get('setup', '')}\ngit add -A; git commit -qm tasks --allow-empty"
        start = self.shell(f"{{ {commit}\n}} >&2; {head}")
        self.write(row.get("yours", {}))
        if "person" in row:
            start = self.shell(f"{{ {row['person']}\n}} >&2; {head}")
        before = self.look()
        row["env"] = {**row.get("env", {}), "START": start.strip()}
        return before

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.top / "project" / name.removeprefix("x:")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755 if name.startswith("x:") else 0o644)

    def play(self) -> Row:
        """What is there at the end."""
        typed, *rest = (as_list(self.row.get(k, [])) for k in ("kern", "dies", "then_person"))
        ran = []
        for words, dies, lines in zip_longest(typed, *rest):
            ran.append(self.kern(words, dies or None, "SIGKILL"))
            if lines:
                self.shell(lines)
        codes, outs = [code for code, _ in ran], [out for _, out in ran]
        return {"exit": codes, "line": outs, "first": outs, **self.look()}

    def kern(self, typed: str, at: Any = None, what: str = "") -> tuple[int, str]:
        """Its exit code, and what it says; `at`: its writes are heard, see forked.py."""
        self.write({"../stdin": self.row.get("stdin", ""), "../out": ""})
        job: Row = {"argv": shlex.split(typed), "env": self.env, "at": at, "what": what}
        job |= {name: str(self.top / name) for name in ("stdin", "out", "events")}
        job |= {"err": job["out"], "cwd": str(self.top / "project" / self.row.get("cwd", "."))}
        with ThreadPoolExecutor(1) as pool:
            code = pool.submit(self.server.ask, job)
            acts = {self.top / "fake" / k: v for k, v in self.row.get("meanwhile", {}).items()}
            while acts := {k: v for k, v in acts.items() if not k.exists() and not code.done()}:
                wait([code], 0.01)
                for name in (one for one in acts if Path(f"{one}.waits").exists()):
                    with (self.top / "meanwhile").open("a") as file:
                        file.write(self.shell(acts[name], must=False))
                    name.touch()
        return int(code.result()), self.plain((self.top / "out").read_text())

    def plain(self, text: str) -> str:
        """Without what no two runs have alike."""
        text = re.sub(r"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] ", "", text)
        return re.sub(FOUND, "> **R**", VARIES.sub("…", text.replace(str(self.top), "W")))

    def look(self) -> Row:
        """All that a person can look at, in the words of git and of files. Before kern was there
        nothing has changed yet, and nothing of it lives.
        """
        asks = "; echo =====; ".join(f"{{ {look}; }} 2>/dev/null" for look in LOOKS.values())
        text = self.plain(self.shell(asks, must=False)).replace("\t", " ")
        parts = [part.strip("\n").splitlines() for part in text.split("=====\n")]
        seen: Row = dict(zip(LOOKS, parts, strict=True))
        seen["refs"] = [line for line in seen["refs"] if line not in USUAL]
        yours = [name.removeprefix("x:") for name in self.row.get("yours", {})]
        seen |= {"spec": self.text("SPEC.md"), "learnings": self.text("LEARNINGS.md")}
        seen |= {"yours": {name: self.text(name) for name in yours}, "asked": self.asked()}
        left = [one for one in map(self.plain, self.beside()) if not re.match(OWN, one)]
        played = "START" in self.env
        shell = self.row.get("then", {}).get("shell", {}) if played else ()
        seen["shell"] = {k: self.plain(self.shell(k, must=False)).strip("\n") for k in shell}
        return seen | {"left": sorted([*left, *(self.living() if played else ())])}

    def beside(self) -> Iterator[str]:
        """What lies in the home folder and in that for temporary files."""
        for folder, *names in (one for top in ("home", "tmp") for one in os.walk(self.top / top)):
            for name in itertools.chain(*names):
                yield os.path.relpath(os.path.join(folder, name), self.top)

    def text(self, name: str) -> str:
        path = self.top / "project" / name
        data = path.read_bytes() if path.is_file() else b""
        return self.plain(data.decode(errors="replace")).strip("\n")

    def asked(self) -> str:
        made = (self.top / "fake/calls.jsonl").read_text().splitlines()
        stages = [call["stage"] for call in map(json.loads, made) if not call["again"]]
        return " ".join(sorted(stages) if "-j" in str(self.row["kern"]) else stages)

    def living(self) -> list[str]:
        """What kern started here, and lives; what has just lost its kern may need a moment."""
        for _ in range(100):
            if not (alive := [*self._alive()]):
                break
            time.sleep(0.02)
        return alive

    def _alive(self) -> Iterator[str]:
        """A zombie has no environment."""
        own = b"FAKE_CLAUDE=%s/fake\0" % os.fsencode(self.top)
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if own in Path("/proc", pid, "environ").read_bytes():
                    words = Path("/proc", pid, "cmdline").read_text().split("\0")
                    yield f"alive: {self.plain(' '.join(words).rstrip())}"
