"""`vyre-cuda check` and `vyre-cuda ptx`: the mistakes in a program, and its PTX.

Neither needs a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.failures import UsageError, text_of
from vyre_cuda.cli.sources import load_program, load_programs
from vyre_cuda.cli.values import read_known
from vyre_cuda.errors import Diagnostic, ProgramError, UnsupportedError, counted
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes.specialize import specialized

_ONE_ROUNDING = 0.5  # ULP


def check(console: Console, *, file: Path, program: str | None) -> int:
    """Say that every program of the file (or the one named) is valid, or print all that is wrong; 0 or 1."""
    try:
        found = load_programs(file) if program is None else [load_program(file, program)]
    except ProgramError as error:
        if not console.json:
            console.findings(text_of(error))
        else:
            console.data({"file": str(file), "valid": False, "diagnostics": _findings(error.diagnostics)})
        return 1
    if console.json:
        console.data({"file": str(file), "valid": True, "programs": [_summary(each) for each in found]})
        return 0
    for each in found:
        summary = _summary(each)
        console.line(
            f"{each.name} is valid: {counted(len(each.parameters), 'parameter')}, "
            f"{counted(summary['statements'], 'statement')}, "
            f"fingerprint {each.fingerprint[:16]}"
        )
    return 0


def ptx(
    console: Console,
    *,
    file: Path,
    program: str | None,
    target: str,
    max_ulp: float | None,
    known: Sequence[tuple[str, str]],
) -> int:
    """Print the PTX for a target, its ops within `max_ulp` units in the last place, for `known` values of arguments."""
    chosen = load_program(file, program)
    if known:
        chosen = specialized(chosen, known_values(chosen, read_known(chosen, known)))
    if max_ulp is not None and not max_ulp >= _ONE_ROUNDING:
        raise UsageError(
            f"--max-ulp: {max_ulp:g} is too small; a single rounding is already off by {_ONE_ROUNDING} ULP"
        )
    try:
        text = vc.ptx(chosen, target=target, max_ulp=max_ulp)
    except ValueError as error:
        raise UsageError(f"--target: {error}") from None
    except UnsupportedError as error:
        if error.capability == target:
            raise UsageError(f"--target: {error}") from None
        raise
    if console.json:
        console.data({"program": chosen.name, "target": target, "ptx": text})
    else:
        console.line(text.rstrip("\n"))
    return 0


def _summary(program: Program) -> dict[str, Any]:
    return {
        "name": program.name,
        "block": list(program.block),
        "parameters": [{"name": p.name, "kind": p.kind, "type": p.type.name} for p in program.parameters],
        "statements": sum(1 for _ in statements(program.body)),
        "fingerprint": program.fingerprint,
    }


def _findings(diagnostics: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    findings = []
    for diagnostic in diagnostics:
        file, line = diagnostic.source or (None, None)
        place = {"file": file, "line": line, "column": diagnostic.column, "expression": diagnostic.expression}
        findings.append({"message": diagnostic.message, **place, "path": list(diagnostic.path)})
    return findings
