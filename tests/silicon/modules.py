"""All kernels of the recorded forms, grouped into modules of a size that a driver assembles quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import memory_kernels
import sync_kernels
from forms import Form
from kernels import HEADER, Kernel, pure

BASE_TARGET = 75
KERNELS_PER_MODULE = 96

_BUILDERS: dict[str, Callable[[Kernel], None]] = {
    "ld": memory_kernels.load,
    "st": memory_kernels.store,
    "atom": memory_kernels.update,
    "red": memory_kernels.update,
    "cvta": memory_kernels.address_conversion,
    "isspacep": memory_kernels.space_test,
    "prefetch": memory_kernels.prefetch,
    "shfl": sync_kernels.shuffle,
    "vote": sync_kernels.vote,
    "match": sync_kernels.match,
    "redux": sync_kernels.reduction,
    "activemask": sync_kernels.active_mask,
    "bar": sync_kernels.barrier,
    "barrier": sync_kernels.barrier,
    "ret": sync_kernels.leave,
    "exit": sync_kernels.leave,
    "bra": sync_kernels.branch,
    "membar": sync_kernels.in_passing,
    "fence": sync_kernels.in_passing,
    "nanosleep": sync_kernels.in_passing,
}


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX text and the kernels in it."""

    text: str
    kernels: tuple[Kernel, ...]


def build_kernel(form: Form, name: str) -> Kernel:
    """The kernel of one form."""
    kernel = Kernel(form=form, name=name)
    _BUILDERS.get(form.opcode, pure)(kernel)
    return kernel


def modules(forms: Sequence[Form]) -> Iterator[Module]:
    """Modules with the kernels of `forms`; each has the lowest target that its forms allow."""
    for target in sorted({max(BASE_TARGET, form.min_target) for form in forms}):
        of_target = [form for form in forms if max(BASE_TARGET, form.min_target) == target]
        for begin in range(0, len(of_target), KERNELS_PER_MODULE):
            part = of_target[begin : begin + KERNELS_PER_MODULE]
            kernels = tuple(build_kernel(form, f"form_{k}") for k, form in enumerate(part))
            yield Module(text=HEADER.format(target=target) + "".join(k.text() for k in kernels), kernels=kernels)
