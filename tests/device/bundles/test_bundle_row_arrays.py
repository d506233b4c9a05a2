"""Launches as one in a bundle whose arrays are symbols: a replay with others is one launch where they share memory as
when the bundle was written."""

from __future__ import annotations

import random
import struct
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundled_rows import PLACED, N, placed, ramp, scaled, turned

import vyre_cuda as vc
from vyre_cuda.bundles.layout import sealed
from vyre_cuda.testing.compare import assert_same

from ..foreign_library import RELAXED, ForeignStream

pytestmark = pytest.mark.device

F32 = np.float32
ROWS = 48


def written(kinds: int) -> np.ndarray[Any, Any]:
    """What the row with the symbol z writes."""
    return 2 * ramp(ROWS * N)[PLACED * N : PLACED * N + N] + PLACED % kinds


def turned_round(kinds: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the symbol out is, if the symbol x has these elements."""
    read = np.concatenate([np.pad(x, (0, N - x.size)), ramp(ROWS * N)[N:]])
    t = 2 * read + np.repeat(np.arange(ROWS) % kinds, N).astype(F32)
    t[PLACED * N : PLACED * N + N] = 0
    return t[::-1] + 1


@pytest.fixture(params=[1, 3])
def kinds(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


# ---- what runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [True, False])
def test_other_arrays_are_one_launch(path: Path, device: vc.Device, kinds: int, source: bool) -> None:
    placed(device, kinds, ROWS).export(path, "it", source=source)
    bundle = vc.load_bundle(path)
    loaded = bundle.on(device).graph("it")
    out, z = device.zeros(ROWS * N, vc.f32), device.zeros(N, vc.f32)

    assert (bundle.format_version, bundle.graphs["it"].steps) == (7, ROWS + 1)
    loaded.replay(out=out)
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp()))
    for k in range(1, 4):
        x = ramp() * k + 7
        loaded.replay(x=device.array(x), z=z, out=out)
        np.testing.assert_array_equal(out.numpy(), turned_round(kinds, x))
        np.testing.assert_array_equal(z.numpy(), written(kinds))
        assert loaded.node_count == 2


def test_arrays_that_meet_or_have_other_sizes_run_the_recorded_steps(path: Path, device: vc.Device, kinds: int) -> None:
    placed(device, kinds, ROWS).export(path, "it")
    loaded = vc.load_bundle(path).on(device).graph("it")
    out, both = device.zeros(ROWS * N, vc.f32), device.array(ramp(3 * N))

    loaded.replay(x=both[:N], z=both[9 : N + 9], out=out)
    assert loaded.node_count == ROWS + 1
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp()))
    np.testing.assert_array_equal(both.numpy()[9 : N + 9], written(kinds))
    other = both.numpy()[:N]
    loaded.replay(x=both[:N], z=both[9 : N + 9], out=out)
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, other))
    loaded.replay(x=device.array(ramp(50)), z=both[:N], out=out)
    assert loaded.node_count == ROWS + 1
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp(50)))
    loaded.replay(x=device.array(ramp() + 1), z=both[:N], out=out)
    assert loaded.node_count == 2
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp() + 1))


def test_update_changes_all_later_replays(path: Path, device: vc.Device, kinds: int) -> None:
    placed(device, kinds, ROWS).export(path, "it")
    loaded = vc.load_bundle(path).on(device).graph("it")
    out, both = device.zeros(ROWS * N, vc.f32), device.array(ramp(3 * N))

    loaded.update(x=device.array(ramp() + 3), out=out)
    for _ in range(2):
        loaded.replay()
        np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp() + 3))
        assert loaded.node_count == 2
    loaded.update(x=both[:N], z=both[4 : N + 4])
    loaded.replay()
    assert loaded.node_count == ROWS + 1
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp()))
    loaded.update(z=both[N : 2 * N])
    loaded.replay()
    assert loaded.node_count == 2
    np.testing.assert_array_equal(both.numpy()[N : 2 * N], written(kinds))


def test_they_are_captured_and_recorded_again(path: Path, device: vc.Device, stream: ForeignStream, kinds: int) -> None:
    placed(device, kinds, ROWS).export(path, "it")
    loaded = vc.load_bundle(path).on(device).graph("it")
    out, x = device.zeros(ROWS * N, vc.f32), device.array(ramp() * 3)
    loaded.replay()
    device.synchronize()
    stream.begin_capture(RELAXED)
    loaded.replay(stream=stream, x=x, out=out)
    captured = stream.end_capture()
    loaded.replay()
    device.synchronize()  # the other stream waits for nobody
    captured.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp() * 3))
    captured.destroy()

    with device.record(fuse=True) as outer:
        loaded.replay(x=vc.symbol("y", x), out=out)
    outer.replay(y=device.array(ramp() * 5))
    np.testing.assert_array_equal(out.numpy(), turned_round(kinds, ramp() * 5))
    outer.export(path, "again")
    again = vc.load_bundle(path).on(device).graph("again")
    assert again.symbols == ("y",)
    again.replay(y=x)


def test_more_arrays_than_a_launch_takes_are_several(path: Path, device: vc.Device) -> None:
    kernel = device.compile(scaled())
    xs = [device.array(ramp() + k) for k in range(20)]
    out = device.zeros(20 * N, vc.f32)
    with device.record(fuse=True) as graph:
        for k, x in enumerate(xs):
            y = out[k * N : k * N + N]
            kernel.launch(vc.symbol(f"x{k}", x), vc.symbol("z", y) if k == 19 else y, 2.0, 1.0)
    graph.replay()
    nodes = graph.node_count
    graph.export(path, "it")
    loaded = vc.load_bundle(path).on(device).graph("it")
    z = device.zeros(N, vc.f32)

    loaded.replay(x0=xs[3], x19=xs[7], z=z)
    assert loaded.node_count == nodes == 2
    np.testing.assert_array_equal(z.numpy(), 2 * (ramp() + 7) + 1)


# ---- random recordings -----------------------------------------------------------------------------------------------

SIZE = 40


class Random:
    """Rows of up to three kernels, which read slices of one array and write slices of another, or symbols; what these
    hold after each replay is compared with NumPy, which runs one row after the other."""

    def __init__(self, device: vc.Device, seed: int) -> None:
        self.device = device
        rng = random.Random(seed)
        self.kinds = rng.choice((1, 1, 2, 3))
        self.rows = rng.randrange(4, 18) * self.kinds
        self.x = np.random.default_rng(seed).integers(-9, 9, self.rows * SIZE).astype(F32)
        self.t = np.zeros(self.rows * SIZE, F32)  # as it is now
        self.defaults: dict[str, np.ndarray[Any, Any]] = {}
        self.launches: list[tuple[Any, Any, Any, float]] = []  # each array a name, or a slice
        for row in range(self.rows):
            size = rng.choice((SIZE, SIZE, SIZE, 7, 0))
            of_row = slice(row * SIZE, row * SIZE + size)
            a = "a" if rng.random() < 0.1 else rng.choice((0.5, 2.0))
            self.launches.append((self._read(rng, of_row), self._written(rng, of_row), a, float(row % self.kinds)))
        self.times = rng.choice((1, 1, 2))

    def _read(self, rng: random.Random, of_row: slice) -> Any:
        known = [name for name in self.defaults if name[0] == "x"]
        if known and rng.random() < 0.1:
            return rng.choice(known)
        if rng.random() < 0.3:
            return self._name("x", self.x[of_row])
        return of_row if rng.random() < 0.9 else slice(0, SIZE)

    def _written(self, rng: random.Random, of_row: slice) -> Any:
        if rng.random() < 0.8:
            return of_row
        default = self.t[of_row]  # which the last launch reads, so that others run the recorded steps
        return self._name("z", default if rng.random() < 0.1 else default.copy())

    def _name(self, kind: str, default: np.ndarray[Any, Any]) -> str:
        name = f"{kind}{len(self.defaults)}"
        self.defaults[name] = default
        return name

    def record(self) -> vc.Graph:
        kernels = [self.device.compile(scaled(f"scaled{k}")) for k in range(self.kinds)]
        turn = self.device.compile(turned())
        x, t = self.device.array(self.x), self.device.array(self.t)

        symbols = {name: vc.symbol(name, self._default(name, x, t)) for name in self.defaults}

        def array(what: Any, of: vc.DeviceArray) -> Any:
            return of[what] if isinstance(what, slice) else symbols[what]

        out = vc.symbol("out", self.device.zeros(self.t.size, vc.f32))
        with self.device.record(fuse=True) as graph, nullcontext() if self.times == 1 else graph.repeat(self.times):
            for number, (read, write, a, c) in enumerate(self.launches):
                factor = vc.symbol(a, 2.0) if isinstance(a, str) else a
                kernels[number % self.kinds].launch(array(read, x), array(write, t), factor, c)
            turn.launch(t, out)
        graph.compile()
        return graph

    def _default(self, name: str, x: vc.DeviceArray, t: vc.DeviceArray) -> vc.DeviceArray:
        default, (of, host) = self.defaults[name], (x, self.x) if name[0] == "x" else (t, self.t)
        if default.base is None:
            return self.device.array(default)
        first = (default.ctypes.data - host.ctypes.data) // 4
        return of[first : first + default.size]

    def values(self, rng: random.Random) -> dict[str, tuple[int, slice]]:
        """For some symbols parts of other arrays, most of them of one that no other symbol has, and as large as
        before."""
        found = {}
        is_odd = rng.random() < 0.4
        for number, (name, default) in enumerate(self.defaults.items()):
            if rng.random() < 0.5:
                size = 11 if is_odd and rng.random() < 0.1 else default.size
                first = rng.choice((0, 0, 3, SIZE))
                array = rng.randrange(len(self.defaults)) if is_odd and rng.random() < 0.6 else number
                found[name] = array, slice(first, first + size)
        return found

    def expected(self, given: dict[str, np.ndarray[Any, Any]], a: float) -> np.ndarray[Any, Any] | None:
        """What `out` is then; None: two arrays of a launch meet, so that nothing runs."""

        def pair(read: Any, write: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
            return (
                self.x[read] if isinstance(read, slice) else given[read],
                self.t[write] if isinstance(write, slice) else given[write],
            )

        pairs = [pair(read, write) for read, write, _, _ in self.launches]
        if any(x.size and z.size and np.may_share_memory(x, z) for x, z in pairs):
            return None
        for (x, z), (_, _, factor, c) in zip(pairs * self.times, self.launches * self.times, strict=True):
            read = np.zeros(z.size, F32)
            read[: x.size] = x[: z.size]
            z[:] = F32(a if isinstance(factor, str) else factor) * read + F32(c)
        return self.t[::-1] + 1


def compare(case: Random, graphs: list[vc.Graph], rng: random.Random, counts: Counter[str]) -> None:
    host = [np.arange(2 * SIZE, dtype=F32) + k for k in range(len(case.defaults))]
    others = [[case.device.array(each) for each in host] for _ in graphs]
    outs = [case.device.zeros(case.t.size, vc.f32) for _ in graphs]
    kept = dict(case.defaults)
    for turn in range(8):
        values = case.values(rng)
        given = kept | {name: host[number][part] for name, (number, part) in values.items()}
        scalars = {"a": rng.choice((0.0, 1.5))} if any(a == "a" for _, _, a, _ in case.launches) else {}
        expected = case.expected(given, scalars.get("a", 2.0))
        for graph, mine, out in zip(graphs, others, outs, strict=True):
            arrays = {name: mine[number][part] for name, (number, part) in values.items()}
            if expected is None:
                with pytest.raises(ValueError, match="memory"):
                    graph.replay(out=out, **arrays, **scalars)
                continue
            if turn % 4 == 3:
                graph.update(**arrays)
                graph.replay(out=out, **scalars)
            else:
                graph.replay(out=out, **arrays, **scalars)
            assert_same(out.numpy(), expected)
            for one, other in zip(mine, host, strict=True):
                assert_same(one.numpy(), other)
        if expected is None:
            counts["refused"] += 1
            continue
        if turn % 4 == 3:
            kept = given
        counts["as recorded" if "as recorded" in graphs[-1].explain() else "as fused"] += 1


@pytest.mark.thin
@pytest.mark.parametrize("number", [25, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_recordings_do_what_their_launches_do(path: Path, device: vc.Device, number: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(number):
        case = Random(device, seed)
        graph = case.record()
        graph.export(path, "it", cubins=False)
        bundle = vc.load_bundle(path)
        counts["with arrays"] += bundle.format_version == 7
        compare(case, [graph, bundle.on(device).graph("it")], random.Random(-seed), counts)
    print(dict(counts))
    assert counts["with arrays"] > number // 2
    assert counts["as fused"] > number
    assert counts["as recorded"] > number // 5
    assert counts["refused"] > 0


# ---- files that are wrong --------------------------------------------------------------------------------------------

PARAMETERS, BINDINGS, STEPS, VALUES, CONDITIONS = 3, 8, 14, 15, 17
SPAN, SYMBOL = 1, 2
LAUNCH, AS_ONE = 1, 6
IN, INOUT, OUT = 1, 2, 3
I32 = 7


class Rows:
    """The tables of a bundle."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        count = struct.unpack_from("<I", data, 24)[0]
        self.sections = {}
        self.headers = {}
        for number in range(count):
            at = 96 + 32 * number
            kind, row_bytes, offset, nbytes = struct.unpack_from("<IIQQ", data, at)
            self.sections[kind] = offset, row_bytes, nbytes // row_bytes
            self.headers[kind] = at

    def row(self, kind: int, number: int) -> list[int]:
        offset, row_bytes, _ = self.sections[kind]
        return list(struct.unpack_from(f"<{row_bytes // 4}I", self.data, offset + row_bytes * number))

    def rows(self, kind: int) -> list[list[int]]:
        return [self.row(kind, number) for number in range(self.sections[kind][2])]

    def put(self, kind: int, number: int, word: int, value: int) -> None:
        offset, row_bytes, _ = self.sections[kind]
        struct.pack_into("<I", self.data, offset + row_bytes * number + 4 * word, value)

    def cut(self, kind: int) -> None:
        """Leave out the last row."""
        _, row_bytes, count = self.sections[kind]
        struct.pack_into("<Q", self.data, self.headers[kind] + 16, row_bytes * (count - 1))

    def load(self) -> vc.Bundle:
        return vc.load_bundle(sealed(bytes(self.data)))


@pytest.fixture
def rows(path: Path, device: vc.Device) -> Rows:
    """Those of a graph with the symbols out, x and z, in this order; x and z are arrays of launches as one."""
    placed(device, 1, ROWS).export(path, "it", cubins=False)
    found = Rows(path.read_bytes())
    assert isinstance(found.load(), vc.Bundle)
    return found


def arrays_of(rows: Rows) -> int:
    """The number of the first value of the step, of which there are two."""
    as_one = next(row for row in rows.rows(STEPS) if row[0] == AS_ONE)
    assert as_one[7] == 2
    first = as_one[6]
    assert [row[:2] for row in rows.rows(VALUES)[first : first + 2]] == [[SYMBOL, 1], [SYMBOL, 2]]
    return first


def first_use(rows: Rows, symbol: int) -> int:
    """The number of the value that is the symbol in a row."""
    first = arrays_of(rows)
    return next(k for k, row in enumerate(rows.rows(VALUES)) if k > first + 1 and row[:2] == [SYMBOL, symbol])


@pytest.mark.parametrize(("word", "value"), [(0, SPAN), (0, 3), (1, 0), (1, 2), (1, 3), (1, 2**32 - 1), (2, 1), (4, 1)])
def test_symbols_of_launches_as_one_that_are_not_theirs_are_refused(rows: Rows, word: int, value: int) -> None:
    rows.put(VALUES, arrays_of(rows), word, value)
    with pytest.raises(vc.BundleError, match="graph it: step"):
        rows.load()


@pytest.mark.parametrize("symbol", [0, 2])
def test_a_row_with_a_symbol_in_no_place_or_in_another_order_is_refused(rows: Rows, symbol: int) -> None:
    rows.put(VALUES, first_use(rows, 1), 1, symbol)
    with pytest.raises(vc.BundleError, match="not in its place"):
        rows.load()


def test_an_array_that_no_row_has_is_refused(rows: Rows) -> None:
    """The first row reads what the third reads."""
    first, third = (row[6] for row in rows.rows(STEPS)[1:4:2])
    for word, value in enumerate(rows.row(VALUES, third)):
        rows.put(VALUES, first, word, value)
    with pytest.raises(vc.BundleError, match="not in its place"):
        rows.load()


def entry_arrays(rows: Rows) -> list[int]:
    """The numbers of the parameters of the entry that are arrays: behind that with the name of its one kernel."""
    found = [k for k, row in enumerate(rows.rows(PARAMETERS)) if row[2] in (IN, INOUT)]
    names = [k for k, row in enumerate(rows.rows(PARAMETERS)) if row[2] == INOUT]
    assert len(names) == 1  # only entries have such a parameter here
    return [found[found.index(names[0]) - 1], names[0]]


@pytest.mark.parametrize("role", [OUT, 4, 0])
@pytest.mark.parametrize("array", [0, 1])
def test_an_entry_with_results_or_other_roles_is_refused(rows: Rows, array: int, role: int) -> None:
    rows.put(PARAMETERS, entry_arrays(rows)[array], 2, role)
    with pytest.raises(vc.BundleError):
        rows.load()


def with_binding(rows: Rows, parameter: int, role: int, type_: int, nbytes: int) -> None:
    """An array of the entry, with the binding that belongs to it; those of the entry have no other flags."""
    before = rows.row(PARAMETERS, parameter)
    array = entry_arrays(rows).index(parameter)
    of_entry = next(
        k for k, row in enumerate(rows.rows(BINDINGS)[:-1]) if [row[0], rows.row(BINDINGS, k + 1)[0]] == [IN, INOUT]
    )
    assert before[3] == rows.row(PARAMETERS, entry_arrays(rows)[0])[3]
    rows.put(PARAMETERS, parameter, 2, role)
    rows.put(PARAMETERS, parameter, 3, type_)
    rows.put(BINDINGS, of_entry + array, 0, role)
    rows.put(BINDINGS, of_entry + array, 2, nbytes)


def test_an_entry_that_reads_what_rows_write_is_refused(rows: Rows) -> None:
    read, written_to = entry_arrays(rows)
    type_ = rows.row(PARAMETERS, read)[3]
    with_binding(rows, written_to, IN, type_, 4)
    with pytest.raises(vc.BundleError, match="not in its place"):
        rows.load()


def test_an_entry_that_writes_what_rows_read_is_refused(rows: Rows) -> None:
    read, _ = entry_arrays(rows)
    with_binding(rows, read, INOUT, rows.row(PARAMETERS, read)[3], 4)
    with pytest.raises(vc.BundleError, match="not in its place"):
        rows.load()


@pytest.mark.parametrize(("type_", "nbytes"), [(I32, 4), (2, 1)])
def test_an_entry_with_arrays_of_another_type_is_refused(rows: Rows, type_: int, nbytes: int) -> None:
    read, _ = entry_arrays(rows)
    with_binding(rows, read, IN, type_, nbytes)
    with pytest.raises(vc.BundleError, match="not in its place"):
        rows.load()


def test_a_symbol_of_rows_without_a_condition_is_refused(rows: Rows) -> None:
    conditions = rows.rows(CONDITIONS)
    assert [row[1] for row in conditions] == [0, 1, 2]
    for word, value in enumerate(conditions[2]):  # that of z instead of that of x
        rows.put(CONDITIONS, 1, word, value)
    rows.cut(CONDITIONS)
    with pytest.raises(vc.BundleError, match="has no condition"):
        rows.load()


@pytest.mark.emulator
@pytest.mark.parametrize("seed", range(12))
def test_a_changed_file_is_refused_or_loaded(rows: Rows, device: vc.Device, seed: int) -> None:
    rng = random.Random(seed)
    whole = bytes(rows.data)
    for _ in range(40):
        rows.data[:] = whole
        for _ in range(rng.randrange(1, 4)):
            kind = rng.choice((PARAMETERS, BINDINGS, STEPS, VALUES, VALUES, CONDITIONS))
            number = rng.randrange(rows.sections[kind][2])
            word = rng.randrange(rows.sections[kind][1] // 4)
            value = rng.choice((0, 1, 2, 3, 6, 7, rng.randrange(64), 2**32 - 1, rows.row(kind, number)[word] + 1))
            rows.put(kind, number, word, value % 2**32)
        try:
            rows.load().on(device).graph("it")
        except (vc.Error, ValueError, TypeError, OverflowError):
            continue
