"""One repository with a person's own work in it, sealed from the machine: made, copied, seen."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kern.fleet.work import branch
from kern.model import Key
from tests.conftest import HERE, SANDBOX, STRIPPED, open_to_tests
from tests.kit import frameworks
from tests.matrix.stories import Step, Story

PERSONS = {
    "own.txt": "mine, not committed\n",
    "junk.txt": "untracked\n",
    "staged.txt": "staged\n",
}
IGNORED = "KEY=mine\n"  # in .env
STAGES = ("research", "implement", "commit")
# What a killed kern saw of a gate before the task excuses nothing later, and the note says that.
UNSEEN = ("how it was before the task is not known to this run", "was green before the task")
# What a framework's hook does: nothing, or it sends kern a signal and stays. In a sandbox it has
# kern do that, see crashing_kern.py.
TASK = """\
#!/bin/sh
[ -e "$FAKE_CLAUDE/signal" ] || exit 0
number=$(cat "$FAKE_CLAUDE/signal")
rm "$FAKE_CLAUDE/signal"
kill "-$number" "$(head -n 1 .git/kern.holder)" 2>/dev/null || {
    echo "$number" > "$FAKE_CLAUDE/kill.new"
    mv "$FAKE_CLAUDE/kill.new" "$FAKE_CLAUDE/kill"
}
sleep 300
"""
CONFIG = """\
[user]
name = t
email = t@example.com
[init]
defaultBranch = main
[core]
fsync = none
"""


class Place:
    """The folder: the project, kern's output folder, its temporary files, the agent's script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "project"
        self.out = folder / "kern" / "project" / "main"
        self.fake = folder / "fake"
        self.temporary = folder / "tmp"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(STRIPPED)}
        bin_ = folder.parent / "bin"
        self.env = {
            **kept,
            "PATH": os.pathsep.join((str(bin_), os.environ["PATH"], frameworks.PATH)),
            "HOME": str(folder.parent / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "KERN_DIR": str(folder / "kern"),
            "TMPDIR": str(self.temporary),
            "FAKE_CLAUDE": str(self.fake),
            "KERN_TRUST": "1",
            "KERN_SANDBOX": SANDBOX,
            "IS_SANDBOX": "1",  # tests may run as root in a container
        }

    def git(self, *argv: str) -> str:
        done = subprocess.run(
            ["git", *argv], cwd=self.root, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.rstrip("\n")

    # ---------------------------------------------------------------- made

    def furnish(self, story: Story) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._seal()
        self.root.mkdir(parents=True)
        self.fake.mkdir()
        self.temporary.mkdir()
        (self.fake / "calls.jsonl").touch()
        (self.root / "SPEC.md").write_text(story.spec)
        (self.root / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
        (self.root / "own.txt").write_text("mine\n")
        if SANDBOX == "off":  # in place the tree must be clean
            self._write_persons()
        if story.settings:
            (self.root / "kern.toml").write_text(story.settings)
        if story.learnings:
            (self.root / "LEARNINGS.md").write_text(story.learnings)
        task = self.fake / "task"
        for file, text in frameworks.files(story.framework, task).items():
            (self.root / file).parent.mkdir(exist_ok=True)
            (self.root / file).write_text(text)
        self.git("init", "--quiet", "--template=")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=start")
        for task_done in story.finished:
            self._finish(task_done)
        if SANDBOX != "off":
            (self.root / "a.txt").write_text("one (mine)\ntwo\nthree\nfour\nfive\nsix\nseven\n")
            self._write_persons()
            self.git("add", "staged.txt")
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        (self.root / ".git" / "info" / "exclude").write_text(".env\n")
        (self.root / ".env").write_text(IGNORED)
        if story.hook:
            hook = self.root / ".git" / "hooks" / "pre-commit"
            hook.parent.mkdir()
            hook.write_text(story.hook)
            hook.chmod(0o755)
        if story.framework:
            task.write_text(TASK)
            task.chmod(0o755)
            frameworks.install(story.framework, self.root, task, self.env)
        self.script(story.agent)

    def _write_persons(self) -> None:
        for name, text in PERSONS.items():
            (self.root / name).write_text(text)

    def _finish(self, task: str) -> None:
        """A work branch of which nothing but its newest commit is left."""
        there, here = self.folder / "worker", ("-C", str(self.folder / "worker"))
        self.git("worktree", "add", "--quiet", "--detach", str(there))
        spec = (there / "SPEC.md").read_text()
        (there / "SPEC.md").write_text(spec.replace(f"[ ] {task}", f"[x] {task}"))
        (there / "made.txt").write_text(f"{task}\n")
        (there / "LEARNINGS.md").write_text(f"## 2026-01-01 - {task}\n\nIt can be done.\n")
        self.git(*here, "add", "--all")
        self.git(*here, "commit", "--quiet", "-m", f"Do it\n\nKern-Task: {task}")
        self.git(*here, "branch", branch("main", Key("", task)))
        self.git("worktree", "remove", "--force", str(there))

    def _seal(self) -> None:
        """A home without a person's settings, and the scripted agent on PATH."""
        home, program = Path(self.env["HOME"]), self.folder.parent / "bin" / "claude"
        if program.exists():
            return
        for folder in (home, program.parent):
            folder.mkdir(parents=True, exist_ok=True)
        (home / ".gitconfig").write_text(CONFIG)
        if SANDBOX != "off":
            open_to_tests(home, self.folder, *frameworks.PLACES)
        body = (HERE / "kit/fake_claude.py").read_text().partition("\n")[2]
        program.write_text(f"#!{sys.executable} -IS\n{body}")
        program.chmod(0o755)

    def script(self, agent: dict[str, list[Step]]) -> None:
        (self.fake / "script.json").write_text(json.dumps(agent))

    def signal_in_hook(self, number: int) -> None:
        """The next time that the framework's hook runs."""
        (self.fake / "signal").write_text(str(number))

    # ---------------------------------------------------------------- the agent's calls

    @property
    def calls(self) -> list[str]:
        lines = (self.fake / "calls.jsonl").read_text().splitlines()
        return [json.loads(line)["stage"] for line in lines]

    def forget_unsaved(self) -> str:
        """Have the agent take its last call for never made if its answer was not saved: it will be
        asked again and must say the same. The stage's name, if so.
        """
        calls = self.calls
        spoken = self.out / f"transcript{STAGES.index(calls[-1]) + 1}.json" if calls else self.out
        if not spoken.is_file():
            return ""
        # The first thing that kern writes of an answer is its file, wherever that went since.
        saved = [*self.out.glob("*.json"), *self.out.glob("history/*/*.json")]
        when = [
            path.stat().st_mtime_ns
            for path in saved
            if path.name.startswith(("stage", "attempt")) and "transcript" not in path.name
        ]
        if max(when, default=0) >= spoken.stat().st_mtime_ns:
            return ""
        path = self.fake / "calls.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        return calls[-1]

    # ---------------------------------------------------------------- looked at

    def read(self, name: str) -> str:
        """A file of the project; empty where there is none."""
        path = self.root / name
        return path.read_text() if path.exists() else ""

    @property
    def spec(self) -> str:
        return self.read("SPEC.md")

    def locks(self) -> list[Path]:
        holder = self.root / ".git" / "kern.holder"
        found = [*self.folder.glob("kern/*.lock.d/pid"), *([holder] if holder.exists() else ())]
        return [path for path in found if path.stat().st_size]

    def fingerprint(self) -> str:
        """All that the next kern's way depends on: files, index, refs, reflogs, answers."""
        digest = hashlib.sha256(self.git("ls-files", "--stage", "-v").encode())
        for path, data in self._files():
            digest.update(f"\0{path}\0".encode() + data)
        return digest.hexdigest()

    def _files(self) -> Iterator[tuple[str, bytes]]:
        for top, folders, names in os.walk(self.folder):
            folders[:] = sorted(
                name
                for name in folders
                if not name.endswith(".lock.d") and name not in ("objects", "tmp")
            )
            if top.endswith(os.path.join(".git", "kern")):
                continue
            for name in sorted(names):
                path = Path(top, name)
                if name in ("index", "kern.lock", "kern.holder"):
                    continue
                if name == "calls.jsonl":
                    yield name, " ".join(self.calls).encode()
                elif name == "stage2.json":
                    data = path.read_bytes()
                    yield str(path), data + self._there(json.loads(data)["kern"])
                elif name == "list.json":  # of copies, without the times
                    yield str(path), repr(sorted(json.loads(path.read_bytes()))).encode()
                elif path.is_symlink():
                    yield str(path), os.readlink(path).encode()
                elif top != str(self.out) or not name.startswith("."):
                    yield f"{path} {path.stat().st_mode & 0o100}", path.read_bytes()

    def _there(self, kern: dict[str, Any]) -> bytes:
        """Which of the trees that stage 2 names git has; nothing else counts that no ref holds."""
        objects = self.root / ".git" / "objects"
        trees = (str(kern.get(key)) for key in ("start", "tree"))
        return str([(objects / tree[:2] / tree[2:]).exists() for tree in trees]).encode()

    def kept(self, name: str) -> bool:
        """Whether the file is in what was kept of failed or ended work."""
        refs = self.git("for-each-ref", "--format=%(refname)", "refs/kern/attempts").split()
        return any(self.git("ls-tree", "--name-only", ref, name) for ref in refs)

    def portrait(self) -> dict[str, Any]:
        """All that a run leaves and that no clock enters."""

        def told(*argv: str) -> list[str]:
            return self.git(*argv).splitlines()

        text = self.read("LEARNINGS.md")
        tree = told("ls-tree", "-r", "HEAD")
        head = self.git("rev-parse", "HEAD^{tree}")
        in_head = any("LEARNINGS.md" in line for line in tree)
        papers = ("SPEC.md", "LEARNINGS.md")
        return {
            "history": told("log", "--format=%s|%(trailers)"),
            "tree": [line for line in tree if not line.endswith(papers)],
            "learnings": re.sub(r"\d{4}-\d\d-\d\d|(?<=commit=)\w+", "DATE", text),
            "learned": self.git("show", "HEAD:LEARNINGS.md") == text.rstrip() if in_head else "",
            "spec": _dateless(self.spec),
            "ticked": _dateless(self.git("show", "HEAD:SPEC.md")),
            "status": told("status", "--porcelain"),
            "unstaged": [_dateless(line) for line in told("diff") if not line.startswith("index ")],
            "staged": told("diff", "--cached"),
            "persons": [self.read(name) for name in PERSONS],
            "ignored": self.read(".env"),
            "refs": [
                line.replace(head, "what HEAD has")
                for line in told("for-each-ref", "--format=%(refname) %(tree)")
            ],
            "left": sorted(p.name for p in self.out.iterdir() if p.name != "last"),
            "swept": sorted(
                f"{number} {path.name}"
                for number, walk in enumerate(sorted(self.out.glob("history/*")))
                for path in walk.iterdir()
            ),
            "locks": [path.name for path in self.folder.glob("kern/*.lock.d")],
            "temporary": sorted(os.listdir(self.temporary)),
        }


def _dateless(spec: str) -> str:
    """Without what each telling has otherwise."""
    return re.sub(r"collides with \w{7}", "collides with a commit", spec.replace(*UNSEEN))


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
