"""Text to programs: the inverse of printing, every syntax error with its line, and no harm from hostile text."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.nodes import Assert, Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import u32
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.ir.text.text import format_statement
from vyre_cuda.testing.strategies import programs

EVERYTHING = (Path(__file__).with_name("programs") / "everything.vir").read_text()


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


# ---- errors ---------------------------------------------------------------------------------------------------------

BAD_LINES = [
    ("?", "expected a statement"),
    ("foo", "`foo` does not begin a statement"),
    ("let", "expected a name"),
    ("let x", "expected `=`"),
    ("let x = ", "expected an expression"),
    ("let x = u32:1 u32:2", "unexpected `"),
    ("let x = ad(u32:1, u32:2)", "did you mean add?"),
    ("let x = add(u32:1 u32:2)", "expected `,`"),
    ("let x = add(u32:1", "expected `,`"),
    ("let x = add(u32:1, u32:2, u32:3)", "`)` after 2 operands"),
    ("let x = add.u32(u32:1, u32:2)", "takes no type"),
    ("let x = cast(u32:1)", "needs its target type"),
    ("let x = cast.u33(u32:1)", "a type"),
    ("let x = thread_id.w", "an axis"),
    ("let x = q[u32:0]", "load(q[...])"),
    ("let x = size(3)", "expected the name of a buffer"),
    ("let x = load(q)", "expected `[`"),
    ("let x = foo:7", "foo is not a type"),
    ("let x = " + "negative(" * 128 + "i32:1" + ")" * 128, "128 levels"),
    ("let x = atomic divide h[u32:0], u32:1 order relaxed scope device", "an atomic operation"),
    ("atomic load h[u32:0], u32:1 order relaxed scope device", "expected `order`"),
    ("warp any bool_:true", "`warp` does not begin a statement"),
    ("let x = warp vote bool_:true", "a warp operation"),
    ("let x = warp any", "expected an expression"),
    ("let x = warp shuffle u32:1", "expected `,`"),
    ("let x = warp any bool_:true, u32:1", "unexpected `"),
    ("let x = warp reduce u32:1", "expected `combine`"),
    ("let x = warp any bool_:true combine add", "unexpected `"),
    ("let x = lane_id.x", "lane_id has no axes"),
    ("grid_barrier now", "unexpected `"),
    ("atomic add h[u32:0], u32:1", "expected `order`"),
    ("atomic add h[u32:0], u32:1, u32:2 order relaxed scope device", "expected `order`"),
    ("atomic add h[u32:0], u32:1 order relaxed", "expected `scope`"),
    ("store h, u32:1", "expected `[`"),
    ("store h[u32:0] u32:1", "expected `,`"),
    ("assert bool_:true", "expected `,`"),
    ("assert bool_:true, message", "a quoted string"),
    ('assert bool_:true, "message', "not closed"),
    ('assert bool_:true, "mess\\', "not closed"),
    ('assert bool_:true, "\\x"', "unknown escape"),
    ('assert bool_:true, "\\u{110000}"', "unknown escape"),
    ("barrier now", "unexpected `"),
    ("end", "closes nothing"),
    ("else", "`else` belongs"),
    ("test bool_:true", "`test` belongs"),
    ("for j = u32:0 to u32:1\nend", "expected `step`"),
    ("if bool_:true\nelse\nelse\nend", "`else` belongs"),
    ("while\nend", "no `test`"),
    ("while\ntest bool_:true\ntest bool_:true\nend", "`test` belongs"),
    ("if bool_:true", "not closed by `end`"),
]
BAD_HEADERS = [
    ("", "begin with `program NAME`"),
    ("let x = u32:1", "begin with `program NAME`"),
    ("block 3\nprogram p", "begin with `program NAME`"),
    ("program", "the name of the program"),
    ("program p q", "unexpected `"),
    ("program p\nprogram q", "given twice"),
    ("program p\nblock 1\nblock 1", "given twice"),
    ("program p\nblock", "a number of threads"),
    ("program p\nblock 1 1 1 1", "unexpected `"),
    ("program p\nblock 123456789012345678901", "digits"),
    ("program p\nindex q", "a type"),
    ("program p\nwork", "expected an expression"),
    ("program p\nwork u32:1,", "expected an expression"),
    ("program p\nin x", "expected `:`"),
    ("program p\nin x: f23", "a type"),
    ("program p\nout x: f32[u32:1", "expected `]`"),
    ("program p\nout x: f32[u32:1, u32:1, u32:1, u32:1, u32:1]", "expected `]`"),
    ("program p\nwork u32:1, u32:1, u32:1, u32:1", "unexpected `"),
    ("program p\nshared t: f32", "expected `[`"),
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


@pytest.mark.thin
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


@pytest.mark.thin
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


@pytest.mark.thin(5)
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


def test_program_at_both_depth_limits_survives_all_forms() -> None:
    inner = "let v = " + "invert(" * 127 + "u32:1" + ")" * 127 + "\n"
    program = parse("program p\n" + "if bool_:true\n" * 64 + inner + "end\n" * 64)

    assert parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program
