"""What the types, options and statements beyond 32 bits become: the instructions that a reader would expect."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Cover, Lowered
from vyre_cuda.codegen.core.target import KNOWN_SM, Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.lowering import halves
from vyre_cuda.codegen.lowering.access_forms import MEMORY_WORD
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.ops import ATOMICS, WARP_OPS, WarpOp
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.assembler import assemble

SM_90 = Target.parse("sm_90")


def lowered(text: str, *, sm: int = 90, precision: str = "ieee", bounds: str = "check") -> Lowered:
    """The program of this text, lowered, verified and assembled."""
    result = lower(vc.parse(text), Target.parse(f"sm_{sm}"), precision=precision, bounds=bounds, debug=True)
    assemble(result.ptx, sm)
    return result


def value(type_: Type, expression: str, **options: object) -> list[str]:
    """The instructions of `expression` over x and y of a type, stored to an out of that type."""
    text = (
        f"program p\nblock 32\nin a: {type_}\nin b: {type_}\nout out: {type_}[size(a)]\n\nlet i = global_id.x\n"
        f"let x = load(a[i])\nlet y = load(b[i])\nstore out[i], {expression}\n"
    )
    return instructions(lowered(text, **options))  # type: ignore[arg-type]


def instructions(result: Lowered) -> list[str]:
    """The words of the kernel's instructions."""
    return re.findall(r"^  (?:@!?%p\d+ )?((?!ld\.param|mov\.u32|cvta)[a-z]\w*(?:\.[\w.]+)?) ", result.ptx, re.MULTILINE)


# ---- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(
    ("type_", "expression", "expected", "narrowed"),
    [
        (vc.u8, "add(x, y)", "add.u32", False),  # a store looks at the lower bits alone
        (vc.u8, "right_shift(add(x, y), u8:1)", "shr.u32", True),
        (vc.i8, "minimum(add(x, y), y)", "min.s32", True),
        (vc.i16, "cast.i16(sqrt(cast.f32(multiply(x, y))))", "mul.lo.s32", True),
        (vc.u16, "multiply(add(invert(x), y), left_shift(y, u16:3))", "mul.lo.u32", False),
        (vc.u16, "right_shift(x, y)", "shr.u32", False),
        (vc.u8, "bitwise_xor(x, y)", "xor.b32", False),
        (vc.i8, "minimum(x, y)", "min.s32", False),
        (vc.i16, "add(right_shift(x, i16:1), i16:-5)", "add.s32", False),
        (vc.u8, "add_saturate(x, y)", "min.u32", False),
    ],
)
def test_a_narrow_result_is_brought_back_only_where_it_is_seen_and_can_leave(
    type_: Type, expression: str, expected: str, narrowed: bool
) -> None:
    found = value(type_, expression)

    assert expected in found
    assert any(word in ("and.b32", "cvt.s32.s8", "cvt.s32.s16") for word in found) is narrowed


@pytest.mark.parametrize("type_", [vc.f16, vc.bf16])
def test_a_copied_half_keeps_its_bits(type_: Type) -> None:
    words = value(type_, "x")

    assert not [word for word in words if word.startswith(("cvt", "shl", "shr"))]


@pytest.mark.parametrize(
    ("type_", "sm", "expected"),
    [(vc.f16, 75, "fma.rn.f16"), (vc.bf16, 80, "fma.rn.bf16"), (vc.bf16, 75, "add.rz.f64")],
)
def test_a_fused_multiply_add_of_halves_rounds_once(type_: Type, sm: int, expected: str) -> None:
    assert expected in value(type_, "fma(x, y, x)", sm=sm)


def test_division_of_long_integers_by_a_literal_is_a_multiplication() -> None:
    assert "mul.hi.u64" in value(vc.u64, "floor_divide(x, u64:10)")
    assert "div.u64" in value(vc.u64, "floor_divide(x, y)")


@pytest.mark.thin(6)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_every_type_lives_in_memory_and_parameters(type_: Type, space: str) -> None:
    place, declaration = ("x", "") if space == "global" else ("s", f"shared s: {type_}[32]\n")
    result = lowered(
        f"program p\nblock 32\ninout x: {type_}\nscalar c: {type_}\n{declaration}\nlet i = global_id.x\n"
        f"let v = load({place}[i])\nstore {place}[add(i, u32:1)], v\nstore {place}[i], c\n"
    )

    assert (result.parameters[1].size, result.parameters[1].type) == (type_.itemsize, type_)
    stores = re.findall(rf"@%p\d+ st\.{space}\.{MEMORY_WORD[type_]} \[", result.ptx)
    assert len(stores) >= 2
    assert f"ld.{space}.{MEMORY_WORD[type_]} " in result.ptx


# ---- u64 index programs ---------------------------------------------------------------------------------------------


def test_an_u64_program_counts_and_addresses_in_64_bits() -> None:
    result = lowered(
        "program p\nblock 32\nindex u64\nin x: f32\nout out: f32[size(x)]\n\nlet i = global_id.x\n"
        "if less(i, size(x))\n  store out[i], load(x[subtract(i, u64:1)])\nend\n"
    )
    sizes = [p for p in result.parameters if p.kind == "size"]

    assert [(p.type, p.size) for p in sizes] == [(vc.u64, 8)]
    assert "mad.wide.u32" in result.ptx
    assert result.covered == {"out": Cover((1,), False)}
    assert result.access["x"].streaming


@pytest.mark.thin(4)
@pytest.mark.parametrize("program_index", ["u32", "u64"])
@pytest.mark.parametrize("type_", [t for t in TYPES if t.is_integer], ids=str)
def test_an_index_of_any_integer_type_is_checked(type_: Type, program_index: str) -> None:
    result = lowered(
        f"program p\nblock 32\nindex {program_index}\nin k: {type_}\nin x: f64\nout out: f64\n\n"
        f"store out[{program_index}:0], load(x[load(k[{program_index}:0])])\n"
    )

    assert re.search(r"@%p\d+ ld\.global\.f64", result.ptx)


# ---- atomics, warps, grid barriers ----------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize("sm", KNOWN_SM)
def test_atomics_of_every_type_assemble(sm: int) -> None:
    lines, buffers = [], {}
    for op in ATOMICS.values():
        for type_ in op.types:
            name = f"h_{type_}"
            buffers[name] = f"inout {name}: {type_}\n"
            operands = f", cast.{type_}(i)" * op.operands
            lines.append(f"atomic {op.name} {name}[i]{operands} order relaxed scope device")
    result = lowered(
        f"program p\nblock 32\n{''.join(buffers.values())}\nlet i = thread_id.x\n" + "\n".join(lines) + "\n", sm=sm
    )

    narrow = [(op.name, t) for op in ATOMICS.values() for t in op.types if t.bits < 32]
    loops = [(op, t) for op, t in narrow if op not in ("load", "store")]
    others = [(op.name, t) for op in ATOMICS.values() for t in op.types if (op.name, t) not in loops]
    one_each = [(op, t) for op, t in others if op not in ("compare_exchange", "exchange", "load")]
    assert len(re.findall(r"(?:red|st)\.relaxed", result.ptx)) == len(one_each) - 4  # minimum, maximum of f32 and f64
    assert len(re.findall(r"atom\.relaxed\.gpu\.global\.cas\.b(?:32|64)", result.ptx)) == 8
    assert len(re.findall(r"atom\.relaxed\.gpu\.global\.cas\.b16", result.ptx)) == len(loops)


@pytest.mark.thin
@pytest.mark.parametrize("sm", KNOWN_SM)
@pytest.mark.parametrize("op", WARP_OPS.values(), ids=lambda op: op.name)
def test_warp_operations_of_every_type_assemble(op: WarpOp, sm: int) -> None:
    lines, buffers = [], []
    for type_ in op.types:
        buffers.append(
            f"in x_{type_}: {type_}\nout o_{type_}: " + {"bool": "bool_", "u32": "u32"}.get(op.result, str(type_))
        )
        combines = [c for c in op.combines if not (type_.is_float and c.startswith("bitwise"))] or [""]
        for number, combine in enumerate(combines):
            lane = ", u32:3" if op.lane else ""
            name = f"w_{type_}_{number}"
            lines.append(
                f"let {name} = warp {op.name} load(x_{type_}[i]){lane}{f' combine {combine}' if combine else ''}\n"
                f"store o_{type_}[add(i, u32:{number})], {name}"
            )
    body = "\n".join(buffers) + "\n\nlet i = thread_id.x\n" + "\n".join(lines) + "\n"

    assert ".sync" in lowered(f"program p\nblock 40\n{body}", sm=sm).ptx


@pytest.mark.parametrize(
    ("block", "mask"), [("64", "4294967295"), ("20", "1048575"), ("8 2", "65535")], ids=["full", "partial", "rows"]
)
def test_the_lanes_that_exist_take_part(block: str, mask: str) -> None:
    result = lowered(
        f"program p\nblock {block}\nwork u32:64{', u32:2' * block.count(' ')}\nout out: u32\n\n"
        "let v = warp ballot less(lane_id, u32:7)\nstore out[thread_id.x], v\n"
    )

    assert re.search(rf"vote\.sync\.ballot\.b32 %r\d+, %p\d+, {mask};", result.ptx)


def test_a_grid_barrier_makes_the_launch_cooperative() -> None:
    header = "program p\nblock 32\ninout x: u32\n\nlet v = load(x[global_id.x])\n"
    plain = lowered(header + "store x[u32:0], v\n")
    result = lowered(header + "grid_barrier\nstore x[u32:0], v\n")

    assert (plain.cooperative, result.cooperative) == (False, True)
    assert [(p.kind, p.size) for p in result.parameters if p.kind not in ("buffer", "size")] == [("grid_barrier", 8)]
    assert "atom.acq_rel.gpu.global.add.u32" in result.ptx
    assert "ld.acquire.gpu.global.u32" in result.ptx


# ---- bounds="trap" --------------------------------------------------------------------------------------------------

TRAPPED = (
    "program p\nblock 32\nin x: f32\nin k: i8\nout out: f32[size(x)]\n\nlet i = global_id.x\n"
    'if less(i, size(x))\n  let t = load(x[load(k[i])])\n  assert less(t, f32:1.0), "large"\n  store out[i], t\nend\n'
)


def test_a_trap_reports_each_access_that_may_fail() -> None:
    result = lowered(TRAPPED, bounds="trap")

    assert [(s.kind, s.buffer, s.statement) for s in result.sites] == [
        ("bounds", "k", 2),
        ("bounds", "x", 2),
        ("assert", "", 3),
    ]
    assert not re.search(r"@%p\d+ (ld|st)\.global\.(f32|s8)", result.ptx)
    assert result.ptx.count("atom.acquire.sys.global.cas.b32") == 3
    assert result.parameters[-1].kind == "report"


def test_without_traps_only_assertions_report() -> None:
    result = lowered(TRAPPED)

    assert [(s.kind, s.message) for s in result.sites] == [("assert", "large")]
    assert result.sites == result.asserts
    assert result.ptx.count("red.relaxed.sys.global.min.u64") == 1


# ---- precision ------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("ieee", ["mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32"]),
        ("ftz", ["mul.rn.ftz.f32", "add.rn.ftz.f32", "div.rn.ftz.f32", "sqrt.rn.ftz.f32"]),
        ("fast", ["mul.ftz.f32", "add.ftz.f32", "div.full.ftz.f32", "sqrt.approx.ftz.f32"]),
    ],
)
def test_a_precision_chooses_the_instructions_of_f32(precision: str, expected: list[str]) -> None:
    found = value(vc.f32, "sqrt(divide(add(multiply(x, y), x), y))", precision=precision)

    assert [word for word in found if word in expected] == expected


@pytest.mark.thin
def test_every_literal_of_f16_is_the_f32_that_numpy_makes_of_it() -> None:
    b, bits = Builder(SM_90), np.arange(1 << 16, dtype=np.uint16)
    numbers = bits.view(np.float16)
    exact = numbers.astype(np.float32).view(np.uint32)
    is_nan = np.isnan(numbers)

    found = np.array([b.function.attrs[halves.constant(b, vc.f16, pattern)] for pattern in bits.tolist()], np.uint32)

    np.testing.assert_array_equal(found[~is_nan], exact[~is_nan])
    # A NaN keeps sign and payload, and is not made quiet.
    moved = (bits & 0x8000).astype(np.uint32) << 16 | 0x7F800000 | (bits & 0x3FF).astype(np.uint32) << 13
    np.testing.assert_array_equal(found[is_nan], moved[is_nan])


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.f16, vc.bf16])
def test_halves_are_the_same_in_every_precision(type_: Type) -> None:
    exact, fast = (value(type_, "divide(add(x, y), fmod(x, y))", precision=word) for word in ("ieee", "fast"))

    assert fast == exact
