"""Blocks that wait, by atomics, for blocks with lower tickets: the interpreter runs them one after the other."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc
from vyre_cuda.interp.evaluate import evaluate


def chain(block: int) -> vc.Program:
    """Each block adds its part to what the block with the ticket before it published, and publishes the sum."""
    b = vc.Builder("chain", block=block)
    x = b.input("x", vc.u32)
    out, published = b.output("out", vc.u32, size=x.size), b.inout("published", vc.u64)
    shared = b.shared("shared", vc.u32, 2)
    with b.if_(vc.thread_id.x == 0):
        shared[0] = vc.u32(b.atomic_add(published, 0, vc.u64(1)))
    b.barrier()
    ticket = b.let("ticket", shared[0])
    i = b.let("i", ticket * block + vc.thread_id.x)
    scanned = b.warp_scan(x[i], "add")
    with b.if_(vc.thread_id.x == block - 1):
        before = b.var("before", vc.u64(1 << 32))
        with b.if_(ticket > 0):
            before.set(0)
            with b.while_(lambda: before == 0):
                before.set(b.atomic_load(published, ticket, order="acquire"))
        shared[1] = vc.u32(before.read())
        b.atomic_store(published, ticket + 1, before + vc.u64(scanned), order="release")
    b.barrier()
    out[i] = scanned + shared[1]
    return b.build()


def test_a_chain_of_blocks() -> None:
    x = np.random.default_rng(1).integers(0, 100, 32 * 50, dtype=np.uint32)
    out, _ = evaluate(chain(32), x, np.zeros(52, np.uint64))
    assert np.array_equal(np.cumsum(x, dtype=np.uint32), out)


def test_a_chain_of_blocks_on_the_emulator() -> None:
    x = np.random.default_rng(1).integers(0, 100, 32 * 50, dtype=np.uint32)
    with vc.Device("emulator", check="races") as device:
        out, _ = device.run(chain(32), x, np.zeros(52, np.uint64))
    assert np.array_equal(np.cumsum(x, dtype=np.uint32), out)
