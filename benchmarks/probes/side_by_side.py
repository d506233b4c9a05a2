"""How many nodes of a graph a device runs side by side: narrow kernels of a fixed time in 1 to 32 chains, some seconds.

    python benchmarks/probes/side_by_side.py [--driver libcuda.so.1] [--nodes 64] [--us 50]

Plain driver calls, without the package: one graph for each number of chains, with the same kernels of one block in all
of them. A row has the median of its replays, the longest one, and how many nodes ran at the same time on average. A
replay that has not ended after ten seconds is said and ends the run.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
from time import perf_counter_ns
from typing import Any

ROUNDS, WARM = 21, 3
LIMIT_NS = 10 * 10**9
CHAINS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 20, 24, 28, 32)
NOT_READY = 600
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 spin_ns)
{
  .reg .pred %p;
  .reg .b64 %t<4>;
  ld.param.u64 %t1, [spin_ns];
  mov.u64 %t0, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t0;
  setp.lt.u64 %p, %t3, %t1;
  @%p bra again;
  ret;
}
"""


class Launch(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
        ("library_kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Driver:
    def __init__(self, name: str) -> None:
        self._library = ctypes.CDLL(name)

    def call(self, function: str, *arguments: Any, allowed: int = 0) -> int:
        status: int = getattr(self._library, function)(*arguments)
        if status not in (0, allowed):
            raise SystemExit(f"{function} returned {status}")
        return status

    def made(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """What the function writes to its first argument."""
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        return made


def graph_of(driver: Driver, kernel: Launch, nodes: int, chains: int) -> ctypes.c_void_p:
    graph = driver.made("cuGraphCreate", 0)
    last: list[ctypes.c_void_p | None] = [None] * chains
    for number in range(nodes):
        before = last[number % chains]
        behind = None if before is None else ctypes.byref(before)
        count = ctypes.c_size_t(before is not None)
        last[number % chains] = driver.made("cuGraphAddKernelNode_v2", graph, behind, count, ctypes.byref(kernel))
    made = driver.made("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
    driver.call("cuGraphDestroy", graph)
    return made


def replay_ns(driver: Driver, graph: ctypes.c_void_p, stream: ctypes.c_void_p, chains: int) -> int:
    begin = perf_counter_ns()
    driver.call("cuGraphLaunch", graph, stream)
    while driver.call("cuStreamQuery", stream, allowed=NOT_READY) == NOT_READY:
        if perf_counter_ns() - begin > LIMIT_NS:
            print(f"{chains:6d} chains: a replay has not ended after {LIMIT_NS // 10**9} s", flush=True)
            os._exit(1)  # a call that waits for the device would not return either
    return perf_counter_ns() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="libcuda.so.1", help="the driver's library")
    parser.add_argument("--nodes", type=int, default=64, help="kernels of each graph")
    parser.add_argument("--us", type=float, default=50.0, help="microseconds that each of them takes")
    options = parser.parse_args()
    driver = Driver(options.driver)
    driver.call("cuInit", 0)
    device = ctypes.c_int()
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuCtxSetCurrent", driver.made("cuDevicePrimaryCtxRetain", device))
    module = driver.made("cuModuleLoadData", PTX)
    time = ctypes.c_uint64(int(options.us * 1000))
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(time), ctypes.c_void_p))
    function = driver.made("cuModuleGetFunction", module, b"spin")
    kernel = Launch(function.value, (ctypes.c_uint * 7)(1, 1, 1, 32, 1, 1, 0), parameters, None)
    stream = driver.made("cuStreamCreate", 1)
    print(f"{options.nodes} kernels of one block and {options.us:g} us")
    for chains in CHAINS:
        graph = graph_of(driver, kernel, options.nodes, chains)
        times = [replay_ns(driver, graph, stream, chains) / 1e3 for _ in range(ROUNDS + WARM)][WARM:]
        median = statistics.median(times)
        beside = options.nodes * options.us / median
        print(
            f"{chains:6d} chains  {median:10.1f} us  longest {max(times):10.1f} us  {beside:6.2f} at once", flush=True
        )
        driver.call("cuGraphExecDestroy", graph)


if __name__ == "__main__":
    main()
