"""Values: dataclasses that nobody changes. What `dataclass` generates for each such class took half
of the time in which kern starts, so what compares, hashes and prints them is written once, here.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """As `dataclass(frozen=True, slots=True)`, but it is the type checker alone that refuses a
    change.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # or its signature is worked out, for each class
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    names: tuple[str, ...] = made.__match_args__  # type: ignore[attr-defined]
    parts = attrgetter("__class__", *names)

    def same(self: T, other: object) -> bool:
        return other.__class__ is self.__class__ and bool(parts(self) == parts(other))

    def shown(self: T) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    written: dict[str, Any] = {
        "__eq__": same,
        "__hash__": lambda self: hash(parts(self)),
        "__repr__": shown,
    }
    for name, function in written.items():
        if name not in cls.__dict__:
            setattr(made, name, function)
    return made
