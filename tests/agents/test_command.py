"""Any command as an agent: what is made of what it prints, and a task by a shell script."""

import io
from pathlib import Path

import pytest

from kern.agents import command, protocol
from kern.agents.protocol import Answer, Call, Ended, TryAgain
from kern.model import Aide, Stage
from tests.checks.test_gates import toml
from tests.conftest import Fake, Git, Kern

AGENT = command.agent("llm", ("llm", "-m", "{model}", "{role}:{effort}", "{}{other}"))
SOUND = Ended(0)


def read(printed: bytes, ended: Ended = SOUND) -> Answer:
    return AGENT.read(AGENT.objects(io.BytesIO(printed)), ended)


def test_the_template_is_filled_with_the_call() -> None:
    argv = AGENT.start(Call("/llm", Stage.RESEARCH, "gpt {role}", effort="high")).argv
    assert argv == ["/llm", "-m", "gpt {role}", "research:high", "{}{other}"]
    assert AGENT.start(Call("llm", Aide.JUDGE, "")).argv[1:4] == ["-m", "", "judge:"]
    assert (AGENT.program, AGENT.variable) == ("llm", "KERN_AGENT_LLM")
    assert command.agent("my-llm.2", ("x",)).variable == "KERN_AGENT_MY_LLM_2"


USAGE = b'{"usage": {"input_tokens": 7, "output_tokens": 2}, "total_cost_usd": 0.5}\n'


def test_all_that_it_prints_is_the_answer() -> None:
    said = f'# Done\n\n  {{"log": "SUCCESS"}}\n😀 {"x" * 70_000}\n\nSUCCESS'
    reply = read(said.replace("\n", "\r\n").encode())
    assert reply.text == said
    assert (reply.cost_usd, reply.tokens) == (None, {})
    assert (reply.result["result"], reply.result["total_cost_usd"]) == (reply.text, None)


def test_but_for_a_last_line_that_tells_what_it_took() -> None:
    reply = read(b"Done\n\nSUCCESS\n" + USAGE)
    assert (reply.text, reply.cost_usd) == ("Done\n\nSUCCESS", 0.5)
    assert (reply.tokens["input"], reply.tokens["output"]) == (7, 2)
    assert reply.result["usage"]["input_tokens"] == 7
    reply = read(b'Done\n{"usage": {}, "total_cost_usd": 0.5}')
    assert (reply.text, reply.cost_usd) == ("Done", 0.5)
    for printed in (b"Half\n" + USAGE, USAGE):
        with pytest.raises(TryAgain) as raised:
            read(printed, Ended(1, "boom"))
        assert raised.value.answer and raised.value.answer.cost_usd == 0.5


@pytest.mark.parametrize(
    "last", ['{"other": 1}', '{"usage": 3}', "[1]", '{"usage": {}} x', "{" * 5000]
)
def test_json_that_says_something_else_belongs_to_the_answer(last: str) -> None:
    reply = read(f"Done\n{last}\n".encode())
    assert (reply.text, reply.tokens) == (f"Done\n{last}", {})


def test_a_command_comes_before_what_kern_brings_by_that_name() -> None:
    protocol.know({"pi": AGENT}, None)
    assert protocol.find("pi") is AGENT
    protocol.know({}, None)
    assert protocol.find("pi") is not AGENT


# -------------------------------------------------------------------- by kern


def test_its_program_is_no_file_of_the_repository(
    repo: Path, git: Git, fake: Fake, kern: Kern, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "agent.sh").write_text("#!/bin/sh\ncat >/dev/null; echo hello > hi.txt; echo SUCCESS\n")
    (repo / "agent.sh").chmod(0o755)
    git("add", "agent.sh")
    git("commit", "--quiet", "--message=agent")
    toml(repo, git, '[commands]\nmine = ["./agent.sh"]\n[stages.implement]\nagent = "mine"\n')
    ran = kern("1", "0")
    assert ran.code == 2
    assert "./agent.sh is a file of this repository, which an agent could change" in ran.err
    monkeypatch.setenv("KERN_AGENT_MINE", "./agent.sh")
    assert kern("1", "0").code == 0
