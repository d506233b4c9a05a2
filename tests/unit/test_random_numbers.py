"""vc.philox against the vectors published with Random123, and the distributions that are made of it."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

ONES = 2**32 - 1
# Counter, key and result of "philox4x32 10" in Random123's kat_vectors.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def rows(make: object, type_: vc.Type, n: int, seed: int) -> np.ndarray:
    """Row k has the four numbers of counter k."""
    b = vc.Builder("numbers", block=64)
    out = b.output("out", type_, size=4 * n)
    b.work(n)
    i = b.let("i", vc.global_id.x)
    for number, value in enumerate(make(seed, i)):  # type: ignore[operator]
        out[i * 4 + number] = value
    found = vc.evaluate(b.build())
    assert isinstance(found, np.ndarray)
    return found.reshape(n, 4)


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_vectors(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    b = vc.Builder("vector", block=32)
    out = b.output("out", vc.u32, size=4)
    seed = b.scalar("seed", vc.u64)
    words = [b.scalar(f"c{n}", vc.u32) for n in range(4)]
    with b.if_(vc.global_id.x == 0):
        for number, word in enumerate(vc.philox(seed, words)):
            out[number] = word

    np.testing.assert_array_equal(expected, vc.evaluate(b.build(), key[0] | key[1] << 32, *counter))


def test_constants_give_what_values_give() -> None:
    b = vc.Builder("constants", block=32)
    out = b.output("out", vc.u32, size=4)
    with b.if_(vc.global_id.x == 0):
        for number, word in enumerate(vc.philox(0x299F31D0A4093822, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344))):
            out[number] = word

    np.testing.assert_array_equal(VECTORS[2][2], vc.evaluate(b.build()))


def test_uniform_numbers_fill_the_unit_interval() -> None:
    found = rows(vc.uniform, vc.f32, 20_000, 7)

    assert found.min() >= 0
    assert found.max() < 1
    np.testing.assert_array_equal(found * 2**24, np.floor(found * 2**24))
    counts, _ = np.histogram(found, 16, (0, 1))
    assert abs(counts - found.size / 16).max() < 5 * np.sqrt(found.size / 16)


def test_normal_numbers_have_the_moments_of_the_distribution() -> None:
    found = rows(vc.normal, vc.f32, 20_000, 7).astype(np.float64)
    error = 5 / np.sqrt(found.size)

    assert abs(found.mean()) < error
    assert abs((found**2).mean() - 1) < error * np.sqrt(2)
    assert abs((found**4).mean() - 3) < error * np.sqrt(96)
    assert np.isfinite(found).all()
    assert abs(np.corrcoef(found.T) - np.eye(4)).max() < 2 * error


def test_other_seeds_and_counters_give_other_numbers() -> None:
    first, second = rows(vc.philox, vc.u32, 500, 1), rows(vc.philox, vc.u32, 500, 2)

    assert np.unique(np.concatenate([first, second])).size >= 3998  # of 4,000 words of 32 bits


def test_a_counter_has_at_most_four_words() -> None:
    with pytest.raises(TypeError, match="5 given"):
        vc.philox(1, [1, 2, 3, 4, 5])
