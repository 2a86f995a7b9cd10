"""slugs: a small Python library that turns titles and names into parts of addresses."""

from functools import partial

from tests.eval.task import Task

FILES = {
    ".gitignore": "__pycache__/\n",
    "README.md": """\
# slugs

`slugs.text` makes slugs of titles. `slugs.accounts` opens accounts, `slugs.archive` reads what the
old system has written: both name people, each in its own way.
""",
    "docs/shorten.md": """\
# Shortening a title

- A text that fits into the width is left as it is, spaces around it aside.
- A longer one is cut between two words and ends in `…`, which counts: the result is never wider.
- No space and no comma stands before the `…`.
- A first word that is too long itself is cut within.
- A width below 1 is a ValueError.
""",
    "slugs/__init__.py": "",
    "slugs/text.py": '''\
"""Slugs of titles."""

import re


def slugify(text, max_length=None):
    """Lower case, words joined by hyphens; cut between two words at max_length characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    slug = "-".join(words)
    while max_length is not None and len(slug) > max_length and len(words) > 1:
        words.pop()
        slug = "-".join(words)
    return slug if max_length is None else slug[:max_length]
''',
    "slugs/usernames.py": '''\
"""Names of accounts."""


def username(name):
    return "".join(letter for letter in name.lower() if letter.isalpha())
''',
    "slugs/user_names.py": '''\
"""Names of accounts, as the old system made them: archives are found by them."""


def username(name):
    return "".join(letter for letter in name.lower() if letter.isalpha())
''',
    "slugs/accounts.py": """\
from slugs.usernames import username


def open_account(name, taken=()):
    wanted = username(name)
    return wanted if wanted not in taken else f"{wanted}-{len(taken)}"
""",
    "slugs/archive.py": """\
from slugs.user_names import username


def find(archive, name):
    return archive.get(username(name))
""",
    "tests/__init__.py": "",
    "tests/test_text.py": """\
import unittest

from slugs.text import slugify


class Slugify(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slugify("Hello, World!"), "hello-world")

    def test_max_length(self):
        self.assertEqual(slugify("one two three", max_length=8), "one-two")
        self.assertEqual(slugify("onetwothree", max_length=3), "one")
""",
    "tests/test_names.py": """\
import unittest

from slugs.accounts import open_account
from slugs.archive import find


class Names(unittest.TestCase):
    def test_an_account(self):
        self.assertEqual(open_account("Ada Lovelace"), "adalovelace")

    def test_an_archive(self):
        self.assertEqual(find({"adalovelace": 1}, "Ada Lovelace"), 1)
""",
}
slugs = partial(
    Task,
    files=FILES,
    settings="[gates]\ntest = 'python3 -m unittest discover -q -s tests -t .'\n",
    check="python3 hidden_test.py",
)

TASKS = (
    slugs(
        "slugs/done-already",
        "the task is done already: whoever does not look does it twice",
        spec="- [ ] slugify takes a max_length and cuts between two words\n",
        hidden={
            "hidden_test.py": """\
import inspect
import subprocess

from slugs import text

assert list(inspect.signature(text.slugify).parameters) == ["text", "max_length"]
assert text.slugify("one two three", 8) == "one-two"
changed = subprocess.run(["git", "log", "--format=%h", "--", "slugs"], capture_output=True)
assert len(changed.stdout.split()) == 1, "there was nothing to change"
"""
        },
        solution={},
        ends=("skipped",),
        iterations=1,
    ),
    slugs(
        "slugs/look-alike",
        "two modules look alike, and only one of them is meant",
        spec="""\
- [ ] New accounts keep the digits of a name: "Ada 2" becomes `ada2`
  Archives are still found as they were written.
""",
        hidden={
            "hidden_test.py": """\
from slugs.accounts import open_account
from slugs.archive import find

assert open_account("Ada 2") == "ada2"
assert open_account("Ada-Lovelace") == "adalovelace"
assert open_account("Ada 2", taken=["ada2"]) == "ada2-1"
assert find({"ada": 1}, "Ada 2") == 1, "archives were written without digits"
"""
        },
        solution={"slugs/usernames.py": FILES["slugs/usernames.py"].replace("isalpha", "isalnum")},
        wrong={
            name: FILES[name].replace("isalpha", "isalnum")
            for name in ("slugs/usernames.py", "slugs/user_names.py")
        },
    ),
)
