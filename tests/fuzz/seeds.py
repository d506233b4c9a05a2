"""Seeds of the fuzzers in C and C++, by the package's own writers.

    python tests/fuzz/seeds.py FOLDER

FOLDER/bundle has small bundles (also for fuzz_replay), FOLDER/ptx texts with the words of PTX in ptx.dict,
FOLDER/arrays files and numbers, each behind the byte that says its type and which it is.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np

import vyre_cuda as vc

PROGRAMS = sorted((Path(__file__).parents[1] / "golden" / "programs").glob("*.vir"))
TEXTS = sorted((Path(__file__).parents[1] / "golden" / "ptx").glob("*.ptx"))
# In the order of VYC_TYPE_...
DTYPES = ["|b1", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<u2", "<f4", "<f8"]
NUMBERS = ["1", "-1,2", "0x10", "1e300,nan,-inf", "-9223372036854775808", "65519,6e-8"]


def scale(name: str = "scale", *, part: int = 1) -> vc.Program:
    """out = a * x, with a size that is worked out; `part`: only every so many elements."""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    a = b.scalar("a", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < out.size) if part == 1 else (i < out.size) & (i % part == 0)):
        out[i] = a * x[i]
    return b.build()


def countdown(device: vc.Device) -> vc.Graph:
    """Symbols with and without defaults, a copy, a fill, and both kinds of repetition."""
    kernel = device.compile(scale())
    x, y = device.array(np.arange(8, dtype=np.int32)), device.zeros(8, vc.i32)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), y, vc.symbol("a", 2))
        with graph.repeat(3), graph.repeat(2):
            y.copy_from(x)
        y.fill(1)
        with graph.repeat(2, until=y[:1]):
            kernel.launch(y, vc.symbol("out"), 3)
    return graph


def complete(device: vc.Device) -> vc.Graph:
    """Made when it is loaded, because no symbol lacks a value."""
    kernel = device.compile(scale())
    x, y = device.array(np.arange(8, dtype=np.int32)), device.zeros(8, vc.i32)
    with device.record() as graph:
        kernel.launch(x, vc.symbol("out", y), vc.symbol("a", 2))
        with graph.repeat(3):
            x.copy_from(y)
    return graph


def rows(device: vc.Device) -> vc.Graph:
    """Many launches of two kernels as one, whose results are cleared by rows, and one with a symbol."""
    x, y = device.array(np.arange(1024, dtype=np.int32)), device.zeros(1024, vc.i32)
    kernels = [device.compile(scale(f"scale{k}", part=k + 2)) for k in range(2)]
    with device.record(fuse=True) as graph:
        for at in range(0, 1024, 32):
            kernels[at // 32 % 2].launch(x[at : at + 32], y[at : at + 32], 3)
        device.compile(scale()).launch(y, vc.symbol("out", x), vc.symbol("a", 2))
    graph.compile()
    return graph


def forms(device: vc.Device) -> vc.Graph:
    """Merged steps of which two arrays and a scalar are symbols, and the steps as they were recorded."""
    kernel = device.compile(scale())
    x, out = device.array(np.arange(64, dtype=np.int32)), device.zeros(64, vc.i32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(64, vc.i32)
        kernel.launch(vc.symbol("x"), t, vc.symbol("a", 2))
        kernel.launch(t, vc.symbol("out", out), 3)
    graph.replay(x=x)
    return graph


def places(device: vc.Device) -> vc.Graph:
    """Launches of two kernels as one, of which the first array and the last one are symbols."""
    x, y = device.array(np.arange(512, dtype=np.int32)), device.zeros(512, vc.i32)
    kernels = [device.compile(scale(f"scale{k}")) for k in range(2)]
    rows = [slice(at, at + 32) for at in range(0, 512, 32)]
    read = [vc.symbol("x", x[:32]), *(x[row] for row in rows[1:])]
    written = [*(y[row] for row in rows[:-1]), vc.symbol("out", y[480:])]
    with device.record(fuse=True) as graph:
        for number, (source, target) in enumerate(zip(read, written, strict=True)):
            kernels[number % 2].launch(source, target, 3)
    graph.compile()
    return graph


def write_bundles(folder: Path) -> None:
    for path in PROGRAMS:
        program = vc.parse(path.read_text(encoding="utf-8"))
        try:
            vc.bundle(program, folder / f"{path.stem}.vyre", targets=["sm_80"], cubins=False, source=False)
        except vc.UnsupportedError:
            continue  # sizes that the host cannot work out
    with vc.Device("emulator") as device:
        for graph in (countdown, complete, rows, forms, places):
            graphs = {graph.__name__: graph(device)}
            many = ["scale"] if graph is forms else []
            to = folder / f"{graph.__name__}.vyre"
            vc.bundle([scale()], to, targets=["sm_90"], cubins=False, graphs=graphs, many=many)
        everything = {graph.__name__: graph(device) for graph in (countdown, complete)}
        vc.bundle([scale()], folder / "everything.vyre", targets=["sm_80", "sm_90"], graphs=everything)


def write_ptx(folder: Path) -> None:
    words: set[str] = set()
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        words.update(re.findall(r"[.%]?[A-Za-z_][\w.]*", re.sub(r"//.*", "", text)))
        (folder / path.name).write_text(text, encoding="utf-8")
    lines = [f'"{word}"\n' for word in sorted(words) if len(word) < 40]
    (folder.parent / "ptx.dict").write_text("".join(lines), encoding="utf-8")


def write_arrays(folder: Path) -> None:
    for number, dtype in enumerate(DTYPES):
        for shape in ((5,), (2, 3), ()):
            file = io.BytesIO()
            np.save(file, np.ones(shape, dtype))
            name = f"{number}_{'x'.join(map(str, shape))}.npy"
            (folder / name).write_bytes(bytes([number]) + file.getvalue())
        for index, text in enumerate(NUMBERS):
            (folder / f"{number}_{index}.txt").write_bytes(bytes([0x80 + number]) + text.encode())


def main() -> None:
    folder = Path(sys.argv[1])
    for name, write in (("bundle", write_bundles), ("ptx", write_ptx), ("arrays", write_arrays)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(folder / name)


if __name__ == "__main__":
    main()
