from typing import Any

from vyre_cuda._native.plan import Arguments, Plan
from vyre_cuda._native.table import Table
from vyre_cuda._native.ticket import Ticket

LARGE_RESULT: int

class Dispatcher(Table):
    def __init__(
        self,
        plan: Plan,
        rows: tuple[tuple[int, int, int, int, int, tuple[tuple[int, int, int], ...]], ...],
        work: tuple[tuple[tuple[int, int, int], ...], ...],
        block: tuple[int, int, int],
        index_bits: int,
        simple: bool,
    ) -> None: ...
    def __call__(self, *args: Any, out: Any = None, grid: Any = None, iterations: int = 1, **kwargs: Any) -> Any: ...
    def plain_arguments(self, args: tuple[Any, ...]) -> Arguments | None: ...
    def submit_plain(self, args: tuple[Any, ...], out: Any, grid: Any) -> tuple[Ticket, Any] | None: ...

def launch(self: Dispatcher, *args: Any, stream: Any = None, grid: Any = None, **kwargs: Any) -> None: ...
