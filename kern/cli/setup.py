"""`kern path`: where the run files are."""

import sys
from pathlib import Path

from kern import plain
from kern.git import repository
from kern.system import workspace


def path(folder: Path) -> None:
    """Where the run files of this branch lie: as it is for a program, harmless on a terminal."""
    found = repository.open_at(folder)
    place = str(workspace.scope(found.root, found.head().name, create=False).folder)
    print(plain.visible(place) if sys.stdout.isatty() else place)
