"""What a process has loaded by its first result: held by names of modules, because times move with the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vyre_cuda.runtime.kernel.compiler_fingerprint import ROOMS, digest_of

pytestmark = pytest.mark.slow

# Prints the modules that are loaded after each step, beyond those that NumPy loads, and those of them that other
# threads import while a driver works.
STEPS = """
import _thread, json, sys
import numpy as np
before = set(sys.modules)
steps = {"ahead": []}
main = _thread.get_ident()

class Ahead:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if _thread.get_ident() != main:
            steps["ahead"].append(name)

sys.meta_path.insert(0, Ahead)

def step(name):
    steps[name] = sorted(set(sys.modules) - before)

import vyre_cuda as vc
step("import")
b = vc.Builder("first", block="auto" if sys.argv[2] == "auto" else 256)
x = b.input("x", vc.f32)
out = b.output("out", vc.f32, size=x.size)
i = b.let("i", vc.global_id.x)
with b.if_(i < out.size):
    out[i] = x[i] * 2.0
program = b.build()
step("program")
name = sys.argv[1]
device = vc.Device(int(name) if name.isdigit() else name)
step("device")
kernel = device.compile(program)
step("kernel")
values = np.arange(1000, dtype=np.float32)
assert (kernel(values) == 2 * values).all()
step("result")
steps["compiles"] = device.stats().compiles
device.close()
print(json.dumps(steps))
"""

# Rooms that a start with a warm cache never enters.
UNUSED_ROOMS = ("functions", "passes", "interp", "cli", "testing")
# Of the others, what is for texts, errors and calls that are not plain.
UNUSED = (
    "ir.builder.functions", "ir.builder.reblock", "ir.call.call",
    "ir.check.uniformity", "ir.semantics.elementwise", "ir.text.literals", "ir.read.parse", "ir.text.text",
    "ir.wire.wire_read",
    "codegen.lower", "codegen.forms.isel", "codegen.core.target",
    "runtime.base.jit_cache", "runtime.graph", "runtime.graph.graph", "runtime.kernel.arguments",
    "runtime.kernel.loaded_kernel", "runtime.kernel.lowering", "runtime.kernel.races", "runtime.kernel.unwritten",
    "runtime.kernel.recorded_call",
    "runtime.memory.interop", "runtime.memory.transfers",
)  # fmt: skip
# Of the standard library and others; each costs a millisecond or more.
HEAVY = (
    "argparse", "asyncio", "ctypes", "dataclasses", "decimal", "fractions", "hashlib", "hypothesis",
    "importlib.metadata", "json", "ml_dtypes", "numpy.ma", "numpy.testing", "numpy.typing", "pathlib",
    "subprocess", "tempfile", "urllib",
)  # fmt: skip
# Of the lowering, what only some programs need.
SELDOM = (
    *(f"codegen.lowering.{name}" for name in ("division", "floor_division", "narrow_atomics", "powers", "steps")),
    *(f"codegen.lowering.{name}" for name in ("atomics", "casts", "floats", "halves", "isel_local")),
    *(f"codegen.lowering.{name}" for name in ("prints", "report", "warp")),
    "codegen.emit.verify",
    "ir.core.printing",
    "ir.semantics.elementwise",
)
# What only launches of many threads need.
LARGE = (
    "codegen.several",
    "passes.elements",
    "passes.eligible",
    *(f"runtime.kernel.large_{n}" for n in ("entry", "lowering")),
)
# What other threads need: those that import beside a driver, and those that complete awaited calls.
OF_THREADS = ("threading", "vyre_cuda.runtime.waiting.awaiting", "vyre_cuda.runtime.waiting.pending")
# Modules of a start with a warm cache, and the folders that they are in, each an empty module of its own: about a
# tenth of a millisecond. More are no mistake; they are a decision.
MOST_MODULES = 71
MOST_FOLDERS = 22
ON_A_GPU = "runtime.kernel.preloading"  # one more


def run(device_name: int | str, cache: Path, block: str, *, ahead: bool) -> dict[str, list[str]]:
    """The modules that are loaded after each step; without `ahead`, those that the step itself imports."""
    environment = {**os.environ, "VYRE_CUDA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", STEPS, str(device_name), block]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps: dict[str, Any] = json.loads(done.stdout)
    beside = set(steps.pop("ahead"))
    compiles = steps.pop("compiles")
    if not ahead:
        steps = {step: [name for name in names if name not in beside] for step, names in steps.items()}
    return {**steps, "compiles": compiles}


@pytest.fixture(scope="module")
def cold_and_warm(device_name: int | str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """The steps of the first process of a machine, and of the second."""
    cache = tmp_path_factory.mktemp("cold")
    return [run(device_name, cache, "256", ahead=True), run(device_name, cache, "256", ahead=False)]


@pytest.fixture(scope="module")
def cold_and_warm_with_chosen_block(
    device_name: int | str, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, list[str]]]:
    """The same of a program whose block the device chooses."""
    cache = tmp_path_factory.mktemp("chosen")
    return [run(device_name, cache, "auto", ahead=True), run(device_name, cache, "auto", ahead=False)]


GENERATOR = """
import json, sys
import vyre_cuda.runtime.kernel.lowering, vyre_cuda.descriptors.stored
from vyre_cuda import Builder, f32, sin
b = Builder("all")
x = b.inout("x", f32)
x[0] = sin(x[0])
vyre_cuda.ptx(b.build())
print(json.dumps(sorted(sys.modules)))
"""
# Rooms and modules that change nothing of what is stored.
NEUTRAL = {"_native", "cache", "errors", "later", "locations", "record_templates", "records", "runtime"}


def test_the_digest_of_the_generator_covers_every_room_that_lowering_enters():
    done = subprocess.run([sys.executable, "-c", GENERATOR], capture_output=True, text=True, check=True)
    rooms = {name.partition(".")[0] for name in own(json.loads(done.stdout))}

    assert rooms - NEUTRAL == set(ROOMS)


@pytest.fixture
def copied_package(tmp_path):
    for room in ROOMS:
        (tmp_path / room / "inner" / "innermost").mkdir(parents=True)
        (tmp_path / room / "inner" / "innermost" / "rule.py").write_text("X = 1\n")
    return tmp_path


@pytest.mark.parametrize("room", ROOMS)
def test_the_digest_of_the_generator_covers_nested_modules(copied_package, room):
    before = digest_of(str(copied_package))
    (copied_package / room / "inner" / "innermost" / "rule.py").write_text("X = 2\n")

    assert digest_of(str(copied_package)) != before


def test_the_digest_of_the_generator_leaves_out_what_python_cached(copied_package):
    before = digest_of(str(copied_package))
    (copied_package / ROOMS[0] / "__pycache__").mkdir()
    (copied_package / ROOMS[0] / "__pycache__" / "rule.cpython-312.pyc").write_bytes(b"cached")

    assert digest_of(str(copied_package)) == before


def own(modules: list[str]) -> list[str]:
    return [name.removeprefix("vyre_cuda.") for name in modules if name.startswith("vyre_cuda.")]


@pytest.mark.thin
def test_importing_loads_no_module_of_the_package(cold_and_warm):
    assert own(cold_and_warm[1]["import"]) == []


def test_a_program_is_built_without_device_and_lowering(cold_and_warm):
    rooms = {name.partition(".")[0] for name in own(cold_and_warm[1]["program"])}

    assert rooms <= {"ir", "errors", "records", "record_templates", "later"}


def test_a_first_compilation_loads_passes_and_lowering(cold_and_warm):
    assert cold_and_warm[0]["compiles"] == 1
    assert {"passes.pipeline", "codegen.lower"} <= set(own(cold_and_warm[0]["kernel"]))


def test_a_first_compilation_loads_nothing_that_only_other_programs_need(cold_and_warm):
    names = own(cold_and_warm[0]["kernel"])

    assert [name for name in names if name.partition(".")[0] == "functions" or name in SELDOM] == []


def test_a_first_result_does_not_wait_for_the_form_for_large_launches(cold_and_warm):
    assert [name for name in own(cold_and_warm[0]["result"]) if name in LARGE] == []


TEXT = """
import json, sys
import vyre_cuda as vc
b = vc.Builder("saxpy")
x, y, a = b.input("x", vc.f32), b.input("y", vc.f32), b.scalar("a", vc.f32)
out = b.output("out", vc.f32, size=x.size)
i = vc.global_id.x
with b.if_(i < out.size):
    out[i] = a * x[i] + y[i]
vc.ptx(b.build())
print(json.dumps(sorted(sys.modules)))
"""
# Of the lowering, what programs with arithmetic on integers, constants, variables, loops, or a second form for large
# launches need, and what other precisions do.
UNNEEDED = (
    "codegen.emit.coalesce",
    *(f"codegen.lowering.{name}" for name in ("integers", "invariants", "loops")),
    "codegen.several",
    *(f"codegen.ssa.{name}" for name in ("contraction", "conversions", "truths")),
    *(f"codegen.terms.{name}" for name in ("conditions", "constants", "costs", "known", "linear")),
    *(f"codegen.terms.{name}" for name in ("matching", "patterns", "rules")),
)
# Modules of the package beyond those that a program takes, with the folders that they are in: a decision, too.
MOST_OF_LOWERING = 38


def test_the_text_of_an_elementwise_program_needs_no_module_that_only_others_need():
    done = subprocess.run([sys.executable, "-c", TEXT], capture_output=True, text=True, check=True)
    names = own(json.loads(done.stdout))

    assert "codegen.lower" in names
    assert [name for name in names if name in (*SELDOM, *UNNEEDED)] == []
    assert sum(name.startswith(("codegen", "ir.affine")) for name in names) <= MOST_OF_LOWERING


FUNCTION = """
import sys
import numpy as np
before = set(sys.modules)
import vyre_cuda as vc

@vc.kernel
def twice(x: vc.InOut[vc.f32]):
    x[vc.global_id.x] *= 2

twice.program()
print(json.dumps(sorted(set(sys.modules) - before)))
"""

# What errors, and functions that return values, need.
UNNEEDED_BY_FUNCTIONS = ("copy", "difflib", "sysconfig", "vyre_cuda.frontend.rewriting.returns")


def test_a_kernel_function_loads_nothing_heavy(tmp_path):
    file = tmp_path / "twice.py"
    file.write_text("import json" + FUNCTION)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)

    assert "vyre_cuda.frontend.captures" in loaded
    assert [name for name in loaded if name in (*HEAVY, *UNNEEDED_BY_FUNCTIONS)] == []


def test_a_later_process_loads_neither_passes_nor_lowering(cold_and_warm):
    names = own(cold_and_warm[1]["result"])

    assert cold_and_warm[1]["compiles"] == 0
    assert [name for name in names if name.partition(".")[0] in UNUSED_ROOMS or name in UNUSED] == []


@pytest.mark.thin
def test_a_later_process_chooses_no_block_and_so_lowers_nothing(cold_and_warm_with_chosen_block):
    first, later = cold_and_warm_with_chosen_block
    names = own(later["result"])

    assert first["compiles"] == 1
    assert {"passes.pipeline", "codegen.lower"} <= set(own(first["kernel"]))
    assert later["compiles"] == 0
    # The block of a GPU is not the program's, and is given to it.
    unused = [name for name in UNUSED if name != "ir.builder.reblock"]
    assert [name for name in names if name.partition(".")[0] in UNUSED_ROOMS or name in unused] == []


def test_a_later_process_loads_nothing_heavy(cold_and_warm):
    loaded = cold_and_warm[1]["result"]

    assert [name for name in loaded if name in HEAVY] == []


def test_a_program_is_built_without_a_module_that_threads_need(cold_and_warm):
    assert [name for name in cold_and_warm[1]["program"] if name in OF_THREADS] == []


@pytest.mark.emulator
def test_a_result_needs_no_module_that_only_other_threads_need(cold_and_warm):
    assert [name for name in cold_and_warm[1]["result"] if name in OF_THREADS] == []


def test_nothing_is_loaded_by_compiling_or_by_the_first_call(cold_and_warm):
    warm = cold_and_warm[1]

    assert warm["device"] == warm["kernel"] == warm["result"]


def test_the_modules_of_a_start_are_few(cold_and_warm):
    names = set(own(cold_and_warm[1]["result"]))

    assert len(names - folders(names) - {ON_A_GPU}) <= MOST_MODULES, sorted(names)


def test_the_folders_of_a_start_are_few(cold_and_warm):
    assert len(folders(set(own(cold_and_warm[1]["result"])))) <= MOST_FOLDERS


def folders(names: set[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in names} & names
