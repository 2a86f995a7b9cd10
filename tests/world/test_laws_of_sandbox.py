"""Laws of the sandbox: whatever a child sends to the way out, leaves in the place of its login, or
prints where it fails.
"""

import contextlib
import os
import random
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pytest
from hypothesis import settings

from kern.model import Needs
from kern.plain import decode
from kern.sandbox import closed, login
from kern.sandbox.confine import Confined
from kern.sandbox.proxy import Relay
from kern.sandbox.wall import ANY
from tests.conftest import patience
from tests.words.test_plain import UNSAFE
from tests.world.test_laws import even_law, noise

# -------------------------------------------------------------------- the way out

ELSEWHERE = "127.0.0.2"  # stands for a host of the world's
OURS = ("localhost", "[::1]", "127.0.0.1", "169.254.169.254", "168.63.129.16", "[::]")
NAMED = (ELSEWHERE, "open.invalid", "*.wild.invalid")
OPEN = (ELSEWHERE, "open.invalid", "OPEN.INVALID.", "x.wild.invalid")
OTHERS = ("wild.invalid", "evilwild.invalid", "open.invalid.evil.invalid", "255.255.255.255", "")
HOSTS = (*[ELSEWHERE] * 3, *OPEN, *OURS, *OTHERS)
FIELDS = ("Proxy-Authorization: own", "Connection: keep-alive", "Keep-Alive: 9", "X: 1")
END, BODY = b"\r\n\r\n", b"what follows\r\n\r\n"
ANSWERS = (*[b"HTTP/1.1 200 x" + END, b"HTTP/1.1 503 x" + END] * 2, b"x", b"")


class World(Relay):
    """To it one address of this machine is elsewhere."""

    def leads_here(self, family: int, address: tuple[object, ...]) -> bool:
        return address[0] != ELSEWHERE and super().leads_here(family, address)


class Server:
    """What may be reached, and the proxy behind which this machine stands."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.heard, self.busy = answer, b"", threading.Lock()
        self.listening = socket.create_server(("", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                with self.busy, client, contextlib.suppress(OSError):
                    self.hear(client, client.makefile("rb"))

    def hear(self, client: socket.socket, file: BinaryIO) -> None:
        for line in file:
            self.heard += line
            if not line.strip():
                break
        client.sendall(self.answer)
        if not self.answer.endswith(END):
            client.shutdown(socket.SHUT_WR)
        self.heard += file.read()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


@contextlib.contextmanager
def standing(hosts: tuple[str, ...], behind: str) -> Iterator[tuple[Relay, list[str]]]:
    """A relay on a machine that reaches the world by that proxy, and what it refuses."""
    refused = list[str]()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        patch.setenv("https_proxy", behind)
        with contextlib.closing(World(f"{folder}/relay", hosts, refused.append)) as relay:
            yield relay, refused


def answered(relay: Relay, data: bytes, kinds: str) -> bytes:
    """What a child hears on the last port that it hands over; `f`: a file in the place of one."""
    here, there = socket.socketpair()
    with contextlib.ExitStack() as stack, contextlib.suppress(ConnectionError):
        stack.enter_context(here)
        ports = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in kinds]
        address, null = ports[-1].getsockname(), os.open(os.devnull, os.O_RDONLY)
        handed = [
            one.fileno() if kind == "s" else null for kind, one in zip(kinds, ports, strict=True)
        ]
        with there, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.connect(relay.place)
            socket.send_fds(way, [b"\0"], [there.fileno(), *handed])
        os.close(null)
        for one in ports:
            one.close()
        client = stack.enter_context(socket.create_connection(address))
        client.sendall(data)
        with contextlib.suppress(OSError):  # it has ended the connection by now
            client.shutdown(socket.SHUT_WR)
        return stack.enter_context(client.makefile("rb")).read()
    return b""


@even_law
def test_whatever_a_child_sends_reaches_no_host_that_is_not_open_to_it(
    chance: random.Random,
) -> None:
    hosts, answer = chance.choice((*[(ANY,), NAMED] * 3, ())), chance.choice(ANSWERS)
    behind = chance.choice(("", "http://me:pw@127.0.0.1:{}", "http://127.0.0.1:{}"))
    with contextlib.closing(Server(answer)) as server, patience(60):
        local = chance.choice((*[()] * 4, (f"localhost:{server.port}",)))
        with standing((*hosts, *local), behind.format(server.port)) as (relay, refused):
            for _ in range(8):
                server.heard = b""
                refused.clear()
                host, port = chance.choice(HOSTS), chance.choice((*[server.port] * 5, 1, "x", ""))
                is_open = bool(hosts) and (host in OPEN if hosts == NAMED else host not in OURS)
                line, data = sent(chance, host, port)
                kinds = "ss" if local else chance.choice((*"ssssssf", "ss"))
                back = answered(relay, data, kinds)
                with server.busy:
                    heard = server.heard
                ours = tuple(b"HTTP/1.1 " + status for status in (b"200 OK", b"403 ", b"502 "))
                assert not back or back.startswith((answer[:14], *ours))
                if local:  # it asks that port, not the way out
                    assert data.startswith(heard)
                    continue
                assert (is_open and kinds == "s") or not heard, "it got out"
                refuses = behind and line.startswith("CONNECT") and b"503" in back
                assert b"own" not in heard and not (refuses and END + BODY in heard)
                assert not any(UNSAFE.search(one) for one in refused)
                if kinds == "s" and line == f"CONNECT {host}:{server.port}" and END + BODY in data:
                    assert is_open is (b"403" not in back)


def sent(chance: random.Random, host: str, port: object) -> tuple[str, bytes]:
    """The first line, and all that a child sends."""
    url = chance.choice((f"http://{host}:{port}/x?y", f"http://{host}:{port}", "/", "file:///"))
    connect = f"CONNECT {host}:{port}"
    line = chance.choice((*[connect] * 4, *[f"GET {url}"] * 4, f"CONNECT {host}", ""))
    fields = chance.sample(FIELDS, chance.randrange(len(FIELDS)))
    head = "\r\n".join((f"{line} HTTP/1.1", *fields)).encode() + END
    return line, chance.choice((*[head] * 6, head[:-2], noise(chance))) + BODY


# -------------------------------------------------------------------- an agent's login

TOKENS = '{{"oauth": {{"accessToken": "{}", "plan": "max"}}, "helper": "own"}}'
LEFT = ("link", "pipe", "folder", "nonsense", "endless", "nothing", "renewed", "evil")
PLACES = (".claude/cred.json", ".tok", ".claude/skills", ".claude/settings.json", ".claude/p/x.txt")


def leave(place: Path, what: str, stolen: Path) -> None:
    """What an agent, or a person, may have done there."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    match what:
        case "link":
            place.symlink_to(stolen)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            (place / "x").mkdir(parents=True)
        case "endless":
            place.touch()
            os.truncate(place, 1 << 40)
        case "nonsense":
            place.write_text("[[[")
        case "renewed" | "evil":
            text = TOKENS.format(what)
            place.write_text(text.replace("own", "evil") if what == "evil" else text)


@settings(max_examples=40)
@even_law
def test_whatever_an_agent_leaves_its_login_brings_back_tokens_and_leads_nowhere(
    tmp_path: Path, chance: random.Random
) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder, patience(60):
        home, own, stolen = Path(folder, "home"), Path(folder, "own/workers"), Path(folder, "ssh")
        (home / ".claude").mkdir(parents=True)
        own.mkdir(parents=True)
        login.blanks(own.parent / "blank")
        stolen.write_text(TOKENS.format("stolen"))
        files = [home / name for name in PLACES]
        needs = Needs(
            login=(*map(str, files[:2]), f"{home}/.aws/sso"),
            settings=tuple(map(str, files[2:])),
            excerpts={f"{home}/.claude.json": ("key", "none")},
        )
        for file in files[:2]:
            file.write_text(TOKENS.format("first"))
        leave(home / ".claude.json", chance.choice(("nothing", "nonsense", "renewed")), stolen)
        if chance.random() < 0.5:
            (home / ".aws/sso").mkdir(parents=True)
        told = None
        for turn in range(4):
            laid = [*login.lay(needs, home, own)]
            assert not told or told.read_text() == TOKENS.format(f"mine {turn}"), (
                "the person's counts"
            )
            (copies,) = (one.source for one in laid if one.target == home / ".claude")
            assert copies
            there = [copies / one.relative_to(home / ".claude") for one in (files[0], *files[2:])]
            assert not any(one.is_symlink() for one in (*there, own / ".tok"))
            leave(chance.choice((*there, own / ".tok")), chance.choice(LEFT), stolen)
            told = chance.choice((files[0], files[1], None, None))  # by the person's own session
            if told:
                told.write_text(TOKENS.format(f"mine {turn + 1}"))
        login.renew(needs, home, own)
        texts = [one.read_text() for one in files[:2] if one.exists()]
        assert not any(word in text for text in texts for word in ('"helper": "evil"', "stolen"))
        assert stolen.read_text() == TOKENS.format("stolen")


# -------------------------------------------------------------------- what a child says

SAYS = (
    *("{}: No such file or directory", "touch: cannot touch '{}': Read-only file system"),
    *("mkdir {}: permission denied", "{}", "Error: EACCES '{}'", "rm: {}: Resource busy"),
    *(
        "KeyError: 'OWN_THING'",
        "OWN_THING must be set, KERN_OWN_X too",
        "could not resolve host: {}",
    ),
)
NAMES = ("~/in.csv", "~/d/new", "~/gone/x", "{root}/a.txt", ".git", "db.example", "https://x/y")


@even_law
def test_whatever_a_child_says_what_is_closed_is_the_persons_and_not_in_the_tree(
    tmp_path: Path, chance: random.Random
) -> None:
    home, root = tmp_path / "home", tmp_path / "tree"
    for folder in (home / "d", root):
        folder.mkdir(parents=True, exist_ok=True)
    (home / "in.csv").touch()
    (root / "a.txt").touch()
    # Held so that it can neither read nor write what it is asked for.
    held = ("sh", "-c", "shift 6; for x; do printf :; done", "sh", "--unshare-net", f"{root}/.git")
    confined = Confined((*held, "x"), {}, held, root)
    names = [one.format(root=root) for one in NAMES]
    lines = [chance.choice(SAYS).format(chance.choice(names)) for _ in range(chance.randrange(9))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("OWN_THING", "x")
        patch.setenv("KERN_OWN_X", "x")
        said = closed.sentences("\n".join([*lines, decode(noise(chance))]), confined)
        assert closed.sentences("\n".join(lines), replace(confined, before=())) == []
    assert len(said) <= 3 and not any(UNSAFE.search(one) for one in said)
    mine = ("~/in.csv", "~/d", "~", "/", ".git", "db.example", "OWN_THING")
    for one in said:
        words = re.sub(r"^closed[\w ]+: |(,| is not| \(\[| can be).*", "", one)
        assert words in (*mine, str(home)) or "proxy" in one, one
