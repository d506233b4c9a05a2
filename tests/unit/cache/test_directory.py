"""Which directories an environment names: for cached kernels, and for the driver's own cache."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.cache.directory import cache_root
from vyre_cuda.cache.jit import DISABLE, MAXSIZE, PATH, jit_settings

HOME = {"HOME": "/home/me"}
XDG = {**HOME, "XDG_CACHE_HOME": "/var/cache/me"}
GIB = 1 << 30


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({**XDG, "VYRE_CUDA_CACHE_DIR": "/fast/disk"}, "/fast/disk"),
        ({**XDG, "VYRE_CUDA_CACHE_DIR": ""}, "/var/cache/me/vyre-cuda"),
        ({**XDG, "VYRE_CUDA_CACHE_DIR": "off"}, None),
        ({**XDG, "VYRE_CUDA_CACHE_DIR": "OFF"}, None),
        ({"VYRE_CUDA_CACHE_DIR": "below/here"}, os.path.join(os.getcwd(), "below/here")),
        (XDG, "/var/cache/me/vyre-cuda"),
        ({**HOME, "XDG_CACHE_HOME": "relative"}, "/home/me/.cache/vyre-cuda"),
        ({**HOME, "XDG_CACHE_HOME": ""}, "/home/me/.cache/vyre-cuda"),
        (HOME, "/home/me/.cache/vyre-cuda"),
    ],
)
def test_the_cache_is_where_the_environment_says(environment, expected):
    assert cache_root(environment) == expected


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "here", "XDG_CACHE_HOME": "there"}])
def test_an_environment_without_a_directory_says_what_to_set(environment):
    with pytest.raises(vc.CacheError, match="VYRE_CUDA_CACHE_DIR"):
        cache_root(environment)
    with pytest.raises(vc.CacheError, match=PATH):
        jit_settings(environment, None, GIB, False)


@pytest.mark.parametrize(
    "environment, directory, expected",
    [
        (HOME, None, "/home/me/.cache/vyre-cuda/cuda-jit"),
        (XDG, None, "/var/cache/me/vyre-cuda/cuda-jit"),
        ({**HOME, "XDG_CACHE_HOME": "relative"}, None, "/home/me/.cache/vyre-cuda/cuda-jit"),
        (XDG, "/given", "/given"),
        ({}, "given", os.path.join(os.getcwd(), "given")),
    ],
)
def test_what_is_unset_is_set(environment, directory, expected):
    settings = jit_settings(environment, directory, GIB, False)

    assert (settings.directory, settings.max_bytes, settings.enabled) == (expected, GIB, True)
    assert settings.variables == {PATH: expected, MAXSIZE: str(GIB)}


def test_what_an_operator_has_set_is_kept():
    environment = {**XDG, PATH: "/theirs", MAXSIZE: str(2 * GIB), DISABLE: "0"}
    settings = jit_settings(environment, "/mine", GIB, True)

    assert (settings.directory, settings.max_bytes, settings.enabled) == ("/theirs", 2 * GIB, True)
    assert settings.variables == {}


def test_an_empty_path_of_an_operator_is_refused():
    with pytest.raises(vc.CacheError, match=f"{PATH} is empty"):
        jit_settings({**XDG, PATH: ""}, "/mine", GIB, True)


@pytest.mark.parametrize("size", ["", "much", "1e9", "-1", "0", "1.5", " 5", "٣", str(GIB - 1)])
def test_a_size_that_is_no_number_or_too_small_is_refused_with_what_would_do(size):
    with pytest.raises(vc.CacheError, match=str(GIB)) as caught:
        jit_settings({**XDG, MAXSIZE: size}, None, GIB, True)
    assert MAXSIZE in str(caught.value)


@pytest.mark.parametrize("disabled, force, enabled", [("1", False, False), ("1", True, True), ("0", False, True),
                                                      ("", False, True), ("yes", False, False)])  # fmt: skip
def test_a_disabled_cache_stays_so_unless_forced(disabled, force, enabled):
    settings = jit_settings({**XDG, DISABLE: disabled}, None, GIB, force)

    assert settings.enabled == enabled
    assert settings.variables.get(DISABLE) == ("0" if disabled == "1" and force else None)


texts = st.none() | st.sampled_from(("", "0", "1", "/a", "a", str(GIB), "x"))


@given(values=st.fixed_dictionaries(dict.fromkeys((PATH, MAXSIZE, DISABLE, "HOME", "XDG_CACHE_HOME"), texts)),
       directory=st.none() | st.just("/mine"), most=st.integers(1, 2 * GIB), force=st.booleans())  # fmt: skip
def test_settings_that_were_made_ask_for_no_others(values, directory, most, force):
    environment = {name: value for name, value in values.items() if value is not None}
    try:
        settings = jit_settings(environment, directory, most, force)
    except vc.CacheError:
        return
    after = {**environment, **settings.variables}
    again = jit_settings(after, directory, most, force)

    assert again.variables == {}
    assert (again.directory, again.max_bytes, again.enabled) == (
        settings.directory,
        settings.max_bytes,
        settings.enabled,
    )
    assert all(after[name] == environment[name] for name in (PATH, MAXSIZE) if name in environment)
