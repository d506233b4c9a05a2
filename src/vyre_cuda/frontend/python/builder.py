"""The builder that a kernel function uses while it runs as Python: what is declared exists, statements take effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda.frontend.building.namespace import namespace_of
from vyre_cuda.frontend.current import Running
from vyre_cuda.frontend.python.rewrite import python_function
from vyre_cuda.frontend.python.running import RunningScope
from vyre_cuda.frontend.python.scalar import Scalar
from vyre_cuda.interp.evaluate import memory_dtype
from vyre_cuda.interp.memory import Memory
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.declarations import Shape
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import running
from vyre_cuda.ir.builder.values import Value, leaf, node_of, place
from vyre_cuda.ir.core.nodes import Scalar as ScalarNode
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, by_dtype

if TYPE_CHECKING:
    from vyre_cuda.frontend.function import Function


class RunningBuilder(Builder):
    """Runs the threads of one launch of `program`.

    What a body declares is known from the program: each thread declares the same, in the same order, because
    declarations stand in no block.
    """

    _scope: RunningScope

    def __init__(self, program: Program) -> None:
        self._scope = RunningScope(program)
        self._program = program
        self._functions: dict[int, Any] = {}

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def scope(self) -> RunningScope:
        return self._scope

    def parameter(self, name: str) -> Buffer | Value:
        """What the function gets for the parameter of this name."""
        row = next(p for p in self._program.parameters if p.name == name)
        source = row.source or ("", 0)
        if row.kind == "scalar":
            return leaf(self._scope, ScalarNode(row.type, name, source), source)
        return Buffer(self._scope, name, row.type, row.kind, row.ndim)

    # ---- declarations

    def output(
        self,
        name: str,
        type_: Type,
        /,
        size: Operand | None = None,
        *,
        shape: Shape = None,
        ndim: int | None = None,
        zeroed: bool = True,
    ) -> Buffer:
        row = next(p for p in self._program.parameters if p.name == name)
        return Buffer(self._scope, name, type_, "out", row.ndim)

    def shared(
        self, name: str, type_: Type, /, size: int | tuple[int, ...] | None = None, *, shape: Sequence[int] = ()
    ) -> Buffer:
        thread = self._scope.thread
        thread.declared += 1
        row = self._program.shared[thread.declared - 1]
        return Buffer(self._scope, row.name, type_, "shared", row.ndim)

    def local(self, name: str, type_: Type, /, size: int | tuple[int, ...]) -> Buffer:
        arrays = self._scope.thread.arrays
        unique = f"{name}.{len(arrays)}"
        shape = size if isinstance(size, tuple) else (size,)
        data = np.zeros(math.prod(shape), memory_dtype(type_))
        arrays[unique] = Memory(type_, data, data.size, shape=shape if len(shape) > 1 else ())
        return Buffer(self._scope, unique, type_, "local", len(shape))

    def table(self, name: str, array: np.ndarray[Any, Any], /) -> Buffer:
        type_ = by_dtype(array.dtype)
        assert type_ is not None  # the program has the table
        unique = f"{name}.{len(self._scope.tables)} of all"
        data = np.ascontiguousarray(array).ravel().view(memory_dtype(type_))
        self._scope.tables[unique] = Memory(type_, data, data.size, shape=array.shape if array.ndim > 1 else ())
        return Buffer(self._scope, unique, type_, "table", array.ndim)

    def work(self, *items: Operand) -> None:
        pass  # the number of threads is known

    # ---- functions

    def call(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The values of a `vc.func`. A number that one of its paths returns has the type of the other paths."""
        found = self._functions.get(id(function))
        if found is None:
            found = self._functions[id(function)] = self._python(function)
        returned = found(*args, **kwargs)
        if not any(isinstance(each, (bool, int, float)) for each in _each(returned)):
            return returned
        patterns = _each(self._pattern(function, args, kwargs))
        values = [self._like(pattern, each) for pattern, each in zip(patterns, _each(returned), strict=True)]
        return tuple(values) if isinstance(returned, tuple) else values[0]

    def _python(self, function: Function) -> Any:
        plain, source = function._function, function._source
        names = namespace_of(self, plain, function._code(), source.filename, {})
        code = python_function(source.tree(plain.__name__), source.filename, names)
        code.__defaults__, code.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        return code

    def _pattern(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the function gives where it is built, for arguments of these types."""
        scratch = Builder(self.name, index=self._program.index)
        positional = [_parameter(scratch, f"a{number}", value) for number, value in enumerate(args)]
        named = {name: _parameter(scratch, f"k_{name}", value) for name, value in kwargs.items()}
        before, running.scope = running.scope, None
        try:
            with Running(scratch):
                return function(*positional, **named)
        finally:
            running.scope = before

    def _like(self, pattern: Any, value: Any) -> Any:
        if not isinstance(pattern, Value):
            return value
        source = pattern._source
        return self._scope.value(node_of(place(self._scope, value, source, pattern.type)), source)


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _parameter(builder: Builder, name: str, value: Any) -> Any:
    if isinstance(value, Scalar):
        return builder.scalar(name, value.type)
    return builder.inout(name, value.type, ndim=value.ndim) if isinstance(value, Buffer) else value
