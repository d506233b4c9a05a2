"""Bundles: programs compiled into a file without a device, loaded and run from it as they would be compiled."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda._native.bundle.bundle import BundleFile
from vyre_cuda.bundles import workers as bundled_workers
from vyre_cuda.bundles.graphs import GraphKernel
from vyre_cuda.bundles.layout import FORMAT, sealed
from vyre_cuda.bundles.nvjitlink import find_nvjitlink
from vyre_cuda.bundles.write import compiled, packed, parse_targets
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit import resident
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors.signature import signature
from vyre_cuda.ir.call.geometry import host_size, launch_geometry
from vyre_cuda.passes.pipeline import optimize

from ..bundle_programs import (
    EXAMPLE,
    EXTENTS,
    TABLE,
    TARGETS,
    WORKER,
    add_to,
    checked,
    saxpy,
    write,
    write_extents,
    write_table,
    write_worker,
)
from ..programs import rotate_in_place

PROGRAMS = sorted((Path(__file__).parents[2] / "golden" / "programs").glob("*.vir"))


# ---- writing and reading ---------------------------------------------------------------------------------------------


def test_a_bundle_tells_what_is_in_it(bundle: vc.Bundle) -> None:
    assert list(bundle.kernels) == ["checked", "saxpy"]
    kernel = bundle.kernels["saxpy"]
    assert kernel.program == saxpy()
    assert kernel.fingerprint == saxpy().fingerprint
    assert kernel.targets == TARGETS
    assert (kernel.precision, kernel.bounds, kernel.cubins) == ("ieee", "check", ())
    assert ".target sm_80" in bundle.ptx("saxpy", "sm_80")
    assert bundle.cubin("saxpy", "sm_80") == b""
    with pytest.raises(KeyError):
        bundle.ptx("saxpy", "sm_75")
    with pytest.raises(KeyError):
        bundle.ptx("nothing", "sm_80")


def test_the_producer_is_this_version(path: Path, bundle: vc.Bundle) -> None:
    major, minor, patch = map(int, vc.__version__.split(".")[:3])

    assert BundleFile(path.read_bytes()).info()["producer"] == major * 10000 + minor * 100 + patch


def test_a_bundle_is_pickled_with_its_code(bundle: vc.Bundle, device: vc.Device) -> None:
    again = pickle.loads(pickle.dumps(bundle))

    assert again.digest == bundle.digest
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(bundle.on(device)["saxpy"](x, x, 2), again.on(device)["saxpy"](x, x, 2))
    with pytest.raises(TypeError, match="send programs, bundles"):
        pickle.dumps(bundle.on(device))


def test_a_bundle_goes_to_where_a_link_leads(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest.vyre"
    link.symlink_to(path)

    vc.bundle([saxpy()], link, cubins=False)

    assert link.is_symlink()
    assert list(vc.load_bundle(path).kernels) == ["saxpy"]


def test_a_bundle_goes_into_a_pipe_and_leaves_it_one(path: Path, tmp_path: Path) -> None:
    vc.bundle([saxpy()], path, cubins=False)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    try:
        vc.bundle([saxpy()], pipe, cubins=False)
        got = os.read(reading, 1 << 20) if pipe.is_fifo() else b""
    finally:
        os.close(reading)

    assert got == path.read_bytes()


def test_equal_programs_give_equal_bytes_whatever_their_order(path: Path) -> None:
    vc.bundle([saxpy(), checked()], path, targets=TARGETS, cubins=False)
    first = path.read_bytes()

    vc.bundle([checked(), saxpy()], path, targets=TARGETS[::-1], cubins=False)

    kernels = vc.load_bundle(first).kernels, vc.load_bundle(path).kernels
    assert kernels[0] == kernels[1]


@pytest.mark.emulator
@pytest.mark.parametrize(
    "make, golden",
    [(write, EXAMPLE), (write_extents, EXTENTS), (write_worker, WORKER), (write_table, TABLE)],
    ids=["example", "extents", "worker", "table"],
)
def test_the_bundles_of_native_tests_are_written_as_they_were(
    path: Path, make: Callable[[Path], None], golden: Path, request: pytest.FixtureRequest
) -> None:
    make(path)
    if request.config.getoption("--update-golden"):
        golden.write_bytes(path.read_bytes())

    assert path.read_bytes() == golden.read_bytes()


def test_a_worker_is_no_kernel_to_be_launched(path: Path, device: vc.Device) -> None:
    write_worker(path)
    bundle = vc.load_bundle(path)

    assert [name for name, kernel in bundle.kernels.items() if kernel.is_worker] == ["adding"]
    with pytest.raises(vc.UnsupportedError, match=r"worker\('adding'\) gives it"):
        bundle.on(device)["adding"]
    assert sorted(bundle.on(device)) == ["add_to", "saxpy"]


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("source", [False, True])
def test_a_worker_of_a_bundle_computes_what_its_kernels_do(
    path: Path, device: vc.Device, blocks: int, source: bool
) -> None:
    workers = {"adding": ["add_to", "saxpy"]}
    vc.bundle([saxpy(), add_to()], path, targets=TARGETS, source=source, cubins=False, workers=workers)
    loaded = vc.load_bundle(path).on(device)
    x, h = np.arange(100, dtype=np.float32), np.arange(100, dtype=np.int32)
    dx, dout = device.array(x), device.zeros(100, vc.f32)

    with loaded.worker("adding", blocks=blocks, idle=0.2) as worker:
        assert worker.kernels == (loaded["add_to"], loaded["saxpy"])
        for a in range(3):
            np.testing.assert_array_equal(loaded["saxpy"](x, x, float(a)), worker.call(loaded["saxpy"], x, x, float(a)))
            worker.call(loaded["saxpy"], dx, dx, dout, float(a))
            np.testing.assert_array_equal(np.float32(a + 1) * x, dout.numpy())
            np.testing.assert_array_equal(2 * h, worker.submit(loaded["add_to"], h, h).result())
    with pytest.raises(KeyError, match="the bundle has no worker 'saxpy'; it has adding"):
        loaded.worker("saxpy")
    with pytest.raises(ValueError, match="blocks"):
        loaded.worker("adding", blocks=0)


@pytest.mark.emulator
def test_workers_that_read_other_slots_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (resident, bundled_workers):
        monkeypatch.setattr(module, "ENTRY", "vyre_worker")
    write_worker(path)
    monkeypatch.undo()
    with (
        vc.Device("emulator") as device,
        pytest.raises(vc.UnsupportedError, match="worker adding was written by another version"),
    ):
        vc.load_bundle(path).on(device).worker("adding")

    library = ctypes.CDLL(str(next(Path(vc.get_library_dir()).glob("libvyre_cuda.so.*"))))
    library.vyc_last_message.restype = ctypes.c_char_p
    driver, context, bundle, worker = (ctypes.c_void_p() for _ in range(4))
    kernels = (ctypes.c_void_p * 2)()
    desc = (ctypes.c_uint64 * 6)(48, 0, 0, 10**9, 0, 1)  # struct_size; idle_ns; first
    emulator = f"{vc.get_library_dir()}/libvyre_cuda_emulator.so".encode()
    assert library.vyc_driver_open(ctypes.byref(driver), emulator) == 0
    assert library.vyc_context_open(ctypes.byref(context), driver, 0) == 0
    assert library.vyc_bundle_open(ctypes.byref(bundle), str(path).encode(), None, ctypes.c_size_t(0)) == 0
    status = library.vyc_bundled_worker_load(ctypes.byref(worker), kernels, 2, context, bundle, b"adding", desc)
    assert status != 0
    assert b"write the bundle again" in library.vyc_last_message()
    assert not worker.value
    assert not any(kernels)
    library.vyc_bundle_release(bundle)
    assert library.vyc_context_close(context) == 0
    library.vyc_context_release(context)
    library.vyc_driver_release(driver)


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({"saxpy": ["add_to"]}, "has a kernel saxpy"),
        ({"w": []}, "at least one kernel"),
        ({"w": ["add_to", "other"]}, "no kernel other"),
        ({"w": ["add_to", "add_to"]}, "once"),
    ],
)
def test_workers_of_kernels_that_are_not_there(path: Path, workers: dict[str, list[str]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        vc.bundle([add_to(), saxpy()], path, targets=TARGETS, cubins=False, workers=workers)


@pytest.mark.parametrize("workers", [["saxpy"], {"w": "saxpy"}, {3: ["saxpy"]}, {"w": [3]}, {"w": 3}])
def test_workers_that_are_not_named(path: Path, workers: Any) -> None:
    with pytest.raises(TypeError, match=r"workers= (is|has) .*; it must be a "):
        vc.bundle([add_to(), saxpy()], path, targets=TARGETS, cubins=False, workers=workers)


def test_a_worker_of_a_kernel_that_it_cannot_run(path: Path) -> None:
    with pytest.raises(vc.UnsupportedError, match="assertions"):
        vc.bundle([checked()], path, targets=TARGETS, cubins=False, workers={"w": ["checked"]})


def test_a_bundle_without_source_keeps_the_signature(path: Path) -> None:
    vc.bundle(saxpy(), path, targets=["sm_90"], source=False, cubins=False)

    kernel = vc.load_bundle(path).kernels["saxpy"]
    assert not kernel.has_source
    assert kernel.program.parameters == saxpy().parameters
    assert kernel.program.body == ()
    assert kernel.fingerprint == saxpy().fingerprint


def test_machine_code_goes_along_where_an_assembler_is(path: Path) -> None:
    vc.bundle(saxpy(), path, targets=["sm_80", "sm_90"], cubins=True)

    bundle = vc.load_bundle(path)
    assert bundle.kernels["saxpy"].cubins == ("sm_80", "sm_90")
    assert bundle.cubin("saxpy", "sm_90").startswith(b"\x7fELF")
    data = path.read_bytes()
    with pytest.raises(vc.BundleError):
        vc.load_bundle(sealed(data.replace(b"\x7fELF", b"\x7fELG")))


@pytest.mark.nvjitlink
def test_nvjitlink_gives_machine_code_and_says_what_it_refuses() -> None:
    linker = find_nvjitlink()
    assert linker is not None

    assert linker.cubin(vc.ptx(saxpy(), "sm_90"), Target.parse("sm_90")).startswith(b"\x7fELF")
    with pytest.raises(vc.CompileError) as failure:
        linker.cubin("nothing", Target.parse("sm_90"))
    assert failure.value.op == "nvJitLinkComplete"
    assert failure.value.log


@pytest.mark.thin
@pytest.mark.device
@pytest.mark.parametrize("text", PROGRAMS, ids=lambda path: path.stem)
def test_a_bundled_kernel_is_the_compiled_one(path: Path, text: Path, device: vc.Device) -> None:
    program = vc.parse(text.read_text())
    compiled = device.compile(program)
    vc.bundle(program, path, targets=[str(device.target)], cubins=False, source=False)

    kernel = vc.load_bundle(path).on(device)[program.name]

    assert compiled.ptx.startswith(kernel.ptx)  # the form for large launches follows
    if device.properties.is_emulator:  # a driver's linker takes other registers than its compiler of text
        assert kernel.attributes == compiled.attributes
        assert (kernel.occupancy, kernel.limits()) == (compiled.occupancy, compiled.limits())
    row = BundleFile(path.read_bytes()).variant(0, 0)
    tables = signature(program, lower(optimize(program), device.target))
    assert (tuple(row["entries"]), tuple(row["bindings"])) == (tables.parameters, tables.bindings)
    assert [site.message for site in kernel.checks.sites] == [site.message for site in compiled.checks.sites]


@pytest.mark.device
def test_a_cooperative_kernel_of_a_bundle_is_launched_as_one(path: Path, device: vc.Device) -> None:
    x = np.arange(300, dtype=np.float32)
    vc.bundle(rotate_in_place(), path, targets=["sm_80"], cubins=False)

    kernel = vc.load_bundle(path).on(device)["rotate_in_place"]

    np.testing.assert_array_equal(kernel(x), np.roll(x, -1))


def test_what_a_bundle_cannot_hold_is_refused_and_writes_nothing(path: Path) -> None:
    path.write_bytes(b"before")
    b = vc.Builder("floats")
    a = b.scalar("a", vc.f32)
    b.output("out", vc.f32, size=vc.u32(a * 2))
    wrong = [
        (vc.UnsupportedError, [b.build()], {}),
        (ValueError, [saxpy(), saxpy()], {}),
        (ValueError, [], {}),
        (ValueError, [saxpy()], {"targets": []}),
        (ValueError, [saxpy()], {"targets": ["90"]}),
        (vc.UnsupportedError, [saxpy()], {"targets": ["sm_10"]}),
        (TypeError, [saxpy()], {"targets": "sm_90"}),
        (ValueError, [saxpy()], {"precision": "none"}),
        (TypeError, ["saxpy"], {}),
    ]
    for error, programs, options in wrong:
        with pytest.raises(error):
            vc.bundle(programs, path, **{"cubins": False, **options})
    with pytest.raises(OSError):
        vc.bundle(saxpy(), path.parent / "nowhere" / "a.vyre", cubins=False)
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_no_bundle_is_refused(path: Path, bundle: vc.Bundle) -> None:
    data = path.read_bytes()
    with pytest.raises(vc.BundleError):
        vc.load_bundle(b"")
    with pytest.raises(vc.BundleError):
        vc.load_bundle(data[:-1])
    with pytest.raises(vc.BundleError):
        vc.load_bundle(data + b"\0")
    with pytest.raises(FileNotFoundError):
        vc.load_bundle(path.parent / "nothing.vyre")
    assert vc.load_bundle(memoryview(data)).digest == bundle.digest


def test_a_newer_format_is_refused_by_its_own_error(path: Path, bundle: vc.Bundle) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, FORMAT + 1)

    with pytest.raises(vc.BundleVersionError):
        vc.load_bundle(sealed(bytes(data)))


def test_a_program_that_is_not_the_one_of_the_tables_is_refused(path: Path) -> None:
    vc.bundle(saxpy(), path, targets=["sm_90"], cubins=False)
    data = path.read_bytes()
    wire = saxpy().to_bytes()
    assert data.count(wire) == 1

    for changed in (wire.replace(b"saxpy", b"saxpz"), wire[:-1] + bytes([wire[-1] ^ 1])):
        with pytest.raises(vc.BundleError):
            vc.load_bundle(sealed(data.replace(wire, changed)))


@given(st.data())
def test_a_bundle_changed_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    """The digest is made anew, so that what the digest would catch reaches the checks behind it."""
    changed = bytearray(EXAMPLE.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) // 4 - 1)) * 4
        value = data.draw(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 200)))
        struct.pack_into("<I", changed, place, value)
    with contextlib.suppress(vc.BundleError):
        vc.load_bundle(sealed(bytes(changed)))


# ---- sizes and grids -------------------------------------------------------------------------------------------------


@given(st.data())
def test_sizes_and_grids_are_those_of_the_general_path(data: st.DataObject) -> None:
    """The C evaluator agrees with the interpreter's on random expressions over sizes and scalars."""
    index = data.draw(st.sampled_from([vc.u32, vc.u64]))
    b = vc.Builder("shaped", block=data.draw(st.sampled_from([(32, 1, 1), (8, 4, 1), (4, 4, 4)])), index=index)
    x = b.input("x", vc.f32)
    leaves = [x.size, index(data.draw(st.integers(0, 2**32 - 1))), index(3)]
    for name in ("n", "m"):
        type_ = data.draw(st.sampled_from([vc.u8, vc.i8, vc.u16, vc.i16, vc.u32, vc.i32, vc.u64, vc.i64]))
        leaves.append(index(b.scalar(name, type_)))
    ops = [vc.add, vc.subtract, vc.multiply, vc.floor_divide, vc.minimum, vc.maximum]

    def expression(depth: int) -> vc.Value:
        if depth == 0 or data.draw(st.booleans()):
            return data.draw(st.sampled_from(leaves))
        op = data.draw(st.sampled_from(ops))
        left, right = expression(depth - 1), expression(depth - 1)
        if data.draw(st.booleans()):
            signed = data.draw(st.sampled_from([vc.i8, vc.i16, vc.i32, vc.i64]))
            return index(op(signed(left), signed(right)))
        return op(left, right)

    b.output("out", vc.u8, size=expression(3))
    b.work(*(expression(2) for _ in range(3)))
    program = b.build()
    scalars = [data.draw(st.integers(0, 2**p.type.bits - 1)) for p in program.parameters if p.kind == "scalar"]
    count = data.draw(st.integers(0, 2**20))
    kernel = compiled(GraphKernel(program, "ieee", "off", None), parse_targets(["sm_90"]), source=True, cubins=False)
    file = BundleFile(packed([kernel], {}))
    sizes: dict[str, int] = {"x": count}
    try:
        sizes["out"] = host_size("out", program.parameters[-1].size, sizes, dict(zip("nm", scalars, strict=True)))
        if sizes["out"] > index.maximum:
            raise ValueError
        grid = launch_geometry(program, sizes, dict(zip("nm", scalars, strict=True))).grid
    except ValueError:
        with pytest.raises(ValueError):
            file.shape(0, [count, 0], scalars)
        return

    assert file.shape(0, [count, 0], scalars) == ([count, sizes["out"]], grid if 0 not in grid else (0, 0, 0))
