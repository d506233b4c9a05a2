"""Calls that are bound to their arrays: memory is taken once, and each run is one launch or one replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vyre_cuda.algorithms.work import noting
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


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


def plan(function: Callable[..., Any], *arrays: Any, **keywords: Any) -> Plan:
    """A call on device arrays, prepared to be repeated with the least latency.

    Memory is taken once; each run is one launch, or the replay of a graph.

    Parameters
    ----------
    function
        A function of this module, or any that gives all its work to the device of the arrays and waits for none.
    *arrays, **keywords
        The arguments of the call.

    Returns
    -------
    Plan
        What runs the call: `p()` does so on what the arrays hold then, and returns `p.result`, without waiting.

    Raises
    ------
    TypeError
        None of the arguments is a device array.
    RecordingError
        The call waits for a size that only the device knows, or a graph is being recorded.
    Error
        Those of the call.
    """
    first = next((each for each in (*arrays, *keywords.values()) if isinstance(each, DeviceArray)), None)
    if first is None:
        raise TypeError("a plan takes device arrays: NumPy arrays need none")
    with first.device.record() as graph, noting() as launches:
        result = function(*arrays, **keywords)
    if len(graph) == len(launches) == 1:
        (launch,) = launches
        arguments = [_lasting(first.device, each) for each in launch.arguments]
        return Plan(launch.kernel.bind(*arguments, grid=launch.blocks), result)
    graph.compile()
    return Plan(graph.replay, result)


def _lasting(device: Device, argument: Any) -> Any:
    """What a bound call takes in place of an array of the recording alone."""
    return device.empty(argument.shape, argument.type) if isinstance(argument, Temporary) else argument
