"""Executes the machine code of a kernel, one thread alone, as sm_90 does.

Registers are words of 32 bits, memory is flat with 64-bit addresses, the constants of the launch are bytes. What is
not known here for certain (an instruction, a modifier, an operand) raises NotExecuted: the machine gives no answer
rather than a guess. An access outside of every buffer raises Fault. A register that nothing wrote holds some word, as
on a GPU: the compiler reads such where the word does not matter, behind a load whose condition is false.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from disassembly import Instruction, Kernel, Operand

WORD = (1 << 32) - 1
LONG = (1 << 64) - 1
STEP_LIMIT = 20_000
PARAMETERS_AT = 0x210
# Not a multiple of 2^32: the sums of addresses carry into their upper halves.
_FIRST_BUFFER = 0x7F01_FFFF_FF00
_BUFFER_STEP = 0x3_0000_0000
# Memory of the thread alone ends where addresses of 32 bits do: the launch gives its end as 0.
_LOCAL_BYTES = 1 << 12
_LOCAL_AT = (1 << 32) - _LOCAL_BYTES
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


class NotExecuted(Exception):
    """The machine does not know what an instruction gives."""


class Fault(Exception):
    """An access outside of every buffer, or one that is not aligned."""


@dataclass(slots=True)
class Memory:
    """Buffers at addresses that are far apart."""

    buffers: dict[int, bytearray] = field(default_factory=dict)

    def place(self, content: bytes) -> int:
        """A new buffer; its address."""
        address = _FIRST_BUFFER + len(self.buffers) * _BUFFER_STEP
        self.buffers[address] = bytearray(content)
        return address

    def read(self, address: int, size: int) -> int:
        """An integer without a sign."""
        content, offset = self._find(address, size)
        return int.from_bytes(content[offset : offset + size], "little")

    def write(self, address: int, size: int, value: int) -> None:
        """The low bytes of an integer."""
        content, offset = self._find(address, size)
        content[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def _find(self, address: int, size: int) -> tuple[bytearray, int]:
        if address % size:
            raise Fault(f"{size} bytes at {address:#x}, which is not aligned")
        for first, content in self.buffers.items():
            if first <= address and address + size <= first + len(content):
                return content, address - first
        raise Fault(f"{size} bytes at {address:#x}, which no buffer has")


class Machine:
    """The state of a thread: registers and predicates by name, memory, the constants of the launch, its number."""

    def __init__(self, memory: Memory, constants: bytes, thread: int = 0) -> None:
        self.registers: dict[str, int] = {}
        self.predicates: dict[str, bool] = {"PT": True, "UPT": True}
        self.memory = memory
        self.constants = constants
        self.thread = thread
        self.local = bytearray(b"\xa5" * _LOCAL_BYTES)

    # ---- operands ----

    def register(self, name: str) -> int:
        """The word of a register; some word, always the same one, where nothing wrote it."""
        word = self.registers.get(name)
        return zlib.crc32(name.encode()) if word is None else word

    def predicate(self, name: str) -> bool:
        """A predicate; some value where nothing wrote it."""
        value = self.predicates.get(name)
        return bool(self.register(name) & 1) if value is None else value

    def bits(self, operand: Operand) -> int:
        """The word of an operand, signs aside."""
        kind = operand.kind
        if kind == "register":
            return self.register(operand.name)
        if kind == "zero":
            return 0
        if kind in ("integer", "float"):
            return operand.number
        if kind == "bank":
            return self.constant(operand.number, 4)
        raise NotExecuted(f"operand {operand.text}")

    def upper_bits(self, operand: Operand) -> int:
        """The word behind that of an operand of 64 bits, signs aside; an immediate has its sign there."""
        kind = operand.kind
        if kind == "register":
            return self.register(operand.next)
        if kind == "zero":
            return 0
        if kind == "bank":
            return self.constant(operand.number + 4, 4)
        raise NotExecuted(f"64 bits of {operand.text}")

    def word(self, operand: Operand) -> int:
        """An integer operand of 32 bits, without a sign."""
        if operand.part or operand.kind == "float":
            raise NotExecuted(f"operand {operand.text}")
        word = self.bits(operand)
        if operand.absolute:
            word = abs(signed(word))
        if operand.inverted:
            word = ~word
        if operand.negative:
            word = -word
        return word & WORD

    def long(self, operand: Operand) -> int:
        """An integer operand of 64 bits, without a sign."""
        if operand.part or operand.absolute:
            raise NotExecuted(f"operand {operand.text}")
        value = self.bits(operand) | self.upper_bits(operand) << 32
        if operand.inverted:
            value = ~value
        if operand.negative:
            value = -value
        return value & LONG

    def truth(self, operand: Operand) -> bool:
        """A predicate operand."""
        if operand.kind != "predicate":
            raise NotExecuted(f"predicate {operand.text}")
        return self.predicate(operand.name) is not operand.inverted

    def constant(self, offset: int, size: int) -> int:
        """Constants of the launch behind the parameters, and those of the block before them, are not given."""
        if offset + size > len(self.constants):
            raise NotExecuted(f"constant {offset:#x}")
        return int.from_bytes(self.constants[offset : offset + size], "little")

    def set(self, operand: Operand, word: int) -> None:
        """Write a register."""
        if operand.kind == "register":
            self.registers[operand.name] = word & WORD
        elif operand.kind != "zero":
            raise NotExecuted(f"result {operand.text}")

    def set_long(self, operand: Operand, value: int) -> None:
        """Write two registers."""
        self.set(operand, value)
        if operand.kind == "register":
            self.registers[operand.next] = value >> 32 & WORD

    def set_truth(self, operand: Operand, value: bool) -> None:
        """Write a predicate."""
        if operand.kind != "predicate":
            raise NotExecuted(f"result {operand.text}")
        if operand.name not in ("PT", "UPT"):
            self.predicates[operand.name] = value

    def address(self, operand: Operand) -> int:
        """Where a load or store goes."""
        if operand.kind != "address":
            raise NotExecuted(f"address {operand.text}")
        first = self.register(operand.name) | self.register(operand.next) << 32
        return first + operand.number & LONG

    def local_place(self, operand: Operand, size: int) -> int:
        """Where in the memory of the thread a load or store goes."""
        if operand.kind != "local address":
            raise NotExecuted(f"local address {operand.text}")
        registers = [name for name in (operand.name, operand.next) if name and not name.endswith("Z")]
        address = sum(map(self.register, registers)) + operand.number & WORD
        if address < _LOCAL_AT or address % size:
            raise Fault(f"{size} local bytes at {address:#x}")
        return address - _LOCAL_AT

    # ---- execution ----

    def run(self, kernel: Kernel, table: dict[str, Form]) -> None:
        """From the first instruction to EXIT."""
        place = 0
        for _ in range(STEP_LIMIT):
            instruction = kernel.instructions[place]
            place += 1
            if instruction.guard is not None and not self.truth(instruction.guard):
                continue
            if instruction.opcode == "EXIT":
                return
            if instruction.opcode == "BRA":
                place = self._branch(instruction, kernel, place)
                continue
            form = table.get(instruction.opcode)
            if form is None or not form.modifiers.issuperset(instruction.modifiers):
                raise NotExecuted(instruction.name)
            form.execute(self, instruction)
        raise NotExecuted(f"{STEP_LIMIT} instructions")

    def _branch(self, instruction: Instruction, kernel: Kernel, behind: int) -> int:
        *conditions, target = instruction.operands
        if target.kind != "label" or target.name not in kernel.labels or not {"U"}.issuperset(instruction.modifiers):
            raise NotExecuted(instruction.name)
        return kernel.labels[target.name] if all(map(self.truth, conditions)) else behind


Execute = Callable[[Machine, Instruction], None]


@dataclass(frozen=True, slots=True)
class Form:
    """What an opcode does, and the modifiers that it is known for."""

    execute: Execute
    modifiers: frozenset[str]


Enter = Callable[[Execute], Execute]


def executes(table: dict[str, Form], opcode: str, modifiers: str = "", *, uniform: bool = False) -> Enter:
    """Enter a function in a table; `uniform`: also as the instruction on the registers of a whole warp."""

    def enter(execute: Execute) -> Execute:
        for name in (opcode, f"U{opcode}") if uniform else (opcode,):
            table[name] = Form(execute, frozenset(modifiers.split()))
        return execute

    return enter


def signed(word: int, bits: int = 32) -> int:
    """A word as a number with a sign."""
    return word - (1 << bits) if word >> (bits - 1) else word


# ---- loads, stores and what one thread alone does not notice ---------------------------------------------------------

MEMORY: dict[str, Form] = {}


def _size(modifiers: tuple[str, ...]) -> int:
    return next((_BYTES[each] for each in modifiers if each in _BYTES), 4)


@executes(MEMORY, "LDC", "64 U8 S8 U16 S16", uniform=True)
def load_constant(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    if source.kind != "bank":
        raise NotExecuted(f"{instruction.name} {source.text}")
    size = _size(instruction.modifiers)
    _set_loaded(machine, instruction, target, machine.constant(source.number, size), size)


@executes(MEMORY, "LDG", "E 64 128 U8 S8 U16 S16 CONSTANT")
def load(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    size = _size(instruction.modifiers)
    _set_loaded(machine, instruction, target, machine.memory.read(machine.address(source), size), size)


def _set_loaded(machine: Machine, instruction: Instruction, target: Operand, value: int, size: int) -> None:
    if size <= 4:
        has_sign = "S8" in instruction.modifiers or "S16" in instruction.modifiers
        machine.set(target, signed(value, 8 * size) if has_sign else value)
    elif target.kind == "register":
        file, _, number = target.name.rpartition("R")
        for k in range(size // 4):
            machine.registers[f"{file}R{int(number) + k}"] = value >> 32 * k & WORD


@executes(MEMORY, "STG", "E 64 128 U8 S8 U16 S16")
def store(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    size = _size(instruction.modifiers)
    machine.memory.write(machine.address(target), size, _stored(machine, source, size))


@executes(MEMORY, "LDL", "64 128 U8 S8 U16 S16 LU")
def load_local(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    size = _size(instruction.modifiers)
    at = machine.local_place(source, size)
    _set_loaded(machine, instruction, target, int.from_bytes(machine.local[at : at + size], "little"), size)


@executes(MEMORY, "STL", "64 128 U8 S8 U16 S16")
def store_local(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    size = _size(instruction.modifiers)
    at = machine.local_place(target, size)
    value = _stored(machine, source, size) & (1 << 8 * size) - 1
    machine.local[at : at + size] = value.to_bytes(size, "little")


def _stored(machine: Machine, source: Operand, size: int) -> int:
    value = machine.bits(source)
    if size > 4 and source.kind == "register":
        number = int(source.name[1:])
        value = sum(machine.register(f"R{number + k}") << 32 * k for k in range(size // 4))
    return value


@executes(MEMORY, "S2R")
@executes(MEMORY, "S2UR")
def special(machine: Machine, instruction: Instruction) -> None:
    """Numbers of the thread and of the one block."""
    target, source = instruction.operands
    numbers = {"SR_TID.X": machine.thread, "SR_CTAID.X": 0}
    if source.name not in numbers:
        raise NotExecuted(f"{instruction.name} {source.text}")
    machine.set(target, numbers[source.name])


@executes(MEMORY, "CS2R", "32")
def zeros(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    if source.name != "SRZ":
        raise NotExecuted(f"{instruction.name} {source.text}")
    (machine.set if "32" in instruction.modifiers else machine.set_long)(target, 0)


@executes(MEMORY, "NOP")
@executes(MEMORY, "BSSY")
@executes(MEMORY, "BSYNC")
@executes(MEMORY, "WARPSYNC", "ALL")
def nothing(machine: Machine, instruction: Instruction) -> None:
    """One thread waits for no other."""
