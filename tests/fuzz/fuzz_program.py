"""Coverage-guided fuzzing of what untrusted input reaches: program text and wire bytes.

    python tests/fuzz/fuzz_program.py text|wire [corpus directory] [-runs=N] [libFuzzer options]

Needs atheris. Whatever comes in, the answer is a valid program, which must round-trip, or a ProgramError; memory
stays bounded, and nothing hangs (libFuzzer's -timeout and -rss_limit_mb hold it to that). The corpus in
tests/fuzz/corpus grew this way; `test_corpus.py` replays it in the normal run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vyre_cuda"]):
    from vyre_cuda.errors import ProgramError
    from vyre_cuda.ir.core.program import Program
    from vyre_cuda.ir.read.parse import parse

CORPUS = Path(__file__).with_name("corpus")


def text(data: bytes) -> None:
    """Parse; a program that comes of it is its own text's and bytes' program."""
    try:
        program = parse(data.decode("utf-8", "replace"))
    except ProgramError:
        return
    if parse(program.text()) != program or Program.from_bytes(program.to_bytes()) != program:
        raise AssertionError("a parsed program does not survive the round trip")


def wire(data: bytes) -> None:
    """Decode; bytes that are accepted are the canonical ones."""
    try:
        program = Program.from_bytes(data)
    except ProgramError:
        return
    if program.to_bytes() != data:
        raise AssertionError("two encodings of one program")


TARGETS = {"text": text, "wire": wire}


def main(arguments: list[str]) -> None:
    name = arguments[1] if len(arguments) > 1 else ""
    if name not in TARGETS:
        raise SystemExit(f"usage: {arguments[0]} {'|'.join(TARGETS)} [corpus] [libFuzzer options]")
    options = arguments[2:]
    if not any(not option.startswith("-") for option in options):
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        options = [str(CORPUS / name), *options]
    defaults = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
    atheris.Setup([arguments[0], *defaults, *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
