"""`vyre-cuda bundle`: writes the programs of a file to a bundle, or shows what a bundle contains. No device needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vyre_cuda as vc
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.cli.header import write_header
from vyre_cuda.cli.launcher import launcher as write_launcher
from vyre_cuda.cli.sources import load_program, load_programs
from vyre_cuda.cli.values import read_known
from vyre_cuda.errors import UnsupportedError, counted

SUFFIX = ".vyre"


def bundle(
    console: Console,
    *,
    file: Path,
    program: str | None,
    out: Path | None,
    targets: Sequence[str] | None,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    known: Sequence[tuple[str, str]],
    source: bool,
    cubins: bool | None,
    launcher: Path | None,
    cpp: Path | None,
) -> int:
    """Write a bundle of all programs of the file (or the one named), or open an existing one; print its contents.

    With `launcher`, a C++ program around it is written to that folder; with `cpp`, a C++ header for it to that file.
    """
    if file.suffix == SUFFIX and out is None:
        return _tell(console, file, launcher, cpp)
    if out is None:
        raise UsageError("-o OUT.vyre is required: the file to write the bundle to")
    _keep(file, "-o", out)
    _keep(file, "--cpp", cpp)
    programs = load_programs(file) if program is None else [load_program(file, program)]
    if known and len(programs) > 1:
        raise UsageError(f"--specialize is for one program, and {file} has {len(programs)}: choose one with --program")
    values = read_known(programs[0], known) if known else None
    options: dict[str, Any] = {} if targets is None else {"targets": list(targets)}
    try:
        vc.bundle(
            programs,
            out,
            precision=precision,
            bounds=bounds,
            max_ulp=max_ulp,
            specialize=values,
            source=source,
            cubins=cubins,
            **options,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    except UnsupportedError as error:
        if targets is not None and error.capability in targets:
            raise UsageError(f"--targets: {error}") from None
        raise
    return _tell(console, out, launcher, cpp)


def _keep(file: Path, option: str, written: Path | None) -> None:
    """Refuse to write over the file that is read."""
    if written is not None and written.exists() and written.samefile(file):
        raise UsageError(f"{option} {written} would replace {file}, which is read: name another file")


def _tell(console: Console, file: Path, launcher: Path | None, cpp: Path | None) -> int:
    _keep(file, "--cpp", cpp)
    found = vc.load_bundle(file)
    written = [] if launcher is None else write_launcher(console, bundle=file, folder=launcher)
    header = None if cpp is None else write_header(found, stem=file.stem, to=cpp)
    kernels = [
        {
            "name": kernel.name,
            "parameters": [{"name": p.name, "kind": p.kind, "type": p.type.name} for p in kernel.program.parameters],
            "precision": kernel.precision,
            "bounds": kernel.bounds,
            "max_ulp": kernel.max_ulp,
            "specialize": dict(kernel.specialize),
            "targets": list(kernel.targets),
            "cubins": list(kernel.cubins),
            "has_source": kernel.has_source,
            "is_worker": kernel.is_worker,
            "is_rows": kernel.is_rows,
            "fingerprint": kernel.fingerprint,
        }
        for kernel in found.kernels.values()
    ]
    graphs = [
        {"name": graph.name, "symbols": list(graph.symbols), "steps": graph.steps, "bytes": graph.nbytes}
        for graph in found.graphs.values()
    ]
    if console.json:
        facts = {"file": str(file), "bytes": found.nbytes, "digest": found.digest}
        console.data({**facts, "kernels": kernels, "graphs": graphs, "launcher": written, "cpp": header})
        return 0
    console.line(f"{file}: {found.nbytes} bytes, digest {found.digest[:16]}")
    for kernel in found.kernels.values():
        parameters = ", ".join(f"{p.kind} {p.type.name} {p.name}" for p in kernel.program.parameters)
        code = ", ".join(f"{name} + cubin" if name in kernel.cubins else name for name in kernel.targets)
        values = ", ".join(f"{name} = {value}" for name, value in kernel.specialize.items())
        console.line(f"  kernel {kernel.name}({parameters}): {code}{f', compiled for {values}' if values else ''}")
    for graph in found.graphs.values():
        steps = counted(graph.steps, "step")
        console.line(f"  graph {graph.name}({', '.join(graph.symbols)}): {steps}, {graph.nbytes} bytes")
    return 0
