"""What a change does to tests that were there, as its patch shows it: deleted, skipped, thinned
out. It may be right; who accepts the change ought to know. Pure.
"""

import re
from collections.abc import Iterator

from kern import plain

_TEST = (
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|(?:^|/)conftest\.py$"
    r"|(?:_test|_spec|\.test|\.spec|Tests?|Spec)\.\w+$"
)
_SKIPS = (
    r"\b(?:pytest\.(?:mark\.)?(?:skip|xfail)|unittest\.(?:skip|expectedFailure)|skipTest\()"
    r"|\b(?:it|test|describe|context)\.(?:skip|todo|only)\b|\bx(?:it|describe|test)\("
    r"|\bt\.Skip\w*\(|#\[ignore|@(?:Disabled|Ignore)\b|@tag :skip|\bpending\("
)
_ASSERTS = r"\bassert\w*|\bexpect\w*\s*[(.]|\bshould\b|\bt\.(?:Error|Fatal|Fail)|\brequire\.\w+\("


def is_test(path: str) -> bool:
    return re.search(_TEST, path) is not None


def words(path: str, patch: str) -> str:
    """What happened to one test file, by its patch; empty where nothing of it was weakened."""
    if "\ndeleted file mode " in patch:
        return f"{plain.line(path, 80)}: deleted"
    told = "; ".join(_weaker([*_lines(patch, "-")], [*_lines(patch, "+")]))
    return f"{plain.line(path, 80)}: {told}" if told else ""


def _weaker(gone: list[str], new: list[str]) -> Iterator[str]:
    skips, asserts = (_count(one, new) - _count(one, gone) for one in (_SKIPS, _ASSERTS))
    if skips > 0:
        yield plain.count(skips, "new skip mark")
    if asserts < 0:
        yield f"{plain.count(-asserts, 'assertion')} fewer"
    elif changed := _count(_ASSERTS, gone):
        yield f"{plain.count(changed, 'assertion')} changed"


def _count(what: str, lines: list[str]) -> int:
    return sum(len(re.findall(what, line)) for line in lines)


def _lines(patch: str, sign: str) -> Iterator[str]:
    """Those that the patch takes or adds; what stands before its first piece is a heading."""
    _, _, pieces = patch.partition("\n@@")
    return (line[1:] for line in pieces.splitlines() if line.startswith(sign))
