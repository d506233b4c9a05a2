"""Facts and peepholes against plain integers: nothing claimed of a value is ever refuted by evaluating it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE
from vyre_cuda.codegen.lowering.integers import wrap_to
from vyre_cuda.codegen.lowering.legalize import apply_op
from vyre_cuda.codegen.ssa.intervals import FULL, wrap
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.costs import unsigned_magic
from vyre_cuda.ir.core.types import INTEGERS, Type, bool_, i64, u32, u64

WORD = 1 << 32
LONG = 1 << 64
EDGES = (
    *(0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536),
    *((1 << 31) - 1, 1 << 31, (1 << 31) + 1, WORD - 2, WORD - 1, WORD, WORD + 1),
    *((1 << 63) - 1, 1 << 63, (1 << 63) + 1, LONG - WORD, LONG - 300, LONG - 128, LONG - 2, LONG - 1),
)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(0, LONG - 1), st.integers(0, WORD - 1), st.integers(0, 300))


def trunc(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def reverse(x: int, bits: int) -> int:
    return int(f"{x % (1 << bits):0{bits}b}"[::-1], 2)


# The meaning of ops on exact integers of a width, before results are reduced to the type.
MEANING: dict[str, Any] = {
    "add": lambda _, x, y: x + y,
    "subtract": lambda _, x, y: x - y,
    "multiply": lambda _, x, y: x * y,
    "multiply_high": lambda bits, x, y: x * y >> bits,
    "multiply_add": lambda _, x, y, z: x * y + z,
    "bitwise_and": lambda _, x, y: x & y,
    "bitwise_or": lambda _, x, y: x | y,
    "bitwise_xor": lambda _, x, y: x ^ y,
    "minimum": lambda _, x, y: min(x, y),
    "maximum": lambda _, x, y: max(x, y),
    "negative": lambda _, x: -x,
    "absolute": lambda _, x: abs(x),
    "invert": lambda _, x: ~x,
    "reverse_bits": lambda bits, x: reverse(x, bits),
    "less": lambda _, x, y: x < y,
    "less_equal": lambda _, x, y: x <= y,
    "equal": lambda _, x, y: x == y,
    "not_equal": lambda _, x, y: x != y,
    "logical_and": lambda _, x, y: x and y,
    "logical_or": lambda _, x, y: x or y,
    "logical_xor": lambda _, x, y: x != y,
    "logical_not": lambda _, x: not x,
    "where": lambda _, c, x, y: x if c else y,
}
# What instructions do that are no op of the IR, or do it for a 32-bit count.
INSTRUCTIONS: dict[str, Any] = MEANING | {
    "quotient": lambda _, x, y: x // y if y else 12345,  # the instruction may give anything
    "left_shift": lambda bits, x, count: x << min(count % WORD, bits),
    "right_shift": lambda bits, x, count: x >> min(count % WORD, bits),
    "rotate_left": lambda bits, x, count: rotated(x, count % bits, bits),
    "rotate_right": lambda bits, x, count: rotated(x, -count % bits, bits),
    "ones": lambda bits, x: (x % (1 << bits)).bit_count(),
    "leading_zeros": lambda bits, x: bits - (x % (1 << bits)).bit_length(),
    "retype": lambda _, x: x,
    "widen": lambda _, x: x,
    "low": lambda _, x: x,
    "sign8": lambda _, x: (x + 128) % 256 - 128,
    "sign16": lambda _, x: (x + 32768) % 65536 - 32768,
}


def rotated(x: int, count: int, bits: int) -> int:
    pattern = x % (1 << bits)
    return pattern << count | pattern >> (bits - count)


def saturated(type_: Type, x: int) -> int:
    return max(min(x, type_.maximum), type_.minimum)


# What the IR says, by type.
IR: dict[str, Any] = {
    **{op: (lambda type_, *args, rule=rule: rule(type_.bits, *args)) for op, rule in MEANING.items()},
    "left_shift": lambda t, x, count: x << min(count % (1 << t.bits), t.bits),
    "right_shift": lambda t, x, count: x >> min(count % (1 << t.bits), t.bits),
    "rotate_left": lambda t, x, count: rotated(x, count % (1 << t.bits) % t.bits, t.bits),
    "rotate_right": lambda t, x, count: rotated(x, -count % (1 << t.bits) % t.bits, t.bits),
    "floor_divide": lambda _, x, y: x // y if y else 0,
    "remainder": lambda _, x, y: x % y if y else 0,
    "trunc_divide": lambda _, x, y: trunc(x, y),
    "fmod": lambda _, x, y: x - y * trunc(x, y) if y else 0,
    "add_saturate": lambda t, x, y: saturated(t, x + y),
    "subtract_saturate": lambda t, x, y: saturated(t, x - y),
    "bitwise_count": lambda t, x: (x % (1 << t.bits)).bit_count(),
    "count_leading_zeros": lambda t, x: t.bits - (x % (1 << t.bits)).bit_length(),
    "count_trailing_zeros": lambda t, x: (x & -x).bit_length() - 1 if x else t.bits,
    "sign": lambda _, x: (x > 0) - (x < 0),
    "greater": lambda _, x, y: x > y,
    "greater_equal": lambda _, x, y: x >= y,
}
DIVISIONS = ("floor_divide", "remainder", "trunc_divide", "fmod")
BINARY = (
    *("add", "subtract", "multiply", "multiply_high", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("left_shift", "right_shift", "rotate_left", "rotate_right", "minimum", "maximum"),
    *("add_saturate", "subtract_saturate", *DIVISIONS),
)
UNARY = (
    *("negative", "absolute", "invert", "sign", "reverse_bits"),
    *("bitwise_count", "count_leading_zeros", "count_trailing_zeros"),
)
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


class Machine:
    """A builder whose inputs have numbers, so that every value has one."""

    def __init__(self) -> None:
        self.builder = Builder(Target.parse("sm_90"))
        self.numbers: dict[int, int] = {}

    def input(self, type_: Type, number: int) -> int:
        within = type_.minimum, type_.maximum
        name = ("scalar", str(len(self.numbers)))
        value = self.builder.entry("parameter", MACHINE_TYPE[type_], (), name, within=within)
        self.numbers[value] = wrap_to(type_, number)
        return value

    def number(self, value: int) -> int:
        """What the machine code would compute."""
        function = self.builder.function
        if value not in self.numbers:
            op, type_, args = function.ops[value], function.types[value], function.args[value]
            if op == "const":
                self.numbers[value] = function.attrs[value]
            else:
                bits = BITS.get(function.types[args[1 if op == "where" else 0]], 1)
                result = INSTRUCTIONS[op](bits, *(self.number(arg) for arg in args))
                self.numbers[value] = int(result) if type_ == "pred" else wrap(type_, result)
        return self.numbers[value]

    def pattern(self, value: int) -> int:
        """The bits as an unsigned number."""
        return self.number(value) % (1 << BITS[self.builder.function.types[value]])

    def check(self) -> None:
        """Every fact about every value holds for these numbers."""
        facts, function = self.builder.facts, self.builder.function
        integers = [value for value, type_ in enumerate(function.types) if type_ in FULL]
        remembered = [facts.tight_range(value) for value in integers]
        for value, found in zip(integers, remembered, strict=True):
            facts._settled = [-1] * len(facts._settled)  # nothing is remembered
            assert facts.tight_range(value) == found
            number, modulus = self.number(value), 1 << BITS[function.types[value]]
            for low, high in (facts.range(value), facts.tight_range(value)):
                assert low <= number <= high, (function.ops[value], low, high)
            root, offset = facts.origin(value)
            assert (self.number(root) + offset - number) % modulus == 0
            root, offset = facts.displacement(value)
            assert self.pattern(root) + offset == self.pattern(value)
        for left in integers[-6:]:
            for right in integers:
                for strict in (False, True):
                    if facts.proves_less(left, right, strict=strict):
                        assert self.pattern(left) + strict <= self.pattern(right)


@pytest.mark.thin
@settings(deadline=None)
@given(st.data())
def test_facts_hold_for_every_value_of_a_random_function(data: st.DataObject) -> None:
    machine = Machine()
    builder = machine.builder
    types = data.draw(st.lists(st.sampled_from(INTEGERS), min_size=1, max_size=3, unique=True))
    values = {type_: [machine.input(type_, data.draw(NUMBERS)) for _ in range(2)] for type_ in types}
    conditions = [builder.true]

    def pick(type_: Type) -> int:
        if data.draw(st.integers(0, 2)) == 0:
            return builder.constant(MACHINE_TYPE[type_], wrap_to(type_, data.draw(NUMBERS)))
        return data.draw(st.sampled_from(values[type_][-5:]))

    for _ in range(data.draw(st.integers(1, 14))):
        type_ = data.draw(st.sampled_from(types))
        kind = data.draw(st.sampled_from(("op", "op", "op", "unary", "where", "assume", "cast", "bool")))
        if kind == "op":
            made = apply_checked(machine, data.draw(st.sampled_from(BINARY)), type_, pick(type_), pick(type_))
        elif kind == "unary":
            made = apply_checked(machine, data.draw(st.sampled_from(UNARY)), type_, pick(type_))
        elif kind == "where":
            condition = data.draw(st.sampled_from(conditions))
            made = apply_checked(machine, "where", type_, condition, pick(type_), pick(type_))
        elif kind == "cast":
            other = data.draw(st.sampled_from(types))
            source = pick(other)
            made = apply_op(builder, "cast", type_, other, (source,))
            assert machine.number(made) == wrap_to(type_, machine.number(source))
        elif kind == "bool":
            left, right = data.draw(st.sampled_from(conditions)), data.draw(st.sampled_from(conditions))
            name = data.draw(st.sampled_from(("logical_and", "logical_or", "logical_xor")))
            conditions.append(apply_checked(machine, name, bool_, left, right))
            continue
        else:
            name = data.draw(st.sampled_from(COMPARISONS))
            conditions.append(apply_checked(machine, name, type_, pick(type_), pick(type_)))
            if data.draw(st.booleans()):
                assumed = data.draw(st.sampled_from(conditions))
                builder.facts.assume(assumed, bool(machine.number(assumed)))
            continue
        values[type_].append(made)
    machine.check()


def apply_checked(machine: Machine, op: str, type_: Type, *operands: int) -> int:
    """The value of the op, which must be what the op means for these numbers."""
    exact = IR[op](type_, *(machine.number(operand) for operand in operands))
    is_bool = type_ is bool_ or op in COMPARISONS
    expected = int(exact) if is_bool else wrap_to(type_, exact)
    made = apply_op(machine.builder, op, bool_ if is_bool else type_, type_, operands)

    assert machine.number(made) == expected, (op, type_, operands)
    return made


@pytest.mark.thin(7)
@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@settings(deadline=None)
@given(divisor=NUMBERS, dividends=st.lists(NUMBERS, min_size=1, max_size=8))
def test_division_by_a_literal_is_exact(type_: Type, op: str, divisor: int, dividends: list[int]) -> None:
    number = wrap_to(type_, divisor)
    for dividend in (*dividends, *EDGES[::5], number, number - 1, -number, 3 * number, 7 * number - 1):
        machine = Machine()
        constant = machine.builder.constant(MACHINE_TYPE[type_], number)
        apply_checked(machine, op, type_, machine.input(type_, dividend), constant)


@pytest.mark.parametrize("bits", [32, 64])
@settings(deadline=None)
@given(data=st.data())
def test_the_multiplier_of_a_division_is_exact_up_to_its_limit(bits: int, data: st.DataObject) -> None:
    word = 1 << bits
    divisor, highest = data.draw(st.integers(1, word - 1)), data.draw(NUMBERS) % word
    multiplier, shift = unsigned_magic(divisor, highest, bits)

    assert multiplier < 2 * word
    last = highest // divisor * divisor
    for number in (highest, last, max(last - 1, 0), data.draw(st.integers(0, highest))):
        assert number * multiplier >> (bits + shift) == number // divisor


@pytest.mark.parametrize("type_", [u32, u64, i64], ids=str)
def test_a_scope_forgets_what_was_assumed_in_it(type_: Type) -> None:
    machine = Machine()
    builder = machine.builder
    x = machine.input(type_, 3)
    full = builder.facts.range(x)
    ten = builder.constant(MACHINE_TYPE[type_], 10)
    below = builder.apply("less", x, ten)
    builder.open_scope()
    builder.facts.assume(below, True)
    assert builder.facts.range(x) == (full[0], 9)
    assert builder.apply("less", x, ten) == builder.true
    builder.close_scope()

    assert builder.facts.range(x) == full
    assert builder.apply("less", x, ten) == below


def test_an_interval_that_was_asked_for_follows_what_is_assumed_later() -> None:
    machine = Machine()
    b, number = machine.builder, machine.input(u32, 5)
    facts = b.facts
    half = b.apply("right_shift", number, b.constant("u32", 1))
    more = b.apply("bitwise_or", half, b.constant("u32", 1))
    wide = facts.tight_range(more)

    for most in (100, 20):
        b.open_scope()
        facts.assume(b.apply("less", number, b.constant("u32", most)), True)
        assert facts.tight_range(half) == (0, (most - 1) // 2)
        assert facts.tight_range(more)[1] < most
        assert facts.tight_range(b.apply("bitwise_and", more, b.constant("u32", 0xFFF)))[1] < most
    b.close_scope()
    assert facts.tight_range(half) == (0, 49)
    b.close_scope()
    assert facts.tight_range(half) == (0, (1 << 31) - 1)
    assert facts.tight_range(more) == wide


def test_an_entry_value_made_in_a_scope_knows_only_what_holds_everywhere() -> None:
    machine = Machine()
    builder = machine.builder
    x = machine.input(u32, 300)
    builder.open_scope()
    builder.facts.assume(builder.apply("less", x, builder.constant("u32", 10)), True)
    made = builder.entry("minimum", "u32", (x, builder.constant("u32", 1000)))
    builder.close_scope()

    assert builder.facts.range(made) == (0, 1000)


@pytest.mark.parametrize("truth", [True, False])
def test_a_pure_value_is_made_once_and_only_found_where_it_dominates(truth: bool) -> None:
    machine = Machine()
    builder = machine.builder
    x, y = machine.input(u32, 1), machine.input(u32, 2)
    if truth:
        outer = builder.apply("add", x, y)
    builder.open_scope()
    inner = builder.apply("add", y, x)
    builder.close_scope()

    assert (builder.apply("add", x, y) == inner) is truth
    assert not truth or inner == outer


def test_entry_values_and_literals_made_in_a_scope_are_found_behind_it_and_others_are_not() -> None:
    builder = Machine().builder
    function = builder.function
    builder.open_scope()
    builder.open_scope()
    thread, one = function.entry_value("special", "u32", (), "%tid.x"), function.constant("u32", 1)
    total = builder.emit("add", "u32", (thread, one))
    function.remember(("key", "u32", (one,), None), total)
    builder.close_scope()

    assert builder.emit("special", "u32", (), "%tid.x") == thread
    again = builder.emit("add", "u32", (thread, one))
    builder.close_scope()

    assert builder.emit("special", "u32", (), "%tid.x") == thread
    assert function.constant("u32", 1) == one
    assert function.find(("key", "u32", (one,), None)) is None
    assert len({total, again, builder.emit("add", "u32", (thread, one))}) == 3
