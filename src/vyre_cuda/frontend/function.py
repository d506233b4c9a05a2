"""`@vc.func`: a function that kernels call, with control flow on values; each call becomes part of the kernel."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any

from vyre_cuda.errors import type_name
from vyre_cuda.frontend.building.namespace import namespace_of
from vyre_cuda.frontend.building.results import FunctionActivation
from vyre_cuda.frontend.current import running
from vyre_cuda.frontend.locating import BUILD_ERRORS, relocated
from vyre_cuda.frontend.rewriting.function import Rewritten, rewrite
from vyre_cuda.frontend.source import source_of
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.scopes import caller, program_error

# Calls inside of calls; a device has no recursion.
MOST_CALLS = 64


class _Depth(threading.local):
    calls = 0


_depth = _Depth()


class Function:
    """A function of kernels; calling it in one adds its statements there, and gives its values."""

    def __init__(self, function: FunctionType, what: str = "vc.func") -> None:
        self._source = source_of(function, what)
        self._function = function
        self._rewritten: Rewritten | None = None
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = running(f"func {self._function.__name__}")
        if builder._scope.runs:
            return builder.call(self, args, kwargs)
        if _depth.calls >= MOST_CALLS:
            name = self._function.__name__
            raise program_error(
                f"{name}: {MOST_CALLS} calls inside of each other; a kernel has no recursion: write a loop", caller()
            )
        _depth.calls += 1
        try:
            return self._inlined(builder, args, kwargs)
        finally:
            _depth.calls -= 1

    def _inlined(self, builder: Builder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self._function
        rewritten = self._code()
        activation = FunctionActivation(builder, function.__name__)
        try:
            namespace = namespace_of(builder, function, rewritten, self._source.filename, {})
            code = rewritten.bound(namespace)
            code.__defaults__, code.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
            code(activation, *args, **kwargs)
            return activation.returned()
        except BUILD_ERRORS as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # it was not entered
                raise program_error(self._misfit(args, kwargs), caller()) from None
            raise relocated(error, rewritten.tree, self._source.filename) from None

    def _misfit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """How these arguments do not fit the parameters."""
        signature = inspect.signature(self._function)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return f"{self._function.__name__}{signature}: {error}"
        return f"{self._function.__name__}{signature} does not take these arguments"

    def _code(self) -> Rewritten:
        if self._rewritten is None:
            self._rewritten = rewrite(self._source, self._function.__name__, returns_values=True)
        return self._rewritten

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def __repr__(self) -> str:
        return f"<vyre_cuda.func {self._function.__name__}>"


def func(function: Callable[..., Any], /) -> Any:
    """A function that kernels call and that may branch and loop on values: `@vc.func` above its `def`.

    Each call becomes part of the kernel. Functions without control flow on values need no decorator.

    Parameters
    ----------
    function
        Its parameters are values, buffers and Python objects, annotated or not. It may return a value, or several, on
        every path, but not inside a loop.

    Returns
    -------
    function
        The function, for kernels to call.

    Raises
    ------
    ProgramError
        No source, or syntax that has no meaning on the device.
    TypeError
        Not a function.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"vc.func takes a function, not {type_name(function)}")
    return Function(function)
