"""Launches with bound arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.bound import Call
from vyre_cuda._native.call.prepared import Arguments
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.memory.adopted import named_stream
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.range_names import RESIDENT
from vyre_cuda.runtime.kernel.arguments import all_parameters, device_arguments

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel


class BoundCall(Call):
    """A kernel with device arrays and scalars bound; made by `Kernel.bind`.

    `call()` launches without waiting; `call(x, y, out, 3.0)`, with all parameters in declared order, binds those first;
    `call.set(a=3.0)` binds by name. Bound arguments stay bound and alive. Rebinding and calling from several threads
    at a time is safe, but which arguments a launch gets is then unspecified.
    """

    def __init__(
        self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any
    ) -> None:
        self._kernel = kernel
        self._stream = named_stream(kernel.device.context, stream)
        self._grid = grid
        values = all_parameters(kernel.program, args, kwargs)
        super().__init__(kernel, self._arguments(values), tuple(values.values()), self._stream, grid is None)

    def set(self, **kwargs: Any) -> None:
        """Bind other arrays or scalars, for all later launches.

        Parameters
        ----------
        **kwargs
            Parameters by name.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit; then nothing has changed.
        """
        values = dict(zip((p.name for p in self._kernel.program.parameters), self.values, strict=True))
        unknown = kwargs.keys() - values.keys()
        if unknown:
            raise TypeError(f"{self._kernel.program.name} has no parameter {', '.join(sorted(unknown))}")
        self._rebind(tuple({**values, **kwargs}.values()))

    def _rebind(self, args: tuple[Any, ...]) -> None:
        values = all_parameters(self._kernel.program, args, {})
        self.set_arguments(self._arguments(values), tuple(values.values()))

    def _arguments(self, values: Mapping[str, Any]) -> Arguments:
        kernel = self._kernel
        return device_arguments(kernel, (), values, self._stream, self._grid)

    __dir__ = without("set_arguments")
    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.BoundCall of {self._kernel.program.name} on {self._kernel.device.properties.name}>"

    def _record_call(self, args: tuple[Any, ...]) -> bool:
        kernel = self._kernel
        if kernel.device._recorder() is None:
            return self._watched(args)
        if args:
            self._rebind(args)
        return kernel._record_launch(self.values, {}, self._stream, self._grid)

    def _watched(self, args: tuple[Any, ...]) -> bool:
        """Whether the launch was made inside its own profiler range."""
        kernel = self._kernel
        watch = kernel.device._watch
        name = kernel.program.name
        with watch.profiled(RESIDENT, name) as opened:
            if opened:
                self(*args)
                return True
        if watch.traces:
            watch.note(name, (p.name for p in kernel.program.parameters), args or self.values, {})
        return False
