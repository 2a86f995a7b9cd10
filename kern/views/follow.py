"""`kern report --serve`: the report as a page on 127.0.0.1 that renews itself, what runs now at its
top. It is only read, and by nobody but who has its address.
"""

import contextlib
import io
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.journal.history import GATE, NO_END, Run, moment
from kern.views import report, status

HOSTS = ("127.0.0.1", "localhost")
_RENEW_S, _IDLE_S = 5, 20  # during a run, and where none is under way
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(folder: Path, since: str, port: int) -> None:
    """Until Ctrl-C; port 0 is one that is free."""
    page(folder, since)  # what is wrong is said here
    try:
        server = _Server(folder, since, port)
    except OSError as exc:
        what = f"port {port} cannot be had: {exc.strerror}"
        raise UsageError(what, hint="kern report --serve 0 takes one that is free") from None
    port = server.server_port
    print(f"http://127.0.0.1:{port}/{server.token}/", flush=True)
    other = f"ssh -L {port}:127.0.0.1:{port} brings it to another device"
    print(f"only for reading, until Ctrl-C; {other}", file=sys.stderr)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever(0.2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, since: str, port: int) -> None:
        super().__init__((HOSTS[0], port), _Request)
        self.folder, self.since, self.token = folder, since, secrets.token_urlsafe(16)
        self.one = threading.Lock()  # drawn one after the other, however many look

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away before the answer is no news."""


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        token = self.path.partition("?")[0].strip("/").encode()
        own = host.partition(":")[0] in HOSTS and origin in (None, f"http://{host}")
        if not own or site not in ("none", "same-origin"):
            self._send(403, "This page is for no other origin: type its address yourself.")
        elif not secrets.compare_digest(token, self.server.token.encode()):
            self._send(403, "The token in this address is wrong: kern report --serve printed it.")
        else:
            self._page()

    def _page(self) -> None:
        try:
            with self.server.one, contextlib.redirect_stderr(io.StringIO()):  # it was said before
                text = page(self.server.folder, self.server.since)
        except Exception as exc:  # others write journals as well
            why = str(exc) if isinstance(exc, KernError) else repr(exc)
            self._send(503, f"This page cannot be made: {plain.line(why)}")
        else:
            self._send(200, text, "text/html")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request, or another than GET."""
        code = 405 if code == 501 else code
        self._send(code, f"This page is only for reading: no {str(self.command)[:20]} is taken.")

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        data = text.encode("utf-8", "replace")
        self.send_response_only(code)
        length = {"Content-Length": str(len(data)), "Content-Type": f"{kind}; charset=utf-8"}
        length |= {"Refresh": "20"} if code == 503 else {}  # others were writing: it is there again
        for name, value in {**_HEADERS, **length, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


# ---------------------------------------------------------------- the page


def page(folder: Path, since: str) -> str:
    state = status.snapshot(folder)
    history, now, _ = report.gathered(folder, since)
    spent = state["run"]
    run = history.runs.get(spent["run"]) if spent and spent["under_way"] else None
    if run:
        _go_on(run, time.time())
    live = {
        "run": run,
        "state": state,
        "most": next(iter(run.of("run")), {}).get("max_cost") if run else None,
        "left": plain.count(state["to_do"]["pending"] + state["to_do"]["active"], "task"),
        "renew": _RENEW_S if run else _IDLE_S,
        "took": lambda when: plain.span(max(time.time() - moment(when), 0)),
    }
    return report.page(history, now, live)


def _go_on(run: Run, now: float) -> None:
    """What its workers have begun lasts until now."""
    run.ended = max(run.ended, now)
    last = {step.record.get("worker", 0): step for step in run.steps if step.kind != GATE}
    for step in last.values():
        if step.failed == NO_END:
            step.ended, step.failed = run.ended, report.GOES_ON
