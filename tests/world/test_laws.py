"""Laws: random bytes and damaged real files through every reader: nothing but a KernError, no byte
lost. The same hundred cases each day; KERN_TEST_LAWS=night: five thousand fresh ones.
"""

import io
import json
import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from kern import config, models, person, plain
from kern.agents import claude, protocol, transcript
from kern.agents.protocol import AgentError, Answer, Ended
from kern.cli.admin import PAGES
from kern.errors import KernError, UsageError
from kern.events import SAYS
from kern.git import refs, repository
from kern.journal import sentences, store, totals
from kern.journal.history import fold
from kern.memory import entries
from kern.model import LEARNINGS, SPEC, Key, Marker, Stage, Tier
from kern.pipeline import facts
from kern.pipeline.table import resume
from kern.plain import decode, encode
from kern.spec import edit, imports, order
from kern.spec.file import Documents
from kern.spec.parse import Kind, Spec, Task, parse
from kern.spec.reapply import reapply
from kern.stages import answer, output, prompts, record
from kern.stages.answer import Code
from kern.stages.record import StageRecord, sweep
from kern.system import lock, workspace
from kern.system.workspace import Scope
from tests.agents.test_output import ALL, dump
from tests.agents.test_output import lines as by_line
from tests.conftest import HERE, PATIENCE_S, Git, assert_linear, patience
from tests.spec.test_parse import nasty
from tests.spec.test_reapply import bare, own, shaken, tidy
from tests.words.test_plain import UNSAFE

pytestmark = pytest.mark.slow

TOP = HERE.parent
FILES = (
    "SPEC.example.md",
    "LEARNINGS.example.md",
    "README.md",
    "CONTRIBUTING.md",
    "kern/spec/parse.py",
)
PROMPTS = sorted((TOP / "prompts").glob("*.md"))
REAL = [(TOP / name).read_bytes() for name in FILES] + [place.read_bytes() for place in PROMPTS]
ANSWERS = [
    b"- Files: a.py:1-9, b.py:3-4\n- Pattern: c.py:5, copied\n- Constraint: `make test`\n\nREADY",
    b"## Files\n\n- a.py\n- b.py\n\n## Pattern\nc.py:5\n\nNO_TASK: it is done already",
    b"Wrote it.\n\n## Learned\n\n```sh\n# first\nmake db\n```\n\nRan `make`.\n\n**SUCCESS**",
    b"Too large.\n\n## Subtasks\n- [ ] the parser\n- [ ] its tests\n  - a detail\n\nDECOMPOSED",
    b"I tried A, then B.\n\nFAILED: the driver needs a licence",
    b"Add a greeting\n\nREJECT: a private key stands in a.txt",
]
DENIED = {
    "type": "result",
    "subtype": "error_during_execution",
    "is_error": True,
    "api_error_status": 529,
    "total_cost_usd": 0.12,
    "permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "git push"}}],
    "errors": ["overloaded"],
}
LIMIT = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1.7e9}}
TRANSCRIPTS = [dump(ALL), by_line(ALL), by_line([*ALL, LIMIT, DENIED]), by_line([DENIED])]
SCRAPS = (
    *(b"\n", b"\r\n", b"\r", b"\t", b"  ", b"\x00", b"\x0c", b"\xff\xfe", b"\xc3", b"\x80"),
    *(b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xed\xa0\x80", b"\x1b[31m", b"\x1b]x"),
    *(b"- [ ] task\n", b"  - [x] part\n", b"- [~] mine\n", b"- []", b"[ ]", b"[~]", b"* ", b"1. "),
    *(b"```", b"~~~", b"~~~~\n", b"<!--", b"-->", b"> ", b"> **Attempt 1:** no\n", b"## "),
    *(b"> **Research:**\n>   - Files: a\n", b"> **After:** task\n", b"> **Skipped:** no\n"),
    *(b"---\n", b"{TASK}", b"{{ task }}", b"{% if mode %}", b"{{", b"%}", b"{", b"}", b"[", b"]"),
    *(b'"', b"\\", b'\\"', b"\\ud83d", b":", b","),
    *(b"SUCCESS", b"FAILED: no", b"READY\n", b"## Learned\n", b"## Subtasks\n- a\n", b"Files:"),
    *(b"1e999", b"NaN", b"-1", b"9" * 400, b"null", b"true", b'{"type":"result"}', b"[" * 300),
    *(b"<<<<<<< a\n", b">>>>>>> b\n", b"$(id)", b"`id`", b"--help", b"/../", b"%s%n"),
)


PAGE = re.findall(r"```toml\n(.*?)```", (PAGES / "settings.md").read_text(), re.S)
SETTINGS: list[tuple[str, Callable[[bytes], object], bytes]] = [
    (config.FILE, config.parse, PAGE[0].encode()),
    (person.FILE, person.parse, PAGE[1].encode()),
]
VALUES = b"1 -1 1e999 true '' '5m' 'opus' [] ['a'] [1] {} {run=1} {x=''} nan 2020-01-01".split()


# -------------------------------------------------------------------- the machinery

HOW: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": [*HealthCheck]}
settings.register_profile("day", max_examples=100, derandomize=True, **HOW)
settings.register_profile("night", max_examples=5000, **HOW)
settings.load_profile(os.environ.get("KERN_TEST_LAWS", "day"))
law = given(chance=strategies.randoms(use_true_random=False))
# Of what is drawn from long lists: each as often as the other, and by one number, so that nothing
# shrinks.
even_law = given(chance=strategies.randoms(use_true_random=True))


def noise(chance: random.Random, most: int = 400) -> bytes:
    return b"".join(
        chance.choice(SCRAPS) if chance.random() < 0.7 else chance.randbytes(chance.randrange(8))
        for _ in range(chance.randrange(most // 10))
    )


def damaged(data: bytes, chance: random.Random, others: list[bytes] = REAL) -> bytes:
    """The file after a few accidents: spans lost, doubled, overwritten, other files in it."""
    raw = bytearray(data)
    for _ in range(chance.randrange(1, 8)):
        at, size = chance.randrange(len(raw) + 1), chance.choice((1, 2, 8, 60, 500))
        there = chance.randrange(len(raw) + 1)
        match chance.randrange(7):
            case 0:
                del raw[at : at + size]
            case 1:
                raw[there:there] = raw[at : at + size]
            case 2:
                raw[at:at] = chance.choice(SCRAPS) * chance.choice((1, 1, 1, 3))
            case 3:
                raw[at : at + size] = chance.randbytes(min(size, 8))
            case 4:
                other = chance.choice(others)
                begin = chance.randrange(len(other) + 1)
                raw[at:at] = other[begin : begin + size]
            case 5:
                raw = raw.replace(b"\n", chance.choice((b"\r\n", b"\n", b"\n\n", b"\r")))
            case 6:
                del raw[len(raw) - chance.choice((0, 0, 1, size)) :]
    return bytes(raw)


def document(chance: random.Random) -> bytes:
    """What may stand in SPEC.md: a real file in some state, a made-up one, or nothing sensible."""
    match chance.randrange(4):
        case 0:
            return noise(chance)
        case 1:
            return encode(nasty(chance.randrange(10**9)))
        case 2:
            return damaged(encode(tidy(chance)), chance)
        case _:
            return damaged(chance.choice(REAL), chance)


def said(chance: random.Random) -> str:
    whole = damaged(chance.choice(ANSWERS), chance, ANSWERS)
    return decode(whole + noise(chance) if chance.random() < 0.5 else whole)


# -------------------------------------------------------------------- SPEC.md


def marker_at(text: str, task: Task) -> int:
    return sum(len(line) + 1 for line in text.split("\n")[: task.line - 1]) + task.column


def added(before: str, after: str) -> str:
    """The one piece that `after` has more; taken out again it leaves every byte of `before`."""
    same = (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    head = next(same, min(len(before), len(after)))
    tail = len(before) - head
    more = after[head : len(after) - tail]
    assert encode(after[:head] + after[len(after) - tail :]) == encode(before)
    return more


@law
def test_an_edit_of_any_document_changes_what_it_must_and_no_other_byte(
    chance: random.Random,
) -> None:
    data = document(chance)
    text = decode(data)
    assert encode(text) == data
    parsed = parse(text)
    for task in chance.sample(parsed.tasks, min(4, len(parsed.tasks))):
        check_markers(text, parsed, task)
        check_notes(chance, text, task)
        check_subtasks(chance, text, parsed, task)


def check_markers(text: str, parsed: Spec, task: Task) -> None:
    at = marker_at(text, task)
    for marker in Marker:
        new = edit.mark(text, task, marker)
        assert new == text[:at] + marker + text[at + 1 :]
        assert len(encode(new)) == len(encode(text))
    places = {marker_at(text, one) for one in parsed.tasks}
    ticked = edit.tick(text, parsed, task)
    differing = {at for at, pair in enumerate(zip(text, ticked, strict=True)) if pair[0] != pair[1]}
    assert differing <= places


def check_notes(chance: random.Random, text: str, task: Task) -> None:
    words = decode(noise(chance))
    notes = [edit.note(chance.choice(list(Kind)), words, chance.randrange(3))]
    notes += edit.research([("Files", words), ("Pattern", "p")])
    new = edit.annotate(text, task, notes)
    assert added(text, new).count("\n") == len(notes)
    assert text.endswith("\r") or not new.endswith("\r")
    assert "\r\r" in text or "\r\r" not in new
    shown = [line.strip(" \t\r") for line in new.split("\n")]
    wanted = [line.rstrip(" ") for line in notes]
    assert any(shown[at : at + len(notes)] == wanted for at in range(len(shown)))


def check_subtasks(chance: random.Random, text: str, parsed: Spec, task: Task) -> None:
    titles = [plain.line(decode(noise(chance)), 200) or "part", "another part"]
    assert added(text, edit.add_subtasks(text, parsed, task, titles)).count("\n") <= len(titles)


@law
def test_a_learning_is_added_behind_every_byte_that_was_there(chance: random.Random) -> None:
    data = document(chance)
    text = decode(data)
    entry = entries.Entry("L1", said(chance), when=said(chance))
    new = entries.appended(text, [entry])
    assert encode(new).startswith(data)
    assert not UNSAFE.search(new[len(decode(data)) :].replace("\r\n", "\n"))
    entries.parse(new)


@law
def test_kerns_lines_come_back_into_any_text_and_none_of_it_is_lost(chance: random.Random) -> None:
    before, mild = tidy(chance), chance.random() < 0.7
    wild = chance.choice((damaged(encode(before), chance), document(chance)))
    after = shaken(before, chance) if mild else decode(wild)
    text, _ = reapply(before, after)
    assert decode(encode(text)) == text
    assert reapply(before, text)[0] == text, "twice is once"
    (task,), old, new = parse(before).active, parse(before), parse(text)
    if (there := new.find(task.key)) and mild:
        assert there.marker is Marker.ACTIVE and {*own(task)} <= {*own(there)}
        done = [sum(one.marker is Marker.DONE for one in each.tasks) for each in (old, new)]
        assert done[1] <= done[0]
    elif mild:  # other words were given to it
        assert any(one.key != task.key for one in new.active)
    if text != before:
        assert not bare(after) - bare(text)


@law
def test_a_document_comes_back_from_the_disk_byte_for_byte(
    tmp_path: Path, chance: random.Random
) -> None:
    documents = Documents(tmp_path)

    data = document(chance).replace(b"\0", b"?")  # with one it is refused
    (tmp_path / SPEC).write_bytes(data)
    text = documents.read(SPEC)
    assert text is not None
    documents.write(LEARNINGS, text)
    assert (tmp_path / LEARNINGS).read_bytes() == data
    documents.edit(lambda text, _: text + "more")
    assert (tmp_path / SPEC).read_bytes() == data + b"more"


# -------------------------------------------------------------------- texts and settings


@law
def test_nothing_harmful_is_left_of_any_text(chance: random.Random) -> None:
    text = decode(noise(chance)) + chance.randbytes(30).decode("latin-1")
    safe, one = plain.block(text), plain.line(text, 40)
    assert plain.block(safe) == safe
    assert not UNSAFE.search(safe + one)
    assert "\n" not in one and len(one) <= 40 and one == one.strip()


@law
def test_any_settings_are_read_or_refused_with_the_file_and_what_to_do(
    chance: random.Random,
) -> None:
    for file, read, whole in SETTINGS:
        lines = whole.splitlines(keepends=True)
        at = chance.randrange(len(lines))
        lines[at] = re.sub(rb"= .*", b"= " + chance.choice(VALUES), lines[at])
        data = b"".join(lines)
        try:
            read(data if chance.random() < 0.5 else damaged(data, chance, [whole]))
        except UsageError as exc:
            assert str(exc).startswith(file) and exc.hint and not UNSAFE.search(str(exc))


@even_law
def test_any_words_for_models_and_for_the_sandbox_are_taken_or_refused(
    chance: random.Random,
) -> None:
    words = chance.choices(("opus", "research=opus", "x=1", "=", "judge=--x", "commit=b"), k=2)
    with suppress(UsageError):
        assert {*models.of_options(words, words)} <= {*models.ROLES}
    texts = ("a/", "a/b", "*", "localhost:1", "x.org", "c\x1b")
    asks = {key: tuple(chance.choices(texts, k=2)) for key in ("read", "network", "env")}
    network = chance.choice((None, ("*",), ("x.org",)))
    own = person.Holding(read=tuple(chance.choices(texts, k=2)), network=network)
    told = [*person.refused(own, asks)]
    assert all("not granted" in one and not UNSAFE.search(one) for one in told)
    assert not any(" read " in one for one in told) or {*asks["read"]} - {*own.read}


# -------------------------------------------------------------------- lists and the journal

MINE = "# Tasks\n\n- [ ] mine\n  > **Gate:** `true`\n- [x] old\n  Refs: #7\n\nprose\n"


@even_law
def test_a_list_of_tasks_from_outside_is_refused_or_plants_nothing_but_its_tasks(
    chance: random.Random,
) -> None:
    bodies = [chance.choice((said(chance), decode(noise(chance)), 3)) for _ in range(3)]
    numbers = (7, 12, None, "x")
    rows = [
        {"title": said(chance), "body": one, "number": chance.choice(numbers)} for one in bodies
    ]
    data = b"\n".join(json.dumps(one).encode() for one in rows)
    data = document(chance) if chance.random() < 0.3 else data
    try:
        items = imports.read(damaged(data, chance) if chance.random() < 0.2 else data)
        plan = imports.added(MINE, items)
    except UsageError as exc:
        assert exc.hint and "\n" not in str(exc) and not UNSAFE.search(str(exc))
        return
    spec = parse(plan.text)
    assert [task.text for task in spec.tasks] == ["mine", "old", *plan.new] and not spec.unclosed
    assert not any(task.notes for task in spec.tasks[2:])
    assert added(MINE, plan.text).count("- [ ] ") >= len(plan.new) and not UNSAFE.search(plan.text)


DIDS = ["start", "end", "done", "over", "skipped", "asked", "back"]
FACTS: dict[str, tuple[Any, ...]] = {
    **{"did": (*DIDS, "still away"), "task": ("t", "u"), "stage": (*Stage, "judge")},
    **{"worker": (1, 2), "fleet": ("a",), "cost_usd": (None, 0.5), "tokens": ({"input": 12_345},)},
    **{"seconds": (1.5, 90.0), "attempt": (1, 2), "text": ("a\x1b[31mb", "flaky"), "code": (0, 1)},
    **{"proved": ("gate `x`; many files: 9", "UNVERIFIED: no", ""), "commit": ("0" * 40, None)},
    **{"red": (True,), "red_before": (True,), "mode": ("decompose",), "sent_back": (2,)},
    **{"model": ("opus",), "agent": ("codex",), "denied": (["Bash: x\x07", "y"],), "told": (3,)},
    **{"helpful": (True, False), "flaky": ("1 of 2",), "gate": ("test",), "exit": (0, 1)},
    **{"since": (10.0,), "until": (90.0,), "detail": ("why",), "reason": ("no",), "ref": ("r",)},
    **{"left_out": ({"L1": "no room"},), "payer": ("plan",), "branch": ("main",), "x": (None, 2.5)},
}


@even_law
def test_a_journal_of_any_records_adds_up_and_is_told_in_harmless_lines(
    tmp_path: Path, chance: random.Random
) -> None:
    kinds, lines = [one.partition(" ")[0] for one in SAYS], list[bytes]()
    for number in range(12):
        names = chance.sample([*FACTS], chance.randrange(len(FACTS)))
        record = {name: chance.choice(FACTS[name]) for name in names}
        record |= {"v": 1, "id": f"{number}", "run": chance.choice("ab"), "seq": number}
        record["time"] = chance.choice((*[f"2026-11-27T{number:02}:00:00.000Z"] * 9, "?"))
        record["kind"] = chance.choice([*kinds, *["stage"] * 9, "odd"])
        lines.append(store.line(record))
    data = b"".join(lines)
    path, warned = tmp_path / "events.jsonl", list[str]()
    path.write_bytes(damaged(data, chance, lines) if chance.random() < 0.3 else data)
    records = store.load(path, warned.append)
    assert records == store.ordered(reversed(records))
    assert warned or len(records) == 12 or path.read_bytes() != data
    history = fold(records)
    ended = [one for one in records if one["kind"] == "stage" and one.get("did") != "start"]
    assert history.cost.usd == pytest.approx(sum(one.get("cost_usd") or 0 for one in ended))
    told = [line for one in records for line in sentences.format_record(one, many=True)]
    told += [line for one in records for line in sentences.format_record(one)]
    at_work = [one for run in history.runs.values() for one in run.workers.items()]
    told += [sentences.format_doing(*one, 0.0) for one in at_work]
    assert not any(UNSAFE.search(line) or "\n" in line for line in told)
    assert json.dumps(totals.summary(history)) and isinstance(totals.forecast(history, 2), str)
    assert totals.outages(history)[1] >= 0


# -------------------------------------------------------------------- answers and transcripts


def test_a_file_that_never_comes_to_rest_is_given_up(tmp_path: Path) -> None:
    (tmp_path / SPEC).write_text("- [ ] a\n")

    def change(text: str, _: Spec) -> str:
        (tmp_path / SPEC).write_text(text + "x")
        return text + "y"

    with (
        patience(PATIENCE_S),
        pytest.raises(KernError, match="changes faster than"),
    ):
        Documents(tmp_path).edit(change)
    assert "y" not in (tmp_path / SPEC).read_text()


@law
def test_any_answer_is_read_as_something_harmless(chance: random.Random) -> None:
    text = said(chance)
    for stage in Stage:
        found = answer.parse(stage, text)
        assert found.code is Code.UNCLEAR or found.code in {*answer.CARE[stage], Code.READY}
        short = [found.reason, *found.subtasks, *(words for _, words in found.findings)]
        assert all(len(words) <= 300 and "\n" not in words for words in short)
        assert len(found.subtasks) <= answer.MOST_SUBTASKS
        for words in (*short, found.body, found.learned):
            assert not UNSAFE.search(words)
        for mode in Tier:
            assert answer.decide(found, text, mode, subtask=False, objection=text).saved
    parsed = parse("- [~] parent\n- [ ] next\n")
    titles = answer.parse(Stage.IMPLEMENT, text).subtasks
    again = parse(edit.add_subtasks("- [~] parent\n- [ ] next\n", parsed, parsed.tasks[0], titles))
    assert [task.text for task in again.tasks] == ["parent", *titles, "next"]


@law
def test_any_output_of_an_agent_is_a_reply_or_a_fault(
    tmp_path: Path, chance: random.Random
) -> None:
    scope = Scope(tmp_path, "project", "main")
    scope.folder.mkdir(parents=True, exist_ok=True)
    if chance.random() < 0.3:
        data = noise(chance)
    else:
        data = damaged(chance.choice(TRANSCRIPTS), chance, TRANSCRIPTS)
    for stage in Stage:
        ended = Ended(chance.choice((0, 1, -9)), decode(noise(chance)))
        reply: Answer | None
        try:
            reply = claude.read(transcript.objects(io.BytesIO(data)), ended)
        except AgentError as error:
            assert isinstance(output.error(stage, error, tmp_path), KernError)
            reply = error.answer
        if reply:
            key = Key("", data.decode("latin-1"))
            ids = dict.fromkeys(("base", "start", "tree"), "0" * 40)
            made = StageRecord(stage, reply.result, key.text).noting(fault="x", **ids)
            record.save(scope, made)
            found = record.read(scope, stage)
            assert found is not None
            assert repr(found.value) == repr(made.value)  # NaN is not NaN
            assert found.key == key


# -------------------------------------------------------------------- prompts


def unbroken(text: str) -> str:
    return text.replace("\\@", "@")


@law
def test_no_text_gets_out_of_its_place_in_a_prompt(chance: random.Random) -> None:
    forms = list(prompts.templates(TOP / "tests").values())

    with suppress(KernError):
        stage = chance.choice(list(Stage))
        text = decode(damaged(chance.choice(PROMPTS).read_bytes(), chance))
        prompts.read(stage, text, "prompt.md")
    form = chance.choice(forms)
    names = ("task", "checks", "guidance", "criterion", "goal")
    texts = {name: said(chance) for name in names}
    texts |= {"trailer": "Kern-Task: x", "mode": said(chance)}
    sections = {
        name: [said(chance) for _ in range(chance.randrange(3))]
        for name in prompts.WORDS[form.stage].split()
        if name not in texts
    }
    prompt = prompts.compose(form, {**texts, **sections})
    own = {*form.contract.split("\n"), *form.text.split("\n"), texts["trailer"]}
    own.add(prompt.text.partition("\n")[0])
    for part, rest in ((form.contract, prompt.contract), (form.text, prompt.text)):
        while block := re.search(r"^<((?!example)[a-z]+(?:-\d+)?)>\n", rest, re.M):
            before, rest = rest[: block.start()], rest[block.end() :]
            inner, closing, rest = rest.partition(f"\n</{block[1]}>")
            name = block[1].partition("-")[0]
            assert closing and f"{{{{ {name} }}}}" in part
            assert name not in texts or unbroken(inner) == unbroken(texts[name])
            assert own >= {*before.split("\n")}
        assert own >= {*rest.split("\n")}


# -------------------------------------------------------------------- what kern left for itself


def garbled(chance: random.Random) -> Any:
    """A JSON value of a kind that nobody expects there."""
    odd: Any = (None, True, -1, 0, 2**70, 1e300, "", "\0", "../../x", "HEAD", "--help", "\ud800")
    return chance.choice((*odd, [], {}, [{"a": []}], {"task": "t"}, "x" * 3000, said(chance)))


@law
def test_stage_files_of_any_content_are_read_or_passed_over(
    repo: Path, git: Git, tmp_path: Path, chance: random.Random
) -> None:
    found = repository.open_at(repo)
    scope = workspace.scope(repo, "main")
    documents = Documents(repo)
    (repo / SPEC).write_text("- [~] add a greeting\n  > **Research:**\n  >   - Files: a\n")
    tree, head = found.tree("HEAD"), found.head().commit
    good = {"task": "add a greeting", "parent": "", "nth": 1, "attempt": 1, "base": head}
    good |= {"start": tree, "tree": tree, "time": "2025-01-31T01:02:03Z", "outcome": "PROVED"}
    telling = ("base", "start", "tree", "outcome", "time")
    for stage in Stage:
        kern: dict[str, Any] = {k: v for k, v in good.items() if chance.random() < 0.97}
        for _ in range(chance.randrange(3)):
            kern[chance.choice((*telling, *good))] = garbled(chance)
        data = json.dumps({"result": said(chance), "kern": kern}).encode()
        if chance.random() < 0.4:
            data = damaged(data, chance)
        scope.stage_file(stage).write_bytes(data)
    with suppress(KernError):
        resume(facts.look(facts.Place(found, scope, documents)).facts)
    with suppress(KernError):
        sweep(scope)
    assert not list(tmp_path.glob("kern/project/main/*.json"))
    assert {path.name for path in scope.base.iterdir()} == {"project"}


@law
def test_marks_and_versions_of_any_content_are_read_or_passed_over(
    tmp_path: Path, chance: random.Random
) -> None:
    held = b'x\n\nKern-Task: t\nKern-Start: ["", "t", 1, 2, true, false]\n'
    refs.read_message(decode(damaged(held, chance)))
    protocol.version(decode(damaged(b"2.1.3 (Claude Code)", chance)))
    (tmp_path / lock.HOLDER).write_bytes(damaged(b"4711\nhost\nrun\nmain\n", chance))
    if holder := lock.holder(tmp_path):
        holder.lives(tmp_path)


# -------------------------------------------------------------------- one megabyte of malice

MB = 1_000_000


def deep(n: int) -> str:
    return "".join(f"{' ' * depth}- [ ] t\n" for depth in range(int((9 * n) ** 0.5)))


def many(count: int) -> str:
    rows = (f"- [ ] task {n}\n  > **Attempt 1:** {n}\n" for n in range(count))
    return "- [~] mine\n" + "".join(rows)


@pytest.mark.parametrize(
    "act",
    [
        lambda n: protocol.version("1." + "0" * n),
        lambda n: protocol.version("1" * n),
        lambda n: parse(deep(n) + " " * 900 + "```\n" + "x\n" * (n // 4)),
        lambda n: order.faults(parse(deep(n))),
        lambda n: reapply(many(n // 80), many(n // 80).replace("[ ]", "[x]")),
        lambda n: prompts.read(
            Stage.RESEARCH, "---\nmodel: x\n" + "--- x\n" * (n // 6) + "---\n", "x"
        ),
        lambda n: list(transcript.objects(io.BytesIO(b'{"type"     ' * (n // 12)))),
        lambda n: entries.parse("## x\n\ny\n" * (n // 32)),
        lambda n: entries.parse("- a | when: \n  b" * (n // 15)),
        lambda n: entries.parse("## Learnings\n" + "<!--\n- a\n" * (n // 36)),
        lambda n: plain.block("\x1b[" + "0;" * (n // 2)),
        lambda n: plain.block("\x1b]" * (n // 2)),
    ],
)
def test_a_megabyte_of_malice_takes_some_ten_times_as_long_as_a_tenth(
    act: Callable[[int], object],
) -> None:
    assert_linear(act, MB)
