"""What each agent needs of the machine: the table that a sandbox goes by."""

import pytest

from kern.agents import places, protocol
from kern.model import Needs

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")
GATES = [("gate test", "true", 9.0, None)]


def needs(name: str, **env: str) -> Needs:
    return places.needs(protocol.find(name).places, env, "/h", lambda path: "")


def passes(variable: str, names: tuple[str, ...]) -> bool:
    return any(
        variable.startswith(name) if name.endswith("_") else variable == name for name in names
    )


@pytest.mark.parametrize(
    ("name", "env", "login", "setting"),
    [
        ("claude", {}, "/h/.claude/.credentials.json", "/h/.claude/skills"),
        ("claude", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.credentials.json", "/c/settings.json"),
        ("claude", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "/h/.aws/sso/cache", "/h/.aws/config"),
        ("codex", {"CODEX_HOME": "/c"}, "/c/auth.json", "/c/AGENTS.md"),
        ("gemini", {"GEMINI_CLI_HOME": "/g"}, "/g/.gemini/oauth_creds.json", "/g/.gemini/skills"),
        ("opencode", {"XDG_DATA_HOME": "/d"}, "/d/opencode/auth.json", "/h/.cache/opencode/bin"),
        ("pi", {}, "/h/.pi/agent/auth.json", "/h/.pi/agent/mcp.json"),
    ],
)
def test_its_login_and_its_settings(
    name: str, env: dict[str, str], login: str, setting: str
) -> None:
    found = needs(name, **env)
    assert login in found.login
    assert setting in found.settings
    assert not {*found.login} & {*found.settings}, "what it renews would be read-only"


def test_of_a_file_with_histories_claude_gets_its_key_alone() -> None:
    assert needs("claude").excerpts == {"/h/.claude.json": ("primaryApiKey",)}
    moved = needs("claude", CLAUDE_CONFIG_DIR="/c").excerpts
    assert moved == {"/c/.claude.json": ("primaryApiKey",)}


@pytest.mark.parametrize(
    ("name", "path", "settings", "variable", "host"),
    [
        (
            *("claude", "/h/.claude/settings.json"),
            '{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4141"}}',
            *("", "127.0.0.1:4141"),
        ),
        (
            *("codex", "/h/.codex/config.toml"),
            '[model_providers.a]\nbase_url = "http://localhost:1/v1"\nenv_key = "OWN_KEY"\n',
            *("OWN_KEY", "localhost:1"),
        ),
        (
            *("pi", "/h/.pi/agent/models.json"),
            '{"baseUrl": "http://10.0.0.7:8000/v1", "apiKey": "OWN_KEY"}',
            *("OWN_KEY", "10.0.0.7"),
        ),
    ],
)
def test_a_provider_of_one_s_own_stands_in_the_settings(
    name: str, path: str, settings: str, variable: str, host: str
) -> None:
    tables = protocol.find(name).places
    found = places.needs(
        tables, {"OWN_KEY": "k"}, "/h", lambda place: settings if place == path else ""
    )
    assert host in found.hosts
    assert not variable or variable in found.variables


def test_a_command_that_prints_claude_s_key_is_named() -> None:
    def texts(path: str) -> str:
        return '{"apiKeyHelper": "pass show k"}' if path == "/h/.claude/settings.json" else "{"

    assert places.needs(protocol.find("claude").places, {}, "/h", texts).commands == (
        "pass show k",
    )
    assert places.needs(protocol.find("claude").places, {}, "/h", lambda path: "{").commands == ()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:4141", "127.0.0.1:4141"),
        ("http://127.0.0.1/v1", "127.0.0.1:80"),
        ("http://[::1]:11434/v1", "[::1]:11434"),
        ("https://gw.example:8443/v1", "gw.example"),
        ("http://[::1", ""),
        ("http://h:99999", ""),
        ("", ""),
    ],
)
def test_an_endpoint_of_one_s_own_machine_is_named_with_its_port(url: str, host: str) -> None:
    assert places.host(url) == host
    assert (host in needs("claude", ANTHROPIC_BASE_URL=url).hosts) is bool(host)
