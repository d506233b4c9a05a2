"""The error for PTX that the driver rejected, with the statements that the compiler's log is about."""

from __future__ import annotations

import re

from vyre_cuda.codegen.emit.lines import statements_of_lines
from vyre_cuda.errors import CompileError, CompileLocation
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.text.text import format_source, format_statement

# ptxas application ptx input, line 12; error   : Arguments mismatch for instruction 'add'
_LINE = re.compile(r"\bline (\d+)\b[;:,]?\s*(.*)")
_SHOWN = 3


def explained(error: CompileError, program: Program) -> CompileError:
    """The same error with its locations; `program` is what was lowered to the rejected text."""
    lines = error.ptx.splitlines()
    statements = statements_of_lines(program, error.ptx)
    locations = []
    for match in _LINE.finditer(error.log):
        number = int(match[1])
        if not 1 <= number <= len(lines):
            continue
        statement = statements[number - 1]
        locations.append(
            CompileLocation(
                message=match[2].strip(),
                line=number,
                instruction=lines[number - 1].strip(),
                statement="" if statement is None else format_statement(statement).splitlines()[0].strip(),
                source=program.source if statement is None else statement.source,
            )
        )
    shown = [_shown(program, location) for location in locations[:_SHOWN]]
    return CompileError(
        "\n".join([str(error), *shown]),
        op=error.op,
        status=error.status,
        name=error.name,
        log=error.log,
        ptx=error.ptx,
        locations=locations,
    )


def _shown(program: Program, location: CompileLocation) -> str:
    what = f"statement '{location.statement}'" if location.statement else "no statement of its own"
    where = f" of {format_source(location.source)}" if location.source is not None else ""
    return f"  program {program.name}, {what}{where}: {location.instruction}"
