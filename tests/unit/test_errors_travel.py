"""Errors, programs and what they hold go to another process and come back as they were."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda import errors
from vyre_cuda.errors import CompileLocation, Diagnostic, Limit, RacingAccess

LIMIT = Limit("threads", 2048, 1024, "block")
ACCESS = RacingAccess((0, 0, 0), (1, 0, 0), "st.global", 3, ("f.py", 7))
MADE: list[errors.Error] = [
    vc.Error("plain"),
    vc.ProgramError("wrong", [Diagnostic("wrong", (1, "then", 0), 1, ("f.py", 3))]),
    vc.UnsupportedError("too much", capability="threads", limits=[LIMIT]),
    vc.DeviceUnavailableError("no driver"),
    vc.DeviceLostError("lost", launches=["saxpy"]),
    vc.ResourceError("out of memory"),
    vc.CommunicationError("a rank is gone", [1, 3]),
    vc.DriverError("failed", op="cuInit", status=3, name="CUDA_ERROR_NOT_INITIALIZED"),
    vc.CompileError(
        "refused",
        op="link",
        status=1,
        name="X",
        log="log",
        ptx="ptx",
        locations=[CompileLocation("m", 1, "i", "s", None)],
    ),
    vc.BundleError("damaged"),
    vc.BundleVersionError("newer"),
    vc.KernelAssertionError("text", message="m", program="p", statement=1, thread=2, source=("f.py", 3), index=4),
    vc.DataRaceError("text", program="p", buffer="x", index=1, first=ACCESS, second=ACCESS),
    vc.UninitializedError("text", program="p", buffer="x", index=1, statement=2, thread=3, source=("f.py", 3)),
    vc.KernelTimeoutError("late", launches=["saxpy", "add"]),
    vc.RecordingError("recorded"),
    vc.CacheError("cache"),
    vc.InternalError("defect"),
]


def test_there_is_one_of_every_error() -> None:
    kinds = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.Error)}

    assert kinds == {type(error) for error in MADE}


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_pickled_whole(error: errors.Error, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(error, protocol))

    assert type(back) is type(error)
    assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_error_is_copied_whole(error: errors.Error, copied: Any) -> None:
    back = copied(error)

    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_a_program_is_pickled() -> None:
    b = vc.Builder("twice", block=32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    with b.if_(vc.global_id.x < x.size):
        out[vc.global_id.x] = x[vc.global_id.x] * 2
    program = b.build()

    back = pickle.loads(pickle.dumps(program))

    assert (back, back.fingerprint, back.source) == (program, program.fingerprint, program.source)
