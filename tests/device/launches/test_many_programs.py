"""Random programs by rows: the results of one launch are, bit for bit, those of a launch for each row, and of the
interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from examples import examples
from vyre_cuda.ir.call.call import argument_parameters
from vyre_cuda.ir.core.ops import ATOMICS, WARP_OPS
from vyre_cuda.runtime.kernel import rows_entry
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import scalars
from vyre_cuda.testing.strategies import programs_using_atomic, programs_using_warp, programs_with_inputs

from ..checks.test_races import checked as checked

RANDOM = settings(
    max_examples=examples(),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def varied(data: st.DataObject, program: vc.Program, arguments: list[Any]) -> list[Any]:
    """Other arguments: shorter arrays with their elements moved, and other scalars."""
    cut = data.draw(st.integers(0, 3))
    found = []
    for parameter, value in zip(argument_parameters(program), arguments, strict=True):
        if not parameter.is_buffer:
            found.append(value if cut == 0 else data.draw(scalars(parameter.type)))
        elif parameter.shape:
            found.append(np.ascontiguousarray(value[::-1]))
        else:
            found.append(np.roll(value, cut)[: max(len(value) - 7 * cut, 0)].copy())
    return found


def rows_of(data: st.DataObject, device: vc.Device, program: vc.Program, arguments: list[Any]) -> list[Any]:
    """(arguments, results by the interpreter) of up to six rows that the program takes."""
    rows = [(arguments, vc.evaluate(program, *arguments))]
    for _ in range(data.draw(st.integers(1, 5))):
        other = varied(data, program, arguments)
        try:
            rows.append((other, vc.evaluate(program, *other)))
        except (ValueError, vc.KernelAssertionError):
            continue  # sizes that the program does not take
    return rows


def launch_row(device: vc.Device, program: vc.Program, arguments: list[Any], results: Any) -> tuple[Any, ...]:
    """The arguments of a launch; results begin as garbage."""
    given_ = iter(arguments)
    wanted = iter(results if isinstance(results, tuple) else (results,))
    row = []
    for parameter in program.parameters:
        value = next(wanted) if parameter.is_writable else None
        if parameter.kind != "out":
            value = next(given_)
        elif value.size:
            value = np.frombuffer(b"\xa5" * value.nbytes, np.uint8).view(value.dtype).reshape(value.shape)
        row.append(device.array(np.ascontiguousarray(value)) if parameter.is_buffer else value)
    return tuple(row)


def assert_rows_agree(device: vc.Device, program: vc.Program, rows: list[Any]) -> None:
    note(program.text())
    kernel = device.compile(program)
    launched = [launch_row(device, program, *row) for row in rows]

    kernel.launch_many(launched)

    for row, (_, wanted) in zip(launched, rows, strict=True):
        found = tuple(v.numpy() for p, v in zip(program.parameters, row, strict=True) if p.is_writable)
        assert_same(wanted, found if isinstance(wanted, tuple) else found[0])
    assert_same(
        tuple(a for _, wanted in rows for a in (wanted if isinstance(wanted, tuple) else (wanted,))),
        tuple(
            a
            for found in kernel.many([tuple(arguments) for arguments, _ in rows])
            for a in (found if isinstance(found, tuple) else (found,))
        ),
    )


@pytest.mark.thin
@pytest.mark.slow
@RANDOM
@given(data=st.data())
def test_rows_of_random_programs_agree(shared_device: vc.Device, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_with_inputs())

    assert_rows_agree(shared_device, program, rows_of(data, shared_device, program, arguments))


@pytest.mark.slow
@RANDOM
@given(data=st.data())
def test_rows_of_programs_that_work_together_agree(shared_device: vc.Device, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        op = data.draw(st.sampled_from([(op, t) for op in ATOMICS.values() for t in op.types]))
        program, arguments = data.draw(programs_using_atomic(op[0], type_=op[1]))
    else:
        row = data.draw(st.sampled_from([(op, t) for op in WARP_OPS.values() for t in op.types]))
        program, arguments = data.draw(programs_using_warp(row[0], type_=row[1]))

    assert_rows_agree(shared_device, program, rows_of(data, shared_device, program, arguments))


# ---- check="races" -----------------------------------------------------------------------------------------------


@pytest.fixture
def together(checked: vc.Device, monkeypatch: pytest.MonkeyPatch) -> vc.Device:
    """A device whose checks are of the one launch; otherwise rows are checked one by one."""
    reason = rows_entry.what_keeps_apart

    def without_checks(kernel: vc.Kernel) -> str | None:
        found = reason(kernel)
        return None if found == rows_entry.CHECKS else found

    monkeypatch.setattr(rows_entry, "what_keeps_apart", without_checks)
    return checked


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.emulator
@settings(RANDOM, max_examples=25)
@given(data=st.data())
def test_one_launch_of_random_programs_does_not_race(together: vc.Device, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_with_inputs())
    rows = rows_of(data, together, program, arguments)
    before = together.stats().kernel_launches

    assert_rows_agree(together, program, rows)

    kernel = together.compile(program)
    assert rows_entry.what_keeps_apart(kernel) is not None or together.stats().kernel_launches - before <= 4


def racing() -> vc.Program:
    b = vc.Builder("racing", block=32)
    out = b.inout("out", vc.u32)
    out[0] = vc.global_id.x
    return b.build()


@pytest.mark.emulator
def test_a_race_within_a_row_of_one_launch_is_found(together: vc.Device) -> None:
    together.compile(racing()).launch_many([(together.zeros(1, vc.u32),), (together.zeros(64, vc.u32),)])

    with pytest.raises(vc.DataRaceError, match="in program racing at address"):
        together.synchronize()


@pytest.mark.emulator
def test_a_race_within_a_row_names_the_buffer(checked: vc.Device) -> None:
    program = vc.parse(racing().text().replace("racing", "racing_by_rows"))
    checked.compile(program).launch_many([(checked.zeros(1, vc.u32),), (checked.zeros(64, vc.u32),)])

    with pytest.raises(vc.DataRaceError, match=r"at out\[0\]"):
        checked.synchronize()
