"""Targets: which PTX a generation needs, which target a device gets, and what a driver takes."""

from __future__ import annotations

import pytest

from vyre_cuda.codegen.core.target import KNOWN_SM, Target, driver_ptx_version, target_for
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.testing.assembler import assemble

EMPTY = ".version {}.{}\n.target {}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"


@pytest.mark.thin(3)
@pytest.mark.parametrize("sm", KNOWN_SM)
def test_a_target_has_the_first_ptx_version_that_knows_it(sm: int) -> None:
    target = Target.parse(f"sm_{sm}")
    major, minor = target.version
    older = (major, minor - 1) if minor else (major - 1, 5)

    assemble(EMPTY.format(major, minor, target), sm)
    with pytest.raises(AssertionError):
        assemble(EMPTY.format(*older, target), sm)


@pytest.mark.parametrize("name", ["90", "sm90", "sm_", "sm_9x", "compute_90", "sm_-1", "sm_²", ""])
def test_other_spellings_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        Target.parse(name)


def test_an_unknown_target_is_unsupported() -> None:
    with pytest.raises(UnsupportedError) as caught:
        Target.parse("sm_70")
    assert caught.value.capability == "sm_70"


@pytest.mark.parametrize(
    ("compute_capability", "sm"),
    [
        ((7, 5), 75),
        ((8, 0), 80),
        ((8, 8), 87),
        ((9, 0), 90),
        ((10, 1), 100),
        ((11, 0), 103),
        ((12, 1), 121),
        ((15, 0), 121),
    ],
)
def test_a_device_gets_the_best_target_not_above_it(compute_capability: tuple[int, int], sm: int) -> None:
    assert target_for(compute_capability, 13000).sm == sm


def test_a_device_older_than_all_targets_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        target_for((7, 0), 13000)


def test_a_driver_too_old_for_the_device_is_unsupported() -> None:
    assert target_for((10, 0), 12070).version == (8, 6)
    with pytest.raises(UnsupportedError) as caught:
        target_for((10, 0), 12060)
    assert caught.value.capability == "ptx_8.6"


@pytest.mark.parametrize(
    ("driver", "ptx"), [(12000, (8, 0)), (12045, (8, 4)), (12060, (8, 5)), (13000, (9, 0)), (99000, (9, 0))]
)
def test_a_driver_takes_the_ptx_of_its_cuda_version(driver: int, ptx: tuple[int, int]) -> None:
    assert driver_ptx_version(driver) == ptx


def test_a_driver_before_cuda_12_is_unsupported() -> None:
    with pytest.raises(UnsupportedError) as caught:
        driver_ptx_version(11080)
    assert caught.value.capability == "driver_version"


def test_parameters_beyond_4096_bytes_raise_the_version() -> None:
    old = target_for((7, 5), 12010)

    assert old.for_parameters(4096).version == (6, 3)
    assert old.for_parameters(4097).version == (8, 1)
    assert old.for_parameters(32_764).version == (8, 1)
    assert Target.parse("sm_100").for_parameters(4097).version == (8, 6)


def test_parameters_that_driver_or_target_cannot_take_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"4104 bytes; .* at most 4096 below PTX 8\.1"):
        target_for((7, 5), 12000).for_parameters(4104)
    with pytest.raises(UnsupportedError, match="at most 32764"):
        Target.parse("sm_90").for_parameters(32_768)
