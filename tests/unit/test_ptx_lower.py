"""Lowering: what the kernel takes, which guards it keeps, what it says about its buffers, and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Cover, Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.source import ptx
from vyre_cuda.errors import ProgramError, UnsupportedError
from vyre_cuda.testing.assembler import assemble

SM_90 = Target.parse("sm_90")


def lowered(text: str, *, debug: bool = True, target: Target = SM_90) -> Lowered:
    """The program of this text, lowered, verified and assembled."""
    result = lower(vc.parse(text), target, debug=debug)
    assemble(result.ptx, target.sm)
    return result


def kernel(body: str, *, header: str = "", block: str = "256") -> Lowered:
    """A kernel over x and out of one size and an unrelated y; i is global_id.x."""
    return lowered(
        f"program k\nblock {block}\nin x: f32\nin y: f32\nout out: f32[size(x)]\ninout h: u32\n{header}\n"
        f"let i = global_id.x\n{body}\n"
    )


def accesses(result: Lowered) -> list[str]:
    """Loads, stores and atomics of the kernel, without registers: "@ld.global.f32" is guarded."""
    found = re.findall(r"^  (@%p\d+ )?((?:ld|st|atom|red)\.(?!param)[\w.]+)", result.ptx, re.MULTILINE)
    return [("@" if guard else "") + name for guard, name in found]


# ---- parameters -----------------------------------------------------------------------------------------------------


def test_parameters_are_declared_ones_then_used_sizes_then_the_report() -> None:
    result = lowered(
        "program p\nblock 32\nin x: f32\nscalar c: bool_\nscalar n: i32\nin y: u32\nout out: f32\n\n"
        'let i = global_id.x\nassert c, "c"\nstore out[i], cast.f32(load(y[n]))\n'
    )
    expected = [
        ("buffer", "x", vc.f32, 0, 8),
        ("scalar", "c", vc.bool_, 8, 1),
        ("scalar", "n", vc.i32, 12, 4),
        ("buffer", "y", vc.u32, 16, 8),
        ("buffer", "out", vc.f32, 24, 8),
        ("size", "y", vc.u32, 32, 4),
        ("size", "out", vc.u32, 36, 4),
        ("report", "report", None, 40, 8),
    ]

    assert [(p.kind, p.name, p.type, p.offset, p.size) for p in result.parameters] == expected
    assert result.parameter_bytes == 48


def test_the_size_of_an_out_is_the_size_it_is_declared_by() -> None:
    result = kernel("store out[i], f32:1.0")

    assert [p.name for p in result.parameters if p.kind == "size"] == ["x"]


def test_a_constant_size_is_no_parameter() -> None:
    result = lowered("program p\nblock 32\nout out: f32[u32:64]\n\nstore out[global_id.x], f32:1.0\n")

    assert [p.kind for p in result.parameters] == ["buffer"]
    assert accesses(result) == ["@st.global.f32"]


def test_names_of_the_user_are_never_ptx_names() -> None:
    result = lowered(
        "program add\nblock 32\nin r0: f32\nin reg: f32\nout ret: f32[size(reg)]\nshared tid: f32[32]\n\n"
        "let p0 = global_id.x\nvar ld = load(r0[p0])\nstore tid[thread_id.x], ld\nbarrier\n"
        "store ret[p0], load(tid[thread_id.x])\n"
    )

    assert result.entry == "k_add"


def test_the_block_is_required() -> None:
    result = lowered(
        "program p\nblock 8 4 2\nwork size(out), u32:1, u32:1\nout out: f32\n\nstore out[global_id.y], f32:0.0\n"
    )

    assert ".reqntid 8, 4, 2\n" in result.ptx


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


# ---- lets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        "if less(load(h[i]), u32:5)\n  store h[add(a, load(h[i]))], a\nelse\n  store h[add(a, u32:1)], a\nend",
        "for j = u32:0 to load(h[i]) step u32:1\n  store h[add(a, j)], j\nend",
        "while\n  let j = load(h[i])\ntest less(j, u32:9)\n  store h[add(a, j)], j\nend",
    ],
)
def test_a_let_that_is_a_sum_is_computed_before_the_branch_or_loop_that_reads_it(block: str) -> None:
    lines = kernel(f"let a = multiply(i, u32:6)\n{block}").ptx.splitlines()
    products = [number for number, line in enumerate(lines) if "mul.lo.u32" in line and ", 6;" in line]
    leaves = [number for number, line in enumerate(lines) if "bra" in line or line.startswith("$L")]

    assert len(products) == 1
    assert products[0] < leaves[0]


def instructions(body: str) -> list[str]:
    """The lines of a kernel without those that name statements."""
    program = vc.parse(f"program k\nblock 32\ninout h: u32\n\nlet i = global_id.x\n{body}\n")
    return [line for line in lower(program, SM_90).ptx.splitlines() if not line.startswith("  // s")]


def test_sums_of_sums_need_no_value_of_their_own() -> None:
    text = "let a = add(i, u32:3)\nlet b = add(a, i)\nlet c = add(b, u32:4)\nstore h[c], u32:1"

    assert instructions(text) == instructions("store h[add(multiply(i, u32:2), u32:7)], u32:1")


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


# ---- statements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "pragma"),
    [
        ("u32:0 to u32:32 step u32:1", False),
        ("u32:0 to u32:33 step u32:1", True),
        ("u32:99 to u32:0 step u32:1", False),
    ],
)
def test_long_loops_are_not_unrolled(bounds: str, pragma: bool) -> None:
    result = kernel(f"for j = {bounds}\n  atomic add h[j], u32:1 order relaxed scope device\nend")

    assert ('.pragma "nounroll"' in result.ptx) is pragma


def test_a_loop_that_never_runs_has_no_code() -> None:
    assert accesses(kernel("for j = i32:3 to i32:3 step i32:1\n  store out[j], f32:1.0\nend")) == []


def test_an_unused_atomic_result_is_a_reduction() -> None:
    result = kernel(
        "atomic add h[i], u32:1 order release scope block\n"
        "atomic add h[i], u32:1 order acquire scope system\n"
        "let old = atomic add h[i], u32:1 order relaxed scope device\n"
        "let was = atomic compare_exchange h[i], u32:1, old order acq_rel scope device\nstore h[u32:1], was"
    )
    words = [access.lstrip("@").split(".global")[0] for access in accesses(result)]

    assert words == ["red.release.cta", "atom.acquire.sys", "atom.relaxed.gpu", "atom.acq_rel.gpu", "st"]


def test_assertion_sites_keep_their_numbers_behind_dead_code() -> None:
    result = kernel(
        'if bool_:false\n  assert bool_:false, "never"\nend\nassert less(i, u32:10), "first"\n'
        'while\ntest less(i, u32:3)\n  break\nend\nassert less(i, u32:5), "second"\n'
    )

    assert [(site.message, site.statement) for site in result.asserts] == [("never", 2), ("first", 3), ("second", 6)]
    assert re.findall(r"add\.u64 %rd\d+, %rd\d+, ([12]);", result.ptx) == ["1", "2"]


def test_values_nobody_uses_have_no_code() -> None:
    result = kernel("let a = load(x[i])\nlet b = divide(a, a)\nvar c = b\nc = add(c, b)\nstore out[i], f32:1.0")

    assert accesses(result) == ["@st.global.f32"]
    assert "div.rn" not in result.ptx


def test_debug_only_adds_comments() -> None:
    text = "program p\nblock 32\nin x: f32\nout out: f32[size(x)]\n\nstore out[global_id.x], load(x[thread_id.x])\n"
    plain, debug = (lowered(text, debug=debug).ptx for debug in (False, True))
    bare_plain, bare = ([re.sub(r" *//.*", "", line) for line in text.splitlines()] for text in (plain, debug))

    assert [line for line in bare if line.strip()] == [line for line in bare_plain if line.strip()]
    assert debug != plain


# ---- options --------------------------------------------------------------------------------------------------------

MINIMAL = "program p\nblock 32\nout out: f32\n\nstore out[u32:0], f32:1.0\n"


@pytest.mark.parametrize("options", [{"precision": "exact"}, {"bounds": ""}, {"target": "90"}])
def test_unknown_words_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        ptx(vc.parse(MINIMAL), **options)


def test_ptx_text_validates_first() -> None:
    program = vc.parse(MINIMAL)
    broken = vc.Program(program.name, program.parameters, program.body, block=(0, 1, 1))

    assert ptx(program, "sm_80") == lower(program, Target.parse("sm_80")).ptx
    with pytest.raises(ProgramError):
        ptx(broken)


@pytest.mark.parametrize("entries", [4, 40_000], ids=["const", "global"])
def test_accesses_to_tables_and_local_arrays_are_verified(entries: int) -> None:
    b = vc.Builder("own", block=32)
    at = b.input("at", vc.u32)
    out = b.output("out", vc.f32, size=at.size)
    taps = b.table("taps", np.ones(entries, np.float32))
    held = b.local("held", vc.f32, 7)
    i = vc.global_id.x
    held[at[i]] = taps[at[i]]
    out[i] = held[i]

    found = lower(b.build(), Target.parse("sm_90"), debug=True).ptx

    assert "st.local.f32" in found
    assert ("ld.const.f32" in found) == (entries == 4)


@pytest.mark.parametrize("type_", ["u8", "i16"])
def test_a_let_of_a_narrow_integer_is_brought_into_range_only_where_somebody_looks(type_: str) -> None:
    chain = (
        "let a = multiply(load(y[i]), bitwise_xor(load(x[i]), load(y[i])))\n"
        "let b = multiply(a, bitwise_xor(load(x[i]), a))\n"
    )
    header = (
        f"program k\nin x: {type_}\nin y: {type_}\nout o: {type_}[size(x)]\nout z: u32[size(x)]\nlet i = global_id.x\n"
    )

    stored = lowered(f"{header}{chain}store o[i], b\n").ptx
    looked_at = lowered(f"{header}{chain}store o[i], b\nstore z[i], cast.u32(b)\nstore z[i], cast.u32(b)\n").ptx

    narrowing = {"u8": "and.b32", "i16": "cvt.s32.s16"}[type_]
    assert stored.count(narrowing) == 0
    assert looked_at.count(narrowing) == 1


def test_a_let_of_a_narrow_integer_that_both_sides_of_a_branch_look_at_is_brought_into_range_once() -> None:
    ptx = lowered(
        "program k\nin x: u8\nout z: u32[size(x)]\nlet i = global_id.x\nlet a = multiply(load(x[i]), load(x[i]))\n"
        "if less(i, u32:7)\n  store z[i], cast.u32(a)\nelse\n  store z[i], add(cast.u32(a), u32:9)\nend\n"
    ).ptx

    assert ptx.count("and.b32") == 1


def test_a_rounding_to_bf16_is_computed_once_and_its_bits_where_they_are_needed() -> None:
    ptx = lowered(
        "program k\nin x: bf16\nout o: bf16[size(x)]\nout u: u16[size(x)]\nout v: bf16[size(x)]\nlet i = global_id.x\n"
        "let a = add(load(x[i]), load(x[i]))\nlet b = cast.bf16(add(cast.f32(load(x[i])), cast.f32(load(x[i]))))\n"
        "if less(i, u32:7)\n  store u[i], bitcast.u16(a)\nend\n"
        "store u[i], bitcast.u16(b)\nstore o[i], bitcast.bf16(bitcast.u16(a))\nstore v[i], fma(a, b, a)\n"
    ).ptx

    assert ptx.count("cvt.rn.bf16.f32") == 1
    in_the_branch = behind_it = 1
    assert ptx.count("cvt.u32.u16") == in_the_branch + behind_it + ptx.count("fma.rn.bf16")
