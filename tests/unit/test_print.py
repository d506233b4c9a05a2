"""print: formats, text, bytes, lines of the interpreter, passes that keep every line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core.nodes import Const, Print
from vyre_cuda.ir.core.printing import escaped, format_fault
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import BY_NAME
from vyre_cuda.passes.pipeline import optimize


def built(write: Callable[[vc.Builder, vc.Buffer], object], *, block: int = 4) -> vc.Program:
    """A program over an inout buffer x of i32, in which each thread of the buffer does what `write` writes."""
    b = vc.Builder("printing", block=block, index=vc.i32)
    x = b.inout("x", vc.i32)
    with b.if_(vc.global_id.x < x.size):
        write(b, x)
    return b.build()


def lines(program: vc.Program, capsys: pytest.CaptureFixture[str], values: int = 4) -> list[str]:
    capsys.readouterr()
    vc.evaluate(program, np.arange(values, dtype=np.int32))
    return capsys.readouterr().out.splitlines()


# ---- formats


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("bool_", True, "1"),
        ("bool_", False, "0"),
        ("u8", 255, "255"),
        ("i8", -128, "-128"),
        ("u16", 65535, "65535"),
        ("i16", -32768, "-32768"),
        ("u32", 2**32 - 1, "4294967295"),
        ("i32", -(2**31), "-2147483648"),
        ("u64", 2**64 - 1, "18446744073709551615"),
        ("i64", -(2**63), "-9223372036854775808"),
        ("f16", 0.1, "0.099976"),
        ("bf16", 0.1, "0.1001"),
        ("f32", 0.1, "0.100000001"),
        ("f64", 0.1, "0.10000000000000001"),
        ("f32", 1e-45, "1.40129846e-45"),
        ("f32", 16777216.0, "16777216"),
        ("f64", 1e300, "1.0000000000000001e+300"),
        ("f32", -0.0, "-0"),
        ("f32", float("inf"), "inf"),
        ("f64", float("-inf"), "-inf"),
        ("f16", float("nan"), "nan"),
        ("f64", -float("nan"), "nan"),
    ],
)
def test_a_value_is_printed_by_its_type(
    type_: str, value: float, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = built(lambda b, x: b.print("{}", b.let("v", BY_NAME[type_](value))))

    assert lines(program, capsys, 1) == [expected]


@pytest.mark.parametrize("type_", [vc.f16, vc.bf16, vc.f32, vc.f64], ids=str)
def test_the_digits_tell_a_float_from_all_others(type_: vc.Type, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(17)
    unsigned = BY_NAME[f"u{type_.bits}"]
    b = vc.Builder("digits", block=64)
    bits = b.input("bits", unsigned)
    with b.if_(vc.global_id.x < bits.size):
        b.print("{}", vc.bitcast(bits[vc.global_id.x], type_))
    b.work(bits.size)
    patterns = rng.integers(0, 2**type_.bits, 500, dtype=np.uint64).astype(unsigned.dtype)

    vc.evaluate(b.build(), patterns)

    printed = capsys.readouterr().out.split()
    finite = [
        (text, int(bits)) for text, bits in zip(printed, patterns, strict=True) if text not in ("nan", "inf", "-inf")
    ]
    assert len(finite) > 400
    assert [bits_of(type_, float(text)) for text, _ in finite] == [bits for _, bits in finite]


def test_braces_and_percent_signs_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    program = built(lambda b, x: b.print("{{{}}} 100% %d {{}}\t\u00e9", vc.i32(7)))

    assert lines(program, capsys, 1) == ["{7} 100% %d {}\t\u00e9"]


@pytest.mark.parametrize("text", ["", "a{b}c", "{{}}", "}{", "{0}"])
def test_escaped_text_is_printed_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(built(lambda b, x: b.print(escaped(text))), capsys, 1) == [text]


@pytest.mark.parametrize(
    ("format_", "values", "message"),
    [
        ("x = {}", 0, "print of 0 values with 1 `{}` in the format 'x = {}'"),
        ("x", 1, "print of 1 value with 0 `{}` in the format 'x'"),
        ("{} {}", 1, "print of 1 value with 2 `{}`"),
        ("{" + "} {" * 8 + "}", 9, "print of 9 values; a line has at most 8: print several lines"),
        ("{0}", 1, "the format of print has a single '{' at position 0; write '{{'"),
        ("{}}", 1, "the format of print has a single '}' at position 2; write '}}'"),
        ("one\ntwo", 0, "the format of print has '\\n' at position 3; it is one line of text"),
        ("\0", 0, "the format of print has '\\x00' at position 0"),
        ("\ud800", 0, "the format of print has '\\ud800' at position 0"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(format_: str, values: int, message: str) -> None:
    with pytest.raises(vc.ProgramError) as caught:
        built(lambda b, x: b.print(format_, *[vc.i32(1)] * values))
    assert message in str(caught.value)
    assert "test_print.py" in str(caught.value)

    by_hand = vc.Program("by_hand", (), (Print(format_, (Const(vc.i32, 1),) * values),))
    with pytest.raises(vc.ProgramError) as caught:
        vc.evaluate(by_hand, grid=1)
    assert message in str(caught.value)


def test_a_format_that_is_no_str_and_a_value_without_a_type_are_refused() -> None:
    with pytest.raises(TypeError, match="the format of print must be a str, not an int"):
        built(lambda b, x: b.print(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the printed value 3 has no type"):
        built(lambda b, x: b.print("{}", 3))


def test_a_format_may_have_eight_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert format_fault("{}" * 8, 8) is None
    assert lines(built(lambda b, x: b.print(" ".join(["{}"] * 8), *map(vc.i32, range(8)))), capsys, 1) == [
        "0 1 2 3 4 5 6 7"
    ]


# ---- text and bytes


def test_text_and_bytes_keep_a_print() -> None:
    program = built(lambda b, x: b.print('"{}" {{\t{}', vc.global_id.x, x[vc.global_id.x]))

    assert '  print "\\"{}\\" {{\\t{}", global_id.x, t' in program.text()
    assert vc.parse(program.text()) == program
    assert vc.Program.from_bytes(program.to_bytes()) == program
    assert program.to_bytes()[4] == 6


def test_a_print_is_part_of_the_fingerprint() -> None:
    programs = [built(lambda b, x, text=text: b.print(text)) for text in ("a", "b")]  # type: ignore[misc]

    assert programs[0] != programs[1]
    assert len({program.fingerprint for program in programs}) == 2


def test_bytes_with_arrays_and_a_print_are_read() -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        b.print("{}", b.local("t", vc.f32, 4)[0])

    program = built(write)

    assert vc.Program.from_bytes(program.to_bytes()) == program


def test_a_version_that_is_too_high_is_refused() -> None:
    data = bytearray(built(lambda b, x: None).to_bytes())
    assert data[4] < 6
    data[4] = 6

    with pytest.raises(vc.ProgramError, match="wire bytes"):
        vc.Program.from_bytes(bytes(data))


def test_too_many_values_in_bytes_are_refused() -> None:
    data = built(lambda b, x: b.print("{}" * 8, *[vc.i32(1)] * 8)).to_bytes()
    at = data.index(b"{}" * 8) + 16
    assert data[at] == 8

    with pytest.raises(vc.ProgramError, match="the number of printed values is 9; it must be below 9"):
        vc.Program.from_bytes(data[:at] + b"\x09" + data[at + 1 :])


# ---- what evaluate prints


def test_lines_come_thread_by_thread(capsys: pytest.CaptureFixture[str]) -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        i = vc.global_id.x
        with b.for_(2) as n:
            b.print("thread {} pass {}", i, n)
        with b.if_(x[i] % 2 == 0):
            b.print("thread {} is even", i)

    assert lines(built(write, block=2), capsys, 3) == [
        *("thread 0 pass 0", "thread 0 pass 1", "thread 0 is even"),
        *("thread 1 pass 0", "thread 1 pass 1"),
        *("thread 2 pass 0", "thread 2 pass 1", "thread 2 is even"),
    ]


def test_a_print_reads_its_values_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        i = vc.global_id.x
        b.print("{}", x[i])
        x[i] = x[i] + 10
        b.print("{}", x[i])

    assert lines(built(write), capsys, 2) == ["0", "10", "1", "11"]


def test_lines_before_a_failure_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        b.print("before {}", vc.global_id.x)
        b.assert_(x[vc.global_id.x] != 1, "one")
        b.print("behind {}", vc.global_id.x)

    with pytest.raises(vc.KernelAssertionError):
        vc.evaluate(built(write), np.arange(2, dtype=np.int32))

    assert capsys.readouterr().out.splitlines() == ["before 0", "behind 0", "before 1"]


# ---- passes and lowering


def _equal_arms(b: vc.Builder, x: vc.Buffer) -> None:
    with b.if_(x[vc.global_id.x] > 1):
        b.print("same")
    with b.else_():
        b.print("same")


def _only_prints_in_loops(b: vc.Builder, x: vc.Buffer) -> None:
    with b.for_(3) as n:
        b.print("invariant {}", x.size * 2)
        with b.while_(lambda: vc.bool_(True)):
            b.print("once")
            b.break_()
        with b.if_(n == 1):
            b.continue_()
        b.print("end of {}", n)


def _twice(b: vc.Builder, x: vc.Buffer) -> None:
    b.print("{}", x[vc.global_id.x] + 1)
    b.print("{}", x[vc.global_id.x] + 1)


def _decided(b: vc.Builder, x: vc.Buffer) -> None:
    with b.if_(vc.bool_(False)):
        b.print("never")
    with b.else_():
        b.print("always")
    with b.if_(x[vc.global_id.x] == 2):
        b.return_()
    b.print("not two")


@pytest.mark.parametrize("write", [_equal_arms, _only_prints_in_loops, _twice, _decided])
def test_passes_keep_every_line(
    write: Callable[[vc.Builder, vc.Buffer], None], capsys: pytest.CaptureFixture[str]
) -> None:
    program = built(write)
    expected = lines(program, capsys)

    assert expected
    assert lines(optimize(program), capsys) == expected


def test_an_identical_format_is_one_variable_of_the_module() -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        b.print("{}", vc.global_id.x)
        b.print("{}", vc.global_id.x + 1)
        b.print("{}", vc.f32(1.0))  # another conversion

    lowered = lower(built(write), Target.parse("sm_90"), debug=True)

    assert lowered.prints
    assert lowered.ptx.count(".global .align 1 .b8 print_") == 2
    assert lowered.ptx.count("call (count), vprintf") == 3


def test_a_program_without_a_print_names_no_function() -> None:
    lowered = lower(built(lambda b, x: None), Target.parse("sm_90"))

    assert not lowered.prints
    assert "vprintf" not in lowered.ptx


def test_threads_that_diverge_may_print_before_a_barrier() -> None:
    def write(b: vc.Builder, x: vc.Buffer) -> None:
        with b.if_(vc.thread_id.x == 0):
            b.print("first")

    b = vc.Builder("barrier", block=4)
    x = b.inout("x", vc.i32)
    write(b, x)
    b.barrier()

    assert b.build().text().count("print") == 1
