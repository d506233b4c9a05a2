"""Coverage-guided fuzzing of what a cache file reaches before a driver sees any of it.

    python tests/fuzz/fuzz_cache.py file|signed|facts [corpus directory] [-runs=N] [libFuzzer options]

Needs atheris. `file` is any bytes as a file, `signed` a file whose digest matches, as somebody can make who writes to
the directory, `facts` what such a file says of a program. Whatever comes in, the answer is Damaged or ValueError, or
exactly what was written.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["vyre_cuda"]):
    from vyre_cuda.cache import entry
    from vyre_cuda.cache.digest import BYTES, digest
    from vyre_cuda.codegen.core.target import Target
    from vyre_cuda.codegen.lower import lower
    from vyre_cuda.descriptors import stored
    from vyre_cuda.ir.read.parse import parse

KEY = bytes(BYTES)
_DIGEST = 24 + BYTES
PROGRAM = parse(
    """\
program small
block 32
in x: u32
out y: u32[size(x)]
scalar a: f32

let i = global_id.x
assert less(i, u32:9), "nine"
store y[i], load(x[i])
"""
)
LOWERED = lower(PROGRAM, Target.parse("sm_90"), bounds="trap")
TEXT = LOWERED.ptx.encode()


def file(data: bytes) -> None:
    """A file that is accepted is the one of its sections."""
    try:
        sections = entry.decode(data, KEY)
    except entry.Damaged:
        return
    if entry.encode(KEY, sections) != data:
        raise AssertionError("two files of the same sections")


def signed(data: bytes) -> None:
    """The same with the digest put right."""
    file(data[:_DIGEST] + digest(data[:_DIGEST], data[_DIGEST:]) + data[_DIGEST:])


def facts(data: bytes) -> None:
    """Facts that are accepted can be stored again."""
    try:
        found = stored.decode(data, TEXT, PROGRAM)
    except ValueError:
        return
    if stored.decode(stored.encode(found), TEXT, PROGRAM) != found:
        raise AssertionError("facts do not survive the round trip")


TARGETS = {"file": file, "signed": signed, "facts": facts}
_SEED = entry.encode(KEY, [b"a", b"", b"bc"])
SEEDS = {
    "file": _SEED,
    "signed": entry.encode(KEY, [b"a", b"", b"bc"])[:_DIGEST]
    + entry.encode(KEY, [b"a", b"", b"bc"])[_DIGEST + BYTES :],
    "facts": stored.encode(LOWERED),
}


def main(arguments: list[str]) -> None:
    name = arguments[1] if len(arguments) > 1 else ""
    if name not in TARGETS:
        raise SystemExit(f"usage: {arguments[0]} {'|'.join(TARGETS)} [corpus] [libFuzzer options]")
    TARGETS[name](SEEDS[name])
    defaults = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
    atheris.Setup([arguments[0], *defaults, *arguments[2:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
