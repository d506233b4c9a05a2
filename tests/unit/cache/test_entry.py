"""The format of cached files: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_cuda.cache import entry
from vyre_cuda.cache.digest import BYTES, digest, key_of

KEY = bytes(range(BYTES))
SECTIONS = (b'{"facts":1}', b".version 7.8\n", bytes(range(200)))
WHOLE = entry.encode(KEY, SECTIONS)

keys = st.binary(min_size=BYTES, max_size=BYTES)
sections = st.lists(st.binary(max_size=60), max_size=entry.MAX_SECTIONS)


@given(key=keys, parts=sections)
def test_sections_are_read_back(key, parts):
    data = entry.encode(key, parts)

    assert entry.decode(data, key) == tuple(parts)
    assert len(data) == entry.file_bytes(parts)


@given(position=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed(position, bit):
    changed = bytearray(WHOLE)
    changed[position] ^= 1 << bit

    with pytest.raises(entry.Damaged):
        entry.decode(bytes(changed), KEY)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_cut_file_is_noticed(size):
    with pytest.raises(entry.Damaged):
        entry.decode(WHOLE[:size], KEY)


@given(more=st.binary(min_size=1, max_size=40))
def test_a_file_with_more_behind_it_is_noticed(more):
    with pytest.raises(entry.Damaged):
        entry.decode(WHOLE + more, KEY)


@given(other=keys.filter(lambda key: key != KEY))
def test_a_file_under_another_name_is_noticed(other):
    with pytest.raises(entry.Damaged, match="another key"):
        entry.decode(WHOLE, other)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    with pytest.raises(entry.Damaged):
        entry.decode(data, KEY)


@given(
    count=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(0, 2**64 - 1), max_size=20),
    body=st.binary(max_size=60),
    version=st.sampled_from((entry.FORMAT, entry.FORMAT + 1, 0)),
)
def test_hostile_lengths_under_a_right_digest_are_refused_or_cover_the_file(count, lengths, body, version):
    """Somebody who can make digests can still do no more than hand over sections of his file."""
    rest = b"".join(length.to_bytes(8, "little") for length in lengths) + body
    size = 56 + BYTES + len(rest)
    head = entry._HEAD.pack(entry.MAGIC, version, count, size, KEY)
    data = head + digest(head, rest) + rest
    try:
        found = entry.decode(data, KEY)
    except entry.Damaged:
        return
    assert version == entry.FORMAT
    assert entry.encode(KEY, found) == data


@pytest.mark.parametrize(
    "key, parts",
    [(KEY[1:], [b""]), (KEY, [b""] * (entry.MAX_SECTIONS + 1)), (KEY, [bytes(entry.MAX_BYTES)])],
    ids=["key", "sections", "bytes"],
)
def test_what_no_reader_would_take_is_not_written(key, parts):
    with pytest.raises(ValueError):
        entry.encode(key, parts)


@given(first=st.lists(st.binary(max_size=8), max_size=5), second=st.lists(st.binary(max_size=8), max_size=5))
def test_keys_are_equal_for_equal_parts_alone(first, second):
    assert (key_of(first) == key_of(second)) == (first == second)


def test_a_digest_is_that_of_hashlib():
    import hashlib

    expected = hashlib.blake2b(b"one" + b"two", digest_size=BYTES).digest()

    assert digest(b"one", b"two") == expected
