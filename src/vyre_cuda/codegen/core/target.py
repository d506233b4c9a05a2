"""Compilation targets: which PTX version a GPU generation needs, and which one a driver accepts.

A target names the virtual architecture and the lowest PTX version that has it, so that the oldest driver that knows
the device also accepts the text. Nothing that is emitted needs a newer version than its target does.
"""

from __future__ import annotations

from vyre_cuda.errors import UnsupportedError, type_name
from vyre_cuda.records import FrozenRecord

PtxVersion = tuple[int, int]

# Compute capability -> first PTX version with this .target (PTX ISA, release notes), maximum shared memory of a block
# in bytes with opt-in (CUDA C++ programming guide, technical specifications per compute capability).
_TARGETS: dict[int, tuple[PtxVersion, int]] = {
    75: ((6, 3), 64 * 1024),
    80: ((7, 0), 163 * 1024),
    86: ((7, 1), 99 * 1024),
    87: ((7, 4), 163 * 1024),
    89: ((7, 8), 99 * 1024),
    90: ((7, 8), 227 * 1024),
    100: ((8, 6), 227 * 1024),
    103: ((8, 8), 227 * 1024),
    120: ((8, 7), 99 * 1024),
    121: ((8, 8), 99 * 1024),
}
KNOWN_SM: tuple[int, ...] = tuple(sorted(_TARGETS))

# CUDA version of a driver (major * 1000 + minor * 10) -> newest PTX version its compiler accepts (PTX ISA, table of
# release history).
_DRIVER_PTX: dict[int, PtxVersion] = {
    12000: (8, 0),
    12010: (8, 1),
    12020: (8, 2),
    12030: (8, 3),
    12040: (8, 4),
    12050: (8, 5),
    12060: (8, 5),
    12070: (8, 6),
    12080: (8, 7),
    12090: (8, 8),
    13000: (9, 0),
}

# Bytes of parameters that a kernel can have in every version, which version allows more, and how many then (PTX ISA,
# .param state space of kernels; sm_70 and newer).
PARAMETER_BYTES = 4096
_LARGE_PARAMETERS: PtxVersion = (8, 1)
LARGE_PARAMETER_BYTES = 32_764

# Shared memory that a block may declare statically; more is requested at the launch.
STATIC_SHARED_BYTES = 48 * 1024


class Target(FrozenRecord):
    """A virtual architecture (`sm` 90 is sm_90) and the PTX version that the text will declare.

    `newest` is the newest version that the driver accepts; None if the text is for any driver.
    """

    sm: int
    version: PtxVersion
    newest: PtxVersion | None = None

    def __str__(self) -> str:
        return f"sm_{self.sm}"

    @property
    def max_shared_bytes(self) -> int:
        """The most shared memory that one block can have."""
        return _TARGETS[self.sm][1]

    def for_parameters(self, nbytes: int) -> Target:
        """This target, declaring the version that a parameter block of this many bytes needs.

        UnsupportedError if the driver does not accept that version, or no version allows this many bytes."""
        if nbytes <= PARAMETER_BYTES:
            return self
        version = max(self.version, _LARGE_PARAMETERS)
        most = PARAMETER_BYTES if self.newest is not None and version > self.newest else LARGE_PARAMETER_BYTES
        if nbytes > most:
            raise UnsupportedError(
                f"the parameters take {nbytes} bytes; a kernel for {self} takes at most {most}"
                + (f" below PTX {version[0]}.{version[1]}" if most == PARAMETER_BYTES else ""),
                capability="parameter_bytes",
            )
        return Target(self.sm, version, self.newest)

    @classmethod
    def parse(cls, name: str) -> Target:
        """The target that "sm_90" names. ValueError for another spelling, UnsupportedError for an unknown target."""
        if not isinstance(name, str):
            raise TypeError(f'a target is a str such as "sm_90", not {type_name(name)}')
        prefix, _, digits = name.partition("_")
        if prefix != "sm" or not (digits.isascii() and digits.isdigit()):
            raise ValueError(f'{name!r} is not a target; targets are written "sm_90"')
        sm = int(digits)
        if sm not in _TARGETS:
            known = ", ".join(f"sm_{known_sm}" for known_sm in KNOWN_SM)
            raise UnsupportedError(f"target {name} is not known; known targets are {known}", capability=name)
        return cls(sm, _TARGETS[sm][0])


def driver_ptx_version(driver_version: int) -> PtxVersion:
    """The newest PTX version that a driver of this CUDA version (12040 is 12.4) accepts."""
    older = [known for known in _DRIVER_PTX if known <= driver_version]
    if not older:
        raise UnsupportedError(
            f"the driver supports CUDA {_cuda(driver_version)}; CUDA {_cuda(min(_DRIVER_PTX))} or newer is needed: "
            "update the driver",
            capability="driver_version",
        )
    return _DRIVER_PTX[max(older)]


def target_for(compute_capability: tuple[int, int], driver_version: int) -> Target:
    """The best known target not above the device, for a driver of this CUDA version (12040 is 12.4)."""
    major, minor = compute_capability
    at_most = [sm for sm in KNOWN_SM if sm <= major * 10 + minor]
    if not at_most:
        raise UnsupportedError(
            f"compute capability {major}.{minor} is below sm_{KNOWN_SM[0]}, the oldest supported: "
            "use a newer GPU, or the emulator",
            capability=f"sm_{KNOWN_SM[0]}",
        )
    sm = max(at_most)
    newest = driver_ptx_version(driver_version)
    target = Target(sm, _TARGETS[sm][0], newest)
    if target.version > newest:
        needed, taken = (f"{major}.{minor}" for major, minor in (target.version, newest))
        raise UnsupportedError(
            f"{target} needs PTX {needed}; the driver (CUDA {_cuda(driver_version)}) accepts at most PTX {taken}: "
            "update it",
            capability=f"ptx_{needed}",
        )
    return target


def _cuda(driver_version: int) -> str:
    return f"{driver_version // 1000}.{driver_version % 1000 // 10}"
