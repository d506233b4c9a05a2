"""What a `vc.func` returns: a Python value, or a variable that each path of the device sets."""

from __future__ import annotations

from typing import Any

from vyre_cuda.frontend.building.activation import Activation
from vyre_cuda.frontend.building.values import current, zero
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Variable
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.builder.values import node_of, place
from vyre_cuda.ir.core.nodes import Var


class FunctionActivation(Activation):
    """One call of a `vc.func`."""

    def __init__(self, builder: Builder, name: str) -> None:
        super().__init__(builder)
        self._name = name
        self._first = len(self.entry.statements)  # where variables that hold results are declared
        self._results: list[Variable] | None = None
        self._is_tuple = False
        self._value: Any = None

    def result(self, value: Any) -> None:
        """`return value`"""
        if self.scope.block is self.entry:
            self._value = current(value) if not isinstance(value, tuple) else tuple(map(current, value))
            return
        values = value if isinstance(value, tuple) else (value,)
        if self._results is None:
            self._is_tuple = isinstance(value, tuple)
            self._results = [self._variable(each) for each in values]
        if len(values) != len(self._results) or isinstance(value, tuple) is not self._is_tuple:
            raise program_error(f"{self._name} returns another number of values on another path", caller())
        for variable, each in zip(self._results, values, strict=True):
            variable.set(each)

    def returned(self) -> Any:
        """What the call gives."""
        if self._results is None:
            return self._value
        values = tuple(variable.read() for variable in self._results)
        return values if self._is_tuple else values[0]

    def _variable(self, value: Any) -> Variable:
        """A variable of the function's first block, for values of this type."""
        source = caller()
        if not isinstance(value, Expression):
            message = f"{self._name} returns {value!r} under a condition of the device: give it a type"
            raise program_error(f"{message}, as in vc.f32({value!r})", source)
        type_ = place(self.scope, value, source).type
        name = self.scope.name_local(f"{self._name}_value", source)
        self.entry.statements.insert(self._first, Var(name, node_of(zero(type_, source)), source))
        variable = Variable(self.scope, name, type_)
        variable._block = self.entry
        return variable
