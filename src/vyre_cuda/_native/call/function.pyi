from typing import Any, TypeVar

from vyre_cuda._native.call.dispatch import Dispatcher

_Kind = TypeVar("_Kind", bound=type[FunctionDispatcher])

ABSENT: object
FREE: object
MOST_VARIANTS: int

class Variant:
    kernel: Dispatcher
    device: Any
    is_default: bool
    def __init__(
        self,
        kernel: Dispatcher,
        device: Any,
        is_default: bool,
        parameters: tuple[tuple[str, object, object, int], ...],
        captures: tuple[tuple[Any, str, object], ...],
    ) -> None: ...

class FunctionDispatcher:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def _remember(self, variant: Variant) -> None: ...

def call_by_vector(kind: _Kind) -> _Kind: ...
