"""Two ranks of one process: the thread of rank 0 is stopped in its launch, when the driver has it and both kernels end,
until rank 1 has been leaving for a while; both have their results. The driver is that of tests/native/stops.c."""

from __future__ import annotations

import ctypes
import os
import threading

import vyre_cuda as vc

LEAVES_FOR = 1.0  # seconds, at least; whatever it is, the results are the same

called, going_on = threading.Event(), threading.Event()
stopped: list[int] = []


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int)
def hook(call: bytes, is_behind: int) -> None:
    if is_behind and call == b"cuLaunchKernel" and threading.get_ident() in stopped:
        stopped.clear()
        called.set()
        going_on.wait()


def main() -> None:
    stops = ctypes.CDLL(os.environ["VYRE_CUDA_DRIVER"])
    devices = [vc.Device(0), vc.Device(1)]
    comm = vc.distributed.local(devices, small=1 << 14)
    for device in devices:
        device.synchronize()
    xs = [device.full(4, 1.0, vc.f32) for device in devices]
    stream = devices[0].stream()
    told: list[str] = []

    def reduce() -> None:
        stopped.append(threading.get_ident())
        comm.ranks[0].all_reduce(xs[0], stream=stream)
        told.append(f"rank 0 {xs[0].numpy().tolist()}")

    thread = threading.Thread(target=reduce)
    stops.stops_set(hook)
    thread.start()
    called.wait()
    comm.ranks[1].all_reduce(xs[1])
    print("rank 1", xs[1].numpy().tolist(), flush=True)
    threading.Timer(LEAVES_FOR, going_on.set).start()
    comm.ranks[1].close()
    thread.join()
    stops.stops_set(None)
    print(*told, flush=True)
    comm.close()
    for device in devices:
        device.close()


if __name__ == "__main__":
    main()
