"""Allocations of launches of a bundled graph whose merged steps or rows take arrays that are symbols, from C.

    LD_PRELOAD=LIBRARY python -m tests.device.faults.replays_in_c LIBRARY BUNDLE GRAPH RESULT GIVEN

The graph reads the symbol x and writes the symbol RESULT, and launches give so many of its factors, of which the first
is 2. Prints whether making the graph has allocated anything, what ten launches with other arrays have after that, and
what they wrote.
"""

from __future__ import annotations

import ctypes as c
import struct
import sys
from pathlib import Path

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY

COUNT = 96
BYTES = 4 * COUNT


class Value(c.Structure):
    """vyc_symbol_value"""

    _fields_ = (
        ("symbol", c.c_uint32),
        ("reserved", c.c_uint32),
        ("bits", c.c_uint64),
        ("buffer", c.c_void_p),
        ("offset", c.c_uint64),
        ("count", c.c_uint64),
    )


TWO, ONE = (struct.unpack("<I", struct.pack("<f", each))[0] for each in (2.0, 1.0))


class Library:
    """libvyre_cuda, whose failures end the process."""

    def __init__(self) -> None:
        self._library = c.CDLL(next(str(path) for path in sorted(Path(vc.get_library_dir()).glob("libvyre_cuda.so.*"))))
        self._library.vyc_last_message.restype = c.c_char_p

    def call(self, name: str, *words: object) -> None:
        if getattr(self._library, name)(*words) != 0:
            raise SystemExit(f"{name}: {self._library.vyc_last_message().decode()}")

    def made(self, name: str, *words: object) -> c.c_void_p:
        found = c.c_void_p()
        self.call(name, c.byref(found), *words)
        return found

    def release(self, name: str, handle: c.c_void_p) -> None:
        getattr(self._library, name)(handle)


def main() -> None:
    faults, (bundle_path, name) = c.CDLL(sys.argv[1]), map(str.encode, sys.argv[2:4])
    faults.host_faults_made.restype = c.c_uint64
    vyc = Library()
    if faults.host_faults_watch() == 0:
        raise SystemExit("the allocations of the library are not counted")
    driver = vyc.made("vyc_driver_open", str(Path(vc.get_library_dir()) / EMULATOR_LIBRARY).encode())
    context = vyc.made("vyc_context_open", driver, 0)
    bundle = vyc.made("vyc_bundle_open", bundle_path, None, c.c_size_t(0))
    replay = vyc.made("vyc_replay_load", None, c.c_size_t(0), context, bundle, name, c.c_uint64(0))
    graph = c.c_uint32()
    vyc.call("vyc_bundle_graph_find", bundle, c.byref(graph), name)

    def symbol(name: str) -> int:
        found = c.c_uint32()
        vyc.call("vyc_bundle_symbol_find", bundle, c.byref(found), graph, name.encode())
        return found.value

    given = int(sys.argv[5])
    factors = [Value(symbol(f"f{k}"), 0, ONE if k else TWO, None, 0, 0) for k in range(given)]
    x, out = symbol("x"), symbol(sys.argv[4])
    buffers = [vyc.made("vyc_buffer_alloc", context, c.c_uint64(BYTES)) for _ in range(3)]
    contents = (c.c_float * COUNT)(*range(COUNT))
    vyc.call("vyc_copy_in", buffers[0], c.c_uint64(0), contents, c.c_uint64(BYTES))
    values = [
        (Value * (2 + given))(Value(x, 0, 0, buffers[0], 0, COUNT), Value(out, 0, 0, to, 0, COUNT), *factors)
        for to in buffers[1:]
    ]
    first = before = faults.host_faults_made()
    for turn in range(30):
        if turn == 20:
            before = faults.host_faults_made()
        vyc.call("vyc_replay_launch", replay, values[turn % 2], 2 + given, None)
    allocated = faults.host_faults_made() - before
    vyc.call("vyc_copy_out", buffers[2], c.c_uint64(0), contents, c.c_uint64(BYTES))
    print(before > first, allocated, *contents[:3])


if __name__ == "__main__":
    main()
