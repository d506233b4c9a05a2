"""Shapes that broadcast, as few axes with strides: every element is found where NumPy finds it."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_cuda.frontend.broadcasting import Layout, layout


def gathered(found: Layout, which: int, array: np.ndarray) -> np.ndarray:
    """The elements of an array that the layout names for each element of the result."""
    places = np.zeros(found.extents, np.int64)
    for axis, (extent, stride) in enumerate(zip(found.extents, found.strides[which], strict=True)):
        along = np.arange(extent) * stride
        places += along.reshape([-1 if at == axis else 1 for at in range(len(found.extents))])
    return array.reshape(-1)[places].reshape(found.shape)


@pytest.mark.parametrize("seed", range(200))
def test_elements_are_those_of_numpy_over_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, rng.integers(0, 6)).tolist())
    shapes = []
    for _ in range(rng.integers(1, 4)):
        own = tuple(extent if rng.random() < 0.6 else 1 for extent in shape)
        shapes.append(own[rng.integers(0, len(own) + 1) :])
    arrays = [np.arange(np.prod(each, dtype=int)).reshape(each) for each in shapes]
    found = layout(tuple(shapes))
    assert found.shape == np.broadcast_shapes(*shapes)
    assert found.size == np.prod(found.extents, dtype=int)
    for which, expected in enumerate(np.broadcast_arrays(*arrays)):
        assert np.array_equal(gathered(found, which, arrays[which]), expected)


def test_neighbors_that_no_array_tells_apart_are_one_axis() -> None:
    assert layout(((2, 3, 4), (2, 3, 4))) == Layout((2, 3, 4), (24,), ((1,), (1,)))
    assert layout(((2, 3, 1, 4), (3, 1, 4))) == Layout((2, 3, 1, 4), (2, 12), ((12, 1), (0, 1)))
    assert layout(((5, 1), (1, 6))) == Layout((5, 6), (5, 6), ((1, 0), (0, 1)))


def test_arrays_of_the_shape_of_the_result_are_plain() -> None:
    assert layout(((2, 3), (1, 2, 3))).is_plain
    assert layout(((), ())).is_plain
    assert not layout(((2, 3), (3,))).is_plain
    assert not layout(((3,),), (2, 3)).is_plain


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    for shapes, shape in [([(2,), (3,)], None), ([(2,)], (3,)), ([(2, 3)], (3,)), ([(4,)], ())]:
        with pytest.raises(ValueError, match="shape"):
            layout(tuple(shapes), shape)
