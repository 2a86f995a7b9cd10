"""Which model and effort each agent runs with: who has the last word, and what is no name."""

from pathlib import Path

import pytest

from kern import config, models
from kern.model import Aide, Stage
from kern.models import THINKING, Choice
from kern.stages import prompts

FRONT = Choice("opus", "high")


def test_a_later_word_counts_and_what_it_leaves_open_an_earlier_one_says() -> None:
    written = Choice("sonnet", "low")
    assert models.chosen(Choice(), written, FRONT, Choice("haiku")) == Choice("haiku", "high")
    assert models.chosen(FRONT, written, Choice()) == written
    assert models.chosen(written, Choice("opus")) == Choice("opus", "low")
    assert models.chosen(written, Choice(agent="codex")) == Choice(agent="codex")


@pytest.mark.parametrize(
    ("model", "agent", "asked"),
    [
        *(("opus", "claude", "opus"), ("opus", "codex", ""), ("claude-opus-4-1", "gemini", "")),
        *(("gpt-5.5", "codex", "gpt-5.5"), ("gpt-5.5", "claude", ""), ("opus", "http", "own")),
        *(("qwen3-coder", "http", "qwen3-coder"), ("anthropic/opus", "pi", "anthropic/opus")),
        ("opus", "llm", "opus"),  # a command may be anybody's
    ],
)
def test_a_prompt_s_model_goes_to_no_other_vendor(
    tmp_path: Path, model: str, agent: str, asked: str
) -> None:
    own = tmp_path / ".kern/prompts/1_research.md"
    own.parent.mkdir(parents=True)
    own.write_text(f"---\nmodel: {model}\neffort: low\n---\n{{{{ task }}}}\n")
    settings = config.parse(
        f'agents = ["{agent}"]\ncommands.llm = ["llm"]\n'
        '[agent.http]\nurl = "http://localhost/v1"\nmodel = "own"\n'
    )
    found = prompts.templates(tmp_path, settings)[Stage.RESEARCH].by
    assert (found.agent, found.model, found.effort) == (agent, asked, "low")


def test_a_name_alone_is_for_those_that_think_and_a_role_for_itself_wherever_it_stands() -> None:
    assert models.of_options(["sonnet"]) == dict.fromkeys(THINKING, Choice("sonnet"))
    for given in (["sonnet", "research=opus[1m]"], ["research=opus[1m]", "sonnet"]):
        found = models.of_options(given)
        assert found[Stage.RESEARCH] == Choice("opus[1m]")
        assert found[Stage.IMPLEMENT] == found[Aide.PLANNER] == Choice("sonnet")
        assert Stage.COMMIT not in found
    assert models.of_options(["commit=sonnet"]) == {Stage.COMMIT: Choice("sonnet")}
    assert models.of_options([]) == {}
