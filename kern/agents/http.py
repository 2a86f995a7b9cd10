"""An endpoint of chat completions as an agent: Ollama, vLLM, llama.cpp, a gateway, a vendor.

There is no CLI: the program is kern's own Python with `http_loop`, a fresh process for each stage.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from kern.agents import http_talk as talk
from kern.agents import http_tools, protocol
from kern.agents import result as results
from kern.agents.http_talk import EDIT, EXTRA, NAME, Kind
from kern.agents.protocol import Ended, Fault, Grade, Launch, Payer, Reply
from kern.agents.transcript import objects
from kern.endpoint import Endpoint
from kern.errors import UsageError
from kern.model import Act, Needs, Role

_TOP = __file__.rpartition("/kern/")[0]  # where this kern lies
# Nothing is imported from the repository, in which it is started, nor from where PYTHONPATH leads.
_BEGIN = (
    *("-E", "-P", "-c"),
    f"import sys; {_TOP!r} in sys.path or sys.path.insert(0, {_TOP!r}); "
    "from kern.agents.http_loop import main; sys.exit(main())",
)
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Http:
    """An `Agent` by what `[agent.http]` says."""

    endpoint: Endpoint
    NAME: str = NAME
    PROGRAM: str = ""
    VARIABLE: str = "KERN_HTTP"
    INSTALL: str = EXTRA
    OLDEST: tuple[int, ...] = (3, 11, 0)  # its program is Python
    FILES: tuple[str, ...] = ()
    TAKES_CONTRACT: bool = True
    RUNS_GATES: bool = False
    READS_GUIDANCE: bool = False
    STATUS: tuple[str, ...] = ()
    LOGIN: str = ""

    def __post_init__(self) -> None:
        url, key = self.endpoint.url, self.endpoint.key
        if url:
            self.STATUS = (*_BEGIN, *self._where, "--models")
        self.LOGIN = (
            f"see that {url} answers, and set {key} to a key that it takes"
            if key
            else f"see that {url} answers; if it wants a key, name the key's variable: "
            'key = "OPENAI_API_KEY" below [agent.http]'
        )

    @property
    def _where(self) -> tuple[str, ...]:
        key = self.endpoint.key
        return "--url", self.endpoint.url, *(("--key", key) if key else ())

    def unheld(self, role: Role) -> str:
        return ""

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {}

    def argv(self, launch: Launch) -> list[str]:
        """Raises UsageError where no model is named."""
        model = launch.model or self.endpoint.model
        if not model:
            raise UsageError(
                f"no model is named for the {launch.role} stage, and {self.endpoint.url} has "
                "none of its own",
                hint='model = "qwen3-coder" below [agent.http], or kern --model qwen3-coder',
            )
        given = {
            **{"model": model, "effort": launch.effort, "role": str(launch.role)},
            **{"contract": launch.contract, "turns": str(self.endpoint.turns)},
            **{"quiet": f"{self.endpoint.quiet:g}", "patience": f"{launch.patience:g}"},
            "budget": f"{launch.budget:.4f}" if launch.budget else "",
        }
        named = (word for name, value in given.items() if value for word in (f"--{name}", value))
        return [*_BEGIN, *self._where, *named]

    def environment(self, launch: Launch) -> dict[str, str]:
        return {}

    def tools(self, role: Role) -> tuple[str, ...]:
        return http_tools.offered(role)

    objects = staticmethod(objects)
    refused = staticmethod(protocol.patient)

    def read(self, seen: Iterable[Mapping[str, Any]], role: Role) -> Reply | None:
        result: Mapping[str, Any] | None = None
        complaint = ""
        denied: dict[str, None] = {}
        for value in seen:
            match value.get("type"):
                case "tool":
                    name, text = str(value.get("name")), str(value.get("text"))
                    complaint = text[-results.COMPLAINT :] if value.get("failed") else complaint
                    denied |= {name: None} if value.get("denied") else {}
                case "result":
                    result = value
        if result is None:
            return None
        return replace(
            results.reply(result),
            denied=tuple(denied),
            complaint=complaint,
            broke=results.part(result, "fault").get("kind") == Kind.BUDGET,
        )

    def act(self, line: bytes) -> Act | None:
        value = results.parsed(line)
        if value.get("type") != "assistant":
            return None
        asked = results.parts(results.part(value, "message"), "tool_calls")
        calls = [results.part(one, "function") for one in asked]
        shown = tuple(results.call(one.get("name"), _given(one)) for one in calls)
        return Act(str(value.get("turn")), shown, results.part(value, "usage"))

    def fault(self, reply: Reply | None, ended: Ended) -> Fault | None:
        return talk.fault(reply, ended, self.LOGIN)

    def unattended(self, env: Mapping[str, str], *, root: bool) -> Fault | None:
        """Also where it is not set up."""
        key = self.endpoint.key
        if not self.endpoint.url:
            said = "nothing says which endpoint the http agent asks"
            return Fault(Grade.PERMANENT, said, EDIT.removeprefix("correct it: "))
        if key and not env.get(key, "").strip():
            said = f"{key} is to hold the key of {self.endpoint.url}, and is not set"
            return Fault(Grade.PERMANENT, said, f"export {key}=…")
        if find_spec("httpx") is None:
            return talk.NOT_INSTALLED
        return None

    def login(self, code: int, said: str) -> str | None:
        """By the models that it has."""
        models = said.split()
        if code or not models:
            return "" if code else None
        more = ", …" if len(models) > 5 else ""
        return f"{self.endpoint.url}, which has {', '.join(models[:5])}{more}"

    def payer(
        self, env: Mapping[str, str], root: str, home: str, text: Callable[[str], str]
    ) -> Payer:
        url, key = self.endpoint.url, self.endpoint.key
        if not key:
            return Payer(url)
        bare = url.startswith("http://") and urlsplit(url).hostname not in _LOCAL
        warning = f"the key in {key} goes to {url} unencrypted: https:// would hide it"
        return Payer(f"the key in {key}, by use, at {url}", warning if bare else "")

    def needs(self, env: Mapping[str, str], home: str, text: Callable[[str], str]) -> Needs:
        host = protocol.host(self.endpoint.url)
        key = self.endpoint.key
        return Needs(variables=(key,) if key else (), hosts=(host,) if host else ())

    def started(self, files: Mapping[str, bytes]) -> list[str]:
        return [*self.endpoint.asks]


def _given(function: Mapping[str, Any]) -> Mapping[str, Any]:
    return results.parsed(str(function.get("arguments")).encode("utf-8", "replace"))


AGENT = Http(Endpoint())  # as long as no settings name another
