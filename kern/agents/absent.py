"""What a CLI answers `Agent` with that has no sandbox of its own, and works for any user."""

from collections.abc import Iterable, Mapping, Sequence

from kern.agents.protocol import Fault


def confinement(
    write: Iterable[str], keep: Iterable[str], hide: Iterable[str], hosts: Sequence[str] | None
) -> str:
    return ""  # kern's own holds it


def unattended(env: Mapping[str, str], *, root: bool) -> Fault | None:
    return None
