"""Integer powers by squaring: unrolled for a constant exponent, otherwise a loop over the exponent's bits."""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import MACHINE_TYPE, UNSIGNED
from vyre_cuda.codegen.lowering.integers import narrowed
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type


def integer_power(b: Builder, type_: Type, base: int, exponent: int) -> int:
    """base ** exponent modulo the type's width; 0 for a negative exponent, unless the base is 1 or -1."""
    power = narrowed(b, type_, _power(b, base, exponent))
    if type_.kind == "unsigned":
        return power
    zero, one, minus_one = (b.constant(MACHINE_TYPE[type_], number) for number in (0, 1, -1))
    unit = b.apply("logical_or", b.apply("equal", base, one), b.apply("equal", base, minus_one))
    vanishes = b.apply("logical_and", b.apply("less", exponent, zero), b.apply("logical_not", unit))
    return b.apply("where", vanishes, zero, power)


def _power(b: Builder, base: int, exponent: int) -> int:
    """The power by the exponent's bits read as unsigned, which for a negative one are as odd as it is."""
    function = b.function
    machine = function.types[base]
    constant = b.constant_of(exponent)
    if constant is not None:
        return _unrolled(b, base, constant % 2 if constant < 0 else constant)
    key = ("integer_power", machine, (base, exponent), None)
    found = function.find(key)
    if found is None:
        found = _looped(b, base, b.convert("retype", UNSIGNED[machine], exponent))
        function.remember(key, found)
    return found


def _unrolled(b: Builder, base: int, exponent: int) -> int:
    result, square = b.constant(b.function.types[base], 1), base
    while exponent:
        if exponent & 1:
            result = b.apply("multiply", square, result)
        exponent >>= 1
        if exponent:
            square = b.apply("multiply", square, square)
    return result


def _looped(b: Builder, base: int, exponent: int) -> int:
    """One pass for each bit of the exponent up to the highest one; none for an exponent of 0."""
    function = b.function
    machine, unsigned = function.types[base], function.types[exponent]
    zero, one = b.constant(unsigned, 0), b.constant(unsigned, 1)
    result, square, rest = function.register(machine), function.register(machine), function.register(unsigned)
    for register, first in ((result, b.constant(machine, 1)), (square, base), (rest, exponent)):
        function.effect("set", (first,), register)
    head, done = function.label(), function.label()
    b.branch(b.apply("equal", exponent, zero), True, done)
    function.effect("label", (), (head, True))
    b.open_scope()
    factor, left, product = (b.read_register(register) for register in (square, rest, result))
    odd = b.apply("not_equal", b.apply("bitwise_and", left, one), zero)
    function.effect("set", (b.apply("where", odd, b.emit("multiply", machine, (product, factor)), product),), result)
    function.effect("set", (b.emit("multiply", machine, (factor, factor)),), square)
    halved = b.apply("right_shift", left, b.constant("u32", 1))
    function.effect("set", (halved,), rest)
    b.branch(b.apply("equal", halved, zero), False, head)
    b.close_scope()
    function.effect("label", (), (done, False))
    return b.read_register(result)
