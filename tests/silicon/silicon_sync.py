"""Kernels of the forms whose answer needs several threads, and of control flow.

All lanes of each warp take part in a warp-synchronous form; warps differ in their operands.
"""

from __future__ import annotations

from silicon_grid import CASES, Stream, operand_grid
from silicon_kernels import Kernel

WARP = 32


def shuffle(kernel: Kernel) -> None:
    """shfl.sync with several clamps and segments; each lane has its own source operand."""
    value, source = kernel.read("b32"), kernel.read("u32")
    clamps = (0x1F, 0x1F | 0x1800, 0x07 | 0x1800, 0, 0x1800, 0x0B | 0x1000)
    for clamp in clamps:
        result, inside = kernel.register("b32"), kernel.register("p")
        kernel.put(f"{kernel.form.name} {result}|{inside}, {value}, {source}, {clamp}, -1;")
        kernel.write(result, "b32")
        kernel.write(inside, "p")
    kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
    kernel.grid[1] = Stream(kernel.form.key).below(40, CASES)


def vote(kernel: Kernel) -> None:
    """vote.sync, plain and negated, on warps of all, none and some."""
    predicate = kernel.read("p")
    type_ = "b32" if "ballot" in kernel.form.name else "p"
    for mark in ("", "!"):
        result = kernel.register(type_)
        kernel.put(f"{kernel.form.name} {result}, {mark}{predicate}, -1;")
        kernel.write(result, type_)
    kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
    kernel.grid[0, :WARP], kernel.grid[0, WARP : 2 * WARP] = 0, 1


def match(kernel: Kernel) -> None:
    """match.sync on few distinct values; one warp has only one."""
    operand = kernel.form.operands[1]
    value, result = kernel.read(operand.type), kernel.register("b32")
    if kernel.form.operands[0].second:
        agree = kernel.register("p")
        kernel.put(f"{kernel.form.name} {result}|{agree}, {value}, -1;")
        kernel.write(agree, "p")
    else:
        kernel.put(f"{kernel.form.name} {result}, {value}, -1;")
    kernel.write(result, "b32")
    kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
    kernel.grid[0] = kernel.grid[0, Stream(kernel.form.key).below(3, CASES)]
    kernel.grid[0, :WARP] = kernel.grid[0, 0]


def reduction(kernel: Kernel) -> None:
    """redux.sync over whole warps."""
    type_ = kernel.form.operands[0].type
    value, result = kernel.read(type_), kernel.register(type_)
    kernel.put(f"{kernel.form.name} {result}, {value}, -1;")
    kernel.write(result, type_)


def active_mask(kernel: Kernel) -> None:
    """activemask where all lanes are there."""
    result = kernel.register("b32")
    kernel.put(f"{kernel.form.name} {result};")
    kernel.write(result, "b32")


def _cells(kernel: Kernel) -> None:
    kernel.put(
        f".shared .align 4 .b8 cells[{4 * CASES}];",
        ".reg .b32 %own, %base, %other, %met;",
        "mov.u32 %base, cells;",
        "mad.lo.u32 %own, %me, 4, %base;",
    )


def _exchange(kernel: Kernel, barrier: list[str], partner: list[str]) -> None:
    """Each thread leaves its value, waits, and takes that of the thread %other."""
    value = kernel.read("b32")
    _cells(kernel)
    kernel.put(f"st.shared.b32 [%own], {value};", *barrier, *partner)
    kernel.put("mad.lo.u32 %other, %other, 4, %base;", "ld.shared.b32 %met, [%other];")
    kernel.write("%met", "b32")


def barrier(kernel: Kernel) -> None:
    """bar.sync, bar.arrive, bar.red and bar.warp.sync in all spellings."""
    name = kernel.form.name
    far = [f"add.u32 %other, %me, {WARP + 1};", f"rem.u32 %other, %other, {CASES};"]
    if name == "bar.warp.sync":
        _exchange(kernel, [f"{name} -1;"], ["xor.b32 %other, %me, 5;"])
    elif ".red." in name:
        _barrier_reduction(kernel)
    elif ".arrive" in name:
        waits = name.replace(".arrive", ".sync")
        half = [
            ".reg .pred %late;",
            f"setp.ge.u32 %late, %me, {CASES // 2};",
            f"@%late bra WAIT;\n  {name} 1, {CASES};\n  bra GO;\nWAIT:\n  {waits} 1, {CASES};\nGO:",
        ]
        _exchange(kernel, half, ["mov.u32 %other, %me;", f"@%late sub.u32 %other, %other, {CASES // 2};"])
    else:
        _exchange(kernel, [f"{name} 0;", f"{name} 3, {CASES};"], far)


def _barrier_reduction(kernel: Kernel) -> None:
    form = kernel.form
    type_ = form.operands[0].type
    predicate, one, none = kernel.read("p"), kernel.register("p"), kernel.register("p")
    kernel.put(f"setp.lt.u32 {one}, %me, {CASES};", f"setp.ge.u32 {none}, %me, {CASES};")
    count = f", {CASES}" if len(form.operands) == 4 else ""
    for voter in (predicate, one, none, f"!{predicate}"):
        result = kernel.register(type_)
        kernel.put(f"{form.name} {result}, 2{count}, {voter};")
        kernel.write(result, "b32" if type_ != "p" else "p")


def leave(kernel: Kernel) -> None:
    """ret and exit: what follows does not happen. A uniform one ends every thread."""
    value = kernel.read("b32")
    odd = kernel.register("p")
    word = kernel.register("b32")
    kernel.put(f"and.b32 {word}, %me, 1;", f"setp.ne.u32 {odd}, {word}, 0;")
    kernel.write(value, "b32")
    guard = "" if kernel.form.name.endswith(".uni") else f"@{odd} "
    kernel.put(f"{guard}{kernel.form.name};")
    kernel.write(value, "b32")


def branch(kernel: Kernel) -> None:
    """bra forward under a guard, or for all where the form demands it, and backward in a loop."""
    value = kernel.read("b32")
    flag, total, count = kernel.register("p"), kernel.register("u32"), kernel.register("u32")
    uniform = kernel.form.name.endswith(".uni")
    kernel.put(
        f"mov.u32 {total}, 0;",
        f"mov.u32 {count}, 0;",
        f"setp.lt.s32 {flag}, {value if not uniform else '%me'}, 0;",
        f"@{flag} {kernel.form.name} LOOP;",
        f"add.u32 {total}, {value}, 1;",
        f"\nLOOP: add.u32 {count}, {count}, 1;",
        f"add.u32 {total}, {total}, {count};",
        f"setp.lt.u32 {flag}, {count}, 10;",
        f"@{flag} {kernel.form.name} LOOP;",
    )
    kernel.write(total, "b32")


def in_passing(kernel: Kernel) -> None:
    """Fences and nanosleep: what is around them answers as without them."""
    value = kernel.read("b32")
    operands = " 20" if kernel.form.operands else ""
    _cells(kernel)
    kernel.put(f"st.shared.b32 [%own], {value};", f"{kernel.form.name}{operands};", "ld.shared.b32 %met, [%own];")
    kernel.write("%met", "b32")
