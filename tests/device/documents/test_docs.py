"""What the documents show is what happens: their Python and their commands run, and print what stands below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from vyre_cuda.cli import main

ROOT = Path(__file__).parents[3]
PAGES = (
    "README.md",
    "docs/getting-started.md",
    "docs/ten-minutes.md",
    "docs/algorithms.md",
    "docs/bundles.md",
    "docs/caching.md",
    "docs/coming-from.md",
    "docs/devices.md",
    "docs/egraph.md",
    "docs/emulator.md",
    "docs/functions.md",
    "docs/graphs.md",
    "docs/interop.md",
    "docs/kernels.md",
    "docs/programs.md",
    "docs/telemetry.md",
    "docs/diagnostics.md",
    "docs/worker.md",
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str, str | None]]:
    """(language, code, output shown right below it) of each fenced block that is code."""
    found = [match.groups() for match in _BLOCK.finditer((ROOT / page).read_text())]
    outputs = [text if language == "text" else None for language, text in found[1:]]
    return [
        (language, text, output)
        for (language, text), output in zip(found, [*outputs, None], strict=True)
        if language != "text"
    ]


@pytest.fixture(autouse=True)
def device_under_test(device_name: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes it; paths in commands are those of a checkout."""
    monkeypatch.setenv("VYRE_CUDA_DEVICE", str(device_name))
    monkeypatch.chdir(ROOT)


@pytest.mark.thin(4)
@pytest.mark.parametrize("page", PAGES)
def test_python_prints_what_the_page_shows(page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names: dict[str, object] = {}
    code = [(text, output) for language, text, output in blocks(page) if language == "python"]

    assert code
    for number, (text, output) in enumerate(code):
        source = tmp_path / f"block{number}.py"
        source.write_text(text)
        exec(compile(text, str(source), "exec"), names)
        assert capsys.readouterr().out.rstrip() == (output or "").rstrip()


def test_commands_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [(text, output) for language, text, output in blocks("docs/getting-started.md") if language == "sh"]

    assert commands
    for text, output in commands:
        program, *argv = shlex.split(text)
        assert program == "vyre-cuda"
        assert main(argv) == 0
        if output is not None:
            assert capsys.readouterr().out == output
