"""Names that stand for arguments of a recorded graph, given at each replay."""

from __future__ import annotations

from typing import Any, Final

from vyre_cuda.errors import type_name

_MISSING: Final = object()
# Keywords of `Graph.replay` that are not symbols.
RESERVED = ("stream",)


class Symbol:
    """Made by `vc.symbol`: an argument that is given to `Graph.replay` or `Graph.update` by name."""

    __slots__ = ("_default", "name")
    __array_ufunc__ = None
    __iter__ = None

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self._default = default

    @property
    def has_default(self) -> bool:
        """Whether it has a value until it is set."""
        return self._default is not _MISSING

    @property
    def default(self) -> Any:
        """The value used when a replay does not give the symbol; AttributeError if it has no default."""
        if not self.has_default:
            raise AttributeError(
                f"symbol {self.name} has no default: pass one to vc.symbol, or give replay() the value"
            )
        return self._default

    def __bool__(self) -> bool:
        raise TypeError(f"symbol {self.name} has no value while a graph is recorded")

    def __reduce__(self) -> tuple[Any, ...]:
        return symbol, (self.name, self._default) if self.has_default else (self.name,)

    def __repr__(self) -> str:
        return f"vc.symbol({self.name!r}{f', {self._default!r}' if self.has_default else ''})"


def symbol(name: str, default: Any = _MISSING) -> Symbol:
    """An argument of a recorded launch, copy or fill that each replay may set: a scalar or an array.

    The same name is the same argument everywhere in a graph.

    Parameters
    ----------
    name
        The name, by which `Graph.replay` and `Graph.update` set it.
    default
        Its value until it is set. Without a default, every replay must set it.

    Returns
    -------
    Symbol
        The symbol.

    Raises
    ------
    ValueError
        The name is not an identifier, or is "stream", which is an argument of `Graph.replay`.
    TypeError
        The name is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a symbol must be a str, not {type_name(name)}")
    if not name.isidentifier() or name in RESERVED:
        raise ValueError(f"{name!r} cannot be a keyword argument of replay()")
    return Symbol(name, default)
