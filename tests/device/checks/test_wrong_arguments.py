"""Arguments of a wrong kind are refused in words that a caller can use, not by what they run into."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

WRONG: dict[str, tuple[Callable[[vc.Device], Any], type[Exception], str]] = {
    "upload of nothing": (lambda d: d.upload(None), TypeError, "^upload takes a list of tuples, not None$"),  # type: ignore[arg-type]
    "upload of a number": (lambda d: d.upload(3), TypeError, "^upload takes a list of tuples, not an int$"),  # type: ignore[arg-type]
    "upload of a text": (lambda d: d.upload("abc"), TypeError, "^upload takes a list of tuples, not a str$"),  # type: ignore[arg-type]
    "upload of an array": (lambda d: d.upload(one(d)), TypeError, "a list of tuples, not a DeviceArray$"),  # type: ignore[arg-type]
    "upload of a short tuple": (
        lambda d: d.upload([(one(d),)]),  # type: ignore[list-item]
        TypeError,
        r"\(array, element offset, data\), not a tuple of 1$",
    ),
    "upload to a fraction": (
        lambda d: d.upload([(one(d), 0.5, F32)]),  # type: ignore[list-item]
        TypeError,
        "^upload: the offset is a float; it must be an int$",
    ),
    "upload before the beginning": (
        lambda d: d.upload([(one(d), -1, F32)]),
        ValueError,
        "^upload: the offset is -1; it must be 0 or more$",
    ),
    "upload behind the end": (
        lambda d: d.upload([(one(d), 1, F32)]),
        ValueError,
        "^upload of 1 element from element 1 on: the array has 1 element$",
    ),
    "download of nothing": (lambda d: d.download(None), TypeError, "^download takes a list of tuples, not None$"),  # type: ignore[arg-type]
    "download of a mapping": (lambda d: d.download({}), TypeError, "not a dict$"),  # type: ignore[arg-type]
    "download of None": (
        lambda d: d.download([None]),  # type: ignore[list-item]
        TypeError,
        r"^download takes tuples \(array, element offset, count\), not None$",
    ),
    "download of a number of None": (
        lambda d: d.download([(one(d), 0, None)]),  # type: ignore[list-item]
        TypeError,
        "^download: the count is None; it must be an int$",
    ),
    "a recorded copy to a fraction": (
        lambda d: recorded(d, lambda: one(d).copy_from(one(d), 0.5)),  # type: ignore[arg-type]
        TypeError,
        "^copy_from: the offset is a float; it must be an int$",
    ),
    "a recorded copy behind the end": (
        lambda d: recorded(d, lambda: one(d).copy_from(one(d), 2)),
        ValueError,
        "^copy_from element 2 on: the array has 1 element$",
    ),
    "a symbol in a fill": (lambda d: one(d).fill(vc.symbol("a")), vc.RecordingError, "pass a number there$"),
    "too many indices": (lambda d: one(d)[0, 0], IndexError, "^2 indices for an array with 1 axis$"),
    "a place behind the end": (lambda d: one(d)[1], IndexError, "out of range for an array of 1 element$"),
    "page-locked memory of 2^70 elements": (lambda d: d.pinned_empty(2**70, vc.f32), vc.ResourceError, "no device"),
    "page-locked memory of 2^61 elements": (lambda d: d.pinned_empty(2**61 + 1, vc.f64), vc.ResourceError, "no device"),
    "temporary memory of 2^70 elements": (
        lambda d: recorded(d, lambda g: g.temporary(2**70, vc.f32)),
        vc.ResourceError,
        "no device",
    ),
    "a check that is a number": (lambda d: vc.Device("emulator", check=1), TypeError, "^check= is an int; it must"),  # type: ignore[arg-type]
    "checks that are numbers": (lambda d: vc.Device("emulator", check=[1]), TypeError, "^check= has an int; it must"),  # type: ignore[list-item]
    "a precision that is an array": (
        lambda d: d.compile(programs.saxpy(), precision=np.zeros(2)),  # type: ignore[arg-type]
        ValueError,
        "must be one of ieee",
    ),
    "a scalar of None": (
        lambda d: d.run(programs.saxpy(), F32, F32, None),
        TypeError,
        "scalar a: the value is None; a number of type f32 is needed$",
    ),
    "a scalar that is an array": (
        lambda d: d.run(programs.saxpy(), F32, F32, np.zeros((2, 3))),
        TypeError,
        r"scalar a: the value is an array of shape \(2, 3\); a number",
    ),
    "an input of None": (lambda d: d.run(programs.saxpy(), None, F32, 1.0), TypeError, "argument x is None; it needs"),
    "two results for one": (
        lambda d: d.run(programs.saxpy(), F32, F32, 1.0, out=(F32, F32)),
        TypeError,
        r"out= is a tuple of 2 for 1 result \(out\)$",
    ),
    "a capability that nobody knows": (lambda d: d.supports("abc"), ValueError, "^supports does not know 'abc': pass"),
    "limits of a list": (lambda d: d.compile(programs.saxpy()).limits([1]), TypeError, r"grid=\[1\]: an int or"),  # type: ignore[arg-type]
    "limits of no axes": (lambda d: d.compile(programs.saxpy()).limits(()), ValueError, "needs one to three$"),
    "a device for DLPack that is a name": (
        lambda d: vc.from_dlpack(one(d), device="cuda"),  # type: ignore[arg-type]
        TypeError,
        "^device= is a str; it must be a Device, or None$",
    ),
    "a stream that nobody made": (lambda d: vc.Stream(), TypeError, r"^a Stream is made by Device.stream\(\)$"),  # type: ignore[call-arg]
    "a stream of a device": (lambda d: vc.Stream(d), TypeError, r"^a Stream is made by Device.stream\(\)$"),  # type: ignore[arg-type]
    "a wait for a number": (lambda d: d.stream().wait(3), TypeError, "for an event or a worker, not for an int:"),  # type: ignore[arg-type]
    "a kernel that a bundle lacks": (
        lambda d: bundled().on(d)["axpy"],
        KeyError,
        "the bundle has no kernel 'axpy'; it has saxpy\"$",
    ),
    "PTX of a kernel that a bundle lacks": (lambda _: bundled().ptx("axpy", "sm_90"), KeyError, 'it has saxpy"$'),
    "PTX for a target that a bundle lacks": (
        lambda _: bundled().ptx("saxpy", "sm_80"),
        KeyError,
        "the bundle has saxpy for sm_90, not for 'sm_80': write it for that, too\"$",
    ),
    "no targets of a bundle": (lambda _: bundled(targets=None), TypeError, "^targets=None must be a list of names"),
    "a list of graphs": (lambda _: bundled(graphs=[1]), TypeError, "^graphs= is a list; it must be a dict, such as"),
    "a text as source=": (lambda _: bundled(source="no"), TypeError, "^source= is a str; it must be True or False$"),
    "a number as cubins=": (lambda _: bundled(cubins=3), TypeError, "cubins= is an int; .* True or False, or None$"),
    "a range that is a number": (lambda d: vc.algorithms.histogram(one(d), range=3), TypeError, "^range=3; it must be"),
    "axes that are a number": (
        lambda d: vc.algorithms.transpose(one(d), axes=0),
        TypeError,
        "^axes is an int; it must",
    ),
    "a dtype that nobody knows": (lambda d: vc.algorithms.sum(one(d), dtype="abc"), TypeError, "^dtype 'abc' is not a"),
    "a group of nothing": (
        lambda _: vc.distributed.local(None),
        TypeError,
        "^local takes a list of devices, not None$",
    ),
    "a group of names": (lambda _: vc.distributed.local(["cuda"]), TypeError, "^local takes a Device, not a str: open"),
    "a rank without a device": (
        lambda _: vc.distributed.join(None),
        TypeError,
        "^join takes a Device, not None: open it",
    ),
    "no pairs": (
        lambda _: vc.egraph.Table([1], [0], [0], []).merged(None),
        TypeError,
        "^pairs is None; give two classes",
    ),
    "a negative number of axes": (
        lambda _: vc.Builder("p").input("x", vc.f32, ndim=-1),
        vc.ProgramError,
        "^x with -1 axes; an array has 1 to 4 ",
    ),
    "a bundle of None": (lambda d: vc.load_bundle(None), TypeError, "^load_bundle takes a path, or .* not None$"),  # type: ignore[arg-type]
    "a cache in a number": (lambda d: vc.configure_jit_cache(3), TypeError, "^directory is an int; it must be a path"),  # type: ignore[arg-type]
}

F32 = np.zeros(1, np.float32)


def one(device: vc.Device) -> vc.DeviceArray:
    return device.zeros(1, vc.f32)


def bundled(**options: Any) -> vc.Bundle:
    options = {"targets": ["sm_90"], "cubins": False, **options}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saxpy.vyre")
        vc.bundle(programs.saxpy(), path, **options)
        return vc.load_bundle(path)


def recorded(device: vc.Device, give: Callable[..., object]) -> None:
    with device.record() as graph:
        give(*[graph] * give.__code__.co_argcount)


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_refused_with_what_was_given_and_what_is_needed(device: vc.Device, what: str) -> None:
    give, error, words = WRONG[what]

    with pytest.raises(error, match=words):
        give(device)


def test_limits_take_a_number_of_blocks_as_launches_do(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())

    assert kernel.limits((7, 1, 1)) == kernel.limits(7) == kernel.limits((7,))
