"""`out = vc.output(...)`, `vc.shared(...)` and the like: declared under the name that they are assigned to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.scopes import Scope, caller, program_error


class Declaration:
    """A buffer that still needs its name; anything but an assignment to a name is refused."""

    __slots__ = ("_make", "_what")

    __array_ufunc__ = None
    __iter__ = None
    __contains__ = None

    def __init__(self, what: str, make: Callable[[Any, str], Buffer]) -> None:
        self._what = what
        self._make = make

    def declare(self, builder: Builder, name: str) -> Buffer:
        scope: Scope = builder._scope
        if scope.block.parent is not None:
            raise program_error(f"vc.{self._what} in a block: declare {name} before it", caller())
        return self._make(builder, name)

    def _unnamed(self, *_: Any) -> Any:
        raise program_error(f"vc.{self._what} needs a name: write name = vc.{self._what}(...) on a line", caller())

    __getitem__ = __setitem__ = __getattr__ = __bool__ = _unnamed
