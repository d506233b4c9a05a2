"""What a recording takes and what it refuses, and that nothing of it runs before a replay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs
from .graph_checks import F32, N, edges, first, floats


def test_recording_runs_nothing_and_a_replay_runs_all(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)

    with device.record() as graph:
        saxpy.launch(x, y, out, 3.0)
        x.copy_from(out)

    assert (first(out), first(x)) == (0, 2)
    assert len(graph) == 2
    for wanted in (7, 22):
        graph.replay()
        assert (first(out), first(x)) == (wanted, wanted)


def test_keywords_grids_and_bound_calls_are_recorded(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out, other = floats(device, 2), floats(device, 1), floats(device, 5), floats(device, 5)
    call = saxpy.bind(x, y, other, 1.0)

    with device.record() as graph:
        saxpy.launch(x, y, out=out, a=3.0, grid=1)
        call()
        call(x, other, y, 1.0)

    graph.replay()
    np.testing.assert_array_equal(np.repeat(np.array([7, 0], F32), [256, N - 256]), out.numpy())
    assert first(y) == 5


def test_zeros_and_copies_from_page_locked_memory_happen_at_every_replay(device: vc.Device) -> None:
    pinned = device.pinned_empty(4, vc.i32)
    x = device.array(np.zeros(10, np.int32))

    with device.record() as graph:
        cleared = device.zeros(10, vc.i32)
        x.copy_from(pinned, offset=3)
        graph.download(x[2:6], pinned)

    for value in (5, 9):
        pinned[:] = value
        cleared.copy_from(np.full(10, 7, np.int32))
        graph.replay()
        device.synchronize()
        np.testing.assert_array_equal(np.array([0, value, value, value], np.int32), pinned)
        np.testing.assert_array_equal(np.zeros(10, np.int32), cleared.numpy())


def test_an_upload_of_many_ranges_is_recorded_as_copies(device: vc.Device) -> None:
    x, y = device.zeros(6, vc.i32), device.zeros(2, vc.i32)
    pinned = device.pinned_empty(2, vc.i32)
    with device.record() as graph:
        device.upload([(x, 1, pinned), (y, pinned[:1])])
        with pytest.raises(ValueError, match="elements"):
            device.upload([(y, 1, pinned)])

    pinned[:] = 4, 5
    graph.replay()

    np.testing.assert_array_equal(np.int32([0, 4, 5, 0, 0, 0]), x.numpy())
    np.testing.assert_array_equal(np.int32([4, 0]), y.numpy())


def test_only_the_thread_that_records_is_recorded(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    results: list[object] = []

    def work() -> None:
        add.launch(h, one)
        results.append(h.numpy())
        results.append(add(np.zeros(2, np.int32), np.ones(2, np.int32)))
        with device.record() as own:
            add.launch(h, one)
        results.append(own)

    with device.record() as graph:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert len(graph) == 0
    np.testing.assert_array_equal(np.ones(N, np.int32), results[0])
    np.testing.assert_array_equal(np.ones(2, np.int32), results[1])
    results[2].replay()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.full(N, 2), h.numpy())


def test_a_graph_keeps_what_it_uses(device: vc.Device) -> None:
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)
    with device.record() as graph:
        device.compile(programs.saxpy()).launch(x, y, out, vc.symbol("a", 3.0))
    x.free()
    y.free()
    floats(device, 99)

    graph.replay(a=4.0)

    assert first(out) == 9


def test_what_waits_or_stages_is_refused_and_recording_goes_on(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    host = np.ones(N, np.int32)

    with device.record() as graph:
        for refused in (
            lambda: add(host, host),
            lambda: add.submit(host, host),
            lambda: add.timed(host, host),
            lambda: add.record(host, host),
            h.numpy,
            lambda: h[3],
            device.synchronize,
            lambda: device.download([(h, 0, 3)]),
            lambda: device.upload([(h, host)]),
            lambda: device.array(host),
            lambda: h.copy_from(host),
            lambda: add.launch(h, one, stream=device.stream()),
            lambda: device.record().__enter__(),
        ):
            with pytest.raises(vc.RecordingError):
                refused()
        with pytest.raises(TypeError):
            add.launch(h, host)
        with pytest.raises(ValueError, match="elements"):
            h.copy_from(device.empty(N + 1, vc.i32))
        add.launch(h, one)

    graph.replay()
    np.testing.assert_array_equal(host, h.numpy())


def test_an_exception_discards_the_recording(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    graph = device.record()
    with pytest.raises(TypeError), graph:
        add.launch(h, one, one)

    with pytest.raises(vc.RecordingError):
        graph.replay()
    add.launch(h, one)
    np.testing.assert_array_equal(np.ones(N, np.int32), h.numpy())


def test_a_graph_is_used_in_its_states_only(device: vc.Device) -> None:
    with device.record() as graph:
        for wrong in (graph.replay, graph.update, graph.dot):
            with pytest.raises(vc.RecordingError):
                wrong()
    with pytest.raises(vc.RecordingError, match="only once: record another one"):
        graph.__enter__()
    with pytest.raises(vc.RecordingError), graph.repeat(3):
        pass
    graph.replay()
    assert "0 steps" in repr(graph)


INCREMENT = """.version 7.8
.target sm_75
.address_size 64
.visible .entry increment(.param .u64 p, .param .u32 by)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r0, [by];
    ld.global.u32 %r1, [%rd0];
    add.u32 %r1, %r1, %r0;
    st.global.u32 [%rd0], %r1;
    ret;
}
"""


def test_loaded_kernels_are_recorded_in_order(device: vc.Device) -> None:
    kernel = device.load(INCREMENT, "increment", signature="ptr u32")
    x, y = device.zeros(4, vc.u32), device.zeros(4, vc.u32)
    call = kernel.bind(x, 100, grid=1, block=1)

    with device.record() as graph:
        kernel.launch(x, vc.symbol("by", 1), grid=1, block=1)
        kernel.launch(vc.symbol("p", y), 10, grid=1, block=1)
        call()
        y[:1].copy_from(x[:1])
        with pytest.raises(vc.RecordingError):
            kernel.launch(1 << 20, 1, grid=1, block=1)
        with pytest.raises(vc.RecordingError):
            kernel.launch(x, 1, grid=1, block=1, stream=device.stream())

    assert edges(graph) == {(0, 2), (1, 3), (2, 3)}
    assert x[0] == 0
    graph.replay()
    assert (x[0], y[0]) == (101, 101)
    graph.replay(by=2, p=x)
    assert (x[0], y[0]) == (101 + 112, 101 + 112)


# ---- replays in a recording ------------------------------------------------------------------------------------------


def test_the_replay_of_a_graph_is_recorded_and_does_not_run(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)
    with device.record() as inner:
        saxpy.launch(x, y, out, vc.symbol("a"))
        x.copy_from(out)

    with device.record() as outer:
        inner.replay(a=3.0)
        saxpy.launch(x, y, out, 10.0)

    assert (first(out), first(x), len(outer)) == (0, 2, 3)
    outer.replay()
    assert (first(out), first(x)) == (71, 7)


def test_a_recorded_replay_keeps_the_symbols_of_then_or_takes_those_of_the_outer_graph(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out, other = (floats(device, value) for value in (2, 1, 0, 0))
    with device.record() as inner:
        saxpy.launch(x, y, out, vc.symbol("a", 1.0))
        saxpy.launch(x, y, other, vc.symbol("b", 1.0))

    with device.record() as outer:
        inner.replay(b=vc.symbol("c", 5.0))
    inner.update(a=100.0, b=100.0)

    assert outer.symbols == ("c",)
    outer.replay()
    assert (first(out), first(other)) == (3, 11)
    outer.replay(c=7.0)
    assert (first(out), first(other)) == (3, 15)


def test_loops_of_a_replayed_graph_are_recorded_in_the_loops_around_it(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    with device.record() as inner:
        add.launch(h, one)
        with inner.repeat(3):
            add.launch(h, one)

    with device.record() as outer:
        add.launch(h, one)
        with outer.repeat(2):
            inner.replay()
        with outer.repeat(0):
            inner.replay()

    outer.replay()
    np.testing.assert_array_equal(np.full(N, 1 + 2 * (1 + 3), np.int32), h.numpy())


def test_a_replay_that_cannot_be_recorded_records_nothing(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 2), floats(device, 1), floats(device, 0)
    with device.record() as inner:
        saxpy.launch(x, y, out, 1.0)
        saxpy.launch(x, vc.symbol("y", y), out, vc.symbol("a", 3.0))

    with device.record() as outer:
        with pytest.raises(vc.RecordingError, match="stream"):
            inner.replay(stream=device.stream())
        for wrong in ({"a": "three"}, {"y": np.zeros(3, F32)}, {"z": 1.0}):
            with pytest.raises(TypeError):
                inner.replay(**wrong)
        with pytest.raises(ValueError, match="two defaults"):
            inner.replay(a=vc.symbol("s", 1.0), y=vc.symbol("s", 2.0))
        with pytest.raises(vc.RecordingError):
            outer.replay()

    assert len(outer) == 0
    assert outer.symbols == ()


# ---- blocks of loops, and the end of a recording ---------------------------------------------------------------------


@pytest.mark.parametrize(("times", "named"), [(1, "repeat 1 time"), (3, "repeat 3 times")])
def test_a_loop_left_open_is_an_error_and_the_recording_is_discarded(device: vc.Device, times: int, named: str) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    graph = device.record()
    graph.__enter__()
    graph.repeat(times).__enter__()
    add.launch(h, one)
    with pytest.raises(vc.RecordingError, match=f"{named} is still open"):
        graph.__exit__(None, None, None)

    with pytest.raises(vc.RecordingError):
        graph.replay()
    add.launch(h, one)
    assert first(h) == 1


def test_a_loop_in_a_generator_that_is_left_is_open(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    graph = device.record()

    def steps() -> Iterator[None]:
        with graph.repeat(3):
            add.launch(h, one)
            yield

    left = steps()
    with pytest.raises(vc.RecordingError, match="still open"), graph:
        next(left)
    left.close()


def test_loops_that_cross_are_an_error_and_so_is_one_entered_twice(device: vc.Device) -> None:
    graph = device.record()
    graph.__enter__()
    outer, inner = graph.repeat(3), graph.repeat(5)
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(vc.RecordingError, match="entered before"):
        inner.__enter__()
    with pytest.raises(vc.RecordingError, match="repeat 3 times ends inside repeat 5 times"):
        outer.__exit__(None, None, None)
    with pytest.raises(vc.RecordingError, match="still open"):
        graph.__exit__(None, None, None)


def test_an_exception_in_a_loop_is_the_one_that_comes_out(device: vc.Device) -> None:
    graph = device.record()

    def fail() -> None:
        with graph:
            graph.repeat(3).__enter__()
            with graph.repeat(5):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_recorder_that_is_dropped_records_no_more(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))
    before = device.context.recordings

    device.record().__enter__()
    gc.collect()

    assert device.context.recordings == before
    add.launch(h, one)
    assert first(h) == 1
    with device.record() as graph:
        add.launch(h, one)
    graph.replay()
    assert first(h) == 2


def test_a_recording_may_end_in_another_thread_and_once(device: vc.Device) -> None:
    graph = device.record()
    graph.__enter__()
    thread = threading.Thread(target=graph.__exit__, args=(None, None, None))
    thread.start()
    thread.join()

    device.synchronize()
    with pytest.raises(vc.RecordingError, match="has ended"):
        graph.__exit__(None, None, None)
    assert device.context.recordings == 0
