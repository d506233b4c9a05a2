"""The text of an entry for several kernels. Imported when it is in no cache."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.parts import Part
from vyre_cuda.codegen.tables import LoweredTables, lower_tables
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.kernel.lowering import body_of


def lowered(kernels: Sequence[Kernel], arrays: int) -> LoweredTables:
    """Raises UnsupportedError with the capability "tables" for kernels that do not fit together."""
    properties = kernels[0].device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    return lower_tables([_part(kernel) for kernel in kernels], target, arrays=arrays)


def _part(kernel: Kernel) -> Part:
    body = body_of(kernel.program, bounds=kernel.bounds, known=kernel.known)
    return Part(body, kernel.lowered, kernel.precision, kernel.bounds, kernel.max_ulp)
