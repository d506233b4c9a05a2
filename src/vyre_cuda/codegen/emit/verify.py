"""Checks the values and the code of a function before it becomes text.

Every value is computed on every path before it is used, types fit, labels are defined once, and an access that needs a
guard has one. A finding is a defect of lowering: InternalError. Run by debug lowering and by the tests.
"""

from __future__ import annotations

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.forms.isel import BITS, has_row, operand_type
from vyre_cuda.codegen.lowering.access_forms import AtomicForm, Form
from vyre_cuda.codegen.ssa.ssa import Effect, Function
from vyre_cuda.errors import InternalError

# Values that are not in the instruction table -> types of their operands (None: checked separately).
_STRUCTURAL: dict[str, tuple[str, ...] | None] = {
    "const": (),
    "register": (),
    "read": (),
    "parameter": (),
    "special": (),
    "symbol": (),
    "global_pointer": ("u64",),
    "retype": None,
    "load": None,
    "load_vector": None,
    "lane": None,
    "atomic": None,
}
# These need no instruction, so they are available wherever they are used.
_PRINTED_BITS = 64
_EVERYWHERE = frozenset({"const", "register"})


def verify(function: Function, target: Target) -> None:
    """Raise InternalError for the first thing that is wrong."""
    for value in [*function.entry, *(item for item in function.code if isinstance(item, int))]:
        _check_value(function, value, target)
    for item in function.code:
        if not isinstance(item, int):
            _check_effect(function, item)
    _check_definitions(function)


def _fail(what: str) -> None:
    raise InternalError(f"lowering produced an invalid function: {what}")


def _check_value(function: Function, value: int, target: Target) -> None:
    op, type_, args = function.ops[value], function.types[value], function.args[value]
    found = tuple(function.types[arg] for arg in args)
    where = f"%{value} = {op} {found}"
    if op not in _STRUCTURAL:
        if not found or not has_row(op, operand_type(op, found), target.sm):
            _fail(f"{where} has no instruction")
        return
    expected = _STRUCTURAL[op]
    if expected is not None and found != expected:
        _fail(f"{where} takes {expected}")
    form = function.attrs[value]
    if op == "retype" and (BITS[type_] != BITS[found[0]] or {type_[0], found[0][0]} != {"u", "s"}):
        _fail(f"{where} to {type_}")
    elif op == "load":
        _check_access(form, found, 0, where)
    elif op == "load_vector":
        _check_access(form.form, found, 0, where)
        if form.form.guarded:
            _fail(f"{where} has a guard")
    elif op == "lane":
        vector = function.args[value][0]
        if function.ops[vector] != "load_vector" or form >= function.attrs[vector].lanes:
            _fail(f"{where} is not in a vector")
    elif op == "atomic":
        _check_atomic(form, found, where)


def _check_atomic(atomic: AtomicForm, found: tuple[str, ...], where: str) -> None:
    values = {"cas": 2, "ld": 0}.get(atomic.form.word.partition(".")[0], 1)
    _check_access(atomic.form, found, values, where)


def _check_access(form: Form, found: tuple[str, ...], values: int, where: str) -> None:
    address: tuple[str, ...] = ()
    if not form.symbol:
        address = ("u32",) if form.space == "shared" else ("u64",)
    guard = ("pred",) if form.guarded else ()
    operands = found[len(address) : len(found) - len(guard)]
    if found != (*address, *operands, *guard) or len(operands) != values or "pred" in operands:
        _fail(f"{where} in {form.space} memory, guarded: {form.guarded}")


def _check_effect(function: Function, effect: Effect) -> None:
    kind, args, attr = effect
    found = tuple(function.types[arg] for arg in args)
    if kind == "store":
        _check_access(attr, found, 1, "store")
    elif kind == "store_vector":
        _check_access(attr.form, found, attr.lanes, "vector store")
    elif kind == "atomic_store":
        _check_atomic(attr, found, "atomic store")
    elif kind == "set":
        if found != (function.registers[attr],):
            _fail(f"register of {function.registers[attr]} set to {found}")
    elif kind == "print":
        if any(BITS.get(type_) != _PRINTED_BITS for type_ in found):
            _fail(f"print of {found}")
    elif kind in ("branch", "return") and found not in ((), ("pred",)):
        _fail(f"{kind} on {found}")


def _check_definitions(function: Function) -> None:
    """Follow every path: at each place the values that are computed on all paths to it."""
    code = function.code
    places: dict[int, int] = {}
    for position, item in enumerate(code):
        if not isinstance(item, int) and item[0] == "label":
            if item[2][0] in places:
                _fail(f"label {item[2][0]} is defined twice")
            places[item[2][0]] = position
    arriving: dict[int, frozenset[int]] = {}
    work: list[tuple[int, frozenset[int]]] = [(0, _entry_values(function))]
    while work:
        position, known = work.pop()
        if position in arriving:
            met = arriving[position] & known
            if met == arriving[position]:
                continue
            known = met
        arriving[position] = known
        defined = set(known)
        while position < len(code):
            item = code[position]
            position += 1
            if isinstance(item, int):
                _check_uses(function, function.args[item], defined)
                defined.add(item)
                continue
            _check_uses(function, item[1], defined)
            if item[0] == "label":
                work.append((position, frozenset(defined)))
                break
            if item[0] == "branch":
                if item[2][0] not in places:
                    _fail(f"label {item[2][0]} is not defined")
                work.append((places[item[2][0]] + 1, frozenset(defined)))
            if item[0] in ("branch", "return") and not item[1]:
                break


def _entry_values(function: Function) -> frozenset[int]:
    defined: set[int] = set()
    for value in function.entry:
        _check_uses(function, function.args[value], defined)
        defined.add(value)
    return frozenset(defined)


def _check_uses(function: Function, args: tuple[int, ...], defined: set[int]) -> None:
    for arg in args:
        if arg not in defined and function.ops[arg] not in _EVERYWHERE:
            _fail(f"%{arg} ({function.ops[arg]}) is used where it is not computed on every path")
