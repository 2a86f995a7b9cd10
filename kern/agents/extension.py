"""What kern has a CLI load beside it, in JavaScript: a line of its own for what the CLI keeps to
itself, and a word against what a role may not do where the CLI has no rule for it.
"""

import json
from pathlib import Path
from urllib.parse import quote

from kern.agents.protocol import PUBLISHES, Launch
from kern.model import Stage


def url(launch: Launch, name: str) -> str:
    """Where it lies; in a path node would take a space for an end, and an escape for a letter."""
    return f"file://{quote(launch.folder, errors='surrogateescape')}/{name}"


def source(launch: Launch, own: str, given: str = "") -> str:
    """`own`: the CLI's part, a file beside this one, which calls `say` and `barred`. `given`: the
    variable of the environment that it puts back.
    """
    known = {
        "MARK": launch.mark,
        "READS": launch.role is not Stage.IMPLEMENT,
        "KEPT": ["SPEC.md", "LEARNINGS.md"],
        "PUBLISHES": PUBLISHES,
        "GIVEN": given,
    }
    values = [f"const {name} = {json.dumps(value)};\n" for name, value in known.items()]
    texts = (Path(__file__).with_name(name).read_text("utf-8") for name in ("extension.js", own))
    return "".join([*values, *texts])
