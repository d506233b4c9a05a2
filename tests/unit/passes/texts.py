"""What the tests of the passes share."""

from __future__ import annotations

import vyre_cuda as vc


def body(program: vc.Program) -> str:
    """The text behind the declarations."""
    return program.text().partition("\n\n")[2].strip()
