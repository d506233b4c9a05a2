"""Which driver and device a name stands for, and what to check there."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Iterable

from vyre_cuda._native.core.context import Driver
from vyre_cuda.errors import DeviceUnavailableError, UnsupportedError, counted, type_name
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

_OWN_FILES = os.path.join(sys.modules["vyre_cuda"].__path__[0], "")
# The checks that the emulator offers.
CHECKS = frozenset({"races", "initialized"})
# kMaxDevices of csrc/emulator/driver/call.h.
_MOST_EMULATED = 8


def open_driver(which: int | str, check: str | Iterable[str] | None) -> tuple[Driver, int, frozenset[str]]:
    """The driver, the ordinal and the checks by name. UnsupportedError for checks on a CUDA device."""
    checks = _checks(check)
    driver, ordinal = _open(which)
    require_checks(checks, is_emulator=driver.info()[2])
    return driver, ordinal, checks


def require_checks(checks: Collection[str], *, is_emulator: bool) -> None:
    """UnsupportedError for checks on a CUDA device."""
    if checks and not is_emulator:
        named = ", ".join(sorted(checks))
        raise UnsupportedError(f'check={named} on a CUDA device; only Device("emulator") can check', capability="check")


def _checks(check: str | Iterable[str] | None) -> frozenset[str]:
    if check is None:
        return frozenset()
    if not isinstance(check, Iterable):
        raise TypeError(f"check= is {type_name(check)}; it must be a name or several names")
    given = [check] if isinstance(check, str) else list(check)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"check= has {type_name(name)}; it must be a name or several names")
    named = frozenset(given)
    if not named <= CHECKS:
        raise ValueError(f"check={check!r}; known checks are {', '.join(sorted(CHECKS))}")
    return named


def cuda_driver() -> Driver:
    return Driver(os.environ.get("VYRE_CUDA_DRIVER") or None)


def emulator_driver() -> Driver:
    """The emulator. ValueError if VYRE_CUDA_EMULATOR_DEVICES is not a number of devices that it can have."""
    count = os.environ.get("VYRE_CUDA_EMULATOR_DEVICES", "")
    if count and count not in map(str, range(1, _MOST_EMULATED + 1)):
        raise ValueError(f"VYRE_CUDA_EMULATOR_DEVICES={count!r}; it must be a number from 1 to {_MOST_EMULATED}")
    return Driver(os.path.join(get_library_dir(), EMULATOR_LIBRARY))


def _open(which: int | str, told: str = "device ") -> tuple[Driver, int]:
    """The driver and the ordinal; `told` precedes the name in an error."""
    if isinstance(which, bool) or not isinstance(which, (int, str)):
        names = '"cuda", "cuda:N", "emulator", "emulator:N" or "auto"'
        raise TypeError(f"a device is an ordinal, {names}, not {type_name(which)}")
    if isinstance(which, int):
        return cuda_driver(), which
    name, _, number = which.partition(":")
    if which == "emulator" or (name == "emulator" and number.isascii() and number.isdigit()):
        return _emulated(int(number or 0))
    if which == "cuda" or (name == "cuda" and number.isascii() and number.isdigit()):
        return cuda_driver(), int(number or 0)
    if which.isascii() and which.isdigit():
        return cuda_driver(), int(which)
    if which == "auto":
        return _automatic()
    raise ValueError(f'{told}{which!r}; it must be an ordinal, "cuda", "cuda:N", "emulator", "emulator:N" or "auto"')


def _emulated(ordinal: int) -> tuple[Driver, int]:
    driver = emulator_driver()
    count = driver.info()[1]
    if ordinal >= count:
        way = f"start it with VYRE_CUDA_EMULATOR_DEVICES={ordinal + 1}"
        raise DeviceUnavailableError(
            f"no device emulator:{ordinal}: this process has {counted(count, 'emulated device')}; "
            + (way if ordinal < _MOST_EMULATED else f"{_MOST_EMULATED} are possible")
        )
    return driver, ordinal


def _automatic() -> tuple[Driver, int]:
    named = os.environ.get("VYRE_CUDA_DEVICE")
    if named and named != "auto":
        return _open(named, "VYRE_CUDA_DEVICE=")
    try:
        driver = cuda_driver()
        if driver.info()[1] > 0:
            return driver, 0
        reason = "the driver has no device"
    except DeviceUnavailableError as error:
        reason = str(error)
    if os.environ.get("VYRE_CUDA_REQUIRE_GPU", "") not in ("", "0"):
        raise DeviceUnavailableError(
            f"VYRE_CUDA_REQUIRE_GPU is set and there is no GPU: {reason} (unset it to use the emulator)"
        )
    warnings.warn(f"no GPU ({reason}): using the emulator, on the CPU", RuntimeWarning, stacklevel=_outside())
    return emulator_driver(), 0


def _outside() -> int:
    """The `stacklevel` of the innermost line outside this package, as seen by the caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        level, frame = level + 1, frame.f_back
    return level
