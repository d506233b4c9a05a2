"""An extension of somebody else's cimports the C interface, is built by setuptools, and runs beside the package."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import vyre_cuda as vc

from .tools import EMULATOR, call

SOURCE = Path(__file__).parent / "extension"


@pytest.mark.thin
@pytest.mark.slow
def test_an_extension_that_cimports_is_built_and_runs(tmp_path: Path) -> None:
    folder = tmp_path / "extension"
    shutil.copytree(SOURCE, folder)
    paths = {"PYTHONPATH": str(Path(vc.__file__).parents[1])}
    call([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder=folder, environment=paths)

    # In a process that has the package's own extensions, too: the library is there once.
    code = (
        "import re, sys, vyre_cuda as vc\n"
        "from roundtrip import roundtrip\n"
        "with vc.Device('emulator') as device:\n"
        "    array = device.zeros(4, vc.f32)\n"
        "    assert roundtrip(sys.argv[1], b'there and back') == b'there and back'\n"
        "    assert array.numpy().tolist() == [0.0] * 4\n"
        "try:\n"
        "    roundtrip('/nowhere/libcuda.so', b'')\n"
        "except RuntimeError as error:\n"
        "    assert '/nowhere/libcuda.so' in str(error)\n"
        "maps = open('/proc/self/maps').read()\n"
        "print(len(set(re.findall(r'\\S*/libvyre_cuda\\.so\\S*', maps))))\n"
    )
    assert call([sys.executable, "-c", code, EMULATOR], folder=folder, environment=paths) == "1\n"
