"""examples/service answers rightly while bundles are replaced and driver calls fail; the page about C++ compiles."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from installed import program

from vyre_cuda.cli.command import main
from vyre_cuda.locations import get_cmake_dir

from .test_cpp_header import INCLUDE, LINK
from .tools import EMULATOR, ROOT, attempt, call, configure, cuda_include

SERVICE = ROOT / "examples" / "service"
UNITS = (SERVICE / "worker.cpp", SERVICE / "service.cpp")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with two generations of the bundle, and their header."""
    folder = tmp_path_factory.mktemp("service")
    call([sys.executable, SERVICE / "models.py", folder / "models.vyre"])
    call([sys.executable, SERVICE / "models.py", folder / "next.vyre", "100"])
    assert main(["bundle", str(folder / "models.vyre"), "--cpp", str(folder / "models.hpp")]) == 0
    return folder


def counts(printed: str) -> dict[str, int]:
    found = re.search(r"^ok (\d+), failed (\d+), asserts (\d+), wrong (\d+), reloads (\d+), ", printed, re.MULTILINE)
    assert found is not None, printed
    return dict(zip(("ok", "failed", "asserts", "wrong", "reloads"), map(int, found.groups()), strict=True))


@pytest.mark.thin
def test_the_service_answers_rightly_beside_faults(bundles: Path, tmp_path: Path) -> None:
    words = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", INCLUDE, f"-I{bundles}"]
    call([*words, *UNITS, "-o", tmp_path / "service", *LINK, "-ldl"])
    generations = [bundles / "models.vyre", bundles / "next.vyre"]

    for seconds in ("2", "20", "200"):  # a busy machine has time for few requests
        done = attempt([tmp_path / "service", *generations, "2", seconds, EMULATOR, "faults"])
        found = counts(done.stdout)
        if found["ok"] > 100:
            break

    assert done.returncode == 0, done.stdout + done.stderr
    assert found["wrong"] == 0
    assert found["ok"] > 100
    assert found["asserts"] > 0
    assert "negative input" in done.stdout
    assert f'service_requests{{outcome="ok"}} {found["ok"]}\n' in done.stdout
    assert "# TYPE vyre_kernel_launches counter\n" in done.stdout


@pytest.mark.thin(2)
@pytest.mark.parametrize(("standard", "most"), [("c++17", 20000), ("c++20", 24000)])
def test_the_unit_that_uses_the_library_stays_quick_to_compile(bundles: Path, standard: str, most: int) -> None:
    """Lines after preprocessing, of which std::vector and vyre_cuda.hpp make 16,000 and 19,000; and functions made."""
    unit = [f"-std={standard}", INCLUDE, f"-I{bundles}", SERVICE / "worker.cpp"]
    lines = call(["g++", "-E", "-P", *unit]).count("\n")
    call(["g++", "-c", "-O0", *unit, "-o", bundles / "worker.o"])
    functions = re.findall(r"^[0-9a-f]+ [tTW] ", call(["nm", bundles / "worker.o"]), re.MULTILINE)

    assert 5000 < lines < most
    assert 100 < len(functions) < 500


@pytest.mark.thin
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_the_service_is_clean_under_sanitizers(bundles: Path, tmp_path: Path, sanitizer: str) -> None:
    words = ["g++", "-std=c++17", "-g", f"-fsanitize={sanitizer}", INCLUDE, f"-I{bundles}"]
    call([*words, *UNITS, "-o", tmp_path / "service", *LINK, "-ldl"])
    generations = [bundles / "models.vyre", bundles / "next.vyre"]

    # The installed library is not instrumented: its memory changes hands by atomics that the sanitizer does not see, so
    # what the library copies there is not judged. What the service does is.
    alone = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
    done = attempt([tmp_path / "service", *generations, "2", "2", EMULATOR], environment=alone)

    assert done.returncode == 0, done.stdout + done.stderr
    assert counts(done.stdout)["wrong"] == 0


@pytest.mark.thin
def test_cmake_builds_it_and_latencies_are_told(bundles: Path, tmp_path: Path) -> None:
    for name in ("service.cpp", "worker.cpp", "worker.hpp", "latency.cpp", "CMakeLists.txt"):
        (tmp_path / name).write_text((SERVICE / name).read_text())
    (tmp_path / "models.hpp").write_text((bundles / "models.hpp").read_text())
    call(configure(tmp_path, tmp_path / "build", vyre_cuda_DIR=get_cmake_dir(), CUDA_INCLUDE=cuda_include()))
    call([program("cmake"), "--build", tmp_path / "build"])

    printed = call([tmp_path / "build" / "latency", bundles / "models.vyre", "200", "2", EMULATOR])
    for way in ("call", "copies", "driver", "driver, mapped"):
        assert re.search(rf"^{way} +200 requests: p50 .* p99\.9 ", printed, re.MULTILINE)


def test_the_code_on_the_page_compiles(tmp_path: Path) -> None:
    blocks = re.findall(r"^```cpp\n(.*?)^```$", (ROOT / "docs" / "cpp.md").read_text(), re.MULTILINE | re.DOTALL)
    whole = [block for block in blocks if block.startswith("#include")]
    parts = [block for block in blocks if not block.startswith("#include")]
    given = "const vyre::Context &context, const Saxpy &saxpy, const std::vector<float> &x, std::vector<float> &out"
    functions = [
        f"void part{number}({given}) {{\n"
        f"const auto &y = x;\n(void)context, (void)saxpy, (void)y, (void)out;\n{part}}}\n"
        for number, part in enumerate(parts)
    ]
    source = tmp_path / "page.cpp"
    headers = "#include <chrono>\n#include <cstdio>\n#include <sys/epoll.h>\n#include <sys/eventfd.h>\n"
    source.write_text("\n".join([headers, *whole, *functions]))

    assert (len(whole), len(parts)) == (1, 6)
    call(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", INCLUDE, "-fsyntax-only", source])
