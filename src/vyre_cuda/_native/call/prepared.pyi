from typing import Any

from vyre_cuda._native.call.ticket import Ticket
from vyre_cuda._native.core.context import Context, Stream
from vyre_cuda._native.core.module import Module

class PreparedKernel:
    @property
    def context(self) -> Context: ...
    @property
    def binding_count(self) -> int: ...
    @property
    def scalar_count(self) -> int: ...
    def __init__(
        self,
        module: Module,
        entry: str,
        block: tuple[int, int, int],
        dynamic_shared_bytes: int,
        parameter_bytes: int,
        parameters: list[tuple[int, int, int, int]],
        bindings: list[tuple[int, int, int, int]],
        scalar_count: int,
        tag: int,
        cooperative: bool,
        may_overlap: bool = False,
        prints: bool = False,
        label: str | None = None,
        labels: list[tuple[bytes, int]] | None = None,
        known: tuple[tuple[int, int, int, int, bytes], ...] = (),
    ) -> None: ...
    def add_several(self, module: Module, entry: str, elements: int, threads: int) -> None: ...
    def function_info(self) -> dict[str, int]: ...
    def run(self, arguments: Arguments, *, timeout_ns: int = -1) -> None: ...
    def timed(self, arguments: Arguments) -> dict[str, int]: ...
    def submit(self, arguments: Arguments) -> Ticket: ...
    def launch(self, arguments: Arguments) -> None: ...
    def try_out(self, arguments: Arguments) -> None: ...

class Arguments:
    def __init__(
        self,
        bindings: list[Any],
        scalars: list[int],
        grid: tuple[int, int, int],
        stream: Stream | None = None,
        iterations: int = 1,
        of_work: bool = False,
    ) -> None: ...

class AnyCall:
    @property
    def values(self) -> tuple[Any, ...]: ...
