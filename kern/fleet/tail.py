"""The journal's end, as the workers write it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kern.journal import store, writer


class Tail:
    """Of the records of one run's workers, each once."""

    def __init__(self, path: Path, fleet: str) -> None:
        self.path = path
        self.fleet = fleet
        self.read = store.size(path)
        self.torn = b""
        self.told = False  # whether any worker has written any

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call."""
        size = store.size(self.path)
        if size <= self.read:
            return []
        try:
            with self.path.open("rb") as file:
                file.seek(self.read)
                data = file.read(size - self.read)
        except OSError:
            return []
        self.read += len(data)
        *whole, self.torn = (self.torn + data).split(b"\n")
        found = [one for one in store.read(whole) if one.get("fleet") == self.fleet]
        self.told = self.told or bool(found)
        return found

    def add(self, lines: Iterable[bytes]) -> None:
        """What a worker elsewhere wrote into a journal there."""
        for line in lines:
            writer.append(self.path, line)
