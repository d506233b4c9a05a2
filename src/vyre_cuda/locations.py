"""Where the installed package keeps what C and C++ hosts need, and where NVIDIA's assembler is."""

from __future__ import annotations

import os.path

_PACKAGE = os.path.dirname(os.path.realpath(__file__))
EMULATOR_LIBRARY = "libvyre_cuda_emulator.so"


def get_include() -> str:
    """The directory of vyre_cuda.h and vyre_cuda.hpp, for the compiler of a C or C++ host.

    Returns
    -------
    str
        Its path in the installed package.
    """
    return os.path.join(_PACKAGE, "include")


def get_library_dir() -> str:
    """The directory of libvyre_cuda.so and the emulator, for the linker and the loader of a host.

    Returns
    -------
    str
        Its path in the installed package.
    """
    return os.path.join(_PACKAGE, "lib")


def get_cmake_dir() -> str:
    """The directory of vyre_cudaConfig.cmake, for CMake's vyre_cuda_DIR."""
    return os.path.join(_PACKAGE, "lib", "cmake", "vyre_cuda")


def get_pkgconfig_dir() -> str:
    """The directory of vyre_cuda.pc, for PKG_CONFIG_PATH."""
    return os.path.join(_PACKAGE, "lib", "pkgconfig")
