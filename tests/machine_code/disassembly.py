"""PTX to machine code, and the text of machine code to instructions.

ptxas compiles for sm_90, nvdisasm prints what it made; neither needs a GPU. An operand is taken apart here, once,
so that executing an instruction reads no text. What this cannot read is an operand of kind `other`, which nothing
executes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from vyre_cuda.ptxas import find_ptxas

ARCHITECTURE = "sm_90"
_WORD = (1 << 32) - 1
# Characters of a compiler's complaint.
_SHOWN = 2000

_KERNEL = re.compile(r"\.text\.(\w+):")
_LABEL = re.compile(r"(\.L\w+):")
_LINE = re.compile(r"/\*[0-9a-f]{4,5}\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
_INSTRUCTION = re.compile(r"(?:@(!?)(U?P\w+)\s+)?(\S+)\s*(.*)")
_COMMA = re.compile(r",(?![^\[]*\])")
_REGISTER = re.compile(r"(U?R)(\d+|Z)")
_PREDICATE = re.compile(r"U?P(\d|T)")
_BANK = re.compile(r"c\[0x0\]\[0x([0-9a-f]+)\]")
_ADDRESS = re.compile(r"(?:desc\[UR\d+\])?\[(R\d+)\.64(?:\+(-?0x[0-9a-f]+))?\]")
_LOCAL_ADDRESS = re.compile(r"\[(U?R(?:\d+|Z))(?:\+(UR\d+))?(?:\+(-?0x[0-9a-f]+))?\]")
_INTEGER = re.compile(r"-?0x[0-9a-f]+")
_FLOAT = re.compile(r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|INF|QNAN|SNAN)")
_BRANCH = re.compile(r"`\((\.\w+)\)")


@dataclass(frozen=True, slots=True)
class Operand:
    """What an instruction names.

    kind: `register`, `zero` (RZ), `predicate`, `integer`, `float`, `bank` (a place in the constants of the launch),
    `address`, `local address`, `label`, `special` or `other`. `number` is the word of an integer or of a float (for f64
    its high half), the offset of a bank or address. `next` is the register behind this one, the high half of 64 bits;
    that of a local address is added to it.
    """

    text: str
    kind: str
    name: str = ""
    next: str = ""
    number: int = 0
    part: str = ""
    negative: bool = False
    inverted: bool = False
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; executed where `guard` is None or true."""

    text: str
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None = None

    @property
    def name(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(slots=True)
class Kernel:
    """The machine code of a kernel; a label is the place of the instruction behind it."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """One instruction a line."""
        at = {place: label for label, place in self.labels.items()}
        lines = []
        for place, instruction in enumerate(self.instructions):
            if place in at:
                lines.append(f"{at[place]}:")
            lines.append(f"  {instruction.text}")
        return "\n".join(lines) + "\n"


class CompilerRefused(Exception):
    """ptxas or nvdisasm failed; the message is theirs."""


def find_nvdisasm() -> Path:
    """nvdisasm beside ptxas, where its wheel puts it, else of PATH. FileNotFoundError says where it was looked for."""
    beside = find_ptxas().with_name("nvdisasm")
    if beside.is_file():
        return beside
    on_path = shutil.which("nvdisasm")
    if on_path is None:
        raise FileNotFoundError(f"no nvdisasm beside {find_ptxas()} or on PATH; the wheel nvidia-cuda-nvdisasm has it")
    return Path(on_path)


def has_tools() -> bool:
    """Whether both are installed."""
    try:
        find_ptxas()
        find_nvdisasm()
    except FileNotFoundError:
        return False
    return True


def ptxas_version(ptxas: Path | None = None) -> str:
    """As `13.5.37`."""
    match = re.search(r"V(\d+\.\d+\.\d+)", _run([str(ptxas or find_ptxas()), "--version"]))
    return match[1] if match else "unknown"


def compile_kernels(ptx: str, ptxas: Path | None = None, nvdisasm: Path | None = None) -> dict[str, Kernel]:
    """The machine code of each kernel of a PTX text, by name."""
    with tempfile.TemporaryDirectory() as directory:
        source, cubin = Path(directory, "kernels.ptx"), Path(directory, "kernels.cubin")
        source.write_text(ptx, encoding="ascii")
        _run([str(ptxas or find_ptxas()), f"-arch={ARCHITECTURE}", "-o", str(cubin), str(source)])
        return parse(_run([str(nvdisasm or find_nvdisasm()), "-c", "-hex", str(cubin)]))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompilerRefused(f"{Path(command[0]).name}: {done.stderr.strip()[:_SHOWN]}")
    return done.stdout


def parse(text: str) -> dict[str, Kernel]:
    """Kernels of nvdisasm's text, which has the encoding beside each instruction (`-hex`)."""
    kernels: dict[str, Kernel] = {}
    kernel = Kernel("")
    for line in map(str.strip, text.splitlines()):
        if match := _KERNEL.match(line):
            kernel = kernels.setdefault(match[1], Kernel(match[1]))
        elif match := _LABEL.match(line):
            kernel.labels[match[1]] = len(kernel.instructions)
        elif match := _LINE.match(line):
            kernel.instructions.append(_instruction(match[1], int(match[2], 16)))
    return kernels


def _instruction(text: str, encoding: int) -> Instruction:
    match = _INSTRUCTION.fullmatch(text)
    if match is None:
        return Instruction(text, text, (), ())
    inverted, predicate, name, rest = match.groups()
    guard = Operand(predicate, "predicate", predicate, inverted=bool(inverted)) if predicate else None
    opcode, *modifiers = name.split(".")
    immediate = encoding >> 32
    operands = [_operand(each.strip(), immediate) for each in _COMMA.split(rest)] if rest else []
    return Instruction(text, opcode, tuple(modifiers), tuple(_packed(opcode, operands)), guard)


def _packed(opcode: str, operands: list[Operand]) -> list[Operand]:
    """Two halves of one immediate become one operand; they stand beside each other, the upper one first."""
    if not opcode.startswith("H"):
        return operands
    return [
        operand
        for place, operand in enumerate(operands)
        if not (operand.kind == "float" and place and operands[place - 1].kind == "float")
    ]


def _operand(text: str, immediate: int) -> Operand:
    bare = text.replace(".reuse", "").strip()
    if _INTEGER.fullmatch(bare):
        return Operand(text, "integer", number=int(bare, 16) & _WORD)
    if _FLOAT.fullmatch(bare):
        # The text of a NaN has no payload, and other instructions move any bits as floats: the encoding has them.
        return Operand(text, "float", number=immediate)
    if match := _ADDRESS.fullmatch(bare):
        return Operand(text, "address", match[1], _following(match[1]), int(match[2] or "0", 16))
    if match := _LOCAL_ADDRESS.fullmatch(bare):
        return Operand(text, "local address", match[1], match[2] or "", int(match[3] or "0", 16))
    if match := _BRANCH.fullmatch(bare):
        return Operand(text, "label", match[1])
    if bare.startswith("SR"):
        return Operand(text, "special", bare)
    return _signed(text, bare)


def _signed(text: str, bare: str) -> Operand:
    """A register, predicate or constant, which may be negated, inverted or without its sign."""
    negative = bare.startswith("-")
    inverted = bare.startswith(("~", "!"))
    core = bare[1:] if negative or inverted else bare
    absolute = core.startswith("|")
    core, part = _without_part(core.replace("|", ""))
    if match := _REGISTER.fullmatch(core):
        kind = "zero" if match[2] == "Z" else "register"
        return Operand(text, kind, core, _following(core), 0, part, negative, inverted, absolute)
    if _PREDICATE.fullmatch(core):
        return Operand(text, "predicate", core, inverted=inverted)
    if match := _BANK.fullmatch(core):
        return Operand(text, "bank", "", "", int(match[1], 16), part, negative, inverted, absolute)
    return Operand(text, "other")


def _without_part(text: str) -> tuple[str, str]:
    head, dot, part = text.partition(".")
    return (head, part) if dot and "[" not in part else (text, "")


def _following(register: str) -> str:
    file, _, number = register.rpartition("R")
    return register if number == "Z" else f"{file}R{int(number) + 1}"
