"""Writes the tables of docs/programs.md and docs/functions.md, and docs/conformance.md from recorded test runs.

Run it after a change of ir/core/ops.py, of the functions or a new file in docs/conformance: `python docs/generate.py`.
With --check nothing is written, and the exit code is 1 when a page is not what this would write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from vyre_cuda.codegen.cost import cost
from vyre_cuda.codegen.terms.rules import RULES
from vyre_cuda.functions import table
from vyre_cuda.functions.forms import Form
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS, Op
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, NUMBERS, TYPES, Type, f32, f64
from vyre_cuda.testing.conformance import CELLS, WAYS, Recording, read

PAGE = Path(__file__).with_name("programs.md")
BEGIN = "<!-- op table: begin; written by docs/generate.py -->\n"
END = "<!-- op table: end -->\n"

FUNCTIONS_PAGE = Path(__file__).with_name("functions.md")
FUNCTIONS_BEGIN = "<!-- functions: begin; written by docs/generate.py -->\n"
FUNCTIONS_END = "<!-- functions: end -->\n"

MEASURED = Path(__file__).parent.parent / "benchmarks" / "results"

CONFORMANCE = Path(__file__).with_name("conformance.md")
RECORDINGS = Path(__file__).with_name("conformance")

# How a bar is written inside a cell.
BAR = "\\|"

_GROUPS = {TYPES: "all", NUMBERS: "numbers", INTEGERS: "integers", FLOATS: "floats"}
_RESULTS = {"same": "as the operands", "bool": "`bool_`", "explicit": "as named"}
_OPERANDS = ("x", "y", "z")
_UNARY_SYMBOLS = {"negative": "-x", "invert": "~x", "logical_not": "~x", "absolute": "abs(x)"}


def current(page: str) -> str:
    """The page of programs with the op table as it is now. ValueError when the page has no place for it."""
    return _with_table(page, BEGIN, END, op_table())


def current_functions(page: str) -> str:
    """The page of functions with their table as it is now. ValueError when the page has no place for it."""
    return _with_table(page, FUNCTIONS_BEGIN, FUNCTIONS_END, function_table())


def _with_table(page: str, opening: str, closing: str, lines: str) -> str:
    head, begin, rest = page.partition(opening)
    _, end, tail = rest.partition(closing)
    if not begin or not end:
        raise ValueError("the page has no place for its table: the lines that begin and end it are missing")
    return f"{head}{opening}\n{lines}\n{closing}{tail}"


def op_table() -> str:
    """Every op as a row of a Markdown table, in the order of the package's table."""
    lines = ["| write | or | operands | result | rule |", "| --- | --- | --- | --- | --- |"]
    for op in OPS.values():
        cells = (_call(op), _operator(op), _types(op.types), _RESULTS[op.result], _rule(op))
        lines.append(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _call(op: Op) -> str:
    if op.name == "cast":
        return "`vc.f32(x)`, `vc.u32(x)`, ..."
    if op.result == "explicit":
        return f"`vc.{op.name}(x, vc.u32)`"
    operands = ("c", "x", "y") if op.leading_bool else _OPERANDS[: op.arity]
    return f"`vc.{op.name}({', '.join(operands)})`"


def _operator(op: Op) -> str:
    if op.name in _UNARY_SYMBOLS:
        return f"`{_UNARY_SYMBOLS[op.name]}`"
    return f"`x {op.symbol} y`" if op.symbol else ""


def _rule(op: Op) -> str:
    if op.name not in FUNCTIONS:
        return op.rule
    bounds = ", ".join(f"{table.exact_form(op.name, type_.name).ulp:g} ULP for {type_}" for type_ in (f32, f64))
    return f"within {bounds}; f16 and bf16 through f32"


def _types(types: tuple[Type, ...]) -> str:
    return _GROUPS.get(types, ", ".join(f"`{type_}`" for type_ in types))


# ---- functions ------------------------------------------------------------------------------------------------------


def function_table() -> str:
    """Every form of every function and type as a row of a Markdown table, with the largest error that a GPU showed."""
    measured = _measured()
    lines = [
        "| function | type | form | precisions | bound in ULP | largest measured error, and where | instructions |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in FUNCTIONS:
        for type_ in (f32, f64):
            for form in table.forms(name, type_.name):
                cells = (
                    f"`{name}`",
                    f"`{type_}`",
                    form.name,
                    _precisions(name, type_, form),
                    f"{form.ulp:g}",
                    measured.get((name, type_.name, form.name), ""),
                    _instructions(name, type_, form),
                )
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _measured() -> dict[tuple[str, str, str], str]:
    """(function, type, form) -> error and arguments.

    Of the newest run of benchmarks/function_errors.py, which has hard operands of f64, and for the other types of the
    newest run of benchmarks/math_exhaustive.py on a GPU.
    """
    found: dict[tuple[str, str, str], str] = {}
    for benchmark in ("f64-accuracy", "math-accuracy"):
        runs = sorted(MEASURED.glob(f"*-{benchmark}.json"))
        for row in json.loads(runs[-1].read_text(encoding="utf-8"))["rows"] if runs else []:
            given = row["argument"] if isinstance(row["argument"], list) else [row["argument"]]
            digits = 17 if row["type"] == "f64" else 9
            where = ", ".join(f"{float(x):.{digits}g}" for x in given)
            found.setdefault((row["function"], row["type"], row["form"]), f"{float(row['ulp']):.3f} at {where}")
    return found


def _precisions(name: str, type_: Type, form: Form) -> str:
    """The precisions that take the form by themselves."""
    sm = 90
    taken = [
        precision
        for precision in ("ieee", "ftz", "fast")
        if table.choose(name, type_.name, precision=precision, max_ulp=None, sm=sm) is form
    ]
    return ", ".join(taken) or "only with `max_ulp`"


def _instructions(name: str, type_: Type, form: Form) -> str:
    counted = cost(name, type_, form)
    return f"{counted.usual} + {counted.rare}" if counted.rare else str(counted.usual)


# ---- conformance ----------------------------------------------------------------------------------------------------

_INTRODUCTION = """# Conformance

`docs/generate.py` writes this page from the test runs in `docs/conformance`; do not edit it by hand.

A cell is the number of elements that were compared bit for bit, and found equal, for an op and a type.
Any NaN counts as equal to any other, because the sign and payload of a computed NaN are unspecified; for ops that \
only move bits (`copysign`, `where` and `bitcast`), and for `signbit`, which reads one, these are compared too.
Operands are combinations of edge values (zeros, ones, extremes, subnormals, infinities, NaN, powers of two and their \
neighbors) and random bit patterns.
A cell is empty if the op does not exist for the type; the cell for tables of `bf16` is empty because NumPy itself \
has no such arrays; **none** marks a cell without a comparison.

To record a run:

```sh
python -m pytest -m conformance --conformance=docs/conformance/emulator.json
python -m pytest -m conformance tests/device --device=cuda --conformance=docs/conformance/cuda.json
python docs/generate.py
```

Each rule by which expressions are [rewritten](programs.md#what-is-rewritten) has its row [below](#rewriting-rules).
"""
_RULES = """## Rewriting rules

Each rule holds for all numbers of 8 bits, which a test tries one by one; for wider types the solver z3 proves it, \
except for some rules with products, quotients or remainders, for which `tests/unit/terms_rules/test_proofs.py` says \
why they hold.
Programs are grown from the left side of each rule, for each of its types, and their results are compared with the \
interpreter's, operand by operand.
The table counts distinct expressions in which the rule fired, so that the kernel computes its result: the number of \
the type that has the fewest, and the results of all types; none of them differed.
The run was `python -m tests.device.numerics.grown_rules --device cuda --fired 10000`, on {device}, on {date} \
(`benchmarks/results/{name}`).

| rule | types | expressions of each type, at least | results compared |
| --- | --- | --- | --- |
"""
_WAYS = {
    "interpreter": "The interpreter against NumPy and exact arithmetic",
    "emulator": "The emulator against the interpreter",
    "cuda": "A GPU against the interpreter",
}
_ROW_NAMES = {"casts": "from", "bitcasts": "from", "tables, arrays of threads, prints, random numbers, indices": "of"}


def recordings() -> list[Recording]:
    """The runs that are kept, in the order of their files' names."""
    return [read(path) for path in sorted(RECORDINGS.glob("*.json"))]


def conformance_page(runs: Sequence[Recording]) -> str:
    """The whole page: what ran, then a table per kind of op for each way that ran."""
    parts = [_INTRODUCTION, _runs(runs)]
    for way in WAYS:
        for run in (run for run in runs if way in run.counts):
            parts.append(f"## {_WAYS[way]}\n\n{run.device if way != 'interpreter' else f'NumPy {run.numpy}'}.\n")
            parts += [f"### {table.capitalize()}\n\n{_counts(run, way, table)}" for table in CELLS]
    parts.append(rules_section())
    return "\n".join(parts)


def rules_section() -> str:
    """The rules, and how often each fired in the newest run on a GPU. ValueError when a result of that run differed."""
    newest = max(MEASURED.glob("*-nvidia-h200-grown.json"))
    rows = json.loads(newest.read_text(encoding="utf-8"))["rows"]
    if any(row["different"] for row in rows):
        raise ValueError(f"{newest.name} has results that differ: mend the rule and run it again")
    lines = []
    for rule in RULES:
        own = [row for row in rows if row["rule"] == rule.name]
        least = f"{min(row['distinct'] for row in own):,}" if len(own) == len(rule.types) else "**none**"
        compared = f"{sum(row['compared'] for row in own):,}" if own else "**none**"
        lines.append(f"| `{rule.name}` | {_types(rule.types)} | {least} | {compared} |")
    return _RULES.format(device="an NVIDIA H200", date=newest.name[:10], name=newest.name) + "\n".join(lines) + "\n"


def _runs(runs: Sequence[Recording]) -> str:
    lines = ["| compared | device | date | commit | elements |", "| --- | --- | --- | --- | --- |"]
    for way in WAYS:
        for run in (run for run in runs if way in run.counts):
            lines.append(f"| {_WAYS[way]} | {run.device} | {run.date} | {run.commit} | {run.total(way):,} |")
    return "\n".join(lines) + "\n"


def _counts(run: Recording, way: str, table: str) -> str:
    """Rows of the table by the types that any of them takes."""
    rows = CELLS[table]
    counted = run.counts[way].get(table, {})
    types = [t.name for t in TYPES if any(t.name in columns for columns in rows.values())]
    lines = [f"| {' | '.join([_ROW_NAMES.get(table, 'op'), *types])} |", f"|{' --- |' * (len(types) + 1)}"]
    for row, columns in rows.items():
        have = counted.get(row, {})
        cells = [(f"{have[t]:,}" if have.get(t) else "**none**") if t in columns else "" for t in types]
        lines.append(f"| {' | '.join([row, *cells])} |")
    return "\n".join(lines) + "\n"


# ---- writing --------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    check = "--check" in (sys.argv[1:] if argv is None else argv)
    pages = {
        PAGE: current(PAGE.read_text(encoding="utf-8")),
        FUNCTIONS_PAGE: current_functions(FUNCTIONS_PAGE.read_text(encoding="utf-8")),
        CONFORMANCE: conformance_page(recordings()),
    }
    outdated = 0
    for page, after in pages.items():
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        if before == after:
            continue
        if check:
            print(f"{page.name} is not what python docs/generate.py writes", file=sys.stderr)
            outdated = 1
        else:
            page.write_text(after, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main())
