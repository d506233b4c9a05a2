"""Float ops without a single instruction, on f32 and f64 and on f16 and bf16 in their f32 form.

Ops that move bits or are exact are the same in every precision; `fmod` flushes around an exact core.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE, has_row
from vyre_cuda.codegen.lowering import halves
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type, bf16, f16

NAN = {"f32": 0x7FC00000, "f64": 0x7FF8000000000000}
INFINITY = {"f32": 0x7F800000, "f64": 0x7FF0000000000000}
ONE = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}
HALF = {"f32": 0x3F000000, "f64": 0x3FE0000000000000}
_IGNORING = {"minimum": "fmin", "maximum": "fmax"}
_SMALLEST_F16 = 0x33800000  # 2^-24


def nan_propagating(b: Builder, op: str, left: int, right: int) -> int:
    """minimum and maximum in the precision of the program."""
    type_ = b.function.types[left]
    return _extreme(b, b.modes.get((op, type_), op), b.modes.get((_IGNORING[op], type_), _IGNORING[op]), left, right)


def nan_propagating_ieee(b: Builder, op: str, left: int, right: int) -> int:
    """minimum and maximum that keep subnormals."""
    return _extreme(b, op, _IGNORING[op], left, right)


def _extreme(b: Builder, op: str, ignoring: str, left: int, right: int) -> int:
    """The instruction, or the one that ignores NaN followed by a choice (PTX ISA: min.NaN is for f32 from sm_80 on)."""
    type_ = b.function.types[left]
    if has_row(op, type_, b.target.sm):
        return b.apply(op, left, right)
    number = b.apply(ignoring, left, right)
    return b.apply("where", b.apply("unordered", left, right), b.constant(type_, NAN[type_]), number)


def isnan(b: Builder, value: int) -> int:
    return b.apply("unordered", value, value)


def isinf(b: Builder, value: int) -> int:
    type_ = b.function.types[value]
    return b.apply("equal", b.apply("absolute", value), b.constant(type_, INFINITY[type_]))


def isfinite(b: Builder, value: int) -> int:
    type_ = b.function.types[value]
    return b.apply("less", b.apply("absolute", value), b.constant(type_, INFINITY[type_]))


def signbit(b: Builder, value: int) -> int:
    return b.apply("less", _signed_bits(b, value), b.constant(_signed_type(b, value), 0))


def _signed_type(b: Builder, value: int) -> str:
    return f"s{BITS[b.function.types[value]]}"


def _signed_bits(b: Builder, value: int) -> int:
    signed = _signed_type(b, value)
    return b.convert(f"bits.{signed}", signed, value)


def sign(b: Builder, value: int) -> int:
    """-1, a positive zero, 1 or NaN."""
    type_ = b.function.types[value]
    zero = b.constant(type_, 0)
    one = b.apply("copysign", b.constant(type_, ONE[type_]), value)
    number = b.apply("where", b.apply("equal", value, zero), zero, one)
    return b.apply("where", b.apply("unordered", value, value), value, number)


# ---- nextafter ------------------------------------------------------------------------------------------------------


def nextafter(b: Builder, type_: Type, value: int, toward: int) -> int:
    """One step of the bit pattern: away from zero when it goes up on the positive side or down on the negative one."""
    machine = MACHINE_TYPE[type_]
    bits, unit, smallest = _pattern(b, type_, value)
    signed = b.function.types[bits]
    outward = b.apply("logical_xor", b.apply("less", value, toward), b.apply("less", bits, b.constant(signed, 0)))
    step = b.apply("where", outward, b.constant(signed, unit), b.constant(signed, -unit))
    moved = _from_pattern(b, type_, b.apply("add", bits, step))
    from_zero = b.apply("copysign", b.constant(machine, smallest), toward)
    zero = b.constant(machine, 0)
    result = b.apply("where", b.apply("equal", value, zero), from_zero, moved)
    result = b.apply("where", b.apply("equal", value, toward), toward, result)
    return b.apply("where", b.apply("unordered", value, toward), b.constant(machine, NAN[machine]), result)


def _pattern(b: Builder, type_: Type, value: int) -> tuple[int, int, int]:
    """The bits as a signed number, how far apart neighbors are there, and the bits of the smallest positive number."""
    if type_ is f16:
        return b.convert("sign16", "s32", halves.to_bits(b, f16, value)), 1, _SMALLEST_F16
    unit = 1 << 16 if type_ is bf16 else 1
    return _signed_bits(b, value), unit, unit


def _from_pattern(b: Builder, type_: Type, bits: int) -> int:
    if type_ is f16:
        pattern = b.apply("bitwise_and", b.convert("retype", "u32", bits), b.constant("u32", 0xFFFF))
        return halves.from_bits(b, f16, pattern)
    machine = MACHINE_TYPE[type_]
    return b.convert(f"bits.{machine}", machine, bits)


# ---- fmod -----------------------------------------------------------------------------------------------------------


def fmod(b: Builder, left: int, right: int) -> int:
    """The remainder of the quotient toward zero, flushed where the precision requires it."""
    return flushed(b, fmod_ieee(b, flushed(b, left), flushed(b, right)))


def fmod_ieee(b: Builder, left: int, right: int) -> int:
    """The exact remainder: the divisor, doubled up to the dividend and halved back down, is subtracted where it fits.

    NaN for a divisor of 0 and an infinite dividend. Computed once where a dominating one is the same.
    """
    function = b.function
    type_ = function.types[left]
    key = ("fmod", type_, (left, right), None)
    found = function.find(key)
    if found is None:
        found = _remainder(b, left, right)
        function.remember(key, found)
    return found


def _remainder(b: Builder, left: int, right: int) -> int:
    function = b.function
    type_ = function.types[left]
    dividend, divisor = b.apply("absolute", left), b.apply("absolute", right)
    defined = b.apply(
        "logical_and",
        b.apply("less", dividend, b.constant(type_, INFINITY[type_])),
        b.apply("less", b.constant(type_, 0), divisor),
    )
    runs = b.apply("logical_and", defined, b.apply("less_equal", divisor, dividend))
    rest = dividend
    if runs != b.false:
        register = function.register(type_)
        function.effect("set", (dividend,), register)
        done = function.label()
        b.branch(runs, False, done)
        b.open_scope()
        _take_off_multiples(b, dividend, divisor, register)
        b.close_scope()
        function.effect("label", (), (done, False))
        rest = b.read_register(register)
    return b.apply("where", defined, b.apply("copysign", rest, left), b.constant(type_, NAN[type_]))


def _take_off_multiples(b: Builder, dividend: int, divisor: int, rest: int) -> None:
    function = b.function
    type_ = function.types[divisor]
    half = b.constant(type_, HALF[type_])
    multiple = function.register(type_)
    function.effect("set", (divisor,), multiple)
    limit = b.apply("multiply", dividend, half)
    down, up = function.label(), function.label()
    b.branch(b.apply("less_equal", divisor, limit), False, down)
    function.effect("label", (), (up, True))
    b.open_scope()
    once = b.read_register(multiple)
    twice = b.emit("add", type_, (once, once))
    function.effect("set", (twice,), multiple)
    b.branch(b.apply("less_equal", twice, limit), True, up)
    b.close_scope()
    function.effect("label", (), (down, True))
    b.open_scope()
    left, part = b.read_register(rest), b.read_register(multiple)
    fits = b.apply("less_equal", part, left)
    less = b.emit("where", type_, (fits, b.emit("subtract", type_, (left, part)), left))
    function.effect("set", (less,), rest)
    halved = b.apply("multiply", part, half)  # exact down to the divisor itself
    function.effect("set", (halved,), multiple)
    b.branch(b.apply("less_equal", divisor, halved), True, down)
    b.close_scope()


def flushed(b: Builder, value: int) -> int:
    """Flush subnormals to zero where the precision requires it."""
    name = b.modes.get(("multiply", b.function.types[value]))
    if name is None or b.function.types[value] != "f32":
        return value
    return b.apply("multiply.ftz", value, b.constant("f32", ONE["f32"]))
