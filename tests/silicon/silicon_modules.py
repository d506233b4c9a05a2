"""All kernels of the recorded forms, grouped into modules of a size that a driver assembles quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import silicon_half
import silicon_memory
import silicon_sync
from silicon_forms import Form
from silicon_kernels import HEADER, Kernel, pure

BASE_TARGET = 75
KERNELS_PER_MODULE = 96

BUILDERS: dict[str, Callable[[Kernel], None]] = {
    "cvt": silicon_half.conversion,
    "fma": silicon_half.fused,
    "ld": silicon_memory.load,
    "st": silicon_memory.store,
    "atom": silicon_memory.update,
    "red": silicon_memory.update,
    "cvta": silicon_memory.address_conversion,
    "isspacep": silicon_memory.space_test,
    "prefetch": silicon_memory.prefetch,
    "shfl": silicon_sync.shuffle,
    "vote": silicon_sync.vote,
    "match": silicon_sync.match,
    "redux": silicon_sync.reduction,
    "activemask": silicon_sync.active_mask,
    "bar": silicon_sync.barrier,
    "barrier": silicon_sync.barrier,
    "ret": silicon_sync.leave,
    "exit": silicon_sync.leave,
    "bra": silicon_sync.branch,
    "membar": silicon_sync.in_passing,
    "fence": silicon_sync.in_passing,
    "nanosleep": silicon_sync.in_passing,
}


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX text and the kernels in it."""

    text: str
    kernels: tuple[Kernel, ...]


def build_kernel(form: Form, name: str) -> Kernel:
    """The kernel of one form."""
    kernel = Kernel(form=form, name=name)
    BUILDERS.get(form.opcode, pure)(kernel)
    return kernel


def constants(kernels: Sequence[Kernel]) -> str:
    """The constant memory of a module; its kernels have the same."""
    words = next((kernel.constants for kernel in kernels if kernel.constants is not None), None)
    if words is None:
        return ""
    values = ", ".join(str(word) for word in words.reshape(-1))
    return f".const .align 16 .u64 constants[{words.size}] = {{{values}}};\n"


def modules(forms: Sequence[Form]) -> Iterator[Module]:
    """Modules with the kernels of `forms`; each has the lowest target that its forms allow."""
    for target in sorted({max(BASE_TARGET, form.min_target) for form in forms}):
        of_target = [form for form in forms if max(BASE_TARGET, form.min_target) == target]
        for begin in range(0, len(of_target), KERNELS_PER_MODULE):
            part = of_target[begin : begin + KERNELS_PER_MODULE]
            kernels = tuple(build_kernel(form, f"form_{k}") for k, form in enumerate(part))
            texts = (HEADER.format(target=target), constants(kernels), *(kernel.text() for kernel in kernels))
            yield Module(text="".join(texts), kernels=kernels)
