"""A bundle's bytes: header, section table, one array of rows per section.

The layout is that of csrc/bundle/format.h, which reads it and says what each field means. Strings and data are in
sections of their own, and rows refer to them by position; ranges of a table follow the order of their owners.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, TypeAlias

from vyre_cuda.errors import UnsupportedError

# The first format, and the newest: a bundle is written in the first that has what it holds.
FIRST_FORMAT: Final = 1
# 2: extents among the parameters, sizes of arguments; 3: kernels that print, known values; 4: outs that are not zeroed;
# 5: workers; 6: many launches as one, graphs with two forms; 7: many launches as one with arrays that are symbols
FORMAT: Final = 7
MAGIC: Final = b"\x89VYR\r\n\x1a\n"
MOST_TEXT: Final = 4096
# The name of the kernel that clears the results of a worker, behind the worker's.
CLEARING_SUFFIX: Final = "_clear_bytes"

_HEADER: Final = struct.Struct("<8sIIQII32x32s")
_SECTION: Final = struct.Struct("<IIQQ8x")
_DIGEST_AT: Final = _HEADER.size - 32
_ALIGNMENT: Final = 8

Text: TypeAlias = tuple[int, int]
Range: TypeAlias = tuple[int, int]
Data: TypeAlias = tuple[int, int]

NO_DATA: Final = (0, 0)

STRINGS, DATA = 1, 10
# Section -> its row. Texts and ranges are two u32, data two u64.
ROWS: Final = {
    "kernels": (2, struct.Struct("<2I32s2I2I6I2I2I6I2I2Qd")),
    "parameters": (3, struct.Struct("<5I4x")),
    "sizes": (4, struct.Struct("<I4x2I")),
    "steps": (5, struct.Struct("<iiQ")),
    "variants": (6, struct.Struct("<8I6I4Q")),
    "entries": (7, struct.Struct("<4I8x")),
    "bindings": (8, struct.Struct("<4I")),
    "sites": (9, struct.Struct("<9I4x")),
    "graphs": (11, struct.Struct("<8I")),
    "graph_arrays": (12, struct.Struct("<3Q")),
    "graph_symbols": (13, struct.Struct("<6I2Q")),
    "graph_steps": (14, struct.Struct("<8IQ")),
    "graph_values": (15, struct.Struct("<2I2Q")),
    "known": (16, struct.Struct("<4IQ")),
    "conditions": (17, struct.Struct("<4I2Q")),
}


class Writer:
    """Collects rows, texts and data, and lays them out."""

    def __init__(self) -> None:
        self._rows: dict[str, list[bytes]] = {name: [] for name in ROWS}
        self._texts: dict[str, Text] = {}
        self._strings = bytearray()
        self._data = bytearray()
        self._format = FIRST_FORMAT

    def text(self, text: str) -> Text:
        """The position of a text; equal texts share it. UnsupportedError for one that no reader accepts."""
        known = self._texts.get(text)
        if known is not None:
            return known
        encoded = text.encode("utf-8")
        if len(encoded) > MOST_TEXT or b"\0" in encoded:
            raise UnsupportedError(
                f"a text of {len(encoded)} bytes; a text in a bundle has at most {MOST_TEXT} bytes and no NUL",
                capability="text",
            )
        place = (len(self._strings), len(encoded))
        self._strings += encoded + b"\0"
        return self._texts.setdefault(text, place)

    def data(self, data: bytes) -> Data:
        """The position of some bytes."""
        if not data:
            return NO_DATA
        self._data += bytes(-len(self._data) % _ALIGNMENT)
        place = (len(self._data), len(data))
        self._data += data
        return place

    def needs(self, version: int) -> None:
        """What is written now exists from this format on."""
        self._format = max(self._format, version)

    def row(self, table: str, *fields: int | float | bytes) -> None:
        """Append a row."""
        self._rows[table].append(ROWS[table][1].pack(*fields))

    def count(self, table: str) -> int:
        """The number of rows of the table so far, where its next range begins."""
        return len(self._rows[table])

    def pack(self, producer: int) -> bytes:
        """The whole bundle; `producer` is the version of this package as a number."""
        sections = [(STRINGS, 1, bytes(self._strings))]
        sections += [(kind, row.size, b"".join(self._rows[name])) for name, (kind, row) in ROWS.items()]
        sections.append((DATA, 1, bytes(self._data)))
        sections = sorted(section for section in sections if section[2])
        at = _HEADER.size + len(sections) * _SECTION.size
        table, body = [], bytearray()
        for kind, row_bytes, content in sections:
            table.append(_SECTION.pack(kind, row_bytes, at + len(body), len(content)))
            body += content + bytes(-len(content) % _ALIGNMENT)
        size = at + len(body)
        header = _HEADER.pack(MAGIC, self._format, _HEADER.size, size, len(sections), producer, bytes(32))
        return sealed(header + b"".join(table) + bytes(body))


def sealed(bundle: bytes) -> bytes:
    """The bundle with its digest in place."""
    begin, end = bundle[:_DIGEST_AT], bundle[_HEADER.size :]
    digest = hashlib.blake2b(begin + bytes(32) + end, digest_size=32).digest()
    return begin + digest + end
