from typing import Any

class Table:
    @property
    def simple(self) -> bool: ...
    def __init__(
        self,
        rows: tuple[tuple[int, int, int, int, int, tuple[tuple[int, int, int], ...], int, int], ...],
        work: tuple[tuple[tuple[int, int, int], ...], ...],
        block: tuple[int, int, int],
        index_bits: int,
        simple: bool,
        extents: tuple[tuple[int, int, tuple[tuple[int, int, int], ...]], ...] = (),
    ) -> None: ...
    def leave_from(self, threads: int) -> None: ...
    def scalar(self, parameter: int, value: Any) -> int | None: ...
    def sizes_and_grid(
        self, counts: list[int], scalars: list[int]
    ) -> tuple[list[int] | None, tuple[int, int, int] | None]: ...
