"""Modules that are imported when something in them is first used, so that a process starts with only what it needs.

if TYPE_CHECKING:
    from vyre_cuda.ir.text import text
else:
    text = later("vyre_cuda.ir.text.text")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class later:
    """Stands for the module of this name; its attributes are the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # the next use finds it here
        return value


class functions_of:
    """Stands for a module whose functions are named in a table: the module is imported when one of them is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        return _Function(self._name, function)


class _Function:
    __slots__ = ("_found", "_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name
        self._found: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._found is None:
            self._found = getattr(import_module(self._module), self._name)
        return self._found(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<function {self._module}.{self._name}>"
