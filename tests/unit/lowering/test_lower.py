"""Lowering: what the kernel takes, how statements become code, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.source import ptx
from vyre_cuda.errors import ProgramError

from .lowered_texts import SM_90, accesses, kernel, lowered

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


@pytest.mark.parametrize("type_", ["i8", "i16"])
def test_a_cast_to_signed_numbers_under_bitwise_ops_is_brought_into_range_once(type_: str) -> None:
    ptx = lowered(
        f"program k\nin x: i32\nin y: {type_}\nout z: i32[size(x)]\nlet i = global_id.x\n"
        f"let c = cast.{type_}(load(x[i]))\nlet a = load(y[i])\n"
        "store z[i], cast.i32(bitwise_xor(bitwise_xor(c, a), load(y[add(i, u32:1)])))\n"
        f"store z[add(i, u32:1)], cast.i32(bitwise_or(c, {type_}:3))\nstore z[add(i, u32:2)], cast.i32(c)\n"
    ).ptx

    assert ptx.count(f"cvt.s32.s{type_[1:]}") == 1


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
