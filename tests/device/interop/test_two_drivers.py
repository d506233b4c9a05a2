"""The emulator in a process whose global scope holds another driver, as `ctypes.RTLD_GLOBAL` and `-lcuda` make it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY


def test_the_emulator_calls_nothing_of_a_driver_in_the_global_scope(tmp_path):
    other = tmp_path / "libcuda_of_others.so"
    shutil.copyfile(Path(vc.get_library_dir()) / EMULATOR_LIBRARY, other)
    code = f"""
    import ctypes
    other = ctypes.CDLL({str(other)!r}, mode=ctypes.RTLD_GLOBAL)

    import numpy as np
    import vyre_cuda as vc
    from vyre_cuda.testing.emulator import Emulator

    b = vc.Builder("double")
    x = b.inout("x", vc.f32)
    i = vc.global_id.x
    x[i] = x[i] * 2
    with vc.Device("emulator") as device:
        print(device.run(b.build(), np.ones(3, np.float32)))
    taken = ctypes.c_uint64()
    other.vyre_emulator_count(b"launches", ctypes.byref(taken))
    print(taken.value, Emulator().count("launches"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600)

    assert done.stderr == ""
    assert done.stdout == "[2. 2. 2.]\n0 1\n"
