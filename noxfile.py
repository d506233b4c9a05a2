"""The tasks of the project: `nox -l` lists them, and `nox -s NAME -- WORDS` runs one and passes WORDS to its program.

They run in the environment from which nox is called, which needs the package with the extra "dev", but no network.
"""

from __future__ import annotations

import os
import sys
import sysconfig

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]

# Programs of this environment first, whether it is activated or not.
os.environ["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))

PARITY = "tests/device/numerics/test_parity.py"
THREADS = ("tests/device/threads/test_free_threading.py", "tests/device/threads/test_threads.py")


def _pytest(session: nox.Session, *words: str, **environment: str) -> None:
    session.run(sys.executable, "-m", "pytest", *words, *session.posargs, env=environment)


def _native(session: nox.Session, preset: str) -> None:
    session.run("cmake", "--preset", preset, f"-DPython_EXECUTABLE={sys.executable}")
    session.run("cmake", "--build", "--preset", preset)
    session.run("ctest", "--preset", preset, *session.posargs)


# ---- checks ----------------------------------------------------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """All checks that a commit must pass."""
    session.run("pre-commit", "run", "--all-files", *session.posargs)


@nox.session(name="format")
def format_(session: nox.Session) -> None:
    """Format Python, C and C++."""
    session.run("ruff", "format", ".")
    files = session.run("git", "ls-files", "*.c", "*.h", "*.cpp", "*.hpp", silent=True)
    session.run("clang-format", "-i", *str(files).split())


@nox.session
def types(session: nox.Session) -> None:
    """The type checker: mypy, strict."""
    session.run("mypy", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """The import rules between the rooms of the package."""
    session.run("lint-imports", *session.posargs)


@nox.session
def prose(session: nox.Session) -> None:
    """Spelling, and words and forms that pages and messages avoid."""
    session.run("codespell", *session.posargs)
    session.run(sys.executable, "tools/prose.py")


# ---- tests -----------------------------------------------------------------------------------------------------------


@nox.session
def tests(session: nox.Session) -> None:
    """The tests on the emulator: five minutes on two cores."""
    _pytest(session)


@nox.session
def quick(session: nox.Session) -> None:
    """The tests that take less than a quarter of a second each."""
    _pytest(session, "-m", "not slow")


@nox.session
def long(session: nox.Session) -> None:
    """All tests with all cases, including those that take minutes."""
    _pytest(session, "--long")


@nox.session
def device(session: nox.Session) -> None:
    """The tests on a GPU."""
    _pytest(session, "--device=cuda", VYRE_CUDA_REQUIRE_GPU="1")


@nox.session
def random(session: nox.Session) -> None:
    """20,000 random programs, compared with the interpreter, on the emulator; `-- --device=cuda`: on a GPU."""
    words = (PARITY, "-k", "random_programs", "--timeout=0")
    _pytest(session, *words, VYRE_CUDA_TEST_EXAMPLES=os.environ.get("VYRE_CUDA_TEST_EXAMPLES", "20000"))


@nox.session
@nox.parametrize("preset", ["dev", "release"], ids=["dev", "release"])
def native(session: nox.Session, preset: str) -> None:
    """The native programs, with CMake and ctest; release also builds the libraries for C and C++ hosts."""
    _native(session, preset)


@nox.session
@nox.parametrize("preset", ["asan", "tsan"], ids=["asan", "tsan"])
def sanitizers(session: nox.Session, preset: str) -> None:
    """The native programs with address and undefined-behavior sanitizers, or with the thread sanitizer."""
    _native(session, preset)


@nox.session
def sanitized(session: nox.Session) -> None:
    """The Python tests, with address and undefined-behavior sanitizers in the library, emulator and extensions."""
    words = session.posargs or ["tests/binding", "tests/device", "-m", "not slow"]
    session.run(sys.executable, "tools/sanitized.py", "asan", *words)


@nox.session
def threads(session: nox.Session) -> None:
    """Thread tests with the thread sanitizer; needs a Python built with it (3.14t, --with-thread-sanitizer)."""
    session.run(sys.executable, "tools/sanitized.py", "tsan", *(session.posargs or THREADS))


@nox.session
def explorer(session: nox.Session) -> None:
    """A million schedules of two and three threads; `-- --replay ...` repeats one (tests/explorer/README.md)."""
    session.run("cmake", "--preset", "release", f"-DPython_EXECUTABLE={sys.executable}")
    session.run("cmake", "--build", "--preset", "release", "--target", "explorer")
    words = session.posargs or ["--budget", "100", "--random", "250000"]
    session.run("build/release/tests/explorer/explorer", *words)


@nox.session
@nox.parametrize("kind", ["text", "wire"], ids=["text", "wire"])
def fuzz_programs(session: nox.Session, kind: str) -> None:
    """A million executions of a fuzzer on the text or wire bytes of programs (pip install atheris)."""
    session.run(sys.executable, "tests/fuzz/fuzz_program.py", kind, *(session.posargs or ["-runs=1000000"]))


@nox.session
@nox.parametrize("kind", ["file", "signed", "facts"], ids=["file", "signed", "facts"])
def fuzz_cache(session: nox.Session, kind: str) -> None:
    """A million executions of a fuzzer on cache files."""
    session.run(sys.executable, "tests/fuzz/fuzz_cache.py", kind, *(session.posargs or ["-runs=1000000"]))


@nox.session
def fuzz_bundles(session: nox.Session) -> None:
    """Loads ten million mutated bundles, with sanitizers."""
    session.run("cmake", "--preset", "asan", f"-DPython_EXECUTABLE={sys.executable}")
    session.run("cmake", "--build", "--preset", "asan", "--target", "fuzz_bundle")
    words = session.posargs or ["-runs=10000000"]
    session.run("build/asan/tests/fuzz/fuzz_bundle", "tests/native/example.vyre", *words)


@nox.session
@nox.parametrize("part", ["bundle", "replay", "ptx", "arrays"], ids=["bundle", "replay", "ptx", "arrays"])
def libfuzzer(session: nox.Session, part: str) -> None:
    """A fuzzer in C or C++ for 15 minutes, with libFuzzer, which needs clang."""
    session.run("cmake", "--preset", "fuzz", f"-DPython_EXECUTABLE={sys.executable}")
    session.run("cmake", "--build", "--preset", "fuzz", "--target", f"fuzz_{part}")
    session.run(sys.executable, "tests/fuzz/seeds.py", "build/seeds")
    seeds = "bundle" if part == "replay" else part
    os.makedirs(f"build/corpus/{seeds}", exist_ok=True)
    words = session.posargs or ["-max_total_time=900", *(["-dict=build/seeds/ptx.dict"] if part == "ptx" else [])]
    session.run(f"build/fuzz/tests/fuzz/fuzz_{part}", *words, f"build/corpus/{seeds}", f"build/seeds/{seeds}")


@nox.session
def machine_code(session: nox.Session) -> None:
    """Executes the machine code of 100,000 random programs, without a GPU: `-- --ptxas PATH --output DIR`."""
    words = ["--programs", "100000", "--reduce", *session.posargs]
    session.run(sys.executable, "tests/machine_code/check.py", *words)


@nox.session
def independent(session: nox.Session) -> None:
    """Random programs on all GPUs, compared with an oracle: `-- --output DIR`; `-- --reduce FILE` shortens one."""
    words = ["--device", "cuda", "--seconds", "500", *session.posargs]
    session.run(sys.executable, "tests/independent/run.py", *words)


# ---- records, after an intended change: then read the diff -----------------------------------------------------------


@nox.session
@nox.parametrize(
    "what",
    ["tests/golden", "tests/binding", "tests/device/calls/test_budget.py"],
    ids=["ptx", "abi", "budget"],
)
def golden(session: nox.Session, what: str) -> None:
    """Updates records: the PTX of some programs, the binary interface, or the cost of warm calls."""
    _pytest(session, what, "--update-golden", "--long")


@nox.session
def docs(session: nox.Session) -> None:
    """Writes the generated pages: op table, functions, conformance, C reference."""
    session.run(sys.executable, "docs/generate.py", *session.posargs)
    session.run(sys.executable, "docs/c_reference.py", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Builds the site in build/site, without a network or a device; needs the extra "docs"."""
    words = ["-q", "-W", "--keep-going", "-b", "html", "-c", "docs/site", "docs", "build/site"]
    session.run(sys.executable, "-m", "sphinx", *words, *session.posargs)


@nox.session
@nox.parametrize("where", ["emulator", "cuda"], ids=["emulator", "cuda"])
def conformance(session: nox.Session, where: str) -> None:
    """Records the conformance of interpreter and emulator, or of a GPU."""
    rooms = ["tests/device", "--device=cuda"] if where == "cuda" else []
    _pytest(session, "-m", "conformance", *rooms, f"--conformance=docs/conformance/{where}.json")


@nox.session
def minimax(session: nox.Session) -> None:
    """Finds the polynomials of the mathematical functions anew, after a change in tools/."""
    session.run(sys.executable, "tools/minimax.py", *session.posargs)


@nox.session
def figures(session: nox.Session) -> None:
    """Writes the tables and pictures of docs/performance.md from benchmarks/results."""
    session.run(sys.executable, "benchmarks/page.py", *session.posargs)


# ---- on a GPU, and for a release -------------------------------------------------------------------------------------


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The benchmarks on a GPU."""
    session.run(sys.executable, "benchmarks/bench_dispatch.py", *(session.posargs or ["--peers", "all"]))


@nox.session
@nox.parametrize("what", ["record", "fold"], ids=["record", "fold"])
def silicon(session: nox.Session, what: str) -> None:
    """Records the answers of a GPU, or finds operands that its compiler folds wrongly: `-- --output fold.jsonl`."""
    session.run(sys.executable, f"tests/silicon/{what}.py", "libcuda.so.1", *session.posargs)


@nox.session
def abi(session: nox.Session) -> None:
    """What changed in the binary interface since a commit: `-- COMMIT`."""
    session.run(sys.executable, "tools/abi_check.py", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Builds an sdist and manylinux wheels: `-- --output dist python3.10 python3.11 ...`."""
    session.run(sys.executable, "tools/wheels.py", *session.posargs)
