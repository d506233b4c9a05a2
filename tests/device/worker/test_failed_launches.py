"""A worker that cannot be launched: calls that were refused leave nothing in the ring."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = [pytest.mark.device, pytest.mark.emulator]

OUT_OF_MEMORY = 2


@pytest.mark.parametrize("refused", [1, 3])
def test_a_call_that_was_refused_never_runs(emulator: Emulator, refused: int) -> None:
    """One before it is in the ring, and the next launch is for that one."""
    x = np.arange(300, dtype=np.float32)
    with vc.Device("emulator") as device:
        saxpy = device.compile(programs.saxpy())
        with device.worker([saxpy], idle=0.2) as worker:
            worker.pause()
            first = worker.submit(saxpy, x, x, 2.0)
            worker.resume()
            emulator.fail("cuLaunchKernel", result=OUT_OF_MEMORY, repeat=True)
            for number in range(refused):
                with pytest.raises(vc.Error):
                    worker.submit(saxpy, x, x, 100.0 + number)
            emulator.reset()
            assert_same(first.result(), x * 2 + x)
            for number in range(5):
                assert_same(worker.call(saxpy, x + number, x, 3.0), (x + number) * 3 + x)
            assert worker.stats().calls == 6
