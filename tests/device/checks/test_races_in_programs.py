"""check="races" over whole programs: none that is right is reported, and every race that is put into one is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import ATOMICS, WARP_OPS
from vyre_cuda.testing.strategies import programs_using_atomic, programs_using_warp, programs_with_inputs

from ..documents.test_analyses import selfhost
from ..documents.test_examples import histogram, mandelbrot, parsed, reduction, saxpy
from ..documents.test_gallery import fir, groupby, image, mlp, nbody, softmax, transpose
from .test_races import BLOCK, X
from .test_races import checked as checked

pytestmark = pytest.mark.emulator

RANDOM = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


# ---- no false alarms ---------------------------------------------------------------------------------------------


def test_no_example_races(checked: vc.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(5000, dtype=np.float32)

    assert reduction.same_tree(x).tobytes() == reduction.device_sum(checked, x).tobytes()
    data = rng.integers(0, 256, 20_000, dtype=np.uint8)
    np.testing.assert_array_equal(np.bincount(data, minlength=256), histogram.byte_histogram(checked, data.tobytes()))
    np.testing.assert_array_equal(mandelbrot.numpy_counts(33, 17, 20), mandelbrot.escape_counts(checked, 33, 17, 20))
    assert checked.run(saxpy.SAXPY, x, x, 2.0).size == x.size
    assert checked.run(parsed("collatz.vir"), np.arange(1, 100, dtype=np.uint32)).size == 99


@pytest.mark.thin
def test_no_kernel_of_the_gallery_races(checked: vc.Device) -> None:
    stream = fir.tones(2 * fir.SAMPLES)
    out = np.concatenate(list(fir.filtered(checked, stream.reshape(2, -1))))
    np.testing.assert_allclose(out, fir.numpy_filtered(stream), rtol=0, atol=1e-5)
    np.testing.assert_allclose(nbody.simulate(checked, 70, 2)[0], nbody.numpy_simulate(70, 2)[0], rtol=0, atol=1e-5)
    picture = image.scene(40, 30)
    assert image.differences(picture, image.processed(checked, picture)) == []
    text = groupby.sales(40)
    assert groupby.groups_of(checked, text, 256) == groupby.python_groups_of(text)
    points, label = mlp.spirals(20)
    network = mlp.trained(points, label)
    for classified in (mlp.classified, mlp.classified_one_by_one):
        np.testing.assert_allclose(
            classified(checked, network, points), mlp.numpy_classified(network, points), rtol=0, atol=1e-4
        )
    rows = np.random.default_rng(0).standard_normal((3, 300), dtype=np.float32)
    np.testing.assert_array_equal(transpose.transpose.on(checked)(rows), rows.T)
    np.testing.assert_allclose(softmax.softmax(checked, rows), softmax.numpy_softmax(rows), rtol=softmax.bound(rows))
    batch = selfhost.Batch(checked, [selfhost.random_program(seed).to_bytes() for seed in range(20)])
    batch.read()
    assert batch.spread() > 1


def tiled_matmul(side: int, tile: int, *, second_barrier: bool = True) -> vc.Program:
    """c = a @ b of side x side matrices, by way of shared tiles."""
    b = vc.Builder("tiled_matmul", block=(tile, tile))
    left, right = b.input("a", vc.f32), b.input("b", vc.f32)
    out = b.output("c", vc.f32, size=left.size)
    b.work(side, side)
    a_tile, b_tile = b.shared("a_tile", vc.f32, tile * tile), b.shared("b_tile", vc.f32, tile * tile)
    column, row = vc.thread_id.x, vc.thread_id.y
    total = b.var("total", vc.f32(0))
    with b.for_(0, side // tile) as k:
        a_tile[row * tile + column] = left[vc.global_id.y * side + k * tile + column]
        b_tile[row * tile + column] = right[(k * tile + row) * side + vc.global_id.x]
        b.barrier()
        with b.for_(0, tile) as j:
            total.set(total + a_tile[row * tile + j] * b_tile[j * tile + column])
        if second_barrier:
            b.barrier()
    out[vc.global_id.y * side + vc.global_id.x] = total
    return b.build()


def test_a_tiled_product_races_without_its_second_barrier_only(checked: vc.Device) -> None:
    a = np.arange(256, dtype=np.float32) % 7
    expected = (a.reshape(16, 16) @ a.reshape(16, 16)).ravel()

    np.testing.assert_array_equal(expected, checked.run(tiled_matmul(16, 8), a, a))
    with pytest.raises(vc.DataRaceError, match="_tile"):
        checked.run(tiled_matmul(16, 8, second_barrier=False), a, a)


@pytest.mark.thin
@pytest.mark.slow
@RANDOM
@given(data=st.data())
def test_random_programs_do_not_race(data: st.DataObject, checked: vc.Device) -> None:
    kind = data.draw(st.sampled_from(["any", "atomic", "warp"]))
    if kind == "any":
        case = data.draw(programs_with_inputs())
    elif kind == "atomic":
        case = data.draw(programs_using_atomic(data.draw(st.sampled_from(sorted(ATOMICS)))))
    else:
        case = data.draw(programs_using_warp(data.draw(st.sampled_from(sorted(WARP_OPS)))))
    note(case[0].text())

    checked.run(case[0], *case[1])


# ---- no race that is missed --------------------------------------------------------------------------------------


def rounds(distances: list[int], missing: int | None, *, shared: bool) -> vc.Program:
    """Rounds of: store own, barrier, add the element at a distance, barrier. Barrier `missing` is left out."""
    b = vc.Builder("rounds", block=BLOCK)
    x = b.inout("x", vc.u32)
    tile = b.shared("tile", vc.u32, BLOCK) if shared else b.inout("tile", vc.u32)
    own = b.let("own", vc.thread_id.x if shared else vc.global_id.x)
    value = b.var("value", x[vc.global_id.x])
    for number, distance in enumerate(distances):
        tile[own] = value
        if missing != 2 * number:
            b.barrier()
        value.set(value + tile[own ^ distance])
        if missing != 2 * number + 1:
            b.barrier()
    x[vc.global_id.x] = value
    return b.build()


@pytest.mark.thin
@pytest.mark.slow
@RANDOM
@given(
    distances=st.lists(st.integers(1, BLOCK - 1), min_size=1, max_size=4),
    missing=st.integers(0, 6),
    shared=st.booleans(),
)
def test_a_barrier_that_is_left_out_is_always_reported(
    distances: list[int], missing: int, shared: bool, checked: vc.Device
) -> None:
    assume(missing < 2 * len(distances) - 1)  # the last barrier orders nothing
    arguments = [X] if shared else [X, X]

    checked.run(rounds(distances, None, shared=shared), *arguments)
    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(rounds(distances, missing, shared=shared), *arguments)

    assert caught.value.buffer == "tile"


@pytest.mark.thin
@pytest.mark.slow
@RANDOM
@given(case=programs_with_inputs())
def test_a_race_put_into_a_random_program_is_always_reported(
    case: tuple[vc.Program, list[Any]], checked: vc.Device
) -> None:
    program, arguments = case
    index = program.index
    assume(re.search(r" order (acquire|release|acq_rel)", program.text()) is None)  # see the last test
    head, body = program.text().split("\n\n", 1)
    racy = vc.parse(f"{head}\ninout racing: {index}\n\nstore racing[{index}:1], global_id.x\n{body}")
    note(racy.text())

    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(racy, *arguments, np.zeros(3, index.dtype), grid=2)

    assert (caught.value.buffer, caught.value.index) == ("racing", 1)
    assert caught.value.first.statement == caught.value.second.statement == 0


ORDERED_LATER = """program ordered_later
block 1 5
index u32
work u32:0, u32:0
inout word: u32
inout racing: u32

store racing[u32:1], global_id.x
atomic compare_exchange word[u8:0], u32:0, u32:0 order acq_rel scope device
"""
WORDS = [np.zeros(1, np.uint32), np.zeros(3, np.uint32)]


@pytest.mark.parametrize("order", ["acquire", "release", "relaxed"])
def test_a_race_before_an_atomic_that_orders_one_way_is_reported(order: str, checked: vc.Device) -> None:
    with pytest.raises(vc.DataRaceError):
        checked.run(vc.parse(ORDERED_LATER.replace("acq_rel", order)), *WORDS, grid=2)


def test_what_was_released_and_acquired_orders_everything_before(checked: vc.Device) -> None:
    """Which the check pays for giving no false alarms (docs/emulator.md): this race is not seen."""
    checked.run(vc.parse(ORDERED_LATER), *WORDS, grid=2)
