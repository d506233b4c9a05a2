"""Integer, bit and predicate instructions of sm_90. An instruction on uniform registers (U...) is the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from disassembly import Instruction, Operand
from machine import LONG, WORD, Form, Machine, NotExecuted, executes, signed

INTEGER: dict[str, Form] = {}

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "EQ": operator.eq,
    "LE": operator.le,
    "GT": operator.gt,
    "NE": operator.ne,
    "GE": operator.ge,
    "T": lambda x, y: True,
    "F": lambda x, y: False,
}
COMBINATIONS = {"AND": operator.and_, "OR": operator.or_, "XOR": operator.xor}


def set_combined(machine: Machine, instruction: Instruction, outcome: bool, other: Operand) -> None:
    """The two predicates that a comparison writes: its outcome, and the opposite, each combined with a third."""
    combine = next(COMBINATIONS[each] for each in instruction.modifiers if each in COMBINATIONS)
    third = machine.truth(other)
    first, second = combine(outcome, third), combine(not outcome, third)
    machine.set_truth(instruction.operands[0], first)
    machine.set_truth(instruction.operands[1], second)


def _split(operands: Sequence[Operand]) -> tuple[list[Operand], list[Operand], list[Operand]]:
    """Predicates before the sources of a sum (carries out), the sources, predicates behind them (carries in)."""
    first = next(place for place, each in enumerate(operands) if each.kind != "predicate")
    last = next((place for place, each in enumerate(operands) if place > first and each.kind == "predicate"), None)
    return list(operands[:first]), list(operands[first:last]), [] if last is None else list(operands[last:])


# ---- moves and choices -----------------------------------------------------------------------------------------------


@executes(INTEGER, "MOV", uniform=True)
@executes(INTEGER, "R2UR")
def move(machine: Machine, instruction: Instruction) -> None:
    target, source, *rest = instruction.operands
    if rest or source.negative or source.inverted or source.absolute or source.part:
        raise NotExecuted(instruction.text)
    machine.set(target, machine.bits(source))


@executes(INTEGER, "SEL", uniform=True)
def select(machine: Machine, instruction: Instruction) -> None:
    target, x, y, condition = instruction.operands
    machine.set(target, machine.word(x if machine.truth(condition) else y))


@executes(INTEGER, "PRMT", uniform=True)
def permute(machine: Machine, instruction: Instruction) -> None:
    """A byte of the eight of x and y for each digit of the selector; 8 more asks for the sign of that byte."""
    target, x, selector, y = instruction.operands
    source = (machine.word(x) | machine.word(y) << 32).to_bytes(8, "little")
    digits = machine.word(selector)
    found = 0
    for k in range(4):
        digit = digits >> 4 * k & 15
        byte = source[digit & 7]
        if digit & 8:
            byte = 255 if byte & 128 else 0
        found |= byte << 8 * k
    machine.set(target, found)


@executes(INTEGER, "P2R")
def predicates_to_word(machine: Machine, instruction: Instruction) -> None:
    """A bit for each predicate that the mask has; the other bits come from a word."""
    target, predicates, x, mask = instruction.operands
    if predicates.text != "PR":
        raise NotExecuted(instruction.text)
    found, wanted = machine.word(x) & ~machine.word(mask), machine.word(mask)
    for place in range(7):
        if wanted >> place & 1:
            found |= machine.predicate(f"P{place}") << place
    machine.set(target, found)


# ---- sums and products -----------------------------------------------------------------------------------------------


@executes(INTEGER, "IADD3", "X", uniform=True)
def add(machine: Machine, instruction: Instruction) -> None:
    """A sum of three; the carries out are those of the sum in which -x is ~x + 1."""
    target, *operands = instruction.operands
    out, sources, into = _split(operands)
    total = sum(map(machine.truth, into))
    for source in sources:
        word = machine.word(source)
        if source.negative:
            if "X" in instruction.modifiers:
                raise NotExecuted(instruction.text)
            word = (word - 1 & WORD) + 1
        total += word
    machine.set(target, total)
    for place, predicate in enumerate(out):
        machine.set_truth(predicate, total >> 32 > place)


@executes(INTEGER, "VIADD")
def add_two(machine: Machine, instruction: Instruction) -> None:
    target, x, y = instruction.operands
    machine.set(target, machine.word(x) + machine.word(y))


@executes(INTEGER, "IMAD", "MOV IADD SHL U32 X WIDE HI", uniform=True)
def multiply_add(machine: Machine, instruction: Instruction) -> None:
    """The low half of a product, plus a word and a carry. MOV, IADD and SHL say what it amounts to."""
    if "WIDE" in instruction.modifiers or "HI" in instruction.modifiers:
        _multiply_add_long(machine, instruction)
        return
    target, *operands = instruction.operands
    out, (x, y, z), into = _split(operands)
    if out or len(into) > 1:
        raise NotExecuted(instruction.text)
    total = machine.word(x) * machine.word(y) + machine.word(z)
    machine.set(target, total + sum(map(machine.truth, into)))


def _multiply_add_long(machine: Machine, instruction: Instruction) -> None:
    """A whole product plus 64 bits; HI keeps the upper half."""
    target, *operands = instruction.operands
    out, (x, y, z), into = _split(operands)
    left, right = machine.word(x), machine.word(y)
    if "U32" not in instruction.modifiers:
        left, right = signed(left), signed(right)
    carry = sum(map(machine.truth, into))
    product, addend = left * right & LONG, machine.long(z)
    total = product + addend + carry
    if "HI" in instruction.modifiers:
        if out or into:
            raise NotExecuted(instruction.text)
        machine.set(target, total >> 32)
        return
    if len(out) > 1 or (out and "U32" not in instruction.modifiers):
        raise NotExecuted(instruction.text)
    machine.set_long(target, total)
    for predicate in out:
        machine.set_truth(predicate, total > LONG)


@executes(INTEGER, "LEA", "HI X SX32", uniform=True)
def shift_add(machine: Machine, instruction: Instruction) -> None:
    """A shifted word plus another; HI shifts 64 bits, of which a word or the sign (SX32) is the upper half."""
    target, *operands = instruction.operands
    out, sources, into = _split(operands)
    modifiers = instruction.modifiers
    has_upper = "HI" in modifiers and "SX32" not in modifiers
    if len(sources) != 3 + has_upper or len(out) > 1 or len(into) > ("X" in modifiers):
        raise NotExecuted(instruction.text)
    if (out or "HI" in modifiers) and (sources[0].negative or sources[1].negative):
        raise NotExecuted(instruction.text)
    x, y, count = sources[0], sources[1], machine.word(sources[-1]) & 31
    value = machine.word(x)
    if has_upper:
        value |= machine.word(sources[2]) << 32
    elif "SX32" in modifiers:
        value = signed(value) & LONG
    shifted = (value << count) >> (32 if "HI" in modifiers else 0) & WORD
    total = shifted + machine.word(y) + sum(map(machine.truth, into))
    machine.set(target, total)
    for predicate in out:
        machine.set_truth(predicate, total > WORD)


# ---- least and greatest, signs ---------------------------------------------------------------------------------------


def _ordered(instruction: Instruction, words: Sequence[int], least: bool) -> int:
    ordered = sorted(words, key=int if "U32" in instruction.modifiers else signed)
    return ordered[0 if least else -1]


@executes(INTEGER, "VIMNMX", "U32 RELU")
@executes(INTEGER, "IMNMX", "U32")
@executes(INTEGER, "VIMNMX3", "U32")
def least_or_greatest(machine: Machine, instruction: Instruction) -> None:
    """Of two or three; the last operand says which. RELU makes 0 of a negative result."""
    target, *sources, least = instruction.operands
    found = _ordered(instruction, [machine.word(each) for each in sources], machine.truth(least))
    if "RELU" in instruction.modifiers:
        if "U32" in instruction.modifiers:
            raise NotExecuted(instruction.name)
        found = max(signed(found), 0)
    machine.set(target, found)


@executes(INTEGER, "VIADDMNMX", "U32")
def add_then_least_or_greatest(machine: Machine, instruction: Instruction) -> None:
    target, x, y, z, least = instruction.operands
    words = [machine.word(x) + machine.word(y) & WORD, machine.word(z)]
    machine.set(target, _ordered(instruction, words, machine.truth(least)))


@executes(INTEGER, "IABS")
def absolute(machine: Machine, instruction: Instruction) -> None:
    target, x = instruction.operands
    machine.set(target, abs(signed(machine.word(x))))


# ---- bits ------------------------------------------------------------------------------------------------------------


@executes(INTEGER, "LOP3", "LUT", uniform=True)
def logic(machine: Machine, instruction: Instruction) -> None:
    """Any function of three bits, by its table; a predicate in front is whether a bit of the result is set."""
    operands = list(instruction.operands)
    nonzero = operands.pop(0) if operands[0].kind == "predicate" else None
    target, a, b, c, table, other = operands
    if other.text.lstrip("!") not in ("PT", "UPT") or not other.inverted:
        raise NotExecuted(instruction.text)
    x, y, z, rows, found = machine.word(a), machine.word(b), machine.word(c), table.number, 0
    for row in range(8):
        if rows >> row & 1:
            found |= (x if row & 4 else ~x) & (y if row & 2 else ~y) & (z if row & 1 else ~z)
    machine.set(target, found)
    if nonzero is not None:
        machine.set_truth(nonzero, found & WORD != 0)


@executes(INTEGER, "PLOP3", "LUT", uniform=True)
def predicate_logic(machine: Machine, instruction: Instruction) -> None:
    """Two functions of three predicates, by their tables."""
    first, second, x, y, z, one, two = instruction.operands
    row = machine.truth(x) << 2 | machine.truth(y) << 1 | machine.truth(z)
    machine.set_truth(first, bool(one.number >> row & 1))
    machine.set_truth(second, bool(two.number >> row & 1))


@executes(INTEGER, "SHF", "L R W U32 S32 U64 S64 HI", uniform=True)
def funnel_shift(machine: Machine, instruction: Instruction) -> None:
    """A shift of 64 bits in two words, of which one word is kept. A count is clamped, or wraps with W."""
    target, low, amount, high = instruction.operands
    modifiers = instruction.modifiers
    width = 64 if "U64" in modifiers or "S64" in modifiers else 32
    count = machine.word(amount)
    count = count % width if "W" in modifiers else min(count, width)
    value = machine.word(low) | machine.word(high) << 32
    if "S32" in modifiers or "S64" in modifiers:
        value = signed(value, 64)
    value = value << count if "L" in modifiers else value >> count
    machine.set(target, value >> 32 if "HI" in modifiers else value)


@executes(INTEGER, "BMSK", "W", uniform=True)
def mask(machine: Machine, instruction: Instruction) -> None:
    """Ones from a place on, so many."""
    target, place, count = instruction.operands
    first, width = machine.word(place), machine.word(count)
    if "W" in instruction.modifiers:
        first, width = first & 31, width & 31
    machine.set(target, ((1 << min(width, 32)) - 1) << first if first < 32 else 0)


@executes(INTEGER, "SGXT", "U32 W", uniform=True)
def extend(machine: Machine, instruction: Instruction) -> None:
    """The low bits, with their sign or with zeros above them."""
    target, x, count = instruction.operands
    word, width = machine.word(x), machine.word(count)
    width = width & 31 if "W" in instruction.modifiers else min(width, 32)
    kept = word & (1 << width) - 1
    has_sign = "U32" not in instruction.modifiers and width > 0
    machine.set(target, signed(kept, width) if has_sign else kept)


@executes(INTEGER, "POPC", uniform=True)
def count_ones(machine: Machine, instruction: Instruction) -> None:
    target, x = instruction.operands
    machine.set(target, machine.word(x).bit_count())


@executes(INTEGER, "BREV", uniform=True)
def reverse(machine: Machine, instruction: Instruction) -> None:
    target, x = instruction.operands
    machine.set(target, int(f"{machine.word(x):032b}"[::-1], 2))


@executes(INTEGER, "FLO", "U32 SH", uniform=True)
def first_one(machine: Machine, instruction: Instruction) -> None:
    """The place of the highest 1, or with SH how far below the top it is; all ones where there is none."""
    target, x = instruction.operands
    word = machine.word(x)
    if "U32" not in instruction.modifiers and word >> 31:
        word ^= WORD
    place = word.bit_length() - 1
    machine.set(target, 31 - place if "SH" in instruction.modifiers and place >= 0 else place)


# ---- comparisons -----------------------------------------------------------------------------------------------------


@executes(INTEGER, "ISETP", "LT EQ LE GT NE GE T F U32 AND OR XOR EX", uniform=True)
def compare(machine: Machine, instruction: Instruction) -> None:
    """EX compares the upper halves; its last operand is the outcome of the same comparison of the lower ones."""
    _, _, left, right, other, *lower = instruction.operands
    x, y = machine.word(left), machine.word(right)
    if "U32" not in instruction.modifiers:
        x, y = signed(x), signed(y)
    name = next(each for each in instruction.modifiers if each in _COMPARISONS)
    outcome = _COMPARISONS[name](x, y)
    if "EX" in instruction.modifiers:
        below = machine.truth(lower[0])
        if name == "NE":
            outcome = x != y or below
        elif name in ("LT", "EQ", "LE", "GT", "GE"):
            outcome = below if x == y else outcome and name != "EQ"
    set_combined(machine, instruction, outcome, other)
