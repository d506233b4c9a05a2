"""Defects of NVIDIA's compiler that the lowering works around; what a run finds of them is counted apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SHIFT = re.compile(r"shl\.b64 %\w+, %\w+, (\d+|%\w+);")
_NEGATIVE_ZERO = r"(0f80000000|0d8000000000000000)"
_ZERO_CHOICE = re.compile(
    rf"selp\.f(32|64) [^;]*{_NEGATIVE_ZERO}|mov\.f(32|64) [^;]*{_NEGATIVE_ZERO}.*(@%p mov\.f|bra )"
)
_ZERO_UNDER_PREDICATE = re.compile(
    rf"@%p mov\.f(32|64) [^;]*{_NEGATIVE_ZERO}|bra .*mov\.f(32|64) [^;]*{_NEGATIVE_ZERO}"
)
_WIDE_COUNT = 64


def _is_wide_shift(found: dict[str, Any]) -> bool:
    counts = _SHIFT.findall(found["ptx"])
    return any(count.startswith("%") or int(count) >= _WIDE_COUNT for count in counts)


def _is_zero_choice(found: dict[str, Any]) -> bool:
    """A float choice with -0.0; what is computed from it may differ in more than the sign."""
    return any(each.search(found["ptx"]) is not None for each in (_ZERO_CHOICE, _ZERO_UNDER_PREDICATE))


def _is_saturated_sum(found: dict[str, Any]) -> bool:
    return re.search(r"(add|sub)\.sat\.s32", found["ptx"]) is not None


def _is_signed_loop(found: dict[str, Any]) -> bool:
    return (
        found["group"] == "loops" and "half" in found["pattern"] and re.search(r" s(32|64)", found["form"]) is not None
    )


def _is_unsigned_loop(found: dict[str, Any]) -> bool:
    return (
        found["group"] == "loops" and "half" in found["pattern"] and re.search(r" u(32|64)", found["form"]) is not None
    )


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
        effect="the count is taken modulo 64: the product, or the choice of constants, comes back unshifted by 64",
        seen="CUDA 13.0 (driver 580.159.04), sm_90",
        lowering="a constant count of the width or more gives 0, or the sign, without a shift",
        matches=_is_wide_shift,
    ),
    Defect(
        name="choice with -0.0",
        ptx="selp.f32 %f0, 0f80000000, 0fBF800000, %p0;",
        effect="+0.0 where the predicate holds",
        seen="CUDA 13.0 (driver 580.159.04), sm_90",
        lowering="a choice of float constants is one of their bits",
        matches=_is_zero_choice,
    ),
    Defect(
        name="unsigned loop over more than half of its type",
        ptx="mov.u32 %r1, 1; L: add.u32 %r1, %r1, 2147483647; setp.lt.u32 %p2, %r1, 4294967295; @%p2 bra L;",
        effect="one trip instead of two",
        seen="CUDA 13.0 (driver 580.159.04), sm_90",
        lowering="counts the trips",
        matches=_is_unsigned_loop,
    ),
    Defect(
        name="signed loop over more than half of its type",
        ptx="mov.s32 %r1, -2147483648; L: add.s32 %r1, %r1, 2147483646; setp.lt.s32 %p2, %r1, 2000000000; @%p2 bra L;",
        effect="one trip",
        seen="CUDA 13.0, sm_90",
        lowering="such a loop counts its trips",
        matches=_is_signed_loop,
    ),
    Defect(
        name="saturating sum of a sum",
        ptx="add.s32 %r1, %r0, 1; add.sat.s32 %r2, %r1, 2147483647;",
        effect="the constants are added up first, and nothing saturates",
        seen="CUDA 13.0, sm_75 and sm_90",
        lowering="add.sat and sub.sat are not used",
        matches=_is_saturated_sum,
    ),
)


def known_as(found: dict[str, Any]) -> str | None:
    """The defect that explains a difference."""
    return next((defect.name for defect in DEFECTS if defect.matches(found)), None)
