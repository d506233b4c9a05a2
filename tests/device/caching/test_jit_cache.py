"""`vc.configure_jit_cache` in processes of their own: before the driver starts, once, and never silently."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

EMULATOR = str(Path(get_library_dir()) / EMULATOR_LIBRARY)
GIB = 1 << 30


def run(code: str, **environment: str) -> str:
    """What the code prints; the driver of its process is the emulator's library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_CACHE", "XDG_"))}
    head = "import os, warnings\nimport vyre_cuda as vc\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", head + textwrap.dedent(code)],
        env={**kept, "VYRE_CUDA_DRIVER": EMULATOR, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


REFUSED = """
try:
    vc.configure_jit_cache({arguments})
except {error} as error:
    print(error)
else:
    raise SystemExit("not refused")
"""


def refused(arguments: str = "", error: str = "vc.CacheError", before: str = "", **environment: str) -> str:
    return run(before + REFUSED.format(arguments=arguments, error=error), **environment)


def test_the_environment_of_the_driver_is_set(tmp_path):
    expected = tmp_path / "vyre-cuda" / "cuda-jit"
    shown = run(
        """
        made = vc.configure_jit_cache()
        print(made.directory, made.max_bytes, made.enabled, dict(made.variables))
        print(os.environ["CUDA_CACHE_PATH"], os.environ["CUDA_CACHE_MAXSIZE"], "CUDA_CACHE_DISABLE" in os.environ)
        """,
        XDG_CACHE_HOME=str(tmp_path),
    )

    variables = {"CUDA_CACHE_PATH": str(expected), "CUDA_CACHE_MAXSIZE": str(GIB)}
    assert shown.splitlines() == [f"{expected} {GIB} True {variables}", f"{expected} {GIB} False"]
    assert expected.stat().st_mode & 0o777 == 0o700
    assert list(expected.iterdir()) == []


def test_the_c_library_sees_what_was_set(tmp_path):
    code = """
    import ctypes
    vc.configure_jit_cache({0!r}, max_bytes=5)
    get = ctypes.CDLL(None).getenv
    get.restype = ctypes.c_char_p
    print(get(b"CUDA_CACHE_PATH").decode(), get(b"CUDA_CACHE_MAXSIZE").decode())
    """

    assert run(code.format(str(tmp_path / "jit"))) == f"{tmp_path / 'jit'} 5"


def test_it_is_configured_once(tmp_path):
    code = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: vc.configure_jit_cache(max_bytes=5), range(32)))
    print(len(set(map(id, made))))
    try:
        vc.configure_jit_cache(max_bytes=6)
    except vc.CacheError as error:
        print(error)
    """
    first, second = run(code, XDG_CACHE_HOME=str(tmp_path)).splitlines()

    assert first == "1"
    assert "once" in second


def test_the_same_call_is_answered_after_the_driver_has_started(tmp_path):
    code = """
    made = vc.configure_jit_cache()
    vc.Device("cuda").close()
    print(vc.configure_jit_cache() is made)
    """

    assert run(code, XDG_CACHE_HOME=str(tmp_path)) == "True"


STARTED = {
    "device": 'vc.Device("cuda").close()\n',
    "other library": f'import ctypes\nctypes.CDLL("{EMULATOR}").cuInit(0)\n',
}


@pytest.mark.parametrize("before", STARTED.values(), ids=STARTED)
def test_a_driver_that_has_started_is_told_of(before, tmp_path):
    message = refused(before=before, XDG_CACHE_HOME=str(tmp_path))

    assert "has started" in message
    assert "CUDA_CACHE_PATH" in message
    assert not (tmp_path / "vyre-cuda" / "cuda-jit").exists()


def test_a_driver_that_is_only_loaded_has_not_started(tmp_path):
    code = f"""
    import ctypes
    ctypes.CDLL({EMULATOR!r})
    print(vc.configure_jit_cache().enabled)
    """

    assert run(code, XDG_CACHE_HOME=str(tmp_path)) == "True"


def test_a_disabled_cache_is_a_warning(tmp_path):
    code = """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = vc.configure_jit_cache(force={force})
    print(made.enabled, os.environ["CUDA_CACHE_DISABLE"], *(str(w.message) for w in caught))
    """
    environment = {"XDG_CACHE_HOME": str(tmp_path), "CUDA_CACHE_DISABLE": "1"}

    assert run(code.format(force=False), **environment).startswith("False 1 CUDA_CACHE_DISABLE=1")
    assert run(code.format(force=True), **environment) == "True 0"


@pytest.mark.thin
@pytest.mark.parametrize(
    "arguments, error",
    [
        ("''", "ValueError"),
        ("max_bytes=0", "ValueError"),
        ("max_bytes=-1", "ValueError"),
        ("max_bytes='1'", "TypeError"),
        ("max_bytes=True", "TypeError"),
        ("max_bytes=1.5", "TypeError"),
        ("5", "TypeError"),
    ],
)
def test_wrong_arguments_are_refused_and_may_be_put_right(arguments, error, tmp_path):
    after = "print(vc.configure_jit_cache().enabled)"
    shown = run(REFUSED.format(arguments=arguments, error=error) + after, XDG_CACHE_HOME=str(tmp_path))

    assert shown.endswith("True")


@pytest.mark.parametrize("by", ["argument", "operator", "default"])
def test_a_directory_that_cannot_be_made_is_refused(by, tmp_path):
    (tmp_path / "file").write_text("in the way")
    place = str(tmp_path / "file" / "jit")
    environment = {"operator": {"CUDA_CACHE_PATH": place}, "default": {"XDG_CACHE_HOME": str(tmp_path / "file")}}
    message = refused(repr(place) if by == "argument" else "", **environment.get(by, {}))

    assert str(tmp_path / "file") in message
    assert "CUDA_CACHE_PATH" in message


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    """/proc takes no files from anybody."""
    assert "/proc/self" in refused("'/proc/self'")


def test_the_extension_tells_a_library_that_is_no_driver():
    from vyre_cuda._native.core.context import driver_started

    ctypes.CDLL("libc.so.6")
    assert driver_started("/nowhere/libcuda.so.1") is False
    with pytest.raises(vc.DeviceUnavailableError):
        driver_started("libc.so.6")
