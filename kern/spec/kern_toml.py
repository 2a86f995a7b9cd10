"""kern.toml as it stands beside SPEC.md: a look at the tasks needs none of it."""

import os

from kern import config
from kern.config import FILE, Settings
from kern.errors import UsageError
from kern.spec.documents import Documents
from kern.system import workspace


def read(papers: Documents) -> Settings:
    """The defaults where there is none. A link could lead anywhere: refused."""
    if papers.bare:
        return Settings(bare=True)
    if (form := papers.form(FILE)) != "" and os.path.lexists(papers.root / FILE):
        what = "no file" if form is None else "a link"
        raise UsageError(f"{FILE} is {what}", hint=f"put the file itself into {papers.root}")
    data = workspace.read(papers.root / FILE)
    return config.parse(data) if data is not None else Settings()
