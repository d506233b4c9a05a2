"""Which device the suite runs on, and what every test leaves behind: nothing.

`--device=emulator` (default) or `--device=emulator:1`, `--device=cuda` or an ordinal. Tests marked `cuda` or `emulator`
run on that kind only, and those marked `valgrind`, `clang`, `cargo`, `mpiexec`, `asio`, `nvjitlink`, `torch`, `cupy`,
`z3` or `sphinx` where that is installed: they are deselected elsewhere, never skipped. `--conformance=FILE` keeps what
the run compared, for docs/conformance.md.

Without --long a run takes some minutes: tests marked `long` are left out, of one marked `thin(n)` every n-th case runs,
of one marked `thin` none, and hypothesis draws 10 examples for a test that does not say how many it needs, not 100:
the same in each run, and others with --hypothesis-seed. With --long, with --conformance, and on a GPU, nothing is
thinned, and each run draws others.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import hypothesis
import pytest
from background_jobs import FIXTURES, build_folder, jobs_for, launcher_folder, results_folder
from background_work import BackgroundWork, Done
from installed import find_program

import vyre_cuda as vc
from vyre_cuda.bundles.nvjitlink import find_nvjitlink
from vyre_cuda.testing import conformance
from vyre_cuda.testing.emulator import Emulator

_TALLY = pytest.StashKey[conformance.Tally]()
_BACKGROUND = pytest.StashKey[BackgroundWork]()
_BEGUN_FOR = pytest.StashKey[Collection[str]]()  # the fixtures that wait for it
_WAITING_SECONDS = 3600  # that a test has which waits for the background, where a busy machine builds and runs it all

LIBRARIES = ("torch", "cupy", "z3")
SITE_BUILDERS = ("sphinx", "myst_parser", "furo")
# The mark of tests that need a program, and the program.
PROGRAMS = {"clang": "clang++", "cargo": "cargo", "mpiexec": "mpiexec"}
# The mark of tests that need a header, and the header, where the compiler looks for it.
HEADERS = {"asio": "asio.hpp"}
HEADER_PLACES = ["/usr/include", "/usr/local/include", *os.environ.get("CPLUS_INCLUDE_PATH", "").split(os.pathsep)]
# Its headers too: a test is built with them.
HAS_VALGRIND = shutil.which("valgrind") is not None and os.path.isfile("/usr/include/valgrind/callgrind.h")


def pytest_report_header() -> list[str]:
    missing = [] if HAS_VALGRIND else ["valgrind is not installed: the tests that count instructions are deselected"]
    if find_nvjitlink() is None:
        missing.append("nvJitLink is not installed: its tests are deselected")
    missing += [f"{name} is not installed: its tests are deselected" for name in _missing_libraries()]
    missing += [f"{PROGRAMS[name]} is not installed: its tests are deselected" for name in _missing_programs()]
    missing += [f"{HEADERS[name]} is not installed: its tests are deselected" for name in _missing_headers()]
    return missing


def _missing_programs() -> list[str]:
    return [mark for mark, program in PROGRAMS.items() if find_program(program) is None]


def _missing_headers() -> list[str]:
    return [
        mark
        for mark, header in HEADERS.items()
        if not any(os.path.isfile(os.path.join(place, header)) for place in HEADER_PLACES if place)
    ]


def _missing_libraries() -> list[str]:
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return missing + ["sphinx"] * any(importlib.util.find_spec(name) is None for name in SITE_BUILDERS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", default="emulator", help="emulator (default), emulator:1, cuda, or the ordinal of a CUDA device"
    )
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")
    parser.addoption("--long", action="store_true", help="also the tests that take minutes, and all cases of each")
    parser.addoption("--conformance", type=Path, metavar="FILE", help="write how much was compared per op and type")


def pytest_configure(config: pytest.Config) -> None:
    kind, _, number = str(config.getoption("--device")).partition(":")
    if kind == "emulator" and number.isdigit():  # before anything opens the emulator; also for processes of tests
        os.environ["VYRE_CUDA_EMULATOR_DEVICES"] = str(int(number) + 1)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; tests and their processes
        signal.signal(signal.SIGINT, signal.default_int_handler)  # interrupt themselves
    _load_profile(is_thinned=_is_thinned(config), is_seeded=config.getoption("--hypothesis-seed") is not None)
    config.stash[_TALLY] = conformance.Tally()
    if config.getoption("--conformance") and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--conformance counts in one process; run without -n")


def _load_profile(*, is_thinned: bool, is_seeded: bool) -> None:
    """A loaded machine or a long program is no wrong result, and whether a short run passes is a fact of the commit."""
    unrelated = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]
    unhurried = hypothesis.settings(deadline=None, suppress_health_check=unrelated)
    hypothesis.settings.register_profile("unhurried", unhurried)
    hypothesis.settings.register_profile("thinned", unhurried, max_examples=10, derandomize=not is_seeded)
    hypothesis.settings.load_profile("thinned" if is_thinned else "unhurried")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Only a run without a failure is a recording."""
    if _BACKGROUND in session.config.stash:
        session.config.stash[_BACKGROUND].stop()
    path: Path | None = session.config.getoption("--conformance")
    if path is None or exitstatus != pytest.ExitCode.OK:
        return
    name = session.config.getoption("--device")
    with vc.Device(int(name) if name.isdigit() else name) as device:
        made = conformance.recording(session.config.stash[_TALLY], commit=_commit(), device=device.properties.name)
    conformance.write(path, made)


def _commit() -> str:
    """The commit that is tested, with "-modified" when files differ from it; VYRE_CUDA_COMMIT where git is not."""
    named = os.environ.get("VYRE_CUDA_COMMIT")
    if named:
        return named
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=-modified"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _is_emulator(config: pytest.Config) -> bool:
    name: str = config.getoption("--device")
    return name.startswith("emulator")


def _is_thinned(config: pytest.Config) -> bool:
    return _is_emulator(config) and not (config.getoption("--long") or config.getoption("--conformance"))


class _Thinning:
    """Which cases of the tests marked `thin` stay: of each test the first and every n-th behind it."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def leaves_out(self, item: pytest.Item) -> bool:
        marker = item.get_closest_marker("thin")
        if marker is None:
            return False
        if not marker.args:
            return True
        test = item.nodeid.split("[")[0]
        self._seen[test] = self._seen.get(test, -1) + 1
        return self._seen[test] % int(marker.args[0]) != 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thinning = _Thinning() if _is_thinned(config) else None
    unwanted = {"cuda" if _is_emulator(config) else "emulator"}
    if not config.getoption("--long"):
        unwanted.add("long")
    if not HAS_VALGRIND:
        unwanted.add("valgrind")
    if find_nvjitlink() is None:
        unwanted.add("nvjitlink")
    unwanted.update(_missing_libraries(), _missing_programs(), _missing_headers())
    kept, dropped = [], []
    for item in items:
        is_unwanted = any(map(item.get_closest_marker, unwanted))
        is_thinned = not is_unwanted and thinning is not None and thinning.leaves_out(item)
        (dropped if is_unwanted or is_thinned else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    for item in items:
        if _waits_for(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_WAITING_SECONDS))
    items.sort(key=_waits_for)  # last, so that there is time for it


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """A run of everything waits for all that is done in the background: it begins before the tests are collected."""
    option = session.config.option
    is_whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS and not option.keyword
    if is_whole and not option.collectonly:
        _begin_background(session.config, frozenset(FIXTURES))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected never becomes garbage; a look through it takes 0.2 s, and tests collect often."""
    gc.collect()
    gc.freeze()
    if not session.config.option.collectonly:
        names = {name for item in session.items for name in getattr(item, "fixturenames", ())}
        _begin_background(session.config, names.intersection(FIXTURES))


def _begin_background(config: pytest.Config, fixtures: Collection[str]) -> None:
    """Begin what these fixtures wait for; nothing where just that has begun."""
    begun = config.stash.get(_BACKGROUND, None)
    if begun is not None and config.stash[_BEGUN_FOR] == fixtures:
        return
    if begun is not None:
        begun.stop()
        del config.stash[_BACKGROUND]
    if fixtures:
        work = config.stash[_BACKGROUND] = BackgroundWork()
        config.stash[_BEGUN_FOR] = fixtures
        is_thinned = not config.getoption("--long")
        work.start(jobs_for(fixtures, work.folder, is_thinned=is_thinned, is_emulator=_is_emulator(config)))


def _waits_for(item: pytest.Item) -> int:
    """The place in the order of the background's work of the last thing that a test waits for."""
    names = getattr(item, "fixturenames", ())
    return max((number for number, name in enumerate(FIXTURES, 1) if name in names), default=0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What a module leaves is not looked through again and again: it may be much, and tests collect often."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is written to the user's cache, nor read from it; processes that tests start have this one too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VYRE_CUDA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def native_build(request: pytest.FixtureRequest) -> Path:
    """The build folder of the C layer and the native programs, which are built on the emulator, not on a GPU.

    Without --long the programs are given the installed emulator.
    """
    work = request.config.stash[_BACKGROUND]
    done = work.wait("native_build")
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return build_folder(work.folder)


@pytest.fixture(scope="session")
def native_runs(request: pytest.FixtureRequest, native_build: Path) -> Callable[[str], Done]:
    """What ctest said about the native programs with a label."""
    work = request.config.stash[_BACKGROUND]
    return lambda label: work.wait(f"native_{label}")


@pytest.fixture(scope="session")
def typed_package(request: pytest.FixtureRequest) -> Done:
    """What mypy said about the package."""
    return request.config.stash[_BACKGROUND].wait("typed_package")


@pytest.fixture(scope="session")
def launcher(request: pytest.FixtureRequest) -> Path:
    """The launcher of `launched_programs`, built."""
    work = request.config.stash[_BACKGROUND]
    done = work.wait("launcher")
    assert done.returncode == 0, done.stdout + done.stderr
    return launcher_folder(work.folder) / "kernels"


def _benchmark(request: pytest.FixtureRequest, name: str) -> tuple[Path, str]:
    """The result file of a benchmark, and what it printed."""
    work = request.config.stash[_BACKGROUND]
    done = work.wait(name)
    assert done.returncode == 0, done.stderr + done.stdout
    (path,) = results_folder(work.folder, name).iterdir()
    return path, done.stdout


@pytest.fixture(scope="session")
def dispatch_benchmark(request: pytest.FixtureRequest) -> tuple[Path, str]:
    """The result file of one quick run of everything, and what it printed."""
    return _benchmark(request, "dispatch_benchmark")


@pytest.fixture(scope="session")
def curves_benchmark(request: pytest.FixtureRequest) -> tuple[Path, str]:
    """The result file of a quick run of all curves, and what it printed."""
    return _benchmark(request, "curves_benchmark")


@pytest.fixture(scope="session")
def algorithms_benchmark(request: pytest.FixtureRequest) -> tuple[Path, str]:
    """The result file of the benchmark of algorithms, and what it printed."""
    return _benchmark(request, "algorithms_benchmark")


@pytest.fixture(scope="session")
def device_name(request: pytest.FixtureRequest) -> int | str:
    """What `vc.Device` takes for the device under test."""
    name: str = request.config.getoption("--device")
    if name.startswith("emulator") and os.environ.get("VYRE_CUDA_REQUIRE_GPU", "") not in ("", "0"):
        pytest.fail("VYRE_CUDA_REQUIRE_GPU is set, and --device=emulator")
    return int(name) if name.isdigit() else name


@pytest.fixture(scope="session")
def shared_device(device_name: int | str) -> Iterator[vc.Device]:
    """One device for the tests that only compute."""
    with vc.Device(device_name) as device:
        yield device


@pytest.fixture
def device(shared_device: vc.Device) -> vc.Device:
    """The device under test. A test that closes or loses it opens its own."""
    return shared_device


@pytest.fixture
def count_interpreter(request: pytest.FixtureRequest) -> conformance.Count:
    """Counts elements in which the interpreter was found equal to NumPy or exact arithmetic.

    Those of a run on the emulator: a run on a GPU records that alone.
    """
    if not _is_emulator(request.config):
        return lambda table, row, column, elements: None
    return _counter(request.config, "interpreter")


@pytest.fixture
def count_device(request: pytest.FixtureRequest) -> conformance.Count:
    """Counts elements in which the device under test was found equal to the interpreter."""
    return _counter(request.config, "emulator" if _is_emulator(request.config) else "cuda")


def _counter(config: pytest.Config, way: str) -> conformance.Count:
    return lambda table, row, column, elements: config.stash[_TALLY].add(way, table, row, column, elements)


@pytest.fixture
def own_device(device_name: int | str) -> Iterator[vc.Device]:
    """A device that the test may close."""
    device = vc.Device(device_name)
    yield device
    device.close()


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """Control of the emulator, reset afterwards."""
    with Emulator().steered() as control:
        yield control


class LeakCheck:
    """What the emulator holds more than when the test began."""

    def __init__(self, emulator: Emulator) -> None:
        gc.collect()
        vc.Device("emulator").close()  # what captured graphs of other tests held goes with the next open
        self._emulator = emulator
        self._before = emulator.live()

    def new(self) -> dict[str, int]:
        """Live objects by kind, beyond those of the beginning."""
        return {
            kind: count - self._before.get(kind, 0)
            for kind, count in self._emulator.live().items()
            if count != self._before.get(kind, 0)
        }


@pytest.fixture
def leak_check(emulator: Emulator) -> Iterator[LeakCheck]:
    """Every driver object that the test made is gone at its end."""
    check = LeakCheck(emulator)
    yield check
    emulator.reset()
    gc.collect()
    assert check.new() == {}
