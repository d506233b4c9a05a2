"""The gallery: examples whose kernels are Python functions, as a person would run them, and against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from .test_examples import load

fir, nbody = map(load, ("fir", "nbody"))


# ---- fir.py ------------------------------------------------------------------------------------------------------


def test_fir_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fir.main(["--blocks", "3", *on]) == 0
    assert "np.convolve" in capsys.readouterr().out


def test_fir_continues_from_block_to_block(device: vc.Device) -> None:
    stream = np.random.default_rng(1).standard_normal(4 * fir.SAMPLES, dtype=np.float32)
    out = np.concatenate(list(fir.filtered(device, stream.reshape(4, -1))))

    np.testing.assert_allclose(out, fir.numpy_filtered(stream), rtol=0, atol=1e-5)


def test_fir_is_the_same_as_python() -> None:
    line, taps = np.random.default_rng(2).standard_normal(90, dtype=np.float32), fir.low_pass(9, 0.2)

    np.testing.assert_array_equal(
        vc.evaluate(fir.decimate.program(taps=taps, step=3), line), fir.decimate.python(line, taps, 3)
    )


# ---- nbody.py ----------------------------------------------------------------------------------------------------


def test_nbody_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert nbody.main(["--bodies", "65", "--steps", "10", *on]) == 0
    assert "NumPy in float64" in capsys.readouterr().out


@pytest.mark.parametrize("bodies", [1, 64, 100])
def test_nbody_moves_and_keeps_its_energy(device: vc.Device, bodies: int) -> None:
    pos, (before, after) = nbody.simulate(device, bodies, 20)

    np.testing.assert_allclose(pos, nbody.numpy_simulate(bodies, 20)[0], rtol=0, atol=1e-5)
    assert np.max(np.abs(pos - nbody.start(bodies)[0])) > 0.01
    assert after.sum() == pytest.approx(before.sum(), abs=1e-5)
