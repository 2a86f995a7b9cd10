"""The dialect of `claude -p`: its flags, its transcript, its errors. Values in, values out."""

import json
import time
from typing import Any

import pytest

from kern.agents import claude
from kern.agents.protocol import (
    AgentError,
    Answer,
    AtLimit,
    Call,
    Ended,
    Failed,
    OverBudget,
    TryAgain,
    Unusable,
)
from kern.model import Stage

STAGES = list(Stage)
RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "x",
    "num_turns": 2,
}
FAILURE: dict[str, Any] = {**RESULT, "is_error": True, "num_turns": 1}
SOUND = Ended(0)
INIT = {"type": "system", "subtype": "init", "claude_code_version": "2.1.329", "tools": ["Read"]}


def options(stage: Stage, contract: str = "") -> dict[str, list[str]]:
    """The flags with their values, as a command line is read."""
    found: dict[str, list[str]] = {}
    for word in claude.start(Call("claude", stage, "opus", contract=contract)).argv[1:]:
        if word.startswith("-"):
            assert word not in found, "a flag that stands twice"
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


def read(*values: dict[str, Any], ended: Ended = SOUND) -> Answer:
    return claude.read(values, ended)


def error(*values: dict[str, Any], ended: Ended = SOUND) -> AgentError:
    with pytest.raises(AgentError) as found:
        read(*values, ended=ended)
    return found.value


# -------------------------------------------------------------------- flags


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_a_fresh_process_that_prints_its_transcript_as_json(stage: Stage) -> None:
    found = options(stage)
    assert next(iter(found)) == "-p"
    assert found["-p"] == []  # the prompt comes by stdin
    assert found["--output-format"] == ["stream-json"]
    assert found["--model"] == ["opus"]
    assert {"--verbose", "--no-session-persistence"} <= found.keys()
    off = {"cc-plugin-agents-md@builtin": False}  # it would read AGENTS.md, with kern's own part
    assert json.loads(found["--settings"][0]) == {"enabledPlugins": off}
    assert not found.keys() & {"--dangerously-skip-permissions", "--resume", "--continue", "--bare"}
    assert options(stage, "/p/c.md")["--append-system-prompt-file"] == ["/p/c.md"]
    assert "--append-system-prompt-file" not in found


def test_what_a_call_names_is_passed_on() -> None:
    begun = claude.start(Call("claude", Stage.IMPLEMENT, "opus", "low", patience=1800))
    # A person's own CLAUDE_CODE_EFFORT_LEVEL would beat the flag.
    assert begun.env["CLAUDE_CODE_EFFORT_LEVEL"] == "low"
    assert begun.env["BASH_DEFAULT_TIMEOUT_MS"] == begun.env["BASH_MAX_TIMEOUT_MS"] == "1800000"


# -------------------------------------------------------------------- the transcript


def test_of_several_results_the_last_counts_and_denials_add_up() -> None:
    def ended(text: str, cost: float, *denials: object) -> dict[str, Any]:
        return {**RESULT, "result": text, "total_cost_usd": cost, "permission_denials": denials}

    push = {"tool_name": "Bash", "tool_input": {"command": "git push"}}
    write = {"tool_name": "Write", "tool_input": {"file_path": "/p/a", "content": "x"}}
    more = ({"tool_name": "Task", "tool_input": {}}, {"tool_name": "WebFetch"}, "odd")
    found = read(ended("a", 0.1), json.loads(json.dumps(ended("b", 0.3, push, write, push, *more))))
    assert (found.text, found.cost_usd) == ("b", 0.3)
    assert found.denied == ("Bash: git push", "Write: /p/a", "Task", "WebFetch")


def test_each_time_that_a_red_gate_sent_it_back_counts() -> None:
    said = [{"type": "text", "text": "Stop hook feedback:\n[check]: it's red"}]
    back = {"type": "user", "isSynthetic": True, "message": {"content": said}}
    assert read(INIT, back, {**back, "isSynthetic": False}, back, RESULT).sent_back == 2


# -------------------------------------------------------------------- no result at all


# -------------------------------------------------------------------- errors


def failure(
    status: int | None, text: str, *, error: str = "", terminal: str = "completed", **more: object
) -> list[dict[str, Any]]:
    """What an API failure leaves in the transcript; `subtype` says success all the same."""
    before = [{"type": "assistant", "error": error, "message": {"content": []}}] if error else []
    fields = {"api_error_status": status, "terminal_reason": terminal, "result": text, **more}
    return [INIT, *before, {**FAILURE, **fields}]


PERMANENT = [
    (401, "authentication_failed", "Failed to authenticate. API Error: 401 expired", "log"),
    (None, "authentication_failed", "Not logged in · Please run /login", "log"),
    (None, "", "Not logged in · Please run /login", "log"),
    (400, "unknown", "API Error: 400 bad request", ""),
    (422, "", "API Error: 422 unprocessable", ""),
    (400, "billing_error", "Credit balance is too low", ""),
]
UNFIT = [
    (None, "", "Prompt is too long", "blocking_limit"),
    (413, "", "Request too large (max 32MB)", "image_error"),
    (413, "", "Request too large", "api_error"),
    (None, "max_output_tokens", "API Error: Claude's response exceeded the maximum", "completed"),
]
TRANSIENT = [
    (
        429,
        "rate_limit",
        "API Error: Server is temporarily limiting requests (not your usage limit)",
    ),
    (408, "", "API Error: 408 timed out"),
    (500, "server_error", "API Error: 500 Internal server error"),
    (None, "server_error", "API Error: Unable to connect to API (ConnectionRefused)"),
    (None, "", "Request timed out"),
    (None, "", "something never seen before"),
]
LIMITS = ("session limit", "5-hour limit", "weekly limit", "Opus limit", "usage limit", "limit")


@pytest.mark.parametrize("terminal", ["completed", "api_error"])
@pytest.mark.parametrize("code", [0, 1])
def test_every_row_of_the_failures_measured(terminal: str, code: int) -> None:
    end = Ended(code)
    for status, word, text, hint in PERMANENT:
        found = error(*failure(status, text, error=word, terminal=terminal), ended=end)
        assert type(found) is Unusable, text
        assert text in found.message, "the agent's own words"
        assert found.hint, text
        assert hint in f"{found.message} {found.hint}", text
    for status, word, text in TRANSIENT:
        found = error(*failure(status, text, error=word, terminal=terminal), ended=end)
        assert type(found) is TryAgain, text
        assert text in found.message
    for status, word, text, last in UNFIT:
        found = error(*failure(status, text, error=word, terminal=last), ended=end)
        assert type(found) is Failed, text  # this prompt will never do; others may
        assert text in found.message


@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize("status", [429, None])
def test_a_usage_limit_is_known_by_its_words(word: str, status: int | None) -> None:
    text = f"You've hit your {word} · resets 9:33am (UTC)"
    found = error(*failure(status, text, error="rate_limit"))
    assert isinstance(found, AtLimit)
    assert (found.resets_at, text in found.message) == (None, True)


@pytest.mark.parametrize("when", [1795253606, 10**30, float("inf"), "x"])
def test_a_usage_limit_is_known_by_its_event_and_says_when_it_ends(when: object) -> None:
    info = {"status": "rejected", "resetsAt": when, "rateLimitType": "five_hour"}
    for status in (429, None, 400):
        event = {"type": "rate_limit_event", "rate_limit_info": info}
        found = error(event, *failure(status, "no more"))
        assert isinstance(found, AtLimit)
        assert when != 1795253606 or found.resets_at == when
        if found.resets_at is not None:
            time.localtime(found.resets_at)


def test_a_warning_about_a_limit_is_no_error() -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning"}}
    assert read(event, RESULT).text == "x"
    assert type(error(event, *failure(529, "Overloaded"))) is TryAgain


@pytest.mark.parametrize(
    "text",
    ["You've hit your session limit", "Not logged in", "API Error: 529", "hit your retry limit"],
)
@pytest.mark.parametrize("code", [0, 1, 143, -9])
def test_an_answer_that_talks_about_errors_is_none(text: str, code: int) -> None:
    said = f"{text}\n\nSUCCESS"
    assert read({**RESULT, "result": said}, ended=Ended(code, "Error: late")).text == said


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"subtype": "error_during_execution"}, TryAgain, "interrupted"),
        ({"terminal_reason": "aborted_streaming"}, TryAgain, "interrupted"),
        ({"terminal_reason": "aborted_tools", "is_error": True}, TryAgain, "interrupted"),
        ({"subtype": "error_max_turns"}, Failed, "its turns"),
        ({"subtype": "error_max_budget_usd"}, OverBudget, "its budget"),
        ({"stop_reason": "refusal", "is_error": True}, Failed, "x"),
        ({"api_error_status": 529, "is_error": True}, TryAgain, "x"),
    ],
)
def test_other_ends(fields: dict[str, Any], kind: type, words: str) -> None:
    found = error({**RESULT, **fields}, ended=Ended(0))
    assert type(found) is kind
    assert words in found.message
    assert found.answer, "what it cost counts"
