"""What an agent could plant for later: each place against real git, seen, undone and named."""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kern.git import copies, environment, protect, refs, repository
from kern.git.protect import Guard, Restored
from kern.git.snapshot import Snapshots
from kern.model import Key
from tests.conftest import Fake, Git, Inline, Kern

Step = dict[str, Any]

WORK: Step = {"run": ["echo 1 > n"], "result": "SUCCESS"}
HOOK = "#!/bin/sh\nexit 0\n"
EVIL = "printf '#!/bin/sh\\ntouch evil\\n'"
TOKEN = "TOKEN-OF-CI"
KEY = Key("", "add a greeting")


def attempts(repo: Path) -> list[str]:
    return re.findall(r"> \*\*Attempt.*", (repo / "SPEC.md").read_text())


def write(place: Path, text: str, mode: int = 0o644) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)


def portrait(*places: Path) -> dict[str, tuple[int, bytes | str]]:
    """All that is there: modes, bytes, and where links lead."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for top in places:
        for path in [top, *sorted(top.rglob("*"))] if os.path.lexists(top) else []:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[str(path)] = mode, os.readlink(path)
            elif not stat.S_ISDIR(mode):
                found[str(path)] = mode, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


def furnish(repo: Path, git: Git, home: Path) -> list[Path]:
    """Husky's hooks, a person's prompts, settings that git ignores: each with something in it."""
    write(repo / ".husky" / "_" / ".gitignore", "*\n")
    for name in ("pre-commit", "commit-msg"):
        write(repo / ".husky" / "_" / name, HOOK, 0o755)
    write(repo / ".husky" / "pre-commit", "true\n")
    git("config", "core.hooksPath", ".husky/_")
    books = "".join(f".claude/{name}/\n" for name in ("commands", "hooks", "skills"))
    advice = ".claude/CLAUDE.md\nCLAUDE.local.md\n.claude/agents/own/\n"
    ignored = f".claude/settings.local.json\n.mcp.json\n.kern/\nbuild/\n{books}{advice}"
    write(repo / ".gitignore", ignored)
    write(repo / ".claude" / "skills" / "mine" / "SKILL.md", "a skill\n")
    write(repo / ".git" / "hooks" / "lib" / "x.sh", ":\n")
    write(repo / ".kern" / "prompts" / "readme.txt", "mine\n")
    write(repo / ".claude" / "settings.local.json", '{"mine": 1}', 0o600)
    write(repo / ".claude" / "agents" / "a.md", "an agent\n")
    git("add", "--all", "--", ".gitignore", ".husky/pre-commit", ".claude/agents")
    git("commit", "--quiet", "--message=furnish")
    places = (".husky", ".kern", ".claude", ".mcp.json", "CLAUDE.local.md")
    return [repo / name for name in places]


PLANTED = {
    "a prompt": ".kern/prompts/judge.md",
    "a changed prompt": ".kern/prompts/readme.txt",
    "a hook": ".husky/_/post-commit",
    "a changed hook": ".husky/_/pre-commit",
    "settings": ".claude/settings.local.json",
    "servers": ".mcp.json",
    "advice": ".claude/CLAUDE.md",
    "advice of one's own": "CLAUDE.local.md",
    "a changed skill": ".claude/skills/mine/SKILL.md",
    "a hook's helper": ".git/hooks/lib/x.sh",
}
ODD = {
    **{
        f"made: {path}": (path, f"mkdir -p {os.path.dirname(path)}; {EVIL} > {path}")
        for path in (
            ".claude/agents/own/x.md",
            ".claude/commands/deep/x.md",
            ".claude/hooks/x.sh",
            ".claude/skills/new/SKILL.md",
            ".git/hooks/new/x.sh",
        )
    },
    "a skill's folder that leads away": (
        ".claude/skills/mine",
        "mv .claude/skills/mine build; ln -s ../../build .claude/skills/mine; "
        "echo x > build/SKILL.md",
    ),
    "forced into the index": (".mcp.json", "echo x > .mcp.json; git add -f .mcp.json"),
    "hidden by its own rule": (
        ".claude/settings.json",
        "echo x > .claude/settings.json; echo settings.json >> .gitignore",
    ),
    "hidden by git's own rule": (
        ".git/info/exclude",
        "echo x > .claude/settings.json; echo settings.json >> .git/info/exclude",
    ),
    "a pipe": (".mcp.json", "mkfifo .mcp.json"),
    "a folder": (
        ".claude/settings.local.json",
        "rm .claude/settings.local.json; mkdir -p .claude/settings.local.json/x",
    ),
    "a link": (
        ".claude/settings.local.json",
        "ln -sf /etc/hostname .claude/settings.local.json",
    ),
    "a link above": (
        ".claude/settings.local.json",
        "cp -r .claude /tmp/c$$ && rm -r .claude && ln -s /tmp/c$$ .claude "
        "&& echo x > .claude/settings.local.json",
    ),
    "a link above prompts": (
        ".kern/prompts",
        "mv .kern/prompts build; ln -s ../build .kern/prompts; echo x > build/judge.md",
    ),
    "gone": (".husky/_/pre-commit", "rm -r .husky/_"),
    "a folder of hooks": (".git/hooks/pre-commit.d/x", f"mkdir -p .git/hooks/pre-commit.d; {EVIL} "
                          "> .git/hooks/pre-commit.d/x"),
    "a broken configuration": (".git/config", "echo '[broken' >> .git/config"),
    "no working tree": (".git/config", "git config core.bare true"),
    "no permission": (".kern/prompts/judge.md", "echo x > .kern/prompts/judge.md; "
                      "chmod 0 .kern/prompts/judge.md"),
}  # fmt: skip
STEPS = {
    **{name: (path, f"{EVIL} > {path}; chmod +x {path}") for name, path in PLANTED.items()},
    **ODD,
}


# What is not there a sandbox cannot hold either.
NOT_THERE = {
    *("servers", "advice", "advice of one's own", "a pipe"),
    *("forced into the index", "hidden by its own rule"),
    *(f"made: .claude/{path}" for path in ("agents/own/x.md", "commands/deep/x.md", "hooks/x.sh")),
}


def fives(names: list[str]) -> list[list[str]]:
    return [names[at : at + 5] for at in range(0, len(names), 5)]


ONE_BY_ONE = [[name] for name in ODD if not name.startswith("made: ")]
TOGETHER = [name for name in STEPS if [name] not in ONE_BY_ONE]
# As many in one attempt as its note names; what is odd has one of its own.
GROUPS = [
    *fives([name for name in TOGETHER if name not in NOT_THERE]),
    *fives([name for name in TOGETHER if name in NOT_THERE]),
    *ONE_BY_ONE,
]
CASES = [
    pytest.param(
        dict(map(STEPS.__getitem__, names)),
        id=", ".join(names),
        marks=() if NOT_THERE.issuperset(names) else pytest.mark.unheld,
    )
    for names in GROUPS
]


@pytest.mark.parametrize("steps", CASES)
def test_what_an_agent_plants_for_later_is_undone_named_and_fails_the_attempt(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path, steps: dict[str, str]
) -> None:
    places = furnish(repo, git, tmp_path / "home")
    places += [repo / ".git" / "hooks", repo / ".git" / "config", repo / ".git" / "info"]
    before = portrait(*places)
    runs = ["echo bad > n", *steps.values()]
    fake.script(implement=[{"run": runs, "result": "SUCCESS"}, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    (note,) = attempts(repo)
    for path in steps:
        assert re.search(rf"it changed .*{re.escape(path)}.*; restored", note)
        assert re.search(rf"broke its limits: it changed .*{re.escape(path)}", ran.err)
    assert portrait(*places) == before
    assert not (repo / "evil").exists()
    assert git("show", "HEAD:n") == "1"
    assert set(git("show", "--format=", "--name-only").splitlines()) == {"n", "SPEC.md"}


@pytest.mark.unheld
def test_what_stood_in_the_place_is_kept_where_the_warning_says(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    """It may be a person's: `claude` beside a run writes its settings."""
    furnish(repo, git, tmp_path / "home")
    run = "echo person > .claude/settings.local.json"
    fake.script(implement=[{"run": [run, "echo 1 > n"], "result": "SUCCESS"}, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    (folder,) = re.findall(r"is kept in (\S+)", ran.err)
    (kept,) = Path(folder).iterdir()
    assert kept.read_text() == "person\n"
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700


@pytest.mark.unheld
def test_hooks_outside_of_the_repository_are_restored_as_well(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / ".githooks"
    write(folder / "pre-commit", HOOK, 0o755)
    git("config", "--global", "core.hooksPath", "~/.githooks")
    before = portrait(folder)
    planted = [f"{EVIL} > {folder}/{name}" for name in ("pre-commit", "post-commit", "lib.sh")]
    away = f"rm -r {folder}; ln -s /tmp {folder}"
    steps = [[*planted, "echo bad > n"], [away, "echo worse > n"]]
    fake.script(implement=[*({"run": step, "result": "SUCCESS"} for step in steps), WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert len(attempts(repo)) == 2
    assert str(folder)[:60] in attempts(repo)[0]
    assert portrait(folder) == before
    assert not folder.is_symlink()


def test_what_a_task_may_change_is_committed_and_the_warning_names_what_runs(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    furnish(repo, git, tmp_path / "home")
    git("config", "core.hooksPath", ".husky/_")
    changes = ["echo ':' > .husky/pre-commit", "echo '{}' > .claude/settings.json"]
    fake.script(
        implement=[{"run": [*changes, "echo new > .claude/agents/a.md"], "result": "SUCCESS"}]
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert not attempts(repo)
    assert git("show", "HEAD:.husky/pre-commit") == ":"
    assert git("show", "HEAD:.claude/settings.json") == "{}"
    assert "the task changes .claude/settings.json, .husky/pre-commit: it runs unasked" in ran.err


def test_a_link_that_git_tracks_is_the_task_s_to_change_but_never_one_to_prompts(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    for name in ("one", "two"):
        write(repo / name / "settings.json", name)
        write(repo / name / "prompts" / "readme.txt", name)
    (repo / ".claude").symlink_to("one")
    git("add", "--all")
    git("commit", "--quiet", "--message=links")
    changes = ["rm .claude; ln -s two .claude", "echo 1 > n"]
    fake.script(
        implement=[
            {"run": [*changes, "ln -s two .kern"], "result": "SUCCESS"},
            {"run": changes, "result": "SUCCESS"},
        ]
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    (note,) = attempts(repo)
    assert "it changed .kern; restored" in note
    assert not os.path.lexists(repo / ".kern")
    assert os.readlink(repo / ".claude") == git("show", "HEAD:.claude") == "two"
    assert "the task changes .claude: it runs unasked" in ran.err


@pytest.mark.parametrize("folder", ["tools", ""], ids=["named", "linked"])
def test_a_folder_that_holds_more_than_hooks_is_guarded_for_hooks_alone(
    repo: Path, git: Git, fake: Fake, inline: Inline, folder: str
) -> None:
    """What else git ignores there a task may build anew, and tracked hooks may be changed."""
    real = folder or "githooks"
    write(repo / real / "pre-push", HOOK, 0o755)
    write(repo / real / "made.o", "old\n")
    write(repo / real / "pre-commit", HOOK, 0o755)
    write(repo / ".gitignore", "*.o\npre-commit\n" if folder else "*.o\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=hooks")
    if folder:
        git("config", "core.hooksPath", folder)
    else:
        shutil.rmtree(repo / ".git" / "hooks")
        (repo / ".git" / "hooks").symlink_to("../githooks")
    builds = [f"echo new > {real}/made.o", f"echo '# new' >> {real}/pre-push", "echo 1 > n"]
    plants = [f"echo 'touch evil' >> {real}/pre-commit"] if folder else []
    fake.script(
        implement=[
            {"run": [*builds, *plants], "result": "SUCCESS"},
            {"run": builds, "result": "SUCCESS"},
        ]
    )

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert len(attempts(repo)) == len(plants)
    assert (repo / real / "made.o").read_text() == "new\n"
    assert (repo / real / "pre-commit").read_text() == HOOK
    assert "# new" in git("show", f"HEAD:./{real}/pre-push")


@pytest.mark.unheld
def test_of_kern_s_own_folder_nothing_but_the_prompts_is_touched(
    repo: Path, git: Git, fake: Fake, inline: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERN_DIR", str(repo / ".kern" / "out"))
    fake.script(implement=[{"run": ["echo x > .kern/x", "echo 1 > n"], "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert not attempts(repo)
    assert (repo / ".kern" / "x").exists()
    assert (repo / ".kern" / "out" / "project" / "main" / "last" / "stage3.json").exists()


@pytest.mark.unheld
@pytest.mark.parametrize("table", ["gates", "snapshot", "gates.final"])
def test_a_command_of_the_project_may_not_plant_anything_either(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path, table: str
) -> None:
    places = [*furnish(repo, git, tmp_path / "home"), repo / ".git" / "config"]
    bad = f"{EVIL} > .kern/prompts/judge.md; {EVIL} > .husky/_/pre-commit; echo x > .mcp.json; "
    bad += "echo [broken >> .git/config"
    (repo / "kern.toml").write_text(f"[{table}]\nodd = '''{bad}'''\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    before = portrait(*places)
    final = table == "gates.final"
    if final:
        (repo / "SPEC.md").write_text("> **Goal:** g\n\n- [ ] add a greeting\n")
    fake.script(implement=[WORK], planner=[{"result": "Looked.\n\nDONE: all is there"}])

    ran = inline(9 if final else 1, until_done=final)

    assert ran.code == 0, ran.err

    assert not attempts(repo), "the agent does not pay for it"
    changed = ".git/config, .husky/_/pre-commit, .kern/prompts/judge.md, .mcp.json"
    assert f"it changed {changed}; restored" in ran.err
    assert portrait(*places) == before
    assert not (repo / "evil").exists()


@pytest.mark.unheld
def test_what_changes_between_two_runs_of_a_task_is_restored_named_and_no_attempt(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    furnish(repo, git, tmp_path / "home")
    once = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; kill -9 $PPID; }}"
    (repo / "kern.toml").write_text(f"[gates]\nonce = '''[ ! -e n ] || {once}'''\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=settings")
    fake.script(implement=[WORK])
    assert kern("1", "0").code == -9
    git("config", "user.name", "somebody else")
    (repo / ".claude" / "settings.local.json").write_text("new")

    ran = kern("1", "0")

    assert ran.code == 0, ran.err
    assert fake.stages.count("implement") == 1
    assert not attempts(repo)
    assert "or you since, changed .git/config; restored before git was asked" in ran.err
    assert "or you since, broke its limits: it changed .claude/settings.local" in ran.err
    assert git("show", "-s", "--format=%an") == "t"
    assert (repo / ".claude" / "settings.local.json").read_text() == '{"mine": 1}'
    (folder,) = re.findall(r"is kept in (\S+)", ran.err)
    assert [kept.read_text() for kept in Path(folder).iterdir()] == ["new"]


# ---------------------------------------------------------------- kern's own git


@pytest.mark.unheld
def test_kern_s_own_git_runs_no_hook_and_no_command_of_a_configuration_but_at_the_commit(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    """~/.gitconfig, which nothing guards, is planted in stage 2; the next task's calls are told."""
    home = tmp_path / "home"
    names = ("reference-transaction", "post-index-change", "pre-commit", "fsmonitor")
    said = "#!/bin/sh\necho {name} $(tr '\\0' ' ' < /proc/$PPID/cmdline) >> {home}/ran\n"
    for name in names:
        write(tmp_path / "h" / name, said.format(name=name, home=home), 0o755)
    planting = [
        f"git config --global core.hooksPath {tmp_path}/h",
        f"git config --global core.fsmonitor {tmp_path}/h/fsmonitor",
        f"rm -f {home}/ran",
    ]
    write(repo / ".git" / "hooks" / "pre-commit", f"#!/bin/sh\necho mine >> {home}/ran\n", 0o755)
    fake.script(implement=[{"run": [*planting, "echo 1 > n"], "result": "SUCCESS"}])

    ran = inline(1)

    assert ran.code == 0, ran.err
    told = (home / "ran").read_text().splitlines()
    assert {*told} == {"mine"}, "the person's own hook runs at the commit, and nothing else"
    assert "those of before count" in ran.err


@pytest.mark.unheld
def test_a_command_that_the_agent_plants_for_git_never_runs(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    spy = tmp_path / "spy"
    write(spy, f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n", 0o755)
    bad = {"run": [f"git config core.fsmonitor {spy}", "echo 1 > n"], "result": "SUCCESS"}
    fake.script(implement=[bad, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert len(attempts(repo)) == 1
    assert not (tmp_path / "ran").exists()


def test_what_the_environment_tells_git_already_still_counts(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "kern.test")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "there")
    found = repository.open_at(repo)
    assert found.text("config", "kern.test") == "there"
    assert found.text("config", "core.hooksPath") == os.devnull
    assert found.text("config", "core.fsmonitor") == "false"
    assert found.hooks_folder() == repo / ".git" / "hooks"
    for odd in ("", "no number", "-1"):
        assert environment.added({"GIT_CONFIG_COUNT": odd}, [("a.b", "c")]) == {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "a.b",
            "GIT_CONFIG_VALUE_0": "c",
        }


# ---------------------------------------------------------------- across a kill

DIES: Step = {
    "run": [
        "echo half > half.txt",
        f"{EVIL} > .husky/_/pre-commit",
        "git config user.name evil",
        "mkdir -p .kern/prompts; echo x > .kern/prompts/judge.md",
    ],
    "kill": "parent",
}


def reachable(git: Git) -> str:
    """Every byte that a mirror push would take along."""
    ids = [line.split()[0] for line in git("rev-list", "--all", "--objects").splitlines()]
    return "".join(git("cat-file", "-p", one) for one in ids)


def killed(repo: Path, git: Git, fake: Fake, kern: Kern, home: Path) -> dict[str, Any]:
    places = [*furnish(repo, git, home), repo / ".git" / "config"]
    git("config", "http.https://github.com/.extraheader", f"AUTHORIZATION: basic {TOKEN}")
    before = portrait(*places)
    fake.script(implement=[DIES, WORK])
    assert kern("1", "0").code == -9
    assert git("for-each-ref", "refs/kern/start")
    return before


@pytest.mark.unheld
def test_a_kern_that_goes_on_restores_what_no_ref_holds(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    before = killed(repo, git, fake, kern, tmp_path / "home")
    file = repo / ".git" / "kern" / "guard.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TOKEN not in reachable(git)

    ran = kern("1", "0")

    assert ran.code == 0, ran.err
    assert "or you since, changed .git/config; restored before git was asked" in ran.err
    assert "it changed .husky/_/pre-commit, .kern/prompts/judge.md; restored" in ran.err
    assert portrait(*map(Path, before)) == before
    assert not (repo / ".kern" / "prompts" / "judge.md").exists()
    assert not attempts(repo)
    assert not file.exists(), "no copy of a token stays behind"
    assert TOKEN not in reachable(git)


@pytest.mark.unheld
@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_text("{"),
        lambda file: file.write_text("[]"),
        lambda file: [file.unlink(), os.system(f"mkfifo {file}")],
        lambda file: [file.unlink(), file.mkdir()],
        lambda file: file.write_text(
            json.dumps(dict.fromkeys(json.loads(file.read_text()), "ZXZpbA=="))
        ),
    ],
    ids=["missing", "torn", "foreign", "a pipe", "a folder", "tampered with"],
)
def test_what_nothing_vouches_for_is_named_and_the_run_goes_on(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path, spoil: Any
) -> None:
    killed(repo, git, fake, kern, tmp_path / "home")
    spoil(repo / ".git" / "kern" / "guard.json")

    ran = kern("1", "0")

    assert ran.code == 0, ran.err
    assert "it changed .git/config, .husky/_/pre-commit, of which kern has no sound copy" in ran.err
    assert "it changed .kern/prompts/judge.md; restored" in ran.err, "nothing is needed for that"
    assert git("config", "user.name") == "evil", "left as it is"
    assert "[x]" in (repo / "SPEC.md").read_text()


@pytest.mark.unheld
def test_the_running_kern_needs_no_copy_on_the_disk(
    repo: Path, git: Git, fake: Fake, inline: Inline, tmp_path: Path
) -> None:
    places = [*furnish(repo, git, tmp_path / "home"), repo / ".git" / "config"]
    before = portrait(*places)
    bad = [*DIES["run"], "rm .git/kern/guard.json"]
    fake.script(implement=[{"run": bad, "result": "SUCCESS"}, WORK])

    ran = inline(1)

    assert ran.code == 0, ran.err
    assert len(attempts(repo)) == 1
    assert portrait(*places) == before


def test_a_linked_working_tree_has_copies_of_its_own(
    repo: Path, git: Git, fake: Fake, kern: Kern, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git("worktree", "add", "-q", "-b", "side", str(other))
    planted = "mkdir -p .kern/prompts; echo x > .kern/prompts/judge.md; git config user.name evil"
    fake.script(implement=[{"run": [planted], "kill": "parent"}, WORK])
    assert kern("1", "0", cwd=other).code == -9
    assert (repo / ".git" / "worktrees" / "other" / "kern" / "guard.json").exists()
    assert not (repo / ".git" / "kern" / "guard.json").exists()

    ran = kern("1", "0", cwd=other)

    assert ran.code == 0, ran.err
    assert not (other / ".kern" / "prompts" / "judge.md").exists()
    assert git("config", "user.name") == "t"
    assert not (repo / ".git" / "worktrees" / "other" / "kern" / "guard.json").exists()


def test_a_start_ref_of_an_earlier_kern_is_restored_from_all_the_same(
    repo: Path, git: Git, fake: Fake, kern: Kern
) -> None:
    """Its third parent held the files themselves; of other places it knew nothing."""
    write(repo / ".git" / "hooks" / "pre-commit", HOOK, 0o755)
    (repo / ".git" / "hooks" / "pre-push").symlink_to("/bin/true")
    write(repo / ".git" / "hooks" / "pre-push.d" / "own", HOOK)
    write(repo / ".kern" / "prompts" / "readme.txt", "mine\n")
    fake.script(implement=[{"run": ["echo half > half.txt"], "kill": "parent"}, WORK])
    assert kern("1", "0").code == -9

    def blob(data: bytes) -> str:
        argv = ["git", "hash-object", "-w", "--stdin"]
        done = subprocess.run(argv, cwd=repo, input=data, capture_output=True, check=True)
        return done.stdout.decode().strip()

    lines = "".join(
        f"{mode} blob {blob(data)}\t{name}\n"
        for mode, data, name in [
            ("100644", (repo / ".git" / "config").read_bytes(), "config"),
            ("100644", (repo / ".git" / "info" / "exclude").read_bytes(), "exclude"),
            ("100755", HOOK.encode(), "hooks:pre-commit"),
            ("120000", b"/bin/true", "hooks:pre-push"),
        ]
    )
    made = subprocess.run(
        ["git", "mktree"], cwd=repo, input=lines, capture_output=True, check=True, text=True
    )
    (ref,) = git("for-each-ref", "--format=%(refname)", "refs/kern/start").split()
    parents = git("show", "-s", "--format=%P", ref).split()
    own = git("commit-tree", made.stdout.strip(), "-m", "git's own")
    message = git("show", "-s", "--format=%B", ref)
    flags = [flag for one in (*parents[:2], own) for flag in ("-p", one)]
    git("update-ref", ref, git("commit-tree", f"{ref}^{{tree}}", *flags, "-m", message))
    hooks = repo / ".git" / "hooks"
    before = portrait(hooks, repo / ".git" / "config", repo / ".kern")
    git("config", "user.name", "evil")
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-push").unlink()
    write(hooks / "post-commit", HOOK, 0o755)

    ran = kern("1", "0")

    assert ran.code == 0, ran.err
    changed = "config, .git/hooks/post-commit, .git/hooks/pre-commit, .git/hooks/pre-push; restored"
    assert f"it changed .git/{changed}" in ran.err
    assert portrait(hooks, repo / ".git" / "config", repo / ".kern") == before


# ---------------------------------------------------------------- copies


def test_a_copy_is_told_apart_by_what_it_is_and_holds(tmp_path: Path) -> None:
    place, contents = tmp_path / "x", copies.Contents()
    seen: list[copies.Copy | None] = [copies.look(place, contents)]
    place.write_text("one")
    seen.append(copies.look(place, contents))
    place.write_text("two")
    seen.append(copies.look(place, contents))
    place.chmod(0o755)
    seen.append(copies.look(place, contents))
    place.unlink()
    place.symlink_to("two")
    seen.append(copies.look(place, contents))
    place.unlink()
    os.mkfifo(place)
    seen.append(copies.look(place, contents))
    for number, one in enumerate(seen):
        for other in seen[number + 1 :]:
            assert not (one and one.same(other)) and not (other and other.same(one))
    assert set(contents.values()) == {b"one", b"two"}
    place.unlink()
    place.write_text("two")
    place.chmod(0o600)
    assert (again := copies.look(place, contents)) and again.same(seen[2]), "x bits alone count"


def test_a_file_too_large_to_copy_is_watched_and_named(repo: Path) -> None:
    found = repository.open_at(repo)
    snapshots = Snapshots(found)
    large = repo / ".git" / "hooks" / "pre-commit"
    with large.open("wb") as file:
        file.truncate(copies.LARGEST + 1)
    held = Guard(found, snapshots)
    tree = snapshots.take()
    own = held.take(tree)
    held.store(own)
    assert protect.stored(found).stat().st_size < 10_000
    told = Restored()
    held.restore(own, tree, told)
    assert told == Restored()
    with large.open("r+b") as file:
        file.write(b"x")
    held.restore(own, tree, told)
    assert told == Restored(lost=[".git/hooks/pre-commit"])


def test_a_copy_stays_as_long_as_a_start_ref_goes_by_it(repo: Path, git: Git) -> None:
    found = repository.open_at(repo)
    snapshots = Snapshots(found)
    tree = snapshots.take()
    needed = []
    starts = []
    for number, branch in enumerate(("main", "other")):
        git("config", "kern.test", str(number))
        held = Guard(found, snapshots)
        own = held.take(tree)
        held.store(own)
        head = repository.Head(found.head().commit, branch)
        starts.append(refs.write_start(found, refs.begun(found, head, tree, tree, own, KEY, 1)))
        needed.append(protect.needs(found, own))
    assert needed[0] != needed[1]
    file = protect.stored(found)
    assert copies.stored(file).keys() == needed[0] | needed[1]
    refs.delete(found, starts[0].ref, starts[0].commit)
    assert copies.stored(file).keys() == needed[1]
    refs.delete(found, starts[1].ref, starts[1].commit)
    assert not file.exists()
