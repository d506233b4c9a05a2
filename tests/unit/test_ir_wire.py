"""Wire bytes: one encoding for each program, nothing else decoded, no harm from hostile bytes."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.nodes import Apply, Barrier, Break, Const, Id, If, Let, Parameter, Return, SharedArray, Store
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import f32, u32
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.testing.strategies import programs

EVERYTHING = parse((Path(__file__).with_name("programs") / "everything.vir").read_text())
HEAD = b"VYCP\x01"
# Name "p", u32 index, a block of 1 x 1 x 1.
START = HEAD + b"\x00\x01p\x06\x01\x01\x01"
EMPTY = START + b"\x00\x00\x00\x00"


@given(programs())
def test_decode_inverts_encode(program: Program) -> None:
    assert Program.from_bytes(program.to_bytes()) == program


def test_program_with_every_node_comes_back() -> None:
    assert Program.from_bytes(EVERYTHING.to_bytes()) == EVERYTHING


def test_bytes_are_as_laid_out() -> None:
    program = Program(
        "copy",
        (Parameter("out", "out", f32, Apply(u32, "add", (Const(u32, 2), Const(u32, 300)))),),
        (Let("i", Id(u32, "global_id", 0)), Store("out", Const(u32, 7), Const(f32, 0x80000000)), Barrier()),
        block=(256, 1, 1),
        shared=(SharedArray("tile", f32, 3),),
    )
    expected = b"".join(
        (
            *(b"VYCP", b"\x01"),  # magic, version
            *(b"\x00\x04copy", b"\x06", b"\x80\x02\x01\x01"),  # name 0, index u32, block
            *(b"\x01", b"\x01\x03out", b"\x02", b"\x0c", b"\x01"),  # one parameter: name 1, out, f32, sized
            *(b"\x05\x01", b"\x00\x06\x02\x00\x00\x00", b"\x00\x06\x2c\x01\x00\x00"),  # add(2, 300)
            *(b"\x01", b"\x02\x04tile", b"\x0c", b"\x03"),  # one shared array: name 2, f32, 3
            *(b"\x00", b"\x03"),  # no work, three statements
            *(b"\x00", b"\x03\x01i", b"\x03\x00"),  # let, name 3, id global_id.x
            *(b"\x03", b"\x01", b"\x00\x06\x07\x00\x00\x00", b"\x00\x0c\x00\x00\x00\x80"),  # store to name 1
            b"\x0b",  # barrier
        )
    )

    assert program.to_bytes() == expected


def test_sources_are_no_part_of_the_bytes() -> None:
    text = EVERYTHING.text()

    assert parse(text, filename="one").to_bytes() == parse("\n\n" + text, filename="two").to_bytes()


def test_distinct_programs_have_distinct_fingerprints() -> None:
    program = parse("program p\nin a: f32\nin b: f32\nlet x = f32:0.0\n")
    variants = [
        program,
        replace(program, name="q"),
        replace(program, parameters=program.parameters[::-1]),
        replace(program, block=(128, 1, 1)),
        replace(program, block=(1, 256, 1)),
        replace(program, work=(Const(u32, 1),)),
        replace(program, shared=(SharedArray("t", f32, 1),)),
        replace(program, body=(Let("x", Const(f32, 0x80000000)),)),
        replace(program, body=(Let("y", Const(f32, 0)),)),
        replace(program, body=()),
    ]

    assert len({variant.fingerprint for variant in variants}) == len(variants)


def test_bytes_of_a_changed_copy_are_its_own() -> None:
    before = EVERYTHING.to_bytes()

    assert replace(EVERYTHING, name="other").to_bytes() != before


def test_invalid_program_has_no_bytes() -> None:
    with pytest.raises(ProgramError):
        Program("p", (), (Break(),)).to_bytes()


def test_bytes_in_a_view_are_read() -> None:
    assert Program.from_bytes(memoryview(EMPTY)) == Program("p", (), (), block=(1, 1, 1))  # type: ignore[arg-type]


def test_other_objects_are_no_bytes() -> None:
    with pytest.raises(TypeError):
        Program.from_bytes("VYCP")  # type: ignore[arg-type]


IF = b"\x05\x00\x01\x01"
REFUSED = {
    "nothing": b"",
    "other magic": b"VYCQ" + EMPTY[4:],
    "other version": b"VYCP\x7f" + EMPTY[5:],
    "a version above the first that has it": b"VYCP\x02" + EMPTY[5:],
    "a signed index in the first version": HEAD + b"\x00\x01p\x07\x01\x01\x01" + b"\x00\x00\x00\x00",
    "a byte too many": EMPTY + b"\x00",
    "a longer number than needed": HEAD + b"\x00\x01p\x06\x81\x00\x01\x01" + b"\x00\x00\x00\x00",
    "an endless number": HEAD + b"\x00\x01p\x06" + b"\xff" * 40,
    "a name out of order": HEAD + b"\x01\x01p\x06\x01\x01\x01" + b"\x00\x00\x00\x00",
    "a name written twice": START + b"\x00\x00\x00\x01\x00\x01\x01p\x03\x00",
    "a name that is not UTF-8": HEAD + b"\x00\x01\xff\x06\x01\x01\x01" + b"\x00\x00\x00\x00",
    "a name longer than the rest": HEAD + b"\x00\x7fp",
    "an unknown index type": HEAD + b"\x00\x01p\x63\x01\x01\x01" + b"\x00\x00\x00\x00",
    "a float index": HEAD + b"\x00\x01p\x0c\x01\x01\x01" + b"\x00\x00\x00\x00",
    "no threads": HEAD + b"\x00\x01p\x06\x01\x00\x01" + b"\x00\x00\x00\x00",
    "too many parameters": START + b"\x81\x02",
    "an unknown kind of parameter": START + b"\x01\x01\x01x\x04\x06\x00" + b"\x00\x00\x00",
    "a flag that is 2": START + b"\x01\x01\x01x\x02\x06\x02" + b"\x00\x00\x00",
    "more shared arrays than bytes": START + b"\x00\xff\xff\xff\xff\x0f",
    "four work expressions": START + b"\x00\x00\x04",
    "more statements than bytes": START + b"\x00\x00\x00\xff\xff\xff\xff\x0f",
    "an unknown statement": START + b"\x00\x00\x00\x01\x40",
    "an unknown expression": START + b"\x00\x00\x00\x01\x00\x01\x01x\x40",
    "an unknown op": START + b"\x00\x00\x00\x01\x00\x01\x01x\x05\x7f",
    "an op of the wrong types": START + b"\x00\x00\x00\x01\x00\x01\x01x\x05\x17\x00\x06\x00\x00\x00\x00",
    "an unknown id": START + b"\x00\x00\x00\x01\x00\x01\x01x\x03\x10",
    "an undefined name": START + b"\x00\x00\x00\x01\x00\x01\x01x\x01\x01",
    "a load from no buffer": START + b"\x00\x00\x00\x01\x00\x01\x01x\x04\x01\x00\x06\x00\x00\x00\x00",
    "a local declared twice": START + b"\x00\x00\x00\x02\x00\x01\x01x\x00\x01\x01\x00\x01\x00\x01\x01",
    "a bool of 2": START + b"\x00\x00\x00\x01\x00\x01\x01x\x00\x01\x02",
    "an unknown warp operation": START + b"\x00\x00\x00\x01\x0d\x0c",
    "a combining op that is none": START + b"\x00\x00\x00\x01\x0d\x09\x01\x01x\x00\x06\x00\x00\x00\x00\x03",
    "an unknown atomic": START + b"\x00\x00\x00\x01\x04\x0b",
    "a break outside of a loop": START + b"\x00\x00\x00\x01\x08",
    "a deep expression": START + b"\x00\x00\x00\x01\x00\x01\x01x" + b"\x05\x13" * 200 + b"\x00\x06\x00\x00\x00\x00",
    "deep nesting": START + b"\x00\x00\x00" + b"\x01" + (IF + b"\x01") * 70 + b"\x0a" + b"\x00" * 70,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_refused(data: bytes) -> None:
    with pytest.raises(ProgramError):
        Program.from_bytes(data)


def test_sixty_four_levels_of_nesting_are_read() -> None:
    data = START + b"\x00\x00\x00\x01" + (IF + b"\x01") * 64 + b"\x0a" + b"\x00" * 64
    program: Program = Program.from_bytes(data)
    levels = 0
    body = program.body
    while isinstance(body[0], If):
        levels, body = levels + 1, body[0].then

    assert (levels, body) == (64, (Return(),))


def test_every_truncation_is_refused() -> None:
    data = EVERYTHING.to_bytes()
    for length in range(len(data)):
        with pytest.raises(ProgramError):
            Program.from_bytes(data[:length])


def decoded_is_canonical(data: bytes) -> bool:
    """Whether `data` is refused or is exactly the encoding of what it decodes to."""
    try:
        program = Program.from_bytes(data)
    except ProgramError:
        return True
    return program.to_bytes() == data and parse(program.text()) == program


@pytest.mark.thin
@pytest.mark.slow
def test_every_change_of_one_byte_is_refused_or_canonical() -> None:
    source = random.Random(77)
    data = EVERYTHING.to_bytes()
    for at in range(len(data)):
        for value in {data[at] ^ 1, data[at] ^ 0x80, source.randrange(256)}:
            assert decoded_is_canonical(data[:at] + bytes((value,)) + data[at + 1 :])


@pytest.mark.thin
@pytest.mark.slow
def test_spliced_bytes_are_refused_or_canonical() -> None:
    source = random.Random(78)
    data = EVERYTHING.to_bytes()
    for _ in range(2000):
        start, end, at = sorted(source.randrange(len(data)) for _ in range(3))
        part = data[start : min(end, start + 20)]
        changed = data[:at] + part + data[at + source.choice((0, len(part))) :]
        assert decoded_is_canonical(changed)


HOSTILE = {
    "large counts everywhere": EMPTY[:5] + b"\xff\xff\xff\xff\x07" * 4000,
    "names": START + b"\x80\x02" + b"".join(b"%c\x02ab\x00\x06\x00" % (n % 256) for n in range(4000)),
    "shared arrays": START + b"\x00\xff\x0f" + b"\x01\x01t\x06\x01" + b"\x01\x06\x01" * 4000,
    "barriers": START + b"\x00\x00\x00\xff\xff\x7f" + b"\x0b" * 20000,
    "ops": START + b"\x00\x00\x00\x01\x00\x01\x01x" + b"\x05\x01" * 20000,
    "nested blocks": START + b"\x00\x00\x00" + b"\x01\x07" * 20000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_are_refused_in_little_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProgramError):
            Program.from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16 * len(data)
