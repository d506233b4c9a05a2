"""What completion shows of an object: not the names that only other parts of this package use."""

from __future__ import annotations

from collections.abc import Callable


def without(*names: str) -> Callable[[object], list[str]]:
    """A `__dir__` that leaves these names out."""
    hidden = frozenset(names)

    def names_of(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in hidden]

    return names_of
