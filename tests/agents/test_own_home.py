"""Each real CLI in a home that holds what `needs` names of a person's, and nothing else."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kern.agents import places
from kern.agents.protocol import Call
from kern.model import Needs, Stage
from tests.agents.conformance import CLIS
from tests.conftest import PATIENCE_S
from tests.kit.scripted_server import ScriptedServer, say
from tests.sandbox.test_wall import needs_bwrap

pytestmark = [pytest.mark.real, needs_bwrap]
NAMES = ("claude", "codex", "gemini", "opencode", "pi")
BASE = ("PATH", "HOME", "TMPDIR")


def walls(home: Path, own: Path, temporary: Path, needs: Needs) -> list[str]:
    """Before a command: `own` in the place of the home, and in it the login and the settings."""
    found = ["bwrap", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    found += ["--proc", "/proc", "--bind", str(temporary), str(temporary)]
    found += ["--bind", str(own), str(home)]
    for option, paths in (("--bind", needs.login), ("--ro-bind", needs.settings)):
        found += [word for path in paths if Path(path).exists() for word in (option, path, path)]
    return found


def passed(env: Mapping[str, str], needs: Needs) -> dict[str, str]:
    names = (*BASE, *needs.variables)
    begin = tuple(name for name in names if name.endswith("_"))
    return {key: env[key] for key in env if key in names or key.startswith(begin)}


def read(path: str) -> str:
    return Path(path).read_text() if Path(path).is_file() else ""


@pytest.mark.parametrize("name", NAMES)
def test_it_answers_twice_where_nothing_else_is(
    name: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = CLIS[name]
    if not cli.binary:
        pytest.skip(f"KERN_TEST_{name.upper()} names no {name}")
    home, own, temporary = Path.home(), tmp_path / "own", tmp_path / "temporary"
    own.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    folder = tmp_path / "scratch"
    folder.mkdir()
    contract = folder / "contract.md"
    contract.write_text("Be brief.")
    with ScriptedServer({"research": [say("It is seven.\n\nREADY")]}) as server:
        for key, value in cli.ready(home, server.url).items():
            monkeypatch.setenv(key, value)
        call = Call(
            *(str(cli.program), Stage.RESEARCH, cli.model),
            contract=str(contract) if cli.agent.contract else "",
            folder=str(folder),
            root=str(repo),
            mark="m",
            given=dict(os.environ),
        )
        begun = cli.agent.start(call)
        for file, text in begun.files.items():
            (folder / file).write_text(text)
        needs = places.needs(cli.agent.places, os.environ, str(home), read)
        argv = [*walls(home, own, temporary, needs), *begun.argv]
        env = passed({**os.environ, **begun.env}, needs)
        for _ in range(2):
            done = subprocess.run(
                argv,
                cwd=repo,
                env=env,
                input="kern research\n\nDo it.",
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert "It is seven." in done.stdout, done.stdout + done.stderr
