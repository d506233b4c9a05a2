"""What is said about indices and conditions of steps is so for every thread, and is all that merging goes by."""

from __future__ import annotations

import itertools
import random

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, Scalar
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.passes import merge as merging
from vyre_cuda.passes.fuse import decide
from vyre_cuda.passes.places import Conditions, Places
from vyre_cuda.passes.steps import Kind, Refused

from .merged_steps import array, first, programs, recorded, recording, shift

THREADS = (5, 3, 2)
VALUES = {"n": 7, "m": (1 << 31) + 3}
COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


def cast(of: Expr, type_: Type) -> Expr:
    return of if of.type is type_ else Apply(type_, "cast", (of,))


def number(rng: random.Random, type_: Type) -> Expr:
    small = rng.choice((0, 1, 2, 3, 4, 5, 15, (1 << type_.bits) - 1, 1 << (type_.bits - 1), 1 << 31))
    return Const(type_, small & ((1 << type_.bits) - 1))


def index(rng: random.Random, type_: Type, depth: int) -> Expr:
    kind = rng.randrange(9)
    if depth == 0 or kind < 2:
        if rng.random() < 0.7:
            return cast(Id(vc.u32, "global_id", rng.randrange(3)), type_)
        return number(rng, type_) if rng.random() < 0.7 else cast(Scalar(vc.u32, rng.choice([*VALUES])), type_)
    if kind < 6:
        return Apply(type_, rng.choice(("add", "add", "subtract")), tuple(index(rng, type_, depth - 1) for _ in "ab"))
    if kind < 8:
        parts = [index(rng, type_, depth - 1), number(rng, type_)]
        rng.shuffle(parts)
        return Apply(type_, "multiply", tuple(parts))
    return cast(index(rng, rng.choice((vc.u32, vc.i32, vc.u64, vc.i64)), depth - 1), type_)


def plain(rng: random.Random, type_: Type) -> Expr:
    """Something times each number of the thread"""
    found = number(rng, type_)
    for axis in range(3):
        factor = Const(type_, rng.choice((1, 1, 2, 5, 6, 12, 15, 30, (1 << type_.bits) - 1, 1 << (type_.bits - 2))))
        part = Apply(type_, "multiply", (cast(Id(vc.u32, "global_id", axis), type_), factor))
        found = Apply(type_, "add", (found, part))
    return found


def value(of: Expr, thread: tuple[int, ...]) -> int:
    """What the expression is for a thread, in Python's integers: nothing here knows of sums."""
    match of:
        case Const():
            found = of.bits
        case Id():
            found = thread[of.axis]
        case Scalar():
            found = VALUES[of.name]
        case Apply(op="cast"):
            found = value(of.operands[0], thread)
        case Apply():
            a, b = (value(part, thread) for part in of.operands)
            found = a + b if of.op == "add" else a - b if of.op == "subtract" else a * b
        case _:
            raise AssertionError(of)
    found &= (1 << of.type.bits) - 1
    return found - (1 << of.type.bits) if of.type.kind == "signed" and found >> (of.type.bits - 1) else found


def holds(op: str, a: int, b: int) -> bool:
    return {"less": a < b, "less_equal": a <= b, "greater": a > b, "greater_equal": a >= b}[op]


def condition(rng: random.Random) -> Apply:
    type_ = rng.choice((vc.u32, vc.i32, vc.u64))
    sides = [index(rng, type_, rng.choice((0, 0, 1))), number(rng, type_)]
    rng.shuffle(sides)
    return Apply(bool_, rng.choice(COMPARISONS), tuple(sides))


def among(conditions: Conditions) -> set[tuple[int, ...]]:
    return {
        thread
        for thread in itertools.product(*map(range, THREADS))
        if all(low <= at <= high for at, (low, high) in zip(thread, conditions.axes, strict=True))
    }


@pytest.mark.parametrize("seed", range(4))
def test_equal_keys_are_equal_indices_and_own_elements_are_those_of_one_thread(seed: int) -> None:
    rng = random.Random(seed)
    equal = own = inside = 0
    for _ in range(600):
        extents = rng.choice((THREADS, (12, 1, 1), (4, 3, 1)))
        places = Places(extents)
        here = places.launched
        types = [rng.choice((vc.u32, vc.i32, vc.u64, vc.i64)) for _ in range(2)]
        one, other = (index(rng, type_, 3) for type_ in types)
        if rng.random() < 0.4:
            one = plain(rng, types[0])
            other = Apply(one.type, "add", (Const(one.type, 0), one))
        keys = [places.key(each, here) for each in (one, other)]
        threads = [*itertools.product(*map(range, extents))]
        values = [[value(each, thread) for thread in threads] for each in (one, other)]
        if keys[0] == keys[1] and keys[0] is not None:
            equal += 1
            assert values[0] == values[1]
        if keys[0] is None:
            continue
        if places.is_own(keys[0], here):
            own += 1
            assert len({*values[0]}) == len(values[0])
        if places.is_inside(keys[0], (40,), here):
            inside += 1
            assert all(0 <= each < 40 for each in values[0])
    assert min(equal, own, inside) > 20, (equal, own, inside)


@pytest.mark.parametrize("seed", range(4))
def test_assumed_conditions_hold_for_all_threads_that_meet_them(seed: int) -> None:
    rng = random.Random(seed)
    narrowed = 0
    for _ in range(400):
        places = Places(THREADS)
        said = condition(rng)
        truth = rng.random() < 0.5
        found = places.assumed(places.launched, said, truth)
        meets = {
            thread
            for thread in among(places.launched)
            if holds(said.op, *(value(side, thread) for side in said.operands)) == truth
        }
        assert meets <= among(found)
        if not found.others:
            narrowed += 1
            assert meets == among(found)
    assert narrowed > 40


def test_nothing_is_merged_where_nothing_is_known_of_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of arrays that a step writes and another one uses: no second analysis finds out what these sums say."""
    rng, pool = random.Random(3), programs(60)
    recordings = [recording(rng, pool)[0] for _ in range(300)]

    def merged() -> int:
        count = 0
        for steps in recordings:
            try:
                merging.merge(steps)
            except Refused:
                continue
            touched = [span for step in steps for span in {*step.spans.values()}]
            written = {step.spans["z"] for step in steps}
            count += any(touched.count(span) > 1 for span in written)
        return count

    assert merged() > 30
    monkeypatch.setattr(Places, "sum_of", lambda *_: None)
    assert merged() == 0
    steps = [first(), recorded(shift(), {"x": array(1), "z": array(2)})]
    with pytest.raises(Refused) as refused:
        merging.merge(steps)
    assert refused.value.kind is Kind.ELEMENT
    assert len(decide(steps)) == 2 or decide(steps)[0].barriers
