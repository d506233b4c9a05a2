"""A small kernel for each instruction form.

A kernel `name(in, out)` runs as one block of CASES threads. Thread t reads operand k from the 8-byte cell
in[k * CASES + t], applies the form, and writes result j to the cell out[j * CASES + t], which was zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from silicon_forms import Form, Operand
from silicon_grid import CASES, Words, operand_grid

HEADER = ".version 8.0\n.target sm_{target}\n.address_size 64\n"


def access(type_: str) -> str:
    """The type of the register that holds a value, and of its loads and stores: halves are untyped bits."""
    bits = int(type_[1:])
    return f"f{bits}" if type_[0] == "f" and bits > 16 else f"b{max(16, bits)}"


@dataclass(slots=True)
class Kernel:
    """PTX text of one form, its operands and the types of its results."""

    form: Form
    name: str
    lines: list[str] = field(default_factory=list)
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    grid: Words | None = None
    blob_bytes: int = 0
    constants: Words | None = None  # what the module's `constants` hold, which the kernel reads
    _registers: int = 0

    def put(self, *lines: str) -> None:
        """Append instructions."""
        self.lines += lines

    def register(self, type_: str) -> str:
        """Declare a register of a type (`u8` and `p` included) and name it."""
        name = f"%v{self._registers}"
        self._registers += 1
        self.put(f".reg .{'pred' if type_[0] == 'p' else access(type_)} {name};")
        return name

    def read(self, type_: str) -> str:
        """A register that holds the next input."""
        kind, bits = type_[0], int(type_[1:] or 1)
        offset = len(self.inputs) * CASES * 8
        self.inputs.append((kind, bits))
        register = self.register(type_)
        if kind == "p":
            word = self.register("u32")
            self.put(f"ld.global.u32 {word}, [%src+{offset}];", f"setp.ne.u32 {register}, {word}, 0;")
        else:
            self.put(f"ld.global.{access(type_)} {register}, [%src+{offset}];")
        return register

    def write(self, register: str, type_: str) -> None:
        """Make a register the next result."""
        offset = len(self.outputs) * CASES * 8
        self.outputs.append(type_)
        if type_ == "p":
            word = self.register("u32")
            self.put(f"selp.u32 {word}, 1, 0, {register};")
            register, type_ = word, "b32"
        self.put(f"st.global.{access(type_)} [%dst+{offset}], {register};")

    def operands(self) -> Words:
        """The inputs, one row an operand."""
        return self.grid if self.grid is not None else operand_grid(self.form.key, self.inputs)

    def text(self) -> str:
        """The kernel without the module header."""
        blob = f",\n  .param .align 16 .b8 blob[{self.blob_bytes}]" if self.blob_bytes else ""
        body = "\n  ".join(self.lines)
        return f"""
.visible .entry {self.name}(.param .u64 in, .param .u64 out{blob})
{{
  .reg .b64 %src, %dst, %cell;
  .reg .b32 %me;
  ld.param.u64 %src, [in];
  ld.param.u64 %dst, [out];
  mov.u32 %me, %tid.x;
  mul.wide.u32 %cell, %me, 8;
  add.u64 %src, %src, %cell;
  add.u64 %dst, %dst, %cell;
  {body}
  ret;
}}
"""


def register_widths(operand: Operand) -> list[int]:
    """The register widths that the operand may have."""
    if not operand.widening:
        return [operand.bits]
    return [bits for bits in (16, 32, 64) if bits >= operand.bits]


def pure(kernel: Kernel) -> None:
    """Every result depends on the thread's own operands alone; all variants of one form in one kernel."""
    form = kernel.form
    sources = [o for o in form.operands if o.role == "source" and not o.immediate]
    registers = [
        [kernel.read(o.type if not o.widening else f"{o.kind}{max(32, o.bits)}") for _ in range(max(1, o.vector))]
        for o in sources
    ]
    destination = form.operands[0]
    negations = ["", "!"] if any(o.negatable for o in sources) else [""]
    tables = [0x96, 0xE8, 0xCA, 0x1B, 0x80, 0x01] if any(o.immediate for o in form.operands) else [0]
    for width in register_widths(destination):
        for negation in negations:
            for table in tables:
                type_ = destination.type if width == destination.bits else f"b{width}"
                results = [kernel.register(type_) for _ in range(max(1, destination.vector))]
                words = [braced(results, destination.vector)]
                if destination.second:
                    results.append(kernel.register("p"))
                    words[0] += f"|{results[-1]}"
                for operand, group in zip(sources, registers, strict=True):
                    mark = negation if operand.negatable else ""
                    words.append(mark + braced(group, operand.vector))
                if any(o.immediate for o in form.operands):
                    words.append(str(table))
                _prepare_carry(kernel)
                kernel.put(f"{form.name} {', '.join(words)};")
                _keep_carry(kernel)
                for register in results[: max(1, destination.vector)]:
                    kernel.write(register, type_)
                if destination.second:
                    kernel.write(results[-1], "p")


def braced(registers: list[str], vector: int) -> str:
    return "{" + ", ".join(registers) + "}" if vector else registers[0]


def _is_subtraction(form: Form) -> bool:
    return form.opcode.startswith("sub")


def _prepare_carry(kernel: Kernel) -> None:
    """Forms that read CC.CF: set it from one more operand."""
    if kernel.form.opcode not in {"addc", "subc", "madc"}:
        return
    carry, word, scratch = kernel.read("p"), kernel.register("u32"), kernel.register("u32")
    kernel.put(f"selp.u32 {word}, 1, 0, {carry};")
    if _is_subtraction(kernel.form):
        kernel.put(f"sub.cc.u32 {scratch}, 0, {word};")
    else:
        kernel.put(f"add.cc.u32 {scratch}, {word}, -1;")


def _keep_carry(kernel: Kernel) -> None:
    """Forms that write CC.CF: it is one more result."""
    if ".cc" not in kernel.form.name:
        return
    word = kernel.register("u32")
    kernel.put(f"{'subc' if _is_subtraction(kernel.form) else 'addc'}.u32 {word}, 0, 0;")
    kernel.write(word, "b32")
