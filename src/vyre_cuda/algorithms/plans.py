"""Calls that are bound to their arrays: memory is taken once, and each run is one launch or one replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vyre_cuda.algorithms.work import noting
from vyre_cuda.runtime.memory.array import DeviceArray


class Plan:
    """A call of a function on device arrays, to be repeated; made by `vc.algorithms.plan`.

    `plan()` runs it on what the arrays hold then, without waiting, and returns `plan.result`, which has the same arrays
    each time.
    """

    __slots__ = ("_run", "result")

    def __init__(self, run: Callable[[], Any], result: Any) -> None:
        self._run = run
        self.result = result

    def __call__(self) -> Any:
        self._run()
        return self.result

    def __repr__(self) -> str:
        return f"<vyre_cuda plan of {self.result!r}>"


def planned(function: Callable[..., Any], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> Plan:
    """The call recorded; where it is one launch, that launch bound, which costs less than a replay."""
    first = next((each for each in (*arrays, *keywords.values()) if isinstance(each, DeviceArray)), None)
    if first is None:
        raise TypeError("a plan takes device arrays: NumPy arrays need none")
    with first.device.record() as graph, noting() as launches:
        result = function(*arrays, **keywords)
    if len(graph) == len(launches) == 1:
        (launch,) = launches
        return Plan(launch.kernel.bind(*launch.arguments, grid=launch.blocks), result)
    graph.compile()
    return Plan(graph.replay, result)
