"""Outs with `zeroed=False`: text, bytes, rules, and what is where nothing was written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors.signature import ABOVE, AXES, COVERED, LOOPS, UNSPECIFIED, cover_of, signature
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.passes.specialize import specialized

FILLED = 0xA5A5A5A5


def scatter(*, zeroed: bool, element: vc.Type = vc.u32) -> vc.Program:
    """out[at[i]] = i: written where `at` says."""
    b = vc.Builder("scatter", block=32)
    at = b.input("at", vc.u32)
    out = b.output("out", element, size=8, zeroed=zeroed)
    with b.if_(vc.global_id.x < at.size):
        out[at[vc.global_id.x]] = element(vc.global_id.x)
    b.work(at.size)
    return b.build()


@pytest.mark.parametrize(
    "declared", ["out o: u32", "out o: u32[u32:4]", "out o: f16[u32:4, u32:5]", "out o: f16[:, :]"]
)
def test_text_and_bytes_keep_it(declared: str) -> None:
    zeroed, program = vc.parse(f"program k\n{declared}\n"), vc.parse(f"program k\n{declared} unzeroed\n")

    assert f"{declared} unzeroed\n" in program.text()
    assert [p.zeroed for p in program.parameters] == [False]
    assert vc.parse(program.text()) == vc.Program.from_bytes(program.to_bytes()) == program
    assert program != zeroed
    assert program.fingerprint != zeroed.fingerprint


def test_bytes_of_other_programs_are_those_of_their_version() -> None:
    assert scatter(zeroed=True).to_bytes()[4] == 1
    assert scatter(zeroed=False).to_bytes()[4] == 7
    assert replace(scatter(zeroed=False), parameters=scatter(zeroed=True).parameters) == scatter(zeroed=True)


def test_bytes_of_another_version_are_refused() -> None:
    data = bytearray(scatter(zeroed=False).to_bytes())
    data[4] = 6

    with pytest.raises(vc.ProgramError, match="the program is one of version 7"):
        vc.Program.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("inout o: u32 unzeroed", "o is an inout; only an out can be unzeroed"),
        ("in o: u32 unzeroed", "o is an in; only an out can be unzeroed"),
        ("scalar o: u32 unzeroed", "o is a scalar; only an out can be unzeroed"),
        ("out o: bool_ unzeroed", "o is of bool_, which is 0 or 1: it cannot be unzeroed"),
        ("out o: u32 unzeroed unzeroed", "unexpected `unzeroed`"),
        ("out o: u32 unzeroed[u32:4]", "unexpected `\\["),
    ],
)
def test_what_has_no_unspecified_contents_is_refused(declared: str, message: str) -> None:
    with pytest.raises(vc.ProgramError, match=message):
        vc.parse(f"program k\n{declared}\n")


def test_a_builder_takes_true_or_false() -> None:
    with pytest.raises(TypeError, match="zeroed of out is an int; it must be True or False"):
        vc.Builder("k").output("out", vc.u32, size=1, zeroed=0)  # type: ignore[arg-type]


def test_a_node_made_by_hand_needs_a_bool() -> None:
    program = scatter(zeroed=False)
    broken = replace(program, parameters=(program.parameters[0], replace(program.parameters[1], zeroed=1)))

    with pytest.raises(vc.ProgramError, match=r"Parameter.zeroed is 1; it must be a bool"):
        broken.to_bytes()


@pytest.mark.parametrize("element", [vc.u8, vc.i16, vc.u32, vc.f64], ids=str)
def test_the_interpreter_fills_what_is_not_written(element: vc.Type) -> None:
    expected = np.full(8 * element.itemsize, 0xA5, np.uint8).view(element.dtype)
    expected[[3, 5]] = [0, 1]

    found = vc.evaluate(scatter(zeroed=False, element=element), np.array([3, 5], np.uint32))

    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_threads_that_read_what_nobody_wrote_get_the_same() -> None:
    b = vc.Builder("read", block=4)
    out = b.output("out", vc.u32, size=4, zeroed=False)
    with b.if_(vc.global_id.x > 0):
        out[vc.global_id.x] = out[vc.global_id.x] + 1

    assert vc.evaluate(b.build()).tolist() == [FILLED, *[FILLED + 1] * 3]


def test_an_array_given_by_out_holds_nothing_of_before() -> None:
    given = np.zeros(8, np.uint32)

    vc.evaluate(scatter(zeroed=False), np.array([1], np.uint32), out=given)

    assert given.tolist() == [FILLED, 0, *[FILLED] * 6]


@vc.kernel
def made(at: vc.In[vc.u32]) -> None:
    first = vc.output(vc.u32, 4, zeroed=False)
    second = vc.output(vc.u32, (2, 2))
    first[at[0]] = 1
    second[0, 0] = first[at[0]]


@vc.kernel(block=32, zeroed=False)
def given(at: vc.In[vc.u32], out: vc.Out[vc.u32], plane: vc.Out[vc.u32, 2]) -> None:
    own = vc.output(vc.u32, 4)
    out[at[0]] = 1
    plane[0, 0] = own[0]


def test_kernel_functions_say_it_of_each_output_and_of_their_parameters() -> None:
    assert {p.name: p.zeroed for p in made.program().parameters if p.kind == "out"} == {"first": False, "second": True}
    assert {p.name: p.zeroed for p in given.program().parameters} == {
        "at": True,
        "out": False,
        "plane": False,
        "own": True,
    }


def test_a_kernel_function_run_as_python_has_the_same_contents() -> None:
    at = np.array([2], np.uint32)

    for found, expected in zip(made.python(at), vc.evaluate(made, at), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert made.python(at)[0].tolist() == [FILLED, FILLED, 1, FILLED]


def test_specialized_programs_keep_it() -> None:
    b = vc.Builder("k")
    x = b.input("x", vc.u32)
    b.output("out", vc.u32, size=x.size, zeroed=False)
    b.output("plane", vc.u32, shape=(x.size, 2), zeroed=False)

    program = b.build()
    found = specialized(program, known_values(program, {"x.size": 4}))
    assert [p.zeroed for p in found.parameters] == [True, False, False]


COVERS = {
    "global_id.x": COVERED,
    "multiply(global_id.x, u32:2)": 0,
}


@pytest.mark.parametrize("index", COVERS)
def test_flags_say_it_beside_the_coverage(index: str) -> None:
    program = vc.parse(f"program k\nin x: u32\nout o: u32[size(x)] unzeroed\n\nstore o[{index}], u32:1\n")

    flags = signature(program, lower(program, Target.parse("sm_90"))).bindings[1][1]

    assert flags & ~1 == COVERS[index] | UNSPECIFIED


@pytest.mark.parametrize(
    "flags", [COVERED, COVERED | LOOPS | 16383 << ABOVE, COVERED | AXES | 1 << 4 | 1023 << ABOVE, COVERED | 2 << ABOVE]
)
def test_coverage_is_read_from_flags_with_it(flags: int) -> None:
    assert cover_of(flags | UNSPECIFIED) == cover_of(flags) is not None
