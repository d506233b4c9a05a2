"""What a warm call does besides calling the driver: no allocation, lock, environment read or Python frame of ours, the
driver calls that the design has, and no more instructions than are recorded.

All on the emulator, whose own work is not counted. `python -m pytest tests/device/calls/test_budget.py --update-golden`
records budget.json anew after a wanted change.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import sysconfig
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.testing.compilers import c_compiler
from vyre_cuda.testing.emulator import Emulator

from .budget import profiles, warm

HERE = Path(__file__).parent / "budget"
RECORD = HERE / "budget.json"
STEPS = 200
# Enough where calls are counted, not instructions: what happens once is not a call's.
COUNTED = 50

# How far compilers may be from the one that the record was made with.
TOLERANCE = 0.15

OURS = ("libvyre_cuda", "extension")
FORBIDDEN = ("malloc", "calloc", "realloc", "free", "getenv", "secure_getenv", "pthread_mutex_lock", "PyObject_Hash")

# Seconds: callgrind needs minutes for all ways where other work runs too.
LIMIT = 1200

pytestmark = [pytest.mark.device, pytest.mark.emulator, pytest.mark.timeout(LIMIT)]


@pytest.fixture(scope="module")
def record() -> Mapping[str, Mapping[str, int]]:
    """What each way may use, of one call; a way without a record may use nothing."""
    content: dict[str, dict[str, int]] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    return {name: {**dict.fromkeys(("driver_calls", *OURS), 0), **content.get(name, {})} for name in warm.STEPS}


def build(folder: Path, name: str) -> Path:
    """A library of the budget folder."""
    path = folder / f"{name}.so"
    compiler = [*c_compiler(), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, str(HERE / f"{name}.c"), "-o", str(path), "-ldl", "-lpthread"], check=True)
    return path


def run(mode: str, library: Path, steps: int, *before: str, **environment: str) -> str:
    """The standard output of a process that makes the warm calls."""
    command = [*before, sys.executable, str(HERE / "warm.py"), mode, str(library), str(steps)]
    child = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=LIMIT - 60
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


# ---- the page of figures ---------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
ROWS_OF_THE_PAGE = {
    "bound call, nothing changed": "call_same",
    "bound call, all changed": "call_changed",
    "`k.launch`, all changed": "launch",
    "`dev.empty`, dropped": "empty",
    "`stream.record()`": "record",
    "`graph.replay()`, enqueued": "replay",
    "`k(x, y, a, out=r)`": "host_out",
}


def test_the_page_of_figures_says_what_is_recorded(record: Mapping[str, Mapping[str, int]]) -> None:
    table = PAGE.read_text(encoding="utf-8").partition("### Instructions of a warm call\n")[2].split("\n\n")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    expected = {row: f"{sum(record[way][of] for of in OURS):,}" for row, way in ROWS_OF_THE_PAGE.items()}

    assert {row[0]: row[-1] for row in rows} == expected


# ---- allocations, locks, environment ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Of each way, how often something was called in COUNTED steps."""
    library = build(tmp_path_factory.mktemp("counter"), "counter")
    found: dict[str, dict[str, int]] = json.loads(run("interposed", library, COUNTED, LD_PRELOAD=str(library)))
    return found


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("way", warm.STEPS)
def test_warm_call_makes_no_allocation_lock_or_environment_read_of_ours(
    way: str, counts: dict[str, dict[str, int]]
) -> None:
    allowed = {"python_block", "clock_gettime", *(["pthread_mutex_lock"] if way in warm.LOCKING else [])}
    of_ours = {kind: count for kind, count in counts[way].items() if kind not in allowed}

    assert of_ours == dict.fromkeys(of_ours, 0)


@pytest.mark.thin
@pytest.mark.slow
def test_counter_sees_what_is_not_warm(counts: dict[str, dict[str, int]]) -> None:
    for kind in ("calloc", "free", "pthread_mutex_lock", "python_block"):
        assert counts["cold"][kind] >= COUNTED


@pytest.mark.slow
def test_a_wait_with_nothing_to_wait_for_reads_no_clock(counts: dict[str, dict[str, int]]) -> None:
    assert [counts[way]["clock_gettime"] for way in ("synchronize", "synchronize_all")] == [0, 0]
    assert counts["cold"]["clock_gettime"] >= COUNTED


CALLS = [way for way in warm.STEPS if way != "empty"]


@pytest.mark.slow
@pytest.mark.parametrize("way", CALLS)
def test_warm_call_allocates_no_python_object_but_its_result(way: str, counts: dict[str, dict[str, int]]) -> None:
    array = counts["result"]["python_block"]
    makes_an_array = way.startswith(("host_new", "copy_new", "function"))
    results = array if makes_an_array else COUNTED if way.startswith("host_outs") else 0
    of_counting = 20

    assert results == 0 or results >= COUNTED
    assert counts[way]["python_block"] <= results + of_counting


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("way", warm.STEPS)
def test_warm_calls_keep_no_memory(way: str, ways: dict[str, warm.Way]) -> None:
    """Less than a byte a call stays, by tracemalloc; free lists are full before."""
    calls = 20 if way in warm.LARGE else 1000
    tracemalloc.start()
    try:
        warm.repeat(ways[way], calls)
        before, _ = tracemalloc.get_traced_memory()
        warm.repeat(ways[way], calls)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before < calls


# ---- Python frames and driver calls ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def eager() -> Iterator[Emulator]:
    """The emulator, which works inside of the enqueuing call."""
    with Emulator().steered() as control:
        control.stream_mode("eager")
        yield control


@pytest.fixture(scope="module")
def ways(eager: Emulator) -> Iterator[dict[str, warm.Way]]:
    """Every way, warm."""
    with vc.Device("emulator") as device:
        found = dict(warm.ways(device))
        for name, way in found.items():
            warm.repeat(way, warm.steps_of(name, warm.WARM_UP))
        yield found


@contextlib.contextmanager
def functions_called() -> Iterator[list[str]]:
    """The names of Python functions that this thread calls, but those of the ways and of this file."""
    names: list[str] = []
    others = (warm.__file__, __file__, contextlib.__file__)

    def seen(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename not in others:
            names.append(frame.f_code.co_name)

    with uncollected():
        sys.setprofile(seen)
        try:
            yield names
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("way", warm.STEPS)
def test_warm_call_runs_no_python_function(way: str, ways: dict[str, warm.Way]) -> None:
    with functions_called() as names:
        ways[way]()

    assert names == []


def test_an_awaited_call_runs_few_python_functions(eager: Emulator) -> None:
    x = np.ones(warm.ELEMENTS, np.float32)

    async def main() -> list[str]:
        await kernel.submit(x, x, 2.0)
        with functions_called() as names:
            await kernel.submit(x, x, 2.0)
        return names

    with vc.Device("emulator") as device:
        kernel = device.compile(warm.saxpy())
        assert asyncio.run(main()) == ["submit", "__init__", "__await__", "wait", "result"]


def test_profile_sees_a_python_function(ways: dict[str, warm.Way]) -> None:
    """The general path of a call runs Python, so frames would be seen."""
    seen: list[str] = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        with pytest.raises(TypeError):
            ways["call_same"](1, 2, 3)  # type: ignore[call-arg]
    finally:
        sys.setprofile(None)

    assert seen


def test_driver_calls_of_a_warm_call_are_those_recorded(
    ways: dict[str, warm.Way],
    eager: Emulator,
    record: Mapping[str, Mapping[str, int]],
    request: pytest.FixtureRequest,
) -> None:
    found = {}  # rounded: what is asked once in many calls is not a call's
    for name, way in ways.items():
        warm.repeat(way, 2)  # the ways share arrays, and a change of streams is ordered once
        steps = warm.steps_of(name, COUNTED)
        before = eager.count("calls")
        warm.repeat(way, steps)
        found[name] = round((eager.count("calls") - before) / (steps * warm.STEPS[name]))
    if request.config.getoption("--update-golden"):
        update({name: {"driver_calls": calls} for name, calls in found.items()})
        return

    assert found == {name: record[name]["driver_calls"] for name in warm.STEPS}


# ---- instructions ----------------------------------------------------------------------------------------------------


def part_of(path: str) -> str:
    """Which of OURS an object is, or "" for anybody else's."""
    name = Path(path).name
    if name.startswith("libvyre_cuda.so"):
        return "libvyre_cuda"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    extensions = {f"{path.name.partition('.')[0]}{suffix}" for path in native_folder().glob("*/*.pyi")}
    return "extension" if name in extensions and "numpy" not in path else ""


def native_folder() -> Path:
    return Path(vc.__file__).parent / "_native"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, profiles.Profile]:
    """What callgrind collected of each way."""
    folder = tmp_path_factory.mktemp("callgrind")
    library = build(folder, "control")
    out = folder / "out"
    words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    run("instrumented", library, STEPS, *words, PYTHONMALLOC="pymalloc")
    return {name: profiles.read(out.with_suffix(f".{number}")) for number, name in enumerate((*warm.STEPS, "cold"), 1)}


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.valgrind
def test_instructions_of_a_warm_call_are_within_the_record(
    profiled: dict[str, profiles.Profile], record: Mapping[str, Mapping[str, int]], request: pytest.FixtureRequest
) -> None:
    found: dict[str, dict[str, int]] = {}
    for name in warm.STEPS:
        profile = profiled[name]
        sums: Counter[str] = Counter()
        for (path, _), instructions in profile.instructions.items():
            sums[part_of(path)] += instructions
        calls = warm.steps_of(name, STEPS) * warm.STEPS[name]
        found[name] = {part: round(sums[part] / calls) for part in OURS}
    if request.config.getoption("--update-golden"):
        update(found)
        return
    over = {
        (name, part): (used, record[name][part])
        for name, parts in found.items()
        for part, used in parts.items()
        if not 0 < used <= record[name][part] * (1 + TOLERANCE)
    }

    assert over == {}, f"of one call, used and recorded: {over}"


@pytest.mark.parametrize("kind", ["launch_buffers", "launch_scalars", "call_buffers", "host_new", "host_outs"])
def test_an_argument_costs_the_same_however_many_there_are(kind: str, record: Mapping[str, Mapping[str, int]]) -> None:
    """By the record, which the measured instructions are held to."""
    sums = {count: sum(record[f"{kind}_{count}"][part] for part in OURS) for count in warm.COUNTS}
    each = [(sums[b] - sums[a]) / (b - a) for a, b in itertools.pairwise(warm.COUNTS)]

    assert max(each) <= 1.2 * each[-1]
    assert each[-1] <= 1.2 * min(each)


def test_a_call_of_a_function_costs_little_more_than_one_of_its_kernel(record: Mapping[str, Mapping[str, int]]) -> None:
    """By the record: 0.3 us, at 1.5 instructions a nanosecond."""
    of_the_kernel = sum(record["host_new"][part] for part in OURS)

    assert sum(record["function_new"][part] for part in OURS) - of_the_kernel <= 450
    assert sum(record["function_open"][part] for part in OURS) - of_the_kernel <= 450


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.valgrind
@pytest.mark.parametrize("way", warm.STEPS)
def test_what_a_warm_call_calls_neither_hashes_nor_allocates_nor_locks(
    way: str, profiled: dict[str, profiles.Profile]
) -> None:
    called = called_by_us(profiled[way])

    assert ("cuGraphLaunch" in called) == (way not in warm.WITHOUT_LAUNCH)
    assert called
    allowed = {"pthread_mutex_lock"} if way in warm.LOCKING else set()
    assert {name for name in called if name in FORBIDDEN or "hash" in name.lower()} <= allowed


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.valgrind
def test_what_is_not_warm_is_seen_to_allocate_and_lock(profiled: dict[str, profiles.Profile]) -> None:
    assert {"calloc", "free", "pthread_mutex_lock"} <= called_by_us(profiled["cold"])


def called_by_us(profile: profiles.Profile) -> set[str]:
    """Names without the versions that libraries add to them."""
    return {name.partition("@")[0] for path, name, _ in profile.calls if part_of(path)}


def update(found: Mapping[str, Mapping[str, int]]) -> None:
    """Write these numbers into the record."""
    old = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    merged = {name: {**old.get(name, {}), **found.get(name, {})} for name in warm.STEPS}
    RECORD.write_text(json.dumps(merged, indent=2) + "\n", encoding="utf-8")
