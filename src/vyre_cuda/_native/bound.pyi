from typing import Any

from vyre_cuda._native.context import Stream
from vyre_cuda._native.dispatch import Dispatcher
from vyre_cuda._native.plan import AnyCall, Arguments

class Call(AnyCall):
    def __init__(
        self,
        dispatcher: Dispatcher,
        arguments: Arguments,
        values: tuple[Any, ...],
        stream: Stream | None = None,
        plain: bool = True,
    ) -> None: ...
    def __call__(self, *args: Any) -> None: ...
    def set_arguments(self, arguments: Arguments, values: tuple[Any, ...]) -> None: ...
