"""kern with the real `claude`: its tools, its limits, its way of failing, on a scripted API.

What the model says is a script; what its tools then do, and which of them are refused, is not. A
usage limit is not among the faults: with an API key claude reports it as any other 429.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kern.agents import claude
from kern.agents.protocol import Call
from kern.model import Stage
from kern.stages import prompts
from kern.stages.prompts import compose
from tests.conftest import PATIENCE_S, Git, Kern, commit_all
from tests.kit.scripted_server import ScriptedServer, bash, say, use
from tests.sandbox.test_wall import needs_bwrap

BINARY = os.environ.get("KERN_TEST_CLAUDE", "")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not BINARY, reason="KERN_TEST_CLAUDE names no claude binary"),
]

Serve = Callable[..., ScriptedServer]
MOST_BYTES_PER_TASK = 250_000  # seven requests: 162,000 with 2.1.197, newer ones send more


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: None) -> None:
    """The binary on PATH, a made-up key, no traffic but to the scripted server."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(Path(BINARY).resolve())
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy")
    for name in ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "0")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(research=…, implement=…, commit=…)`: the API that claude talks to from now on."""
    with contextlib.ExitStack() as stack:

        def start(**script: Any) -> ScriptedServer:
            server = stack.enter_context(ScriptedServer(script))
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            return server

        yield start


# -------------------------------------------------------------------- turns of the model


READY = say("- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY")
DONE = say("Did it.\n\nSUCCESS")


# -------------------------------------------------------------------- kern, all stages


def begun(server: ScriptedServer) -> list[str]:
    """The stage of each conversation, in order."""
    return [
        request.stage
        for request in server.requests
        if all(message["role"] != "assistant" for message in request.body["messages"])
    ]


def test_what_a_whole_task_sends_and_what_it_leaves(
    kern: Kern, repo: Path, git: Git, serve: Serve, tmp_path: Path
) -> None:
    (repo / "SPEC.md").write_text("- [ ] /compact change two, see @key.txt\n")
    (repo / "CLAUDE.md").write_text("House rule: no tabs. See {TASK}.\n@AGENTS.md\n")
    (repo / "AGENTS.md").write_text("Named by the other.\n")
    (repo / "key.txt").write_text("7f3a-not-to-be-inlined\n")
    commit_all(git, "a task")
    read = use("Read", file_path=str(repo / "a.txt"))
    edit = use("Edit", file_path=str(repo / "a.txt"), old_string="two", new_string="2")
    server = serve(
        research=[read, use("Grep", pattern="t[wh]"), use("Glob", pattern="**/*.txt"), READY],
        implement=[read, edit, bash("grep -c 2 a.txt"), DONE],
        commit=[say("do it")],
    )
    ran = kern("1", "0")
    assert ran.code == 0, ran.err
    assert git("show", "HEAD:a.txt").startswith("one\n2\nthree")
    last = tmp_path / "kern" / "project" / "main" / "last"
    results = [json.loads((last / f"stage{n}.json").read_text())["result"] for n in (1, 2, 3)]
    assert results == [READY["text"], DONE["text"], "do it"]

    assert sum(r.size for r in server.requests) <= MOST_BYTES_PER_TASK
    first = {r.stage: json.dumps(r.body) for r in reversed(server.requests)}
    for stage, effort in (
        (Stage.RESEARCH, "high"),
        (Stage.IMPLEMENT, "high"),
        (Stage.COMMIT, None),
    ):
        request = next(r for r in server.requests if r.stage == stage)
        named = claude.AGENT.offers(stage)
        assert set(request.tools) == {"Agent" if tool == "Task" else tool for tool in named}
        assert request.body.get("output_config", {}).get("effort") == effort
        assert first[stage].count("House rule: no tabs. See {TASK}.") == 1, stage
    assert "Named by the other." in first[Stage.IMPLEMENT]
    assert not any("7f3a" in json.dumps(request.body) for request in server.requests)
    assert not list((tmp_path / "home").rglob("*.jsonl")), "no session is left behind"


def test_what_is_told_of_a_task_inlines_no_file_and_a_folders_guidance_is_read(
    repo: Path, serve: Serve, tmp_path: Path
) -> None:
    """Whatever stands before the `@`: stage 2 is the one that follows such names."""
    files = {"src/CLAUDE.md": "guides-src", "src/x.py": "x = 1\n"}
    files |= {".claude/rules/py.md": "---\npaths: src/**\n---\nrules-src"}
    before = [*map(chr, range(32, 127)), "\n", "\t", "\u00a0", "\u2003", "\ufeff", "\u3002"]
    names = [f"key{number}.txt" for number, _ in enumerate(before)]
    files |= {name: f"7f3a-{name}" for name in names}
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    task = "".join(f"see {char}@{name}\n" for char, name in zip(before, names, strict=True))
    task += "".join(f'or {char}@"{name}"\n' for char, name in zip(before, names, strict=True))
    form = prompts.templates(repo)[Stage.IMPLEMENT]
    prompt = compose(form, {"task": task, "mode": "implement", "learnings": [task]})
    contract = tmp_path / "contract.md"
    contract.write_text(prompt.contract)
    read = use("Read", file_path=str(repo / "src/x.py"))
    server = serve(implement=[read, DONE])
    begun = claude.start(Call("claude", Stage.IMPLEMENT, "opus", contract=str(contract)))
    subprocess.run(
        begun.argv,
        cwd=repo,
        env={**os.environ, **begun.env},
        input=prompt.text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    bodies = [json.dumps(request.body) for request in server.requests]
    assert not any("7f3a" in body for body in bodies)
    assert "guides-src" in bodies[-1]
    assert "rules-src" in bodies[-1]


# -------------------------------------------------------------------- gates within stage 2


RED = "- [ ] add a greeting\n  > **Gate:** `grep hello hi.txt || { echo No such file; exit 1; }`\n"


def test_after_a_subscriptions_limit_a_red_gate_sends_the_agent_back_in_the_same_process(
    kern: Kern, repo: Path, git: Git, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is waited for, and the same stage runs again. And what going back costs, in bytes
    of requests, against a task that is right at once.
    """
    (repo / "SPEC.md").write_text(RED)
    git("commit", "--quiet", "--all", "--message=a gate")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "made-up")
    reset = int(time.time()) + 2
    told = {"status": "rejected", "reset": str(reset), "representative-claim": "five_hour"}
    error = {"type": "rate_limit_error", "message": "This would exceed your rate limit."}
    limit = {
        "status": 429,
        "body": {"type": "error", "error": error},
        "headers": {f"anthropic-ratelimit-unified-{name}": told[name] for name in told},
    }
    read = use("Read", file_path=str(repo / "a.txt"))
    work = [read, bash("echo hi > hi.txt"), bash("cat hi.txt"), DONE]
    back = [bash("echo hello > hi.txt"), DONE]
    server = serve(research=[READY], implement=[[limit], [*work, *back]], commit=[say("greet")])
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert "You've hit your session limit" in ran.out and time.time() > reset
    assert begun(server) == ["research", "implement", "implement", "commit"]
    assert "sent back by red gates: 1" in ran.out and "verified by" in ran.out
    sent = [request for request in server.requests if request.stage]
    del sent[begun(server).index("implement")]  # the one at its limit
    more = sum(request.size for request in sent if request.said >= len(work))
    whole = sum(request.size for request in sent)
    assert whole / (whole - more) <= 1.45, (whole, more)  # 1.37 with 2.1.197


# -------------------------------------------------------------------- in a sandbox


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person has it who names the hosts that may be reached."""
    own = tmp_path / "home/.config/kern/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[sandbox]\nnetwork = ["example.org"]\nwrite = ["~/open"]\n')
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    (tmp_path / "home/open").mkdir()


@needs_bwrap
def test_in_a_sandbox_a_task_reaches_the_api_alone_and_compacted_it_knows_how_to_end(
    kern: Kern, repo: Path, git: Git, serve: Serve, held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever's prompt was compacted still knows its task, too."""
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000")
    fetch = "import urllib.request as u; u.urlopen('http://elsewhere.invalid/', timeout=9)"
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n  > **Gate:** `grep -q hello hi.txt`\n")
    git("commit", "--quiet", "--all", "--message=a gate")
    work = [
        bash(f'python3 -c "{fetch}" || echo hello > hi.txt'),
        bash("git commit -qam mine; git push; echo x >> ~/.bashrc; git status --short"),
        *(bash(f"head -{number} a.txt") for number in range(1, 4)),
    ]
    full = {**bash("cat hi.txt"), "tokens": 95_000}
    read = use("Read", file_path=str(repo / "a.txt"))
    server = serve(research=[read, READY], implement=[[*work, full], [DONE]], commit=[say("greet")])
    ran = kern("1", "0")
    assert ran.code == 0, ran.said
    assert ran.err.count("the sandbox let nothing reach elsewhere.invalid:80") == 1
    assert "verified by `grep -q hello hi.txt`" in ran.out
    assert git("show", "--format=%s", "--name-only", "HEAD").split() == [
        *("greet", "SPEC.md", "hi.txt")
    ]
    assert "broke its limits" not in ran.err and "took" in ran.out
    assert not (Path.home() / ".bashrc").exists()
    last = [request.body for request in server.requests if request.stage == "implement"][-1]
    assert "kern stage 2 of 3" not in json.dumps(last["messages"]), "it was compacted"
    for told in ("<task>\nadd a greeting\n", "The last line is exactly", "Do not commit"):
        assert any(told in block["text"] for block in last["system"]), told
