"""What a judge is shown of a change: all files, and of none so much that others are unseen; and
what it does to tests.
"""

import random
import tracemalloc
from pathlib import Path

import pytest

from kern.git.repository import open_at
from kern.model import Aide
from kern.spec.checklist import parse
from kern.stages import briefs, patches, template
from kern.stages.patches import LEAST, LISTED, LONGEST, MOST, File, is_test, words
from kern.stages.prompt import BUDGET, CHARS_PER_TOKEN, compose
from tests.conftest import Fake, Git, Inline

ROOM = BUDGET[Aide.JUDGE] * CHARS_PER_TOKEN
FORM = template.read(
    Aide.JUDGE, (Path("prompts") / "judge.md").read_text(encoding="utf-8"), "prompts/judge.md"
)


def fits(told: str) -> bool:
    """Whether it goes into the prompt whole."""
    prompt = compose(FORM, {"TASK": "t", "CRITERION": "c"}, {"DIFF": [told]})
    return prompt.left_out == () and told in prompt.text


def made(path: str, lines: int = 3) -> tuple[File, str]:
    text = "".join(f"+{path} {number}\n" for number in range(lines))
    return File(path, lines, 0), f"diff --git a/{path} b/{path}\n@@ -0,0 +1,{lines} @@\n{text}"


def told(*pairs: tuple[File, str], room: int = ROOM) -> str:
    return patches.told([file for file, _ in pairs], [text for _, text in pairs], room)


# ---------------------------------------------------------------- which files come first


@pytest.mark.parametrize(
    ("path", "generated"),
    [
        *((path, True) for path in ("package-lock.json", "web/yarn.lock", "pnpm-lock.yaml")),
        *((path, True) for path in ("Cargo.lock", "go.sum", "bun.lockb", ".terraform.lock.hcl")),
        *((path, True) for path in ("dist/app.js", "a/vendor/x.go", "node_modules/a/b.js")),
        *(
            (path, True)
            for path in ("app.min.js", "app.js.map", "t/__snapshots__/a", "a.test.snap")
        ),
        *((path, True) for path in ("api.pb.go", "api_pb2.py", "schema.generated.ts")),
        *((path, False) for path in ("a.py", "lock.py", "file-lock.py", "map.go", "distance.c")),
        *((path, False) for path in ("vendor.py", "package.json", "generate.py", "minute.js")),
    ],
)
def test_what_a_program_wrote_is_told_by_its_name(path: str, generated: bool) -> None:
    assert patches.is_generated(path, "") is generated
    for said in ("set", "true"):
        assert patches.is_generated(path, said)
    for said in ("unset", "false"):
        assert not patches.is_generated(path, said)


def test_files_are_read_as_git_names_them_with_sources_first() -> None:
    numstat = (
        b"1\t2\ta\tb \xff\n.py\0-\t-\tdist/x.png\0" + b"3\t0\t\0old.py\0new.py\0" + b"0\t0\tz\0"
    )
    assert patches.files(numstat, {"z": "set"}) == [
        File("a\tb \udcff\n.py", 1, 2),
        File("new.py", 3, 0, old="old.py"),
        File("dist/x.png", None, None, generated=True),
        File("z", 0, 0, generated=True),
    ]
    assert patches.files(b"", {}) == []
    assert File("a\tb\n.py", 1, 2).name == r"'a\tb\n.py'"


# ---------------------------------------------------------------- how much of each


@pytest.mark.parametrize(
    ("sizes", "room", "given"),
    [
        ([], 100, []),
        ([10, 20], 100, [10, 20]),
        ([1000, 20], 100, [80, 20]),
        ([20, 1000], 100, [20, 80]),
        ([1000, 1000, 10], 110, [50, 50, 10]),
        ([1000, 1000], 0, [0, 0]),
    ],
)
def test_what_one_does_not_need_is_the_others(
    sizes: list[int], room: int, given: list[int]
) -> None:
    assert patches.shares(sizes, room) == given


def test_one_big_file_pushes_out_no_other() -> None:
    text = told(made("big.py", 9000), *(made(f"f{number}.py") for number in range(9)))
    assert fits(text)
    assert len(text) > ROOM * 0.8, "what the small ones leave is the big one's"
    for number in range(9):
        assert f"+f{number}.py 2" in text
    assert "+big.py 20\n" in text
    assert "[cut here for length, +9000 -0 in all: read big.py for the rest]" in text


def test_behind_what_programs_wrote_the_change_is_seen() -> None:
    lock, lock_patch = made("package-lock.json", 9000)
    source = made("z.py", 5)
    text = told(source, (File(lock.path, 9000, 0, generated=True), lock_patch))
    assert "+z.py 4" in text
    assert text.index("+z.py 4") < text.index("+package-lock.json 0")
    assert "+9000 -0 package-lock.json (generated)" in text.partition("\n\n")[0]
    many = [made(f"s{number:02}.py", 900) for number in range(MOST)]
    text = told(*many, (File(lock.path, 9000, 0, generated=True), lock_patch))
    assert "+package-lock.json 0" not in text
    assert "[not shown, read them: package-lock.json]" in text
    assert fits(text)


def test_a_patch_that_is_cut_names_the_file_or_says_that_it_is_gone() -> None:
    gone = File("gone.py", 0, 9000), "diff\ndeleted file mode 100644\n" + "-old\n" * 9000
    text = told(gone, made("big.py", 9000))
    assert "+0 -9000 in all: the file is deleted]" in text
    assert "read big.py for the rest]" in text


def test_of_many_files_all_are_counted_and_the_first_are_shown() -> None:
    pairs = [made(f"{'d' * 40}/{number}.py", 10) for number in range(2000)]
    text = told(*pairs[:MOST], *((file, "") for file, _ in pairs[MOST:]))
    listed = text.partition("\n\n")[0]
    shown = listed.count("\n+10 -0 ")
    assert len(listed) <= LISTED + 100
    assert listed.startswith("2000 changed files")
    assert f"and {2000 - shown} more files, +{(2000 - shown) * 10} -0 in all" in listed
    assert f"[not shown, read them: {'d' * 40}/{MOST}.py, " in text
    assert f" and {2000 - MOST - 5} more]" in text
    assert fits(text)


def test_a_line_without_end_and_bytes_that_are_no_text_take_no_room() -> None:
    text = told(
        (File("a.js", 1, 0), "diff a.js\n+" + "x" * 100_000), (File("p", 1, 0), "diff p\n+\0\1\2")
    )
    assert max(map(len, text.split("\n"))) == LONGEST
    assert text.endswith("diff p\n[binary]")


def test_whatever_a_change_holds_the_list_and_the_first_patches_fit() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        pairs = []
        for number in range(chance.choice((1, 2, 5, 30))):
            path = chance.choice(("a", "~" * 5000, "x\n", "é" * 200)) + str(number)
            body = chance.choice(("~", "`", "+a\n", "+" + "~" * 400 + "\n", "{DIFF}\n", "é"))
            text = ("diff\n" + body * chance.choice((1, 100, 9000)))[:ROOM]
            pairs.append(
                (File(path, 1, 1, chance.choice(("", path * 2)), chance.random() < 0.3), text)
            )
        pairs.sort(key=lambda pair: pair[0].generated)
        text = told(*pairs)
        assert fits(text), seed
        assert "diff\n" in text, seed


def test_the_room_is_enough_for_as_many_as_are_read() -> None:
    assert ROOM - LISTED - 2000 >= MOST * LEAST * 0.9


# ---------------------------------------------------------------- from git


def seen(root: Path, git: Git, *, before: str = "HEAD") -> str:
    """The change from a commit to the working tree, as a judge would read it."""
    git("add", "--all")
    new = git("write-tree")
    repo = open_at(root)
    task = parse("- [ ] do it\n").tasks[0]
    old = git("rev-parse", f"{before}^{{tree}}")
    return briefs.judged(repo, FORM, task, "it is clear", old, new).text


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_judge_sees_the_sources_behind_a_lock_file_and_a_renamed_one(
    repo: Path, git: Git
) -> None:
    write(repo, {"old.py": "".join(f"{number}\n" for number in range(200))})
    write(repo, {"api/client.ts": "", ".gitattributes": "api/** linguist-generated\n"})
    git("add", "--all")
    git("commit", "--quiet", "--message=more")
    (repo / "old.py").rename(repo / "new.py")
    with (repo / "new.py").open("a") as file:
        file.write("the end\n")
    lines = "".join(f'"{number}": "x",\n' for number in range(5000))
    write(repo, {"package-lock.json": lines, "api/client.ts": lines, "zoo.py": "print(1)\n"})
    # What the task itself calls generated stays a source.
    write(repo, {".gitattributes": "api/** linguist-generated\n*.py linguist-generated -diff\n"})
    (repo / "image").write_bytes(bytes(range(256)) * 40)

    text = seen(repo, git)

    assert "+print(1)" in text
    assert "+the end" in text
    assert "binary new.py (was old.py)\n" in text
    assert "+5000 -0 api/client.ts (generated)" in text
    assert "+5000 -0 package-lock.json (generated)" in text
    assert "binary image\n" in text
    assert "image\n[binary]" in text
    assert text.index("+print(1)") < text.index('+"0": "x"')
    for path in ("api/client.ts", "package-lock.json"):
        assert f"read {path} for the rest]" in text


def test_a_persons_git_configuration_changes_nothing_of_it(repo: Path, git: Git) -> None:
    write(repo, {"*.txt": "star\n", "b.txt": "b\n"})
    (repo / "a.txt").write_text("one\n2\nthree\nfour\nfive\nsix\nseven\n")
    (repo / "own.txt").rename(repo / "moved.txt")
    plain = seen(repo, git)
    assert plain.count("+star\n") == plain.count("+b\n") == 1
    assert "(was own.txt)" in plain
    for name, value in {
        "diff.external": "false",
        "diff.context": "0",
        "diff.renames": "false",
        "color.ui": "always",
        "diff.orderFile": "/nowhere",
    }.items():
        git("config", name, value)
    assert seen(repo, git) == plain


@pytest.mark.slow
def test_a_huge_file_is_named_and_one_patch_at_a_time_is_in_memory(repo: Path, git: Git) -> None:
    (repo / "huge.txt").write_text("0123456789\n" * 400_000)
    for number in range(8):
        (repo / f"large{number}.txt").write_text("0123456789\n" * 200_000)
    write(repo, {"z.py": "print(1)\n"})
    tracemalloc.start()
    text = seen(repo, git)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "+print(1)" in text
    assert "+400000 -0 huge.txt" in text
    assert "[not shown, read them: huge.txt]" in text
    assert most < 12_000_000, most


def test_the_judge_is_given_it(repo: Path, git: Git, fake: Fake, inline: Inline) -> None:
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n  > **Judge:** it is clear\n")
    git("commit", "--quiet", "--all", "--message=task")
    lock = "seq 9000 > package-lock.json; echo hello > zoo.py"
    fake.script(implement=[{"run": [lock], "result": "SUCCESS"}])

    assert inline(1).code == 0

    (asked,) = (call["prompt"] for call in fake.calls if call["stage"] == "judge")
    assert "+hello" in asked
    assert "+9000 -0 package-lock.json (generated)" in asked


def test_of_a_huge_file_among_the_tests_no_patch_is_made(repo: Path, git: Git) -> None:
    (repo / "tests").mkdir()
    write(repo, {"tests/test_a.py": "assert 1\n"})
    (repo / "tests/data").write_bytes(b"\0assert 1\n" * (patches.HUGE // 10 + 1))
    git("add", "--all")
    old = git("write-tree")
    write(repo, {"tests/test_a.py": "", "tests/data": ""})
    git("add", "--all")
    found = open_at(repo)
    tracemalloc.start()
    assert patches.weakened(found, old, git("write-tree")) == ["tests/test_a.py: 1 assertion fewer"]
    assert tracemalloc.get_traced_memory()[1] < patches.HUGE
    tracemalloc.stop()


# -------------------------------------------------------------------- tests that were there

HEAD = "diff --git a/t b/t\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1,2 +1,2 @@ def assert_it():\n"


@pytest.mark.parametrize(
    ("path", "test"),
    [
        *((path, True) for path in ("tests/a.py", "src/test_a.py", "a_test.go", "x/a.spec.ts")),
        *((path, True) for path in ("__tests__/a.js", "FooTest.java", "spec/a.rb", "conftest.py")),
        *((path, False) for path in ("src/a.py", "contest.py", "latest.go", "testing.md")),
    ],
)
def test_what_a_test_is(path: str, test: bool) -> None:
    assert is_test(path) is test


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("-    assert a == 1\n", "1 assertion fewer"),
        ("-    assert a == 1\n+    assert a\n", "1 assertion changed"),
        ("+@pytest.mark.skip\n def test_a():\n", "1 new skip mark"),
        ("+@pytest.mark.xfail(reason='x')\n-    self.assertEqual(a, b)\n",
         "1 new skip mark; 1 assertion fewer"),
        ("-it('adds', () => {\n+it.skip('adds', () => {\n", "1 new skip mark"),
        ("-  expect(a).toBe(1)\n-  expect(b).toBe(1)\n", "2 assertions fewer"),
        ("-#[ignore]\n+    assert!(a);\n", ""),
        ("+    assert b\n", ""),
        ("-# a comment\n+# another\n", ""),
    ],
)  # fmt: skip
def test_a_patch_tells_what_is_weaker(patch: str, said: str) -> None:
    assert words("tests/t.py", HEAD + patch) == (f"tests/t.py: {said}" if said else "")


def test_a_test_file_that_is_gone_is_named() -> None:
    patch = (
        "diff --git a/tests/t.py b/tests/t.py\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-assert a\n"
    )
    assert words("tests/t.py", patch) == "tests/t.py: deleted"


def test_the_summary_and_a_judge_are_told_of_it(
    repo: Path, git: Git, fake: Fake, inline: Inline
) -> None:
    (repo / "tests").mkdir()
    (repo / "tests/test_a.py").write_text("def test_a():\n    assert 1\n    assert 2\n")
    (repo / "SPEC.md").write_text("- [ ] add a greeting\n  > **Judge:** it greets\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=tests")
    fake.script(implement=[{"run": ["sed -i 3d tests/test_a.py"], "result": "SUCCESS"}])
    ran = inline()
    assert ran.code == 0, ran.err
    told = "tests/test_a.py: 1 assertion fewer"
    assert f"; tests: {told}" in ran.err
    (judge,) = [call["prompt"] for call in fake.calls if call["stage"] == "judge"]
    assert f"Tests that were there before: {told}" in judge
