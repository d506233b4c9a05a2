"""What the binary interface of vyre_cuda.h is, as a table: functions, struct layouts and constants.

The header is preprocessed, and a C program that the compiler builds from it prints sizes and offsets, so the table says
what the compiler does. tests/binding/abi.json is the recorded one; tools/abi_check.py compares two.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vyre_cuda.testing.compilers import c_compiler

_STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;", re.DOTALL)
_ENUM = re.compile(r"enum(?: \w+)? \{(.*?)\}", re.DOTALL)
_FUNCTION = re.compile(r'__attribute__\(\(visibility\("default"\)\)\)\s*([^;{}]*?)\b(\w+)\(([^;]*)\);', re.DOTALL)
_POINTER_TO_FUNCTION = re.compile(r"^(.*?)\(\*(\w+)\)\s*(\(.*\))$", re.DOTALL)
_MEMBER = re.compile(r"^((?:const )?\w+(?: \w+)*?(?: \*const)?)\s*([\s*]\w+(?:\[\w+\])?(?:\s*,.*)?)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct; offset and size are bytes."""

    type: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields in declared order; size is bytes."""

    size: int
    fields: dict[str, Field]

    @property
    def may_grow(self) -> bool:
        """Whether callers say how much of it they have."""
        return next(iter(self.fields), "") == "struct_size"


@dataclass(frozen=True, slots=True)
class Table:
    """Functions by name with their types, structs, and the values of enumerators."""

    functions: dict[str, str]
    structs: dict[str, Struct]
    constants: dict[str, int]

    def text(self) -> str:
        """As it is kept in a file."""
        return json.dumps(asdict(self), indent=1, sort_keys=False) + "\n"


class NotUnderstood(ValueError):
    """The header has a declaration that this reader does not know."""


def of_header(header: Path) -> Table:
    """The table of a header. NotUnderstood, or CalledProcessError when the compiler refuses it."""
    text = _preprocessed(header)
    types = {name: _members(name, body) for name, body in _STRUCT.findall(text) if name.startswith("vyc_")}
    names = [name for body in _ENUM.findall(text) for name in re.findall(r"\b(VYC_\w+)\s*=", body)]
    functions = {
        name: f"{_spaced(result)} ({', '.join(map(_type, _parameters(parameters)))})"
        for result, name, parameters in _FUNCTION.findall(text)
    }
    measured = _measured(header, types, names)
    structs = {
        name: Struct(
            measured[name],
            {
                field: Field(kind, measured[f"{name}.{field}"], measured[f"{name}.{field} size"])
                for field, kind in fields.items()
            },
        )
        for name, fields in types.items()
    }
    return Table(dict(sorted(functions.items())), structs, {name: measured[name] for name in names})


def of_text(text: str) -> Table:
    """The table that `Table.text` gave."""
    data: dict[str, Any] = json.loads(text)
    structs = {
        name: Struct(each["size"], {field: Field(**facts) for field, facts in each["fields"].items()})
        for name, each in data["structs"].items()
    }
    return Table(data["functions"], structs, data["constants"])


def _preprocessed(header: Path) -> str:
    command = [*c_compiler(), "-std=c11", "-E", "-P", str(header)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _spaced(text: str) -> str:
    """One way to write a type: `const char **`, `void (*)(void *)`."""
    text = re.sub(r"\s*\*\s*", " *", " ".join(text.split())).strip()
    return text.replace("* *", "**").replace("( *", "(*")


def _parameters(text: str) -> list[str]:
    """Split at the commas that are not within parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]


def _type(parameter: str) -> str:
    """The parameter without its name, which is no part of the interface."""
    pointer = _POINTER_TO_FUNCTION.match(parameter)
    if pointer:
        result, _, rest = pointer.groups()
        inner = ", ".join(map(_type, _parameters(rest[1:-1])))
        return f"{_spaced(result)} (*)({inner})"
    named = re.match(r"^(.*[\s*])\w+$", parameter, re.DOTALL)
    return _spaced(named[1] if named else parameter)


def _members(struct: str, body: str) -> dict[str, str]:
    """Types of members by name; an array's has its length."""
    found = {}
    for declaration in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        pointer = _POINTER_TO_FUNCTION.match(declaration)
        if pointer:
            found[pointer[2]] = _type(declaration)
            continue
        member = _MEMBER.match(declaration)
        if member is None:
            raise NotUnderstood(f"{struct}: {declaration}")
        base, declarators = member.groups()
        for declarator in declarators.split(","):
            stars, name, length = re.fullmatch(r"([\s*]*)(\w+)((?:\[\w+\])?)", declarator.strip()).groups()  # type: ignore[union-attr]
            found[name] = _spaced(f"{base} {stars}") + length
    return found


def _measured(header: Path, structs: dict[str, dict[str, str]], constants: list[str]) -> dict[str, int]:
    lines = [f'  show("{name}", (long long){name});' for name in constants]
    for name, fields in structs.items():
        lines.append(f'  show("{name}", (long long)sizeof({name}));')
        for field in fields:
            lines.append(f'  show("{name}.{field}", (long long)offsetof({name}, {field}));')
            lines.append(f'  show("{name}.{field} size", (long long)sizeof((({name} *)0)->{field}));')
    program = "\n".join(
        [
            "#include <stddef.h>",
            "#include <stdio.h>",
            f'#include "{header.resolve()}"',
            'static void show(const char *name, long long value) { printf("%s=%lld\\n", name, value); }',
            "int main(void) {",
            *lines,
            "  return 0;",
            "}",
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "table.c"), Path(folder, "table")
        source.write_text(program)
        subprocess.run([*c_compiler(), "-std=c11", str(source), "-o", str(binary)], check=True)
        shown = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.rsplit("=", 1) for line in shown.splitlines())}
