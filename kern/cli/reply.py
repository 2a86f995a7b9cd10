"""`kern answer -`: the JSON that `notify` was given, with answers in it; for a bot of a person."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kern import plain
from kern.cli import tasks
from kern.errors import KernError, UsageError
from kern.spec import notes

_MOST_BYTES = 1 << 20


def answer(folder: Path) -> None:
    """Each answer in it, where its question is still the open one."""
    documents = tasks.to_answer(folder)
    notice = _notice(sys.stdin.buffer.read(_MOST_BYTES + 1))
    late = list[str]()
    for task, question, text in [*_answers(notice)]:
        for number, one in enumerate(documents.spec()[1].tasks, 1):
            noted = notes.pending(one)
            if one.text == task and noted and notes.same(question, noted):
                tasks.take_answer(documents, number, one, text)
                break
        else:
            late.append(plain.line(question or task, 160))
    if late:
        hint = "kern answer lists those that are"
        raise KernError(f"the question is not open any more: {'; '.join(late)}", hint=hint)


def _notice(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _unfit("that is no JSON object of at most 1 MiB")
    return value


def _answers(notice: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Task, question and answer: of the notice about one question, or of those at a run's end."""
    several = notice.get("questions")
    rows = [notice, *(several if isinstance(several, list) else ())]
    answered = [row for row in rows if isinstance(row, dict) and "answer" in row]
    if not answered:
        raise _unfit("no answer is in it")
    for row in answered:
        match row.get("task"), row.get("text", row.get("why")), row["answer"]:
            case str(task), str(question), str(text):
                yield task, question, text
            case _:
                raise _unfit("task, question and answer are texts")


def _unfit(why: str) -> UsageError:
    hint = 'what notify was given, with "answer": "…" beside the question: kern help settings'
    return UsageError(why, hint=hint)
