"""BLAKE2b with 32 bytes, of one string or of several that are kept apart."""

from __future__ import annotations

from collections.abc import Iterable

try:
    from _blake2 import blake2b  # `hashlib` also loads OpenSSL, which takes milliseconds
except ImportError:
    from hashlib import blake2b

BYTES = 32


def digest(*parts: bytes | memoryview) -> bytes:
    """The digest of the parts one after the other."""
    return digest_of_all(parts)


def digest_of_all(parts: Iterable[bytes | memoryview]) -> bytes:
    """The same of parts of which each is needed only once."""
    state = blake2b(digest_size=BYTES)
    for part in parts:
        state.update(part)
    return state.digest()


def key_of(parts: Iterable[bytes]) -> str:
    """A name for these parts in this order, in hex. The length of each is included, so no other parts give the same."""
    state = blake2b(digest_size=BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()
