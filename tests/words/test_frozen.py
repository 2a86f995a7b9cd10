from dataclasses import field, replace

import pytest

from kern.frozen import frozen


@frozen
class Point:
    x: int
    y: int = 0
    names: tuple[str, ...] = field(default_factory=tuple)


@frozen
class Other:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


@frozen
class Placed(Point):
    z: int = 0


@frozen
class Empty:
    pass


def test_equal_is_what_is_of_one_class_with_equal_parts() -> None:
    assert Point(1, 2) == Point(1, 2)
    assert Empty() == Empty()
    others: list[object] = [Point(1, 3), Other(1, 2), Placed(1, 2), Empty(), 1]
    assert Point(1, 2) not in others


def test_what_is_equal_has_one_hash() -> None:
    assert {Point(1), Point(1), Point(2), Placed(1), Empty(), Empty()} == {
        *(Point(1), Point(2), Placed(1), Empty())
    }


def test_it_is_printed_as_it_is_made() -> None:
    assert repr(Point(1, names=("a",))) == "Point(x=1, y=0, names=('a',))"
    assert repr(Placed(1, z=3)) == "Placed(x=1, y=0, names=(), z=3)"
    assert repr(Empty()) == "Empty()"


def test_a_changed_copy_is_another() -> None:
    first = Placed(1)
    assert replace(first, z=5) == Placed(1, z=5)
    assert first.z == 0


def test_nothing_is_added_to_one() -> None:
    with pytest.raises(AttributeError):
        setattr(Point(1), "colour", "red")  # noqa: B010, for the type checker refuses it otherwise


def test_what_a_class_writes_itself_stays() -> None:
    @frozen
    class Named:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named)

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "named"

    assert Named("a") == Named("b")
    assert (hash(Named("a")), repr(Named("a"))) == (7, "named")
