"""What lowering found out survives being stored, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.thin
@given(program=programs(), bounds=st.sampled_from(("check", "trap", "off")))
@settings(suppress_health_check=[HealthCheck.too_slow])
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


def lines(facts: bytes) -> list[list[str]]:
    return [line.split("\t") for line in facts.decode().split("\n")]


def joined(rows: list[list[str]]) -> bytes:
    return "\n".join("\t".join(row) for row in rows).encode()


words = st.text(max_size=5) | st.integers().map(str) | st.sampled_from([word for row in lines(FACTS) for word in row])


@pytest.mark.thin
@given(data=st.data())
def test_any_change_of_facts_is_facts_or_a_value_error(data):
    rows = lines(FACTS)
    row = data.draw(st.sampled_from(rows))
    at = data.draw(st.integers(0, len(row) - 1))
    match data.draw(st.sampled_from(("replace", "insert", "delete", "repeat", "drop"))):
        case "replace":
            row[at] = data.draw(words)
        case "insert":
            row.insert(at, data.draw(words))
        case "delete":
            del row[at]
        case "repeat":
            rows.append(row)
        case "drop":
            rows.remove(row)

    read(joined(rows))


def first(rows: list[list[str]], kind: str) -> list[str]:
    return next(row for row in rows if row[0] == kind)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.remove(next(row for row in rows if row[:2] == ["access", "x"])),
        lambda rows: rows.append(["covered", "y"]),
        lambda rows: rows.append(["other", "y"]),
        lambda rows: rows.append(["kernel", "y", "0", "0", "0", "0"]),
        lambda rows: first(rows, "parameter").__setitem__(2, "y"),
        lambda rows: first(rows, "parameter").__setitem__(1, "register"),
        lambda rows: first(rows, "parameter").__setitem__(3, "u128"),
        lambda rows: first(rows, "parameter").__setitem__(4, "-8"),
        lambda rows: first(rows, "site").__setitem__(4, "10000"),
        lambda rows: first(rows, "site").__setitem__(1, "race"),
        lambda rows: first(rows, "site").__setitem__(2, "not hex"),
        lambda rows: first(rows, "kernel").__setitem__(5, "2"),
        lambda rows: first(rows, "kernel").__setitem__(2, "8.0"),
        lambda rows: first(rows, "kernel").pop(1),
        lambda rows: rows.remove(first(rows, "kernel")),
    ],
)
def test_facts_of_another_program_are_refused(change):
    rows = lines(FACTS)
    change(rows)

    with pytest.raises(ValueError):
        stored.decode(joined(rows), TEXT, PROGRAM)


@pytest.mark.parametrize("message", ["", "a\ttab and a\nline", "\x00", "\ud800 alone", "Größe"])
def test_any_message_is_read_back(message):
    site = replace(LOWERED.sites[0], message=message)
    lowered = replace(LOWERED, sites=(site, *LOWERED.sites[1:]))

    assert stored.decode(stored.encode(lowered), TEXT, PROGRAM) == lowered


def test_a_text_that_is_no_text_is_refused():
    with pytest.raises(ValueError):
        stored.decode(FACTS, b"\xff", PROGRAM)
