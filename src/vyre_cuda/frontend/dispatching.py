"""The base class of kernel functions: calls without Python frames, where the extension is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vyre_cuda._native.call.function import ABSENT as ABSENT
    from vyre_cuda._native.call.function import FREE as FREE
    from vyre_cuda._native.call.function import FunctionDispatcher as FunctionDispatcher
    from vyre_cuda._native.call.function import Variant as Variant
    from vyre_cuda._native.call.function import call_by_vector as call_by_vector
else:
    try:
        from vyre_cuda._native.call.function import ABSENT, FREE, FunctionDispatcher, Variant, call_by_vector
    except ImportError:  # programs are built and interpreted without it

        class FunctionDispatcher:
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return self._first_call(args, kwargs)

        ABSENT, FREE, Variant, call_by_vector = object(), object(), None, lambda kind: kind
