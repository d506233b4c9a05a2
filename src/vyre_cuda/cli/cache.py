"""`vyre-cuda cache`: what the disk cache of kernels holds, whether its files are intact, and removing them."""

from __future__ import annotations

import os
from typing import Any

from vyre_cuda.cache import files
from vyre_cuda.cache.directory import VARIABLE, cache_root
from vyre_cuda.cache.store import MAX_BYTES
from vyre_cuda.cli.console import Console, columns
from vyre_cuda.errors import counted

_GOOD, _DAMAGED = 0, 1
ACTIONS = {"info": "where it is and what it holds", "verify": "read every file", "clear": "remove every file"}


def cache(console: Console, *, action: str) -> int:
    """Print it; 1 if `verify` finds a damaged file. Needs no device. CacheError, OSError: the cache cannot be used."""
    root = cache_root(os.environ)
    if root is None:
        return _off(console, action)
    if action == "clear":
        return _clear(console, root)
    return _verify(console, root) if action == "verify" else _info(console, root)


def _off(console: Console, action: str) -> int:
    if console.json:
        console.data({"action": action, "directory": None})
    else:
        console.line(f"no disk cache: {VARIABLE}={os.environ[VARIABLE]}")
    return _GOOD


def _info(console: Console, root: str) -> int:
    held = files.contents(root)
    facts: dict[str, Any] = {
        "directory": root,
        "entries": held.entries,
        "bytes": held.bytes,
        "max_bytes": MAX_BYTES,
        "unfinished": held.partial,
    }
    if console.json:
        console.data({"action": "info", **facts})
    else:
        console.line("\n".join(columns([[name.replace("_", " "), str(value)] for name, value in facts.items()])))
    return _GOOD


def _verify(console: Console, root: str) -> int:
    held, wrong = files.contents(root), files.verify(root)
    if console.json:
        console.data({"action": "verify", "directory": root, "entries": held.entries, "damaged": wrong})
    else:
        for name, reason in wrong.items():
            console.line(f"{name}: {reason}")
        console.line(f"{counted(held.entries, 'file')} in {root}, {len(wrong)} damaged")
    return _DAMAGED if wrong else _GOOD


def _clear(console: Console, root: str) -> int:
    removed = files.clear(root)
    if console.json:
        console.data({"action": "clear", "directory": root, "removed": removed})
    else:
        console.line(f"{counted(removed, 'file')} removed from {root}")
    return _GOOD
