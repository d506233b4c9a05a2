"""A service that survives faults: the device lives in a child process, which is replaced when the device is lost.

A fault ends the CUDA context of a process for good: neither a reset nor a new context works, so only another process
can continue. The supervisor keeps each request until it is answered. When a child is lost, the supervisor starts
another one and sends it the open requests again. The request that was running is tried once more; if it ends that
child too, it is answered with the error.

Run it: `python examples/supervised.py --requests 200 --device auto`. A few of the requests run a kernel that writes to
an invalid address.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

import vyre_cuda as vc

# Children that a request may end before it is answered with the error.
ATTEMPTS = 2
# Requests that a child has at a time, so that the next one is there when one is done.
IN_FLIGHT = 2
# How long a child may take to open its device. If it cannot, that is an error, and no other child is started.
START_S = 120.0

Work = Callable[[Any], Any]


def serve(start: Callable[[int | str], Work], device: int | str, requests: Connection) -> None:
    """The child: answers requests in order, until the device is lost or the connection is closed."""
    try:
        work = start(device)
    except Exception as error:
        requests.send(error)
        return
    requests.send(None)  # ready
    while True:
        try:
            number, request = requests.recv()
        except EOFError:
            return
        try:
            answer, error = work(request), None
        except vc.DeviceLostError as lost:
            requests.send((number, None, lost, True))
            return
        except Exception as other:  # concerns only this request
            answer, error = None, other
        requests.send((number, answer, error, False))


@dataclass
class Request:
    value: Any
    future: Future[Any]
    attempts: int = 0


@dataclass
class Supervisor:
    """Any thread may call `submit`. In the child, `start` returns the function that answers a request."""

    start: Callable[[int | str], Work]
    device: int | str = "auto"
    restarts: int = 0
    _open: dict[int, Request] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closing: bool = False
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._wake, self._woken = multiprocessing.Pipe()
        self._thread = threading.Thread(target=self._run, name="supervisor")
        self._thread.start()

    def submit(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closing:
                raise RuntimeError("the supervisor is closed") from self._failure
            self._open[next(self._numbers)] = Request(value, future)
        self._wake.send(None)
        return future

    def close(self) -> None:
        """Wait until every request is answered."""
        with self._lock:
            self._closing = True
        self._wake.send(None)
        self._thread.join()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- the supervisor's thread ----

    def _run(self) -> None:
        try:
            while not self._is_done():
                self._one_child()
        except Exception as error:  # no child can be started: open and later requests get the error
            with self._lock:
                self._closing, self._failure = True, error
                left, self._open = self._open, {}
            for request in left.values():
                request.future.set_exception(error)

    def _is_done(self) -> bool:
        with self._lock:
            return self._closing and not self._open

    def _one_child(self) -> None:
        # A forked child would inherit a driver that it cannot use.
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(target=serve, args=(self.start, self.device, theirs))
        child.start()
        theirs.close()
        try:
            error = ours.recv() if ours.poll(START_S) else TimeoutError(f"no device within {START_S:g} s")
            if error is not None:
                raise error
            self._feed(ours)
        finally:
            ours.close()
            child.join()

    def _feed(self, child: Connection) -> None:
        """Send requests until the child is lost, or the supervisor is closed and all requests are answered."""
        sent: list[int] = []
        while not self._is_done():
            with self._lock:
                new = [number for number in self._open if number not in sent][: IN_FLIGHT - len(sent)]
                requests = [(number, self._open[number].value) for number in new]
            for request in requests:
                child.send(request)
                sent.append(request[0])
            ready = wait([child, self._woken])
            if self._woken in ready:
                self._woken.recv()
            if child in ready:
                try:
                    number, answer, error, lost = child.recv()
                except (EOFError, ConnectionResetError):  # it ended without a message
                    number, answer, error, lost = sent[0], None, vc.DeviceLostError("the child process ended"), True
                if lost:
                    self._lost(number, error)
                    return
                sent.remove(number)
                self._answer(number, answer, error)

    def _lost(self, running: int, error: Exception) -> None:
        self.restarts += 1
        request = self._open[running]
        request.attempts += 1
        if request.attempts == ATTEMPTS:
            self._answer(running, None, error)

    def _answer(self, number: int, answer: Any, error: Exception | None) -> None:
        with self._lock:
            request = self._open.pop(number)
        if error is not None:
            request.future.set_exception(error)
        else:
            request.future.set_result(answer)


# ---- what the service does ---------------------------------------------------------------------------------------

# Writes to an invalid address: a fault that ends the context.
FAULT = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry fault()
{
  .reg .b64 %rd<1>;
  mov.u64 %rd0, 64;
  st.global.u32 [%rd0], 1;
  ret;
}
"""


def squares() -> vc.Program:
    b = vc.Builder("squares", block=256)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i] * x[i]
    return b.build()


def start(device: int | str) -> Work:
    """In the child: open the device, and return the function that answers a request: an array, or None for a fault."""
    opened = vc.Device(device)
    kernel = opened.compile(squares())
    fault = opened.load(FAULT, "fault", signature="")

    def work(request: np.ndarray | None) -> np.ndarray:
        if request is None:
            fault.launch(grid=1, block=1)
            opened.synchronize()
        found: np.ndarray = kernel(request)
        return found

    return work


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="answers requests through faults of the device")
    parser.add_argument("--requests", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--faults", type=int, default=2, help="how many of them fault (default: 2)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    every = max(options.requests // max(options.faults, 1), 1)
    arrays = [np.full(1000, number, np.float32) for number in range(options.requests)]
    with Supervisor(start, options.device) as service:
        futures = [
            service.submit(None if number % every == every // 2 and number // every < options.faults else array)
            for number, array in enumerate(arrays)
        ]
        errors = [future.exception() for future in futures]
    lost = sum(isinstance(error, vc.DeviceLostError) for error in errors)
    right = sum(
        error is None and np.array_equal(future.result(), array * array)
        for error, future, array in zip(errors, futures, arrays, strict=True)
    )
    print(f"{len(futures)} requests: {right} answered, {lost} ended the device twice each; {service.restarts} restarts")
    for error in {str(error) for error in errors if error is not None and not isinstance(error, vc.DeviceLostError)}:
        print(error, file=sys.stderr)
    return 0 if right + lost == len(futures) else 1


if __name__ == "__main__":
    sys.exit(main())
