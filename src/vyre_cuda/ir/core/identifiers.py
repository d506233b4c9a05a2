"""What a name may be, in a builder, in text and in a program made by hand."""

from __future__ import annotations

# Words that cannot be names: Python keywords, which a keyword argument of a call could not carry, and the one id
# without an axis. Every other word of the format is recognized by its position.
RESERVED = frozenset({"if", "else", "for", "while", "break", "continue", "return", "assert", "lane_id"})


def is_identifier(name: str) -> bool:
    """Whether it consists of ASCII letters, digits and _, and does not begin with a digit."""
    return name.isascii() and name.isidentifier()
