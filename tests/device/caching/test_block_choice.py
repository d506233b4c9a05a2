"""The block that a device chooses for a program is chosen once in the life of a machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cache import entry

from ..cached_kernels import Open

pytestmark = pytest.mark.device

X = np.arange(300, dtype=np.float32)


@pytest.fixture
def root(cache_root: Path) -> Path:
    """The folder of the cached files of devices that a test opens."""
    return cache_root / "kernels"


def doubled(block: int | str = "auto") -> vc.Program:
    b = vc.Builder("doubled", block=block)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = x[i] * 2
    return b.build()


def choice_of(root: Path) -> Path:
    """The file of the choice: the one that is no kernel's."""
    (found,) = (path for path in root.iterdir() if path.stat().st_size < 200)
    return found


def test_a_later_device_chooses_the_same_block_without_loading_a_module_for_it(opened: Open, root: Path) -> None:
    first, second = opened(), opened()
    made = first.compile(doubled())
    found = second.compile(doubled())

    assert found.program == made.program
    assert found.program.block[0] >= 32
    assert (first.stats().module_loads, second.stats().module_loads) == (2, 1)
    assert second.stats().disk_cache_hits == 2
    assert second.stats().compiles == 0
    np.testing.assert_array_equal(found(X), 2 * X)


def test_the_choice_of_a_builder_is_that_of_compile(opened: Open) -> None:
    made = opened().compile(doubled())
    device = opened()
    found = device.compile(doubled(128), block="auto")

    assert found.program.block == made.program.block


def test_every_option_has_a_choice_of_its_own(opened: Open) -> None:
    opened().compile(doubled())
    device = opened()
    device.compile(doubled(), bounds="trap")

    assert device.stats().disk_cache_hits == 0


@pytest.mark.parametrize("sections", [[b"0"], [b"-32"], [b"1000000"], [b"many"], [b"9" * 5000], [b"128", b"1"], [b""]])
def test_a_file_without_a_block_that_the_device_has_is_replaced(
    sections: list[bytes], opened: Open, root: Path
) -> None:
    made = opened().compile(doubled())
    path = choice_of(root)
    whole = path.read_bytes()
    path.write_bytes(entry.encode(bytes.fromhex(path.name.partition(".")[0]), sections))
    device = opened()
    found = device.compile(doubled())

    assert found.program.block == made.program.block
    assert device.stats().disk_cache_errors == 1
    assert path.read_bytes() == whole


def test_a_program_that_depends_on_its_block_is_refused_with_any_cache(opened: Open) -> None:
    b = vc.Builder("fixed", block=64)
    out = b.output("out", vc.u32, size=64)
    out[vc.thread_id.x] = vc.thread_id.x
    program = b.build()
    for device in (opened(), opened()):
        with pytest.raises(ValueError, match="depends on the block"):
            device.compile(program, block="auto")


def test_without_a_disk_cache_a_block_is_chosen_all_the_same(
    device_name: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device(device_name) as device:
        kernel = device.compile(doubled())

        assert kernel is device.compile(doubled())
        np.testing.assert_array_equal(kernel(X), 2 * X)


# ---- a block that is given -----------------------------------------------------------------------------------------


def with_ids() -> vc.Program:
    b = vc.Builder("ids", block=32)
    out = b.inout("out", vc.u32)
    i = b.let("i", vc.block_id.x * 32 + vc.thread_id.x)
    with b.if_(i < out.size):
        out[i] = i
    return b.build()


@pytest.mark.parametrize("threads", [1, 64, 1000, 1024])
def test_a_kernel_with_a_given_block(device: vc.Device, threads: int) -> None:
    kernel = device.compile(doubled(128), block=threads)

    assert kernel.program.block == (threads, 1, 1)
    np.testing.assert_array_equal(kernel(X), 2 * X)


def test_kernels_with_different_blocks_are_different_kernels(opened: Open) -> None:
    made = opened().compile(doubled(128), block=64)
    device = opened()

    assert device.compile(doubled(128), block=96).program.block == (96, 1, 1)
    assert device.stats().disk_cache_hits == 0
    assert device.compile(doubled(128), block=64).program == made.program
    assert device.stats().disk_cache_hits == 1
    assert device.compile(doubled(64)) is device.compile(doubled(128), block=64)


def test_a_given_block_overrules_one_that_was_to_be_chosen(device: vc.Device) -> None:
    assert device.compile(doubled("auto"), block=96).program.block == (96, 1, 1)


@pytest.mark.parametrize("block", [0, -1, 1025, 1 << 40])
def test_a_block_that_no_device_has_is_refused(device: vc.Device, block: int) -> None:
    with pytest.raises(ValueError, match=f"^block={block}; a block of this device has 1 to 1024 threads$"):
        device.compile(doubled(128), block=block)


@pytest.mark.parametrize("block", [True, 64.0, "64", (64, 1, 1), np.float32(64)])
def test_a_block_that_is_not_a_number_is_refused(device: vc.Device, block: object) -> None:
    with pytest.raises(TypeError, match="it must be a number of threads"):
        device.compile(doubled(128), block=block)


def test_a_program_that_depends_on_its_block_keeps_it(device: vc.Device) -> None:
    with pytest.raises(
        ValueError, match=r"block=64, but ids depends on its block of \(32, 1, 1\): it has block_id .*py:"
    ):
        device.compile(with_ids(), block=64)
    assert device.compile(with_ids(), block=32) is device.compile(with_ids())
