"""An endpoint as an agent: its settings, and whole tasks by kern on a scripted API. What each agent
has to pass is in `test_conformance.py`, its loop in `test_http_loop.py`.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kern import models
from kern.agents import http, places
from kern.agents.protocol import Call
from kern.errors import UsageError
from kern.model import Needs, Stage
from kern.models import Endpoint
from tests.checks.test_gates import toml
from tests.conftest import Fake, Git, Kern
from tests.kit.scripted_server import ScriptedServer, bash, say, use
from tests.kit.trusting import trust_all
from tests.sandbox.test_wall import needs_bwrap

URL = "https://gw.example/v1"
AGENT = http.agent(Endpoint(URL, "big", "GW_KEY"))


def test_calls_are_shown_as_they_are_made() -> None:
    usage = {"input": 3, "output": None}  # as some endpoints count
    act = AGENT.watch({"type": "assistant", "turn": 2, "command": "make test", "usage": usage})
    assert act and (act.message, act.calls) == ("2", ("sh make test",))
    assert act.tokens == {"input": 3, "output": 0}
    assert AGENT.watch({"type": "output"}) is None


def test_a_model_is_named_and_the_key_is_not() -> None:
    for word, sent in (("low", "low"), ("max", "high")):  # the most that all endpoints know
        given = json.loads(AGENT.start(Call("py", Stage.RESEARCH, "", word)).argv[-1])
        assert given["body"] == {"model": "big", "reasoning_effort": sent}
    assert given["key"] == "GW_KEY"
    given = json.loads(AGENT.start(Call("py", Stage.RESEARCH, "own")).argv[-1])
    assert given["body"] == {"model": "own"}
    for endpoint, what in ((Endpoint(URL), "model"), (Endpoint(model="big"), "url")):
        with pytest.raises(UsageError, match=f"research: no {what} is named") as raised:
            http.agent(endpoint).start(Call("py", Stage.RESEARCH, ""))
        assert 'url = "http://localhost:11434/v1"' in raised.value.hint


def test_what_it_needs_is_its_host_and_its_key() -> None:
    found = places.needs(AGENT.places, {}, "/h", str)
    assert found == Needs(variables=("GW_KEY",), hosts=("gw.example",))


# -------------------------------------------------------------------- settings


def parsed(**table: object) -> Endpoint:
    return replace(models.endpoint(table, "kern.toml: agent.http"), theirs=True)


def test_all_of_it_can_be_set() -> None:
    for url in (f"{URL}/", f"{URL}/chat/completions", f"{URL}/chat/completions/"):
        assert parsed(url=url) == Endpoint(URL, theirs=True)
    found = parsed(url=URL, key="K_1", model="hf.co/a/b:Q4")
    assert found == Endpoint(URL, "hf.co/a/b:Q4", "K_1", theirs=True)
    assert found.asks == (f"agent http: sends what it reads to {URL}, with the key in K_1",)
    assert Endpoint(URL).asks == ()


@pytest.mark.parametrize(
    ("table", "named"),
    [
        *(({**url}, "agent.http.url must be an http or https URL") for url in ({}, {"url": 3})),
        *(({"url": url}, "agent.http.url") for url in ("", "localhost:11434", "http://a:x/v1")),
        *(({"url": url}, "agent.http.url") for url in ("http://u:p@a/v1", "http://a\u200b/v1")),
        *(({"url": URL, "key": key}, "agent.http.key") for key in ("sk-abc123", 3, "KERN_X")),
        *(({"url": URL, "model": model}, "agent.http.model") for model in (3, "-x", "a b")),
        ({"url": URL, "turns": 9}, "agent.http.turns is gone"),
        ({"url": URL, "headers": {}}, "agent.http.headers is no setting"),
    ],
)
def test_a_setting_that_is_none_is_refused(table: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError) as raised:
        parsed(**table)
    assert named in str(raised.value)
    assert raised.value.hint
    assert "sk-abc123" not in str(raised.value) + raised.value.hint


# -------------------------------------------------------------------- by kern

READY = say("- Files: a.txt:1-7\n- Pattern: a.txt:1\n- Constraint: none\n\nREADY")
WRITE = use("Write", file_path="hi.txt", content="hello 😀\n")
DONE, WORDS = say("Did it.\n\nSUCCESS"), say("Greet people 😀")
Serve = Callable[..., ScriptedServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """An endpoint, and the key to it."""
    monkeypatch.setenv("GW_KEY", "k3y-for-the-gateway")
    with contextlib.ExitStack() as stack:
        yield lambda **script: stack.enter_context(ScriptedServer(script))


def table(url: str) -> str:
    return f'[agent.http]\nurl = "{url}/http/v1"\nmodel = "small"\nkey = "GW_KEY"\n'


def whole(serve: Serve) -> ScriptedServer:
    """A task of three stages, each with a call that is not its own to make."""
    return serve(
        research=[use("Read", file_path="a.txt"), WRITE, READY],
        implement=[WRITE, bash("env; git commit --allow-empty -m x"), DONE],
        commit=[bash("env > seen; touch more.txt; git commit"), WORDS],
    )


def done(git: Git) -> None:
    assert git("log", "-1", "--format=%s") == "Greet people 😀"
    assert git("log", "-1", "--format=%B").splitlines()[-1].startswith("Kern-Task: ")
    changed = git("show", "--format=", "--name-only", "HEAD").split()
    assert changed == ["SPEC.md", "hi.txt"]
    assert git("show", "HEAD:hi.txt") == "hello 😀"
    assert git("status", "--porcelain") == ""


@needs_bwrap
@pytest.mark.slow
def test_a_task_from_research_to_commit(
    repo: Path, git: Git, kern: Kern, serve: Serve, tmp_path: Path
) -> None:
    """Also where the endpoint's host is the only one that a sandbox lets through."""
    server = whole(serve)
    own = tmp_path / "home/.config/kern/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("[sandbox]\nnetwork = []\n")
    toml(repo, git, f'agent = "http"\n{table(server.url)}')
    assert re.search(r"research: .*small", kern("-n").out)
    ran = kern("1", "0", env={"KERN_SANDBOX": "bwrap"})
    assert ran.code == 0, ran.said
    done(git)
    assert re.search(r"stage 1/3 research \(.*small", ran.said)
    assert [one.stage for one in server.requests if not one.said] == [*map(str, Stage)]
    first = server.requests[0]
    assert [one["role"] for one in first.body["messages"]] == ["system", "user"]
    assert first.body["model"] == "small"
    asked = json.dumps([one.body for one in server.requests])
    assert "GW_KEY" not in asked, "no command sees it"
    assert "k3y-for-the-gateway" not in asked + ran.said
    assert "billing: http: GW_KEY" in ran.said


def test_without_a_sandbox_it_only_implements(
    repo: Path, git: Git, kern: Kern, fake: Fake, serve: Serve
) -> None:
    server = whole(serve)
    toml(repo, git, f'agent = "http"\n{table(server.url)}')
    ran = kern("1", "0", env={"KERN_SANDBOX": "off"})
    assert ran.code == 2 and server.requests == []
    assert "http cannot be held to what research may do: it has a shell" in ran.err
    toml(repo, git, f'stages.implement.agent = "http"\n{table(server.url)}')
    fake.script(commit=[{"result": "Greet people 😀"}])
    ran = kern("1", "0", env={"KERN_SANDBOX": "off"})
    assert ran.code == 0, ran.said
    done(git)


@needs_bwrap
def test_a_repository_s_endpoint_gets_nothing_without_a_yes(
    repo: Path, git: Git, kern: Kern, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERN_TRUST")
    server = whole(serve)
    gates = '[gates]\ncheck = "true"\n'
    toml(repo, git, gates)
    trust_all(repo)
    for _ in range(2):
        toml(repo, git, f'agent = "http"\n{table(server.url)}{gates}# {_}\n')
        ran = kern("1", "0", env={"KERN_SANDBOX": "bwrap"})
        assert ran.code == 2
        line = f"sends what it reads to {server.url}/http/v1, with the key in GW_KEY"
        assert line in ran.err and "kern --trust" in ran.err
    assert server.requests == []
    trust_all(repo)
    ran = kern("1", "0", env={"KERN_SANDBOX": "bwrap"})
    assert ran.code == 0, ran.said
    done(git)
