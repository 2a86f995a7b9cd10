"""Which of the finished tasks are checked together, and which of them is to blame where the merged
tree is red: a train is halved until it is found. Pure.
"""

from collections.abc import Generator, Sequence
from typing import Generic, TypeVar

from kern.frozen import frozen

T = TypeVar("T")


@frozen
class Check(Generic[T]):
    """Check these together on top of what has landed; whether that is green is sent back."""

    part: tuple[T, ...]


@frozen
class Land(Generic[T]):
    """These, which were just checked."""

    part: tuple[T, ...]


@frozen
class Blame(Generic[T]):
    """This one is red by itself, on top of what has landed."""

    one: T


Step = Check[T] | Land[T] | Blame[T]


def sift(train: Sequence[T], *, red: bool = False) -> Generator[Step[T], bool, bool]:
    """The steps that land all of the train but the culprits, in order; whether all of it landed.
    `red`: that it is, is known already.
    """
    if not train:
        return True
    if not red and (yield Check(tuple(train))):
        yield Land(tuple(train))
        return True
    if len(train) == 1:
        yield Blame(train[0])
        return False
    half = len(train) // 2
    whole = yield from sift(train[:half])
    # With all of the first half landed, the second one is checked on the tree that was red.
    return (yield from sift(train[half:], red=whole)) and whole
