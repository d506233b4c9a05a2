"""What a typed user writes. Checked by mypy in strict mode, never run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import vyre_cuda as vc


def build() -> vc.Program:
    b = vc.Builder("typed", block=(16, 16))
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    acc = b.var("acc", vc.f32(0))
    with b.for_(0, 4) as j:
        acc.set(acc + vc.f32(j))
    with b.if_(i < out.size):
        out[i] = vc.where(x[i] > 0, a * x[i], vc.sqrt(vc.absolute(x[i]))) + acc + vc.sin(x[i]) ** 2
    b.work(x.size, 1)
    return b.build()


def use(device: vc.Device, program: vc.Program, x: npt.NDArray[np.float32]) -> None:
    kernel: vc.Kernel = device.compile(program, precision="ieee", bounds="check", max_ulp=2, specialize={"a": 2.0})
    array: vc.DeviceArray = device.array(x)
    out: vc.DeviceArray = device.empty(len(x), vc.f32)
    kernel.launch(array, out, 2.0)
    call = kernel.bind(array, out, 2.0)
    call()
    call.set(a=3.0)
    pending: vc.Pending = kernel.submit(x, 2.0)
    finished: bool = pending.done()
    result: Any = pending.result(timeout=1.0)
    device.synchronize(timeout=1.0)
    device.stream().synchronize(timeout=None)
    device.stream().record().synchronize(1)
    device.close(timeout=1.0)
    nanoseconds: int = kernel.timed(x, 2.0).device_ns
    registers: int = kernel.attributes.registers
    host: npt.NDArray[Any] = out[1:3].numpy()
    page_locked: npt.NDArray[Any] = device.pinned_empty(16, vc.f32)
    device.set_memory_budget(device_bytes=1 << 20)
    device.trim()
    device.upload([(array, x), (array, 2, x[:3])])
    parts: list[npt.NDArray[Any]] = device.download([(array, 0, 2)])
    print(parts[0], array.numpy(out=page_locked))
    page_locked[:] = device.register(x)[:16]
    with device.record() as graph:
        with graph.repeat(3, until=device.zeros(1, vc.u32)):
            kernel.launch(array, out, vc.symbol("a", 2.0))
        out.fill(vc.symbol("v", 1.0))
        out.copy_from(vc.symbol("source", array))
        graph.download(out, page_locked)
    graph.replay(stream=device.stream(), a=3.0)
    nanoseconds += graph.timed(a=3.0).device_ns
    graph.update(v=2.0)
    picture: str = graph.dot() + " ".join(graph.symbols)
    recorded: vc.RecordedCall = kernel.record(x, 2.0, skip_identical=True)
    again: Any = recorded.replay(x, a=3.0, out=None)
    print(picture, again, len(graph), graph.node_count, recorded.skipped)
    shared: vc.DeviceArray = vc.from_dlpack(out, device=device)
    loaded: vc.ForeignKernel = device.load(b"", "name", signature="ptr f32")
    loaded.launch(shared, 2.0, grid=(1, 2), block=128, shared_bytes=64, cooperative=False, stream=device.stream())
    bound: vc.BoundForeignCall = loaded.bind(shared, 2.0, grid=1, block=128, stream=2)
    bound(shared, 3.0)
    words: list[str] = [parameter.word for parameter in loaded.parameters]
    print(loaded.confirmed, words, np.from_dlpack(shared), device.stream().__cuda_stream__())
    live: int = device.memory_stats().live_bytes
    driver_cache: vc.JitCache = vc.configure_jit_cache("/var/cache", max_bytes=1 << 30, force=False)
    set_here: str = driver_cache.variables.get("CUDA_CACHE_PATH", driver_cache.directory)
    capability: tuple[int, int] = device.properties.compute_capability
    text: str = vc.ptx(program, target="sm_90", max_ulp=2.5) + program.text() + program.fingerprint
    same: bool = vc.parse(text) == vc.Program.from_bytes(program.to_bytes())
    expected: Any = vc.evaluate(program, x, 2.0)
    names: list[str] = [info.name for info in vc.devices()]
    print(finished, result, nanoseconds, registers, host, live, capability, same, expected, names, set_here)


def bundles(program: vc.Program, device: vc.Device, graph: vc.Graph, x: Any) -> str:
    vc.bundle([program], "out.vyre", graphs={"step": graph}, targets=["sm_90"], source=False, cubins=None)
    device.compile(program).export("out.vyre", targets=["sm_80", "sm_90"], cubins=False)
    graph.export("out.vyre", "step")
    bundle: vc.Bundle = vc.load_bundle("out.vyre")
    kernel: vc.BundledKernel = bundle.kernels["saxpy"]
    symbols: dict[str, vc.BundledSymbol] = dict(bundle.graphs["step"].symbols)
    loaded: vc.LoadedBundle = bundle.on(device)
    called: Any = loaded["saxpy"](x, 2.0)
    again: vc.Graph = loaded.graph("step")
    machine: bytes = bundle.cubin("saxpy", "sm_90")
    return f"{kernel.targets} {symbols} {called} {again} {machine!r} {bundle.ptx('saxpy', 'sm_90')} {bundle.digest}"


def handle() -> str:
    try:
        vc.configure_jit_cache(force=True)
        vc.Device("auto").close()
        vc.Device("emulator", check="races").close()
        vc.Device("emulator", check=("races",)).close()
    except vc.DataRaceError as race:
        access: vc.RacingAccess = race.first
        return f"{race.buffer} {race.index} {access.statement} {access.thread[0]} {race.second.instruction}"
    except vc.CacheError as error:
        return error.code
    except vc.DriverError as error:
        return f"{error.op} {error.status} {error.name} {error.code}"
    except vc.ProgramError as error:
        return " ".join(d.message for d in error.diagnostics)
    except vc.BundleVersionError as error:
        return error.code
    except vc.BundleError as error:
        return error.code
    except vc.Error as error:
        return error.code
    return ""


def look(device: vc.Device, program: vc.Program) -> tuple[vc.DeviceStats, str, list[vc.Limit], vc.Occupancy]:
    kernel: vc.Kernel = device.compile(program, block="auto")
    device.trace_launches = True
    device.nvtx_ranges = False
    stats: vc.DeviceStats = device.stats()
    device.reset_stats()
    return stats, stats.prometheus(job="typed"), kernel.limits((1, 2, 3)), kernel.occupancy


def blame(error: vc.DeviceLostError | vc.KernelTimeoutError) -> tuple[str, ...]:
    return error.launches


def places(error: vc.CompileError) -> list[tuple[str, int] | None]:
    return [location.source for location in error.locations]
