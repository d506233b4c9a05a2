"""Reading bundles: their contents, which need no device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.bundle.bundle import BundleFile
from vyre_cuda.bundles.layout import CLEARING_SUFFIX
from vyre_cuda.descriptors.signature import ROLE_SCALAR, ROLES
from vyre_cuda.errors import BundleError, ProgramError, type_name
from vyre_cuda.ir.call.known import Known, known_of, python_values
from vyre_cuda.ir.core.nodes import extent_names
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import BY_CODE
from vyre_cuda.later import later
from vyre_cuda.runtime.bundle.bundled_graph import BundledGraph, described

if TYPE_CHECKING:
    from vyre_cuda.runtime.bundle import loaded_bundle
    from vyre_cuda.runtime.device.device import Device
else:
    loaded_bundle = later("vyre_cuda.runtime.bundle.loaded_bundle")

_WHOLE_PROGRAM = 1
_WORKER = 2
_ROWS = 4
_CLEARS = 8


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """A kernel in a bundle.

    `program` has the parameters, sizes, block and work of the program, and its body if `has_source`; `targets` are
    those it was compiled for, in ascending order, `cubins` those with machine code, and `specialize` has the values by
    name that it was compiled for. `is_worker`: it is a worker, not a kernel, and its parameters have the names of the
    worker's kernels. `is_rows`: it is the entry for many launches as one, and its scalars have the names of the
    kernels that these are of; its arrays are symbols of a graph. `is_clearing`: it clears results for a worker or for
    many launches.
    """

    name: str
    program: Program
    has_source: bool
    fingerprint: str
    precision: str
    bounds: str
    max_ulp: float | None
    specialize: Mapping[str, bool | int | float]
    targets: tuple[str, ...]
    cubins: tuple[str, ...]
    is_worker: bool = False
    is_rows: bool = False
    is_clearing: bool = False

    @property
    def is_entry(self) -> bool:
        """Whether it is code for other kernels, not one of its own."""
        return self.is_worker or self.is_rows or self.is_clearing


class Bundle:
    """A bundle that was read and checked; returned by `vc.load_bundle`, without a device.

    `kernels` and `graphs` hold its contents by name; `on(device)` loads them there. `digest` is the BLAKE2b-256 of
    the file with zeros in place of the digest, in hex.
    """

    def __init__(self, data: bytes) -> None:
        self._file = BundleFile(data)
        self._data = data  # for a copy in another process
        info = self._file.info()
        self.format_version: int = info["format_version"]
        self.nbytes: int = info["nbytes"]
        self.digest: str = info["digest"].hex()
        kernels = [_kernel(self._file, index) for index in range(info["kernel_count"])]
        clearing = {kernel.name + CLEARING_SUFFIX for kernel in kernels if kernel.is_worker}
        kernels = [replace(kernel, is_clearing=True) if kernel.name in clearing else kernel for kernel in kernels]
        self.kernels: Mapping[str, BundledKernel] = MappingProxyType({kernel.name: kernel for kernel in kernels})
        graphs = [described(self._file.graph(index)) for index in range(info["graph_count"])]
        self.graphs: Mapping[str, BundledGraph] = MappingProxyType({graph.name: graph for graph in graphs})

    def __reduce__(self) -> tuple[type[Bundle], tuple[bytes]]:
        return Bundle, (self._data,)

    def on(self, device: Device) -> loaded_bundle.LoadedBundle:
        """The kernels on a device: a mapping from names.

        Parameters
        ----------
        device
            The device.

        Returns
        -------
        LoadedBundle
            The mapping; each kernel is loaded when it is first looked up.

        Raises
        ------
        TypeError
            Not a device.
        """
        if not hasattr(device, "context"):
            raise TypeError(f"Bundle.on takes a device, not {device!r}: open it, vc.Device({device!r})")
        return loaded_bundle.LoadedBundle(self, device)

    def ptx(self, name: str, target: str) -> str:
        """The PTX of a kernel for one of its targets.

        Parameters
        ----------
        name
            The kernel's name.
        target
            Such as "sm_90".

        Returns
        -------
        str
            The text.

        Raises
        ------
        KeyError
            No such kernel or target.
        """
        text: str = self._variant(name, target)["ptx"]
        return text

    def cubin(self, name: str, target: str) -> bytes:
        """The machine code of a kernel for one of its targets.

        Parameters
        ----------
        name
            The kernel's name.
        target
            Such as "sm_90".

        Returns
        -------
        bytes
            The bytes, empty if there is only PTX.

        Raises
        ------
        KeyError
            No such kernel or target.
        """
        code: bytes = self._variant(name, target)["cubin"]
        return code

    def _variant(self, name: str, target: str) -> dict[str, Any]:
        if name not in self.kernels:
            raise unknown("kernel", name, self.kernels)
        targets = self.kernels[name].targets
        if target not in targets:
            raise KeyError(
                f"the bundle has {name} for {', '.join(targets)}, not for {target!r}: write it for that, too"
            )
        return self._file.variant(list(self.kernels).index(name), targets.index(target))

    def __repr__(self) -> str:
        return f"<vyre_cuda.Bundle of {', '.join([*self.kernels, *self.graphs])}>"


def unknown(what: str, name: object, known: Iterable[str]) -> KeyError:
    """The error for a name that a bundle does not have."""
    return KeyError(f"the bundle has no {what} {name!r}; it has {', '.join(known) or 'none'}")


def load_bundle(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Bundle:
    """Read and check a bundle. No device is needed.

    Its device code is not checked: trust a bundle as you would a library.

    Parameters
    ----------
    source
        A file, or its bytes.

    Returns
    -------
    Bundle
        The bundle.

    Raises
    ------
    BundleError
        Not a bundle, or a damaged one.
    BundleVersionError
        It is in a newer format.
    OSError
        The file cannot be read.
    TypeError
        Neither a path nor bytes.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Bundle(bytes(source))
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"load_bundle takes a path, or the bytes of a bundle, not {type_name(source)}")
    return Bundle(Path(source).read_bytes())


def _kernel(file: BundleFile, index: int) -> BundledKernel:
    row = file.kernel(index)
    name = row["name"]
    try:
        program = Program.from_bytes(row["program"])
    except ProgramError as error:
        raise BundleError(f"kernel {name}: its program is not valid: {error}") from error
    _check_program(file, index, row, program)
    variants = [file.variant(index, number) for number in range(row["variant_count"])]
    return BundledKernel(
        name=name,
        program=program,
        has_source=bool(row["flags"] & _WHOLE_PROGRAM),
        fingerprint=row["fingerprint"].hex(),
        precision=row["precision"],
        bounds=row["bounds"],
        max_ulp=row["max_ulp"],
        specialize=MappingProxyType(python_values(program, known_values(row, program))),
        targets=tuple(f"sm_{variant['sm']}" for variant in variants),
        cubins=tuple(f"sm_{variant['sm']}" for variant in variants if variant["cubin"]),
        is_worker=bool(row["flags"] & _WORKER),
        is_rows=bool(row["flags"] & _ROWS),
        is_clearing=bool(row["flags"] & _CLEARS),
    )


def known_values(row: Mapping[str, Any], program: Program) -> tuple[Known, ...]:
    """The values that a kernel was compiled for."""
    try:
        return tuple(known_of(program, name, bits) for name, bits in row["known"])
    except KeyError as error:
        raise BundleError(f"kernel {row['name']}: there is no {error} to be known") from None


def _check_program(file: BundleFile, index: int, row: Mapping[str, Any], program: Program) -> None:
    """Raise BundleError unless the program matches the tables."""
    declared = [(p.name, ROLES.get(p.kind, ROLE_SCALAR), p.type) for p in program.parameters]
    listed = [(name, role, BY_CODE[type_]) for name, role, type_, _, _ in file.parameters(index)]
    declared += [(name, ROLE_SCALAR, program.index) for name in extent_names(program.parameters)]
    same = (
        program.name == row["name"]
        and declared == listed
        and program.block == row["block"]
        and program.index.value_bits == row["index_bits"]
    )
    whole = bool(row["flags"] & _WHOLE_PROGRAM)
    if not same or (whole and bytes.fromhex(program.fingerprint) != row["fingerprint"]):
        raise BundleError(f"kernel {row['name']}: its program does not match its tables")
