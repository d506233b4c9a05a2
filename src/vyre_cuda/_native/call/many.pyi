from typing import Any

from vyre_cuda._native.call.dispatch import Dispatcher
from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.context import Stream

class Rows:
    places: bytes | None
    def set_places(self, places: bytes) -> None: ...
    def blocks(self) -> int: ...
    def launch(
        self,
        many: PreparedKernel | None,
        clearing: PreparedKernel | None = None,
        many_clearing: PreparedKernel | None = None,
    ) -> None: ...

class Launches(Rows):
    def __init__(self, dispatcher: Dispatcher, rows: tuple[Any, ...], grid: Any, on: Stream | None) -> None: ...
