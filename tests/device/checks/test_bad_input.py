"""Bad programs and bad launches are refused before anything runs: all findings at once, each with statement and line.

What a single statement shows is refused on its own line of Python; what only the whole program shows, by `build`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator


class Draft:
    """A builder with a few parameters."""

    def __init__(self, **options: object) -> None:
        self.b = vc.Builder("draft", **{"block": 64, **options})  # type: ignore[arg-type]
        self.x = self.b.input("x", vc.f32)
        self.h = self.b.inout("h", vc.f32)
        self.n = self.b.scalar("n", vc.u8)
        self.out = self.b.output("out", vc.f32, size=self.x.size)
        self.i = self.b.let("i", vc.global_id.x)


def from_ended_block(d: Draft) -> None:
    with d.b.if_(d.i < 3):
        inside = d.b.let("inside", d.x[d.i])
    d.out[d.i] = inside


AT_ONCE: dict[str, Callable[[Draft], object]] = {
    "types are mixed": lambda d: d.x[d.i] + vc.u32(1),
    "a literal does not fit": lambda d: d.n + 300,
    "a literal becomes infinite": lambda d: vc.f16(1e6),
    "a value is out of scope": from_ended_block,
    "a value is of another builder": lambda d: d.x[0] + Draft().x[0],
    "an op does not take the type": lambda d: vc.sqrt(d.i),
    "a shuffle takes no such lane": lambda d: d.b.shuffle(d.i, d.x[d.i]),
    "a reduction takes no such type": lambda d: d.b.warp_reduce(d.x[d.i], "and"),
    "an atomic takes no such type": lambda d: d.b.atomic_and(d.h, 0, 1.0),
    "an atomic works on an input": lambda d: d.b.atomic_add(d.x, 0, 1.0),
    "an atomic has no such order": lambda d: d.b.atomic_load(d.h, 0, order="release"),
}


@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_bad_statement_is_refused_on_its_line(kind: str) -> None:
    draft, statement = Draft(), AT_ONCE[kind]

    with pytest.raises(vc.ProgramError) as caught:
        statement(draft)

    lines, first = inspect.getsourcelines(statement)
    ((file, line),) = [d.source for d in caught.value.diagnostics if d.source is not None]
    assert file == __file__
    assert first <= line < first + len(lines)


def divergent_barrier(d: Draft) -> None:
    with d.b.if_(d.i < 3):
        d.b.barrier()


def barrier_after_divergent_return(d: Draft) -> None:
    with d.b.if_(d.i < 3):
        d.b.return_()
    d.b.barrier()


def divergent_grid_barrier(d: Draft) -> None:
    with d.b.if_(d.i < 5):
        d.b.grid_barrier()


def divergent_shuffle(d: Draft) -> None:
    with d.b.if_(d.i < 7):
        d.b.shuffle_xor(d.i, 1)


def oversized_shared_memory(d: Draft) -> None:
    d.b.shared("tile", vc.f64, 40_000)


def too_many_parameters(d: Draft) -> None:
    for number in range(260):
        d.b.scalar(f"s{number}", vc.u8)


# What builds the fault, the path of its statement or declaration, the text that the message shows it in.
IN_ALL: list[tuple[Callable[[Draft], None], str]] = [
    (divergent_barrier, "barrier\n"),
    (barrier_after_divergent_return, "barrier\n"),
    (divergent_grid_barrier, "grid_barrier\n"),
    (divergent_shuffle, "warp shuffle_xor"),
    (oversized_shared_memory, "shared tile: f64[40000]"),
    (too_many_parameters, "scalar s2"),
]


@pytest.mark.parametrize(("fault", "text"), IN_ALL, ids=lambda row: getattr(row, "__name__", ""))
def test_what_the_whole_program_shows_is_found_by_build(fault: Callable[[Draft], None], text: str) -> None:
    draft = Draft()
    fault(draft)

    with pytest.raises(vc.ProgramError) as caught:
        draft.b.build()

    lines, first = inspect.getsourcelines(fault)
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.source is not None
        assert diagnostic.source[0] == __file__
        assert first <= diagnostic.source[1] < first + len(lines)
        assert f"{__file__}:{diagnostic.source[1]}" in str(caught.value)
    assert text in str(caught.value)


def test_all_of_them_are_found_at_once() -> None:
    draft = Draft(block=(64, 32))
    faults = (divergent_barrier, divergent_grid_barrier, divergent_shuffle, oversized_shared_memory)
    for fault in faults:
        fault(draft)

    with pytest.raises(vc.ProgramError) as caught:
        draft.b.build()

    found = {d.source[1] for d in caught.value.diagnostics if d.source is not None}
    for fault in faults:
        lines, first = inspect.getsourcelines(fault)
        assert found & set(range(first, first + len(lines))), fault.__name__
    assert any(d.path == ("block",) for d in caught.value.diagnostics)
    assert len(caught.value.diagnostics) == len(faults) + 1


def test_text_is_refused_with_all_that_is_wrong_in_it() -> None:
    text = """program p
block 2048
in x: f32
inout h: f32
shared tile: f64[40000]
let v = w
let y = add(load(x[u32:0]), u32:1)
atomic bitwise_and h[u32:0], f32:1.0 order relaxed scope device
if less(thread_id.x, u32:3)
  barrier
end
break
"""
    with pytest.raises(vc.ProgramError) as caught:
        vc.parse(text, filename="bad.vir")

    lines = sorted(d.source[1] for d in caught.value.diagnostics if d.source is not None)
    assert lines == [1, 5, 6, 7, 8, 10, 12]  # what is wrong with the block is the program's line
    assert all(d.source is not None and d.source[0] == "bad.vir" for d in caught.value.diagnostics)


def test_an_expression_that_is_too_deep_is_refused() -> None:
    text = f"program p\ninout h: u32\nstore h[u32:0], {'invert(' * 200}u32:1{')' * 200}\n"

    with pytest.raises(vc.ProgramError, match="128"):
        vc.parse(text)


# ---- launches -------------------------------------------------------------------------------------------------------


def copy_program(**options: object) -> vc.Program:
    b = vc.Builder("copy", **options)  # type: ignore[arg-type]
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i]
    return b.build()


@pytest.mark.parametrize("grid", [(1, 65536, 1), (1, 1, 65536), (2**31, 1, 1), (0, -1, 1), (1, 1, 1, 1)], ids=str)
def test_a_grid_beyond_the_device_is_refused_before_the_launch(device: vc.Device, grid: tuple[int, ...]) -> None:
    kernel = device.compile(copy_program(block=32))
    x = np.ones(4, np.float32)
    out = device.zeros(4, vc.f32)

    for run in (kernel, kernel.submit, lambda x, grid: vc.evaluate(kernel.program, x, grid=grid)):
        with pytest.raises((ValueError, TypeError)):
            run(x, grid=grid)
    for launch in (kernel.launch, kernel.bind):
        with pytest.raises((ValueError, TypeError)):
            launch(device.array(x), out, grid=grid)

    assert not out.numpy().any()


def test_a_cooperative_grid_beyond_what_is_resident_is_refused_before_the_launch(device: vc.Device) -> None:
    program = vc.parse("program p\nblock 1024\ninout h: u32\nstore h[u32:0], u32:1\ngrid_barrier\n")
    kernel = device.compile(program)
    h = device.zeros(1, vc.u32)

    with pytest.raises(vc.UnsupportedError, match="resident"):
        kernel(np.zeros(1, np.uint32), grid=10**6)
    with pytest.raises(vc.UnsupportedError, match="resident"):
        kernel.launch(h, grid=10**6)

    assert not h.numpy().any()


@pytest.mark.parametrize("target", ["sm_75", "sm_86", "sm_120"])
def test_shared_memory_beyond_the_target_names_target_and_bytes(target: str) -> None:
    b = vc.Builder("large", block=32)
    out = b.output("out", vc.u8, size=1)
    tile = b.shared("tile", vc.u8, 150 * 1024)
    out[0] = tile[0]

    with pytest.raises(vc.UnsupportedError, match=target) as caught:
        vc.ptx(b.build(), target=target)
    assert caught.value.capability == "shared_memory"


@pytest.mark.emulator
def test_a_refused_program_reaches_no_driver_call(emulator: Emulator, device: vc.Device) -> None:
    before = {name: emulator.count(name) for name in ("launches", "modules")}

    with pytest.raises(vc.UnsupportedError):
        vc.ptx(vc.parse("program p\nblock 32\nshared t: u8[100000]\nbarrier\n"), target="sm_75")
    with pytest.raises(vc.ProgramError):
        device.compile(vc.Program("p", (), (), block=(2048, 1, 1)))

    assert {name: emulator.count(name) for name in ("launches", "modules")} == before
