"""The report as a page: what it tells, that nothing from outside can become a tag, and how a real
browser lays it out.
"""

import html
import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from kern import plain
from kern.journal import timeline
from kern.journal.html import page
from tests.conftest import PATIENCE_S, Fake, Git, Inline, Kern

START = 1_794_000_000  # 2026-11-06, some time in the evening
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), "")
NASTY = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title></svg>]]>&amp;--><!--",
    "שלום \u202eabc\u202c 🎉 \x1b[31mred\x1b[0m \x00\x9b \ud800",
    "x" * 5000,
)


class Told:
    """Records as a run writes them, at times of the test's choosing."""

    def __init__(self, run: str = "r1", now: float = START) -> None:
        self.run = run
        self.now = now
        self.found: list[dict[str, Any]] = []

    def __call__(self, kind: str, task: str = "", *, after: float = 0, **values: Any) -> None:
        self.now += after
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now)) + ".000Z"
        seq = len(self.found) + 1
        mark = {"v": 1, "id": f"{self.run}-{seq}", "time": when, "run": self.run, "seq": seq}
        self.found.append({**mark, "branch": "main", "task": task, "kind": kind, **values})

    def stage(self, stage: str, task: str, seconds: float, cost: float | None = 0.5) -> None:
        self("stage", task, stage=stage, did="start", attempt=1, model="opus")
        ended = {"did": "end", "attempt": 1, "model": "opus", "seconds": seconds}
        self("stage", task, after=seconds, stage=stage, cost_usd=cost, **ended)

    def task(self, name: str, cost: float | None = 0.5) -> None:
        self("task", name, did="start")
        for stage in ("research", "implement", "commit"):
            self.stage(stage, name, 60, cost)
        self("task", name, did="done", proved="verified by gate check")
        self("commit", name, commit="ab" * 20)


def shown(found: list[dict[str, Any]]) -> ET.Element:
    """As strictly as XML is read."""
    return ET.fromstring(page(found).partition("\n")[2])


def words(root: ET.Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


def marked(root: ET.Element, word: str) -> list[ET.Element]:
    return [one for one in root.iter() if one.get("class") == word]


# -------------------------------------------------------------------- nothing from outside


@pytest.mark.parametrize("text", NASTY)
def test_what_comes_from_outside_is_text_and_nothing_else(text: str) -> None:
    sound, told = Told(), Told()
    for tell, said in ((sound, "plain"), (told, text)):
        tell.run = said
        tell("run", root=f"/{said}", did="start")
        tell("task", said, did="start", detail=said)
        tell("stage", said, stage=said, did="start", attempt=said, model=said)
        tell("stage", said, stage=said, did="failed", reason=said, attempt=said, cost_usd=1)
        tell.stage("implement", said, 5)
        tell("gate", said, gate=said, code=said, red=True, output=said, seconds=2)
        tell("gate", said, gate=f"judge of {said}", red=True, output=said)
        tell("attempt", said, attempt=said, reason=said, ref=said)
        tell("learning", said, text=said)
        tell("limit", said, text=said)
        tell("commit", said, commit=said)
        tell("task", said, did=said, detail=said, proved=said)
        tell("run", did="end", exit=said)
        for record in tell.found:
            record["branch"] = said
        tell.found[0]["time"] = tell.found[-1]["time"] = said
    tags = [[one.tag for one in shown(tell.found).iter()] for tell in (sound, told)]
    assert tags[0] == tags[1]
    attributes = {name for one in shown(told.found).iter() for name in one.attrib}
    assert attributes == {name for one in shown(sound.found).iter() for name in one.attrib}
    whole = page(told.found)
    assert plain.line(text, 100).rstrip("…") in html.unescape(whole)
    assert not plain.UNSAFE.search(whole)
    assert max(map(len, words(shown(told.found)).split())) < 1100


def test_a_page_brings_all_that_it_needs_and_forbids_the_rest() -> None:
    told = Told()
    told.task("a")
    whole = page(told.found)
    (policy,) = (
        str(one.get("content")) for one in shown(told.found).iter("meta") if one.get("http-equiv")
    )
    assert policy.split("; ")[:2] == ["default-src 'none'", "style-src 'unsafe-inline'"]
    assert re.findall(r"(?:src|href|action)=\"(?!#)|url\((?!#)|@import|://", whole) == []


# -------------------------------------------------------------------- what it tells


def test_an_unknown_cost_is_called_unknown_and_never_zero() -> None:
    told = Told()
    told.task("free", None)
    assert "$0" not in page(told.found)
    assert words(shown(told.found)).count("unknown") >= 3
    told.task("paid", 0.5)
    seen = words(shown(told.found))
    assert "$1.50" in seen
    assert "at least $1.50" in seen
    assert "3 calls of unknown cost" in seen


def test_a_failed_attempt_is_drawn_as_one_and_says_what_to_look_at() -> None:
    told = Told()
    told("task", "a", did="start")
    told.stage("implement", "a", 100, 2)
    told("gate", "a", after=9, gate="gate check", code=1, red=True, seconds=9, output="1 failed")
    told("attempt", "a", attempt=1, reason="gate check is red", ref="kern/attempts/a/1")
    told.stage("implement", "a", 100, 2)
    told.stage("judge", "a", 10, 0.1)
    told("gate", "a", gate="judge of 'x'", code=1, red=True, output="no x", seconds=0.0)
    told.stage("commit", "a", 10, 0.4)
    bars = timeline.runs(told.found)[0].bars
    assert [(bar.kind, bar.failed) for bar in bars] == [
        ("implement", "gate check is red"),
        ("gate", "red, exit 1"),
        ("implement", ""),
        ("judge", "FAIL: no x"),
        ("commit", ""),
    ]
    root = shown(told.found)
    timed = marked(root, "strip")[0]
    assert len(marked(timed, "failed")) == 3
    assert "git show kern/attempts/a/1" in words(root)
    counted = [cell.text for cell in marked(root, "checks")[0].findall("tbody/tr/td")]
    assert counted == ["0", "1", "9 s", "0", "1", None]
    assert [printed.text for printed in root.iter("pre")] == ["1 failed", "no x"]
    assert "$2.10 spent on failed calls" in words(root)
    assert [rect.findtext("title") for rect in marked(root, "cost")[0].iter("rect")] == [
        "implement: $2.00",
        "commit: $0.40",
        "implement, failed: $2.00",
        None,
        "judge, failed: $0.10",
        None,
    ]


@pytest.mark.parametrize("then", ["kill", "end"])
def test_a_stage_without_an_end_is_drawn_to_where_the_run_ends(then: str) -> None:
    told = Told()
    told.stage("research", "a", 30)
    told("stage", "a", stage="implement", did="start", attempt=1)
    if then == "end":
        told("run", after=40, did="end", exit=130)
    (run,) = timeline.runs(told.found)
    bar = run.bars[-1]
    assert (bar.kind, bar.failed) == ("implement", timeline.NO_END)
    assert bar.ended - bar.began == (40 if then == "end" else 0)
    for rect in marked(shown(told.found), "strip")[0].iter("rect"):
        assert float(rect.attrib["x"][:-1]) + float(rect.attrib["width"][:-1]) <= 100
    said = "interrupted by signal 2" if then == "end" else "no end in the journal"
    assert said in words(shown(told.found))


def of_many() -> list[dict[str, Any]]:
    """Two workers at once, and a landing's gate."""
    parent, one, two = Told("parent"), Told("one"), Told("two")
    parent("run", did="start", root="/home/me/project")
    one("run", did="start", root="/tmp/worktree")
    one.stage("research", "first", 60)
    two.now += 10
    two("stage", "second", stage="research", did="start")
    one("run", did="end", exit=0, after=5)
    two("stage", "second", after=80, stage="research", did="end", seconds=80)
    two("stage", "second", stage="implement", did="start")
    parent("gate", "first", gate="check", seconds=20, red=False, code=0, after=85)
    parent("run", did="end", exit=0, after=20)
    for worker, told in enumerate((one, two), 1):
        told.found = [{**record, "fleet": "parent", "worker": worker} for record in told.found]
    found = [*parent.found, *one.found, *two.found]
    return sorted(found, key=lambda record: record["time"])


def test_many_at_once_are_one_run_with_a_lane_for_each_worker() -> None:
    (run,) = timeline.runs(of_many())
    assert (run.root, run.code) == ("/home/me/project", 0)
    bars = [(bar.worker, bar.kind, bar.ended - bar.began, bar.failed) for bar in run.bars]
    assert bars == [
        (1, "research", 60, ""),
        (0, "gate", 20, ""),
        (2, "research", 80, ""),
        (2, "implement", 15, timeline.NO_END),
    ]
    root = shown(of_many())
    strip = next(table for table in root.iter("table") if table.get("class") == "strip")
    assert [" ".join(one.itertext()) for one in strip.iter("th")] == [
        *("Worker", "landing", "worker 1", "worker 2"),
    ]
    assert "first: research 1 min from" in "".join(strip.itertext())


def test_the_most_expensive_comes_first_and_the_unknown_last() -> None:
    told = Told()
    told.task("cheap", 0.1)
    told.task("unknown", None)
    told.task("dear", 3)
    rows = marked(shown(told.found), "cost")[0].findall("tbody/tr/th/span")
    assert [row.text for row in rows if row.get("class") == "name"] == ["dear", "cheap", "unknown"]


def test_a_wait_for_a_limit_is_told_with_the_run() -> None:
    told = Told()
    told.stage("research", "a", 600)
    told("limit", "a", text="resets 3am", until=0)
    told.stage("implement", "a", 600)
    assert "resets 3am" in words(shown(told.found))


@pytest.mark.parametrize("seconds", [15, 60, 400, 3600, 30_000, 200_000, 1e7])
def test_no_two_ticks_are_labelled_alike(seconds: float) -> None:
    told = Told()
    told.stage("implement", "a", seconds)
    labels = [tick.text for tick in marked(shown(told.found), "tick")]
    assert 1 <= len(labels) <= 8
    assert seconds == 200_000 or len(set(labels)) == len(labels)


@pytest.mark.parametrize("seconds", [None, "x", float("nan"), float("inf"), -5, [], True])
@pytest.mark.parametrize("when", ["", "yesterday", "2026-99-99T99:99:99Z", "9999-12-31T23:59:59Z"])
def test_a_time_that_is_none_leaves_each_bar_in_its_box(seconds: Any, when: str) -> None:
    told = Told()
    told.stage("research", "a", 60)
    told("stage", "a", stage="implement", did="end", seconds=seconds, cost_usd=None)
    told.found[-1]["time"] = when
    told.stage("commit", "a", 60)
    bars = timeline.runs(told.found)[0].bars
    drawn = timeline.Axis(min(bar.began for bar in bars), max(bar.ended for bar in bars))
    assert all(0 <= drawn.at(bar.began) <= drawn.at(bar.ended) <= 1 for bar in bars)
    assert len(drawn.ticks()) <= 8


@pytest.mark.slow
def test_a_page_of_a_thousand_tasks_is_made_at_once() -> None:
    found = []
    for number in range(8):
        told = Told(f"r{number}", START + number * 86400)
        told("run", did="start", root="/p")
        for task in range(130):
            for _ in range(6):
                told("gate", f"task {number}-{task}", after=1, gate="check", red=False, seconds=1)
            told("attempt", f"task {number}-{task}", attempt=1, reason="because", ref="a/b/c")
            told("learning", f"task {number}-{task}", text="something to know")
            told.task(f"task {number}-{task}")
        found += told.found
    assert len(found) > 17_000
    began = time.process_time()
    whole = page(found)
    assert time.process_time() - began < 5  # about 0.5 s on an idle machine
    assert len(whole) < 4_000_000
    root = ET.fromstring(whole.partition("\n")[2])
    assert len(list(root.iter("tr"))) > 4000
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))


def lightness(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_bars_stand_out_in_light_and_dark(scheme: str) -> None:
    css = Path(timeline.__file__).with_name("page.css").read_text()
    light, dark = css.split("prefers-color-scheme: dark")
    colours = dict(re.findall(r"--(\w+): (#\w{6})", light if scheme == "light" else dark))

    def contrast(one: str, ground: str) -> float:
        low, high = sorted((lightness(colours[one]), lightness(colours[ground])))
        return (high + 0.05) / (low + 0.05)

    for ground in ("page", "card"):
        assert all(contrast(name, ground) >= 4.5 for name in ("ink", "soft", "bad", "good"))
    assert all(contrast(kind, "page") >= 3 for kind in timeline.KINDS)


# -------------------------------------------------------------------- the command


def test_without_a_run_the_page_says_so(repo: Path, kern: Kern) -> None:
    ran = kern("report", "--html")
    assert ran.code == 0
    assert "nothing in the journal" in words(ET.fromstring(ran.out.partition("\n")[2]))


def test_a_page_begins_where_it_is_told(repo: Path, fake: Fake, inline: Inline, kern: Kern) -> None:
    assert inline(1).code == 0
    assert "add a greeting" in kern("report", "--html", "--since", "1h").out
    assert "add a greeting" not in kern("report", "--html", "--since", "2999-01-01").out


@pytest.mark.parametrize("forms", [("--html", "--md"), ("--json", "--html"), ("--json", "--md")])
def test_a_report_has_one_form(repo: Path, kern: Kern, forms: tuple[str, str]) -> None:
    ran = kern("report", *forms)
    assert (ran.code, ran.out) == (2, "")
    assert "exclude each other" in ran.err
    assert all(form in ran.err for form in forms)


# -------------------------------------------------------------------- in a browser

MEASURE = """<!doctype html><meta charset="utf-8"><pre></pre><script>
const found = {}, page = PAGE
for (const width of [1280, 390]) {
  const frame = document.createElement("iframe")
  frame.width = width
  frame.height = 900
  frame.style.border = 0
  frame.srcdoc = page
  frame.onload = () => {
    const inside = frame.contentDocument, root = inside.documentElement
    inside.querySelectorAll("details").forEach(fold => fold.open = true)
    const rects = [...inside.querySelectorAll("td svg rect:not(defs rect)")].map(rect => {
      const box = rect.getBoundingClientRect(), around = rect.closest("svg").getBoundingClientRect()
      return [box.left - around.left, around.right - box.right, box.top - around.top,
              around.bottom - box.bottom, box.width, box.height]
    })
    const fill = word => getComputedStyle(inside.querySelector("." + word)).fill
    found[width] = {
      wide: root.scrollWidth, rects, fills: ["research", "implement", "commit", "failed"].map(fill),
      loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
      scripts: inside.scripts.length,
    }
    if (Object.keys(found).length == 2)
      document.querySelector("pre").textContent = JSON.stringify(found)
  }
  document.body.append(frame)
}
</script>"""


@pytest.mark.skipif(not BROWSER, reason="needs chromium: apt-get install chromium")
def test_a_browser_lays_the_page_of_a_real_run_out_within_its_width(
    repo: Path, git: Git, fake: Fake, inline: Inline, kern: Kern, tmp_path: Path
) -> None:
    tasks = ["add a greeting", NASTY[0], NASTY[1], "w" * 3000, "שלום 🎉"]
    (repo / "SPEC.md").write_text("".join(f"- [ ] {task}\n" for task in tasks))
    (repo / "n").write_text("good\n")
    (repo / "kern.toml").write_text("[gates]\ncheck = 'grep -q good n'\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=more")
    red = {"run": ["echo bad > n"], "result": "did it\n\nSUCCESS"}
    fake.script(implement=[red, {"run": ["echo good >> n"], "result": "did it\n\nSUCCESS"}])
    assert inline(len(tasks)).code == 0
    outer = tmp_path / "outer.html"
    inner = json.dumps(kern("report", "--html").out).replace("<", "\\u003c")
    outer.write_text(MEASURE.replace("PAGE", inner))
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
            *("--disable-sync", "--hide-scrollbars", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'browser'}", "--virtual-time-budget=5000"),
            *("--window-size=1400,1000", "--dump-dom", outer.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    match = re.search(r"<pre>(.*?)</pre>", done.stdout, re.S)
    assert match, done.stderr
    assert ":CONSOLE" not in done.stderr
    found = json.loads(html.unescape(match[1]))
    for width in (1280, 390):
        seen = found[str(width)]
        assert seen["wide"] <= width
        assert (seen["loaded"], seen["scripts"]) == (0, 0)
        assert len(seen["rects"]) > 5 * len(tasks)
        assert all(min(room) > -1 for *room, _, _ in seen["rects"])
        assert all(wide > 0 and tall > 0 for *_, wide, tall in seen["rects"])
        assert len(set(seen["fills"])) == 4
