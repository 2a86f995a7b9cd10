"""Every agent CLI through the same cases, each as its real program on a scripted API.

What the model says is a script; what the CLI lets it do, and what it prints, is not. A CLI runs
where KERN_TEST_NAME names its program.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kern.errors import KernError, LimitReached
from kern.model import Aide, Role, Stage
from kern.system.process import marked
from tests.agents import test_recorded
from tests.agents.conformance import CLIS, LAST, Cli, ask
from tests.conftest import Git, wait_for
from tests.kit.scripted_server import ScriptedServer, Turn, bash, say, use

pytestmark = pytest.mark.real
READERS: list[Role] = [Stage.COMMIT, *Aide]  # none has a tool that research has not
Serve = Callable[..., ScriptedServer]


@pytest.fixture(params=CLIS)
def cli(request: pytest.FixtureRequest) -> Cli:
    found = CLIS[request.param]
    if not found.binary:
        pytest.skip(f"KERN_TEST_{found.name.upper()} names no {found.name} binary")
    return found


@pytest.fixture(autouse=True)
def recorded(cli: Cli, request: pytest.FixtureRequest) -> Iterator[None]:
    """Faults that this very version is known to tell so are not asked for again."""
    case, records = request.node.name, request.config.getoption("--record")
    known = case in {head["case"] for head, _ in test_recorded.cases(test_recorded.file(cli))}
    if known and not records and request.node.get_closest_marker("fault"):
        pytest.skip(f"{test_recorded.file(cli).name} holds it")
    LAST.clear()
    yield
    if records and LAST and LAST[0].ended and test_recorded.version(cli):
        test_recorded.write(cli, case, LAST[0])


@pytest.fixture
def serve(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(research=…, implement=…)`: the API that the CLI talks to from now on."""
    with contextlib.ExitStack() as stack:

        def start(**script: Any) -> ScriptedServer:
            server = stack.enter_context(ScriptedServer(script))
            for name, value in cli.ready(tmp_path / "home", server.url).items():
                monkeypatch.setenv(name, value)
            return server

        yield start


def state(git: Git) -> tuple[str, ...]:
    """All of the repository that an agent could change."""
    listed = ("status", "--porcelain", "--untracked-files=all", "--ignored")
    return (
        *(git("rev-parse", "--symbolic-full-name", "HEAD"), git("for-each-ref"), git(*listed)),
        *(git("diff", "HEAD"), git("config", "--list", "--local"), git("ls-files", "--stage")),
    )


def left_over(repo: Path) -> list[int]:
    """What lives on; the system may need a moment for what was killed just now."""
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not marked(("KERN_ROOT", str(repo))))
    return [one.pid for one in marked(("KERN_ROOT", str(repo)))]


# -------------------------------------------------------------------- limits

BARRED = """
touch new.txt
echo x > new.txt
git add -A
git commit --allow-empty -m x
git status > new.txt
git diff --output=new.txt
git push
""".strip().splitlines()


def test_a_role_that_reads_answers_changes_nothing_and_obeys_nothing_of_the_repository(
    cli: Cli, serve: Serve, repo: Path, tmp_path: Path, git: Git
) -> None:
    """Whatever letters its prompt has; and it sees the working tree alone."""
    offered = {*cli.agent.offers(Stage.RESEARCH)}
    assert all({*cli.agent.offers(role)} <= offered for role in READERS)
    sprung, secret = tmp_path / "sprung", tmp_path / "secret.txt"
    secret.write_text("s3cret-words\n")
    cli.planted(repo, f"echo x >> {sprung}")
    (repo / "loose.txt").write_text("not staged\n")
    (repo / "way").symlink_to(secret)
    paths = (str(secret), "../secret.txt", "way", str(repo / "way"), str(repo / "a.txt"))
    calls = [
        use("Write", file_path=str(repo / "new.txt"), content="x"),
        use("Edit", file_path=str(repo / "a.txt"), old_string="two", new_string="2"),
        *map(bash, BARRED),
        *(use("Read", file_path=one) for one in paths),
    ]
    before = state(git)
    text = "kern research\n\r\n/help @a.txt !touch x\r\n" + "grün 😀 \u2028 x\t" * 10_000
    answer = "grün 😀\r\n\u2028end\r\n\r\nREADY"
    contract = "You are the research stage of kern.\n"
    server = serve(research=[*calls, say(answer)])
    talk = ask(cli, repo, Stage.RESEARCH, text, contract=contract)
    assert state(git) == before
    assert not sprung.exists()
    asked = [json.dumps(one.body, ensure_ascii=False) for one in server.requests]
    assert all("TRAPPED" not in one for one in asked)
    assert any("s3cret-words" in one for one in asked) is bool(cli.reads_outside)

    assert talk.reply, talk
    lines = talk.reply.text.splitlines()
    assert (talk.fault, lines[0], lines[-1]) == ("", "grün 😀", "READY")
    assert talk.reply.result["result"] == talk.reply.text
    assert talk.reply.result["total_cost_usd"] == talk.reply.cost_usd
    assert (talk.reply.cost_usd is not None) is cli.cost
    assert talk.reply.tokens["input"] > 100
    assert talk.reply.tokens["output"] > 0
    assert talk.reply.turns == (len(calls) + 1 if cli.turns else None)
    assert any("a.txt" in call for call in talk.acts)
    assert asked[0].count("grün 😀") >= 10_000 and "/help @a.txt !touch x" in asked[0]
    assert ("four" in asked[0]) is cli.inlines, "what the prompt names is not read for it"
    assert "four" in asked[-1], "what it read"
    assert asked[-1].count(contract.strip()) == 1


# -------------------------------------------------------------------- faults


@pytest.mark.fault
def test_a_key_that_is_refused_says_how_to_log_in(cli: Cli, serve: Serve, repo: Path) -> None:
    serve(research=[{"status": 401, "message": "Invalid API key"}])
    talk = ask(cli, repo, Stage.RESEARCH)
    assert isinstance(talk.error, KernError), talk
    assert f"{cli.name} is not logged in" in str(talk.error)
    assert talk.error.hint == cli.agent.login


@pytest.mark.fault
def test_a_model_that_is_not_there_is_named(cli: Cli, serve: Serve, repo: Path) -> None:
    serve(research=[{"status": 404, "message": "The model `small` does not exist"}])
    talk = ask(cli, repo, Stage.RESEARCH)
    assert talk.error, talk
    assert f"{cli.name} does not know the model" in str(talk.error)


@pytest.mark.fault
def test_a_limit_ends_the_call_at_once(cli: Cli, serve: Serve, repo: Path) -> None:
    serve(research=[cli.limit])
    talk = ask(cli, repo, Stage.RESEARCH)
    assert isinstance(talk.error, LimitReached), talk
    assert left_over(repo) == []


@pytest.mark.fault
def test_a_server_that_fails_is_worth_another_try(cli: Cli, serve: Serve, repo: Path) -> None:
    soon = {"retry-after-ms": "10"}  # opencode asks five times more by itself
    serve(research=[{"status": 503, "message": "Overloaded", "headers": soon}])
    talk = ask(cli, repo, Stage.RESEARCH)
    assert talk.again, talk


@pytest.mark.fault
def test_a_full_context_is_no_outage(cli: Cli, serve: Serve, repo: Path) -> None:
    serve(research=[{"status": 400, "message": cli.full}])
    talk = ask(cli, repo, Stage.RESEARCH)
    assert (talk.reply is not None) if cli.compacts else "context is full" in talk.fault, talk


@pytest.mark.fault
@pytest.mark.parametrize("turn", [{"raw": "<html>hello</html>"}, {"drop": "data: {"}])
def test_an_answer_that_is_none_is_worth_another_try(
    cli: Cli, serve: Serve, repo: Path, turn: Turn
) -> None:
    serve(research=[turn])
    talk = ask(cli, repo, Stage.RESEARCH, most=20)
    assert talk.again, talk
    assert left_over(repo) == []


# -------------------------------------------------------------------- endings


def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    cli: Cli, serve: Serve, repo: Path
) -> None:
    hangs = bash("sleep 301 & echo a > begun; sleep 302")
    serve(implement=[hangs, bash("sleep 303"), say("ok")])  # one may go on beside a command
    for most in (4, 12, 40):  # a slow CLI or machine needs longer until it hangs
        talk = ask(cli, repo, Stage.IMPLEMENT, most=most)
        assert "timed out" in talk.fault, talk
        assert left_over(repo) == []
        if (repo / "begun").exists():
            break
    assert (repo / "begun").exists()


@pytest.mark.parametrize("cli", ["claude"], indirect=True)
def test_one_that_is_killed_leaves_nothing_behind(cli: Cli, serve: Serve, repo: Path) -> None:
    serve(implement=[bash("sleep 301 & echo a > begun; sleep 302"), say("ok")])
    before = {*psutil.Process().children()}

    def kill(seconds: float, silent: float) -> None:
        if (repo / "begun").exists():
            # Its own process, and none below that.
            for one in {*psutil.Process().children()} - before:
                one.kill()

    talk = ask(cli, repo, Stage.IMPLEMENT, tick=kill)
    assert talk.again, talk
    assert left_over(repo) == []
