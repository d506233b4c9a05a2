"""A share of the programs by way of a bundle, whose machine code an assembler made and not the driver's compiler."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from random_cases import Case

import vyre_cuda as vc

# Of the programs that a run with bundles has: an assembler takes a tenth of a second for one.
SHARE = 16
TARGET = "sm_90"
_PROBE = "program probe\nblock 1\nindex u32\nout o: u32[u32:1]\n\nstore o[u32:0], u32:7\n"


class Bundler:
    """Makes bundles for `sm_90` where there is an assembler; `described` says whether there is."""

    def __init__(self, device: vc.Device, every: int) -> None:
        self._device: vc.Device | None = device
        self._every = every
        self._turn = 0
        self.described = f"for {TARGET}, one program in {every}"
        try:
            self.kernel(vc.parse(_PROBE), {})
        except vc.UnsupportedError as error:
            self.described = f"none: {error}"
            self._device = None

    def takes(self, case: Case) -> bool:
        if self._device is None:
            return False
        self._turn += 1
        return self._turn % self._every == 0

    def kernel(self, program: vc.Program, options: dict[str, Any]) -> Any:
        with tempfile.TemporaryDirectory(prefix="independent-") as folder:
            path = Path(folder) / "kernels.vyre"
            vc.bundle([program], path, targets=[TARGET], cubins=True, **options)
            return vc.load_bundle(path).on(self._device)[program.name]
