"""Programs that tests run: of the environment that the tests run in first, whether it is activated or not."""

from __future__ import annotations

import os
import shutil
import sysconfig

PLACES = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))


def find_program(name: str) -> str | None:
    """The path of a program, or None where it is not installed."""
    return shutil.which(name, path=PLACES)


def program(name: str) -> str:
    """The path of a program that must be installed."""
    found = find_program(name)
    assert found is not None, f"{name} is not installed"
    return found
