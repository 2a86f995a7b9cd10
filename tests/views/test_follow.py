"""`kern report --serve`: what it tells, whom it tells nothing, and how a real browser holds it."""

import http.client
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

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


def asked(url: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=60)
    connection.request(method, where.path, b"x" * 100_000 * (method == "POST"), headers)
    with connection.getresponse() as answer:
        return answer.status, answer.read().decode()


def test_who_has_not_the_address_itself_gets_one_sentence(
    repo: Path, fake: Fake, background: Background, kern: Kern
) -> None:
    page, url = begun(repo, fake, background)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", url)
    other = "This page is for no other origin: type its address yourself."
    wrong = "The token in this address is wrong: kern report --serve printed it."
    refused = {
        (url, "GET", "Origin", "http://evil.example"): (403, other),
        (url, "GET", "Host", "evil.example:80"): (403, other),
        (url, "GET", "Sec-Fetch-Site", "cross-site"): (403, other),
        (url[:-3], "GET", "Accept", "*/*"): (403, wrong),
        (url, "POST", "Accept", "*/*"): (405, "This page is only for reading: no POST is taken."),
    }
    for (address, method, name, value), answer in refused.items():
        assert asked(address, method, **{name: value}) == answer
    code, text = asked(url)
    assert code == 200 and "research" in text and " of $5.00" in text
    assert "kern answer 1" in text and "<script>alert" not in text
    taken = kern("report", "--serve", str(urlsplit(url).port))
    assert taken.code == 2 and "cannot be had: Address already in use" in taken.err
    (repo / ".git").rename(repo / "away")
    code, text = asked(url)
    assert code == 503 and "This page cannot be made: " in text
    (repo / "away").rename(repo / ".git")
    page.send_signal(signal.SIGINT)
    assert page.communicate(timeout=PATIENCE_S)[1].count("1 line skipped") == 1
    (repo / "SPEC.md").unlink()
    gone = kern("report", "--serve", "0")
    assert (gone.code, gone.err.count("\n")) == (2, 3) and "there is no SPEC.md in" in gone.err


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
def test_a_browser_renews_the_page_and_asks_nobody_else(
    repo: Path, fake: Fake, background: Background, tmp_path: Path, kern: Kern
) -> None:
    page, url = begun(repo, fake, background)
    with Browser(str(CHROMIUM), tmp_path / "browser") as browser:
        browser.call("Page.navigate", url=url)
        wait_for(lambda: "Needs you" in str(browser.evaluate("document.body?.innerText")))
        for width in (390, 1280):
            browser.picture(tmp_path / f"{width}.png", width, 844)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        kern("answer", "1", "SQLite")
        wait_for(lambda: "Needs you" not in str(browser.evaluate("document.body?.innerText")))
        asked_for = browser.named("Network.requestWillBeSent")
        assert len(asked_for) > 1 and {one["request"]["url"] for one in asked_for} == {url}
        assert not browser.named("Log.entryAdded", "Page.javascriptDialogOpening")
        page.send_signal(signal.SIGINT)
        assert page.wait(PATIENCE_S) == 0
