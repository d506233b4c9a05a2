"""How large a program and its launches may be. Parser, decoder and validator refuse larger ones and name the limit."""

from __future__ import annotations

MAX_NESTING = 64
MAX_DEPTH = 128
MAX_STATEMENTS = 65_536
# Counted as a tree: an expression object used twice counts twice, as it does in text, wire bytes and code.
MAX_EXPRESSIONS = 1_048_576
MAX_PARAMETERS = 256
# Of a buffer or shared array.
MAX_AXES = 4
MAX_BLOCK_THREADS = 1024
MAX_BLOCKS_AT_ONCE = 32  # on a multiprocessor, the most of all CUDA devices
MAX_PRINTED_VALUES = 8  # of one line
MAX_SHARED_BYTES = 227 * 1024
MAX_TABLE_BYTES = 1 << 20  # of all tables: they are part of the program's text
MAX_LOCAL_BYTES = 64 * 1024  # of all arrays of a thread; a device has them for every resident thread
# Threads from which a launch is large. On an H200 several elements a thread are faster from here on, and within 3 %
# below (`passes/elements.py`).
LARGE_LAUNCH = 1 << 18
# Blocks of a launch per axis, on every CUDA device (CUDA C++ programming guide, compute capabilities).
MAX_GRID = (2**31 - 1, 65535, 65535)
