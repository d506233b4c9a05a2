"""The text of a kernel: header, parameters, declarations of registers and arrays, and the instructions.

The same function gives the same text, in ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

from vyre_cuda.codegen.core.lowered import KernelParameter
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.instructions import Emitter
from vyre_cuda.codegen.forms.isel import REGISTER_CLASS
from vyre_cuda.codegen.lowering.access_forms import MEMORY_WORD
from vyre_cuda.codegen.lowering.isel_memory import DYNAMIC_SYMBOL, Memory, Place, symbol_name
from vyre_cuda.codegen.ssa.ssa import Function
from vyre_cuda.ir.core.nodes import Table, extent_names
from vyre_cuda.ir.core.program import Program

if TYPE_CHECKING:
    from vyre_cuda.codegen.emit.resident import Resident
    from vyre_cuda.codegen.emit.rows import Rows

_POINTER_BYTES = 8
# Classes in the order of their declarations.
_CLASSES = (
    ("%p", ".pred"),
    ("%h", ".b16"),
    ("%r", ".b32"),
    ("%rd", ".b64"),
    ("%f", ".f32"),
    ("%fd", ".f64"),
)
# How the names of registers of each type begin.
_PREFIXES = {type_: prefix for type_, (_, prefix) in REGISTER_CLASS.items()}
# The first names of registers of each class, kept for kernels to come.
_NAMES: dict[str, list[str]] = {prefix: [] for prefix, _ in _CLASSES}
_MOST_NAMES = 2048


def entry_name(program: Program) -> str:
    """The kernel's PTX identifier."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in program.name[:64])
    return f"k_{clean}"


def used_parameters(function: Function, live: bytearray) -> set[object]:
    """The kinds and names of the parameters that the code reads."""
    return {function.attrs[value] for value in function.entry if live[value] and function.ops[value] == "parameter"}


def lay_out_parameters(
    program: Program, used: set[object], hidden: tuple[str, ...]
) -> tuple[tuple[KernelParameter, ...], int]:
    """The parameter block and its bytes: declared parameters, then the sizes and the extents among those used,
    then the hidden pointers.
    """
    wanted: list[tuple[str, str, int]] = []
    parameters: list[KernelParameter] = []
    for p in program.parameters:
        wanted.append(("buffer", p.name, _POINTER_BYTES) if p.is_buffer else ("scalar", p.name, p.type.itemsize))
    wanted += [("size", p.name, program.index.itemsize) for p in program.parameters if ("size", p.name) in used]
    extents = [name for name in extent_names(program.parameters) if ("extent", name) in used]
    wanted += [("extent", name, program.index.itemsize) for name in extents]
    wanted += [(name, name, _POINTER_BYTES) for name in hidden]
    types = {p.name: p.type for p in program.parameters}
    end = 0
    for kind, name, size in wanted:
        offset = -(-end // size) * size
        end = offset + size
        match kind:
            case "buffer":
                parameters.append(KernelParameter("buffer", name, types[name], offset, size))
            case "scalar":
                parameters.append(KernelParameter("scalar", name, types[name], offset, size))
            case "size":
                parameters.append(KernelParameter("size", name, program.index, offset, size))
            case "extent":
                parameters.append(KernelParameter("extent", name, program.index, offset, size))
            case "report":
                parameters.append(KernelParameter("report", name, None, offset, size))
            case _:
                parameters.append(KernelParameter("grid_barrier", name, None, offset, size))
    return tuple(parameters), end


def _parameter_word(parameter: KernelParameter) -> str:
    if parameter.kind == "buffer" or parameter.type is None:
        return "u64"
    return MEMORY_WORD[parameter.type]


def kernel_text(
    program: Program,
    target: Target,
    function: Function,
    live: tuple[bytearray, set[int]],
    memory: Memory,
    parameters: tuple[KernelParameter, ...],
    *,
    printed: tuple[list[str], list[str]] = ([], []),
    debug: bool,
    pragmas: Sequence[str] = (),
    fixed_block: bool = True,
    rows: Rows | None = None,
    entry: str = "",
) -> str:
    """The module with its one kernel, `entry`, by default named for the program; `printed` is from Lowering.printed.
    With `rows`, a launch is many."""
    lines = [
        f".version {target.version[0]}.{target.version[1]}",
        f".target {target}",
        ".address_size 64",
        "",
    ]
    for pragma in pragmas:
        lines += [f'.pragma "{pragma}";', ""]
    if memory.dynamic_shared_bytes:
        lines += [dynamic_shared_line(), ""]
    tables = table_lines(program, memory)
    if tables:
        lines += [*tables, ""]
    if printed[0]:
        lines += [*printed[0], ""]
    entry = entry or entry_name(program)
    options: dict[str, Any] = {"variables": printed[1], "debug": debug, "fixed_block": fixed_block, "rows": rows}
    return "\n".join([*lines, *entry_lines(program, target, function, live, memory, parameters, entry, **options), ""])


def entry_lines(
    program: Program,
    target: Target,
    function: Function,
    live: tuple[bytearray, set[int]],
    memory: Memory,
    parameters: tuple[KernelParameter, ...],
    entry: str,
    *,
    variables: Sequence[str] = (),
    debug: bool,
    fixed_block: bool = True,
    rows: Rows | None = None,
) -> list[str]:
    """The kernel without its module; `variables` are further declarations."""
    body, counts = _instructions(target, function, live, parameters, debug=debug, rows=rows)
    words = _words(parameters) if rows is None else rows.parameters
    declared = ",\n".join(f"  .param .{word} {symbol}" for symbol, word in words)
    if rows is not None:
        variables, body = [*variables, *rows.registers()], [*rows.find(), *body, *rows.others()]
    lines = [
        f".visible .entry {entry}({f'{chr(10)}{declared}{chr(10)}' if declared else ''})",
        *([f".reqntid {program.block[0]}, {program.block[1]}, {program.block[2]}"] if fixed_block else []),
        *([f".minnctapersm {program.min_blocks}"] if fixed_block and program.min_blocks else []),
        "{",
    ]
    lines += _variables(program, memory, counts)
    return [*lines, *variables, *body, "}"]


def resident_lines(
    program: Program,
    target: Target,
    function: Function,
    live: tuple[bytearray, set[int]],
    memory: Memory,
    parameters: tuple[KernelParameter, ...],
    within: Resident | Rows,
) -> list[str]:
    """The instructions of one block of a kernel, in a scope of their own within an entry for several kernels."""
    body, counts = _instructions(target, function, live, parameters, debug=False, rows=within)
    return ["  {", *_variables(program, memory, counts), *body, "  }"]


def _instructions(
    target: Target,
    function: Function,
    live: tuple[bytearray, set[int]],
    parameters: tuple[KernelParameter, ...],
    *,
    debug: bool,
    rows: Rows | Resident | None,
) -> tuple[list[str], dict[str, int]]:
    """The lines, and how many registers of each class they have."""
    names_of = {prefix: _names(prefix) for prefix, _ in _CLASSES}
    fresh = {type_: names_of[prefix].__next__ for type_, prefix in _PREFIXES.items()}
    loads: dict[tuple[str, str], str] = {
        (p.kind, p.name): f"ld.param.{word} %s, [{symbol}];" if rows is None else rows.load(p, word)
        for p, (symbol, word) in zip(parameters, _words(parameters), strict=True)
    }
    lines = Emitter(function, target, live, fresh, loads, debug=debug, rows=rows).run()
    return lines, {prefix: _used_of(prefix, names) for prefix, names in names_of.items()}


def _words(parameters: tuple[KernelParameter, ...]) -> list[tuple[str, str]]:
    """The symbols of parameters, and the types by which they are declared and loaded."""
    return [(symbol_name("p", number, p.name), _parameter_word(p)) for number, p in enumerate(parameters)]


def _names(prefix: str) -> Iterator[str]:
    """The names of the registers of a class, in order."""
    kept = _NAMES[prefix]
    return chain(kept, map(f"{prefix}{{}}".format, count(len(kept))))


def _used_of(prefix: str, found: Iterator[str]) -> int:
    """How many of the names of a class were taken, which the next kernel finds."""
    used = int(next(found)[len(prefix) :])
    if len(_NAMES[prefix]) < min(used, _MOST_NAMES):
        _NAMES[prefix] = list(islice(_names(prefix), min(used, _MOST_NAMES)))
    return used


def dynamic_shared_line() -> str:
    """The declaration of shared memory whose size a launch says."""
    return f".extern .shared .align 16 .b8 {DYNAMIC_SYMBOL}[];"


def table_lines(program: Program, memory: Memory) -> list[str]:
    """The tables that the code reads, as variables of the module."""
    tables = [array for array in program.arrays if isinstance(array, Table) and memory.places[array.name].touches]
    return [_table(table, memory.places[table.name]) for table in tables]


def _variables(program: Program, memory: Memory, counts: Mapping[str, int]) -> list[str]:
    """Registers, shared and local arrays."""
    lines = [f"  .reg {kind} {prefix}<{counts[prefix]}>;" for prefix, kind in _CLASSES if counts[prefix]]
    if not memory.dynamic_shared_bytes:
        places = [memory.places[array.name] for array in program.shared]
        lines += [
            f"  .shared .align 16 .b8 {place.symbol}[{(place.size or 0) * place.type.itemsize + 15 & ~15}];"
            for place in places
            if place.touches
        ]
    places = [memory.places[array.name] for array in program.arrays]
    lines += [
        f"  .local .align 16 .b8 {place.symbol}[{(place.size or 0) * place.type.itemsize + 15 & ~15}];"
        for place in places
        if place.space == "local" and place.touches
    ]
    return lines


def _table(table: Table, place: Place) -> str:
    """The variable with its elements as unsigned numbers."""
    elements = ", ".join(map(str, table.patterns))
    word = f"u{table.type.itemsize * 8}"
    return f".{place.space} .align 16 .{word} {place.symbol}[{table.size}] = {{{elements}}};"
