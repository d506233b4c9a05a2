"""Which steps of a graph wait for which: edges from what they touch, and replays that equal the steps one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

import vyre_cuda as vc

from .. import programs
from .graph_checks import N, edges, first, floats


def test_independent_steps_are_branches(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y = floats(device, 2), floats(device, 1)
    a, b, c = (floats(device, 0) for _ in range(3))

    with device.record() as graph:
        saxpy.launch(x, y, a, 1.0)  # 3
        saxpy.launch(x, y, b, 10.0)  # 21
        saxpy.launch(a, b, c, 2.0)  # 27
        x.copy_from(a)

    assert edges(graph) == {(0, 2), (1, 2), (0, 3), (1, 3)}
    graph.replay()
    assert (first(c), first(x)) == (27, 3)


def test_halves_of_an_array_are_independent(device: vc.Device) -> None:
    add = device.compile(programs.add_to())
    h, one = device.zeros(N, vc.i32), device.array(np.ones(N, np.int32))

    with device.record() as graph:
        add.launch(h[:150], one[:150])
        add.launch(h[150:], one[150:])
        add.launch(h[100:200], one[:100])

    assert edges(graph) == {(0, 2), (1, 2)}
    graph.replay()
    np.testing.assert_array_equal(np.repeat(np.int32([1, 2, 1]), 100), h.numpy())


def test_a_chain_of_kernels_is_kernel_nodes_alone(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = floats(device, 1), floats(device, 0), floats(device, 0)

    with device.record() as graph:
        for i in range(100):
            saxpy.launch(out if i % 2 else x, y, x if i % 2 else out, 1.0)

    assert graph.node_count == 100
    assert edges(graph) == {(i, i + 1) for i in range(99)}


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
        st.tuples(st.just("copy"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
        st.tuples(st.just("fill"), st.integers(0, 2), st.integers(-3, 3), st.integers(0, 40)),
        st.tuples(st.just("repeat"), st.integers(0, 3), st.just(0), st.integers(1, 3)),
    ),
    max_size=14,
)


@given(operations=OPERATIONS)
def test_a_replay_equals_the_steps_one_by_one(shared_device: vc.Device, operations: list[tuple[str, int, int, int]]):
    """Ranges of three arrays overlap in all ways; the model runs the operations in order on NumPy arrays."""
    device, size = shared_device, 60
    add = device.compile(programs.add_to())
    start = [np.arange(size, dtype=np.int32) + 100 * k for k in range(3)]
    arrays = [device.array(array) for array in start]
    model = [array.copy() for array in start]

    def run(todo: list[tuple[str, int, int, int]], graph: vc.Graph | None) -> None:
        for place, (kind, to, source, at) in enumerate(todo):
            if kind == "repeat":
                body = todo[place + 1 : place + 1 + at]
                body = [operation for operation in body if operation[0] != "repeat"]
                if graph is not None:
                    with graph.repeat(to):
                        run(body, graph)
                else:
                    for _ in range(to):
                        run(body, None)
            elif kind == "fill" and graph is not None:
                arrays[to][at : at + 15].fill(source)
            elif kind == "fill":
                model[to][at : at + 15] = source
            elif to == source:
                continue
            elif graph is not None:
                target, other = arrays[to][at : at + 20], arrays[source][40 - at : 60 - at]
                add.launch(target, other) if kind == "add" else target.copy_from(other)
            elif kind == "add":
                model[to][at : at + 20] += model[source][40 - at : 60 - at]
            else:
                model[to][at : at + 20] = model[source][40 - at : 60 - at]

    with device.record() as graph:
        run(operations, graph)
    for _ in range(2):
        run(operations, None)
        graph.replay()

    for wanted, array in zip(model, arrays, strict=True):
        np.testing.assert_array_equal(wanted, array.numpy())
