"""Trees as JSON and back. Values are bit patterns, so that NaN and infinities survive."""

from __future__ import annotations

from typing import Any

from number_formats import from_bits, to_bits
from program_tree import Buffer, Expr, Program, Stmt


def program_to_json(program: Program) -> dict[str, Any]:
    return {
        "name": program.name,
        "index": program.index,
        "block": program.block,
        "grid": program.grid,
        "buffers": {
            name: {
                "type": buffer.type,
                "role": buffer.role,
                "values": [to_bits(buffer.type, value) for value in buffer.values],
                "size": None if buffer.size is None else _expr_to_json(buffer.size),
                "shape": buffer.shape,
            }
            for name, buffer in program.buffers.items()
        },
        "scalars": {name: [type_, to_bits(type_, value)] for name, (type_, value) in program.scalars.items()},
        "shared": program.shared,
        "own": program.own,
        "body": [_stmt_to_json(statement) for statement in program.body],
        "work": None if program.work is None else _expr_to_json(program.work),
    }


def program_from_json(data: dict[str, Any]) -> Program:
    return Program(
        index=data["index"],
        block=_three(data["block"]),
        grid=_three(data["grid"]),
        buffers={name: _buffer(given) for name, given in data["buffers"].items()},
        scalars={name: (type_, from_bits(type_, bits)) for name, (type_, bits) in data["scalars"].items()},
        shared={name: (type_, length) for name, (type_, length) in data["shared"].items()},
        own={name: (type_, tuple(shape)) for name, (type_, shape) in data.get("own", {}).items()},
        body=[_stmt_from_json(statement) for statement in data["body"]],
        name=data["name"],
        work=None if data.get("work") is None else _expr_from_json(data["work"]),
    )


def _three(numbers: list[int]) -> tuple[int, int, int]:
    x, y, z = numbers
    return x, y, z


def _buffer(data: dict[str, Any]) -> Buffer:
    type_ = data["type"]
    size = None if data["size"] is None else _expr_from_json(data["size"])
    return Buffer(type_, data["role"], [from_bits(type_, bits) for bits in data["values"]], size, _shape(data))


def _shape(data: dict[str, Any]) -> tuple[int, ...]:
    return tuple(data.get("shape", ()))


def _expr_to_json(expr: Expr) -> list[Any]:
    word = to_bits(expr.type, expr.word) if expr.kind == "const" else expr.word
    return [expr.kind, expr.type, word, [_expr_to_json(operand) for operand in expr.operands]]


def _expr_from_json(data: list[Any]) -> Expr:
    kind, type_, word, operands = data
    value = from_bits(type_, word) if kind == "const" else word
    return Expr(kind, type_, value, tuple(map(_expr_from_json, operands)))


def _stmt_to_json(statement: Stmt) -> list[Any]:
    return [
        statement.kind,
        statement.word,
        [_expr_to_json(expr) for expr in statement.exprs],
        [[_stmt_to_json(inner) for inner in body] for body in statement.bodies],
        list(statement.detail),
    ]


def _stmt_from_json(data: list[Any]) -> Stmt:
    kind, word, exprs, bodies, detail = data
    return Stmt(
        kind,
        word,
        tuple(map(_expr_from_json, exprs)),
        tuple([_stmt_from_json(inner) for inner in body] for body in bodies),
        tuple(detail),
    )
