from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.call.table import Table

LARGE_RESULT: int

class Framer(Table):
    def __init__(
        self,
        prepared: PreparedKernel,
        rows: tuple[tuple[int, int, int, int, int, tuple[tuple[int, int, int], ...], int, int], ...],
        work: tuple[tuple[tuple[int, int, int], ...], ...],
        block: tuple[int, int, int],
        index_bits: int,
        simple: bool,
        extents: tuple[tuple[int, int, tuple[tuple[int, int, int], ...]], ...] = (),
    ) -> None: ...
