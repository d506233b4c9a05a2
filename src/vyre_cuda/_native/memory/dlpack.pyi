from typing import Any

from vyre_cuda._native.memory.memory import Buffer

def export(
    buffer: Buffer,
    offset: int,
    shape: tuple[int, ...],
    dtype: tuple[int, int],
    device: tuple[int, int],
    versioned: bool,
    read_only: bool,
    copied: bool,
) -> Any: ...

class Imported:
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> tuple[int, int, int]: ...
    @property
    def device(self) -> tuple[int, int]: ...
    @property
    def read_only(self) -> bool: ...
    def __init__(self, capsule: object) -> None: ...
