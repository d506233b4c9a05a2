"""What only moves bits keeps sign and payload of a NaN, in all types: the device agrees with the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.types import FLOATS
from vyre_cuda.testing.conformance import Count

pytestmark = pytest.mark.conformance

N = 64
# An infinity, the most and the least significant bit of the fraction.
FACTS = {"f16": (0x7C00, 0x200, 1), "bf16": (0x7F80, 0x40, 1), "f32": (0x7F800000, 0x400000, 1)}
FACTS["f64"] = (0x7FF0000000000000, 0x8000000000000, 1)


def patterns(type_: vc.Type) -> list[int]:
    """Quiet and signaling NaN of both signs with several payloads, infinities, ones and zeros."""
    infinity, quiet, last = FACTS[type_.name]
    sign = 1 << type_.bits - 1
    positive = [infinity | quiet, infinity | last, infinity | quiet | last, infinity | 2 * quiet - 1, infinity]
    positive += [int(np.ones(1, type_.dtype).view(type_.unsigned)[0]), 0]
    return positive + [sign | each for each in positive]


def literal(type_: vc.Type) -> vc.Value:
    infinity, quiet, last = FACTS[type_.name]
    bits = 1 << type_.bits - 1 | infinity | quiet | last
    return type_(np.array([bits], type_.unsigned).view(type_.dtype)[0])


def by_variable(b: vc.Builder, x: Any, y: Any, i: vc.Value, type_: vc.Type) -> Any:
    v = b.var("v", x[i])
    with b.if_(i % 2 == 0):
        v.set(y[i])
    return v


def by_variables_that_swap(b: vc.Builder, x: Any, y: Any, i: vc.Value, type_: vc.Type) -> Any:
    v, w = b.var("v", x[i]), b.var("w", y[i])
    with b.for_(0, i):
        t = v.read()
        v.set(w)
        w.set(t)
    return v


def by_shared_memory(b: vc.Builder, x: Any, y: Any, i: vc.Value, type_: vc.Type) -> Any:
    tile = b.shared("tile", type_, N)
    tile[vc.thread_id.x] = x[i]
    b.barrier()
    return tile[N - 1 - vc.thread_id.x]


WAYS: list[Callable[..., Any]] = [
    by_variable,
    by_variables_that_swap,
    by_shared_memory,
]
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "load": lambda b, x, y, i, t: x[i],
    "where": lambda b, x, y, i, t: vc.where(i % 3 == 0, x[i], y[i]),
    "where of a literal": lambda b, x, y, i, t: vc.where(i % 3 == 0, literal(t), y[i]),
    "copysign": lambda b, x, y, i, t: vc.copysign(x[i], y[i]),
    "copysign of a literal": lambda b, x, y, i, t: vc.copysign(vc.copysign(literal(t), x[i]), literal(t)),
    "copysign by a scalar": lambda b, x, y, i, t: vc.copysign(x[i], b.scalar("s", t)),
    "both": lambda b, x, y, i, t: vc.where(vc.signbit(x[i]), vc.copysign(y[i], x[i]), x[i]),
    "shuffle": lambda b, x, y, i, t: b.shuffle_xor(x[i], 1),
    "broadcast": lambda b, x, y, i, t: b.broadcast(y[i], 3),
}


@pytest.mark.thin(5)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("precision", ["ieee", "ftz"])
@pytest.mark.parametrize("make", [*WAYS, *EXPRESSIONS.values()], ids=[*(w.__name__ for w in WAYS), *EXPRESSIONS])
def test_bits_of_a_nan_are_moved(
    device: vc.Device, make: Callable[..., Any], precision: str, type_: vc.Type, count_device: Count
) -> None:
    b = vc.Builder("moves", block=N)
    x, y, out = b.input("x", type_), b.input("y", type_), b.output("out", type_, size=N)
    i = b.let("i", vc.global_id.x)
    out[i] = make(b, x, y, i, type_)
    program = b.build()
    bits = np.array(patterns(type_), type_.unsigned)
    first, second = np.resize(bits, N).view(type_.dtype), np.resize(np.roll(bits, 5)[:-1], N).view(type_.dtype)
    scalars = [second[1]] if len(program.parameters) == 4 else []

    expected = vc.evaluate(program, first, second, *scalars).view(type_.unsigned)
    got = device.compile(program, precision=precision)(first, second, *scalars).view(type_.unsigned)

    np.testing.assert_array_equal(expected, got)
    assert (got >> (type_.bits - 1)).any()
    for name in ("copysign", "where"):
        if make is EXPRESSIONS[name] and precision == "ieee":
            count_device("ops", name, type_.name, N)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_signbit_of_a_nan_is_its_sign(
    device: vc.Device, type_: vc.Type, count_device: Count, count_interpreter: Count
) -> None:
    b = vc.Builder("signs", block=N)
    x, out = b.input("x", type_), b.output("out", vc.bool_, size=N)
    i = b.let("i", vc.global_id.x)
    out[i] = vc.signbit(x[i])
    bits = np.resize(np.array(patterns(type_), type_.unsigned), N)

    signs = bits >> (type_.bits - 1) == 1
    program = b.build()

    np.testing.assert_array_equal(signs, vc.evaluate(program, bits.view(type_.dtype)))
    count_interpreter("ops", "signbit", type_.name, N)
    np.testing.assert_array_equal(signs, device.run(program, bits.view(type_.dtype)))
    count_device("ops", "signbit", type_.name, N)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_copysign_of_a_nan_has_the_bits_of_one_and_the_sign_of_the_other(
    device: vc.Device, type_: vc.Type, count_device: Count, count_interpreter: Count
) -> None:
    b = vc.Builder("signed", block=N)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        out[i] = vc.copysign(x[i], y[i])
    program = b.build()
    found = np.array(patterns(type_), type_.unsigned)
    first, second = (np.ascontiguousarray(part.ravel()) for part in np.meshgrid(found, found))
    sign = np.array(1 << (type_.bits - 1), type_.unsigned)
    wanted = (first & ~sign) | (second & sign)

    np.testing.assert_array_equal(
        wanted, vc.evaluate(program, first.view(type_.dtype), second.view(type_.dtype)).view(type_.unsigned)
    )
    count_interpreter("ops", "copysign", type_.name, first.size)
    np.testing.assert_array_equal(
        wanted, device.run(program, first.view(type_.dtype), second.view(type_.dtype)).view(type_.unsigned)
    )
    count_device("ops", "copysign", type_.name, first.size)
