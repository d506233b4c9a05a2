"""Threads that launch one bundled graph from C, each with values of its own for more symbols than fit on a stack."""

from __future__ import annotations

import ctypes as c
import struct
import threading
from pathlib import Path

import pytest
from bundled_rows import N, chain

import vyre_cuda as vc
from tests.device.faults.replays_in_c import BYTES, Library, Value
from vyre_cuda.locations import EMULATOR_LIBRARY

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

FACTORS, THREADS, ROUNDS = 20, 4, 40


def bits(value: float) -> int:
    (found,) = struct.unpack("<I", struct.pack("<f", value))
    return int(found)


def test_each_launch_has_the_values_of_its_thread(shared_device: vc.Device, tmp_path: Path) -> None:
    path = tmp_path / "chain.vyre"
    graph = chain(shared_device, defaults=True, factors=FACTORS)
    vc.bundle([], path, graphs={"chain": graph}, targets=[str(shared_device.target)], cubins=False)
    vyc = Library()
    driver = vyc.made("vyc_driver_open", str(Path(vc.get_library_dir()) / EMULATOR_LIBRARY).encode())
    context = vyc.made("vyc_context_open", driver, 0)
    bundle = vyc.made("vyc_bundle_open", str(path).encode(), None, c.c_size_t(0))
    replay = vyc.made("vyc_replay_load", None, c.c_size_t(0), context, bundle, b"chain", c.c_uint64(0))
    number = c.c_uint32()
    vyc.call("vyc_bundle_graph_find", bundle, c.byref(number), b"chain")

    def symbol(name: str) -> int:
        found = c.c_uint32()
        vyc.call("vyc_bundle_symbol_find", bundle, c.byref(found), number, name.encode())
        return found.value

    symbols = {name: symbol(name) for name in ("x", "out", *(f"f{k}" for k in range(FACTORS)))}
    wrong: list[tuple[int, list[float]]] = []
    rounds: list[int] = []
    begin = threading.Barrier(THREADS)

    def launch(mine: int) -> None:
        begin.wait()
        x, out = (vyc.made("vyc_buffer_alloc", context, c.c_uint64(BYTES)) for _ in range(2))
        contents = (c.c_float * N)(*range(N))
        vyc.call("vyc_copy_in", x, c.c_uint64(0), contents, c.c_uint64(BYTES))
        values = (Value * (2 + FACTORS))(
            Value(symbols["x"], 0, 0, x, 0, N),
            Value(symbols["out"], 0, 0, out, 0, N),
            *(Value(symbols[f"f{k}"], 0, bits(mine + 1 if k == mine else 1), None, 0, 0) for k in range(FACTORS)),
        )
        for _ in range(ROUNDS):
            vyc.call("vyc_replay_launch", replay, values, 2 + FACTORS, None)
            vyc.call("vyc_copy_out", out, c.c_uint64(0), contents, c.c_uint64(BYTES))
            if list(contents) != [3 * (mine + 1) * (2 * k + 1) + 1 for k in range(N)]:
                wrong.append((mine, list(contents)))
            rounds.append(mine)
        for each in (x, out):
            vyc.release("vyc_buffer_release", each)

    threads = [threading.Thread(target=launch, args=(mine,)) for mine in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for name, handle in (("replay", replay), ("bundle", bundle), ("context", context), ("driver", driver)):
        vyc.release(f"vyc_{name}_release", handle)

    assert wrong == []
    assert len(rounds) == THREADS * ROUNDS
