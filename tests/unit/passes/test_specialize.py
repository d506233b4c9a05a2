"""Known values in place of scalars, sizes and extents: what is known, what is refused, and that the meaning stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

import vyre_cuda as vc
from examples import examples
from vyre_cuda.ir.call.known import Known, known_values, python_values
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.nodes import Scalar, Size
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.passes.specialize import specialized
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.strategies import programs_with_inputs

EXAMPLES = examples()


def rows() -> vc.Program:
    """Rows of an image, flat: y[i] = x[i] + k where i % w < w - 1."""
    b = vc.Builder("rows", block=64, index=vc.i32)
    w, k, wide = b.scalar("w", vc.i32), b.scalar("k", vc.f32), b.scalar("wide", vc.bool_)
    x = b.input("x", vc.f32)
    m = b.input("m", vc.f32, shape=(None, w))
    y = b.output("y", vc.f32, size=x.size)
    z = b.output("z", vc.f32, size=w * 2)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = vc.where(wide, x[i % w], x[i] + k) + m[i // w, i % w]
    with b.if_(i < z.size):
        z[i] = vc.f32(m.shape[0] + m.size)
    return b.build()


def known(given: Mapping[str, Any]) -> tuple[Known, ...]:
    return known_values(rows(), given)


def named_in(program: vc.Program) -> set[str]:
    """The scalars, sizes and extents that the body reads."""
    found = expressions(expr for statement in statements(program.body) for expr in operands(statement))
    names = [(e.name if isinstance(e, Scalar) else e.buffer, e) for e in found if isinstance(e, (Scalar, Size))]
    return {name if not isinstance(e, Size) or e.axis is None else f"{name}[{e.axis}]" for name, e in names}


# ---- what is given ---------------------------------------------------------------------------------------------------


def test_values_have_one_order_whatever_the_callers() -> None:
    given = {"m.shape[0]": 3, "x.size": 28, "w": 7, "k": 1.5}

    assert [each.name for each in known(given)] == ["w", "k", "x.size", "m.shape[0]"]
    assert known(given) == known(dict(reversed(given.items())))
    assert python_values(rows(), known(given)) == given
    assert known({}) == known_values(rows(), None) == ()


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"h": 1}, ValueError, "no 'h'; there are w, k, wide, x.size, m.size, y.size, z.size, m.shape"),
        ({"x": 1}, ValueError, "no 'x'"),
        ({"w.size": 1}, ValueError, r"no 'w\.size'"),
        ({"x.shape[0]": 1}, ValueError, "no 'x.shape"),
        ({"m.shape[2]": 1}, ValueError, "no 'm.shape"),
        ({3: 1}, ValueError, "no 3"),
        ({"w": 2**31}, OverflowError, r"w: 2147483648 is out of range of i32"),
        ({"w": 1.0}, TypeError, r"w: 1\.0 is a float"),
        ({"w": True}, TypeError, "w: True"),
        ({"wide": 1}, TypeError, "wide: 1"),
        ({"k": 1e40}, OverflowError, "k: 1e.40 is beyond the largest finite f32"),
        ({"k": "1"}, TypeError, "k: '1'"),
        ({"x.size": -1}, OverflowError, r"x\.size: -1 is out of range of i32 indices"),
        ({"x.size": 2**31}, OverflowError, r"x\.size: 2147483648"),
        ({"x.size": 2.0}, TypeError, r"x\.size: 2\.0 where an int is needed"),
        ({"x.size": True}, TypeError, r"x\.size: True"),
        ([("w", 1)], TypeError, "a dict of values by name"),
    ],
)
def test_what_a_program_cannot_have_is_refused_by_name(given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        known(given)


@pytest.mark.parametrize("name", ["w", "x.size"])
def test_a_symbol_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"vc\.symbol\('w'\).*only a number is known"):
        known({name: vc.symbol("w")})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"w": 7, "z.size": 13}, r"z\.size is 13, and must be 14 as it is declared"),
        ({"x.size": 28, "y.size": 29}, r"y\.size is 29, and must be 28"),
        ({"w": 7, "m.shape[1]": 8}, r"m\.shape\[1\] is 8, and must be 7"),
        ({"m.size": 20, "m.shape[0]": 3, "w": 7}, r"m\.size is 20, and must be 21"),
        ({"m.shape[0]": 2**20, "m.shape[1]": 2**20}, r"m\.size would be 1099511627776"),
        ({"w": -1}, r"m\.shape\[1\] is -1"),
        ({"w": 2**30}, r"z\.size is 2147483648, which is out of range of i32; w = 1073741824"),
    ],
)
def test_sizes_that_the_declarations_contradict_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        known(given)


# ---- what becomes of it ----------------------------------------------------------------------------------------------


def test_nothing_known_leaves_the_program_itself() -> None:
    program = rows()

    assert specialized(program, ()) is program


def test_what_follows_from_known_values_is_known_too() -> None:
    """The shape of m and the size of z follow from w and one extent."""
    program = specialized(rows(), known({"w": 7, "m.shape[0]": 4}))

    assert named_in(rows()) == {"w", "k", "wide", "y", "z", "m", "m[0]"}
    assert named_in(program) == {"k", "wide", "y"}
    assert [p.name for p in program.parameters] == [p.name for p in rows().parameters]
    validate.check(program)


def test_known_values_decide_branches() -> None:
    b = vc.Builder("k", block=64)
    h, limit = b.inout("h", vc.u32), b.scalar("n", vc.u32)
    with b.if_(limit < 3):
        h[0] = limit
    with b.else_():
        h[0] = limit + 1
    program = b.build()

    for n, stored in ((2, 2), (3, 4)):
        text = vc.ptx(prepared(specialized(program, known_values(program, {"n": n}))))

        assert "bra" not in text
        assert re.findall(r"st\.global\.u32 \[\S+\], (\S+);", text) == [str(stored)]


@pytest.mark.thin
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(case=programs_with_inputs())
def test_random_programs_mean_the_same_for_their_values(case: tuple[vc.Program, list[Any]]) -> None:
    program, arguments = case
    given = [p for p in program.parameters if p.kind != "out"]
    values: dict[str, Any] = {}
    for parameter, value in zip(given, arguments, strict=True):
        if not parameter.is_buffer:
            values[parameter.name] = value
            continue
        values[f"{parameter.name}.size"] = value.size
        values |= {
            f"{parameter.name}.shape[{axis}]": n for axis, n in enumerate(value.shape if parameter.shape else ())
        }
    note(program.text())
    note(str(values))

    result = specialized(program, known_values(program, values))

    validate.check(result)
    assert not named_in(result) & values.keys()
    assert_same(vc.evaluate(program, *arguments), vc.evaluate(result, *arguments))
    assert_same(vc.evaluate(program, *arguments), vc.evaluate(prepared(result), *arguments))


def test_a_step_that_would_be_zero_stays_as_it_is() -> None:
    b = vc.Builder("k", block=1)
    h, n = b.inout("h", vc.u32), b.scalar("n", vc.u32)
    with b.for_(0, 4, n):
        h[0] = h[0] + 1
    program = b.build()

    result = specialized(program, known_values(program, {"n": 0}))

    validate.check(result)
    np.testing.assert_array_equal(vc.evaluate(result, np.zeros(1, np.uint32), 0), [0])
