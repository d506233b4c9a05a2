"""The builder's barriers, assertions and printed lines, and its atomics and warp operations, which have a result.

The tables of `ir/core/ops.py` decide which types, orders and combining ops there are. An error raises
ProgramError at its line, or TypeError for something that is not an operand at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vyre_cuda.errors import type_name
from vyre_cuda.ir.builder.docstrings import describe_atomic, describe_warp_op
from vyre_cuda.ir.builder.handles import Buffer, Index, element_indices, position, require_writable
from vyre_cuda.ir.builder.operators import Expression, Operand
from vyre_cuda.ir.builder.scopes import Scope, program_error
from vyre_cuda.ir.builder.values import Value, constant, local, node_of, operate, place
from vyre_cuda.ir.core.nodes import Assert, Atomic, Barrier, GridBarrier, Local, Print, Source, Warp
from vyre_cuda.ir.core.ops import ATOMICS, COMBINES, OPS, SCOPES, WARP_OPS, warp_result_type
from vyre_cuda.ir.core.types import bool_, u32
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.core import printing
else:
    printing = later("vyre_cuda.ir.core.printing")

# Short names of combining ops.
_COMBINE_NAMES = {
    "sum": "add",
    "min": "minimum",
    "max": "maximum",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    **{name: name for name in COMBINES},
}


class EffectMethods:
    """What a thread does without a result."""

    _scope: Scope

    def barrier(self) -> None:
        """Wait until every thread of the block has arrived."""
        self._scope.append(Barrier(self._scope.begin()))

    def grid_barrier(self) -> None:
        """Wait until every thread of the grid has arrived; the launch is cooperative."""
        self._scope.append(GridBarrier(self._scope.begin()))

    def assert_(self, condition: Operand, message: str, /) -> None:
        """Where the condition is false, report a message, end the thread and make the call raise KernelAssertionError.

        Parameters
        ----------
        condition
            An expression of bool_.
        message
            What the error says.

        Raises
        ------
        ProgramError
            The condition has another type.
        TypeError
            The message is not a str.
        """
        source = self._scope.begin()
        if not isinstance(message, str):
            raise TypeError(f"the message of assert_ must be a str, not {type_name(message)}")
        held = place(self._scope, condition, source, bool_, "condition")
        self._scope.append(Assert(node_of(held), message, source))

    def print(self, format: str, /, *values: Operand) -> None:
        """Print a line to the standard output of the process.

        Parameters
        ----------
        format
            One line of text, which print ends: `{}` for each value, `{{` and `}}` for braces.
        *values
            At most 8 expressions of any types. Integers are printed in decimal, bools as 1 and 0, floats with as many
            significant digits as tell them from all others of their type: 9 for f32, 17 for f64, 5 for f16, 4 for bf16.

        Raises
        ------
        ProgramError
            The format does not fit the values, is not one line, or has a single brace; there are too many values.
        TypeError
            The format is not a str, or a value has no type.
        """
        source = self._scope.begin()
        if not isinstance(format, str):
            raise TypeError(f"the format of print must be a str, not {type_name(format)}")
        fault = printing.format_fault(format, len(values))
        if fault is not None:
            raise program_error(fault, source)
        placed = [place(self._scope, value, source, None, "printed value") for value in values]
        self._scope.append(Print(format, tuple([node_of(value) for value in placed]), source))


class AtomicMethods:
    """Read, combine and write one element atomically; each returns the old value.

    `order` is "relaxed", "acquire", "release" or "acq_rel" (a load never releases, a store never acquires), `scope`
    "block", "device" or "system". Out of bounds, nothing happens and the result is 0.
    """

    _scope: Scope

    def atomic_add(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Add; the result is the old value."""
        return self._atomic("add", buffer, index, (value,), order, scope)

    def atomic_sub(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Subtract; the result is the old value."""
        return self._atomic("subtract", buffer, index, (value,), order, scope)

    def atomic_min(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Keep the smaller value, or NaN if either is NaN; the result is the old value."""
        return self._atomic("minimum", buffer, index, (value,), order, scope)

    def atomic_max(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Keep the larger value, or NaN if either is NaN; the result is the old value."""
        return self._atomic("maximum", buffer, index, (value,), order, scope)

    def atomic_and(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Bitwise and; the result is the old value."""
        return self._atomic("bitwise_and", buffer, index, (value,), order, scope)

    def atomic_or(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Bitwise or; the result is the old value."""
        return self._atomic("bitwise_or", buffer, index, (value,), order, scope)

    def atomic_xor(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Bitwise exclusive or; the result is the old value."""
        return self._atomic("bitwise_xor", buffer, index, (value,), order, scope)

    def atomic_exchange(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> Value:
        """Replace; the result is the old value."""
        return self._atomic("exchange", buffer, index, (value,), order, scope)

    def atomic_compare_exchange(
        self,
        buffer: Buffer,
        index: Index,
        expected: Operand,
        desired: Operand,
        /,
        *,
        order: str = "relaxed",
        scope: str = "device",
    ) -> Value:
        """Replace one element by `desired` if it equals `expected`; the result is the old value."""
        return self._atomic("compare_exchange", buffer, index, (expected, desired), order, scope)

    def atomic_load(self, buffer: Buffer, index: Index, /, *, order: str = "relaxed", scope: str = "device") -> Value:
        """Read one element that other threads may be writing atomically."""
        return self._atomic("load", buffer, index, (), order, scope)

    def atomic_store(
        self, buffer: Buffer, index: Index, value: Operand, /, *, order: str = "relaxed", scope: str = "device"
    ) -> None:
        """Write one element that other threads may be reading or writing atomically."""
        self._append_atomic(None, "store", buffer, index, (value,), order, scope, self._scope.begin())

    def _atomic(
        self, op: str, buffer: Buffer, index: Index, operands: Sequence[Operand], order: str, scope: str
    ) -> Value:
        source = self._scope.begin()
        name = self._scope.name_local("old", source)
        self._append_atomic(name, op, buffer, index, operands, order, scope, source)
        return local(self._scope, Local(buffer.type, name, source))

    def _append_atomic(
        self,
        result: str | None,
        op: str,
        buffer: Buffer,
        index: Index,
        operands: Sequence[Operand],
        order: str,
        scope: str,
        source: Source,
    ) -> None:
        row = ATOMICS[op]
        if not isinstance(buffer, Buffer):
            raise TypeError(f"an atomic {op} works on a buffer, not {type_name(buffer)}")
        if buffer._scope is not self._scope:
            raise program_error(f"{buffer.name} belongs to the builder of {buffer._scope.program}", source)
        require_writable(buffer, source)
        if buffer._kind == "local":
            raise program_error(f"{buffer.name} belongs to one thread and has no atomics; read and store it", source)
        if buffer.type not in row.types:
            allowed = ", ".join(t.name for t in row.types)
            raise program_error(f"atomic {op} is not defined for {buffer.type}; it takes {allowed}", source)
        if order not in row.orders:
            raise program_error(f"order {order!r} of an atomic {op}; it must be one of {', '.join(row.orders)}", source)
        if scope not in SCOPES:
            raise program_error(f"scope {scope!r}; it must be one of {', '.join(SCOPES)}", source)
        at = element_indices(buffer, index, source)
        values = [place(self._scope, v, source, buffer.type, f"operand of an atomic {op}") for v in operands]
        nodes = tuple(node_of(v) for v in values)
        self._scope.append(Atomic(result, op, buffer.name, position(buffer, at, source), nodes, order, scope, source))


class WarpMethods:
    """Operations that the 32 threads of a warp perform together; they need warp-uniform control flow.

    A warp is 32 threads with consecutive linear numbers in the block; the last one of a block may have fewer. A lane,
    delta or mask is an int or an integer expression, whose low 32 bits are used.
    """

    _scope: Scope

    def shuffle(self, value: Operand, lane: Operand, /) -> Value:
        """The value of another lane; 0 if there is no such lane."""
        return self._warp("shuffle", value, lane)

    def shuffle_up(self, value: Operand, delta: Operand, /) -> Value:
        """The value of the lane `delta` below; the thread's own value if there is no such lane."""
        return self._warp("shuffle_up", value, delta)

    def shuffle_down(self, value: Operand, delta: Operand, /) -> Value:
        """The value of the lane `delta` above; the thread's own value if there is no such lane."""
        return self._warp("shuffle_down", value, delta)

    def shuffle_xor(self, value: Operand, mask: Operand, /) -> Value:
        """The value of the lane `lane_id ^ mask`; the thread's own value if there is no such lane."""
        return self._warp("shuffle_xor", value, mask)

    def broadcast(self, value: Operand, lane: Operand, /) -> Value:
        """The value of one lane, the same for the whole warp; 0 if there is no such lane."""
        return self._warp("broadcast", value, lane)

    def any(self, condition: Operand, /) -> Value:
        """Whether the condition holds in any thread of the warp."""
        return self._warp("any", condition)

    def all(self, condition: Operand, /) -> Value:
        """Whether the condition holds in every thread of the warp."""
        return self._warp("all", condition)

    def ballot(self, condition: Operand, /) -> Value:
        """A u32 with one bit per lane, set where the condition holds."""
        return self._warp("ballot", condition)

    def match(self, value: Operand, /) -> Value:
        """A u32 with one bit per lane, set where the value has the same bits as this thread's."""
        return self._warp("match", value)

    def warp_reduce(self, value: Operand, op: str, /) -> Value:
        """The values of all lanes combined by an op, the same for the whole warp."""
        _require_value_first("warp_reduce", value)
        return self._warp("reduce", value, combine=op)

    def warp_scan(self, value: Operand, op: str, /, *, inclusive: bool = True) -> Value:
        """The values of the lanes up to this one combined, with this one's or, for `inclusive=False`, without it."""
        _require_value_first("warp_scan", value)
        return self._warp("inclusive_scan" if inclusive else "exclusive_scan", value, combine=op)

    def _warp(self, name: str, value: Operand, lane: Operand | None = None, combine: str = "") -> Value:
        source = self._scope.begin()
        row = WARP_OPS[name]
        predicate = row.types[0] if len(row.types) == 1 else None
        values = [place(self._scope, value, source, predicate, f"operand of {name}")]
        type_ = values[0].type
        if type_ not in row.types:
            raise program_error(f"{name} is not defined for {type_}; it takes {_names(row.types)}", source)
        if lane is not None:
            values.append(_lane_operand(self._scope, lane, f"lane operand of {name}", source))
        if row.combines:
            combine = _combine_name(combine, source)
            if type_ not in OPS[combine].types:
                raise program_error(
                    f"{combine} is not defined for {type_}; it takes {_names(OPS[combine].types)}", source
                )
        result = self._scope.name_local(name, source)
        self._scope.append(Warp(result, name, tuple(node_of(v) for v in values), combine, source))
        return local(self._scope, Local(warp_result_type(row, type_), result, source))


for _name in ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "compare_exchange", "load", "store"):
    describe_atomic(getattr(AtomicMethods, f"atomic_{_name}"), {"sub": "subtract", **_COMBINE_NAMES}.get(_name, _name))
for _name in ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "broadcast", "any", "all", "ballot", "match"):
    describe_warp_op(getattr(WarpMethods, _name), _name)
describe_warp_op(WarpMethods.warp_reduce, "reduce")
describe_warp_op(WarpMethods.warp_scan, "inclusive_scan")


def _lane_operand(scope: Scope, lane: Operand, what: str, source: Source) -> Value:
    if not isinstance(lane, Expression):
        return place(scope, constant(u32, lane, source), source, u32, what)
    placed = place(scope, lane, source, None, what)
    if not placed.type.is_integer:
        raise program_error(f"the {what} is {placed.type}; it must be an integer", source)
    return placed if placed.type is u32 else place(scope, operate((OPS["cast"],), (placed,), u32), source)


def _require_value_first(called: str, value: object) -> None:
    if isinstance(value, str):
        raise TypeError(f"the value comes before the name of the op: {called}(value, {value!r})")


def _combine_name(given: str, source: Source) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the combining op must be named by a str, not {type_name(given)}")
    if given not in _COMBINE_NAMES:
        raise program_error(f"no combining op is named {given!r}; it must be one of {', '.join(COMBINES)}", source)
    return _COMBINE_NAMES[given]


def _names(types: Sequence[object]) -> str:
    return ", ".join(map(str, types))
