from types import TracebackType
from typing import Any, Final, TypeAlias

from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.context import Context
from vyre_cuda._native.memory.memory import Span

ALL_REDUCE: Final[int]
ALL_GATHER: Final[int]
REDUCE_SCATTER: Final[int]
BROADCAST: Final[int]
ALL_TO_ALL: Final[int]
SEND: Final[int]
RECEIVE: Final[int]
KINDS: Final[tuple[str, ...]]
ONE_SHOT_BLOCK_BYTES: Final[int]

# (kind, type, op, peer, what is read, what is written, count)
Part: TypeAlias = tuple[int, int, int, int, Span | None, Span | None, int]

def nccl_open(path: str | None) -> None: ...
def nccl_version() -> int: ...
def nccl_unique_id() -> bytes: ...

class Group:
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class Member:
    context: Final[Context]
    rank: Final[int]
    size: Final[int]
    def __init__(self, context: Context, identity: bytes, rank: int, size: int, timeout_ns: int) -> None: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def run(
        self,
        kind: int,
        type: int,
        op: int,
        peer: int,
        source: Span | None,
        out: Span | None,
        count: int,
        stream: Any = None,
    ) -> None: ...
    def check(self, part: Part | None = None) -> None: ...
    def watch(self) -> tuple[bool, int, int, float, str, int, int]: ...
    def add_one_shot(self, type: int, op: int, prepared: PreparedKernel) -> None: ...
    def limit_one_shot(self, bytes: int) -> None: ...
    def abort(self, message: str) -> None: ...

def one_shot_open(members: list[Member], most_bytes: int) -> None: ...
