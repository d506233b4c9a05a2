"""Kernels of the forms that touch memory: loads, stores, atomics, address conversions, prefetches.

Each thread has 16 bytes of its own in the memory that the form names, so that its answer is its own.
Generic forms run on global memory in the first half of the block and on shared memory in the second.
"""

from __future__ import annotations

import numpy as np
from silicon_grid import CASES, operand_grid
from silicon_kernels import Kernel, braced, register_widths

BLOB_BYTES = 64


def _space(kernel: Kernel) -> str:
    words = kernel.form.name.split(".")
    return next((space for space in ("global", "shared", "param", "local", "const") if space in words), "generic")


def _shared_cell(kernel: Kernel) -> str:
    """The address of the thread's 16 bytes of shared memory."""
    kernel.put(
        f".shared .align 16 .b8 cells[{16 * CASES}];",
        ".reg .b32 %own;",
        "mov.u32 %own, cells;",
        "mad.lo.u32 %own, %me, 16, %own;",
    )
    return "%own"


def _local_cell(kernel: Kernel, *words: str) -> str:
    """The address of 16 bytes of the thread's own memory, which hold these two words."""
    kernel.put(".local .align 16 .b8 near[16];", ".reg .b64 %near;", "mov.u64 %near, near;")
    kernel.put(*(f"st.local.b64 [%near+{8 * place}], {word};" for place, word in enumerate(words)))
    return "%near"


def _generic_cell(kernel: Kernel, global_cell: str) -> str:
    """The global cell in the first half of the block, the shared one in the second."""
    kernel.put(
        ".reg .b64 %generic, %wide;",
        ".reg .pred %second;",
        "cvt.u64.u32 %wide, %own;",
        "cvta.shared.u64 %generic, %wide;",
        f"setp.ge.u32 %second, %me, {CASES // 2};",
        f"selp.b64 %generic, %generic, {global_cell}, %second;",
    )
    return "%generic"


def load(kernel: Kernel) -> None:
    """ld: 16 raw bytes a thread, read at the form's type into every register width."""
    operand, space = kernel.form.operands[0], _space(kernel)
    address = "%raw"
    kernel.inputs += [("b", 64), ("b", 64)]
    kernel.put(".reg .b64 %raw, %x, %y;", "ld.param.u64 %raw, [in];", "mad.wide.u32 %raw, %me, 16, %raw;")
    if space == "param":
        kernel.blob_bytes = BLOB_BYTES
        address = "blob+16"
    if space in ("shared", "generic"):
        own = _shared_cell(kernel)
        kernel.put("ld.global.v2.b64 {%x, %y}, [%raw];", f"st.shared.v2.b64 [{own}], {{%x, %y}};")
        address = own if space == "shared" else _generic_cell(kernel, "%raw")
    if space == "const":
        kernel.constants = kernel.grid = operand_grid("constants", kernel.inputs)
        kernel.put("mov.u64 %raw, constants;", "mad.wide.u32 %raw, %me, 16, %raw;")
    if space == "local":
        kernel.put("ld.global.v2.b64 {%x, %y}, [%raw];")
        address = _local_cell(kernel, "%x", "%y")
    for width in register_widths(operand):
        type_ = f"f{width}" if operand.kind == "f" else f"b{width}"
        results = [kernel.register(type_) for _ in range(max(1, operand.vector))]
        kernel.put(f"{kernel.form.name} {braced(results, operand.vector)}, [{address}];")
        for register in results:
            kernel.write(register, f"b{width}")


def store(kernel: Kernel) -> None:
    """st: the result is the thread's 16 bytes, which were zero."""
    operand, space = kernel.form.operands[1], _space(kernel)
    kernel.put(".reg .b64 %raw, %x, %y;")
    own = _shared_cell(kernel) if space in ("shared", "generic") else ""
    for width in register_widths(operand):
        type_ = f"f{width}" if operand.kind == "f" else f"b{width}"
        values = [kernel.read(type_) for _ in range(max(1, operand.vector))]
        kernel.put(
            "{",
            "ld.param.u64 %raw, [out];",
            f"add.u64 %raw, %raw, {len(kernel.outputs) * CASES * 8};",
            "mad.wide.u32 %raw, %me, 16, %raw;",
        )
        kernel.outputs += ["b64", "b64"]
        address = "%raw"
        if space == "local":
            address = _local_cell(kernel, "0", "0")
        elif space != "global":
            kernel.put(f"st.shared.v2.b64 [{own}], {{0, 0}};")
            address = own if space == "shared" else _generic_cell(kernel, "%raw")
        kernel.put(f"{kernel.form.name} [{address}], {braced(values, operand.vector)};")
        if space == "local":
            kernel.put(*(f"ld.local.b64 {word}, [%near+{at}];" for at, word in ((0, "%x"), (8, "%y"))))
            kernel.put("st.global.v2.b64 [%raw], {%x, %y};")
        elif space != "global":
            first = CASES // 2 if space == "generic" else 0
            kernel.put(
                ".reg .pred %mine;",
                f"setp.ge.u32 %mine, %me, {first};",
                f"@%mine ld.shared.v2.b64 {{%x, %y}}, [{own}];",
                "@%mine st.global.v2.b64 [%raw], {%x, %y};",
            )
        kernel.put("}")


def update(kernel: Kernel) -> None:
    """atom and red on a cell of the thread's own: the new content, and what atom returns."""
    sources = [o for o in kernel.form.operands if o.role == "source"]
    type_, space = sources[0].type, _space(kernel)
    start = kernel.read(type_)
    values = [kernel.read(o.type) for o in sources]
    offset = len(kernel.outputs) * CASES * 8
    kernel.write(start, type_)
    kernel.put(".reg .b64 %slot;", f"add.u64 %slot, %dst, {offset};")
    address = "%slot"
    access = f"{'f' if type_[0] == 'f' else 'b'}{type_[1:]}"
    if space != "global":
        own = _shared_cell(kernel)
        kernel.put(f"st.shared.{access} [{own}], {start};")
        address = own if space == "shared" else _generic_cell(kernel, "%slot")
    words = [f"[{address}]", *values]
    if kernel.form.opcode == "atom":
        words.insert(0, kernel.register(type_))
    kernel.put(f"{kernel.form.name} {', '.join(words)};")
    if kernel.form.opcode == "atom":
        kernel.write(words[0], type_)
    if space != "global":
        after = kernel.register(type_)
        kernel.put(f"ld.shared.{access} {after}, [%own];")
        kernel.write(after, type_)
    if ".cas" in kernel.form.name:
        kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
        kernel.grid[1, ::2] = kernel.grid[0, ::2]


def address_conversion(kernel: Kernel) -> None:
    """cvta there and back, as a distance; what an address is must not show in the answer."""
    name = kernel.form.name
    own = _shared_cell(kernel)
    kernel.put(".reg .b64 %a, %b;")
    if "shared" in name:
        kernel.put(f"cvt.u64.u32 %a, {own};")
        other = "cvta.shared.u64" if ".to." in name else "cvta.to.shared.u64"
    else:
        kernel.put("mov.u64 %a, %src;")
        other = "cvta.global.u64" if ".to." in name else "cvta.to.global.u64"
    order = (other, name) if ".to." in name else (name, other)
    kernel.put(f"{order[0]} %b, %a;", f"{order[1]} %b, %b;", "sub.u64 %b, %b, %a;")
    kernel.write("%b", "b64")


def space_test(kernel: Kernel) -> None:
    """isspacep on addresses of both spaces."""
    _shared_cell(kernel)
    address = _generic_cell(kernel, "%src")
    kernel.put(".reg .pred %is;", f"{kernel.form.name} %is, {address};")
    kernel.write("%is", "p")


def prefetch(kernel: Kernel) -> None:
    """A hint: the load behind it answers as without it."""
    value = kernel.read("b32")
    kernel.put(f"{kernel.form.name} [%src];")
    kernel.write(value, "b32")


def blob(name: str) -> bytes:
    """The content of the parameter that ld.param forms read."""
    return operand_grid(name, [("b", 64), ("u", 64)])[1, -BLOB_BYTES // 8 :].astype(np.uint64).tobytes()
