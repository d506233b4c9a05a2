"""The table of figures: what each row measures from Python or from a C++ host, the twin that does the same in C, and
the target.

Targets bound the least median of a row's passes by the least one of its twin's, because a host only adds to both.
Enqueues from C++ and theirs are made in turns by one process, as 3 % of them is less than processes differ by.
Absolute times move from host to host; the targets that name one say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["plus", "times", "rate", "most"]
Side = Literal["python", "cpp"]


@dataclass(frozen=True, slots=True)
class Target:
    """plus: microseconds beyond the twin; times: of the twin's time; rate: of the twin's bytes a second; most: µs."""

    kind: Kind
    value: float

    def limit_us(self, twin_us: float | None) -> float | None:
        """The most microseconds that meet it; None when it needs a twin that there is none of."""
        if self.kind == "most":
            return self.value
        if twin_us is None:
            return None
        if self.kind == "plus":
            return twin_us + self.value
        return twin_us * self.value if self.kind == "times" else twin_us / self.value

    def __str__(self) -> str:
        if self.kind == "times":
            return f"{self.value:.2f} x"
        if self.kind == "rate":
            return f"{self.value:.0%} of rate"
        amount = f"{self.value / 1e3:.0f} ms" if self.value >= 1e3 else f"{self.value:.2f} us"
        return f"+ {amount}" if self.kind == "plus" else f"<= {amount}"


@dataclass(frozen=True, slots=True)
class Row:
    """One way of doing a task, and the twin that does the same in C. `what` is for people.

    Where there are `others` that do it, the fastest of a run is the twin.
    `side` says whether it is done from Python or in raw/host_driver.cpp, through libvyre_cuda.
    `moves`: the fields of Counts whose arrays of f32 cross the link once in every call.
    """

    id: str
    task: str
    twin: str
    what: str
    target: Target | None = None
    moves: tuple[str, ...] = ()
    side: Side = "python"
    others: tuple[str, ...] = ()

    @property
    def twins(self) -> tuple[str, ...]:
        """The ids of all that do the same in C."""
        return (self.twin, *self.others)


# What each task is, for people.
TASKS = {
    "replay_enqueue": "enqueue, nothing changed",
    "launch_enqueue": "enqueue, arguments changed",
    "launch_sync": "launch and synchronize",
    "host_dispatch": "host arrays in and out, 3 x 4 KiB",
    "clear_enqueue": "enqueue of a kernel whose output is cleared first",
    "graph": "graph of 1000 kernels, to completion",
    "event": "event recorded in a stream",
    "idle": "wait for a stream with nothing to wait for",
    "small_in": "4 KiB of page-locked memory to the device",
    "small_out": "4 KiB from the device to page-locked memory",
    "graph_enqueue": "graph of 100 kernels, enqueue",
    "alloc_free": "allocation and release of device memory",
    "large_host": "host arrays in and out, 16 MiB each",
    "copy_in": "256 MiB to the device",
    "copy_out": "256 MiB from the device",
    "start": "start of a process",
}


def _plus(us: float) -> Target:
    return Target("plus", us)


# Of launch: 1.9 µs where the floor is 1.3.
LAUNCH = _plus(0.60)
DOOR = _plus(0.50)
SMALL_COPY = _plus(1.00)
LINK = Target("rate", 0.97)

_SAME, _CHANGED = "launch_enqueue_graph_same", "launch_enqueue_graph_changed"
# Measured by the C++ host itself, in turns with what it is the twin of.
CPP_TWINS = ("cpp_raw_same", "cpp_raw_changed")
_SAME_RESTED, _CHANGED_RESTED = f"{_SAME}_rested", f"{_CHANGED}_rested"
_BESIDE = "bound call beside a busy Python thread"
_PAGEABLE, _NEW = "large_chunks_pageable", "large_chunks_new"
_OTHERS_PAGEABLE = ("large_zero_copy_pageable", "large_copies_pageable")
_OTHERS_NEW = ("large_zero_copy_new", "large_copies_new")
_BOTH_WAYS, _COPY = ("large_elements", "large_elements"), ("copy_elements",)
_LARGE = Target("times", 1.05)


def _cpp(id: str, task: str, twin: str, what: str) -> Row:
    """From C++ a call may cost 3 % more than the driver's own calls."""
    return Row(id, task, twin, f"C++: {what}", Target("times", 1.03), side="cpp")


ROWS = (
    Row("call_enqueue_same", "replay_enqueue", _SAME, "bound call, nothing changed", _plus(0.15)),
    Row("call_enqueue_changed", "launch_enqueue", _CHANGED, "bound call, all changed", _plus(0.30)),
    Row("call_enqueue_same_busy", "replay_enqueue", _SAME_RESTED, _BESIDE, _plus(0.15)),
    Row("call_enqueue_changed_busy", "launch_enqueue", _CHANGED_RESTED, _BESIDE, _plus(0.30)),
    Row("launch_enqueue_same", "replay_enqueue", _SAME, "k.launch, nothing changed"),
    Row("launch_enqueue_changed", "launch_enqueue", _CHANGED, "k.launch, all changed", LAUNCH),
    Row("call_sync", "launch_sync", "graph_launch_sync", "bound call, synchronize", _plus(0.50)),
    Row("launch_sync", "launch_sync", "graph_launch_sync_changed", "k.launch, all changed, synchronize"),
    Row("host_dispatch_out", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a, out=r)", _plus(1.50)),
    Row("host_dispatch_new", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a)"),
    Row("host_dispatch_function", "host_dispatch", "host_dispatch_zero_copy", "a kernel function: saxpy(x, y, a)"),
    Row("host_dispatch_pinned", "host_dispatch", "host_dispatch_pinned", "page-locked arrays, out=r", _plus(0.70)),
    Row("call_clear_same", "clear_enqueue", "clear_graph_same", "bound call that clears, nothing changed"),
    Row("call_clear_changed", "clear_enqueue", "clear_graph_changed", "bound call that clears, all changed"),
    Row("graph_chain", "graph", "graph_chain", "recorded graph, replay, synchronize", Target("times", 1.02)),
    Row("host_await", "host_dispatch", "host_dispatch_zero_copy", "await k.submit(x, y, a, out=r)"),
    Row("event_record", "event", "event_record", "stream.record()", DOOR),
    Row("idle_synchronize", "idle", "idle_synchronize", "stream.synchronize()", DOOR),
    Row("small_h2d", "small_in", "small_h2d", "dx.copy_from(x), synchronize", SMALL_COPY),
    Row("small_d2h", "small_out", "small_d2h", "dx.numpy(out=r)", SMALL_COPY),
    Row("graph_enqueue", "graph_enqueue", "graph_enqueue", "g.replay()", DOOR),
    Row("alloc_free", "alloc_free", "alloc_free_async", "dev.empty, dropped", Target("most", 0.30)),
    Row("large_pinned", "large_host", "large_zero_copy_pinned", "page-locked arrays, out=r", _LARGE, _BOTH_WAYS),
    Row("large_pageable", "large_host", _PAGEABLE, "k(x, a, out=r)", _LARGE, _BOTH_WAYS, others=_OTHERS_PAGEABLE),
    Row("large_new", "large_host", _NEW, "k(x, a)", None, _BOTH_WAYS, others=_OTHERS_NEW),
    Row("copy_h2d_pinned", "copy_in", "copy_h2d_pinned", "page-locked to device", LINK, _COPY),
    Row("copy_h2d_pageable", "copy_in", "copy_h2d_pageable", "pageable to device", LINK, _COPY),
    Row("copy_d2h_pinned", "copy_out", "copy_d2h_pinned", "device to page-locked", LINK, _COPY),
    Row("copy_d2h_pageable", "copy_out", "copy_d2h_pageable", "device to pageable", LINK, _COPY),
    Row("copy_d2h_new", "copy_out", "copy_d2h_new", "device to a new array", LINK, _COPY),
    _cpp("cpp_call_same", "replay_enqueue", CPP_TWINS[0], "bound call, nothing changed"),
    _cpp("cpp_call_changed", "launch_enqueue", CPP_TWINS[1], "bound call, all changed"),
    _cpp("cpp_call_sync", "launch_sync", "graph_launch_sync", "bound call, synchronize"),
    _cpp("cpp_host_dispatch", "host_dispatch", "host_dispatch_zero_copy", "pageable arrays"),
    _cpp("cpp_host_dispatch_pinned", "host_dispatch", "host_dispatch_pinned", "page-locked arrays"),
    _cpp("cpp_graph", "graph", "graph_chain", "recorded graph, launch, synchronize"),
    Row("first_result", "start", "first_result_floor", "first result of a process, compiled before", _plus(60e3)),
    Row("first_result_cold", "start", "first_result_floor", "first result of a process, nothing cached"),
    Row("import_package", "start", "import_numpy", "import, after NumPy, of all that it uses", Target("most", 25e3)),
)

# Measured in processes of their own, by harness.startup.
START_ROWS = ("first_result", "first_result_cold", "import_package")

# In C, beside the twins of ROWS: what other ways there are.
MORE_TWINS = (
    "launch_enqueue_kernel",
    "launch_sync",
    "host_dispatch_zero_copy_polling",
    "host_dispatch_pinned_polling",
    "host_dispatch_staged",
    "clear_memset_same",
    "clear_memset_changed",
    "large_copies_pinned",
)
START_TWINS = ("first_result_floor", "import_numpy")
# In C, through libvyre_cuda.
LAYER_ROWS = ("layer_call_same", "layer_launch_changed", "layer_alloc_free")
# Launches a second over threads: from Python, through libvyre_cuda, on the driver alone.
SCALING = ("scaling_python", "scaling_layer", "scaling_raw")


class UnknownRow(ValueError):
    """No row or task of that name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run measures: the rows, and the ids that each program is asked for."""

    rows: tuple[Row, ...]
    python: tuple[str, ...]
    cpp: tuple[str, ...]
    raw: tuple[str, ...]
    layer: tuple[str, ...]
    start: bool


def choose(words: Sequence[str] | None) -> Choice:
    """The rows of these ids and tasks; None has all. "scaling" and "layer" name what has no row of the table."""
    known = {row.id for row in ROWS} | TASKS.keys() | {"scaling", "layer"}
    unknown = sorted(set(words or ()) - known)
    if unknown:
        raise UnknownRow(f"no row or task {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    rows = tuple(row for row in ROWS if words is None or row.id in words or row.task in words)
    scaling, layer = (words is None or word in words for word in ("scaling", "layer"))
    measured = [row for row in rows if row.id not in START_ROWS]
    twins = dict.fromkeys(twin for row in measured for twin in row.twins)
    return Choice(
        rows=rows,
        python=(*(row.id for row in measured if row.side == "python"), *(SCALING[:1] if scaling else ())),
        cpp=(*(row.id for row in measured if row.side == "cpp"), *(id for id in twins if id in CPP_TWINS)),
        raw=(
            *(id for id in twins if id not in CPP_TWINS),
            *(MORE_TWINS if words is None else ()),
            *(SCALING[2:] if scaling else ()),
        ),
        layer=(*(LAYER_ROWS if layer else ()), *(SCALING[1:2] if scaling else ())),
        start=any(row.id in START_ROWS for row in rows),
    )
