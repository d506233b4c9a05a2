"""A recorded call: a kernel with host arrays whose sizes are fixed, to be replayed with other contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call.record import Recorded
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda._native.memory import memory
from vyre_cuda.errors import Error, counted
from vyre_cuda.ir.call import call as calls
from vyre_cuda.ir.call.walked import walks
from vyre_cuda.ir.core.nodes import Const, Parameter, Scalar, Size
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.ir.core.walk import expressions
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.kernel.arguments import check_iterations

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel


class RecordedCall(Recorded):
    """A call with host arrays, made by `Kernel.record`; `replay()` runs it.

    `replay(x, y, 2.0)` takes the kernel's arguments by position or name; those that are not given keep their last
    values. It returns what the kernel returns, in `out=` or in new arrays. Sizes are those of the recording. `skipped`
    counts the replays that did not run because nothing had changed (`skip_identical=True`). Replays from several
    threads run one after the other.
    """

    def __init__(
        self,
        kernel: Kernel,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        grid: Any,
        iterations: Any,
        skip_identical: bool,
    ) -> None:
        call = calls.bind(kernel.program, args, kwargs, grid=grid)
        program = kernel.program
        self._kernel = kernel
        self._grid = grid
        self._places = [place for place, p in enumerate(program.parameters) if p.kind != "out"]
        self._parameters = calls.argument_parameters(program)
        buffers = [p for p in program.parameters if p.is_buffer]
        scalars = [p.name for p in program.parameters if not p.is_buffer]
        slots = {p.name: i for i, p in enumerate(buffers)} | {name: -1 - i for i, name in enumerate(scalars)}
        inputs = [self._input(p, call) for p in buffers]
        outputs = [self._empty(call.shape(p), p) if p.is_writable else None for p in buffers]
        super().__init__(
            kernel.prepared,
            [(slots[p.name], p.type.dtype.num) for p in self._parameters],
            inputs,
            outputs,
            call.words(),
            kernel._ready_for(call.geometry.grid, grid),
            check_iterations(program, iterations),
            skip_identical,
            any(parameter.kind == "scalar" for parameter in program.parameters) and not _has_plain_sizes(program),
            tuple((scalars.index(each.name), each.bits) for each in kernel.known if each.name in scalars),
            grid is None,
        )
        self._geometry = call.geometry
        self._samples = {p.name: array for p, array in zip(buffers, inputs, strict=True) if array is not None}
        self._bits = dict(call.scalars)
        self._sizes = dict(call.sizes)
        self._shapes = dict(call.shapes)

    def _empty(self, shape: tuple[int, ...], parameter: Parameter) -> np.ndarray[Any, np.dtype[Any]]:
        return _pinned(self._kernel, shape, parameter.type.dtype)

    def _input(self, parameter: Parameter, call: calls.Call) -> np.ndarray[Any, np.dtype[Any]] | None:
        array = call.arrays.get(parameter.name)
        if array is None:
            return None
        kept = self._empty(call.shape(parameter), parameter)
        kept.reshape(-1)[:] = array
        return kept

    # ---- what the extension asks ------------------------------------------------------------------------------------

    def _ordered(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [parameter.name for parameter in self._parameters]
        takes = f"{self._kernel.program.name} takes {counted(len(names), 'argument')} ({', '.join(names)})"
        if len(args) > len(names):
            raise TypeError(f"{takes}, {len(args)} given by position")
        given = dict.fromkeys(names, self.KEEP) | dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in given:
                raise TypeError(f"{takes}, not {name}")
            if given[name] is not self.KEEP:
                raise TypeError(f"{self._kernel.program.name}: {name} is given twice, by position and by name")
            given[name] = value
        return tuple(given.values())

    def _check_sizes(self, args: tuple[Any, ...]) -> None:
        """Scalars may affect sizes and geometry, which must stay as recorded."""
        names = [parameter.name for parameter in self._parameters if not parameter.is_buffer]
        given = {p.name: value for p, value in zip(self._parameters, args, strict=False) if p.name in names}
        call = self._bound({name: value for name, value in given.items() if value is not self.KEEP})
        if (dict(call.sizes), dict(call.shapes), call.geometry) != (self._sizes, self._shapes, self._geometry):
            raise ValueError(
                f"{self._kernel.program.name}: these scalars change sizes or the grid; record again for other sizes"
            )
        self._bits = dict(call.scalars)

    def _converted(self, position: int, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
        name = self._parameters[position].name
        if isinstance(value, np.ndarray) and value.size != self._sizes[name]:
            raise ValueError(
                f"{self._kernel.program.name}: {name} has {counted(value.size, 'element')} and was recorded with "
                f"{self._sizes[name]}; record again for other sizes"
            )
        call = self._bound({name: value})
        if dict(call.shapes) != self._shapes:
            raise ValueError(
                f"{self._kernel.program.name}: {name} has the shape {value.shape} and was recorded with "
                f"{self._shapes[name]}; record again for other shapes"
            )
        array: np.ndarray[Any, np.dtype[Any]] = call.arrays[name]
        return array

    def _scalar(self, position: int, value: Any) -> int:
        parameter = self._parameters[position]
        bits = self._kernel.scalar(self._places[position], value) if self._kernel.simple else None
        if bits is not None:
            return bits
        try:
            return bits_of(parameter.type, value)
        except (TypeError, OverflowError) as error:
            raise type(error)(f"{self._kernel.program.name}: scalar {parameter.name}: {error}") from None

    def _targets(self, out: Any) -> list[np.ndarray[Any, np.dtype[Any]] | None]:
        outs = self._bound({}, out).outs
        return [outs.get(parameter.name) for parameter in calls.result_parameters(self._kernel.program)]

    def _bound(self, given: Mapping[str, Any], out: Any = None) -> calls.Call:
        """Binds like a call, for arguments with the recording's sizes."""
        values = {p.name: self._sample(p) for p in self._parameters} | dict(given)
        return calls.bind(self._kernel.program, (), values, out=out, grid=self._grid)

    def _sample(self, parameter: Parameter) -> Any:
        if parameter.is_buffer:
            return self._samples[parameter.name]
        return value_of(parameter.type, self._bits[parameter.name])

    def _renewed(
        self, arrays: list[np.ndarray[Any, np.dtype[Any]] | None]
    ) -> list[np.ndarray[Any, np.dtype[Any]] | None]:
        """New memory with the same contents, because a run that has not ended keeps the old."""
        renewed: list[np.ndarray[Any, np.dtype[Any]] | None] = []
        for array in arrays:
            fresh = None
            if array is not None:
                fresh = _pinned(self._kernel, array.shape, array.dtype)
                fresh[:] = array
            renewed.append(fresh)
        return renewed

    def _assertion(self, report: AssertReport) -> Error:
        return self._kernel._assertion(report)

    def _refuse_in_recording(self) -> None:
        self._kernel._refuse_in_recording()
        self._kernel._note((), {})

    __dir__ = without("KEEP", "run")
    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self._sizes.items())
        return f"<vyre_cuda.RecordedCall {self._kernel.program.name}, elements: {sizes}>"


def _pinned(kernel: Kernel, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    return memory.pinned_empty(kernel.device.context, shape, dtype)


def _has_plain_sizes(program: Program) -> bool:
    """Whether no size, no work and nothing that this must reach depends on a scalar."""
    sizes = [extent for p in program.parameters for extent in p.declared]
    enough = expressions([part for walk in walks(program) for part in walk.computed()])
    plain = program.work is None and not any(isinstance(part, Scalar) for part in enough)
    return plain and all(isinstance(size, (Const, Size)) for size in sizes)
