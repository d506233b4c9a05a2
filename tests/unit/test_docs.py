"""What is generated in the documents is what the op table of today and the recorded test runs give."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from vyre_cuda.ir.core.ops import OPS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_page_is_current(generate: ModuleType) -> None:
    page = (DOCS / "programs.md").read_text()

    functions = (DOCS / "functions.md").read_text()

    assert generate.current(page) == page
    assert generate.current_functions(functions) == functions
    assert generate.conformance_page(generate.recordings()) == (DOCS / "conformance.md").read_text()


def test_table_has_a_row_of_five_cells_per_op(generate: ModuleType) -> None:
    rows = generate.op_table().splitlines()[2:]

    assert len(rows) == len(OPS)
    assert {row.replace(r"\|", "").count("|") for row in rows} == {6}


def test_outdated_page_is_found_and_rewritten(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "programs.md"
    page.write_text(f"before\n{generate.BEGIN}| old |\n{generate.END}after\n")
    monkeypatch.setattr(generate, "PAGE", page)
    functions = tmp_path / "functions.md"
    functions.write_text(f"{generate.FUNCTIONS_BEGIN}| old |\n{generate.FUNCTIONS_END}")
    monkeypatch.setattr(generate, "FUNCTIONS_PAGE", functions)
    monkeypatch.setattr(generate, "CONFORMANCE", tmp_path / "conformance.md")

    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
    assert "`sigmoid`" in functions.read_text()
    assert (tmp_path / "conformance.md").read_text() == (DOCS / "conformance.md").read_text()


def test_page_without_a_place_for_the_table_is_refused(generate: ModuleType) -> None:
    with pytest.raises(ValueError):
        generate.current("no table here\n")
    with pytest.raises(ValueError):
        generate.current_functions("no table here\n")


def test_the_table_of_functions_has_what_a_gpu_showed(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"function": "exp2", "type": "f32", "form": "steps", "ulp": 0.8125, "argument": -126.5}
    old = {"rows": [{**row, "ulp": "Infinity", "argument": "NaN"}]}
    (tmp_path / "2026-01-01-gpu-math-accuracy.json").write_text(json.dumps(old))
    (tmp_path / "2026-01-02-gpu-math-accuracy.json").write_text(json.dumps({"rows": [row]}))
    monkeypatch.setattr(generate, "MEASURED", tmp_path)

    rows = [line for line in generate.function_table().splitlines() if line.startswith("| `exp2` | `f32`")]

    assert "| 0.812 at -126.5 |" in rows[0]
    assert all("|  |" in line for line in rows[1:])


def test_rules_stand_beside_what_a_gpu_gave(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"rule": "rotated_by_or", "type": "u32", "distinct": 12_000, "compared": 384_000, "different": 0},
        {"rule": "rotated_by_or", "type": "u64", "distinct": 11_000, "compared": 352_000, "different": 0},
        {"rule": "rotated_by_xor", "type": "u32", "distinct": 10_000, "compared": 320_000, "different": 0},
    ]
    (tmp_path / "2026-01-01T000000Z-nvidia-h200-grown.json").write_text("not the newest")
    newest = tmp_path / "2026-01-02T000000Z-nvidia-h200-grown.json"
    newest.write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(generate, "MEASURED", tmp_path)

    section = generate.rules_section()

    assert "| `rotated_by_or` | `u32`, `u64` | 11,000 | 736,000 |" in section
    assert "| `rotated_by_xor` | `u32`, `u64` | **none** | 320,000 |" in section  # one of its types is not there
    assert "| `xor_twice` | integers | **none** | **none** |" in section

    rows[0]["different"] = 1
    newest.write_text(json.dumps({"rows": rows}))
    with pytest.raises(ValueError, match="results that differ"):
        generate.rules_section()
