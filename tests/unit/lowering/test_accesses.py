"""Accesses as lowered: which guards they keep, shared memory, and what a kernel says about its buffers."""

from __future__ import annotations

import re
from functools import reduce

import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Cover
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import UnsupportedError

from .lowered_texts import SM_90, accesses, kernel, lowered

# ---- guards ---------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(
    ("index", "proven"),
    [
        ("i", True),
        ("subtract(i, u32:1)", False),
        ("add(i, u32:1)", False),
        ("bitwise_and(i, u32:255)", True),
        ("right_shift(i, u32:3)", True),
        ("minimum(i, u32:100)", True),
        ("minimum(u32:100, u32:200)", False),
        ("maximum(i, u32:1)", False),
        ("where(less(i, u32:7), i, right_shift(i, u32:1))", True),
        ("multiply(i, u32:2)", False),
        ("cast.i32(i)", False),
        ("u32:0", True),  # some index is below the size, so 0 is
        ("u32:1", False),
    ],
)
def test_a_load_below_a_bound_is_guarded_unless_its_index_is_proven(index: str, proven: bool) -> None:
    result = kernel(f"if less(i, size(x))\n  store out[i], load(x[{index}])\nend")

    assert accesses(result) == ["ld.global.f32" if proven else "@ld.global.f32", "st.global.f32"]


def test_bounds_of_both_sides_prove_a_neighbor() -> None:
    result = kernel(
        "if logical_and(greater(i, u32:0), less(i, size(x)))\n  store out[i], load(x[subtract(i, u32:1)])\nend"
    )

    assert accesses(result) == ["ld.global.f32", "st.global.f32"]
    assert re.search(r"ld\.global\.f32 %f\d+, \[%rd\d+\+-4\]", result.ptx)


@pytest.mark.parametrize("count", [16, 17, 32])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_condition_of_many_bounds_proves_each(is_first: bool, count: int) -> None:
    bounds = [*(f"less(i, s{k})" for k in range(1, count)), "less(i, size(x))"]
    condition = reduce(lambda one, other: f"logical_and({one}, {other})", reversed(bounds) if is_first else bounds)
    scalars = "\n".join(f"scalar s{k}: u32" for k in range(1, count))
    result = kernel(f"if {condition}\n  store out[i], load(x[i])\nend", header=scalars)

    assert accesses(result) == ["ld.global.f32", "st.global.f32"]


def test_leaving_early_bounds_what_follows() -> None:
    result = kernel("if greater_equal(i, size(x))\n  return\nend\nstore out[i], load(x[i])")

    assert accesses(result) == ["ld.global.f32", "st.global.f32"]


def test_a_bound_of_one_branch_does_not_hold_in_the_other() -> None:
    result = kernel("if less(i, size(x))\n  store out[i], f32:1.0\nelse\n  store h[i], bitcast.u32(load(x[i]))\nend")

    assert accesses(result) == ["st.global.f32", "@st.global.u32"]  # out of bounds the load is 0, known here


def test_another_buffer_keeps_its_guard() -> None:
    result = kernel("if less(i, size(x))\n  store out[i], load(y[i])\nend")

    assert accesses(result) == ["@ld.global.f32", "st.global.f32"]


def test_an_index_of_an_unsigned_and_an_int_is_checked_from_below() -> None:
    result = lowered(
        "program p\nblock 32\nin x: bool_\nin k: i32\nout out: bool_\n\nstore out[u32:0], load(x[load(k[u32:0])])\n"
    )

    assert "min.u32" in result.ptx  # bytes: a size can be above 2^31, a negative index must not reach there


def test_loop_counters_are_below_their_bound() -> None:
    result = kernel(
        "var a = f32:0.0\nfor j = u32:0 to size(x) step u32:3\n  let t = a\n  a = add(t, load(x[j]))\nend\n"
        "store out[i], a"
    )

    assert "ld.global.f32" in accesses(result)


def test_a_literal_out_of_bounds_of_a_shared_array_is_no_access() -> None:
    result = kernel(
        "store tile[u32:64], f32:1.0\nstore out[i], load(tile[i32:-1])", header="shared tile: f32[64]", block="64"
    )

    assert accesses(result) == ["@st.global.f32"]


def test_threads_within_the_array_need_no_guard() -> None:
    result = kernel(
        "store tile[thread_id.x], f32:1.0\nbarrier\nstore out[i], load(tile[subtract(u32:63, thread_id.x)])",
        header="shared tile: f32[64]",
        block="64",
    )

    assert accesses(result) == ["st.shared.f32", "ld.shared.f32", "@st.global.f32"]


def test_bounds_off_drops_every_guard() -> None:
    program = vc.parse(
        "program p\nblock 32\nin x: f32\nin k: i32\nout out: f32\n\nstore out[u32:9], load(x[load(k[i32:2])])\n"
    )
    result = lower(program, SM_90, bounds="off")

    assert accesses(result) == ["ld.global.s32", "ld.global.f32", "st.global.f32"]
    assert [p.kind for p in result.parameters] == ["buffer"] * 3
    large = lower(program, SM_90, bounds="off", large=True)
    assert [(p.kind, p.name) for p in large.parameters][3:] == [("size", "out")]
    assert accesses(large) == accesses(result)


# ---- shared memory --------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(
    ("body", "zeroed"),
    [
        ("store tile[thread_id.x], f32:1.0\nbarrier\nstore out[i], load(tile[u32:5])", False),
        ("store tile[thread_id.x], f32:1.0", False),
        ("store out[i], load(tile[thread_id.x])", True),
        (
            "if less(i, size(x))\n  store tile[thread_id.x], f32:1.0\nend\nbarrier\nstore out[i], load(tile[u32:5])",
            True,
        ),
        ("store tile[bitwise_xor(thread_id.x, u32:1)], f32:1.0\nbarrier\nstore out[i], load(tile[u32:5])", True),
        ("atomic add tile[thread_id.x], f32:1.0 order relaxed scope block", True),
    ],
)
def test_a_shared_array_is_zeroed_unless_it_is_written_first(body: str, zeroed: bool) -> None:
    result = kernel(body, header="shared tile: f32[256]")

    assert ("st.shared.u32" in accesses(result)) is zeroed
    assert result.shared_bytes == 1024


@pytest.mark.thin
@pytest.mark.parametrize(("size", "stores"), [(10, 1), (256, 1), (300, 2), (1023, 4), (2049, 1)])
def test_zeroing_is_unrolled_for_small_arrays(size: int, stores: int) -> None:
    result = kernel("store out[i], load(tile[i])", header=f"shared tile: f32[{size}]")

    assert sum("st.shared.u32" in access for access in accesses(result)) == stores


@pytest.mark.thin
@pytest.mark.parametrize(("size", "stores"), [(1024, 1), (2048, 2), (2052, 3), (8192, 8), (8196, 1)])
def test_large_arrays_are_zeroed_by_vectors(size: int, stores: int) -> None:
    result = kernel("store out[i], load(tile[i])", header=f"shared tile: f32[{size}]")

    assert sum("st.shared.v4.u32" in access for access in accesses(result)) == stores
    assert not any("st.shared.u32" in access for access in accesses(result))


def test_arrays_above_the_static_limit_are_dynamic() -> None:
    body = "store out[i], add(load(a[i]), cast.f32(load(b[i])))"
    small = kernel(body, header="shared a: f32[8192]\nshared b: bool_[16384]")
    large = kernel(body, header="shared a: f32[8192]\nshared b: bool_[16385]")

    assert (small.shared_bytes, small.dynamic_shared_bytes) == (49152, 0)
    assert (large.shared_bytes, large.dynamic_shared_bytes) == (49168, 49168)


def test_more_shared_memory_than_the_target_has_is_unsupported() -> None:
    program = vc.parse("program p\nblock 32\nout out: f32\nshared a: f32[16385]\n\nstore out[u32:0], load(a[u32:0])\n")

    lower(program, SM_90)
    with pytest.raises(UnsupportedError) as caught:
        lower(program, Target.parse("sm_75"))
    assert caught.value.capability == "shared_memory"


# ---- access facts and coverage --------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(
    ("body", "streaming"),
    [
        ("store out[i], load(x[i])", True),
        ("store out[i], load(x[add(i, u32:1)])", True),
        ("store out[i], add(load(x[i]), load(x[add(i, u32:1)]))", False),
        ("store out[i], load(x[multiply(i, u32:2)])", False),
        ("store out[i], load(x[thread_id.x])", False),
        ("for j = u32:0 to u32:2 step u32:1\n  store out[i], load(x[add(i, j)])\nend", False),
        ("for j = u32:0 to u32:2 step u32:1\n  store out[add(i, j)], load(x[i])\nend", True),
        ("store out[i], f32:0.0", False),
    ],
)
def test_a_buffer_streams_when_each_element_is_touched_once(body: str, streaming: bool) -> None:
    assert kernel(body).access["x"].streaming is streaming


@pytest.mark.thin
@pytest.mark.parametrize(
    ("body", "sectors"),
    [
        ("store out[i], load(x[i])", 4),
        ("store out[i], add(load(x[i]), load(x[add(i, u32:1)]))", 8),
        ("store out[i], load(x[multiply(i, u32:2)])", 32),
        ("store out[i], load(x[u32:5])", 1),
        ("store out[i], add(load(x[u32:5]), load(x[multiply(i, i)]))", 33),
        ("for j = u32:0 to u32:2 step u32:1\n  store out[i], load(x[add(i, j)])\nend", 0),
        ("for j = u32:0 to u32:2 step u32:1\n  store out[add(i, j)], load(x[i])\nend", 4),
        ("store out[i], f32:0.0", 0),
    ],
)
def test_sectors_of_32_threads_are_counted_where_they_can_be(body: str, sectors: int) -> None:
    assert kernel(body).access["x"].sectors == sectors


def test_sectors_of_what_is_loaded_and_stored_or_atomic_are_not_counted() -> None:
    assert kernel("store out[i], load(out[multiply(i, u32:2)])").access["out"].sectors == 0
    assert kernel("atomic add h[i], u32:1 order relaxed scope device").access["h"].sectors == 0


def test_access_facts_say_what_is_done() -> None:
    result = kernel("atomic add h[i], u32:1 order relaxed scope device\nstore out[i], load(x[i])")
    facts = {name: (a.loads, a.stores, a.atomics) for name, a in result.access.items()}

    assert facts == {
        "x": (True, False, False),
        "y": (False, False, False),
        "out": (False, True, False),
        "h": (False, False, True),
    }


EITHER = "if less(load(y[i]), f32:0.0)\n store out[i], f32:1.0\nelse\n store out[i], f32:2.0\nend"


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("body", "covered"),
    [
        ("store out[i], f32:1.0", True),
        ("if less(i, size(out))\n  store out[i], f32:1.0\nend", True),
        ("if greater(size(x), i)\n  store out[i], f32:1.0\nend", True),
        ("if greater_equal(i, size(out))\n  return\nend\nstore out[i], f32:1.0", True),
        (f"if less(i, size(x))\n{EITHER}\nend", True),
        ("if less(i, size(y))\n  store out[i], f32:1.0\nend", False),
        ("if less(i, size(out))\nelse\n  store out[i], f32:1.0\nend", False),
        ("if less(load(y[i]), f32:0.0)\n  store out[i], f32:1.0\nend", False),
        ("if less(load(y[i]), f32:0.0)\n  return\nend\nstore out[i], f32:1.0", False),
        ("for j = u32:0 to size(y) step u32:1\n  store out[i], f32:1.0\nend", False),
        ("for j = u32:0 to size(y) step u32:1\n  if less(j, i)\n    return\n  end\nend\nstore out[i], f32:1.0", False),
        ('assert less(i, u32:9), "m"\nstore out[i], f32:1.0', False),
        ("let t = load(out[i])\nstore out[i], t", False),
        ("store out[thread_id.x], f32:1.0", False),
        ("store out[add(i, u32:1)], f32:1.0", False),
    ],
)
def test_an_out_is_covered_when_every_thread_surely_stores(body: str, covered: bool) -> None:
    assert kernel(body).covered == ({"out": Cover((1,), False)} if covered else {})
