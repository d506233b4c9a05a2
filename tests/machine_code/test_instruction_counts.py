"""How many instructions ptxas makes of kernels: never more than recorded in `instruction_counts.json`.

`pytest tests/machine_code --update-golden` records them; read the diff. Another ptxas counts otherwise, so the file
names the one that it is about, and conftest.py skips these tests where there is another one.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from disassembly import ARCHITECTURE, compile_kernels, has_tools, ptxas_version
from kernels import KERNELS

import vyre_cuda as vc

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")]

RECORD = Path(__file__).parent / "instruction_counts.json"
# What hand-written forms reach, and at most what these kernels may cost with the recorded ptxas.
TARGETS = {"stencil": 48, "u8_blend": 36, "i16_polynomial": 23, "rotations_by_shifts": 20}


@cache
def instructions(name: str) -> int:
    """Those of a kernel's machine code, without the padding behind it."""
    (kernel,) = compile_kernels(vc.ptx(KERNELS[name](), target=ARCHITECTURE)).values()
    return sum(instruction.opcode != "NOP" for instruction in kernel.instructions)


@pytest.fixture(scope="module")
def record(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.config.getoption("--update-golden"):
        counts = {name: instructions(name) for name in KERNELS}
        written = {"ptxas": ptxas_version(), "architecture": ARCHITECTURE, "instructions": counts}
        RECORD.write_text(json.dumps(written, indent=2) + "\n", encoding="ascii")
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="ascii"))
    return found


@pytest.mark.thin(21)
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_has_more_instructions_than_recorded(name: str, record: dict[str, Any]) -> None:
    assert instructions(name) <= record["instructions"][name]


@pytest.mark.thin
@pytest.mark.parametrize(("name", "most"), TARGETS.items())
def test_kernels_reach_their_targets(name: str, most: int, record: dict[str, Any]) -> None:
    assert record["architecture"] == "sm_90"
    assert instructions(name) <= most


def test_the_record_has_these_kernels_and_no_others(record: dict[str, Any]) -> None:
    assert set(record["instructions"]) == set(KERNELS)
