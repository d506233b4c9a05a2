"""Why two expressions are equal, in a line for people."""

from __future__ import annotations

from vyre_cuda.codegen.terms.conditions import Condition
from vyre_cuda.codegen.terms.linear import LINEAR_FORM, REST
from vyre_cuda.codegen.terms.patterns import text
from vyre_cuda.codegen.terms.recorded import CONSTANT, IDENTITY
from vyre_cuda.codegen.terms.rules import RULES
from vyre_cuda.ir.core.nodes import Apply, Const, Expr
from vyre_cuda.ir.text.text import format_expr

# By condition, with the texts of its patterns; what is left out is plain to see.
_CONDITIONS = {
    "not_zero": "{} is not 0",
    "fits": "{} does not wrap",
    "below": "{} is not negative and below {}",
    "within_ones": "{} has no 1 bit that {} lacks",
    "no_common_ones": "{} and {} have no 1 bit in common",
}


def reason(rule: str, before: Apply, after: Expr) -> str:
    """Why `before`, an op on simplified operands, is `after` by a rule."""
    if rule == CONSTANT:
        return "the operands are constants"
    if rule == LINEAR_FORM:
        return f"both are the same sum modulo 2^{before.type.bits}"
    if rule == REST:
        return "x % a is x - x // a * a, and x // a is computed in another form"
    if rule == IDENTITY:
        return _identity(before, after)
    row = next(row for row in RULES if row.name == rule)
    conditions = [_condition(condition) for condition in row.when if condition.name in _CONDITIONS]
    where = f", where {' and '.join(conditions)}" if conditions else ""
    return f"{text(row.left)} is {text(row.right)}{where}"


def _condition(condition: Condition) -> str:
    return _CONDITIONS[condition.name].format(*map(text, condition.patterns))


def _identity(before: Apply, after: Expr) -> str:
    op, operands = before.op, before.operands
    if op in ("cast", "bitcast"):
        through = operands[0].type
        if through is before.type:
            return "it is of this type already"
        return f"on the way through {through} nothing is lost that {before.type} keeps"
    if op == "where":
        return "the condition is a constant or negated, or both values are the same"
    constants = [operand for operand in operands if isinstance(operand, Const)]
    if constants:
        return f"{op} with {format_expr(constants[-1])} " + (
            "is a constant" if isinstance(after, Const) else "is the other operand"
        )
    if len(operands) == 1:
        return f"{op} undoes the op before it"
    return f"both operands of {op} are the same"
