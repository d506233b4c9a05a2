"""The format of a cached file: a header, then sections of bytes.

Header, little-endian: magic, format (u32), number of sections (u32), length of the file (u64), key, digest, then the
length of each section (u64). The digest covers everything else, so a file that was changed, truncated or put there by
somebody else is recognized, and so is a file under a wrong name.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from vyre_cuda.cache.digest import BYTES, digest
from vyre_cuda.errors import counted

MAGIC = b"\x89vyc\r\n\x1a\n"
FORMAT = 1
# Bounds what a reader loads into memory.
MAX_SECTIONS = 16
MAX_BYTES = 64 << 20

_HEAD = struct.Struct(f"<8sIIQ{BYTES}s")
_DIGEST_END = _HEAD.size + BYTES
_LENGTH = struct.Struct("<Q")


class Damaged(Exception):
    """Not a file of this format with this key; the message says why."""


def encode(key: bytes, sections: Sequence[bytes]) -> bytes:
    """The file of these sections. ValueError: too many, or too long."""
    size = file_bytes(sections)
    if len(sections) > MAX_SECTIONS or size > MAX_BYTES or len(key) != BYTES:
        raise ValueError(f"cannot store {len(sections)} sections of {size} bytes under a key of {len(key)} bytes")
    head = _HEAD.pack(MAGIC, FORMAT, len(sections), size, key)
    rest = b"".join([*(_LENGTH.pack(len(section)) for section in sections), *sections])
    return b"".join((head, digest(head, rest), rest))


def file_bytes(sections: Sequence[bytes]) -> int:
    """The length of the file of these sections."""
    return _DIGEST_END + sum(_LENGTH.size + len(section) for section in sections)


def decode(data: bytes, key: bytes) -> tuple[bytes, ...]:
    """The sections of a file. Raises Damaged if it is not a file with this key."""
    if len(data) < _DIGEST_END:
        raise Damaged(f"truncated header: {len(data)} of {_DIGEST_END} bytes")
    magic, version, count, size, own = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("not a file of this cache")
    if version != FORMAT:
        raise Damaged(f"format {version}, not {FORMAT}")
    if size != len(data):
        raise Damaged(f"the file has {len(data)} bytes; its header says {size}")
    view = memoryview(data)
    if digest(view[: _HEAD.size], view[_DIGEST_END:]) != view[_HEAD.size : _DIGEST_END]:
        raise Damaged("the digest does not match")
    if own != key:
        raise Damaged("the file belongs to another key")
    start = _DIGEST_END + count * _LENGTH.size
    if count > MAX_SECTIONS or start > len(data):
        raise Damaged(f"a file of {len(data)} bytes cannot hold the {counted(count, 'section')} of its header")
    sections = []
    for number in range(count):
        (length,) = _LENGTH.unpack_from(data, _DIGEST_END + number * _LENGTH.size)
        if length > len(data) - start:
            raise Damaged(f"section {number} extends past the end of the file")
        sections.append(data[start : start + length])
        start += length
    if start != len(data):
        raise Damaged(f"the file has {counted(len(data) - start, 'byte')} after the last section")
    return tuple(sections)
