"""The gallery: examples whose kernels are Python functions, as a person would run them, and against NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import vyre_cuda as vc

from .test_examples import load

fir, nbody, image, groupby, mlp, rnn = map(load, ("fir", "nbody", "image", "groupby", "mlp", "rnn"))
transpose, softmax = map(load, ("transpose", "softmax"))
SVG = "{http://www.w3.org/2000/svg}"


# ---- fir.py ------------------------------------------------------------------------------------------------------


def test_fir_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fir.main(["--blocks", "3", *on]) == 0
    assert "np.convolve" in capsys.readouterr().out


def test_fir_continues_from_block_to_block(device: vc.Device) -> None:
    stream = np.random.default_rng(1).standard_normal(4 * fir.SAMPLES, dtype=np.float32)
    out = np.concatenate(list(fir.filtered(device, stream.reshape(4, -1))))

    np.testing.assert_allclose(out, fir.numpy_filtered(stream), rtol=0, atol=1e-5)


@pytest.mark.thin
def test_fir_is_the_same_as_python() -> None:
    line, taps = np.random.default_rng(2).standard_normal(90, dtype=np.float32), fir.low_pass(9, 0.2)

    np.testing.assert_array_equal(
        vc.evaluate(fir.decimate.program(taps=taps, step=3), line), fir.decimate.python(line, taps, 3)
    )


# ---- nbody.py ----------------------------------------------------------------------------------------------------


def test_nbody_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert nbody.main(["--bodies", "65", "--steps", "10", *on]) == 0
    assert "NumPy in float64" in capsys.readouterr().out


@pytest.mark.parametrize("bodies", [1, 64, 100])
def test_nbody_moves_and_keeps_its_energy(device: vc.Device, bodies: int) -> None:
    pos, (before, after) = nbody.simulate(device, bodies, 20)

    np.testing.assert_allclose(pos, nbody.numpy_simulate(bodies, 20)[0], rtol=0, atol=1e-5)
    assert np.max(np.abs(pos - nbody.start(bodies)[0])) > 0.01
    assert after.sum() == pytest.approx(before.sum(), abs=1e-5)


# ---- rnn.py ------------------------------------------------------------------------------------------------------


def test_rnn_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert rnn.main(["--units", "33", "--steps", "3", *on]) == 0
    printed = capsys.readouterr().out
    assert "have the same bits" in printed
    assert "fusing makes a replay " in printed


def test_rnn_has_two_kernels_a_step_where_it_is_fused(device: vc.Device) -> None:
    arrays = rnn.start(70, 5)
    fills = int(device.properties.is_emulator)  # of the temporary arrays that have memory
    for fuse, nodes in ((False, 30), (True, 10)):
        graph, h = rnn.recorded(device, arrays, fuse=fuse)
        graph.replay()

        assert graph.node_count == nodes + fills
        np.testing.assert_allclose(h.numpy(), rnn.numpy_state(arrays), rtol=0, atol=1e-5)


def test_the_picture_has_the_nodes_of_a_time_step(device: vc.Device) -> None:
    picture = ElementTree.parse(Path(rnn.__file__).parents[1] / "docs" / "pictures" / "merged.svg")
    for name, fuse in (("recorded", False), ("fused", True)):
        (drawn,) = (group for group in picture.iter(f"{SVG}g") if group.get("id") == name)
        graph, _ = rnn.recorded(device, rnn.start(70, 1), fuse=fuse)
        graph.replay()
        text = graph.dot()
        first = re.findall(r"(n\d+) .*fill of temporary arrays", text)  # which the emulator adds
        labels = re.findall(r'label="(\w+)"', text)
        edges = [edge for edge in re.findall(r"(n\d+) -> ", text) if edge not in first]

        assert sorted(str(each.text) for each in drawn.iter(f"{SVG}text")) == sorted(labels)
        assert len([*drawn.iter(f"{SVG}path")]) == len(edges)


# ---- image.py ----------------------------------------------------------------------------------------------------


def test_image_draws_four_pictures(tmp_path: Path, on: tuple[str, str]) -> None:
    source, path = tmp_path / "source.png", tmp_path / "all.png"
    Image.fromarray(image.scene(50, 30)).save(source)

    assert image.main([str(path), "--source", str(source), *on]) == 0
    with Image.open(path) as shown:
        assert shown.size == (200, 30)
        np.testing.assert_array_equal(image.scene(50, 30), np.asarray(shown)[:, :50])


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (31, 33), (70, 9)])
def test_image_of_any_shape_is_numpys(device: vc.Device, shape: tuple[int, int]) -> None:
    picture = np.random.default_rng(3).integers(0, 256, (*shape, 3), dtype=np.uint8)

    assert image.differences(picture, image.processed(device, picture)) == []


def test_image_of_one_color_becomes_black(device: vc.Device) -> None:
    picture = np.full((9, 5, 3), 77, np.uint8)
    results = image.processed(device, picture)

    assert image.differences(picture, results) == []
    assert not results[2].any()


def test_image_check_sees_one_wrong_pixel(device: vc.Device) -> None:
    picture = image.scene(40, 30)
    results = image.processed(device, picture)
    for each in results:
        each[7, 9] += 1

    assert image.differences(picture, results) == ["blur", "edges", "equalized"]


# ---- groupby.py --------------------------------------------------------------------------------------------------

LINES = (
    b"alice,7,12.50",
    b"bob,3,-1.5",
    b"alice,7,2",
    b"alice,-7,.25",
    b",0,-0.01",
    b"bob,3,9999999999999999.99",
    b"bob,-999999999999999999,1.",
)
WRONG = (
    b"x,1",
    b"x",
    b",",
    b"x,1,2,3",
    b"x,,1",
    b"x,1,",
    b"x,1,.",
    b"x,1,-",
    b"x,1,1.234",
    b"x,1.0,1",
    b"x,1.,1",
    b"x,.,1",
    b"x,1,1.2.3",
    b"x,z,1",
    b"x,1,--1",
    b"x,1,1\r",
    b"x,1,99999999999999999.99",
    b"x,1000000000000000000,1",
    b"x,1,000000000000000012",
)


def test_groupby_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert groupby.main(["--rows", "300", "--top", "2", *on]) == 0
    assert "the same as Python" in capsys.readouterr().out


@pytest.mark.parametrize("line", [*LINES, *WRONG, b""], ids=repr)
@pytest.mark.parametrize("end", [b"\n", b""], ids=["ended", "open"])
def test_groupby_reads_lines_as_python_does(device: vc.Device, line: bytes, end: bytes) -> None:
    text = b"first,1,1\n\n" + line + end
    groups, bad = groupby.groups_of(device, text, 8)

    assert (groups, bad) == groupby.python_groups_of(text)
    assert bad == (line in WRONG)


def test_groupby_adds_lines_of_a_group(device: vc.Device) -> None:
    groups, bad = groupby.groups_of(device, b"\n".join([*LINES, *WRONG]), len(LINES))

    assert groups[b"alice", 7] == groupby.Group(2, 1450, 1250)
    assert groups[b"bob", 3] == groupby.Group(2, 999999999999999849, 999999999999999999)
    assert (len(groups), bad) == (5, len(WRONG))


def test_groupby_of_no_text_has_no_groups(device: vc.Device) -> None:
    assert groupby.groups_of(device, b"") == ({}, 0)


def test_groupby_with_too_few_slots_is_an_error(device: vc.Device) -> None:
    with pytest.raises(vc.KernelAssertionError, match="more groups than slots"):
        groupby.groups_of(device, b"\n".join(LINES), 2)


@pytest.mark.thin
def test_groupby_is_the_same_as_python() -> None:
    arguments = np.frombuffer(b"\n".join([*LINES, *WRONG]), np.uint8), np.full(8, groupby.SMALLEST)

    for expected, found in zip(vc.evaluate(groupby.group, *arguments), groupby.group.python(*arguments), strict=True):
        np.testing.assert_array_equal(expected, found)


# ---- mlp.py ------------------------------------------------------------------------------------------------------


@pytest.mark.thin
def test_mlp_runs_and_draws_a_picture(tmp_path: Path, on: tuple[str, str]) -> None:
    path = tmp_path / "plane.png"

    assert mlp.main(["--points", "90", "--picture", str(path), "--size", "16", *on]) == 0
    with Image.open(path) as plane:
        assert plane.size == (16, 16)
        assert len(np.unique(np.asarray(plane).reshape(-1, 3), axis=0)) > 10


@pytest.mark.thin(5)
@pytest.mark.parametrize("count", [1, 17, 40])
@pytest.mark.parametrize("type_", [vc.f16, vc.f32, vc.f64], ids=str)
def test_mlp_is_numpys_for_every_type_of_weights(device: vc.Device, count: int, type_: vc.Type) -> None:
    points, label = mlp.spirals(count)
    network = mlp.trained(points, label).rounded(type_)
    expected = mlp.numpy_classified(network, points)

    np.testing.assert_allclose(mlp.classified(device, network, points), expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(mlp.classified_one_by_one(device, network, points), expected, rtol=0, atol=1e-4)


def test_mlp_tells_the_spirals_apart(device: vc.Device) -> None:
    points, label = mlp.spirals(150)
    found = mlp.classified(device, mlp.trained(points, label), points)

    assert np.mean(np.argmax(found, axis=1) == label) > 0.9


def test_mlp_refuses_more_classes_than_lanes(device: vc.Device) -> None:
    with pytest.raises(vc.KernelAssertionError, match="32 lanes"):
        mlp.softmax.on(device)(np.zeros((2, 33), np.float32))


# ---- transpose.py and softmax.py -----------------------------------------------------------------------------------


def test_transpose_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert transpose.main(["--rows", "70", "--columns", "45", *on]) == 0
    assert "bit for bit" in capsys.readouterr().out


@pytest.mark.parametrize("tile", [32, 64])
@pytest.mark.parametrize("shape", [(1, 1), (32, 64), (33, 97)])
def test_transpose_is_that_of_numpy(device: vc.Device, shape: tuple[int, int], tile: int) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)

    np.testing.assert_array_equal(transpose.transpose.on(device)(x, tile), x.T)


def test_transpose_writes_every_element() -> None:
    x = np.ones((35, 70), np.int8)

    np.testing.assert_array_equal(vc.evaluate(transpose.transpose.program(T=vc.i8), x, check="initialized"), x.T)


def test_softmax_runs(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert softmax.main(["--rows", "3", "--columns", "700", *on]) == 0
    assert "NumPy in float64" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [1, 31, 256, 257, 1024])
def test_softmax_is_within_its_bound(device: vc.Device, columns: int) -> None:
    x = np.random.default_rng(3).uniform(-30, 30, (3, columns)).astype(np.float32)

    np.testing.assert_allclose(softmax.softmax(device, x), softmax.numpy_softmax(x), rtol=softmax.bound(x), atol=0)


def test_softmax_is_the_same_as_the_interpreters(device: vc.Device) -> None:
    x = np.random.default_rng(4).standard_normal((2, 600), dtype=np.float32)
    expected = vc.evaluate(softmax.softmax_of.program(columns=600), x, check="initialized")

    np.testing.assert_array_equal(softmax.softmax(device, x), expected)


def test_softmax_reads_each_element_once() -> None:
    ptx = vc.ptx(softmax.softmax_of.program(columns=1024))

    assert ptx.count("ld.global") == ptx.count("st.global") == 1024 // softmax.BLOCK


def test_softmax_refuses_rows_that_do_not_fit(device: vc.Device) -> None:
    with pytest.raises(ValueError, match="16385 elements"):
        softmax.softmax(device, np.zeros((1, softmax.MOST_COLUMNS + 1), np.float32))
