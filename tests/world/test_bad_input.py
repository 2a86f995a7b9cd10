"""Where kern is not given what it needs it says what, where, what to type, and loses nothing."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kern.cli import main
from kern.events import StageFailed
from kern.model import SPEC
from kern.pipeline.loop import MOST_BEGUN
from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern
from tests.kit.stable import Ran

Typed = Callable[..., Ran]
READY = "- Files: a.txt\n- Pattern: a.txt:1\n\nREADY"
ALL = "{{ task }} {{ attempts }} {{ snapshot }} {{ learnings }} {{ commits }}"


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """`kern …` in the test's own process: quicker, and an escaped exception fails the test."""

    def run(*argv: str, cwd: Path | None = None) -> Ran:
        monkeypatch.setattr(sys, "argv", ["kern", *argv])
        monkeypatch.chdir(cwd or tmp_path / "project")
        with pytest.raises(SystemExit) as ended:
            main.main()
        told = capsys.readouterr()
        return Ran(int(ended.value.code or 0), told.out, told.err)

    return run


def refused(ran: Ran, code: int, *words: str, hint: str) -> None:
    assert "Traceback" not in ran.err
    assert (ran.code, ran.out) == (code, ""), ran.err
    message, _, told = ran.err.partition("\n  hint: ")
    assert message.startswith("kern: ")
    for word in words:
        assert word in message
    assert hint in told


def spec(repo: Path) -> str:
    return (repo / "SPEC.md").read_text()


def snapshot(repo: Path) -> tuple[object, ...]:
    """The person's things: all files with their bytes, the index, the refs."""
    files = {p: p.read_bytes() for p in repo.rglob("*") if p.is_file() and ".git" not in p.parts}
    asked = (("ls-files", "--stage"), ("for-each-ref",), ("status", "--porcelain"))
    said = [subprocess.run(["git", *a], cwd=repo, capture_output=True).stdout for a in asked]
    return files, *said


# ---------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("argv", "words", "hint"),
    [
        (["0"], ("ITERATIONS",), "kern run -h"),
        (["5", "-1"], ("no such option: -1",), "kern run -h"),
        (["--max-cost", "abc"], ("'--max-cost'",), "kern run -h"),
        (["3", "--max-minutes", "1"], ("--max-minutes is gone",), "kern --until 07:00"),
        (["-n", "--max-cost", "nan"], ("'--max-cost'",), "kern run -h"),
        (["1.5"], ("ITERATIONS",), "kern run -h"),
        (["9" * 5000], ("ITERATIONS",), "kern run -h"),
        (["5", "nan"], ("DELAY", "'nan'"), "kern 5 10"),
        (["5", "inf"], ("DELAY", "'inf'"), "kern 5 10"),
        (["5", "1e300"], ("DELAY", "'1e300'"), "kern 5 10"),
        (["5", "soon"], ("DELAY", "'soon'"), "kern 5 10"),
        (["1h"], ("ITERATIONS",), "kern run -h"),
        (["5", "1h30"], ("DELAY", "'1h30'"), "kern 5 10s"),
        (["5", "1s30m"], ("DELAY", "'1s30m'"), "kern 5 10s"),
        (["plan", ""], ("a goal that says nothing",), 'kern plan "what you want"'),
        (["improve", "2"], ("kern improve is gone",), "kern plan --improve"),
        (["five"], ("'five' is neither",), "kern --help lists the commands"),
        (["statsu"], ("'statsu' is neither",), "type kern status"),
        (["add a flag"], ("'add a flag' is neither",), 'kern add "add a flag", or kern plan'),
        (["note", "1"], ("kern note is gone",), "kern edit"),
        (["--frobnicate"], ("--frobnicate",), "kern run -h"),
        (["report", "--since", "soon"], ("--since", "'soon'"), "--since yesterday"),
        (["show"], ("Missing argument 'TASK'",), "kern show -h"),
    ],
)
def test_a_wrong_word_is_named(
    repo: Path, fake: Fake, typed: Typed, argv: list[str], words: tuple[str, ...], hint: str
) -> None:
    refused(typed(*argv), 2, *words, hint=hint)
    assert fake.calls == []


@pytest.mark.parametrize(
    "argv", [("show",), ("retry",), ("undo",), ("answer",), ("add", "--after")], ids=" ".join
)
def test_a_number_beyond_all_bounds_names_no_task(
    repo: Path, typed: Typed, argv: tuple[str, ...]
) -> None:
    words = ["x"] if argv[0] == "add" else []
    refused(typed(*argv, "9" * 5000, *words), 2, "no task is named by '999", hint="kern status")
    assert typed("show", "1").code == 0


@pytest.mark.unheld
def test_an_agent_that_rewords_its_task_again_and_again_is_not_paid_for_without_end(
    repo: Path, fake: Fake, inline: Inline
) -> None:
    fake.script(implement=[{"run": ["sed -i 's/] /] really /' SPEC.md"], "result": "SUCCESS"}])
    ran = inline(1)
    assert ran.code == 1
    assert "reworded or taken away again and again" in ran.err
    assert fake.stages.count("implement") < MOST_BEGUN


# ---------------------------------------------------------------- tools and repository


def test_without_git_every_command_says_so(
    repo: Path, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    before = spec(repo)
    for argv in (["1", "0"], ["-n"], ["status"], ["path"], ["init"]):
        refused(
            kern(*argv, env={"PATH": str(fake.folder / "bin")}),
            2,
            "git is not installed",
            hint="git",
        )
    assert (spec(repo), fake.calls) == (before, [])


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_spec_md_in_utf_16_is_told_to_be_utf_8(repo: Path, typed: Typed, code: str) -> None:
    data = "# Plan\n\n- [ ] task\n".encode(code)
    (repo / "SPEC.md").write_bytes(data)
    for argv in (["1", "0"], ["status"], ["add", "x"]):
        refused(typed(*argv), 2, "SPEC.md must be UTF-8", hint="iconv")
    assert (repo / "SPEC.md").read_bytes() == data


@pytest.mark.parametrize("name", ["SPEC.md", "LEARNINGS.md"])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_their_place_is_a_usage_error(
    repo: Path, typed: Typed, name: str, make: Callable[[Path], None]
) -> None:
    (repo / name).unlink(missing_ok=True)
    make(repo / name)
    for argv in (["1", "0"], ["-n"]):
        refused(typed(*argv), 2, f"{name}: it is not a file", hint="a file in its place")


def test_a_spec_md_without_a_task_is_answered_with_an_example(
    repo: Path, fake: Fake, typed: Typed, tmp_path: Path
) -> None:
    place = repo / "SPEC.md"
    example = "- [ ] Add a --version flag"
    place.unlink()
    for argv in ([], ["-n"]):
        refused(typed(*argv), 2, f"no SPEC.md in {repo}", hint=example)
    refused(typed(), 2, "no SPEC.md", hint="kern init")
    for text in ("", "\n\n", "# Plan\n\n- an item\n- [link](x)\n", "```\n- [ ] shown\n```\n"):
        place.write_text(text)
        refused(typed(), 2, f"no task line in {place}", hint=example)
        assert place.read_text() == text
    for text in ("<!-- a plan\n", "# Plan\n\n```\n"):  # what is added to it would be hidden
        place.write_text(text)
        for argv in (["add", "x"], []):
            refused(typed(*argv), 2, "never closed and hides what is added", hint="")
        assert place.read_text() == text
    place.unlink()
    (tmp_path / "elsewhere.md").write_text("- [ ] task\n")
    place.symlink_to(tmp_path / "elsewhere.md")
    refused(typed(), 2, "SPEC.md is a link out of the repository", hint=str(repo))
    place.unlink()
    place.mkdir()
    ran = typed()
    assert ran.code in (1, 2)
    assert str(place) in ran.err
    assert fake.calls == []


def test_every_broken_marker_is_named_with_its_line(
    repo: Path, fake: Fake, typed: Typed, tmp_path: Path
) -> None:
    text = (
        "- [ ] fine\n- [] empty\n- [ x] inside\n* [-] struck\n  1. [~ ] late\n+ [xx] twice\n"
        "- [link](x)\n- [[wiki]]\n- [ab](c)\n<!--\n- [-] hidden\n-->\n- [v]\n"
    )
    (repo / "SPEC.md").write_text(text)

    ran, dry, status = typed("3", "0"), typed("-n"), typed("status")

    refused(ran, 2, hint="SPEC.md")
    assert [int(n) for n in re.findall(r"line (\d+)", ran.err)] == [2, 3, 4, 5, 6, 13]
    assert "[-]: use [x] or delete it" in ran.err
    assert dry == ran
    assert status.code == 0
    assert "line 13" in status.out
    assert (spec(repo), fake.calls) == (text, [])
    assert not (tmp_path / "kern").exists()


@pytest.mark.parametrize("what", ["merge", "rebase", "cherry-pick", "revert", "unmerged", "am"])
def test_in_the_middle_of_another_operation_kern_waits_for_its_end(
    repo: Path, git: Git, fake: Fake, typed: Typed, what: str
) -> None:
    def commit(text: str) -> None:
        (repo / "a.txt").write_text(text)
        git("commit", "--quiet", "--all", f"--message={text}")

    git("switch", "--quiet", "--create", "other")
    commit("theirs")
    patch = git("format-patch", "-1", "--stdout")
    git("switch", "--quiet", "main")
    commit("ours")
    commit("more")
    (repo.parent / "patch").write_text(patch + "\n")
    conflict = {
        "rebase": ["rebase", "other"],
        "cherry-pick": ["cherry-pick", "other"],
        "revert": ["revert", "HEAD~1"],
        "am": ["am", "-3", str(repo.parent / "patch")],
    }.get(what, ["merge", "other"])
    with pytest.raises(subprocess.CalledProcessError):
        git(*conflict)
    if what == "unmerged":
        (repo / ".git" / "MERGE_HEAD").unlink()
    before = snapshot(repo)

    ran, dry = typed("1", "0"), typed("-n")

    named = {"unmerged": "unmerged paths", "am": "under way"}.get(what, f"a {what} is under way")
    refused(ran, 2, named, str(repo), hint="git status")
    assert re.search(rf"would refuse to start: .*{named}", dry.out)
    assert (snapshot(repo), fake.calls) == (before, [])


def test_git_must_know_who_commits(
    repo: Path, git: Git, fake: Fake, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    before = snapshot(repo)

    refused(typed("1", "0"), 2, "who commits", hint="git config --global user.name")

    assert (snapshot(repo), fake.calls) == (before, [])


def test_a_branch_switched_under_the_run_ends_it(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "SPEC.md").write_text("- [ ] first\n- [ ] second\n")
    git("commit", "--quiet", "--all", "--message=tasks")

    def person(_: float) -> None:
        git("switch", "--quiet", "--create", "other")

    ran = inline(2, delay=0.1, sleep=person)

    assert ran.code == 1, ran.err
    assert "switched under the run: main to other" in ran.err
    assert "git switch main" in ran.err
    assert git("symbolic-ref", "--short", "HEAD") == "other"
    git("switch", "--quiet", "main")
    fake.script(research=[{"result": READY}])
    resumed = inline(2)
    assert resumed.code == 0, resumed.err
    assert "- [x] first\n" in spec(repo)
    assert "- [x] second\n" in spec(repo)
    assert git("rev-list", "--count", "main") == "4"


# ---------------------------------------------------------------- the agent's program


def test_an_agent_that_is_not_there_or_cannot_run_is_found_before_the_first_stage(
    repo: Path, git: Git, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = snapshot(repo)
    claude = fake.folder / "bin" / "claude"
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", f"{claude.parent}{os.pathsep}{tools}")

    claude.chmod(0o644)
    refused(typed("1", "0"), 2, "claude is not executable", hint="")
    claude.unlink()
    refused(typed("1", "0"), 2, "claude is not installed", hint="npm install -g")
    monkeypatch.setenv("KERN_CLAUDE", str(tmp_path / "nowhere"))
    refused(typed("1", "0"), 2, str(tmp_path / "nowhere"), hint="KERN_CLAUDE names it")
    monkeypatch.delenv("KERN_CLAUDE")

    assert snapshot(repo) == before
    assert typed("-n").code == 0


@pytest.mark.unheld
def test_the_agent_of_the_start_is_the_agent_of_the_whole_run(
    repo: Path, git: Git, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever comes to stand before it on PATH, and from wherever kern was started."""
    early = tmp_path / "early"
    early.mkdir()
    monkeypatch.setenv("PATH", f"{early}{os.pathsep}{os.environ['PATH']}")
    plant = f"printf '#!/bin/sh\\nexit 1\\n' > {early}/claude && chmod +x {early}/claude"
    fake.script(research=[{"run": [plant], "result": READY}])
    ran = typed("1", "0")
    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "commit"]
    assert os.access(early / "claude", os.X_OK)

    (repo / SPEC).write_text("- [ ] another\n")
    git("commit", "--quiet", "--all", "--message=another")
    fake.script(research=[{"result": READY}])
    (repo / "sub").mkdir()
    monkeypatch.setenv("KERN_CLAUDE", "../../fake/bin/claude")
    assert typed("1", "0", cwd=repo / "sub").code == 0
    agent = next(
        line for line in typed("doctor", cwd=repo / "sub").out.splitlines() if "agent:" in line
    )
    assert str(fake.folder / "bin" / "claude") in agent


@pytest.mark.parametrize("how", ["file", "link in", "link out", "dot"])
def test_an_agent_that_lies_in_the_repository_is_started_only_where_it_is_named(
    repo: Path, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    real = fake.folder / "bin" / "claude"
    folder = tmp_path / "tools" if how == "link in" else repo / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    (repo / ".git" / "info" / "exclude").write_text("node_modules/\n")
    inside = repo / "node_modules" / "claude.js"
    inside.parent.mkdir(exist_ok=True)
    if how in ("file", "dot"):
        shutil.copy(real, folder / "claude")
    elif how == "link in":
        shutil.copy(real, inside)
        (folder / "claude").symlink_to(inside)
    else:
        (folder / "claude").symlink_to(real)
    on_path = "node_modules/.bin" if how == "dot" else folder
    monkeypatch.setenv("PATH", f"{on_path}{os.pathsep}{os.environ['PATH']}")
    before = snapshot(repo)
    for argv in (["1", "0"], ["plan", "--yes", "x"]):
        refused(typed(*argv), 2, "file of this repository", str(folder), hint="KERN_CLAUDE=/")
    assert "problem  agent: claude is a file of this repository" in typed("doctor").out
    assert (snapshot(repo), fake.calls) == (before, [])
    monkeypatch.setenv("KERN_CLAUDE", str(folder / "claude"))
    assert typed("1", "0").code == 0


def test_who_is_not_logged_in_is_told_before_anything_is_written(
    repo: Path, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake.folder / "auth.json").write_text('{"loggedIn": false, "authMethod": "none"}')
    before = snapshot(repo)
    for argv in (["1", "0"], ["plan", "--yes", "x"]):
        refused(typed(*argv), 1, "claude is not logged in", hint="log in")
    assert (snapshot(repo), fake.calls) == (before, [])
    assert not (repo / ".git" / "kern" / "events.jsonl").exists()
    assert "problem  login: claude is not logged in" in typed("doctor").out

    for odd in ("", "[]", '{"loggedIn": "no"}'):  # an older claude does not tell
        (fake.folder / "auth.json").write_text(odd)
        assert re.search("login: (unknown|its own word)", typed("doctor").out)
    assert typed("1", "0").code == 0


def test_a_key_that_makes_the_login_needless_asks_nobody(
    repo: Path, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake.folder / "auth.json").write_text('{"loggedIn": false}')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up-key")
    assert typed("1", "0").code == 0


def test_a_refused_key_ends_the_agent_in_seconds(repo: Path, fake: Fake, inline: Inline) -> None:
    """claude itself would ask for three minutes."""

    def again(number: int, status: int) -> dict[str, object]:
        said = {"type": "system", "subtype": "api_retry", "attempt": number, "max_retries": 10}
        return {**said, "error_status": status, "error": "authentication_failed"}

    overloaded = [again(number, 529) for number in (1, 2, 3)]
    fake.script(research=[{"lines": [*overloaded, again(1, 401)], "result": READY}])
    ran = inline(1)
    assert ran.code == 0, "a token is renewed after the first refusal"

    (repo / SPEC).write_text("- [ ] another\n")
    fake.script(implement=[{"lines": [again(1, 401), again(2, 401)], "sleep": 120}])
    began = time.monotonic()
    ran = inline(1)
    assert time.monotonic() - began < 30
    assert ran.code == 1
    assert "claude is not logged in: the API answers 401" in ran.err
    assert "log in, or set ANTHROPIC_API_KEY" in ran.err
    assert [event.reason for event in ran.events if isinstance(event, StageFailed)]
    assert "Attempt" not in spec(repo)


@pytest.mark.unheld
def test_a_program_that_the_system_cannot_start_is_named(
    repo: Path, git: Git, fake: Fake, typed: Typed, inline: Inline
) -> None:
    claude = fake.folder / "bin" / "claude"
    program = claude.read_bytes()
    claude.write_bytes(b"\x7fELF garbage")

    ran = typed("1", "0")

    assert ran.code == 2
    assert "claude cannot be started" in ran.err
    assert "hint: kern doctor" in ran.err
    assert "Traceback" not in ran.err
    claude.write_bytes(program)
    assert inline(1).code == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root is refused")
def test_as_root_without_a_sandbox_nothing_is_begun(
    repo: Path, fake: Fake, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IS_SANDBOX")
    before = snapshot(repo)

    refused(typed("1", "0"), 1, "root", hint="IS_SANDBOX=1")

    assert (snapshot(repo), fake.calls) == (before, [])


def test_a_claude_that_is_too_old_says_so_in_its_first_event(
    repo: Path, git: Git, fake: Fake, typed: Typed
) -> None:
    init = {"type": "system", "subtype": "init", "claude_code_version": "1.0.0"}
    fake.script(research=[{"result": READY, "events": [init]}])

    ran = typed("1", "0")

    assert ran.code == 1
    assert "\nkern: claude 1.0.0 is too old: kern needs 2." in ran.said
    assert "hint: npm install -g" in ran.err
    assert fake.stages == ["research"]


def test_good_json_is_read_in_every_shape(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    def result(text: str) -> str:
        fields = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
        return json.dumps({**fields, "result": text})

    git("commit", "--quiet", "--allow-empty", "--message=base")
    (repo / "SPEC.md").write_text("- [ ] first\n- [ ] second\n")
    work = ["echo 1 >> n"]
    init = json.dumps({"type": "system", "subtype": "init"})
    warning = "(node:1) Warning: error: deprecated\n"
    fake.script(
        research=[
            {"stdout": result(READY)},
            {"stdout": f"npm notice {{\n{result(READY)}\nbye\n", "exit": 1},
        ],
        implement=[
            {"run": work, "stdout": f"{init}\n{result('SUCCESS')}\n"},
            {"run": work, "result": "SUCCESS", "stderr": warning, "exit": 1},
        ],
        commit=[{"stdout": f"[{result('no')}, {result('do the task')}]"}],
    )

    ran = inline(2)

    assert ran.code == 0, ran.err
    assert fake.stages == ["research", "implement", "commit"] * 2
    assert "Warning" not in ran.err


@pytest.mark.parametrize("printed", ["", '[1, {"type": "x"}] \x00\xff'])
def test_an_agent_without_a_result_ends_the_run_after_three_tries(
    repo: Path, git: Git, fake: Fake, inline: Inline, printed: str
) -> None:
    fake.script(research=[{"stdout": printed, "stderr": "a warning\n"}])

    ran = inline(1)

    assert ran.code == 1
    assert fake.stages == ["research"] * 3
    assert "without an answer" in ran.err
    assert "a warning" in ran.err
    assert "the transcript: " in ran.err
    assert "- [~] add a greeting" in spec(repo)


PEAK = """
import sys
from kern.cli.main import main
try:
    main()
finally:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_200_mb_of_output_are_cut_off_in_little_memory(
    repo: Path, git: Git, fake: Fake, tmp_path: Path
) -> None:
    fake.script(
        implement=[{"run": ["echo half > half.txt"], "megabytes": 200}, {"result": "SKIPPED: x"}]
    )
    source = Path(__file__).parent.parent.parent

    done = subprocess.run(
        [sys.executable, "-c", PEAK, "1", "0"],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the agent printed more than 100 MB and was ended" in done.stderr
    assert int(done.stdout.splitlines()[-1]) < 95_000
    assert re.search(r"> \*\*Attempt 1:\*\* the agent printed more than 100 MB", spec(repo))
    assert fake.stages == ["research", "implement", "implement"]
    assert not (repo / "half.txt").exists()
    size = sum(path.stat().st_size for path in (tmp_path / "kern").rglob("*") if path.is_file())
    assert size < 101_000_000


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("---\nmodel: opus\n---\n{{ attempts }}", "lacks the placeholder {{ task }}"),
        ("---\nmodel: opus\n---\n\n{TASK}", ":5: {TASK} is what an earlier kern read"),
        (f"---\nmodel: opus\n---\n{ALL} {{% if %}}", "1_research.md:4: "),
        (f"---\nmodel: opus\n---\n{ALL} {{{{ diff }}}}", "{{ diff }}"),
        (ALL, "no model"),
        (f"---\nmodel:\n---\n{ALL}", "no model"),
        (f"---\nmodel: opus\ntools: all\n---\n{ALL}", "tools"),
        ("", "no model"),
    ],
    ids=[
        "lacking",
        "earlier",
        "syntax",
        "unknown",
        "no front matter",
        "empty model",
        "unknown setting",
        "empty",
    ],
)
def test_a_broken_prompt_of_the_project_is_named(
    repo: Path, fake: Fake, typed: Typed, text: str, word: str
) -> None:
    own = repo / ".kern" / "prompts" / "1_research.md"
    own.parent.mkdir(parents=True)
    own.write_text(text)
    before = snapshot(repo)

    for argv in (["1", "0"], ["-n"]):
        refused(typed(*argv), 2, str(own), word, hint=" ")

    assert (snapshot(repo), fake.calls) == (before, [])


# ---------------------------------------------------------------- the output folder


def test_an_output_folder_that_cannot_be_made_is_named(
    repo: Path, fake: Fake, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    before = snapshot(repo)
    # root passes permission bits: what no one can write to is not a folder, or the kernel's own
    for place in (
        tmp_path / "file" / "kern",
        tmp_path / "file",
        Path("/sys/kern-test"),
        Path("/proc/x"),
    ):
        monkeypatch.setenv("KERN_DIR", str(place))
        ran = typed("1", "0")
        assert ran.code == 2, ran.err
        assert str(place) in ran.err or str(place.parent) in ran.err
        assert "KERN_DIR" in ran.err
        assert "  hint: " in ran.err
        assert typed("status").code in (0, 1, 2)
    assert (snapshot(repo), fake.calls) == (before, [])


@pytest.mark.parametrize("part", ["", "project", "project/main", "project-main.lock.d"])
@pytest.mark.parametrize("fault", ["another user", "writable", "a link"])
def test_an_output_folder_that_others_rule_is_refused(
    repo: Path, fake: Fake, typed: Typed, tmp_path: Path, part: str, fault: str
) -> None:
    if fault == "another user" and os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    base = tmp_path / "kern"
    folder = base / part
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if fault == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777 if fault == "writable" else 0o700)
        if fault == "another user":
            os.chown(folder, 12345, 12345)
    before = snapshot(repo)

    ran = typed("1", "0")

    refused(ran, 2, str(folder), hint="KERN_DIR")
    assert list(elsewhere.iterdir()) == []
    assert (snapshot(repo), fake.calls) == (before, [])


def test_planted_links_for_stage_files_are_not_followed(
    repo: Path, git: Git, fake: Fake, typed: Typed, tmp_path: Path
) -> None:
    folder = tmp_path / "kern" / "project" / "main"
    folder.mkdir(parents=True, mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o700)
    transcripts = [folder / f"transcript{number}.json" for number in (1, 2, 3)]
    for path in transcripts:
        path.symlink_to(victim)

    ran = typed("1", "0")

    assert ran.code == 1
    assert f"cannot write {transcripts[0]}" in ran.err
    for path in transcripts:
        path.unlink()
    for name in ("stage1.json", "stage2.json", "stage3.json", "last", "history"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    assert typed("1", "0").code in (0, 1)
    assert victim.read_text() == "precious\n"


# ---------------------------------------------------------------- a full disk


def fill(place: Path) -> Path:
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def test_a_full_disk_for_the_output_stops_the_run_and_costs_nothing(
    repo: Path,
    git: Git,
    fake: Fake,
    inline: Inline,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KERN_DIR", str(small_disk / "kern"))
    before = snapshot(repo)
    filler = fill(small_disk)

    full = inline(1)

    assert full.code == 1
    assert "o space left" in full.err
    assert str(small_disk) in full.err
    assert "free some space" in full.err
    assert (snapshot(repo), fake.calls) == (before, [])

    filler.unlink()
    long = {"result": "x" * 2_000_000 + "\n\nREADY"}
    fake.script(research=[long])
    filling = inline(1)
    assert filling.code == 1
    assert "o space left" in filling.err
    assert "- [~] add a greeting" in spec(repo)

    fake.script(research=[{"result": READY}])
    assert inline(1).code == 0
    assert git("status", "--porcelain") == ""


def test_a_full_disk_for_the_repository_loses_no_work(
    repo: Path, fake: Fake, typed: Typed, small_disk: Path, git: Git
) -> None:
    project = small_disk / "project"
    git("config", "core.hooksPath", "/dev/null")
    subprocess.run(["git", "clone", "--quiet", "--template=", str(repo), str(project)], check=True)
    big = "head -c 2000000 /dev/urandom > big.bin"
    fake.script(implement=[{"run": ["echo 1 > n", big], "result": "SUCCESS"}])

    full = typed("1", "0", cwd=project)

    assert full.code == 1, full.err
    assert "o space left" in full.err
    assert str(project) in full.err
    assert "free some space" in full.err
    assert "[~] add a greeting" in spec(project)
    assert (project / "n").read_text() == "1\n"

    (project / "big.bin").unlink()
    fake.script(implement=[{"run": ["echo 2 > n"], "result": "SUCCESS"}])
    resumed = typed("1", "0", cwd=project)

    assert resumed.code == 0, resumed.err
    assert "- [x] add a greeting" in spec(project)
    assert git("show", "HEAD:n", cwd=project) == "2"
    assert git("status", "--porcelain", cwd=project) == ""
    assert fake.stages.count("research") == 1


# ---------------------------------------------------------------- odd, but allowed


def test_odd_texts_and_a_persons_own_git_settings_do_no_harm(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    odd = b"-m `touch evil` $(touch evil) \"q\" 'x' %s {TASK} #1 \xff \xc3\xa4 " + b"long " * 400
    (repo / "SPEC.md").write_bytes(b"- [ ] " + odd + b"\n- [ ] # heading\n")
    settings = (
        *("color.ui=always", "diff.noprefix=true", "log.showSignature=true", "core.abbrev=40"),
        *("diff.renames=copies", "commit.verbose=true", "merge.conflictStyle=zdiff3"),
        *("diff.external=false", "status.short=true", "log.date=relative", "core.pager=false"),
        *("commit.cleanup=verbatim", "core.commentChar=auto", "index.version=4"),
        *(
            "format.pretty=raw",
            "log.decorate=full",
            "core.quotePath=false",
            "diff.mnemonicPrefix=1",
        ),
    )
    for setting in settings:
        git("config", *setting.split("=", 1))
    git("commit", "--quiet", "--all", "--message=tasks")
    fake.script(
        implement=[
            {"run": ["echo x >> n"], "result": "FAILED: no"},
            {"run": ["echo y >> n"], "result": "SUCCESS"},
        ],
        commit=[{"result": " "}, {"result": "do the task"}],
    )

    ran = inline(2)

    assert ran.code == 0, ran.err
    assert odd.strip() in (repo / "SPEC.md").read_bytes()
    assert spec_lines(repo)[0].startswith(b"- [x] -m `touch evil`")
    assert b"- [x] # heading" in spec_lines(repo)
    assert not (repo / "evil").exists()
    assert git("log", "-1", "--format=%s", "HEAD~1").startswith("-m `touch evil` $(touch evil)")
    assert git("log", "-1", "--format=%(trailers:key=Kern-Task,valueonly)").strip() == "# heading"
    assert git("rev-list", "--count", "HEAD") == "4"


def spec_lines(repo: Path) -> list[bytes]:
    return (repo / "SPEC.md").read_bytes().split(b"\n")
