"""Sources of a C++ program around a bundle: it builds without changes, with the bundle embedded."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

_PACKAGE = "vyre_cuda.bundles"
_FOLDER = "launcher_sources"
# In the CMakeLists.txt of a launcher.
_MARK = "dispatches the kernels and graphs of"
# CMake's own names of targets.
_TAKEN = frozenset({"all", "clean", "help", "install", "package", "test", "edit_cache", "rebuild_cache"})


def write_launcher(folder: str | os.PathLike[str], bundle: bytes, *, name: str, version: str) -> list[Path]:
    """Write sources, CMakeLists.txt and the bundle to `folder`, which is created if missing; returns the files written.

    The program is called `name`, as far as CMake allows it. An existing launcher is replaced.
    FileExistsError: the folder belongs to another project; OSError: it cannot be written.
    """
    target = target_name(name)
    names = {"NAME": target, "BUNDLE": f"{target}.vyre", "VERSION": version}
    files = {
        each.name: _filled(each.read_text(encoding="utf-8"), names).encode()
        for each in resources.files(_PACKAGE).joinpath(_FOLDER).iterdir()
    }
    files[names["BUNDLE"]] = bundle
    folder = Path(folder)
    _check_is_ours(folder, files)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file, content in sorted(files.items()):
        written.append(folder / file)
        written[-1].write_bytes(content)
    return written


def target_name(text: str) -> str:
    """`text` as a name that CMake accepts for a project and a program."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "launcher"
    return f"{name}_launcher" if name in _TAKEN or name[0].isdigit() else name


def _filled(text: str, names: dict[str, str]) -> str:
    for key, value in names.items():
        text = text.replace(f"@{key}@", value)
    return text


def _check_is_ours(folder: Path, files: Mapping[str, bytes]) -> None:
    """Raise FileExistsError if files would be replaced that this module did not write."""
    path = folder / "CMakeLists.txt"
    if path.exists() and _MARK in path.read_text(encoding="utf-8", errors="replace"):
        return
    for file, content in sorted(files.items()):
        if (folder / file).exists() and (folder / file).read_bytes() != content:
            raise FileExistsError(
                errno.EEXIST,
                "the folder holds another project; a launcher needs a folder of its own",
                str(folder / file),
            )
