"""The site: its references have everything that is public, and it builds without warnings."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import vyre_cuda as vc

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def c_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_c_reference", DOCS / "c_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- Python ----------------------------------------------------------------------------------------------------------


def test_the_reference_has_every_public_name_once() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    described = [name for block in re.findall(r"```\{api\}\n(.*?)```", page, re.DOTALL) for name in block.split()]
    explained = re.findall(r"`vc\.(\w+)(?:\[type(?:, 2)?\])?`", page)

    assert sorted(described) == sorted(set(described))
    public = {*vc.__all__} - {"__version__"}
    rooms = {name: getattr(vc, name) for name in public if inspect.ismodule(getattr(vc, name))}
    names = (public - rooms.keys()) | {f"{room}.{name}" for room, module in rooms.items() for name in module.__all__}
    assert {*described, *explained} - {"NAME"} == names


def test_the_gallery_has_every_example() -> None:
    shown = set(re.findall(r"\.\./examples/([\w/.]+)\)", (DOCS / "gallery.md").read_text(encoding="utf-8")))

    assert {path.name for path in (ROOT / "examples").glob("*.*")} - shown == set()


def test_pages_of_the_site_are_reached_from_its_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = {line for block in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL) for line in block.split()}

    assert {path.stem for path in DOCS.glob("*.md")} - listed == {"index"}


# ---- C ---------------------------------------------------------------------------------------------------------------


def test_the_c_reference_is_current(c_reference: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert c_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_the_c_reference_has_every_exported_function(c_reference: ModuleType) -> None:
    page = c_reference.page(c_reference.whole(c_reference.HEADER))
    described = re.findall(r"^### `(\w+)`\n\n```c\n(?:VYC_API|static inline) ", page, re.MULTILINE)

    assert {*(ROOT / "csrc" / "symbols.txt").read_text().split()} - {*described} == set()


def test_every_function_of_the_c_reference_has_a_text_of_its_own(c_reference: ModuleType) -> None:
    items = c_reference.items(c_reference.whole(c_reference.HEADER))

    assert [item.function for item in items if getattr(item, "function", None) and not item.comment] == []


def test_a_header_becomes_headings_code_and_text(c_reference: ModuleType) -> None:
    header = """/* A library of * and vyc_x.
 *
 *   vyc_x();   code
 *
 *  - first,
 *    second
 */
#ifndef VYRE_CUDA_H
/* ---- part one ---- */

/* Does x; fails
 * with VYC_E_X. */
VYC_API int vyc_x(int a,
                  int b);
typedef struct vyc_y { /* with { and ; */
  int z;
} vyc_y;
#define VYC_TABLE(X) \\
  X(a)
#endif
"""
    page = c_reference.page(header).partition("rules for hosts.\n\n")[2]

    assert (
        page
        == """A library of \\* and `vyc_x`.

```text
  vyc_x();   code
```

- first,
  second

## Part one

### `vyc_x`

```c
VYC_API int vyc_x(int a,
                  int b);
```

Does x; fails
with `VYC_E_X`.

```c
typedef struct vyc_y { /* with { and ; */
  int z;
} vyc_y;
```

```c
#define VYC_TABLE(X) \\
  X(a)
```
"""
    )


def test_an_outdated_c_reference_is_found_and_rewritten(
    c_reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_reference, "PAGE", tmp_path / "c-reference.md")

    assert c_reference.main(["--check"]) == 1
    assert c_reference.main([]) == 0
    assert c_reference.main(["--check"]) == 0


def test_a_declaration_without_an_end_is_refused(c_reference: ModuleType) -> None:
    with pytest.raises(ValueError, match="no end: typedef struct x"):
        list(c_reference.items("/* */\ntypedef struct x {\n"))


# ---- the site --------------------------------------------------------------------------------------------------------


@pytest.mark.sphinx
@pytest.mark.thin
@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    words = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(DOCS / "site"), str(DOCS), str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert 'id="vyre_cuda.Device.compile"' in (tmp_path / "api.html").read_text(encoding="utf-8")
