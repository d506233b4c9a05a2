"""Extents that annotations name: `In[vc.f32, "rows columns"]`.

A name is the const or the scalar that is called so, or else the extent of the first array that has it; wherever it
stands again, each call checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vyre_cuda.frontend.parameters import KernelParameter, wrong
from vyre_cuda.ir.builder.handles import Buffer

if TYPE_CHECKING:
    from vyre_cuda.frontend.building.program import Definition


class Extents:
    """What the names stand for, while the parameters are declared one after the other."""

    def __init__(self, definition: Definition, constants: Mapping[str, Any]) -> None:
        self._definition = definition
        self._known: dict[str, Any] = {}
        self._constants = constants

    def bound(self, name: str, value: Any) -> Any:
        """The value, which is what the name stands for from here on."""
        self._known[name] = value
        return value

    def of(self, parameter: KernelParameter) -> dict[str, Any]:
        """The words of the Builder that declare the axes of a buffer. ProgramError for a name that cannot be one."""
        if not parameter.extents:
            return {} if parameter.ndim == 1 else {"ndim": parameter.ndim}
        found = tuple(self._value(parameter, extent) for extent in parameter.extents)
        if len(found) > 1:
            return {"shape": found}
        return {} if found[0] is None else {"size": found[0]}

    def named(self, parameter: KernelParameter, buffer: Buffer) -> Buffer:
        """The buffer, whose extents its new names stand for."""
        for axis, extent in enumerate(parameter.extents):
            if isinstance(extent, str) and extent not in self._constants and extent not in self._known:
                self._known[extent] = buffer.size if parameter.ndim == 1 else buffer.shape[axis]
        return buffer

    def _value(self, parameter: KernelParameter, extent: str | int) -> Any:
        if isinstance(extent, int):
            return extent
        if extent in self._constants:
            value = self._constants[extent]
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self._wrong(parameter, f"its extent {extent} is the const {extent}, and {value!r} is not a size")
            return value
        if extent in self._known:
            return self._known[extent]
        if any(each.name == extent for each in self._definition.parameters):
            raise self._wrong(
                parameter,
                f"its extent {extent} is the parameter {extent}: an extent can be a const, or a scalar that is "
                f"declared before {parameter.name}",
            )
        return None

    def _wrong(self, parameter: KernelParameter, message: str) -> Exception:
        definition = self._definition
        return wrong(definition.source, definition.function, parameter.name, f"{parameter.name}: {message}")
