"""Mistakes that compilers of small kernels make, one test each, named after the mistake: what threads do together.

Values are written out, so that a mistake that interpreter and device share is seen as well.
"""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import ATOMICS, ATOMICS_BY_CODE, BY_CODE, OPS, WARP_OPS, WARP_OPS_BY_CODE
from vyre_cuda.ir.core.types import BY_CODE as TYPES_BY_CODE
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.testing.compare import assert_same

from .texts import GLOBAL_ID, expect, f32s, i32s, u32s

LANES = np.arange(32, dtype=np.uint32)


def refused(text: str, *words: str) -> None:
    """Not a program; the findings have these words."""
    with pytest.raises(vc.ProgramError) as caught:
        vc.parse(f"program p\n{text}")
    found = " ".join(diagnostic.message for diagnostic in caught.value.diagnostics)
    assert all(word in found for word in words), found


# ---- warps ----------------------------------------------------------------------------------------------------------


def test_only_lane_0_has_the_sum_of_a_warp(device: vc.Device) -> None:
    text = (
        "block 32\nin x: f32\nout out: f32[size(x)]\n"
        f"{GLOBAL_ID}let s = warp reduce load(x[i]) combine add\nstore out[i], s\n"
    )
    expect(device, text, [np.arange(32, dtype=np.float32)], np.full(32, 496, np.float32))


def test_a_shuffle_from_a_lane_that_is_not_there_wraps(device: vc.Device) -> None:
    text = (
        "block 32\nin x: u32\nout out: u32[size(x)]\n"
        f"{GLOBAL_ID}let s = warp shuffle load(x[i]), add(lane_id, u32:30)\nstore out[i], s\n"
    )
    expect(device, text, [LANES + 1], u32s(31, 32, *[0] * 30))


def test_a_partial_warp_counts_lanes_that_are_not_there(device: vc.Device) -> None:
    text = (
        f"block 40\nin x: u32\nout all: u32[size(x)]\nout least: u32[size(x)]\n{GLOBAL_ID}let v = load(x[i])\n"
        "let b = warp ballot greater(v, u32:0)\nlet m = warp reduce v combine minimum\n"
        "store all[i], b\nstore least[i], m\n"
    )
    x = np.arange(5, 45, dtype=np.uint32)
    expect(device, text, [x], (u32s(*[2**32 - 1] * 32, *[255] * 8), u32s(*[5] * 32, *[37] * 8)))


def test_a_warp_operation_in_a_branch_runs_over_all_lanes(device: vc.Device) -> None:
    """In a branch that whole warps take it is theirs alone; in one that some lanes take it is refused."""
    text = (
        f"block 64\nin x: u32\nout out: u32[size(x)]\n{GLOBAL_ID}let w = floor_divide(thread_id.x, u32:32)\n"
        "if equal(w, u32:1)\nlet s = warp reduce load(x[i]) combine add\nstore out[i], s\nend\n"
    )
    expect(device, text, [np.arange(64, dtype=np.uint32)], u32s(*[0] * 32, *[sum(range(32, 64))] * 32))
    refused(
        "block 64\nif less(lane_id, u32:3)\nlet s = warp reduce lane_id combine add\nend\n", "some threads of a warp"
    )


def test_redux_is_used_where_the_target_does_not_have_it() -> None:
    program = vc.parse(
        "program p\nblock 32\nout out: u32[u32:32]\nlet s = warp reduce lane_id combine add\nstore out[lane_id], s\n"
    )

    assert "redux" in vc.ptx(program, target="sm_80")
    assert "redux" not in vc.ptx(program, target="sm_75")


def test_there_is_no_lane_id(device: vc.Device) -> None:
    text = (
        "block 8 8\nwork u32:8, u32:8\nout out: u32[u32:64]\n"
        "let t = add(thread_id.x, multiply(thread_id.y, u32:8))\nstore out[t], lane_id\n"
    )
    expect(device, text, [], np.tile(LANES, 2))


# ---- atomics --------------------------------------------------------------------------------------------------------


def test_order_and_scope_of_atomics_are_ignored() -> None:
    text = (
        "program p\nblock 1\ninout h: u32\nout out: u32[u32:1]\n"
        "let old = atomic add h[u32:0], u32:1 order {} scope {}\nstore out[u32:0], old\n"
    )

    for order in ("relaxed", "acquire", "release", "acq_rel"):
        for scope, word in (("block", "cta"), ("device", "gpu"), ("system", "sys")):
            assert f"atom.{order}.{word}.global.add.u32" in vc.ptx(vc.parse(text.format(order, scope)))


def test_a_spin_on_a_relaxed_load_reads_once(device: vc.Device) -> None:
    """The second block waits for what the first one stores."""
    text = (
        "block 32\nwork u32:64\ninout h: u32\nif equal(block_id.x, u32:0)\n"
        "atomic store h[thread_id.x], u32:7 order relaxed scope device\n"
        "else\nvar v = u32:0\nwhile\ntest equal(v, u32:0)\n"
        "let seen = atomic load h[thread_id.x] order relaxed scope device\nv = seen\nend\n"
        "store h[add(thread_id.x, u32:32)], add(v, u32:1)\nend\n"
    )
    expect(device, text, [np.zeros(64, np.uint32)], u32s(*[7] * 32, *[8] * 32))
    assert "ld.relaxed" in vc.ptx(vc.parse(f"program p\n{text}"))


def test_an_atomic_in_shared_memory_goes_to_global_memory(device: vc.Device) -> None:
    text = (
        "block 64\nwork u32:192\nout out: u32[u32:3]\nshared n: u32[1]\n"
        "atomic add n[u32:0], u32:1 order relaxed scope block\n"
        "barrier\nif equal(thread_id.x, u32:0)\nstore out[block_id.x], load(n[u32:0])\nend\n"
    )
    expect(device, text, [], u32s(64, 64, 64))


def test_an_atomic_whose_result_nobody_reads_is_dropped(device: vc.Device) -> None:
    text = (
        "block 32\nwork u32:64\ninout h: i32\n"
        "let old = atomic maximum h[u32:0], cast.i32(global_id.x) order relaxed scope device\n"
    )
    expect(device, text, [i32s(-5)], i32s(63))


# ---- barriers -------------------------------------------------------------------------------------------------------


def test_a_barrier_in_a_loop_is_taken_for_divergent(device: vc.Device) -> None:
    text = (
        "block 64\nwork u32:64\ninout h: u32\nshared t: u32[64]\nlet l = thread_id.x\nstore t[l], l\n"
        "for j = u32:0 to u32:4 step u32:1\nbarrier\nlet v = load(t[remainder(add(l, u32:1), u32:64)])\n"
        "if equal(j, u32:2)\nbarrier\nelse\nbarrier\nend\nstore t[l], v\nend\nstore h[l], load(t[l])\n"
    )
    expect(device, text, [np.zeros(64, np.uint32)], np.roll(np.arange(64, dtype=np.uint32), -4))


@pytest.mark.parametrize("barrier", ["barrier", "grid_barrier"])
def test_a_divergent_barrier_is_missed(barrier: str) -> None:
    """Deep inside, behind a var that changed under divergent control, in a loop that some leave, after a return."""
    condition = "less(thread_id.x, u32:3)"
    refused(
        f"if {condition}\nfor j = u32:0 to u32:3 step u32:1\nif bool_:true\n{barrier}\nend\nend\nend\n",
        "some threads",
    )
    refused(f"var v = u32:0\nif {condition}\nv = u32:1\nend\nif equal(v, u32:1)\n{barrier}\nend\n", "some threads")
    refused(
        f"var v = u32:0\nfor j = u32:0 to u32:3 step u32:1\nif equal(v, u32:1)\n{barrier}\nend\n"
        f"if {condition}\nv = u32:1\nend\nend\n",
        "some threads",
    )
    refused(f"for j = u32:0 to u32:3 step u32:1\nif {condition}\nbreak\nend\n{barrier}\nend\n", "some threads")
    refused(f"if {condition}\nreturn\nend\n{barrier}\n", "some threads")


def test_a_grid_barrier_is_a_barrier_of_the_block(device: vc.Device) -> None:
    """Each block reads what the next one wrote before the barrier."""
    text = (
        f"block 32\nwork size(h)\ninout h: u32\n{GLOBAL_ID}let mine = multiply(i, u32:3)\n"
        "store h[i], mine\ngrid_barrier\n"
        "let next = load(h[remainder(add(i, u32:32), size(h))])\ngrid_barrier\nstore h[i], add(next, mine)\n"
    )
    i = np.arange(128, dtype=np.uint32)
    expect(device, text, [np.zeros(128, np.uint32)], np.roll(i * 3, -32) + i * 3)


def test_what_is_before_a_grid_barrier_runs_again_after_it(device: vc.Device) -> None:
    text = (
        "block 32\nwork u32:96\ninout n: u32\nout out: u32[u32:96]\n"
        "let old = atomic add n[u32:0], u32:1 order relaxed scope device\n"
        "grid_barrier\nlet total = load(n[u32:0])\ngrid_barrier\nstore out[old], total\n"
    )
    expect(device, text, [u32s(0)], (u32s(96), np.full(96, 96, np.uint32)))


def test_a_failed_assertion_is_silent(device: vc.Device) -> None:
    program = vc.parse(
        'program p\nblock 32\nwork size(x)\nin x: u32\nassert less(load(x[global_id.x]), u32:5), "small"\n'
    )
    kernel = device.compile(program)
    kernel(u32s(1, 2, 3))

    for run in (kernel, lambda x: vc.evaluate(program, x)):
        with pytest.raises(vc.KernelAssertionError, match="small") as caught:
            run(u32s(1, 9, 3))
        assert caught.value.thread == 1


# ---- launches and programs ------------------------------------------------------------------------------------------


def test_a_grid_of_two_axes_is_guessed(device: vc.Device) -> None:
    """A block of several axes needs its work named; then there are as many blocks as that needs on each axis."""
    text = "block 4 2\n{}out out: u32[u32:2]\nif logical_and(equal(global_id.x, u32:0), equal(global_id.y, u32:0))\n"
    text += "store out[u32:0], grid_dim.x\nstore out[u32:1], grid_dim.y\nend\n"
    expect(device, text.format("work u32:9, u32:3\n"), [], u32s(3, 2))
    program = vc.parse("program p\n" + text.format(""))

    assert_same(u32s(5, 7), device.compile(program)(grid=(5, 7)))
    for run in (device.compile(program), lambda: vc.evaluate(program)):
        with pytest.raises((TypeError, ValueError, vc.Error), match=r"work|grid"):
            run()


def test_the_name_of_a_buffer_changes_the_grid(device: vc.Device) -> None:
    """Only the declared work does; by default it is the size of the first out."""
    text = "block 1\nin nodes: u32\nin big: u32\nout count: u32[u32:3]\nstore count[global_id.x], grid_dim.x\n"
    expect(device, text, [np.zeros(9, np.uint32), np.zeros(500, np.uint32)], u32s(3, 3, 3))


def test_what_is_not_defined_is_a_u32() -> None:
    refused("let v = w\n", "w is not defined")
    refused("inout h: u32\nstore h[u32:0], add(u32:1, other)\n", "other is not defined")


def test_the_index_of_a_load_is_not_checked() -> None:
    refused("in x: u32\nlet v = load(x[f32:1.0])\n", "index is f32")
    refused("in x: u32\nlet v = load(x[bool_:true])\n", "index is bool_")


def test_two_things_have_one_number_in_wire_bytes() -> None:
    assert len(BY_CODE) == len(OPS)
    assert len(ATOMICS_BY_CODE) == len(ATOMICS)
    assert len(WARP_OPS_BY_CODE) == len(WARP_OPS)
    assert len(TYPES_BY_CODE) == len(TYPES)


def test_a_float_sum_of_a_warp_is_in_another_order(device: vc.Device) -> None:
    """The butterfly: 16, 8, 4, 2, 1 apart."""
    text = (
        "block 32\nin x: f32\nout out: f32[size(x)]\n"
        f"{GLOBAL_ID}let s = warp reduce load(x[i]) combine add\nstore out[i], s\n"
    )
    x = np.random.default_rng(4).uniform(-1e6, 1e6, 32).astype(np.float32)
    total = x
    for step in (16, 8, 4, 2, 1):
        total = total + total[np.arange(32) ^ step]

    expect(device, text, [x], f32s(*total))
