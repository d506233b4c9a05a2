"""PTX that the driver refuses: its compiler's log is told in statements of the program."""

from __future__ import annotations

import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = [pytest.mark.device, pytest.mark.emulator]

CUDA_ERROR_INVALID_PTX = 218


def refuse(device: vc.Device, program: vc.Program, line: int, emulator: Emulator, **options: str) -> vc.CompileError:
    emulator.set("refuse_line", line)
    with pytest.raises(vc.CompileError) as caught:
        device.compile(program, **options)
    emulator.set("refuse_line", 0)
    return caught.value


@pytest.mark.parametrize("bounds", ["check", "trap"])
def test_refused_line_is_told_as_its_statement(bounds: str, own_device: vc.Device, emulator: Emulator) -> None:
    program = programs.saxpy()
    text = own_device.compile(program, bounds=bounds).ptx.splitlines()
    own_device._kernels.clear()
    number = next(n for n, line in enumerate(text, 1) if "st.global" in line)
    error = refuse(own_device, program, number, emulator, bounds=bounds)

    (location,) = error.locations
    assert location.line == number
    assert location.instruction == text[number - 1].strip()
    assert location.message == "error   : refused on demand"
    assert location.statement.startswith("store out[i]")
    assert location.source is not None
    assert location.source[0].endswith("programs.py")
    assert f"{location.source[0]}:{location.source[1]}" in str(error)
    assert (error.op, error.status) == ("cuLinkAddData", CUDA_ERROR_INVALID_PTX)
    assert error.ptx.splitlines() == text
    assert "line" in error.log


def test_line_of_the_header_is_told_as_the_programs(own_device: vc.Device, emulator: Emulator) -> None:
    program = programs.saxpy()
    error = refuse(own_device, program, 2, emulator)

    (location,) = error.locations
    assert (location.statement, location.source, location.instruction) == ("", program.source, ".target sm_90")


def test_line_that_is_not_there_is_left_to_the_log(own_device: vc.Device, emulator: Emulator) -> None:
    error = refuse(own_device, programs.saxpy(), 100_000, emulator)

    assert error.locations == ()
    assert "100000" in error.log


def test_program_from_text_names_its_line(own_device: vc.Device, emulator: Emulator) -> None:
    program = vc.parse(programs.saxpy().text(), filename="saxpy.vir")
    text = own_device.compile(program).ptx.splitlines()
    own_device._kernels.clear()
    number = next(n for n, line in enumerate(text, 1) if "st.global" in line)
    (location,) = refuse(own_device, program, number, emulator).locations

    assert location.source is not None
    assert location.source[0] == "saxpy.vir"
    assert program.text().splitlines()[location.source[1] - 1].strip().startswith("store out[i]")


def test_device_compiles_afterwards(own_device: vc.Device, emulator: Emulator) -> None:
    refuse(own_device, programs.saxpy(), 3, emulator)

    assert own_device.compile(programs.saxpy()).attributes.registers > 0


def test_every_attribute_of_a_kernel_is_told(own_device: vc.Device) -> None:
    attributes = own_device.compile(programs.saxpy()).attributes

    assert attributes.registers > 0
    assert attributes.resident_blocks > 0
    assert (attributes.local_bytes, attributes.static_shared_bytes) == (0, 0)
    assert attributes.max_threads_per_block >= 256
    assert attributes.constant_bytes >= 0
