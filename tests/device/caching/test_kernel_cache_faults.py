"""What is cached of a program and cannot be used is made anew, and a failed compilation leaves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import vyre_cuda as vc
from vyre_cuda._native.core.module import link
from vyre_cuda.cache import entry
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..cached_kernels import check_saxpy, counted, entries, moved

INVALID_IMAGE, OUT_OF_MEMORY, UNKNOWN = 200, 2, 999


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _nothing(data: bytes) -> bytes:
    return b""


def _rewritten(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    """Somebody else's sections, with a digest that matches them."""

    def rewrite(data: bytes) -> bytes:
        key = data[24:56]
        return entry.encode(key, change(list(entry.decode(data, key))))

    return rewrite


def _facts(change: Callable[[list[str]], list[str]]) -> Callable[[bytes], bytes]:
    """Other lines of facts."""

    def changed(sections: list[bytes]) -> list[bytes]:
        lines = sections[0].decode("ascii").split("\n")
        return ["\n".join(change(lines)).encode("ascii"), *sections[1:]]

    return _rewritten(changed)


def _word(kind: str, at: int, word: str) -> Callable[[bytes], bytes]:
    """Another word in the first fact of this kind."""

    def change(lines: list[str]) -> list[str]:
        number = next(number for number, line in enumerate(lines) if line.startswith(f"{kind}\t"))
        words = lines[number].split("\t")
        words[at] = word
        return [*lines[:number], "\t".join(words), *lines[number + 1 :]]

    return _facts(change)


DAMAGE = {
    "cut": _cut,
    "flipped": _flipped,
    "empty": _nothing,
    "two sections": _rewritten(lambda sections: sections[:2]),
    "four sections": _rewritten(lambda sections: [*sections, b""]),
    "no facts": _rewritten(lambda sections: [b"", *sections[1:]]),
    "no image": _rewritten(lambda sections: [*sections[:2], b""]),
    "text of nothing": _rewritten(lambda sections: [*sections[:2], b"nonsense"]),
    "another kernel": _word("kernel", 1, "other"),
    "offsets out of the block": _word("parameter", 4, "1000000"),
    "offsets beyond 32 bits": _word("parameter", 4, "1000000000000"),
    "no parameters": _facts(lambda lines: [line for line in lines if not line.startswith("parameter\t")]),
    "a negative size": _word("kernel", 2, "-1"),
    "shared memory of no device": _word("kernel", 4, str(2**31)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_cannot_be_used_is_made_anew(damage, opened, cache_root):
    opened().compile(programs.saxpy())
    (path,) = entries(cache_root)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    device = opened()
    check_saxpy(device.compile(programs.saxpy()))

    assert moved(device, "compiles") == [1]
    assert counted(device)["disk_cache_errors"] >= 1
    assert path.read_bytes() == whole


@pytest.mark.emulator
def test_an_image_that_the_driver_refuses_is_made_anew(opened, cache_root, emulator: Emulator):
    opened().compile(programs.saxpy())
    device = opened()
    emulator.fail("cuModuleLoadDataEx", result=INVALID_IMAGE)
    check_saxpy(device.compile(programs.saxpy()))

    assert moved(device, "compiles", "disk_cache_hits", "disk_cache_errors") == [1, 1, 1]
    check_saxpy(opened().compile(programs.saxpy()))


@pytest.mark.thin(3)
@pytest.mark.emulator
@pytest.mark.parametrize("result, error", [(UNKNOWN, vc.DriverError), (OUT_OF_MEMORY, vc.ResourceError)])
@pytest.mark.parametrize("function", ["cuLinkCreate", "cuLinkAddData", "cuLinkComplete", "cuModuleLoadDataEx"])
def test_a_failed_compilation_leaves_nothing_behind(function, result, error, opened, cache_root, emulator, leak_check):
    device = opened()
    emulator.fail(function, result=result)

    with pytest.raises(error):
        device.compile(programs.saxpy())
    assert not (cache_root / "kernels").exists() or entries(cache_root) == []
    check_saxpy(device.compile(programs.saxpy()))
    device.close()


@pytest.mark.emulator
@pytest.mark.parametrize("function", ["cuLinkAddData", "cuLinkComplete"])
def test_a_text_that_the_linker_refuses_is_a_compile_error_with_the_text(function, opened, emulator):
    device = opened()
    emulator.fail(function, result=218)

    with pytest.raises(vc.CompileError) as caught:
        device.compile(programs.saxpy())
    assert caught.value.op == function
    assert ".visible .entry" in caught.value.ptx


@pytest.mark.emulator
def test_a_linked_text_that_is_wrong_carries_the_log(device):
    with pytest.raises(vc.CompileError) as caught:
        link(device.context, b".version 8.0\n.target sm_90\n.address_size 64\nnonsense;\n")

    assert "line 4" in caught.value.log
    assert "nonsense" in caught.value.ptx


@pytest.mark.emulator
def test_a_failure_to_load_a_file_for_lack_of_memory_is_told(opened, cache_root, emulator):
    """The file is well: it is not made anew."""
    opened().compile(programs.saxpy())
    device = opened()
    emulator.fail("cuModuleLoadDataEx", result=OUT_OF_MEMORY)

    with pytest.raises(vc.ResourceError):
        device.compile(programs.saxpy())
    assert len(entries(cache_root)) == 1
    check_saxpy(device.compile(programs.saxpy()))
    assert moved(device, "compiles") == [0]
