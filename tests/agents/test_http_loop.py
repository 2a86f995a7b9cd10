"""The loop that asks an endpoint, as kern starts it, on a server that answers as weak models and
failing endpoints do.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kern.agents import faults, http, protocol
from kern.agents.protocol import AgentError, Answer, AtLimit, Call, Ended, Failed, TryAgain
from kern.model import Stage
from kern.models import Endpoint
from tests.kit.scripted_server import ScriptedServer, Turn, bash, say

pytestmark = pytest.mark.slow
needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
CUT = '{"choices": [{"message": {"content": "Ha"}, "finish_reason": "length"}]}'
DONE = say("Did it.\n\nSUCCESS")


@dataclass
class Ran:
    reply: Answer | None
    fault: AgentError | None
    outputs: list[str]


def ask(
    url: str, root: Path, env: Mapping[str, str] = os.environ, seconds: float = 20, **about: Any
) -> Ran:
    agent = http.agent(Endpoint(url, "small", **about))
    done = subprocess.run(
        agent.start(Call(sys.executable, Stage.IMPLEMENT, "", patience=seconds)).argv,
        cwd=root,
        env={**env},
        input=b"kern implement\n\nDo it.",
        capture_output=True,
        timeout=100,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    reply, fault, said = None, None, done.stderr.decode()
    try:
        reply = agent.read(lines, Ended(done.returncode, said))
    except AgentError as exc:
        reply, fault = exc.answer, exc
    assert bool(said) == bool(done.returncode) == bool(fault)
    return Ran(reply, fault, [one["text"] for one in lines if one["type"] == "output"])


def played(root: Path, *turns: Turn, **about: Any) -> Ran:
    with ScriptedServer({"implement": turns}) as server:
        return ask(f"{server.url}/http/v1", root, **about)


def test_commands_run_until_a_message_has_none(repo: Path) -> None:
    two = say("First\n```sh\necho a\n```\nthen\n~~~bash\ncd /; false\n~~~\n")
    ran = played(repo, two, bash("echo $GW_KEY- > key"), DONE, env={**os.environ, "GW_KEY": "x"})
    assert ran.reply and ran.fault is None
    assert (ran.reply.text, ran.reply.turns) == ("Did it.\n\nSUCCESS", 3)
    assert ran.outputs == ["[exit 1]\na\n", "[exit 0]\n"]
    assert (repo / "key").read_text() == "x-\n", "here it is nobody's key"
    played(repo, bash("echo $GW_KEY- > key"), DONE, env={**os.environ, "GW_KEY": "x"}, key="GW_KEY")
    assert (repo / "key").read_text() == "-\n"


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"name": "run", "arguments": {"command": "touch x"}}\n```',
        '<tool_call>\n{"name": "bash", "arguments": {"command": "touch x"}}\n</tool_call>',
        '{"name": "bash", "arguments": {"command": "touch x"}}',
        "```\ntouch x\n```",
        "```sh\ntouch x\n",
        "<think>\n```sh\ntouch x\n```\n</think>",
        "<think>I must",
        "",
        "\n ",
    ],
)
def test_what_is_neither_commands_nor_an_answer_runs_nothing(repo: Path, text: str) -> None:
    ran = played(repo, say(text), bash("echo on"), DONE)
    assert ran.fault is None and ran.outputs[1:] == ["[exit 0]\non\n"]
    assert ran.outputs[0].startswith("Nothing was run: ") and not (repo / "x").exists()
    ran = played(repo, *[say(text)] * 30)
    assert ran.fault and "in a circle: 4 times in a row Nothing was run" in ran.fault.message
    assert type(ran.fault) is Failed


@needs_bash
@pytest.mark.parametrize("fence", ["```", "````"])
def test_a_fence_in_a_fence_is_part_of_the_commands(repo: Path, fence: str) -> None:
    page = "# Use\n```python\nx\n```\nor\n```\ny\n```\n"
    text = f"{fence}bash\ncat > page.md <<'END'\n{page}END\n{fence}\nThat is it.\n"
    played(repo, say(text), DONE)
    assert (repo / "page.md").read_text() == page


def test_a_circle_and_turns_have_an_end(repo: Path) -> None:
    ran = played(repo, *[bash("echo a >> made; nonsense")] * 30)
    assert ran.fault and "goes in a circle: 4 times in a row [exit 127]" in ran.fault.message
    assert (repo / "made").read_text() == "a\n" * 4
    ran = played(repo, *[bash(f"echo {n}") for n in range(201)])
    assert ran.fault and "did not come to an end in 200 turns" in ran.fault.message


def test_a_command_waits_for_nobody_and_not_for_ever(repo: Path) -> None:
    asks = bash("read x; echo got $x; sleep 300 & echo $!")
    long, large = bash("sleep 300; touch x"), bash(f"echo {'x' * 200_000} | wc -c")
    wide = bash("yes | head -c 1000000; echo end")
    ran = played(repo, asks, long, large, wide, DONE, seconds=1.0)
    assert ran.fault is None
    started = ran.outputs[0].split()
    assert started[:3] == ["[exit", "0]", "got"]
    assert not Path(f"/proc/{started[3]}/exe").exists(), "it lives"  # a zombie has none
    assert "ended after 1 s or 100 MB" in ran.outputs[1] and not (repo / "x").exists()
    assert ran.outputs[2] == "[exit 0]\n200001\n"
    assert len(ran.outputs[3]) < 25_000 and "[left out]" in ran.outputs[3]
    assert ran.outputs[3].endswith("end\n")


# -------------------------------------------------------------------- the endpoint


def test_with_work_to_lose_a_failure_is_tried_again_at_once(repo: Path) -> None:
    failing = {"status": 503, "message": "Overloaded", "then": DONE}
    assert played(repo, bash("echo a"), failing).fault is None


def test_a_full_context_is_cleared_of_old_outputs(repo: Path) -> None:
    full = {"status": 400, "message": "maximum context length is 100 tokens", "then": DONE}
    with ScriptedServer({"implement": [*(bash(f"echo {n}") for n in range(6)), full]}) as server:
        assert ask(f"{server.url}/http/v1", repo).fault is None
    sent = server.requests[-1].body["messages"]
    assert ["left out" in one["content"] for one in sent[3::2]] == [True] * 4 + [False] * 2


def test_an_answer_in_many_lines_with_half_a_letter_is_read(repo: Path) -> None:
    choice = {"message": {"content": "a\u2028b 😀"}, "finish_reason": "stop"}
    ran = played(repo, {"raw": json.dumps({"choices": [choice]}, indent=2)})
    assert ran.reply and ran.reply.text == "a\u2028b 😀" and ran.fault is None, ran.fault
    half = '{"choices": [{"message": {"content": "```sh\\necho \\ud83d\\n```"}}]}'
    assert played(repo, {"raw": half}, DONE).outputs == ["[exit 0]\n?\n"]


@pytest.mark.parametrize(
    ("turn", "grade", "said"),
    [
        ({"drop": '{"choices": [{"me'}, TryAgain, "no chat completion"),
        ({"raw": ""}, TryAgain, "no chat completion"),
        ({"raw": '{"message": {"content": "Ollama"}}'}, TryAgain, "no chat completion"),
        ({"raw": '{"choices": [{"message": 3}]}'}, TryAgain, "no chat completion"),
        ({"raw": "[" * 100_000}, TryAgain, "no chat completion"),
        ({"raw": '{"error": "model x not found"}'}, protocol.Unusable, "does not know the model"),
        ({"raw": '{"error": {"message": "boom"}}'}, TryAgain, "boom"),
        ({"raw": CUT}, Failed, "cut the answer: length"),
        ({"raw": "x" * 64_000_000}, TryAgain, "no chat completion"),
        ({"status": 401, "message": "no"}, protocol.Unusable, "http is not logged in"),
        (
            {"status": 404, "message": "page not found"},
            protocol.Unusable,
            "404 from http://127.0.0.1",
        ),
        ({"status": 404, "message": "model 'x' not found"}, protocol.Unusable, "know the model"),
        ({"status": 400, "message": "context length"}, Failed, "context is full"),
        ({"status": 429, "message": "try again in 2 h"}, AtLimit, "try again in 2 h"),
        ({"status": 429, "headers": {"Retry-After": "7200"}}, AtLimit, "(try again in 7200 s)"),
        ({"status": 500}, TryAgain, "scripted 500"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_answer_has_its_class(repo: Path, turn: Turn, grade: type, said: str) -> None:
    ran = played(repo, turn)
    assert ran.fault, ran.reply
    assert (type(ran.fault), said in ran.fault.message) == (grade, True), ran.fault
    if isinstance(ran.fault, AtLimit):
        assert ran.fault.after == 7200


def test_nobody_there_is_an_outage(repo: Path) -> None:
    ran = ask("http://127.0.0.1:9/v1", repo)
    assert isinstance(ran.fault, TryAgain) and ran.fault.away
    assert "http://127.0.0.1:9/v1/chat/completions: [Errno" in ran.fault.message


def test_where_it_is_sent_on_to_nothing_goes(repo: Path) -> None:
    with ScriptedServer({"implement": [say("Elsewhere")]}) as other:
        to = f"{other.url}/http/v1/chat/completions"
        ran = played(repo, {"status": 302, "headers": {"Location": to}})
    assert isinstance(ran.fault, protocol.Unusable) and other.requests == []
    assert "302 from http://127.0.0.1" in ran.fault.message and to in ran.fault.message


def test_without_bash_it_takes_sh_and_what_is_not_there_is_no_outage(repo: Path) -> None:
    (repo / "bin").mkdir()
    ran = played(repo, bash("echo a"), DONE, env={"PATH": f"{repo}/bin"})
    assert ran.fault is None and ran.outputs == ["[exit 0]\na\n"]
    missing = "FileNotFoundError: [Errno 2] No such file or directory: 'x'"
    assert not faults.passing(missing).away and faults.passing("getx ENOTFOUND x").away


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
