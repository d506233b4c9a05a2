from typing import Any

from vyre_cuda._native.call.dispatch import Dispatcher
from vyre_cuda._native.call.prepared import AnyCall, Arguments
from vyre_cuda._native.core.context import Stream

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
