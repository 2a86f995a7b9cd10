"""`kern report --serve`: the report as a page on 127.0.0.1 that renews itself, what runs now at its
top. It is only read, and by nobody but who has its address.
"""

import contextlib
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kern import plain
from kern.errors import KernError, UsageError
from kern.views import report, status

_HOSTS, _SITES = ("127.0.0.1", "localhost"), ("none", "same-origin")
# The address is the secret; whom it is framed or asked by, the request says.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


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


def page(folder: Path, since: str) -> str:
    return report.page(report.gathered(folder, since), status.snapshot(folder))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, since: str, port: int) -> None:
        super().__init__((_HOSTS[0], port), _Request)
        self.folder, self.since, self.token = folder, since, secrets.token_urlsafe(16)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away before the answer is no news."""


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        host, site = self.headers.get("Host", ""), self.headers.get("Sec-Fetch-Site", "none")
        own = self.headers.get("Origin") in (None, f"http://{host}") and site in _SITES
        token = self.path.partition("?")[0].strip("/").encode()
        if not own or host.partition(":")[0] not in _HOSTS:
            self._send(403, "This page is for no other origin: type its address yourself.")
        elif not secrets.compare_digest(token, self.server.token.encode()):
            self._send(403, "The token in this address is wrong: kern report --serve printed it.")
        else:
            try:
                self._send(200, page(self.server.folder, self.server.since), "text/html")
            except Exception as exc:  # others write journals as well
                why = str(exc) if isinstance(exc, KernError) else repr(exc)
                self._send(503, f"This page cannot be made: {plain.line(why)}")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request, or another than GET."""
        code = 405 if code == 501 else code
        self._send(code, f"This page is only for reading: no {str(self.command)[:20]} is taken.")

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        data = text.encode("utf-8", "replace")
        self.send_response_only(code)
        headers = {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}
        if code == 503:  # others were writing: it is there again
            headers["Refresh"] = "20"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass
