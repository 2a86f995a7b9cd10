"""What an agent CLI has of a person's: folders with its login and its settings, the variables and
hosts that belong to them, as tables (`facts.toml`); and what that comes to on a machine.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from kern.model import Needs

_BASE_URL = re.compile(r'base_?url"?\s*[:=]\s*"(https?://[^"\s]+)"', re.I)
_NAMED_KEY = re.compile(r'env_key\s*=\s*"(\w+)"|\{env:(\w+)\}|"apiKey"\s*:\s*"(\w+)"')
_ESCAPED = r'\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}'
_HELPER = re.compile(rf'"apiKeyHelper"\s*:\s*("(?:[^"\\]|{_ESCAPED})*")')  # prints claude's key


class Place(NamedTuple):
    folder: str = ""  # `~/.codex`
    variable: str = ""  # of the environment: names another folder
    below: str = ""  # what comes below that one
    login: Sequence[str] = ()  # in the folder, files and folders that it renews
    settings: Sequence[str] = ()  # those that it, and the next session, obeys
    fetched: Sequence[str] = ()  # settings that must not be there empty
    # JSON files of which it needs these keys of the top level alone.
    excerpts: Mapping[str, Sequence[str]] = {}
    files: Sequence[str] = ()  # variables that name a file of settings
    variables: Sequence[str] = ()  # that it has, or where they end in `_` their beginnings
    hosts: Sequence[str] = ()
    when: str = ""  # only where this variable is set

    def at(self, env: Mapping[str, str], home: str) -> str:
        if value := env.get(self.variable):
            return f"{value}/{self.below}".rstrip("/")
        return self.folder.replace("~", home, 1)


def needs(
    places: Iterable[Place], env: Mapping[str, str], home: str, text: Callable[[str], str]
) -> Needs:
    """With the keys and the hosts of providers of the person's own. `text`: the beginning of a
    file, empty where there is none.
    """
    login, settings, excerpts = list[str](), list[str](), dict[str, tuple[str, ...]]()
    variables, hosts = list[str](), list[str]()
    for place in places:
        if place.when and env.get(place.when, "") in ("", "0", "false"):
            continue
        at = place.at(env, home)
        login += (f"{at}/{name}" for name in place.login)
        settings += (f"{at}/{name}" for name in place.settings)
        settings += (path for name in place.fetched if text(path := f"{at}/{name}"))
        settings += (env[name] for name in place.files if env.get(name, "").startswith("/"))
        excerpts |= {f"{at}/{name}": tuple(keys) for name, keys in place.excerpts.items()}
        variables += place.variables
        hosts += place.hosts
    own = "\n".join(text(path) for path in settings if path.endswith((".json", ".jsonc", ".toml")))
    names = (next(filter(None, groups)) for groups in _NAMED_KEY.findall(own))
    begins = tuple(one for one in variables if one.endswith("_"))
    urls = (env[one] for one in sorted(env) if one.startswith(begins) and one.endswith("_BASE_URL"))
    return Needs(
        login=tuple(login),
        settings=tuple(settings),
        excerpts=excerpts,
        variables=(*variables, *(name for name in names if name in env)),
        commands=tuple(json.loads(one, strict=False) for one in _HELPER.findall(own)),
        hosts=(*hosts, *filter(None, map(host, (*_BASE_URL.findall(own), *urls)))),
    )


def own_endpoint(needs: Needs, places: Iterable[Place]) -> str:
    """Where the person's own settings lead, if anywhere."""
    hosts = {name for place in places for name in place.hosts}
    return next((name for name in needs.hosts if name not in hosts), "")


def host(url: str) -> str:
    """Where a URL leads, as `Needs.hosts` has it; empty where it leads nowhere."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not (name in ("localhost", "::1") or name.startswith("127.")):
        return name
    text = f"[{name}]" if ":" in name else name
    return f"{text}:{port or (443 if parts.scheme == 'https' else 80)}"
