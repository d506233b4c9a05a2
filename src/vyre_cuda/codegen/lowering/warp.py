"""Operations of the 32 threads of a warp together.

All lanes that exist take part: all 32, or in the last warp of a block as many as there are. A missing lane
gives 0 to a shuffle by index and the thread's own value to the others, and a neutral element to reductions and scans.
Float reductions add in the order of the xor-butterfly (steps 16, 8, 4, 2, 1), scans by steps 1, 2, 4, 8, 16 upward.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE, UNSIGNED, has_row
from vyre_cuda.codegen.lowering.floats import INFINITY
from vyre_cuda.codegen.lowering.halves import from_bits, to_bits
from vyre_cuda.codegen.lowering.integers import narrowed
from vyre_cuda.codegen.lowering.isel_sync import Block, lane_id, linear_thread_id
from vyre_cuda.codegen.lowering.legalize import apply_op
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.nodes import WARP_SIZE
from vyre_cuda.ir.core.types import Type, bool_, f16

_ALL = (1 << WARP_SIZE) - 1
_REDUX = {
    "add": "add",
    "minimum": "min",
    "maximum": "max",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_MODE = {"shuffle": "idx", "broadcast": "idx", "shuffle_up": "up", "shuffle_down": "down", "shuffle_xor": "bfly"}


class WarpOps:
    """Lowers the warp operations of one program."""

    __slots__ = ("_block", "_rest", "_threads", "builder")

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self._block = block
        self._threads = block[0] * block[1] * block[2]
        self._rest = self._threads % WARP_SIZE

    def lower(self, op: str, type_: Type, operands: tuple[int, ...], combine: str) -> int:
        """The result for this thread."""
        value = operands[0]
        match op:
            case "shuffle" | "broadcast" | "shuffle_up" | "shuffle_down" | "shuffle_xor":
                return self._shuffle(op, type_, value, operands[1])
            case "any" | "all" | "ballot":
                return self._vote(op, value)
            case "match":
                return self._match(type_, value)
            case "reduce":
                return self._reduce(type_, value, combine)
            case "inclusive_scan":
                return self._scan(type_, value, combine)
            case "exclusive_scan":
                return self._exclusive(type_, self._scan(type_, value, combine), combine)
        raise InternalError(f"warp operation {op} has no PTX form")

    # ---- lanes ----

    def _lane(self) -> int:
        return lane_id(self.builder, self._block)

    def _by_warp(self, in_full: int, in_last: int) -> int:
        """A u32 that has another value in a partial last warp."""
        b = self.builder
        full, last = b.constant("u32", in_full), b.constant("u32", in_last)
        if self._rest == 0 or self._threads < WARP_SIZE:
            return last if self._rest else full
        is_full = b.apply("less", linear_thread_id(b, self._block), b.constant("u32", self._threads - self._rest))
        return b.apply("where", is_full, full, last)

    def _mask(self) -> int:
        """The lanes that exist."""
        return self._by_warp(_ALL, (1 << self._rest) - 1)

    def _lanes(self) -> int:
        """How many lanes exist."""
        return self._by_warp(WARP_SIZE, self._rest)

    # ---- shuffles ----

    def _shuffle(self, op: str, type_: Type, value: int, lane: int) -> int:
        b = self.builder
        moved = self._exchanged(_MODE[op], type_, value, lane)
        there = self._is_there(op, lane)
        if op in ("shuffle", "broadcast"):
            value = b.false if type_ is bool_ else b.constant(MACHINE_TYPE[type_], 0)
        return apply_op(b, "where", type_, type_, (there, moved, value))

    def _is_there(self, op: str, lane: int) -> int:
        """Whether the lane that a shuffle reads exists."""
        b = self.builder
        own, lanes = self._lane(), self._lanes()
        if op == "shuffle_up":
            return b.apply("less_equal", lane, own)
        if op == "shuffle_down":
            return b.apply("less", lane, b.apply("subtract", lanes, own))
        return b.apply("less", b.apply("bitwise_xor", own, lane) if op == "shuffle_xor" else lane, lanes)

    def _exchanged(self, mode: str, type_: Type, value: int, lane: int) -> int:
        """The instruction, on one or two words."""
        b = self.builder
        machine = MACHINE_TYPE[type_]
        if type_ is f16:
            return from_bits(b, f16, self._word(mode, to_bits(b, f16, value), lane))
        if type_ is bool_:
            word = b.apply("where", value, b.constant("u32", 1), b.constant("u32", 0))
            return b.apply("not_equal", self._word(mode, word, lane), b.constant("u32", 0))
        if BITS[machine] == 32:
            moved = self._word(mode, value, lane)
            if type_.is_integer and type_.bits < 32:
                b.facts.set_range(moved, type_.minimum, type_.maximum)
            return moved
        bits = b.convert("bits.u64", "u64", value) if machine == "f64" else b.convert("retype", "u64", value)
        shift = b.constant("u32", 32)
        low = self._word(mode, b.convert("low", "u32", bits), lane)
        high = self._word(mode, b.convert("low", "u32", b.apply("right_shift", bits, shift)), lane)
        upper = b.apply("left_shift", b.convert("widen", "u64", high), shift)
        both = b.apply("bitwise_or", upper, b.convert("widen", "u64", low))
        return b.convert("bits.f64", "f64", both) if machine == "f64" else b.convert("retype", machine, both)

    def _word(self, mode: str, value: int, lane: int) -> int:
        b = self.builder
        args = (b.in_register(value), lane, self._mask())
        return self._fresh(f"shuffle.{mode}", b.function.types[value], args)

    def _fresh(self, op: str, type_: str, args: tuple[int, ...]) -> int:
        """A value that is exchanged anew at each use."""
        value = self.builder.function.fresh(op, type_, args)
        self.builder.facts.observe(value)
        return value

    # ---- votes and matches ----

    def _vote(self, op: str, condition: int) -> int:
        type_ = "u32" if op == "ballot" else "pred"
        return self._fresh(f"vote.{op}", type_, (self.builder.in_register(condition), self._mask()))

    def _match(self, type_: Type, value: int) -> int:
        """Lanes with equal bits."""
        b = self.builder
        machine = MACHINE_TYPE[type_]
        if type_ is bool_:
            bits = b.apply("where", value, b.constant("u32", 1), b.constant("u32", 0))
        elif type_.bits == 16 and type_.is_float:
            bits = to_bits(b, type_, value)
        elif type_.is_float:
            unsigned = f"u{BITS[machine]}"
            bits = b.convert(f"bits.{unsigned}", unsigned, value)
        else:
            bits = b.convert("retype", UNSIGNED[machine], value)
        width = BITS[b.function.types[bits]]
        return self._fresh(f"match.{width}", "u32", (b.in_register(bits), self._mask()))

    # ---- reductions and scans ----

    def _reduce(self, type_: Type, value: int, combine: str) -> int:
        b = self.builder
        if type_.is_integer and type_.bits <= 32:
            machine = MACHINE_TYPE[type_]
            row = f"redux.{_REDUX[combine]}.{'b32' if combine.startswith('bitwise') else machine}"
            if has_row(row, "u32", b.target.sm):
                total = self._fresh(row, machine, (b.in_register(value), self._mask()))
                if combine == "add":
                    return narrowed(b, type_, total)
                if type_.bits < 32:
                    b.facts.set_range(total, type_.minimum, type_.maximum)
                return total
        for step in (16, 8, 4, 2, 1):
            if step >= self._threads:
                continue
            lane = b.constant("u32", step)
            other = self._exchanged("bfly", type_, value, lane)
            both = apply_op(b, combine, type_, type_, (value, other))
            value = apply_op(b, "where", type_, type_, (self._is_there("shuffle_xor", lane), both, value))
        # Lane 0 has combined every lane; a lane whose partner was missing has not.
        return self._exchanged("idx", type_, value, b.constant("u32", 0)) if self._rest else value

    def _scan(self, type_: Type, value: int, combine: str) -> int:
        b = self.builder
        for step in (1, 2, 4, 8, 16):
            if step >= self._threads:
                continue
            lane = b.constant("u32", step)
            other = self._exchanged("up", type_, value, lane)
            both = apply_op(b, combine, type_, type_, (value, other))
            value = apply_op(b, "where", type_, type_, (self._is_there("shuffle_up", lane), both, value))
        return value

    def _exclusive(self, type_: Type, inclusive: int, combine: str) -> int:
        b = self.builder
        moved = self._exchanged("up", type_, inclusive, b.constant("u32", 1))
        first = b.apply("equal", self._lane(), b.constant("u32", 0))
        return b.apply("where", first, b.constant(MACHINE_TYPE[type_], neutral(type_, combine)), moved)


def neutral(type_: Type, combine: str) -> int:
    """The neutral element as a constant of the machine type: a number, or the bits of a float."""
    machine = MACHINE_TYPE[type_]
    if type_.is_float:
        sign = 1 << (BITS[machine] - 1)
        infinity = INFINITY[machine]
        return {"add": sign, "minimum": infinity, "maximum": sign | infinity}[combine]
    ones = type_.maximum if type_.kind == "unsigned" else -1
    return {"minimum": type_.maximum, "maximum": type_.minimum, "bitwise_and": ones}.get(combine, 0)
