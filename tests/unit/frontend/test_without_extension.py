"""Kernel functions where the extension is not built: programs, the interpreter and PTX work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

sys.modules["vyre_cuda._native"] = None
import numpy as np
import vyre_cuda as vc


@vc.kernel
def doubled(x: vc.In[vc.f32], by: vc.const = 2):
    out = vc.output(vc.f32, x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * by


print(vc.evaluate(doubled, np.arange(4, dtype=np.float32)), len(vc.ptx(doubled)) > 100)
"""


def test_programs_are_built_and_interpreted(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout == "[0. 2. 4. 6.] True\n"
