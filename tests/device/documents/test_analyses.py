"""The examples that analyze programs: each answer is that of Python, and a wrong one is noticed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import egraph
from vyre_cuda.passes.dce import remove_dead_code

from .test_examples import load

selfhost, duplicates = load("selfhost"), load("duplicates")
HEADER = """program p
block 32
in x: u32
inout y: u32
out out: u32[size(x)]
scalar n: u32

"""
# ---- selfhost.py -------------------------------------------------------------------------------------------------

PROGRAMS = {
    "nothing": "",
    "nothing is live": "let a = n\nvar v = add(a, n)\nv = load(x[v])",
    "all is live": "let a = load(x[n])\nvar v = a\nv = add(v, a)\nstore out[v], v",
    "a variable that only its assignments read": "var v = n\nv = add(v, u32:1)\nv = multiply(v, v)\nstore out[n], n",
    "a chain behind a condition": "let a = n\nlet b = add(a, a)\nif less(b, n)\n  store y[n], n\nend\nlet c = b",
    "an arm": "if less(n, u32:3)\n  let a = n\nelse\n  store y[n], n\nend",
    "no arm": "if less(n, u32:3)\n  let a = n\nelse\n  let b = n\nend\nstore y[n], n",
    "a loop without effects": (
        "var v = n\nfor i = u32:0 to n step u32:1\n  v = add(v, i)\n  if less(i, v)\n    break\n  end\nend"
    ),
    "a loop that is read": (
        "var v = n\nvar w = n\nfor i = u32:0 to n step u32:1\n  v = add(v, i)\n  w = v\n  if less(w, v)\n    break\n"
        "  end\nend\nstore out[n], v"
    ),
    "code behind jumps": (
        "let a = load(x[n])\nfor i = u32:0 to n step u32:1\n  if less(i, a)\n    break\n    store out[a], a\n  end\n"
        "  store out[i], n\n  break\n  if less(i, n)\n    store y[i], a\n  end\nend"
    ),
    "while": (
        "var v = n\nvar w = n\nwhile\n  let t = load(y[v])\n  let u = t\ntest less(t, n)\n  v = add(v, t)\n  w = v\n"
        "  if less(v, n)\n    continue\n  end\n  store y[v], u\nend"
    ),
    "constants": (
        "store out[u32:0], cast.u32(multiply(cast.f64(u64:1), f64:0.1))\nlet h = f16:1.5\n"
        "store out[u32:1], cast.u32(f16:1.5)\nstore out[u32:2], where(bool_:true, u32:300, cast.u32(i8:-1))"
    ),
    "many names": "".join(f"let name_{k} = add(n, u32:{k % 7})\n" for k in range(300))
    + "store out[name_299], add(name_130, name_3)",
    "a long name": f"let {'long' * 40} = n\nstore out[n], {'long' * 40}",
}


@pytest.fixture(scope="module")
def parsed() -> dict[str, vc.Program]:
    return {name: vc.parse(HEADER + body) for name, body in PROGRAMS.items()}


@pytest.mark.thin
def test_selfhost_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert selfhost.main(["--programs", "200", "--evaluated", "5", *on]) == 0
    assert "the bytes are those of passes.dce" in capsys.readouterr().out


def test_selfhost_leaves_what_the_pass_leaves(device: vc.Device, parsed: dict[str, vc.Program]) -> None:
    batch = selfhost.Batch(device, [program.to_bytes() for program in parsed.values()])
    batch.read()
    batch.spread()
    live = batch.live()

    for (name, program), each in zip(parsed.items(), live, strict=True):
        assert selfhost.without_dead(program, each).text() == remove_dead_code(program).text(), name


def test_selfhost_numbers_values_as_a_dictionary_does(device: vc.Device, parsed: dict[str, vc.Program]) -> None:
    batch = selfhost.Batch(device, [program.to_bytes() for program in parsed.values()])
    batch.read()
    table, row = batch.table()
    expected = np.array(selfhost.Numbering(list(parsed.values())).found, np.uint32)

    assert selfhost.is_same_partition(egraph.close(table, device).classes.numpy()[row], expected)


def test_selfhost_gives_two_reads_of_memory_two_values_only_where_it_is_written(device: vc.Device) -> None:
    body = "let a = add(load(x[n]), n)\nlet b = load(x[n])\nlet c = add(b, n)\nlet d = load(y[n])\nlet e = load(y[n])"
    batch = selfhost.Batch(device, [vc.parse(HEADER + body).to_bytes()])
    batch.read()
    table, row = batch.table()
    # The size of out; then a node before its operands.
    size, a, load_a, n, _, load_b, _, c, b, _, d, _, e, _ = egraph.close(table, device).classes.numpy()[row]

    assert a == c
    assert load_a == load_b == b
    assert len({size, a, load_a, n, d, e}) == 6


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "return",
        HEADER + 'assert less(n, n), "message"',
        HEADER.replace("block 32", "block 32\nindex i32").replace("[size(x)]", "") + "store out[i32:0], n",
        HEADER.replace("in x: u32\n", "in x: u32[:, :]\n") + "store out[n], n",
        HEADER.replace("\n\n", "\nshared s: u32[32]\n\n") + "store s[n], n",
    ],
    ids=["return", "assert", "version 2", "axes", "shared"],
)
def test_selfhost_refuses_what_its_reader_does_not_know(device: vc.Device, text: str) -> None:
    good, other = (vc.parse(each).to_bytes() for each in (HEADER + "store out[n], n", text))

    with pytest.raises(ValueError, match=r"^program 1: "):
        selfhost.Batch(device, [good, other, good]).read()


def test_selfhost_notices_wrong_answers(
    on: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live, table = selfhost.Batch.live, selfhost.Batch.table

    def one_dead_statement_more(batch: object) -> list[np.ndarray]:
        found: list[np.ndarray] = live(batch)
        found[7][np.flatnonzero(found[7])[-1]] = False
        return found

    def one_other_row(batch: object) -> tuple[egraph.Table, np.ndarray]:
        made, row = table(batch)
        row[40] = row[41]
        return made, row

    monkeypatch.setattr(selfhost.Batch, "live", one_dead_statement_more)
    monkeypatch.setattr(selfhost.Batch, "table", one_other_row)

    assert selfhost.main(["--programs", "9", "--evaluated", "0", *on]) == 1
    assert "bytes of program 7, value numbers, 2 in all" in capsys.readouterr().err


# ---- duplicates.py -----------------------------------------------------------------------------------------------

SOURCE = """
def f(x, y):
    return g(x + 1, [y * 2 for y in x if y]), (x + 1).z

a = g(x + 1, [y * 2 for y in x if y])
b = [1, 1.0, True, 1j, "1", b"1", None, ..., -1]
c = {**x, "k": y}, {"k": y, **x}
d = lambda x, *y, z=1: f"{x!r:>{y}}"
e = lambda x, *, y, z=1: f"{x!s}"
"""


def rows_of(*expressions: ast.expr) -> duplicates.Rows:
    rows = duplicates.Rows()
    rows.files.append(Path("none.py"))
    for each in expressions:
        rows.add(each)
    return rows


def test_duplicates_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert duplicates.main(["--rows", "3000", *on]) == 0
    printed = capsys.readouterr().out
    assert re.match(r"3,0\d\d rows of ", printed)
    assert "the same classes as the dictionary's and NumPy's" in printed


def test_duplicates_shows_the_largest_expression_and_one_place(
    tmp_path: Path, on: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "source.py").write_text(SOURCE)
    (tmp_path / "wrong.py").write_text("x = ")
    (tmp_path / "site-packages" / "other.py").write_text(SOURCE)

    assert duplicates.main([str(tmp_path), *on]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "of 1 files (1 not parsed)" in lines[0]
    at = lines.index("nodes  places  expression") + 1
    assert lines[at].split(maxsplit=2) == ["13", "2", "g(x + 1, [y * 2 for y in x if y])  source.py:5"]
    assert lines[at + 1].split(maxsplit=2) == ["3", "3", "x + 1  source.py:5"]


def equal_pairs(*texts: str) -> Iterator[tuple[str, str]]:
    """Pairs of these expressions that have one class."""
    rows = rows_of(*(ast.parse(text, mode="eval").body for text in texts))
    classes = duplicates.python_classes(rows)
    roots = np.flatnonzero(np.array(rows.parents) == duplicates.ROOT)
    for i, left in enumerate(texts):
        yield from ((left, right) for j, right in enumerate(texts[:i]) if classes[roots[i]] == classes[roots[j]])


def test_duplicates_tells_expressions_apart() -> None:
    different = ["1", "1.0", "True", "1j", "'1'", "b'1'", "None", "...", "a", "b", "-1", "+1", "a.b", "a[b]", "a(b)"]
    different += ["a < b", "a <= b", "a + b", "b + a", "a - b", "a < b < c", "(a < b) < c", "f(a, b)", "f(a, *b)"]
    different += [
        "f(a)(b)",
        "f(a=b)",
        "f(**b)",
        "[a, b]",
        "(a, b)",
        "{a, b}",
        "{a: b}",
        "{**b}",
        "[[a], b]",
        "[[a, b]]",
    ]
    different += ["lambda a, b: a", "lambda a, /, b: a", "lambda a, *, b: a", "lambda a, *b: a", "lambda a, b=1: a"]
    different += ["[a for a in b]", "(a for a in b)", "[a for a in b if a]", "[a for a in b for a in b]", "f'{a}'"]
    different += [
        "f'{a!r}'",
        "f'{a:b}'",
        "f'{a:{b}}'",
        "{**a, 'k': b}",
        "{'k': b, **a}",
        "a[b:c]",
        "a[b::c]",
        "a[:b:c]",
    ]

    assert list(equal_pairs(*different)) == []
    assert list(equal_pairs("f(a,  b )", "f( # one\n a, b)")) == [("f( # one\n a, b)", "f(a,  b )")]


def test_duplicates_of_a_deep_expression_need_no_recursion(device: vc.Device) -> None:
    def chain(length: int) -> ast.expr:
        made: ast.expr = ast.Name("a", ast.Load())
        for _ in range(length):
            made = ast.UnaryOp(ast.USub(), made)
        return made

    rows = rows_of(chain(5000), chain(5000))
    np.testing.assert_array_equal(duplicates.python_classes(rows), np.tile(np.arange(5001), 2))
    assert [(each.nodes, each.places) for each in duplicates.repeated(rows, duplicates.python_classes(rows), 9)] == []

    rows = rows_of(chain(40), chain(30), chain(40))
    classes = egraph.close(rows.table(), device).classes.numpy()
    np.testing.assert_array_equal(classes, duplicates.python_classes(rows))


def test_duplicates_of_no_rows(tmp_path: Path, on: tuple[str, str]) -> None:
    assert duplicates.main([str(tmp_path), *on]) == 0


def test_duplicates_notices_wrong_classes(
    on: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(duplicates, "python_classes", lambda rows: np.zeros(len(rows), np.uint32))

    assert duplicates.main(["--rows", "500", *on]) == 1
    assert "differs from the dictionary" in capsys.readouterr().err
