"""Bundles: programs compiled into a file without a device, loaded and run from it as they would be compiled."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

TARGETS = ("sm_80", "sm_90")


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=256)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def checked() -> vc.Program:
    b = vc.Builder("checked", block=64)
    x = b.inout("x", vc.i32)
    least = b.scalar("least", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] >= least, "too small")
        x[i] = x[i] - least
    return b.build()


@pytest.fixture
def bundle(tmp_path) -> vc.Bundle:
    vc.bundle([saxpy(), checked()], tmp_path / "two.vyre", targets=TARGETS, cubins=False)
    return vc.load_bundle(tmp_path / "two.vyre")


def test_a_bundle_tells_what_is_in_it(bundle: vc.Bundle) -> None:
    assert list(bundle.kernels) == ["checked", "saxpy"]
    kernel = bundle.kernels["saxpy"]
    assert kernel.program == saxpy()
    assert kernel.fingerprint == saxpy().fingerprint
    assert kernel.targets == TARGETS
    assert (kernel.precision, kernel.bounds, kernel.cubins) == ("ieee", "check", ())
    assert bundle.ptx("saxpy", "sm_80").startswith(".version 7.0\n.target sm_80\n") or ".target sm_80" in bundle.ptx(
        "saxpy", "sm_80"
    )


@pytest.mark.device
def test_a_kernel_of_a_bundle_gives_what_a_compiled_one_gives(bundle: vc.Bundle, device: vc.Device) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 1000), np.float32)
    expected = device.run(saxpy(), x, y, 2.5)

    found = bundle.on(device)["saxpy"](x, y, 2.5)

    np.testing.assert_array_equal(found, expected)


@pytest.mark.device
def test_a_failed_check_of_a_bundle_without_source_is_explained(tmp_path, device: vc.Device) -> None:
    vc.bundle(checked(), tmp_path / "one.vyre", targets=["sm_90"], source=False)
    kernel = vc.load_bundle(tmp_path / "one.vyre").on(device)["checked"]

    with pytest.raises(vc.KernelAssertionError) as failure:
        kernel(np.array([5, 1, 7], np.int32), 3)

    with pytest.raises(vc.KernelAssertionError) as expected:
        device.run(checked(), np.array([5, 1, 7], np.int32), 3)
    assert failure.value.message == "too small"
    assert (failure.value.thread, failure.value.statement) == (expected.value.thread, expected.value.statement)
