from vyre_cuda._native.call.plan import Plan
from vyre_cuda._native.call.table import Table

LARGE_RESULT: int

class Framer(Table):
    def __init__(
        self,
        plan: Plan,
        rows: tuple[tuple[int, int, int, int, int, tuple[tuple[int, int, int], ...], int, int], ...],
        work: tuple[tuple[tuple[int, int, int], ...], ...],
        block: tuple[int, int, int],
        index_bits: int,
        simple: bool,
        extents: tuple[tuple[int, int, tuple[tuple[int, int, int], ...]], ...] = (),
    ) -> None: ...
