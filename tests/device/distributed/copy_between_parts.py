"""A call for all devices of a group whose thread is stopped between its parts, while another thread copies from one of
the devices to the other: the copy comes behind all parts, or before them. The driver is that of tests/native/stops.c.

python copy_between_parts.py (calls | replays)"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

import vyre_cuda as vc

LONG = 2.0  # seconds that the copy may take, at most; whatever it is, the results are the same
LIMIT = 20.0  # seconds after which parts that wait for each other are ended

begun, copied = threading.Event(), threading.Event()
stopped: list[int] = []  # the thread that is stopped, and how many launches come before that


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int)
def hook(call: bytes, is_behind: int) -> None:
    if is_behind or call not in (b"cuLaunchKernel", b"cuGraphLaunch") or stopped[:1] != [threading.get_ident()]:
        return
    if stopped[1] == 0:
        stopped.clear()
        begun.set()
        copied.wait(LONG)
    else:
        stopped[1] -= 1


def between_parts(give: Callable[[], object], copy: Callable[[], object]) -> None:
    """Both, with the copy where `give` is about to give the second device its part."""

    def work() -> None:
        begun.wait()
        copy()
        copied.set()

    begun.clear()
    copied.clear()
    thread = threading.Thread(target=work)
    thread.start()
    stopped[:] = [threading.get_ident(), 1]
    give()
    assert not stopped, "the launch of the second device was not seen"
    thread.join()


def main(what: str) -> None:
    stops = ctypes.CDLL(os.environ["VYRE_CUDA_DRIVER"])
    devices = [vc.Device(0), vc.Device(1)]
    with vc.distributed.local(devices, small=1 << 14, limit=LIMIT) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in devices]
        ys = [device.zeros(4, vc.f32) for device in devices]
        with comm.record() as graph:
            comm.all_reduce(xs)
        comm.all_reduce(xs)
        graph.replay()
        ys[1].copy_from(xs[0])
        ys[0].copy_from(xs[1])
        give = graph.replay if what == "replays" else lambda: comm.all_reduce(xs)
        stops.stops_set(hook)
        between_parts(give, lambda: ys[1].copy_from(xs[0]))
        between_parts(give, lambda: ys[0].copy_from(xs[1]))
        stops.stops_set(None)
        print("sums", [x.numpy().tolist() for x in xs], flush=True)
        print("copies", [y.numpy()[0] in (4.0, 8.0, 16.0) for y in ys], flush=True)
    for device in devices:
        device.close()


if __name__ == "__main__":
    main(sys.argv[1])
