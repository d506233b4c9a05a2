"""How tests steer the emulator, and what a wrong name or value is told."""

from __future__ import annotations

import pytest

from vyre_cuda.testing.emulator import _COUNTED, SETTINGS, STREAM_MODES, Emulator


@pytest.mark.parametrize("key", SETTINGS)
def test_each_setting_is_accepted_and_refuses_a_negative_value(emulator: Emulator, key: str) -> None:
    emulator.set(key, 0)
    if key != "lost":
        with pytest.raises(ValueError, match=f"^the emulator's {key} cannot be -1$"):
            emulator.set(key, -1)


@pytest.mark.parametrize("key", _COUNTED)
def test_each_kind_is_counted(emulator: Emulator, key: str) -> None:
    emulator.count(key)  # no KeyError


def test_each_stream_mode_is_accepted(emulator: Emulator) -> None:
    for mode in STREAM_MODES:
        emulator.stream_mode(mode)


def test_wrong_names_are_told_what_there_is(emulator: Emulator) -> None:
    with pytest.raises(KeyError, match="no setting memory_limt; it has stream_mode, memory_limit, "):
        emulator.set("memory_limt", 1)
    with pytest.raises(KeyError, match=r"counts nothing named launchez; did you mean launches\?"):
        emulator.count("launchez")
    with pytest.raises(KeyError, match=r"counts nothing named xyz'$"):
        emulator.count("xyz")
    with pytest.raises(KeyError, match=r"no driver function cuMemAlocc; did you mean cuMemAlloc\?"):
        emulator.fail("cuMemAlocc", result=2)
    with pytest.raises(ValueError, match="no stream mode 'slow'; there are eager, threaded, lazy"):
        emulator.stream_mode("slow")  # type: ignore[arg-type]
