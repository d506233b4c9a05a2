"""Defects of NVIDIA's compiler that the lowering works around; what a run finds of them is counted apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SEEN = "CUDA 13.0 (driver 580.159.04), sm_90"
_NOT_WRITTEN = "never writes it"
_WIDE_COUNT = 64


def _is_wide_shift(found: dict[str, Any]) -> bool:
    counts = re.findall(r"shl\.b64 %\w+, [%\w]+, (\d+|%\w+);", found["ptx"])
    return any(count.startswith("%") or int(count) >= _WIDE_COUNT for count in counts)


def _is_loop(found: dict[str, Any]) -> bool:
    """A loop that compares its counter, and whose way is long or wraps: not one that counts its trips."""
    return found["group"] == "loops" and found["way"] not in ("count", "distance", "shift")


def _has(*patterns: str) -> Callable[[dict[str, Any]], bool]:
    """Whether the text has one of these."""
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda found: any(each.search(found["ptx"]) is not None for each in compiled)


_F32 = r"0f[0-9A-F]{8}"
_ZERO_OR_LESS = r"0f(00000000|[89A-F][0-9A-F]{7})"
_SUBNORMAL = r"0f[08]0[0-7][0-9A-F]{5}"
_SUM = r"(add|sub)(\.rn)?(\.ftz)?\.f32"


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect: the least PTX that shows it, where it was seen, and what the lowering does."""

    name: str
    ptx: str
    effect: str
    seen: str
    lowering: str
    matches: Callable[[dict[str, Any]], bool]


DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="64-bit left shift by its width",
        ptx="mul.lo.u64 %rd1, %rd0, 3; shl.b64 %rd2, %rd1, 64;",
        effect="the product, or the choice of constants, comes back unshifted: the count is taken modulo 64",
        seen=_SEEN,
        lowering="a constant count of the width or more gives 0, or the sign, without a shift",
        matches=_is_wide_shift,
    ),
    Defect(
        name="saturating sum of a sum",
        ptx="add.s32 %r1, %r0, 1; add.sat.s32 %r2, %r1, 2147483647;",
        effect="the constants are added up first, and nothing saturates",
        seen="CUDA 13.0, sm_75 and sm_90",
        lowering=_NOT_WRITTEN,
        matches=_has(r"(add|sub)\.sat\.s32"),
    ),
    Defect(
        name="loop between constants",
        ptx="mov.u32 %r1, 1; L: add.u32 %r1, %r1, 2147483647; setp.lt.u32 %p2, %r1, 4294967295; @%p2 bra L;",
        effect="another number of trips where the way is longer than half of the type, or the counter wraps",
        seen=_SEEN,
        lowering="counts the trips, or asks for the distance, or forbids unrolling",
        matches=_is_loop,
    ),
    Defect(
        name="choice of float constants",
        ptx="selp.f32 %f0, 0f80000000, 0fBF800000, %p0;",
        effect="a converted integer, which has no -0.0; also of 0 and the least subnormal; guarded moves likewise",
        seen=_SEEN,
        lowering="a choice of float constants is one of their bits",
        matches=_has(r"selp\.f(32|64) %\w+, 0[fd]", r"@%p mov\.f(32|64)", r"bra .*mov\.f(32|64)"),
    ),
    Defect(
        name="absolute value of the least integer",
        ptx="abs.s32 %r1, %r0; cvt.rn.f32.u32 %f0, %r1;",
        effect="taken for a number without a sign, so the least integer becomes a negative float",
        seen=_SEEN,
        lowering="max(x, -x)",
        matches=_has(r"abs\.s(32|64)"),
    ),
    Defect(
        name="absolute value and NaN",
        ptx="abs.f32 %f1, %f0; setp.le.f32 %p0, 0f00000000, %f1;",
        effect="true for NaN; with .ftz a negative subnormal constant counts as less than zero",
        seen=_SEEN,
        lowering="asks whether the value is NaN",
        matches=_has(
            rf"abs(\.ftz)?\.f32.*setp\.\w+(\.ftz)?\.f32 [%|\w]+, ({_ZERO_OR_LESS}, %|%\w+, {_ZERO_OR_LESS})",
            r"abs(\.ftz)?\.f32.*setp\.",
        ),
    ),
    Defect(
        name="comparison with a subnormal constant that is flushed",
        ptx="setp.neu.ftz.f32 %p0, %f0, 0f807FFFFF;",
        effect="the constant is not flushed where the other side is a choice of constants",
        seen=_SEEN,
        lowering="writes a zero",
        matches=_has(rf"setp\.\w+\.ftz\.f32 [^;]*{_SUBNORMAL}", rf"{_SUBNORMAL}.*setp\.\w+\.ftz\.f32"),
    ),
    Defect(
        name="sum of constants that is halfway between two floats",
        ptx="add.rn.f32 %f0, 0fCB7FFFFF, 0f477FFF80;",
        effect="rounded the wrong way",
        seen=_SEEN,
        lowering="fma(x, 1, y)",
        matches=_has(rf"{_SUM} %\w+, {_F32}, {_F32}", rf"{_F32}.*{_SUM}"),
    ),
    Defect(
        name="product of infinity and a flushed constant",
        ptx="mul.ftz.f32 %f0, 0f807FFFFF, 0f7F800000;",
        effect="infinity instead of NaN; mul.rn.ftz.f32 is right",
        seen=_SEEN,
        lowering="mul.rn.ftz.f32",
        matches=_has(r"mul\.ftz(\.sat)?\.f32"),
    ),
    Defect(
        name="maximum with -0.0 below a minimum with 1.0",
        ptx="max.f32 %f1, %f0, 0f80000000; min.f32 %f2, %f1, 0f3F800000;",
        effect="a saturation, which gives +0.0",
        seen=_SEEN,
        lowering="compares and chooses",
        matches=_has(r"max(\.ftz)?\.f32 [^;]*0f80000000.*min(\.ftz)?\.f32", r"min(\.ftz)?\.f32.*max(\.ftz)?\.f32 "),
    ),
    Defect(
        name="conversion of a 64-bit constant to f32",
        ptx="mov.u64 %rd0, 4294967297; cvt.rn.f32.u64 %f0, %rd0;",
        effect="twice the value",
        seen=_SEEN,
        lowering="converts constants itself, and keeps loops rolled in which one could appear",
        matches=_has(r"cvt\.(rn|rz)(\.sat)?\.f32\.[su]64"),
    ),
    Defect(
        name="maximum of three with a negation",
        ptx="neg.s32 %r3, %r1; max.s32 %r4, %r0, %r3; max.s32 %r5, %r4, %r2;",
        effect="the negation is lost",
        seen=_SEEN,
        lowering="writes -x as ~x + 1 there",
        matches=_has(r"(neg\.s32|sub\.[su]32 %\w+, 0,|mul\.lo.*-1;).*(max|min)\.s32.*(max|min)\.s32"),
    ),
    Defect(
        name="choice of 0 and 1 as bits of a float",
        ptx="selp.b16 %h0, 1, 0, %p0; cvt.f32.f16 %f0, %h0; rcp.rn.f32 %f1, %f0;",
        effect="1.0 for the float with the bits of 1",
        seen=_SEEN,
        lowering="takes the bits from -x & 1",
        matches=_has(
            r"selp\.[bsu]16 %\w+, (1, 0|0, 1),.*cvt\.f\d+\.f16", r"selp\.[bsu](32|64) %\w+, (1, 0|0, 1),.*mov\.b(32|64)"
        ),
    ),
    Defect(
        name="product of a shift plus a constant",
        ptx="shl.b64 %rd1, %rd0, 31; mad.lo.s64 %rd2, %rd1, 33, 2;",
        effect="the product of the constants keeps 32 bits",
        seen=_SEEN,
        lowering="makes the shift part of the factor",
        matches=_has(r"shl\.b64.*mad\.lo\.[su]64"),
    ),
    Defect(
        name="maximum of an unsigned zero and a signed minimum",
        ptx="min.s64 %rd1, %rd0, 0; max.u64 %rd2, %rd1, 0;",
        effect="0",
        seen=_SEEN,
        lowering="drops a maximum with a constant 0",
        matches=_has(r"min\.s(32|64).*max\.u(32|64)", r"max\.u(32|64).*min\.s(32|64)"),
    ),
    Defect(
        name="conversion there and back",
        ptx="cvt.rzi.u32.f32 %r1, %f0; cvt.rz.f32.u32 %f1, %r1; cvt.rzi.u32.f32 %r2, %f1;",
        effect="the second pair is dropped, although 4294967295 becomes 4294967040",
        seen=_SEEN,
        lowering="asks this only for whether the float was exact, and the float is odd then",
        matches=_has(r"cvt\.rzi(\.ftz)?\.[su](32|64)\.f32.*cvt\.r[zn]\.f32\.[su](32|64).*cvt\.rzi"),
    ),
    Defect(
        name="conversion to an integer of a constant",
        ptx="cvt.rmi.u32.f64 %r2, 0d3FF0000000000001;",
        effect="bits of the constant, and f64 to u64 rounds away from 2^52",
        seen=_SEEN,
        lowering=_NOT_WRITTEN,
        matches=_has(r"cvt\.r[mpn]i(\.sat)?\.[su](32|64)\.f64", r"@%p mov\.f64.*cvt"),
    ),
    Defect(
        name="selected bytes, high products and sums of differences of constants",
        ptx="prmt.b32 %r1, %r0, 64, 10; cvt.u32.u8 %r2, %r1;",
        effect="another byte, or another operand",
        seen=_SEEN,
        lowering=_NOT_WRITTEN,
        matches=_has(
            r"prmt\.b32", r"mad\.hi\.[su](32|64)", r"madc\.hi\.[su]32", r"sad\.[su]32", r"slct\.", r"bfe\.u(32|64)"
        ),
    ),
    Defect(
        name="disjunction with the same operand twice",
        ptx="and.pred %p2, %p0, %p1; or.pred %p3, %p0, %p1; or.pred %p4, %p0, %p3;",
        effect="the first operand alone",
        seen=_SEEN,
        lowering="leaves the second disjunction out",
        matches=_has(r"(or|and)\.pred [^;]*; (or|and)\.pred [^;]*; (or|and)\.pred"),
    ),
    Defect(
        name="high half of a product minus a number",
        ptx="mul.hi.u32 %r2, %r0, %r1; cvt.u64.u32 %rd1, %r2; sub.u64 %rd2, %rd1, %rd0;",
        effect="2^32 less where the low half of the number is 0",
        seen=_SEEN,
        lowering="shifts a wide product",
        matches=_has(r"mul\.hi\.u32.*cvt\.u64\.u32.*sub\.[su]64"),
    ),
    Defect(
        name="truncation of the maximum of a number and itself",
        ptx="neg.ftz.f32 %f1, %f0; max.ftz.f32 %f2, %f1, %f1; cvt.rzi.ftz.s32.f32 %r0, %f2;",
        effect="rounded to nearest",
        seen=_SEEN,
        lowering="leaves the maximum out",
        matches=_has(r"neg(\.ftz)?\.f32 .*(min|max)(\.ftz)?(\.NaN)?\.f32 %\w+, (%\w+), \5;.*cvt\.rzi"),
    ),
    Defect(
        name="minimum of the maximum with NaN",
        ptx="max.f32 %f1, %f0, 0f7FC00000; min.f32 %f2, %f1, 0f3F800000; and.b32 %r1, %r0, 2147483647;",
        effect="the sign stays: the number is assumed to have none",
        seen="CUDA 13.0 (driver) and 13.5, sm_90",
        lowering="a minimum or maximum with a constant NaN is the other operand",
        matches=_has(r"max(\.ftz)?\.f(32|64) %\w+, [^;]*0[fd]7(F[89A-F]|FF[89A-F])[^;]*; min"),
    ),
    Defect(
        name="16-bit shift by 65536 and more",
        ptx="shl.b16 %h0, 32, 65537;",
        effect="the count is taken modulo 65536",
        seen=_SEEN,
        lowering=_NOT_WRITTEN,
        matches=_has(r"sh[lr]\.[bsu]16"),
    ),
    Defect(
        name="signed bit field behind the last bit",
        ptx="bfe.s32 %r1, %r0, 32, 1;",
        effect="a bit of the value instead of its sign",
        seen=_SEEN,
        lowering=_NOT_WRITTEN,
        matches=_has(r"bf[ei]\.[sb]32", r"bf[ei]\.[sb]64"),
    ),
    Defect(
        name="high half of a 64-bit product plus carry",
        ptx="madc.hi.u64 %rd0, 0, 0, 7;",
        effect="the product or the addend of another place",
        seen=_SEEN,
        lowering=_NOT_WRITTEN,
        matches=_has(r"madc\.hi(\.cc)?\.[su]64"),
    ),
)


def known_as(found: dict[str, Any]) -> str | None:
    """The defect that explains a difference."""
    return next((defect.name for defect in DEFECTS if defect.matches(found)), None)
