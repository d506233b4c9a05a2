"""`evaluate(..., check="initialized")`: who reads or returns elements of an out without zeros that no thread wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.testing.strategies import programs_with_inputs

HEAD = "program k\nblock 4\nin x: u32\nout o: u32[size(x)] unzeroed\n"
FILL = "store o[global_id.x], u32:1\n"


def run(body: str, *args: Any, head: str = HEAD, **options: Any) -> Any:
    given = args or (np.arange(4, dtype=np.uint32),)
    return vc.evaluate(vc.parse(f"{head}\n{body}", filename="k.vir"), *given, check="initialized", **options)


@pytest.mark.parametrize(
    "body",
    [
        FILL,
        FILL + "store o[global_id.x], add(load(o[global_id.x]), u32:1)",
        "if less(load(x[global_id.x]), u32:2)\nstore o[global_id.x], u32:1\nelse\nstore o[global_id.x], u32:2\nend",
        "for i = u32:0 to size(o) step u32:1\nstore o[i], u32:1\nend",
        # Beyond the end a load is 0, and reads nothing.
        FILL + "let v = load(o[u32:4])",
        # Lanes that are not there read nothing.
        "if equal(global_id.x, u32:0)\nstore o[u32:0], u32:1\nlet v = load(o[global_id.x])\nend\n" + FILL,
        "atomic store o[global_id.x], u32:1 order relaxed scope device",
        "while\ntest less(global_id.x, u32:0)\nend\nvar go = bool_:true\nwhile\nlet first = equal(global_id.x, u32:0)\n"
        "if first\nstore o[u32:0], u32:0\nend\ntest go\nif first\nbreak\nend\ngo = bool_:false\nend\n" + FILL,
    ],
)
def test_what_was_written_may_be_read_and_returned(body: str) -> None:
    run(body)


READS = [
    ("let v = load(o[u32:2])", 2, 0, 0),
    ("let v = load(o[global_id.x])", 0, 0, 0),
    ("if greater(global_id.x, u32:1)\nlet v = load(o[global_id.x])\nend", 2, 1, 2),
    (
        "if less(global_id.x, u32:2)\nstore o[global_id.x], u32:1\nend\n"
        "store o[global_id.x], add(load(o[global_id.x]), u32:1)",
        2,
        2,
        2,
    ),
    ("let v = load(x[load(o[u32:3])])", 3, 0, 0),
    ("if equal(load(o[u32:1]), u32:0)\nend", 1, 0, 0),
    ("for i = load(o[u32:1]) to u32:1 step u32:1\nend", 1, 0, 0),
    ("while\nlet a = u32:0\ntest less(load(o[u32:1]), u32:0)\nend", 1, 0, 0),
    ('assert less(load(o[u32:1]), u32:0), "small"', 1, 0, 0),
    ('print "{}", load(o[u32:1])', 1, 0, 0),
    ("let v = where(less(global_id.x, u32:9), u32:1, load(o[u32:1]))", 1, 0, 0),
    ("atomic add o[global_id.x], u32:1 order relaxed scope device", 0, 0, 0),
    ("let v = atomic exchange o[u32:3], u32:1 order relaxed scope device", 3, 0, 0),
    ("let v = atomic load o[u32:3] order relaxed scope device", 3, 0, 0),
    ("store o[load(o[global_id.x])], u32:1", 0, 0, 0),
]


@pytest.mark.parametrize(("body", "index", "statement", "thread"), READS, ids=[row[0] for row in READS])
def test_a_read_is_named(body: str, index: int, statement: int, thread: int) -> None:
    with pytest.raises(vc.UninitializedError) as caught:
        run(body)

    error = caught.value
    assert (error.program, error.buffer, error.index) == ("k", "o", index)
    assert (error.statement, error.thread) == (statement, thread)
    assert error.source is not None
    assert str(error) == (
        f"program k reads o[{index}], which no thread wrote, at statement {statement} (k.vir:{error.source[1]}) in "
        f"thread {thread}: o is not zeroed"
    )


def test_a_result_is_named() -> None:
    with pytest.raises(vc.UninitializedError) as caught:
        run("if greater(load(x[global_id.x]), u32:1)\nstore o[global_id.x], u32:1\nend")

    error = caught.value
    assert (error.buffer, error.index, error.statement, error.thread, error.source) == ("o", 0, None, None, None)
    assert str(error) == "program k returns o[0], which no thread wrote: o is not zeroed (elements not written: 2)"


def test_an_element_of_several_axes_has_all_its_indices() -> None:
    with pytest.raises(
        vc.UninitializedError,
        match=r"returns o\[1, 2\], which no thread wrote: o is not zeroed .elements not written: 1",
    ) as caught:
        run(
            "if less(global_id.x, u32:5)\nstore o[floor_divide(global_id.x, u32:3), remainder(global_id.x, u32:3)], "
            "u32:1\nend",
            np.zeros(6, np.uint32),
            head="program k\nblock 4\nin x: u32\nout o: u32[u32:2, u32:3] unzeroed\n",
        )

    assert caught.value.index == 5


def test_an_array_given_by_out_counts_as_unwritten() -> None:
    given = np.full(4, 7, np.uint32)
    with pytest.raises(vc.UninitializedError, match="returns o"):
        run("let v = u32:0", out=given)

    assert given.tolist() == [7] * 4


def test_later_blocks_may_read_what_earlier_ones_wrote() -> None:
    size = 1 << 17  # more lanes than the interpreter advances together
    body = FILL + "if greater(global_id.x, u32:0)\nlet v = load(o[subtract(global_id.x, u32:1)])\nend"

    assert run(body, np.zeros(size, np.uint32)).sum() == size


def test_outs_with_zeros_and_other_buffers_are_not_watched() -> None:
    head = "program k\nblock 4\nin x: u32\nout o: u32[size(x)]\ninout h: u32\nshared t: u32[4]\nlocal l: u32[2]\n"
    body = "let a = load(o[u32:0])\nlet b = load(h[u32:0])\nlet c = load(t[u32:0])\nlet d = load(l[u32:0])"

    run(body, np.zeros(2, np.uint32), np.zeros(2, np.uint32), head=head)


def test_an_empty_out_has_nothing_to_write() -> None:
    assert run(FILL, np.zeros(0, np.uint32)).size == 0


@pytest.mark.parametrize("check", ["races", "", ("initialized",), True])
def test_other_checks_are_refused(check: Any) -> None:
    with pytest.raises(ValueError, match=r'vc\.evaluate has check="initialized"'):
        vc.evaluate(vc.parse(f"{HEAD}\n{FILL}"), np.zeros(2, np.uint32), check=check)


@pytest.mark.thin
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_checked_run_gives_the_results_of_another(data: st.DataObject) -> None:
    program, arguments = data.draw(programs_with_inputs())
    expected = vc.evaluate(program, *arguments)
    found = vc.evaluate(program, *arguments, check="initialized")

    pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
    for left, right in pairs:
        assert left.tobytes() == right.tobytes()
