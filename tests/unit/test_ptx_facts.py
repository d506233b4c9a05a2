"""Facts and peepholes against plain integers: nothing claimed of a value is ever refuted by evaluating it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_cuda.ptx import Target
from vyre_cuda.ptx.division import unsigned_magic
from vyre_cuda.ptx.legalize import apply_op
from vyre_cuda.ptx.peephole import Builder, wrap

WORD = 1 << 32
EDGES = (0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 256, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, WORD - 2, WORD - 1)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(0, WORD - 1), st.integers(0, 300))


def unsigned(value: int) -> int:
    return value % WORD


def shift_left(x: int, count: int) -> int:
    return x << unsigned(count) if unsigned(count) < 32 else 0


def trunc(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


# The meaning of integer ops on exact integers, before they are reduced to the type.
MEANING: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "multiply_high": lambda x, y: x * y >> 32,
    "multiply_add": lambda x, y, z: x * y + z,
    "quotient": lambda x, y: x // y if y else 12345,  # the instruction may give anything
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "left_shift": shift_left,
    "right_shift": lambda x, count: x >> min(unsigned(count), 32),
    "minimum": min,
    "maximum": max,
    "negative": lambda x: -x,
    "absolute": abs,
    "invert": lambda x: ~x,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "logical_and": lambda x, y: x and y,
    "logical_or": lambda x, y: x or y,
    "logical_xor": lambda x, y: x != y,
    "logical_not": lambda x: not x,
    "where": lambda c, x, y: x if c else y,
    "retype": lambda x: x,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "trunc_divide": trunc,
    "fmod": lambda x, y: x - y * trunc(x, y) if y else 0,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}
INTEGER_OPS = ("add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
DIVISIONS = ("floor_divide", "remainder", "trunc_divide", "fmod")
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


class Machine:
    """A builder whose inputs have numbers, so that every value has one."""

    def __init__(self) -> None:
        self.builder = Builder(Target.parse("sm_90"))
        self.numbers: dict[int, int] = {}

    def input(self, type_: str, number: int) -> int:
        value = self.builder.function.fresh("parameter", type_, (), ("scalar", str(len(self.numbers))))
        self.builder.facts.observe(value)
        self.numbers[value] = wrap(type_, number)
        return value

    def number(self, value: int) -> int:
        """What the machine code would compute."""
        function = self.builder.function
        if value not in self.numbers:
            op, type_ = function.ops[value], function.types[value]
            if op == "const":
                self.numbers[value] = function.attrs[value]
            else:
                result = MEANING[op](*(self.number(arg) for arg in function.args[value]))
                self.numbers[value] = int(result) if type_ == "pred" else wrap(type_, result)
        return self.numbers[value]

    def check(self) -> None:
        """Every fact about every value holds for these numbers."""
        facts, function = self.builder.facts, self.builder.function
        integers = [value for value, type_ in enumerate(function.types) if type_ in ("u32", "s32")]
        for value in integers:
            number = self.number(value)
            for low, high in (facts.range(value), facts.tight_range(value)):
                assert low <= number <= high, (function.ops[value], low, high)
            root, offset = facts.origins[value]
            assert unsigned(self.number(root) + offset) == unsigned(number)
            root, offset = facts.displacement(value)
            assert unsigned(self.number(root)) + offset == unsigned(number)
        for left in integers[-6:]:
            for right in integers:
                for strict in (False, True):
                    if facts.proves_less(left, right, strict=strict):
                        assert unsigned(self.number(left)) + strict <= unsigned(self.number(right))


@given(st.data())
def test_facts_hold_for_every_value_of_a_random_function(data: st.DataObject) -> None:
    machine = Machine()
    builder = machine.builder
    values: dict[str, list[int]] = {
        type_: [machine.input(type_, data.draw(NUMBERS)) for _ in range(2)] for type_ in ("u32", "s32")
    }
    conditions = [builder.true]

    def pick(type_: str) -> int:
        if data.draw(st.integers(0, 2)) == 0:
            return builder.constant(type_, wrap(type_, data.draw(NUMBERS)))
        return data.draw(st.sampled_from(values[type_][-5:]))

    for _ in range(data.draw(st.integers(1, 14))):
        type_ = data.draw(st.sampled_from(("u32", "s32")))
        kind = data.draw(
            st.sampled_from(("op", "op", "division", "extreme", "unary", "where", "assume", "retype", "bool"))
        )
        if kind in ("op", "division", "extreme"):
            names = {"op": INTEGER_OPS, "division": DIVISIONS, "extreme": ("minimum", "maximum")}[kind]
            made = apply_checked(machine, data.draw(st.sampled_from(names)), type_, pick(type_), pick(type_))
        elif kind == "unary":
            made = apply_checked(
                machine, data.draw(st.sampled_from(("negative", "absolute", "invert"))), type_, pick(type_)
            )
        elif kind == "where":
            made = apply_checked(
                machine, "where", type_, data.draw(st.sampled_from(conditions)), pick(type_), pick(type_)
            )
        elif kind == "retype":
            other = "s32" if type_ == "u32" else "u32"
            source = pick(other)
            made = builder.convert("retype", type_, source)
            assert unsigned(machine.number(made)) == unsigned(machine.number(source))
        elif kind == "bool":
            left, right = data.draw(st.sampled_from(conditions)), data.draw(st.sampled_from(conditions))
            name = data.draw(st.sampled_from(("logical_and", "logical_or", "logical_xor")))
            conditions.append(apply_checked(machine, name, "pred", left, right))
            continue
        else:
            condition = apply_checked(
                machine, data.draw(st.sampled_from(COMPARISONS)), "pred", pick(type_), pick(type_)
            )
            conditions.append(condition)
            if data.draw(st.booleans()):
                assumed = data.draw(st.sampled_from(conditions))
                builder.facts.assume(assumed, bool(machine.number(assumed)))
            continue
        values[type_].append(made)
    machine.check()


def apply_checked(machine: Machine, op: str, result: str, *operands: int) -> int:
    """The value of the op, which must be what the op means for these numbers."""
    exact = MEANING[op](*(machine.number(operand) for operand in operands))
    expected = int(exact) if result == "pred" else wrap(result, exact)
    made = apply_op(machine.builder, op, result, operands)

    assert machine.number(made) == expected, (op, operands)
    return made


@pytest.mark.parametrize("op", DIVISIONS)
@given(divisor=NUMBERS, dividends=st.lists(NUMBERS, min_size=1, max_size=8))
def test_division_by_a_literal_is_exact(op: str, divisor: int, dividends: list[int]) -> None:
    for type_ in ("u32", "s32"):
        for dividend in (*dividends, *EDGES, divisor, divisor - 1, -divisor, WORD - divisor % 7):
            machine = Machine()
            constant = machine.builder.constant(type_, wrap(type_, divisor))
            apply_checked(machine, op, type_, machine.input(type_, dividend), constant)


@given(divisor=st.integers(1, WORD - 1), highest=NUMBERS, data=st.data())
def test_the_multiplier_of_a_division_is_exact_up_to_its_limit(divisor: int, highest: int, data: st.DataObject) -> None:
    multiplier, shift = unsigned_magic(divisor, highest)

    assert multiplier < 2 * WORD
    last = highest // divisor * divisor
    for number in (highest, last, max(last - 1, 0), data.draw(st.integers(0, highest))):
        assert number * multiplier >> (32 + shift) == number // divisor


def test_a_scope_forgets_what_was_assumed_in_it() -> None:
    machine = Machine()
    builder = machine.builder
    x = machine.input("u32", 3)
    ten = builder.constant("u32", 10)
    below = builder.apply("less", x, ten)
    builder.open_scope()
    builder.facts.assume(below, True)
    assert builder.facts.range(x) == (0, 9)
    assert builder.apply("less", x, ten) == builder.true
    builder.close_scope()

    assert builder.facts.range(x) == (0, WORD - 1)
    assert builder.apply("less", x, ten) == below


@pytest.mark.parametrize("truth", [True, False])
def test_a_pure_value_is_made_once_and_only_found_where_it_dominates(truth: bool) -> None:
    machine = Machine()
    builder = machine.builder
    x, y = machine.input("u32", 1), machine.input("u32", 2)
    if truth:
        outer = builder.apply("add", x, y)
    builder.open_scope()
    inner = builder.apply("add", y, x)
    builder.close_scope()

    assert (builder.apply("add", x, y) == inner) is truth
    assert not truth or inner == outer
