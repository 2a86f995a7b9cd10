"""`kern doctor`."""

from pathlib import Path

from kern import plain
from kern.errors import Exit
from kern.views import doctor


def main(folder: Path, *, as_json: bool) -> int:
    """The exit code."""
    found = doctor.examine(folder)
    print(plain.data(found) if as_json else doctor.text(found))
    return Exit.OK if all(check["ok"] for check in found) else Exit.USAGE
