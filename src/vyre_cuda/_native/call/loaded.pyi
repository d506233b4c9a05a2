from typing import Any

from vyre_cuda._native.call.prepared import AnyCall, Arguments, PreparedKernel
from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.core.module import Module

class Launcher:
    @property
    def module(self) -> Module: ...
    def __init__(self, module: Module, words: list[tuple[bool, int, int]], max_grid: tuple[int, int, int]) -> None: ...
    def launch(
        self,
        *args: Any,
        grid: Any,
        block: Any,
        shared_bytes: int = 0,
        cooperative: bool = False,
        stream: Any = None,
    ) -> None: ...
    def prepared_and_arguments(
        self, args: tuple[Any, ...], grid: Any, block: Any, shared_bytes: int, cooperative: bool
    ) -> tuple[PreparedKernel, Arguments]: ...
    def _variant(self, block: Any, shared_bytes: int, cooperative: bool, addresses: int) -> PreparedKernel: ...
    def _array(self, position: int, value: Any, stream: Stream | None) -> Any: ...
    def _bits(self, position: int, value: Any) -> int: ...

class LoadedCall(AnyCall):
    def __init__(
        self,
        launcher: Launcher,
        args: tuple[Any, ...],
        grid: Any,
        block: Any,
        shared_bytes: int,
        cooperative: bool,
        stream: Any,
    ) -> None: ...
    def __call__(self, *args: Any) -> None: ...
