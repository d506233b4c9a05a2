"""The native test programs, built against the installed libraries and run on the emulator.

The same programs run under the sanitizers by `cmake --preset asan` and `tsan` (CONTRIBUTING.md).
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import nvidia
import pytest

import vyre_cuda as vc

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARIES = Path(vc.get_library_dir())
EMULATOR = LIBRARIES / "libvyre_cuda_emulator.so"
# Linked with the library's sources, whose allocations are counted.
COUNTED = ("test_host_memory", "test_meeting")
EXTRA_SOURCES = {
    "test_ptx_machine": sorted((ROOT / "csrc" / "emulator").glob("ptx_*.cpp")),
    **{key: [HERE / "host_faults.c", *sorted((ROOT / "csrc").glob("*.c"))] for key in COUNTED},
}
EXTRA_LINK = {key: [f"-Wl,@{HERE / 'host_faults.ld'}"] for key in COUNTED}
# These have a driver that stops in a call: the emulator behind `stops.c`.
STOPPED = frozenset({"test_marks", "test_together"})
PROGRAMS = sorted(path for path in HERE.glob("test_*") if path.suffix in (".c", ".cpp"))


def cuda_include() -> Path:
    """The directory of cuda.h: a toolkit's, else the wheel's."""
    places = [Path("/usr/local/cuda/include"), *(d for p in nvidia.__path__ for d in sorted(Path(p).glob("*/include")))]
    return next(place for place in places if (place / "cuda.h").exists())


def build(source: Path, program: Path) -> None:
    """Compile one program and link it to the installed library."""
    compiler = ["cc", "-std=c11"] if source.suffix == ".c" else ["c++", "-std=c++17"]
    includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}", f"-isystem{cuda_include()}"]
    link = [f"-L{LIBRARIES}", "-lvyre_cuda", f"-Wl,-rpath,{LIBRARIES}", "-lpthread", "-ldl"]
    sources = [str(path) for path in (source, *EXTRA_SOURCES.get(source.stem, []))]
    link += EXTRA_LINK.get(source.stem, [])
    flags = ["-O1", "-ffp-contract=off", *includes]
    subprocess.run([*compiler, *flags, *sources, "-o", str(program), *link], check=True)


def stopping_driver(folder: Path) -> str:
    """Compile `stops.c` as a driver library."""
    library = folder / "libstops.so"
    flags = ["-std=gnu11", "-O1", "-fPIC", "-shared", f"-isystem{cuda_include()}"]
    subprocess.run(["cc", *flags, str(HERE / "stops.c"), "-o", str(library), "-ldl", "-lpthread"], check=True)
    return str(library)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # compiling the PTX machine takes minutes on a busy core
@pytest.mark.emulator
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_native_program_passes(tmp_path: Path, source: Path) -> None:
    program = tmp_path / source.stem
    build(source, program)

    words = [stopping_driver(tmp_path)] if source.stem in STOPPED else []
    command = [str(program), str(EMULATOR), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.emulator
@pytest.mark.valgrind
def test_finishing_a_graph_takes_about_as_long_for_each_launch_however_many_there_are(tmp_path: Path) -> None:
    """Instructions within vyc_graph_finish, of outputs at descending addresses."""
    program = tmp_path / "growth"
    build(HERE / "growth.c", program)
    tool = ["valgrind", "--tool=callgrind", "--toggle-collect=vyc_graph_finish", "--callgrind-out-file=/dev/null"]
    used: dict[int, int] = {}
    for count in (500, 4000):
        environment = {**os.environ, "GROWTH_COUNT": str(count)}
        command = [*tool, str(program), str(EMULATOR)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        used[count] = int(done.stderr.split("Collected : ")[1].split()[0])

    assert used[500] > 500 * 100
    assert used[4000] / 4000 < 2 * used[500] / 500


@pytest.mark.emulator
def test_room_for_arguments_is_made_once_however_many_threads_meet(tmp_path: Path) -> None:
    program = tmp_path / "spares"
    includes = [f"-I{ROOT / 'src' / 'vyre_cuda' / '_native'}", f"-I{sysconfig.get_path('include')}"]
    source = HERE / "spares.c"
    subprocess.run(["cc", "-std=c11", "-O1", *includes, str(source), "-o", str(program), "-lpthread"], check=True)

    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=200, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def on_device(
    source: Path, program: Path, device_name: int | str, *words: str, bundle: Path = HERE / "example.vyre"
) -> str:
    """What a program prints that runs on the emulator or on a GPU: `DRIVER BUNDLE` and more words."""
    build(source, program)
    driver = str(EMULATOR) if device_name == "emulator" else os.environ.get("VYRE_CUDA_DRIVER", "libcuda.so.1")
    command = [str(program), driver, str(bundle), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("context", ["primary", pytest.param("created", marks=pytest.mark.cuda)])
def test_a_host_keeps_its_context_stream_and_memory(tmp_path: Path, device_name: int | str, context: str) -> None:
    """On a GPU: `python -m pytest tests/native -k host_keeps --device=cuda`. The emulator has no cuCtxCreate."""
    printed = on_device(HERE / "hosted.c", tmp_path / "hosted", device_name, context)

    assert printed.endswith(" 0 failed\n")


@pytest.mark.slow
@pytest.mark.device
@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(400)])])
def test_a_host_that_never_stops_keeps_its_memory_flat(tmp_path: Path, device_name: int | str, seconds: int) -> None:
    """On a GPU: `python -m pytest tests/native -k never_stops --device=cuda --long`."""
    printed = on_device(HERE / "soak.c", tmp_path / "soak", device_name, str(seconds))

    assert int(printed.split()[0]) >= 6


@pytest.mark.slow
@pytest.mark.device
def test_a_host_launches_a_graph_with_grid_barriers(tmp_path: Path, device: vc.Device, device_name: int | str) -> None:
    b = vc.Builder("turn", block=64)
    h = b.inout("h", vc.u32)
    i = b.let("i", vc.global_id.x)
    value = b.let("value", h[(i + 1) % h.size])
    b.grid_barrier()
    h[i] = value + 1
    kernel = device.compile(b.build())
    array = device.array(np.arange(256, dtype=np.uint32))
    with device.record() as graph, graph.repeat(2):
        kernel.launch(vc.symbol("h", array))
    graph.export(tmp_path / "turns.vyre", "turns")

    on_device(HERE / "turns.c", tmp_path / "turns", device_name, bundle=tmp_path / "turns.vyre")
