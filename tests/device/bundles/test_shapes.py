"""Bundles of programs whose buffers have several axes or declared sizes: calls, refusals, graphs, what C works out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.bundle.bundle import BundleFile
from vyre_cuda.descriptors.signature import ROLE_SCALAR

from ..bundle_programs import outer

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def copied() -> vc.Program:
    b = vc.Builder("copied")
    x = b.input("x", vc.f32)
    o = b.output("o", vc.f32, x.size)
    o[vc.global_id.x] = x[vc.global_id.x]
    return b.build()


Y, Z = np.array([1, 10], np.float32), np.zeros(3, np.float32)
WANT = np.multiply.outer(X[:2], Y)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shapes.vyre"


def loaded(device: vc.Device, path: Path, *, source: bool = True) -> vc.Kernel:
    vc.bundle(outer(), path, targets=[str(device.target)], cubins=False, source=source)
    return vc.load_bundle(path).on(device)["outer"]


@pytest.mark.parametrize("source", [True, False])
def test_a_kernel_from_a_bundle_returns_and_checks_shapes(device: vc.Device, path: Path, source: bool) -> None:
    kernel = loaded(device, path, source=source)
    np.testing.assert_array_equal(WANT, kernel(X, Y, Z, 2), strict=True)
    o = device.empty((2, 4, 2), vc.f32)
    kernel.launch(device.array(X), device.array(Y), device.array(Z), 2, o)
    np.testing.assert_array_equal(WANT, o.numpy(), strict=True)
    with pytest.raises(ValueError, match=r"argument x has the shape \(4, 3\), not \(:, 4\)"):
        kernel(np.ascontiguousarray(X.T), Y, Z, 2)
    with pytest.raises(ValueError, match=r"argument z has 2 elements, not 3 \(size\(y\) = 2\)"):
        kernel(X, Y, Y, 2)
    places = [(p.kind, p.name, p.offset, p.size) for p in device.compile(outer()).lowered.parameters]
    assert [(p.kind, p.name, p.offset, p.size) for p in kernel.lowered.parameters] == places


def test_only_bundles_with_shapes_have_the_newer_format(device: vc.Device, path: Path) -> None:
    loaded(device, path)
    assert vc.load_bundle(path).format_version == 2
    b = vc.Builder("plain")
    b.input("x", vc.f32)
    vc.bundle(b.build(), path, targets=["sm_90"], cubins=False)
    assert vc.load_bundle(path).format_version == 1


def test_a_reader_in_c_knows_extents_as_scalars(device: vc.Device, path: Path) -> None:
    loaded(device, path)
    file = BundleFile(path.read_bytes())
    named = [(name, slot, sized) for name, role, _, slot, sized in file.parameters(0) if role == ROLE_SCALAR]
    assert named[:3] == [("n", 0, False), ("x.0", 1, False), ("x.1", 2, True)]
    assert named[3:] == [("o.0", 3, True), ("o.1", 4, True), ("o.2", 5, True)]

    scalars = [2, 3, 99, 99, 99, 99]
    assert file.extents(0, [12, 2, 3, 0], scalars) == [2, 3, 4, 2, 4, 2]
    assert file.shape(0, [12, 2, 3, 0], [2, 3, 4, 2, 4, 2]) == ([12, 2, 3, 16], (1, 1, 1))


REFUSED: list[tuple[list[int], list[int], str]] = [
    ([12, 2, 3, 0], [2, 3, 4, 2, 4, 3], "extent o.2 is 3, not 2"),
    ([12, 2, 3, 0], [2, 3, 5, 2, 5, 2], "extent x.1 is 5, not 4"),
    ([13, 2, 3, 0], [2, 3, 4, 2, 4, 2], "x has 13 elements, not 12"),
    ([12, 2, 4, 0], [2, 3, 4, 2, 4, 2], "z has 4 elements, not 3"),
    ([12, 2, 3, 0], [2**32 - 1, 3, 4, 2, 4, 2], "extent o.0 is negative or out of range of its type: -1"),
]


@pytest.mark.parametrize("counts, scalars, message", REFUSED, ids=[message for *_, message in REFUSED])
def test_a_reader_in_c_refuses_what_is_not_as_declared(
    device: vc.Device, path: Path, counts: list[int], scalars: list[int], message: str
) -> None:
    loaded(device, path)
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        BundleFile(path.read_bytes()).shape(0, counts, scalars)


def undeclared() -> vc.Program:
    b = vc.Builder("undeclared", block=(8, 8))
    x, o = b.input("x", vc.f32, ndim=2), b.output("o", vc.f32, ndim=2)
    b.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    o[i, j] = x[i, j]
    return b.build()


def test_a_reader_in_c_refuses_extents_of_another_number_of_elements(path: Path) -> None:
    vc.bundle(undeclared(), path, targets=["sm_90"], cubins=False)
    file = BundleFile(path.read_bytes())

    assert file.shape(0, [6, 6], [2, 3, 2, 3]) == ([6, 6], (1, 1, 1))
    with pytest.raises(ValueError, match="x has 6 elements, not 10000"):
        file.shape(0, [6, 6], [100, 100, 2, 3])
    assert file.shape(0, [6, 6], [2, 3, 3, 3])[0] == [6, 9]  # what a run has to bring for o


def test_a_graph_in_a_bundle_keeps_the_shapes_of_its_arrays(device: vc.Device, path: Path) -> None:
    kernel = device.compile(outer())
    x, y, z, o = device.array(X), device.array(Y), device.array(Z), device.zeros((2, 4, 2), vc.f32)
    same = device.compile(copied())
    with device.record() as graph:
        kernel.launch(x, vc.symbol("y"), z, 2, o)
        same.launch(o, vc.symbol("out"))
    vc.bundle([], path, graphs={"g": graph}, targets=[str(device.target)], cubins=False)
    again = vc.load_bundle(path).on(device).graph("g")
    result = device.zeros(16, vc.f32)
    again.replay(y=y, out=result)
    np.testing.assert_array_equal(WANT.ravel(), result.numpy())


def test_a_symbol_for_an_array_with_axes_is_refused_in_a_bundle(device: vc.Device, path: Path) -> None:
    kernel = device.compile(outer())
    y, z, o = device.array(Y), device.array(Z), device.zeros((2, 4, 2), vc.f32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x"), y, z, 2, o)
    with pytest.raises(vc.UnsupportedError, match="symbol x stands for the array of x, which has 2 axes"):
        vc.bundle([], path, graphs={"g": graph}, targets=["sm_90"], cubins=False)
