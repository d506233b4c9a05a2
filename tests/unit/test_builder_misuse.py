"""What a builder refuses: each misuse is one clear error at its line, and leaves nothing half built."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc


class Parts:
    """A builder with one of everything."""

    def __init__(self, name: str = "parts") -> None:
        self.b = vc.Builder(name, block=4)
        self.x = self.b.input("x", vc.f32)
        self.n = self.b.scalar("n", vc.i32)
        self.out = self.b.output("out", vc.f32, size=self.x.size)
        self.ints = self.b.inout("ints", vc.u32)
        self.i = self.b.let("i", vc.global_id.x)
        self.v = self.b.var("v", vc.f32(0))


@pytest.fixture
def parts() -> Parts:
    return Parts()


def _store_to_input(p: Parts) -> None:
    p.x[p.i] = 1.0


def _store_wrong_type(p: Parts) -> None:
    p.out[p.i] = p.i


def _store_out_of_range(p: Parts) -> None:
    p.ints[p.i] = -1


def _set_wrong_type(p: Parts) -> None:
    p.v.set(p.i)


def _other_builder(p: Parts) -> None:
    p.out[p.i] = Parts("other").v + 1.0


def _other_builders_buffer(p: Parts) -> None:
    p.b.atomic_add(Parts("other").ints, 0, 1)


def _let_after_its_block(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        t = p.b.let("t", p.x[p.i])
    p.out[p.i] = t * 2.0


def _variable_after_its_block(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        w = p.b.var("w", vc.f32(0))
    w.set(1.0)


def _counter_after_its_loop(p: Parts) -> None:
    with p.b.for_(0, 3) as j:
        p.v.set(0)
    p.out[j] = 1


def _let_of_then_in_else(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        t = p.b.let("t", p.x[p.i])
    with p.b.else_():
        p.out[p.i] = t


def _else_first(p: Parts) -> None:
    with p.b.else_():
        p.v.set(1)


def _else_after_a_statement(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        p.v.set(1)
    p.v.set(2)
    with p.b.else_():
        p.v.set(3)


def _else_twice(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        p.v.set(1)
    with p.b.else_():
        p.v.set(2)
    with p.b.else_():
        p.v.set(3)


def _else_of_a_loop(p: Parts) -> None:
    with p.b.for_(0, 3):
        p.v.set(1)
    with p.b.else_():
        p.v.set(3)


def _break_outside(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        p.b.break_()


def _continue_in_a_condition(p: Parts) -> None:
    def condition() -> vc.Value:
        p.b.continue_()
        return p.i < 3

    with p.b.while_(condition):
        p.v.set(1)


def _block_entered_twice(p: Parts) -> None:
    block = p.b.if_(p.i < 3)
    with block:
        p.v.set(1)
    with block:
        p.v.set(2)


def _build_inside_a_block(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        p.b.build()


def _block_never_entered(p: Parts) -> None:
    p.b.if_(p.i < 3)
    p.b.build()


def _blocks_ended_out_of_order(p: Parts) -> None:
    outer, inner = p.b.if_(p.i < 3), p.b.if_(p.i < 2)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)


@pytest.mark.parametrize(
    "misuse",
    [
        _store_to_input,
        _store_wrong_type,
        _store_out_of_range,
        _set_wrong_type,
        _other_builder,
        _other_builders_buffer,
        _let_after_its_block,
        _variable_after_its_block,
        _counter_after_its_loop,
        _let_of_then_in_else,
        _else_first,
        _else_after_a_statement,
        _else_twice,
        _else_of_a_loop,
        _break_outside,
        _continue_in_a_condition,
        _block_entered_twice,
        _build_inside_a_block,
        _block_never_entered,
        _blocks_ended_out_of_order,
        lambda p: p.b.input("x", vc.f32),
        lambda p: p.b.input("i", vc.f32),
        lambda p: p.b.input("2x", vc.f32),
        lambda p: p.b.let("if", vc.u32(1)),
        lambda p: p.b.let("", vc.u32(1)),
        lambda p: p.b.output("o", vc.f32, size=p.i),
        lambda p: p.b.output("o", vc.f32, size=vc.u32(p.x[0])),
        lambda p: p.b.output("o", vc.f32, size=vc.global_id.x),
        lambda p: p.b.output("o", vc.f32, size=-1),
        lambda p: p.b.output("o", vc.f32, size=vc.f32(3)),
        lambda p: (p.b.work(3), p.b.work(4)),
        lambda p: p.b.shared("tile", vc.f32, 0),
        lambda p: p.x[vc.f32(1)],
        lambda p: p.x[-1],
        lambda p: p.b.if_(p.i),
        lambda p: p.b.assert_(p.i, "no bool"),
        lambda p: p.b.for_(0, 3, step=0),
        lambda p: p.b.for_(0, 3, step=-1),
        lambda p: p.b.for_(p.n, p.i),
        lambda p: p.b.for_(vc.f32(0), 3),
        lambda p: p.b.atomic_add(p.x, 0, 1.0),
        lambda p: p.b.atomic_add(p.ints, 0, p.n),
        lambda p: p.b.atomic_add(p.ints, 0, 1, order="seq_cst"),
        lambda p: p.b.atomic_add(p.ints, 0, 1, scope="grid"),
        lambda p: p.b.atomic_load(p.ints, 0, order="release"),
        lambda p: p.b.atomic_store(p.ints, 0, 1, order="acquire"),
        lambda p: p.b.atomic_load(p.x, 0),
        lambda p: p.b.atomic_sub(p.out, 0, 1.0),
        lambda p: p.b.atomic_or(p.out, 0, 1.0),
        lambda p: p.b.atomic_min(p.b.shared("narrow", vc.bool_, 4), 0, 1),
        lambda p: p.b.any(p.i),
        lambda p: p.b.ballot(p.x[p.i]),
        lambda p: p.b.shuffle(p.i, -1),
        lambda p: p.b.shuffle(p.i, p.x[p.i]),
        lambda p: p.b.warp_reduce(p.i, "multiply"),
        lambda p: p.b.warp_reduce(p.x[p.i], "and"),
        lambda p: p.b.warp_reduce(p.i < 3, "add"),
        lambda p: p.b.warp_scan(p.i, "fmin"),
        lambda p: (p.b.if_(p.i < 3).__enter__(), p.b.any(p.i < 2), p.b.break_()),
        lambda p: vc.Builder("no spaces"),
        lambda p: vc.Builder("b", index=vc.i16),
        lambda p: vc.Builder("b", block=0),
    ],
)
def test_misuse_is_a_program_error(parts: Parts, misuse: Callable[[Parts], Any]) -> None:
    with pytest.raises(vc.ProgramError):
        misuse(parts)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda p: p.x[1.0],
        lambda p: p.x["i"],
        lambda p: p.b.while_(p.i < 3),
        lambda p: p.b.let(3, p.i),
        lambda p: p.b.input("y", np.float32),
        lambda p: p.b.shared("tile", vc.f32, 4.0),
        lambda p: p.b.shared("tile", vc.f32, p.n),
        lambda p: p.b.assert_(p.i < 3, None),
        lambda p: p.b.work(),
        lambda p: p.b.atomic_add(p.i, 0, 1),
        lambda p: p.b.atomic_load(p.i, 0),
        lambda p: p.b.warp_reduce(p.i, None),
        lambda p: p.b.warp_reduce(3, "add"),
        lambda p: p.b.shuffle(p.i, 1.5),
        lambda p: p.b.shuffle(p.i, p.x),
        lambda p: p.b.any(1),
        lambda p: p.v.set([1]),
        lambda p: vc.Builder("b", block="256"),  # type: ignore[arg-type]
        lambda p: vc.Builder("b", block=(1, 1, 1, 1)),
        lambda p: vc.Builder("b", block=()),
    ],
)
def test_what_is_no_argument_is_a_type_error(parts: Parts, misuse: Callable[[Parts], Any]) -> None:
    with pytest.raises(TypeError):
        misuse(parts)


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p.b.build(),
        lambda p: p.b.let("t", p.i),
        lambda p: p.b.input("y", vc.f32),
        lambda p: p.b.barrier(),
        lambda p: p.b.grid_barrier(),
        lambda p: p.b.any(p.i < 3),
        lambda p: p.b.atomic_add(p.ints, 0, 1),
        lambda p: p.b.atomic_store(p.ints, 0, 1),
        lambda p: p.b.if_(p.i < 3),
        lambda p: p.out.__setitem__(0, 1.0),
        lambda p: p.out[0],
        lambda p: p.v.set(1.0),
        lambda p: p.v + 1.0,
        lambda p: p.i + 1,
    ],
)
def test_a_finished_builder_refuses_everything(parts: Parts, use: Callable[[Parts], Any]) -> None:
    parts.b.build()

    with pytest.raises(vc.ProgramError):
        use(parts)


def test_an_error_has_the_line_of_the_misuse(parts: Parts) -> None:
    with pytest.raises(vc.ProgramError) as raised:
        _store_wrong_type(parts)

    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.source == (__file__, _store_wrong_type.__code__.co_firstlineno + 1)


class _Unrelated(Exception):
    pass


def _raise() -> vc.Value:
    raise _Unrelated


def _fail_in_if(p: Parts) -> Iterator[None]:
    with p.b.if_(p.i < 3):
        p.v.set(1.0)
        _raise()
    yield


def _fail_in_else(p: Parts) -> None:
    with p.b.if_(p.i < 3):
        p.v.set(1.0)
    with p.b.else_():
        p.v.set(2.0)
        _raise()


def _fail_in_nested_loops(p: Parts) -> None:
    with p.b.for_(0, 3), p.b.while_(lambda: p.v < 3.0), p.b.if_(p.i < 3):
        p.v.set(1.0)
        _raise()


def _fail_in_a_condition(p: Parts) -> None:
    with p.b.while_(lambda: (p.v + 1.0 < 3.0) & _raise()):
        p.v.set(1.0)


@pytest.mark.parametrize(
    "fail", [lambda p: list(_fail_in_if(p)), _fail_in_else, _fail_in_nested_loops, _fail_in_a_condition]
)
def test_an_exception_in_a_block_goes_on_and_the_block_is_forgotten(parts: Parts, fail: Callable[[Parts], Any]) -> None:
    with pytest.raises(_Unrelated):
        fail(parts)
    parts.out[0] = parts.v
    program = parts.b.build()

    assert vc.parse(program.text()) == program
    np.testing.assert_array_equal([0, 0], vc.evaluate(program, np.ones(2, np.float32), 1, np.zeros(1, np.uint32))[0])


def nested_ifs(parts: Parts, levels: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(levels):
            stack.enter_context(parts.b.if_(parts.i < 3))
        parts.b.atomic_add(parts.ints, 0, 1)


def test_blocks_nest_64_levels_deep(parts: Parts) -> None:
    nested_ifs(parts, 64)
    program = parts.b.build()

    assert vc.parse(program.text()) == program


def test_a_65th_level_is_refused_and_the_exception_closes_the_others(parts: Parts) -> None:
    with pytest.raises(vc.ProgramError):
        nested_ifs(parts, 65)

    assert parts.b._scope.block.parent is None


def test_findings_of_build_have_their_lines(parts: Parts) -> None:
    with parts.b.if_(parts.i < 3):
        parts.b.barrier()

    with pytest.raises(vc.ProgramError) as raised:
        parts.b.build()
    assert all(d.source is not None and d.source[0] == __file__ for d in raised.value.diagnostics)
