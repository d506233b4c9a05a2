"""A tree as text of the program language."""

from __future__ import annotations

import math

from program_tree import Body, Expr, Program, Stmt, Value


def program_text(program: Program) -> str:
    lines = [
        f"program {program.name}",
        "block {} {} {}".format(*program.block),
        f"index {program.index}",
        "work " + (", ".join([f"{program.index}:1"] * 3) if program.work is None else expr_text(program.work)),
    ]
    tables = [name for name, buffer in program.buffers.items() if buffer.role == "table"]
    lines += [_buffer(program, name) for name in program.buffers if name not in tables]
    lines += [f"scalar {name}: {type_}" for name, (type_, _) in program.scalars.items()]
    lines += [f"shared {name}: {type_}[{length}]" for name, (type_, length) in program.shared.items()]
    lines += [_buffer(program, name) for name in tables]
    lines += [f"local {name}: {type_}[{', '.join(map(str, shape))}]" for name, (type_, shape) in program.own.items()]
    lines.append("")
    _write_body(program.body, lines, "")
    return "\n".join(lines) + "\n"


def _buffer(program: Program, name: str) -> str:
    buffer = program.buffers[name]
    declared = f"{buffer.role} {name}: {buffer.type}"
    if buffer.role == "table":
        shape = f"[{', '.join(map(str, buffer.shape))}]" if buffer.shape else ""
        return f"{declared}{shape} = " + ", ".join(literal(buffer.type, value).split(":")[1] for value in buffer.values)
    if buffer.shape:
        extents = [f"{program.index}:{extent}" if buffer.role == "out" else ":" for extent in buffer.shape]
        return f"{declared}[{', '.join(extents)}]"
    return declared if buffer.size is None else f"{declared}[{expr_text(buffer.size)}]"


def literal(type_: str, value: Value) -> str:
    if type_ == "bool_":
        return "bool_:true" if value else "bool_:false"
    if isinstance(value, float):
        if math.isnan(value):
            return f"{type_}:nan"
        return f"{type_}:{value!r}"
    return f"{type_}:{value}"


def expr_text(expr: Expr) -> str:
    kind = expr.kind
    if kind == "const":
        return literal(expr.type, expr.word)
    if kind in ("local", "scalar", "id"):
        return str(expr.word)
    if kind == "size":
        return f"size({expr.word})"
    if kind == "load":
        return f"load({expr.word}[{expr_text(expr.operands[0])}])"
    operands = ", ".join([expr_text(operand) for operand in expr.operands])
    if kind == "position":
        return operands
    if kind == "extent":
        return "size({}, {})".format(*str(expr.word).split("."))
    if kind == "op":
        return f"{expr.word}({operands})"
    if kind == "where":
        return f"where({operands})"
    return f"{kind}.{expr.type}({operands})"


def _write_body(body: Body, lines: list[str], indent: str) -> None:
    for statement in body:
        _write_statement(statement, lines, indent)


def _write_statement(statement: Stmt, lines: list[str], indent: str) -> None:
    kind, word = statement.kind, statement.word
    exprs = [expr_text(expr) for expr in statement.exprs]
    inner = indent + "  "
    if kind == "if":
        lines.append(f"{indent}if {exprs[0]}")
        _write_body(statement.bodies[0], lines, inner)
        if statement.bodies[1]:
            lines.append(f"{indent}else")
            _write_body(statement.bodies[1], lines, inner)
        lines.append(f"{indent}end")
    elif kind == "for":
        lines.append(f"{indent}for {word} = {exprs[0]} to {exprs[1]} step {exprs[2]}")
        _write_body(statement.bodies[0], lines, inner)
        lines.append(f"{indent}end")
    elif kind == "while":
        lines.append(f"{indent}while")
        _write_body(statement.bodies[0], lines, inner)
        lines.append(f"{indent}test {exprs[0]}")
        _write_body(statement.bodies[1], lines, inner)
        lines.append(f"{indent}end")
    else:
        lines.append(indent + _line(statement, exprs))


def _line(statement: Stmt, exprs: list[str]) -> str:
    kind, word = statement.kind, statement.word
    if kind in ("let", "var"):
        return f"{kind} {word} = {exprs[0]}"
    if kind == "set":
        return f"{word} = {exprs[0]}"
    if kind == "store":
        return f"store {word}[{exprs[0]}], {exprs[1]}"
    if kind == "atomic":
        name, buffer, order, scope = statement.detail
        result = f"let {word} = " if word else ""
        operands = "".join(f", {operand}" for operand in exprs[1:])
        return f"{result}atomic {name} {buffer}[{exprs[0]}]{operands} order {order} scope {scope}"
    if kind == "warp":
        name, combine = statement.detail
        return f"let {word} = warp {name} {', '.join(exprs)}" + (f" combine {combine}" if combine else "")
    if kind == "assert":
        return f'assert {exprs[0]}, "{word}"'
    return kind
