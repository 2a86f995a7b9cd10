"""`kern report --serve`: what it tells, whom it tells nothing, and how a real browser holds it."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Fake, Kern, wait_for
from tests.kit.browser import Browser
from tests.views.test_page import NASTY

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
Background = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.slow


def begun(repo: Path, fake: Fake, background: Background) -> tuple["subprocess.Popen[str]", str]:
    """A run is at its first stage, another task waits for an answer; the address of the page."""
    spec = f"- [ ] ask\n  > **Question:** Postgres or SQLite?\n- [ ] {NASTY[0]} {NASTY[1]}\n"
    (repo / "SPEC.md").write_text(spec)
    fake.script(research=[{"sleep": 300}])
    background("1", "0", "--max-cost", "5")
    wait_for(lambda: "research" in fake.stages)
    with (repo / ".git/kern/events.jsonl").open("a") as journal:
        journal.write("torn\n")
    page = background("report", "--serve", "0")
    assert page.stdout
    return page, page.stdout.readline().strip()


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
def test_a_browser_renews_the_page_and_asks_nobody_else(
    repo: Path, fake: Fake, background: Background, tmp_path: Path, kern: Kern
) -> None:
    page, url = begun(repo, fake, background)
    with Browser(str(CHROMIUM), tmp_path / "browser") as browser:
        browser.call("Page.navigate", url=url)
        wait_for(lambda: "Needs you" in str(browser.evaluate("document.body?.innerText")))
        for width in (390, 1280):
            browser.resize(width, 844)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        kern("answer", "1", "SQLite")
        wait_for(lambda: "Needs you" not in str(browser.evaluate("document.body?.innerText")))
        asked_for = browser.named("Network.requestWillBeSent")
        assert len(asked_for) > 1 and {one["request"]["url"] for one in asked_for} == {url}
        assert not browser.named("Log.entryAdded", "Page.javascriptDialogOpening")
        page.send_signal(signal.SIGINT)
        assert page.wait(PATIENCE_S) == 0
