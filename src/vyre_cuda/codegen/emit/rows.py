"""The beginning of an entry that does many launches of a kernel in one: each block finds its row of a table.

The table is in device memory: a row for each launch that has blocks, and after the rows a map. A row is four u32, the
number of its first block and its blocks along x, y and z, and then the parameter block of that launch. The entry's own
parameters are the table, the number of rows, the blocks of each row where all have as many (else 0), a scale, a shift,
and whether all blocks are along x. Where all rows have as many blocks, `block * scale >> shift` is the row, and where
they are along x alone, a block waits for nothing but its parameters. Else there is the map, of two u32 for a group of
2^shift blocks: the rows of the group's first and last block.
The C layer writes all this (`csrc/launch/row_table.c`); the blocks of the one launch are numbered along x.

With several kernels, those of the first have the first rows, and so on, and each row has as many bytes as the largest
parameter block needs. For each kernel but the last there is a parameter more, the row before which its rows end: the
block needs only these to find its kernel.

Behind these an entry may have arrays, numbered from 1 on, that any launch of it may replace. Where a row has such an
array, the number stands in the table in place of its address, which is larger.

Everything here is the same for all threads of a block, which then runs the kernel's own instructions: block numbers,
the size of the grid and parameters are those of the row.
"""

from __future__ import annotations

from vyre_cuda.codegen.core.lowered import KernelParameter

HEADER_BYTES = 16  # of a row, before its parameter block
ALIGN = 16  # bytes: of rows
# The entry's parameters, offsets in bytes; the last only where failed checks are reported.
TABLE_AT, REPORT_AT = 0, 32
WORDS = ("rows_count", "rows_each", "rows_scale", "rows_shift", "rows_flat")  # u32, behind the table
BYTES, BYTES_WITH_REPORT = 28, 40
_MAP_ENTRY_BYTES = 8
# Registers: the block, its row, the last row that it can be, the blocks of each, one between, the first block of one,
# and what is needed for a moment.
_NUMBERS = [f"%row_{n}" for n in range(7)]


def rows_entry(entry: str) -> str:
    """The name of the entry for many launches of a kernel."""
    return f"{entry}_rows"


def row_bytes(parameter_bytes: int) -> int:
    """From one row of the table to the next."""
    return -(-(HEADER_BYTES + parameter_bytes) // ALIGN) * ALIGN


def ends(kernels: int) -> list[str]:
    """The parameters that say before which row those of each kernel end, but the last."""
    return [f"rows_end{number}" for number in range(kernels - 1)]


def array_names(arrays: int) -> list[str]:
    """The parameters that are arrays of the entry."""
    return [f"rows_array{number}" for number in range(1, arrays + 1)]


class Rows:
    """How an entry reads its row; `parameter_bytes` are those of one launch, the most of its kernels."""

    leave = "ret;"  # where a thread's part of its launch ends
    barrier = "bar.sync 0;"  # of the threads of a block

    def __init__(self, parameter_bytes: int, *, reports: bool = False, kernels: int = 1, arrays: int = 0) -> None:
        self._stride = row_bytes(parameter_bytes)
        self._arrays = array_names(arrays)
        self.parameters = [("rows_table", "u64"), *((word, "u32") for word in WORDS)]
        self.parameters += [("rows_report", "u64")] if reports else []
        self.parameters += [(word, "u32") for word in ends(kernels)]
        self.parameters += [(name, "u64") for name in self._arrays]
        self.names = {
            **{f"%ctaid.{axis}": f"%row_{axis}" for axis in "xyz"},
            **{f"%nctaid.{axis}": f"%row_n{axis}" for axis in "xyz"},
        }

    def load(self, parameter: KernelParameter, word: str) -> str:
        """The instruction that loads a parameter, with %s in place of its destination and %% for each percent sign."""
        if parameter.kind == "report":
            return f"ld.param.{word} %s, [rows_report];"
        at = f"[%%row_at+{HEADER_BYTES + parameter.offset}]"
        if parameter.kind != "buffer" or not self._arrays:
            return f"ld.global.nc.{word} %s, {at};"
        lines = [f"ld.global.nc.u64 %%row_map, {at};"]
        for number, name in enumerate(self._arrays, 1):
            lines.append(f"setp.eq.u64 %%row_p, %%row_map, {number};")
            lines.append(f"@%%row_p ld.param.u64 %%row_map, [{name}];")
        return "\n  ".join([*lines, "mov.u64 %s, %%row_map;"])

    def registers(self) -> list[str]:
        """Their declarations."""
        return [
            "  .reg .pred %row_p;",
            "  .reg .b32 %row_<8>;",
            "  .reg .b32 %row_x, %row_y, %row_z, %row_nx, %row_ny, %row_nz;",
            "  .reg .b64 %row_table, %row_at, %row_map;",
        ]

    def find(self) -> list[str]:
        """Instructions that find the row of the block, and its place among the blocks of the row: the way of most
        launches, so that their code is in a row in the instruction cache. `others` belongs to them."""
        block, row, _, each, _, first, other = _NUMBERS
        return [
            f"  mov.u32 {block}, %ctaid.x;",
            "  ld.param.u64 %row_table, [rows_table];",
            "  cvta.to.global.u64 %row_table, %row_table;",
            f"  ld.param.u32 {each}, [rows_each];",
            f"  setp.eq.u32 %row_p, {each}, 0;",
            "  @%row_p bra $R_map;",
            f"  ld.param.u32 {other}, [rows_scale];",
            f"  mul.wide.u32 %row_map, {block}, {other};",
            f"  ld.param.u32 {other}, [rows_shift];",
            f"  shr.u64 %row_map, %row_map, {other};",
            f"  cvt.u32.u64 {row}, %row_map;",
            f"  mad.wide.u32 %row_at, {row}, {self._stride}, %row_table;",
            f"  mul.lo.u32 {first}, {row}, {each};",
            f"  sub.u32 %row_x, {block}, {first};",
            f"  mov.u32 %row_nx, {each};",
            "  mov.u32 %row_ny, 1;",
            "  mov.u32 %row_nz, 1;",
            "  mov.u32 %row_y, 0;",
            "  mov.u32 %row_z, 0;",
            f"  ld.param.u32 {other}, [rows_flat];",
            f"  setp.eq.u32 %row_p, {other}, 0;",
            "  @%row_p bra $R_grid;",
            "$R_found:",
        ]

    def others(self) -> list[str]:
        """What `find` jumps to and comes back from, to stand behind all else."""
        stride = self._stride
        block, row, last, _, middle, first, other = _NUMBERS
        return [
            "$R_map:",
            f"  ld.param.u32 {other}, [rows_count];",
            f"  mad.wide.u32 %row_map, {other}, {stride}, %row_table;",
            f"  ld.param.u32 {other}, [rows_shift];",
            f"  shr.u32 {other}, {block}, {other};",
            f"  mad.wide.u32 %row_map, {other}, {_MAP_ENTRY_BYTES}, %row_map;",
            f"  ld.global.nc.v2.u32 {{{row}, {last}}}, [%row_map];",
            "$R_next:",
            f"  setp.ge.u32 %row_p, {row}, {last};",
            "  @%row_p bra $R_row;",
            # The middle between both, rounded up, so that each turn leaves fewer rows.
            f"  sub.u32 {middle}, {last}, {row};",
            f"  add.u32 {middle}, {middle}, 1;",
            f"  shr.u32 {middle}, {middle}, 1;",
            f"  add.u32 {middle}, {middle}, {row};",
            f"  mad.wide.u32 %row_at, {middle}, {stride}, %row_table;",
            f"  ld.global.nc.u32 {first}, [%row_at];",
            f"  setp.le.u32 %row_p, {first}, {block};",
            f"  @%row_p mov.u32 {row}, {middle};",
            "  @%row_p bra $R_next;",
            f"  sub.u32 {last}, {middle}, 1;",
            "  bra $R_next;",
            "$R_row:",
            f"  mad.wide.u32 %row_at, {row}, {stride}, %row_table;",
            "$R_grid:",
            f"  ld.global.nc.v4.u32 {{{first}, %row_nx, %row_ny, %row_nz}}, [%row_at];",
            f"  sub.u32 %row_x, {block}, {first};",
            "  mov.u32 %row_y, 0;",
            "  mov.u32 %row_z, 0;",
            f"  mul.lo.u32 {other}, %row_ny, %row_nz;",  # at most 2^16 - 1 each
            f"  setp.eq.u32 %row_p, {other}, 1;",
            "  @%row_p bra $R_found;",
            f"  div.u32 {other}, %row_x, %row_nx;",
            f"  mul.lo.u32 {first}, {other}, %row_nx;",
            f"  sub.u32 %row_x, %row_x, {first};",
            f"  div.u32 %row_z, {other}, %row_ny;",
            f"  mul.lo.u32 {first}, %row_z, %row_ny;",
            f"  sub.u32 %row_y, {other}, {first};",
            "  bra $R_found;",
        ]

    def kernels(self, bodies: list[list[str]]) -> list[str]:
        """Instructions that run the kernel of the row, behind `find`; a body leaves at its end."""
        return [
            *self._branches(0, len(bodies)),
            *(line for n, body in enumerate(bodies) for line in (f"$K{n}:", *body)),
        ]

    def _branches(self, first: int, end: int) -> list[str]:
        """To the kernels from `first` to before `end`, of which one is that of the row."""
        if end - first == 1:
            return [f"  bra $K{first};"]
        middle = (first + end) // 2
        return [
            f"  ld.param.u32 %row_6, [rows_end{middle - 1}];",
            "  setp.ge.u32 %row_p, %row_1, %row_6;",
            f"  @%row_p bra $K{first}_{end};",
            *self._branches(first, middle),
            f"$K{first}_{end}:",
            *self._branches(middle, end),
        ]
