"""Sums by group of a CSV file: each thread parses the line that starts at its byte, and adds it to a hash table.

Run it: `python examples/groupby.py --rows 5000 --device auto`, or with `--file sales.csv`, of lines such as
`alice,7,12.50`: a name, an integer and an amount.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import vyre_cuda as vc

COMMA, END, POINT, MINUS, ZERO = map(ord, ",\n.-0")
# In the table, a free slot. A group whose hash is 0, or that of another group, is improbable: one in 2^64.
FREE = 0
# Where the hash of a name begins (FNV-1a).
FNV = vc.u64(0xCBF29CE484222325)
# Digits of a number: 10 ** 18 is within i64.
MOST_DIGITS = 18
SMALLEST = -(2**63)


@vc.func
def hashed(text, p, key):
    """The hash (FNV-1a) of a field, begun with `key`, and where the field ends."""
    while p < text.size and text[p] not in (COMMA, END):
        key, p = (key ^ vc.u64(text[p])) * 0x100000001B3, p + 1
    return key, p


@vc.func
def digits(text, p, value):
    """The number to which the digits at a place are appended, and where they end."""
    while text[p] - ZERO <= 9:  # what is no digit wraps to a large number; past the end is 0
        value, p = value * 10 + vc.i64(text[p] - ZERO), p + 1
    return value, p


@vc.func
def number(text, at, places):
    """A number with at most `places` decimals, in units of the last one, and where it ends; -1 where there is none."""
    first = at + vc.i32(text[at] == MINUS)
    whole, p = digits(text, first, vc.i64(0))
    q = p + 1 if places > 0 and text[p] == POINT else p
    value, end = digits(text, q, whole)
    missing = places - (end - q)
    good = missing >= 0 and p - first + end - q > 0 and p - first + places <= MOST_DIGITS
    return (-value if text[at] == MINUS else value) * 10 ** vc.i64(missing), end if good else -1


@vc.func
def slot_of(keys, key):
    """Where a key is in the table; a new key takes the next free slot."""
    slot, tries = vc.i32(key * 0x9E3779B97F4A7C15 >> 33) % keys.size, vc.i32(0)
    while vc.atomic_compare_exchange(keys, slot, FREE, key) not in (FREE, key):
        slot, tries = (slot + 1) % keys.size, tries + 1
        assert tries < keys.size, "there are more groups than slots"
    return slot


@vc.kernel(block=128)
def group(text: vc.In[vc.u8], largest: vc.InOut[vc.i64]):
    # In `last`, where the last line of a group starts.
    keys, count, cents, last = (vc.output(each, largest.size) for each in (vc.u64, vc.u32, vc.i64, vc.i32))
    bad = vc.output(vc.u32, 1)
    i = vc.work(text.size)
    if i < text.size and text[i] != END and (i == 0 or text[i - 1] == END):
        name, p = hashed(text, i, FNV)
        ident, q = number(text, p + 1, 0)
        price, r = number(text, q + 1, 2)
        if text[p] == COMMA and text[q] == COMMA and (r == text.size or text[r] == END):
            slot = slot_of(keys, name ^ vc.u64(ident))
            vc.atomic_add(count, slot, 1)
            vc.atomic_add(cents, slot, price)
            vc.atomic_max(largest, slot, price)
            vc.atomic_max(last, slot, i)
        else:
            vc.atomic_add(bad, 0, 1)


class Group(NamedTuple):
    """Lines of one name and integer; amounts are in cents."""

    count: int
    total: int
    largest: int


Groups = dict[tuple[bytes, int], Group]


def groups_of(device: vc.Device, text: bytes, slots: int = 1024) -> tuple[Groups, int]:
    """The groups, at most as many as slots, and the number of lines that are wrong."""
    characters = np.frombuffer(text, np.uint8)
    largest, _, count, total, last, bad = group.on(device)(characters, np.full(slots, SMALLEST))
    found = {}
    for slot in np.flatnonzero(count):
        name, ident, _ = text[last[slot] :].split(b"\n", 1)[0].split(b",")
        found[name, int(ident)] = Group(int(count[slot]), int(total[slot]), int(largest[slot]))
    return found, int(bad[0])


def python_groups_of(text: bytes) -> tuple[Groups, int]:
    """The same in Python, line by line."""
    amounts: dict[tuple[bytes, int], list[int]] = {}
    bad = 0
    for line in filter(None, text.split(b"\n")):
        row = re.fullmatch(rb"([^,]*),(-?\d{1,18}),(-?)(?=\.?\d)(\d{0,16})(?:\.(\d{0,2}))?", line)
        if row is None:
            bad += 1
            continue
        name, ident, sign, whole, cents = row.groups()
        amount = int(whole or 0) * 100 + int((cents or b"").ljust(2, b"0"))
        amounts.setdefault((name, int(ident)), []).append(-amount if sign else amount)
    return {key: Group(len(each), sum(each), max(each)) for key, each in amounts.items()}, bad


def sales(rows: int) -> bytes:
    """Lines of random sales."""
    rng = np.random.default_rng(0)
    names = rng.choice(["alice", "bob", "carol", "dave", "eve", "Ægir"], rows)
    amounts = rng.integers(-(10**6), 10**6, rows) / 100
    each = zip(names, rng.integers(-5, 20, rows), amounts, strict=True)
    return "".join(f"{name},{ident},{amount:.2f}\n" for name, ident, amount in each).encode()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="sums by group of a CSV file, checked against Python")
    parser.add_argument("--file", type=Path, help="the file to read (default: lines that are made)")
    parser.add_argument("--rows", type=int, default=5000, help="lines to make (default: 5000)")
    parser.add_argument("--slots", type=int, default=1024, help="most groups (default: 1024)")
    parser.add_argument("--top", type=int, default=5, help="how many of the largest sums to show (default: 5)")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, an ordinal, or emulator")
    options = parser.parse_args(argv)

    text = sales(options.rows) if options.file is None else options.file.read_bytes()
    with vc.Device(options.device) as device:
        groups, bad = groups_of(device, text, options.slots)
        print(f"{len(text):,} bytes, {len(groups)} groups, {bad} wrong lines on {device.properties.name}")
    print(f"{'name':12}{'number':>8}{'lines':>8}{'sum':>14}{'largest':>12}")
    for (name, ident), each in sorted(groups.items(), key=lambda item: -item[1].total)[: options.top]:
        amounts = f"{each.total / 100:14,.2f}{each.largest / 100:12,.2f}"
        print(f"{name.decode(errors='replace'):12}{ident:8}{each.count:8,}{amounts}")

    if (groups, bad) != python_groups_of(text):
        print("differs from Python", file=sys.stderr)
        return 1
    print("the same as Python, line by line")
    return 0


if __name__ == "__main__":
    sys.exit(main())
