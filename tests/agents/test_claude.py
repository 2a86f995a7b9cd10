"""The dialect of `claude -p`: its flags, its transcript, its faults. Values in, values out."""

import json
import time
from fnmatch import fnmatchcase
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from kern.agents import claude
from kern.agents.protocol import DEFAULT, Agent, Ended, Fault, Grade, Launch, Reply, find, version
from kern.model import Aide, Output, Stage
from tests.conftest import Fake, Kern
from tests.sandbox.test_wall import needs_bwrap

STAGES = list(Stage)
RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "x",
    "num_turns": 2,
}
FAILURE: dict[str, Any] = {**RESULT, "is_error": True, "num_turns": 1}


def test_it_is_an_agent_as_kern_asks_for_one() -> None:
    agent: Agent = claude  # the type checker holds it
    assert find(DEFAULT) is agent


def options(stage: Stage, guidance: str = "") -> dict[str, list[str]]:
    """The flags with their values, as a command line is read."""
    found: dict[str, list[str]] = {}
    for word in claude.argv(Launch(stage, "opus", contract=guidance)):
        if word.startswith("-"):
            assert word not in found, "a flag that stands twice"
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


def reply(*values: dict[str, Any], stage: Stage = Stage.IMPLEMENT) -> Reply:
    found = claude.read(values, stage)
    assert found is not None
    return found


def fault(*values: dict[str, Any], code: int = 1) -> Fault:
    found = claude.fault(reply(*values), Ended(code))
    assert found is not None
    return found


# -------------------------------------------------------------------- flags


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_a_fresh_process_that_prints_its_transcript_as_json(stage: Stage) -> None:
    found = options(stage)
    assert next(iter(found)) == "-p"
    assert found["-p"] == []  # the prompt comes by stdin
    assert found["--output-format"] == ["stream-json"]
    assert found["--model"] == ["opus"]
    assert {"--verbose", "--no-session-persistence"} <= found.keys()
    assert not found.keys() & {"--dangerously-skip-permissions", "--resume", "--continue", "--bare"}


def test_research_can_only_read() -> None:
    found = options(Stage.RESEARCH)
    assert found["--tools"] == ["Read,Glob,Grep,Task,WebSearch,WebFetch"]
    assert found["--permission-mode"] == ["dontAsk"]
    assert found["--allowedTools"] == ["WebSearch", "WebFetch"]  # `Read` would open the whole disk


def test_implement_can_do_all_but_what_kern_does() -> None:
    found = options(Stage.IMPLEMENT)
    assert {"Bash", "Read", "Edit", "Write", "Glob", "Grep"} <= set(found["--tools"][0].split(","))
    assert found["--permission-mode"] == ["bypassPermissions"]
    denied = found["--disallowedTools"]
    assert {"Edit(/SPEC.md)", "Edit(/LEARNINGS.md)"} <= set(denied)
    for command in ("git commit", "git push"):
        assert any(rule.startswith(f"Bash({command}") for rule in denied)
    assert not found.keys() & {"--allowedTools", "--setting-sources", "--strict-mcp-config"}


def test_commit_can_only_read() -> None:
    found = options(Stage.COMMIT)
    assert found["--tools"] == ["Glob,Grep,Read"]
    assert found["--permission-mode"] == ["dontAsk"]
    assert not found.keys() & {"--allowedTools", "--disallowedTools"}


@pytest.mark.parametrize("stage", [Stage.RESEARCH, Stage.COMMIT])
def test_a_repositorys_own_settings_are_off_where_limits_are_promised(stage: Stage) -> None:
    found = options(stage)
    assert found["--setting-sources"] == ["user"]
    assert "--strict-mcp-config" in found


def denies(command: str) -> bool:
    denied = options(Stage.IMPLEMENT)["--disallowedTools"]
    rules = [rule[5:-1] for rule in denied if rule.startswith("Bash(")]
    return any(fnmatchcase(command, rule) for rule in rules)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m x",
        "git -c user.name=x commit -m x",
        "git -C . commit -am x",
        "/usr/bin/git commit -m x",
        "git push origin main",
        "git -C . push",
        "/usr/bin/git push",
    ],
)
def test_direct_forms_of_commit_and_push_are_denied_to_implement(command: str) -> None:
    assert denies(command)


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_its_contract_in_one_file(stage: Stage) -> None:
    assert options(stage, "/p/c.md")["--append-system-prompt-file"] == ["/p/c.md"]
    assert "--append-system-prompt-file" not in options(stage)


@pytest.mark.parametrize("stage", STAGES)
def test_the_effort_is_pinned_where_a_prompt_names_it(stage: Stage) -> None:
    argv = claude.argv(Launch(stage, "opus", "low"))
    assert argv[argv.index("--effort") + 1] == "low"
    assert "--effort" not in claude.argv(Launch(stage, "opus"))
    # A person's own CLAUDE_CODE_EFFORT_LEVEL would beat the flag.
    assert claude.environment(Launch(stage, "opus", "low"))["CLAUDE_CODE_EFFORT_LEVEL"] == "low"
    assert "CLAUDE_CODE_EFFORT_LEVEL" not in claude.environment(Launch(stage, "opus"))


def test_only_where_another_model_may_do_it_one_stands_in_for_an_overloaded_one() -> None:
    found = {role: claude.argv(Launch(role, "haiku")) for role in (*Stage, *Aide)}
    named = {role for role, argv in found.items() if "--fallback-model" in argv}
    assert named == {Stage.COMMIT, Aide.JUDGE}
    for model, other in (("haiku", "sonnet"), ("claude-sonnet-4-6", "haiku")):
        argv = claude.argv(Launch(Aide.JUDGE, model))
        assert argv[argv.index("--fallback-model") + 1] == other


def test_a_command_of_the_agent_may_take_as_long_as_a_gate() -> None:
    found = claude.environment(Launch(Stage.IMPLEMENT, "opus", patience=1800))
    assert found["BASH_DEFAULT_TIMEOUT_MS"] == found["BASH_MAX_TIMEOUT_MS"] == "1800000"
    reading = claude.environment(Launch(Stage.RESEARCH, "opus"))
    assert not any(name.startswith("BASH") for name in reading)


@pytest.mark.parametrize("output", list(Output))
def test_the_output_is_json_at_the_end_or_as_it_happens(output: Output) -> None:
    argv = claude.argv(Launch(Stage.RESEARCH, "opus", output=output))
    assert argv[:4] == ["-p", "--output-format", str(output), "--verbose"]


@pytest.mark.parametrize("stage", STAGES)
def test_channels_between_fresh_processes_are_off(stage: Stage) -> None:
    found = claude.environment(Launch(stage, "opus"))
    for name in ("AUTO_MEMORY", "BACKGROUND_TASKS"):
        assert found[f"CLAUDE_CODE_DISABLE_{name}"] == "1"
    # With it stage 2 would not be told what the project says of a folder that it works in.
    assert ("CLAUDE_CODE_DISABLE_ATTACHMENTS" in found) == (stage is not Stage.IMPLEMENT)
    assert found["DISABLE_AUTOUPDATER"] == "1"
    assert all(isinstance(value, str) for value in found.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.1.197 (Claude Code)", (2, 1, 197)),
        ("claude version 10.20.30-beta", (10, 20, 30)),
        ("", ()),
        ("unknown", ()),
        ("2.1", ()),
    ],
)
def test_a_version_in_a_text(text: str, expected: tuple[int, ...]) -> None:
    assert version(text) == expected


# -------------------------------------------------------------------- the transcript

INIT = {"type": "system", "subtype": "init", "claude_code_version": "2.1.329", "tools": ["Read"]}


def use(name: str, use_id: str = "t1") -> dict[str, Any]:
    block = {"type": "tool_use", "id": use_id, "name": name, "input": {}}
    return {"type": "assistant", "message": {"content": [block]}}


def answered(use_id: str = "t1", *, error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": use_id, "is_error": error, "content": "x"}
    return {"type": "user", "message": {"content": [block]}}


def test_a_good_answer_in_one_value() -> None:
    last = {**RESULT, "result": "did it\n\nSUCCESS", "total_cost_usd": 0.25, "num_turns": 7}
    found = reply(INIT, use("Read"), answered(), last)
    assert found.result == last
    assert found.text == "did it\n\nSUCCESS"
    assert (found.cost_usd, found.turns, found.version) == (0.25, 7, "2.1.329")
    assert (found.denied, found.wrote, found.errors, found.resets_at) == ((), (), (), None)
    assert claude.fault(found, Ended(0)) is None


def test_without_a_result_there_is_no_reply() -> None:
    assert claude.read([], Stage.RESEARCH) is None
    assert claude.read([INIT, use("Read"), {"result": "x"}], Stage.RESEARCH) is None


def test_of_several_results_the_last_counts_and_denials_add_up() -> None:
    def ended(text: str, cost: float, *commands: str) -> dict[str, Any]:
        denials = [{"tool_name": "Bash", "tool_input": {"command": word}} for word in commands]
        return {
            **RESULT,
            "result": text,
            "total_cost_usd": cost,
            "permission_denials": denials,
        }

    found = reply(ended("a", 0.1, "git push"), ended("b", 0.3, "rm x", "git push"))
    assert (found.text, found.cost_usd) == ("b", 0.3)
    assert found.denied == ("Bash: git push", "Bash: rm x")


def test_denials_name_the_tool_and_what_it_was_to_do() -> None:
    denials = [
        {"tool_name": "Write", "tool_input": {"file_path": "/p/a", "content": "x"}},
        {"tool_name": "Task", "tool_input": {}},
        {"tool_name": "WebFetch"},
        "odd",
    ]
    found = reply({**RESULT, "permission_denials": denials})
    assert found.denied == ("Write: /p/a", "Task", "WebFetch")


@pytest.mark.parametrize("tool", ["Write", "Edit", "Bash", "NotebookEdit", "mcp__files__write"])
def test_a_tool_that_research_does_not_offer_is_a_write_if_it_ran(tool: str) -> None:
    assert reply(use(tool), answered(), RESULT, stage=Stage.RESEARCH).wrote == (tool,)
    assert reply(use(tool), RESULT, stage=Stage.RESEARCH).wrote == (tool,)
    assert reply(use(tool), answered(error=True), RESULT, stage=Stage.RESEARCH).wrote == ()
    again = (use(tool), answered(error=True), use(tool, "t2"), answered("t2"))
    assert reply(*again, RESULT, stage=Stage.RESEARCH).wrote == (tool,)


def test_reading_tools_and_subagents_write_nothing() -> None:
    for tool in ("Read", "Glob", "Grep", "Task", "Agent", "WebSearch", "WebFetch"):
        assert reply(use(tool), answered(), RESULT, stage=Stage.RESEARCH).wrote == ()
    assert reply(use("Write"), answered(), RESULT, stage=Stage.IMPLEMENT).wrote == ()


ODD: tuple[Any, ...] = (
    None,
    True,
    1,
    -1.5,
    float("inf"),
    float("nan"),
    "",
    "429",
    [],
    [1, None, "x"],
    {},
    {"a": 1},
)


@pytest.mark.parametrize(
    "name",
    [
        "result",
        "num_turns",
        "total_cost_usd",
        "is_error",
        "subtype",
        "terminal_reason",
        "api_error_status",
        "errors",
        "permission_denials",
        "stop_reason",
    ],
)
def test_odd_values_in_a_result_never_raise(name: str) -> None:
    for value, base in product(ODD, (RESULT, FAILURE)):
        found = reply({**base, name: value})
        claude.fault(found, Ended(0))
        assert isinstance(found.text, str)
        assert found.cost_usd is None or isfinite(found.cost_usd)


def test_odd_values_before_the_result_never_raise() -> None:
    for value in ODD:
        before: list[dict[str, Any]] = [
            {"type": value},
            {"type": "system", "subtype": "init", "claude_code_version": value},
            {"type": "assistant", "message": value, "error": value},
            {"type": "assistant", "message": {"content": value}},
            {"type": "assistant", "message": {"content": [value]}},
            {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": value}]}},
            {"type": "user", "message": {"content": [{"type": "tool_result", "is_error": value}]}},
            {"type": "rate_limit_event", "rate_limit_info": value},
            {
                "type": "rate_limit_event",
                "rate_limit_info": {"status": "rejected", "resetsAt": value},
            },
            {"type": "rate_limit_event", "rate_limit_info": {"status": value}},
        ]
        for stage in STAGES:
            claude.fault(reply(*before, FAILURE, stage=stage), Ended(1))


# -------------------------------------------------------------------- no result at all


@pytest.mark.parametrize(
    ("ended", "grade", "words"),
    [
        (Ended(0), Grade.TRANSIENT, "exited 0"),
        (Ended(1), Grade.TRANSIENT, "exited 1"),
        (Ended(1, "something odd\n"), Grade.TRANSIENT, "something odd"),
        (Ended(143), Grade.TRANSIENT, "143"),
        (Ended(129), Grade.TRANSIENT, "129"),
        (Ended(-9), Grade.TRANSIENT, "signal 9"),
        (Ended(-2), Grade.TRANSIENT, "signal 2"),
        (Ended(-15, "Error: terminated\n"), Grade.TRANSIENT, "signal 15"),
        (Ended(137, "Error: killed\n"), Grade.TRANSIENT, "137"),
        (Ended(143, "Error: terminated\n"), Grade.TRANSIENT, "143"),
        (Ended(1, "error: unknown option '--x'\n"), Grade.PERMANENT, "too old"),
        (Ended(1, "warn\nerror: argument 'y' is invalid\n"), Grade.PERMANENT, "argument 'y'"),
        (Ended(1, "Error: Input must be provided\n"), Grade.PERMANENT, "Input must be provided"),
        (
            Ended(1, "--dangerously-skip-permissions cannot be used with root/sudo privileges\n"),
            Grade.PERMANENT,
            "root",
        ),
        (Ended(0, "", overflow=300_000_000), Grade.FAILED, "300 MB"),
    ],
)
def test_an_agent_that_printed_no_result(ended: Ended, grade: Grade, words: str) -> None:
    found = claude.fault(None, ended)
    assert found is not None
    assert found.grade is grade
    assert words in found.message
    assert found.hint


# -------------------------------------------------------------------- faults


def failure(
    status: int | None,
    text: str,
    *,
    error: str = "",
    terminal: str = "completed",
    **more: object,
) -> list[dict[str, Any]]:
    """What an API failure leaves in the transcript; `subtype` says success all the same."""
    before = [{"type": "assistant", "error": error, "message": {"content": []}}] if error else []
    fields = {"api_error_status": status, "terminal_reason": terminal, "result": text, **more}
    return [INIT, *before, {**FAILURE, **fields}]


PERMANENT = [
    (401, "authentication_failed", "Invalid API key · Fix external API key", "log"),
    (401, "authentication_failed", "Failed to authenticate. API Error: 401 expired", "log"),
    (403, "authentication_failed", "Your account does not have access", "log"),
    (403, "authentication_failed", "Failed to authenticate. API Error: 403 x", "log"),
    (None, "authentication_failed", "Not logged in · Please run /login", "log"),
    (None, "", "Not logged in · Please run /login", "log"),
    (400, "unknown", "API Error: 400 bad request", ""),
    (422, "", "API Error: 422 unprocessable", ""),
    (400, "billing_error", "Credit balance is too low", ""),
    (404, "model_not_found", "There's an issue with the selected model (opus9)", "model"),
]
UNFIT = [
    (400, "invalid_request", "Prompt is too long · 250000 tokens", "prompt_too_long"),
    (None, "", "Prompt is too long", "blocking_limit"),
    (413, "", "Request too large (max 32MB)", "image_error"),
    (413, "", "Request too large", "api_error"),
    (None, "max_output_tokens", "API Error: Claude's response exceeded the maximum", "completed"),
]
TRANSIENT = [
    (429, "rate_limit", "API Error: Request rejected (429) · slow down"),
    (
        429,
        "rate_limit",
        "API Error: Server is temporarily limiting requests (not your usage limit)",
    ),
    (408, "", "API Error: 408 timed out"),
    (409, "", "API Error: 409 conflict"),
    (500, "server_error", "API Error: 500 Internal server error"),
    (502, "server_error", "API Error: 502"),
    (503, "server_error", "API Error: 503 Service unavailable"),
    (504, "", "API Error: 504"),
    (529, "server_error", "API Error: 529 Overloaded. This is a server-side issue"),
    (None, "server_error", "API Error: Unable to connect to API (ConnectionRefused)"),
    (None, "server_error", "API Error: Connection refused"),
    (None, "server_error", "API Error: The socket connection was closed (ECONNRESET)"),
    (None, "", "Request timed out"),
    (None, "", "something never seen before"),
]
LIMITS = ("session limit", "5-hour limit", "weekly limit", "Opus limit", "usage limit", "limit")


@pytest.mark.parametrize("terminal", ["completed", "api_error"])
@pytest.mark.parametrize("code", [0, 1])
def test_every_row_of_the_failures_measured(terminal: str, code: int) -> None:
    for status, error, text, word in PERMANENT:
        found = fault(*failure(status, text, error=error, terminal=terminal), code=code)
        assert found.grade is Grade.PERMANENT, text
        assert text in found.message, "the agent's own words"
        assert found.hint, text
        assert word in f"{found.message} {found.hint}", text
    for status, error, text in TRANSIENT:
        found = fault(*failure(status, text, error=error, terminal=terminal), code=code)
        assert found.grade is Grade.TRANSIENT, text
        assert text in found.message
    for status, error, text, ended in UNFIT:
        found = fault(*failure(status, text, error=error, terminal=ended), code=code)
        assert found.grade is Grade.FAILED, text  # this prompt will never do; others may
        assert text in found.message


@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize("status", [429, None])
def test_a_usage_limit_is_known_by_its_words(word: str, status: int | None) -> None:
    text = f"You've hit your {word} · resets 9:33am (UTC)"
    found = fault(*failure(status, text, error="rate_limit"))
    assert (found.grade, found.resets_at) == (Grade.LIMIT, None)
    assert text in found.message


@pytest.mark.parametrize("status", [429, None, 400])
def test_a_usage_limit_is_known_by_its_event_and_says_when_it_ends(status: int | None) -> None:
    info = {"status": "rejected", "resetsAt": 1795253606, "rateLimitType": "five_hour"}
    event = {"type": "rate_limit_event", "rate_limit_info": info}
    found = fault(event, *failure(status, "no more"))
    assert (found.grade, found.resets_at) == (Grade.LIMIT, 1795253606)


@pytest.mark.parametrize(
    "when", [10**15, 10**30, -(10**15), 1e300, float("inf"), float("nan"), "x"]
)
def test_a_reset_time_that_is_none_is_not_told(when: object) -> None:
    event = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": when},
    }
    found = fault(event, *failure(429, "no more"))
    assert found.grade is Grade.LIMIT
    if found.resets_at is not None:
        time.localtime(found.resets_at)


def test_a_warning_about_a_limit_is_no_fault() -> None:
    for status in ("allowed", "allowed_warning"):
        info = {"status": status, "utilization": 0.9, "resetsAt": 1795253606}
        event = {"type": "rate_limit_event", "rate_limit_info": info}
        assert claude.fault(reply(event, RESULT), Ended(0)) is None
        assert fault(event, *failure(529, "Overloaded")).grade is Grade.TRANSIENT


@pytest.mark.parametrize(
    "text",
    ["You've hit your session limit", "Not logged in", "API Error: 529", "hit your retry limit"],
)
def test_an_answer_that_talks_about_faults_is_none(text: str) -> None:
    assert claude.fault(reply({**RESULT, "result": f"{text}\n\nSUCCESS"}), Ended(0)) is None


@pytest.mark.parametrize(
    ("subtype", "terminal"),
    [
        ("error_during_execution", "aborted_tools"),
        ("error_during_execution", "completed"),
        ("success", "aborted_streaming"),
    ],
)
@pytest.mark.parametrize("error", [True, False])
def test_an_interrupted_agent_may_try_again(subtype: str, terminal: str, error: bool) -> None:
    value = {**RESULT, "subtype": subtype, "terminal_reason": terminal, "is_error": error}
    assert fault(value, code=0).grade is Grade.TRANSIENT


@pytest.mark.parametrize(
    ("subtype", "words"),
    [
        ("error_max_turns", "Reached maximum number of turns (3)"),
        ("error_max_budget_usd", "Reached maximum budget ($0.01)"),
        ("error_max_structured_output_retries", "no valid output"),
    ],
)
def test_an_exhausted_agent_has_failed_and_is_not_called_again(subtype: str, words: str) -> None:
    value = {"type": "result", "subtype": subtype, "is_error": True, "errors": [words]}
    found = fault(value)
    assert found.grade is Grade.FAILED
    assert words in found.message


def test_a_refusal_is_the_prompts_fault() -> None:
    found = fault(*failure(None, "cannot help with that", stop_reason="refusal"))
    assert found.grade is Grade.FAILED


def test_a_prompt_that_was_swallowed_as_a_command_is_noticed() -> None:
    found = fault({**RESULT, "num_turns": 0, "result": "Unknown command: /x"}, code=0)
    assert found.grade is Grade.PERMANENT
    assert "Unknown command" in found.message
    assert found.hint


@pytest.mark.parametrize("code", [0, 1, 143, -9])
def test_the_exit_code_of_a_sound_reply_decides_nothing(code: int) -> None:
    assert claude.fault(reply(RESULT), Ended(code, "Error: late")) is None


def test_a_failure_that_says_success_is_a_failure() -> None:
    assert fault({**FAILURE, "api_error_status": 529}, code=0).grade is Grade.TRANSIENT


@needs_bwrap
def test_a_key_that_the_sandbox_hides_is_told_before_the_run(
    kern: Kern, repo: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Path.home() / ".password-store/key"
    key.parent.mkdir(parents=True)
    key.write_text("k\n")
    settings = fake.folder / "settings.json"
    settings.write_text(json.dumps({"apiKeyHelper": "cat ~/.password-store/key"}))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(fake.folder))
    monkeypatch.setenv("KERN_SANDBOX", "bwrap")
    ran = kern("1", "0")
    assert ran.code == 2, ran.said
    assert "claude gets no key in the sandbox: cat ~/.password-store/key" in ran.err
    assert not fake.calls
    settings.write_text(json.dumps({"apiKeyHelper": "echo k"}))
    assert "gets no key" not in kern("1", "0").said
