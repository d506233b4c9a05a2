"""Limits of launches, resident blocks, and the block that a device chooses."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda._native.core.module import Module
from vyre_cuda.ir.builder.reblock import what_fixes_block, with_block
from vyre_cuda.testing.strategies import programs as random_programs

from .. import programs

pytestmark = pytest.mark.device


def elementwise(block: int | str = 256) -> vc.Program:
    b = vc.Builder("elementwise", block=block)  # type: ignore[arg-type]
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        out[i] = x[i] * 2
    return b.build()


def hungry(registers: int, block: int) -> vc.Program:
    """So many values are needed at the end."""
    b = vc.Builder("hungry", block=block)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    kept = [b.let(f"v{n}", x[i + n]) for n in range(registers)]
    b.barrier()
    total = b.var("total", vc.u32(0))
    for n, value in enumerate(reversed(kept)):
        total.set(total * (n + 3) + value)
    out[i] = total
    return b.build()


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_kernel_that_works_exceeds_nothing(device: vc.Device) -> None:
    limits = device.compile(elementwise()).limits((10, 1, 1))

    assert len(limits) >= 10
    assert not any(limit.is_exceeded for limit in limits)
    threads = next(limit for limit in limits if limit.name == "threads of a block")
    assert (threads.required, threads.available) == (256, device.properties.max_threads_per_block)


def test_block_that_no_launch_could_have_is_refused_with_its_limit(device: vc.Device) -> None:
    b = vc.Builder("deep", block=(1, 1, 128))
    out = b.inout("out", vc.f32)
    out[vc.thread_id.z] = 1.0
    b.work(1, 1, 128)
    with pytest.raises(vc.UnsupportedError) as caught:
        device.compile(b.build())

    (limit,) = caught.value.limits
    assert (limit.name, limit.required, limit.change) == ("threads of a block along z", 128, "block=")
    assert limit.available == device.properties.max_block_dim_z == 64
    assert "128 required, 64 available; change block=" in str(caught.value)


@pytest.mark.emulator
def test_every_exceeded_limit_is_named(device: vc.Device) -> None:
    with pytest.raises(vc.UnsupportedError) as caught:
        device.compile(hungry(100, 1024))

    names = {limit.name for limit in caught.value.limits}
    assert names == {"registers of a block", "threads of a block of this kernel"}
    for limit in caught.value.limits:
        assert limit.required > limit.available
        assert str(limit) in str(caught.value)


def test_grid_adds_its_limits(device: vc.Device) -> None:
    limits = device.compile(elementwise()).limits((1, 70_000, 1))

    assert [limit.name for limit in limits if limit.is_exceeded] == ["blocks along y"]


def test_grid_barrier_needs_its_blocks_resident(device: vc.Device) -> None:
    kernel = device.compile(programs.rotate_in_place())
    resident = kernel.attributes.resident_blocks * device.properties.multiprocessor_count
    limits = kernel.limits((resident + 1, 1, 1))

    (limit,) = [limit for limit in limits if limit.is_exceeded]
    assert (limit.required, limit.available) == (resident + 1, resident)
    x = device.zeros(64, vc.f32)
    with pytest.raises(vc.UnsupportedError, match="change grid="):
        kernel.launch(x, grid=resident + 1)


# ---- occupancy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [32, 64, 128, 256, 512, 1024])
def test_occupancy_is_what_the_resources_allow(threads: int, device: vc.Device) -> None:
    kernel = device.compile(elementwise(threads))
    found, properties = kernel.occupancy, device.properties

    assert found.threads_per_block == threads
    assert found.resident_blocks == kernel.attributes.resident_blocks > 0
    assert found.resident_threads == found.resident_blocks * threads <= found.most_threads
    assert found.most_threads == properties.max_threads_per_multiprocessor
    assert 0 < found.fraction <= 1
    if found.limited_by == "threads":
        assert found.fraction == 1
    if found.limited_by == "blocks":
        assert found.resident_blocks == properties.max_blocks_per_multiprocessor


def test_shared_memory_can_be_what_runs_out(device: vc.Device) -> None:
    b = vc.Builder("shared", block=32)
    tile = b.shared("tile", vc.f32, size=10_000)
    out = b.output("out", vc.f32, size=32)
    tile[vc.thread_id.x] = 1.0
    b.barrier()
    out[vc.thread_id.x] = tile[vc.thread_id.x]
    b.work(32)
    found = device.compile(b.build()).occupancy

    assert found.limited_by == "shared memory"
    assert found.resident_blocks == device.properties.max_shared_memory_per_multiprocessor // (
        40_000 + device.properties.reserved_shared_memory_per_block
    )


@pytest.mark.emulator
def test_registers_can_be_what_runs_out(device: vc.Device) -> None:
    assert device.compile(hungry(100, 256)).occupancy.limited_by == "registers"


# ---- the calculator --------------------------------------------------------------------------------------------------


def test_calculator_agrees_with_itself(device: vc.Device) -> None:
    """No block has more threads resident than the one that is called the best."""
    text = device.compile(elementwise()).ptx
    lines = [line for line in text.splitlines() if not line.startswith(".reqntid")]
    module = Module(device.context, "\n".join(lines).encode())
    best = module.block_size("k_elementwise", 0, 0)
    most = module.resident_blocks("k_elementwise", best, 0) * best

    for threads in range(32, device.properties.max_threads_per_block + 1, 32):
        assert module.resident_blocks("k_elementwise", threads, 0) * threads <= most
    assert module.block_size("k_elementwise", 0, 64) <= 64


def test_calculator_refuses_a_kernel_that_is_not_there(device: vc.Device) -> None:
    module = Module(device.context, device.compile(elementwise()).ptx.encode())
    with pytest.raises(ValueError, match="nothing"):
        module.block_size("nothing", 0, 0)
    with pytest.raises(ValueError, match="nothing"):
        module.resident_blocks("nothing", 32, 0)
    with pytest.raises(ValueError):
        module.resident_blocks("k_elementwise", 0, 0)


# ---- block="auto" ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["builder", "compile"])
def test_device_chooses_a_block_with_the_most_threads_resident(where: str, device: vc.Device) -> None:
    if where == "builder":
        kernel = device.compile(elementwise("auto"))
    else:
        kernel = device.compile(elementwise(32), block="auto")
    chosen = kernel.program.block

    assert chosen[1:] == (1, 1)
    assert chosen[0] % 32 == 0
    resident = kernel.occupancy.resident_threads
    for threads in (64, 128, 256, 512, 1024):
        assert device.compile(elementwise(threads)).occupancy.resident_threads <= resident
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(2 * x, kernel(x))


def test_same_choice_is_the_same_kernel(device: vc.Device) -> None:
    first = device.compile(elementwise("auto"))

    assert device.compile(elementwise("auto")) is first
    assert device.compile(elementwise(), block="auto") is first
    assert device.compile(first.program) is first


@pytest.mark.emulator
def test_registers_make_the_block_smaller(device: vc.Device) -> None:
    b = vc.Builder("hungry", block="auto")
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    total = b.var("total", vc.u32(0))
    kept = [b.let(f"v{n}", x[i + n]) for n in range(90)]
    b.atomic_add(out, 0, vc.u32(0))
    for n, value in enumerate(reversed(kept)):
        total.set(total * (n + 3) + value)
    out[i] = total
    kernel = device.compile(b.build())

    assert kernel.attributes.registers > 64
    assert kernel.program.block[0] < 1024
    assert kernel.occupancy.resident_blocks > 0


def test_auto_is_no_part_of_what_a_program_means() -> None:
    program = elementwise("auto")

    assert program.auto_block
    assert program.block == (256, 1, 1)
    assert program == elementwise()
    assert vc.parse(program.text()) == program
    assert program.fingerprint == elementwise().fingerprint
    assert not with_block(program, 64).auto_block


FIXED = {
    "thread_id": lambda b, out: out.__setitem__(vc.thread_id.x, vc.u32(1)),
    "block_dim": lambda b, out: out.__setitem__(0, vc.block_dim.x),
    "grid_dim": lambda b, out: out.__setitem__(0, vc.grid_dim.x),
    "lane_id": lambda b, out: out.__setitem__(0, vc.lane_id),
    "barrier": lambda b, out: b.barrier(),
    "grid barrier": lambda b, out: b.grid_barrier(),
    "shared": lambda b, out: b.shared("tile", vc.u32, size=4).__setitem__(0, vc.u32(1)),
    "warp": lambda b, out: out.__setitem__(0, b.warp_reduce(vc.u32(1), "add")),
}


@pytest.mark.parametrize("what", FIXED)
def test_program_that_depends_on_its_block_is_refused(what: str, device: vc.Device) -> None:
    def build(block: int | str) -> vc.Program:
        b = vc.Builder("fixed", block=block)  # type: ignore[arg-type]
        out = b.inout("out", vc.u32)
        FIXED[what](b, out)
        return b.build()

    with pytest.raises(vc.ProgramError, match="auto") as caught:
        build("auto")
    assert caught.value.diagnostics[0].source is not None
    with pytest.raises(ValueError, match="auto"):
        device.compile(build(32), block="auto")


def test_wrong_words_for_a_block_are_refused(device: vc.Device) -> None:
    with pytest.raises(TypeError, match="auto"):
        vc.Builder("x", block="best")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="auto"):
        device.compile(elementwise(), block="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="axes"):
        device.compile(two_axes(), block="auto")


def two_axes() -> vc.Program:
    b = vc.Builder("plane", block=(8, 8))
    out = b.inout("out", vc.f32)
    out[0] = 1.0
    b.work(8, 8)
    return b.build()


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=25)
@given(program=random_programs(), threads=st.sampled_from([32, 96, 256]))
def test_program_that_nothing_fixes_keeps_all_but_its_block(program: vc.Program, threads: int) -> None:
    if what_fixes_block(program) is not None:
        return
    changed = with_block(program, threads)

    assert changed.block == (threads, 1, 1)
    assert changed.body == program.body


# ---- side by side ----------------------------------------------------------------------------------------------------


def sharing(elements: int, block: int = 128) -> vc.Program:
    """A block has 4 bytes of shared memory for each element."""
    b = vc.Builder("sharing", block=block)
    out = b.inout("out", vc.f32)
    kept = b.shared("kept", vc.f32, elements)
    kept[vc.thread_id.x] = out[vc.thread_id.x]
    b.barrier()
    out[vc.thread_id.x] = kept[(vc.thread_id.x + 1) % block]
    return b.build()


def placed(device: vc.Device, first: vc.Kernel, second: vc.Kernel, grid: int) -> tuple[int, int]:
    """Blocks of both that are resident, put one by one where there is room: the first's in turn, then the second's."""
    p = device.properties

    def needs(kernel: vc.Kernel) -> tuple[int, ...]:
        warps = -(-prod(kernel.program.block) // 32)
        registers = -(-kernel.attributes.registers * 32 // 256) * 256 * warps
        shared = kernel.attributes.static_shared_bytes + kernel.lowered.dynamic_shared_bytes
        return warps * 32, 1, registers, shared + p.reserved_shared_memory_per_block

    has = (
        p.max_threads_per_multiprocessor,
        p.max_blocks_per_multiprocessor,
        p.max_registers_per_multiprocessor,
        p.max_shared_memory_per_multiprocessor,
    )
    left = [list(has) for _ in range(p.multiprocessor_count)]
    found = []
    for kernel, most in ((first, grid), (second, 1 << 30)):
        need, count, full = needs(kernel), 0, set()
        while count < most and len(full) < len(left):
            at = count % len(left) if not full else next(k for k in range(len(left)) if k not in full)
            if all(have >= each for have, each in zip(left[at], need, strict=True)):
                left[at] = [have - each for have, each in zip(left[at], need, strict=True)]
                count += 1
            else:
                full.add(at)
        found.append(count)
    return found[0], found[1]


@pytest.mark.thin
@pytest.mark.parametrize("first", [elementwise(64), elementwise(1024), sharing(10_000), hungry(40, 256)], ids=str)
@pytest.mark.parametrize("second", [elementwise(32), elementwise(512), sharing(20_000), hungry(60, 128)], ids=str)
def test_side_by_side_is_what_fits_one_by_one(device: vc.Device, first: vc.Program, second: vc.Program) -> None:
    one, two = device.compile(first), device.compile(second)
    most = one.attributes.resident_blocks * device.properties.multiprocessor_count
    for grid in (1, device.properties.multiprocessor_count + 1, most - 1, most, most + 100):
        found = one.side_by_side(two, grid=grid, other_grid=1 << 20)

        assert (found.first_blocks, found.second_blocks) == placed(device, one, two, grid)
        assert (found.first_grid, found.second_grid) == (grid, 1 << 20)
        assert bool(found) == (found.second_blocks > 0)
        assert not found.is_whole


def test_side_by_side_names_what_runs_out(device: vc.Device) -> None:
    p = device.properties
    many = p.max_shared_memory_per_block_optin // 4 - 256  # leaves what is reserved for a small block
    large, small = device.compile(sharing(many)), device.compile(elementwise(32))
    wide = device.compile(elementwise(1024))

    two = large.side_by_side(device.compile(sharing(many, block=64)))
    assert (bool(two), two.limited_by, two.second_blocks) == (False, "shared memory", 0)
    assert large.side_by_side(small).is_whole
    full = p.max_threads_per_multiprocessor // 1024 * p.multiprocessor_count
    assert wide.side_by_side(small, grid=full).limited_by == "threads"
    assert not wide.side_by_side(small, grid=full)
    assert wide.side_by_side(small, grid=(full - 1, 1, 1), other_grid=1).is_whole


def test_side_by_side_refuses_what_it_cannot_answer(device: vc.Device) -> None:
    kernel = device.compile(elementwise())

    with pytest.raises(TypeError, match="a Kernel, not a Program"):
        kernel.side_by_side(elementwise())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1 block"):
        kernel.side_by_side(kernel, grid=0)
    with pytest.raises(TypeError, match="grid="):
        kernel.side_by_side(kernel, other_grid="all")  # type: ignore[arg-type]
    with vc.Device("emulator") as other, pytest.raises(ValueError, match="another device"):
        kernel.side_by_side(other.compile(elementwise()))
