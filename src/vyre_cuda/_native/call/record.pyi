from typing import Any, Final

import numpy as np

from vyre_cuda._native.call.prepared import PreparedKernel

class Recorded:
    KEEP: Final[object]
    @property
    def skipped(self) -> int: ...
    def __init__(
        self,
        prepared: PreparedKernel,
        rows: list[tuple[int, int]],
        inputs: list[np.ndarray[Any, Any] | None],
        outputs: list[np.ndarray[Any, Any] | None],
        scalars: list[int],
        grid: tuple[int, int, int],
        iterations: int,
        skips: bool,
        sized: bool,
        known: tuple[tuple[int, int], ...] = (),
        of_work: bool = False,
    ) -> None: ...
    def replay(self, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...
