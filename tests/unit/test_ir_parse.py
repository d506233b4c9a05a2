"""Text to programs: the inverse of printing, every syntax error with its line, and no harm from hostile text."""

from __future__ import annotations

import math
import random
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.literals import format_literal, parse_literal
from vyre_cuda.ir.nodes import Assert, Const, Let, Parameter
from vyre_cuda.ir.parse import parse
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.scalars import value_of
from vyre_cuda.ir.text import format_statement
from vyre_cuda.ir.types import FLOATS, Type, f32, u32
from vyre_cuda.ir.walk import expressions, operands, statements
from vyre_cuda.testing.edges import bit_patterns
from vyre_cuda.testing.strategies import programs

EVERYTHING = (Path(__file__).with_name("programs") / "everything.vir").read_text()


@settings(max_examples=60)
@given(programs())
def test_parse_inverts_printing(program: Program) -> None:
    assert parse(program.text()) == program


def test_layout_and_comments_mean_nothing() -> None:
    lines = [f"\t {line.replace(' ', '   ').strip()} # note\r" for line in EVERYTHING.split("\n") if '"' not in line]
    plain = "\n".join(line for line in EVERYTHING.split("\n") if '"' not in line)

    assert parse("\n\n".join(lines)) == parse(plain)


def test_header_lines_stand_in_any_order() -> None:
    first = parse("program p\nblock 4\nindex u32\nwork n\nscalar n: u32\nshared t: f32[2]\n")

    assert first == parse("program p\nshared t: f32[2]\nscalar n: u32\nwork n\nindex u32\nblock 4")


def test_block_and_index_have_defaults() -> None:
    assert parse("program p") == Program("p", (), (), block=(256, 1, 1), index=u32)


def test_words_of_the_format_may_be_names() -> None:
    words = [
        "let",
        "var",
        "store",
        "end",
        "test",
        "to",
        "step",
        "order",
        "scope",
        "size",
        "add",
        "in",
        "out",
        "block",
        "warp",
        "combine",
        "lane",
    ]
    text = "program p\n" + "".join(f"in {word}: f32\n" for word in words)

    assert [parameter.name for parameter in parse(text).parameters] == words


def test_words_of_the_format_may_be_variables() -> None:
    text = "program p\nblock 1\nindex u32\n\nvar atomic = u32:1\nlet test = atomic\natomic = add(test, atomic)\n"

    assert text == parse(text).text()


def test_every_node_knows_its_line() -> None:
    program = parse(EVERYTHING, filename="everything.vir")
    lines = EVERYTHING.split("\n")

    for statement in statements(program.body):
        assert statement.source is not None
        file, line = statement.source
        assert file == "everything.vir"
        assert format_statement(statement).split()[0] == lines[line - 1].split()[0]
        for expr in expressions(operands(statement)):
            assert expr.source is not None
    assert [lines[p.source[1] - 1].split()[1] for p in program.parameters if p.source] == [
        f"{p.name}:" for p in program.parameters
    ]


def test_string_keeps_every_character() -> None:
    (statement,) = parse('program p\nassert bool_:true, "a\\n\\t\\r\\"\\\\\\u{1f600}#é"  # note').body

    assert isinstance(statement, Assert)
    assert statement.message == 'a\n\t\r"\\\U0001f600#é'


def test_size_may_use_what_is_declared_below() -> None:
    (out, _) = parse("program p\nout o: f32[n]\nscalar n: u32").parameters

    assert isinstance(out, Parameter)
    assert out.size is not None
    assert out.size.type is u32


# ---- literals -------------------------------------------------------------------------------------------------------


def bits_of_literal(text: str) -> int:
    (statement,) = parse(f"program p\nlet v = {text}").body
    assert isinstance(statement, Let)
    assert isinstance(statement.value, Const)
    return statement.value.bits


def nearest_even(exact: Fraction) -> int:
    """The bits of the float32 nearest to a positive number, found by search."""
    low, high = 0, 0x7F800000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(value_of(f32, middle)) <= exact else (low, middle)
    below = Fraction(value_of(f32, low))
    above = Fraction(value_of(f32, high)) if high < 0x7F800000 else Fraction(2) ** 128
    if exact - below == above - exact:
        return low if low % 2 == 0 else high
    return low if exact - below < above - exact else high


@given(st.integers(0, 0x7F7FFFFE), st.integers(-3, 3), st.integers(20, 90))
def test_decimal_near_the_middle_of_two_floats_is_rounded_once(bits: int, nudge: int, digits: int) -> None:
    middle = (Fraction(value_of(f32, bits)) + Fraction(value_of(f32, bits + 1))) / 2
    scale = 10 ** (digits + max(0, -math.floor(math.log10(middle))))
    scaled = round(middle * scale) + nudge
    text = f"{scaled}e-{len(str(scale)) - 1}"
    exact = Fraction(scaled, scale)

    assert bits_of_literal(f"f32:{text}"[:128]) == nearest_even(exact)


def test_literal_just_below_the_overflow_threshold_is_the_largest() -> None:
    threshold = 2**128 - 2**103

    assert bits_of_literal(f"f32:{threshold - 1}") == 0x7F7FFFFF


@pytest.mark.parametrize(
    "text, bits",
    [
        ("u32:4294967295", 2**32 - 1),
        ("i32:-2147483648", 2**31),
        ("f32:1", 0x3F800000),
        ("f32:-inf", 0xFF800000),
        ("f32:nan", 0x7FC00000),
        ("f32:bits(0x80000000)", 0x80000000),
        ("f32:1e-999999999", 0),
        ("i8:-128", 0x80),
        ("u64:18446744073709551615", 2**64 - 1),
        ("f16:65519.99", 0x7BFF),
        ("f16:1e-8", 0),
        ("f16:nan", 0x7E00),
        ("bf16:1.00390625", 0x3F80),
        ("bf16:1.00390625000000000000000001", 0x3F81),
        ("bf16:-inf", 0xFF80),
        ("f64:0.1", 0x3FB999999999999A),
        ("f64:-0.0", 1 << 63),
        ("bool_:false", 0),
    ],
)
def test_literal_means(text: str, bits: int) -> None:
    assert bits_of_literal(text) == bits


@pytest.mark.parametrize(
    "text",
    [
        "u32:4294967296",
        "u32:-1",
        "i32:2147483648",
        "i32:1.5",
        "u32:0x10",
        "u32:true",
        "u32:nan",
        "f32:3.4028236e38",
        "f32:1e999999999",
        "f32:bits(0x1ffffffff)",
        "f32:.5",
        "f32:true",
        "bool_:1",
        "u32: 7",
        "u32:" + "9" * 200,
        "u128:1",
        "u8:256",
        "i8:-129",
        "i64:9223372036854775808",
        "u64:-1",
        "f16:65520",
        "bf16:3.4e38",
        "f64:1e309",
        "bf16:bits(0x10000)",
        "7",
    ],
)
def test_literal_is_refused(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(f"program p\nlet v = {text}")

    assert [diagnostic.source for diagnostic in caught.value.diagnostics] == [("<text>", 2)]


@pytest.mark.parametrize("type_", FLOATS, ids=str)
@given(data=st.data())
def test_every_float_is_printed_so_that_it_is_read_back(type_: Type, data: st.DataObject) -> None:
    bits = data.draw(bit_patterns(type_))

    assert parse_literal(type_, format_literal(type_, bits)) == bits


# ---- errors ---------------------------------------------------------------------------------------------------------

BAD_LINES = [
    ("?", "a statement expected"),
    ("foo", "`foo` begins no statement"),
    ("let", "a name expected"),
    ("let x", "`=` expected"),
    ("let x = ", "an expression expected"),
    ("let x = u32:1 u32:2", "one too many"),
    ("let x = ad(u32:1, u32:2)", "did you mean add?"),
    ("let x = add(u32:1 u32:2)", "`,` expected"),
    ("let x = add(u32:1", "`,` expected"),
    ("let x = add(u32:1, u32:2, u32:3)", "`)` after 2 operands"),
    ("let x = add.u32(u32:1, u32:2)", "takes no type"),
    ("let x = cast(u32:1)", "needs its target type"),
    ("let x = cast.u33(u32:1)", "a type"),
    ("let x = thread_id.w", "an axis"),
    ("let x = q[u32:0]", "load(q[...])"),
    ("let x = size(3)", "the name of a buffer expected"),
    ("let x = load(q)", "`[` expected"),
    ("let x = foo:7", "foo is not a type"),
    ("let x = " + "negative(" * 128 + "i32:1" + ")" * 128, "128 levels"),
    ("let x = atomic divide h[u32:0], u32:1 order relaxed scope device", "an atomic operation"),
    ("atomic load h[u32:0], u32:1 order relaxed scope device", "`order` expected"),
    ("warp any bool_:true", "`warp` begins no statement"),
    ("let x = warp vote bool_:true", "a warp operation"),
    ("let x = warp any", "an expression expected"),
    ("let x = warp shuffle u32:1", "`,` expected"),
    ("let x = warp any bool_:true, u32:1", "one too many"),
    ("let x = warp reduce u32:1", "`combine` expected"),
    ("let x = warp any bool_:true combine add", "one too many"),
    ("let x = lane_id.x", "lane_id has no axes"),
    ("grid_barrier now", "one too many"),
    ("atomic add h[u32:0], u32:1", "`order` expected"),
    ("atomic add h[u32:0], u32:1, u32:2 order relaxed scope device", "`order` expected"),
    ("atomic add h[u32:0], u32:1 order relaxed", "`scope` expected"),
    ("store h, u32:1", "`[` expected"),
    ("store h[u32:0] u32:1", "`,` expected"),
    ("assert bool_:true", "`,` expected"),
    ("assert bool_:true, message", "a quoted string"),
    ('assert bool_:true, "message', "not closed"),
    ('assert bool_:true, "mess\\', "not closed"),
    ('assert bool_:true, "\\x"', "unknown escape"),
    ('assert bool_:true, "\\u{110000}"', "unknown escape"),
    ("barrier now", "one too many"),
    ("end", "closes nothing"),
    ("else", "`else` belongs"),
    ("test bool_:true", "`test` belongs"),
    ("for j = u32:0 to u32:1\nend", "`step` expected"),
    ("if bool_:true\nelse\nelse\nend", "`else` belongs"),
    ("while\nend", "no `test`"),
    ("while\ntest bool_:true\ntest bool_:true\nend", "`test` belongs"),
    ("if bool_:true", "not closed by `end`"),
]
BAD_HEADERS = [
    ("", "begins with `program NAME`"),
    ("let x = u32:1", "begins with `program NAME`"),
    ("block 3\nprogram p", "begins with `program NAME`"),
    ("program", "the name of the program"),
    ("program p q", "one too many"),
    ("program p\nprogram q", "a second time"),
    ("program p\nblock 1\nblock 1", "a second time"),
    ("program p\nblock", "a number of threads"),
    ("program p\nblock 1 1 1 1", "one too many"),
    ("program p\nblock 123456789012345678901", "digits"),
    ("program p\nindex q", "a type"),
    ("program p\nwork", "an expression expected"),
    ("program p\nwork u32:1,", "an expression expected"),
    ("program p\nin x", "`:` expected"),
    ("program p\nin x: f23", "a type"),
    ("program p\nout x: f32[u32:1", "`]` expected"),
    ("program p\nout x: f32[u32:1, u32:1]", "`]` expected"),
    ("program p\nwork u32:1, u32:1, u32:1, u32:1", "one too many"),
    ("program p\nshared t: f32", "`[` expected"),
    ("program p\nshared t: f32[x]", "a number of elements"),
    ("program p\nshared t: f32[-1]", "a number of elements"),
    ("program p\n" + "".join(f"in x{n}: u32\n" for n in range(257)), "at most 256 parameters"),
]


@pytest.mark.parametrize("lines, fragment", BAD_LINES, ids=[lines.split("\n")[0][:40] for lines, _ in BAD_LINES])
def test_bad_line_is_one_error(lines: str, fragment: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(f"program p\ninout h: u32\n{lines}\n")

    assert len(caught.value.diagnostics) == 1
    assert fragment in caught.value.diagnostics[0].message


@pytest.mark.parametrize("text, fragment", BAD_HEADERS, ids=[text[:40] for text, _ in BAD_HEADERS])
def test_bad_header_is_an_error(text: str, fragment: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)

    assert fragment in caught.value.diagnostics[0].message


def test_all_errors_are_reported_in_order() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("program p\nout o: f32[?]\nlet x = !\nfor\nif u32\nend\nend\nend\n", filename="f")

    assert [d.source for d in caught.value.diagnostics] == [("f", 2), ("f", 3), ("f", 4), ("f", 8)]


def test_reading_stops_after_a_hundred_errors() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("program p\n" + "?\n" * 500)

    assert len(caught.value.diagnostics) == 100


@pytest.mark.parametrize(
    "opening", ["if bool_:true\n", "for j{} = u32:0 to u32:1 step u32:1\n", "while\ntest bool_:true\n"]
)
def test_sixty_four_levels_of_nesting_are_the_most(opening: str) -> None:
    def nested(levels: int) -> str:
        return "program p\n" + "".join(opening.format(n) for n in range(levels)) + "end\n" * levels

    assert len(list(statements(parse(nested(64)).body))) == 64
    with pytest.raises(ProgramError):
        parse(nested(65))


@pytest.mark.slow
def test_sixty_five_thousand_statements_are_the_most() -> None:
    assert len(parse("program p\n" + "return\n" * 65_536).body) == 65_536
    with pytest.raises(ProgramError):
        parse("program p\n" + "return\n" * 65_537)


# ---- hostile text ---------------------------------------------------------------------------------------------------

PARTS = [
    *("(", ")", "[", "]", ",", ":", "=", ".", '"', "\\", "#", "\n", "\r", "\t", " ", "\0", "é", "\u2028", "9" * 30),
    *("if", "else", "end", "while", "test", "for", "let", "var", "store", "atomic", "add(", "load(", "size(", "u32:1"),
    *("grid_barrier\n", "warp reduce", "combine add", "lane_id", "atomic load", "bf16:1.5", "u64:1"),
    *("barrier\n", "return\n", "break\n", "program", "block 0", "work", "out", "f32:bits(0x", "-", "thread_id.x"),
]


def mutated(source: random.Random, text: str) -> str:
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(text) + 1)
        match source.randrange(4):
            case 0:
                text = text[:at] + source.choice(PARTS) + text[at:]
            case 1:
                text = text[:at] + text[at + source.randint(1, 12) :]
            case 2:
                lines = text.split("\n")
                here, there = source.randrange(len(lines)), source.randrange(len(lines))
                lines[here], lines[there] = lines[there], lines[here]
                text = "\n".join(lines)
            case _:
                start = source.randrange(len(text) + 1)
                text = text[:at] + text[start : start + 30] + text[at:]
    return text


@pytest.mark.slow
def test_mutated_text_is_a_program_or_an_error() -> None:
    source = random.Random(20240)
    for _ in range(800):
        text = mutated(source, EVERYTHING)
        try:
            program = parse(text)
        except ProgramError:
            continue
        assert parse(program.text()) == program


LONG = 100_000
HOSTILE = {
    "opening brackets": "program p\nlet x = " + "(" * LONG,
    "nested ops": "program p\nlet x = " + "negative(" * LONG,
    "operands": "program p\nlet x = add(" + "y, " * LONG,
    "a long name": "program p\nlet x = " + "y" * LONG,
    "digits": "program p\nlet x = u32:" + "9" * LONG,
    "float digits": "program p\nlet x = f32:" + "9" * LONG + ".5e5",
    "an open string": 'program p\nassert bool_:true, "' + "\\\\" * LONG,
    "quotes": "program p\n" + '"' * LONG,
    "empty lines": "\n" * LONG,
    "blanks": " " * LONG,
    "open blocks": "program p\n" + "while\n" * LONG,
    "ends": "program p\n" + "end\n" * LONG,
    "returns": "program p\n" + "return\n" * LONG,
    "parameters": "program p\n" + "out a: f32[" * LONG,
    "parameter lines": "program p\n" + "out a: f32[b\n" * LONG,
    "shared arrays": "program p\n" + "shared a: f32[1\n" * LONG,
    "words": "program p\nwork " + "a, " * LONG,
    "one broken line, then good ones": "program p\n?\n" + "let x = add(u32:1, u32:2)\n" * 5_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_in_little_memory(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProgramError):
            parse(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16 * len(text)


def test_findings_are_capped() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("program p\n" + "let x = y\n" * 2_000)

    assert len(caught.value.diagnostics) == 1000


def test_float_literals_agree_with_numpy() -> None:
    for value in np.array([0.1, 1 / 3, 1e-40, 3.4e38, 16777217.0], np.float32):
        assert bits_of_literal(f"f32:{value}") == int(value.view(np.uint32))


def test_program_at_both_depth_limits_survives_all_forms() -> None:
    inner = "let v = " + "invert(" * 127 + "u32:1" + ")" * 127 + "\n"
    program = parse("program p\n" + "if bool_:true\n" * 64 + inner + "end\n" * 64)

    assert parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program
