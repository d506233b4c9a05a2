"""What lowering found out survives being stored, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors import stored
from vyre_cuda.testing.strategies import programs

TARGET = Target.parse("sm_90")


def everything() -> vc.Program:
    """A program with every kind of parameter and of site."""
    b = vc.Builder("everything", block=64)
    x, out, a = b.input("x", vc.bf16), b.output("out", vc.f32, size=256), b.scalar("a", vc.bool_)
    tile = b.shared("tile", vc.u32, 64)
    b.assert_(a, "a says so")
    out[vc.global_id.x] = vc.f32(x[vc.global_id.x + 1])
    tile[vc.thread_id.x] = x.size
    b.grid_barrier()
    b.assert_(tile[0] > 3, "Größe")
    return b.build()


PROGRAM = everything()
LOWERED = lower(PROGRAM, TARGET, bounds="trap")
FACTS = stored.encode(LOWERED)
TEXT = LOWERED.ptx.encode()


@given(program=programs(), bounds=st.sampled_from(("check", "trap", "off")))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
def test_what_was_found_out_is_read_back(program, bounds):
    expected = lower(program, TARGET, bounds=bounds)

    assert stored.decode(stored.encode(expected), expected.ptx.encode(), program) == expected


def test_every_kind_of_fact_is_read_back():
    kinds = {parameter.kind for parameter in LOWERED.parameters}

    assert kinds == {"buffer", "scalar", "size", "report", "grid_barrier"}
    assert {site.kind for site in LOWERED.sites} == {"assert", "bounds"}
    assert stored.decode(FACTS, TEXT, PROGRAM) == LOWERED


def test_sites_have_the_lines_of_the_program_that_asks():
    """An equal program may be written elsewhere."""
    other = vc.parse(PROGRAM.text())
    found = stored.decode(FACTS, TEXT, other)

    assert [site.statement for site in found.sites] == [site.statement for site in LOWERED.sites]
    assert [site.source for site in found.sites] != [site.source for site in LOWERED.sites]
    assert all(site.source is not None and site.source[0] != __file__ for site in found.sites)


def read(facts: bytes, text: bytes = TEXT) -> None:
    try:
        stored.decode(facts, text, PROGRAM)
    except ValueError:
        return


@given(data=st.binary(max_size=200))
def test_any_bytes_are_facts_or_a_value_error(data):
    read(data)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_any_change_of_facts_is_facts_or_a_value_error(data):
    facts = json.loads(FACTS)
    place = facts
    while True:
        at = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[at]
        if isinstance(inner, (dict, list)) and inner and data.draw(st.booleans()):
            place = inner
            continue
        break
    if data.draw(st.booleans()):
        place[at] = data.draw(values)
    else:
        del place[at]

    read(json.dumps(facts).encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["access"].pop("x"),
        lambda f: f["covered"].append("y"),
        lambda f: f["parameters"][0].__setitem__(1, "y"),
        lambda f: f["parameters"][0].__setitem__(0, "register"),
        lambda f: f["sites"][0].__setitem__(3, 10_000),
        lambda f: f["sites"][0].__setitem__(0, "race"),
        lambda f: f.__setitem__("cooperative", 1),
        lambda f: f.__setitem__("parameter_bytes", 8.0),
        lambda f: f.pop("entry"),
    ],
)
def test_facts_of_another_program_are_refused(change):
    facts = json.loads(FACTS)
    change(facts)

    with pytest.raises(ValueError):
        stored.decode(json.dumps(facts).encode(), TEXT, PROGRAM)


def test_a_text_that_is_no_text_is_refused():
    with pytest.raises(ValueError):
        stored.decode(FACTS, b"\xff", PROGRAM)
