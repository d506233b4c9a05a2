"""What a device makes of programs: kernels, and what it says about them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.errors import Error
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.runtime.base.range_names import COMPILE
from vyre_cuda.runtime.kernel.kernel import Kernel

if TYPE_CHECKING:
    from vyre_cuda._native.core.context import Context, Unwatched
    from vyre_cuda.codegen import lower
    from vyre_cuda.ir.call import known
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.runtime.base.properties import DeviceProperties
    from vyre_cuda.runtime.device import support
    from vyre_cuda.runtime.device.support import Support
    from vyre_cuda.runtime.kernel import blocks, loaded_kernel, warmup
    from vyre_cuda.runtime.kernel.kernels import Kernels
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
    from vyre_cuda.runtime.telemetry.profiler_ranges import Watch
else:
    blocks = later("vyre_cuda.runtime.kernel.blocks")
    loaded_kernel = later("vyre_cuda.runtime.kernel.loaded_kernel")
    known = later("vyre_cuda.ir.call.known")
    lower = later("vyre_cuda.codegen.lower")
    support = later("vyre_cuda.runtime.device.support")
    warmup = later("vyre_cuda.runtime.kernel.warmup")


class Compiling:
    """The part of a Device that compiles."""

    properties: DeviceProperties
    _kernels: Kernels
    _blocks: blocks.Blocks | None
    _watch: Watch | Unwatched

    if TYPE_CHECKING:  # defined by Allocator

        @property
        def context(self) -> Context: ...

    def compile(
        self,
        program: Program | ProgramSource,
        *,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Compile the program for this device; the same program and options return the same kernel.

        A kernel compiled before, in any process of this user, is read from the disk cache: docs/caching.md.

        Parameters
        ----------
        program
            A `vc.Program`, or a kernel function without open parameters.
        precision
            "ieee", "ftz" or "fast": docs/programs.md.
        bounds
            What an index out of bounds does: "check" (a load gives 0, a store does nothing), "trap" (an assertion
            fails) or "off" (undefined behavior).
        max_ulp
            Each op uses the cheapest form whose error is at most this many units in the last place; None leaves that
            to the precision.
        block
            Threads per block, all along x, instead of the program's own. "auto", here or in the Builder, lets the
            device choose it, so that as many threads as possible are resident; `kernel.program.block` says what it is.
        specialize
            Values that every call will have, such as `{"w": 28, "x.size": 784, "img.shape[0]": 64}`: scalars, numbers
            of elements, and extents of arrays with several axes. The code is compiled for these values alone. Calls
            still take all arguments; one with another value is a ValueError. A float is compared by its bits.

        Returns
        -------
        Kernel
            The kernel, which can be called and launched.

        Raises
        ------
        ProgramError
            The program, or the function that it is made of, is not valid.
        ValueError
            `block` is given for a program that depends on its block, because it has shared arrays, barriers, warp
            operations, or thread_id, block_id, block_dim, grid_dim or lane_id. Or `specialize` names what the program
            does not have, or a size that its declarations contradict. Or another option is out of range, such as an
            unknown `precision` or a `max_ulp` below 0.5.
        TypeError, OverflowError
            Not a program, or a value of `specialize` that is not of the parameter's type.
        UnsupportedError
            No form of an op is that accurate, or no launch of the kernel could work; it names every limit then.
        CompileError
            The driver rejected the kernel.
        """
        found = program_of(program)
        if found is None:
            raise no_program("compile takes a Program", program)
        program = found
        # Kernels are kept by these options, and "2" would find what was compiled for 2, True for 1.
        kept: tuple[Any, ...] = (precision, bounds)
        if not all(isinstance(word, str) for word in kept) or type(max_ulp) not in (NoneType, int, float):
            lower.check_options(precision, bounds, max_ulp)
        values: tuple[Known, ...] = ()
        if specialize is not None:
            check(program)
            values = known.known_values(program, specialize)
        if block is not None or program.auto_block:
            program = self._blocked(program, block, precision, bounds, max_ulp, values)
        with self._watch.profiled(COMPILE, program.name):
            check(program)
            return self._kernels.kernel(self, program, precision, bounds, max_ulp, values)  # type: ignore[arg-type]

    def warmup(
        self,
        programs: Iterable[Program | ProgramSource],
        *,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> list[Kernel]:
        """Compile programs in parallel; a later `compile` with these options finds them.

        Parameters
        ----------
        programs
            Programs, or kernel functions without open parameters.
        precision, bounds, max_ulp, block, specialize
            The options of `compile`.

        Returns
        -------
        list[Kernel]
            The kernels in the same order.

        Raises
        ------
        Error
            Those of `compile`: the first one, after all have ended.
        """
        options = {
            "precision": precision,
            "bounds": bounds,
            "max_ulp": max_ulp,
            "block": block,
            "specialize": specialize,
        }
        return warmup.compiled(programs, partial(self.compile, **options))  # type: ignore[arg-type]

    def supports(
        self,
        what: Program | ProgramSource | Type | str,
        type: Type | None = None,
        *,
        order: str | None = None,
        scope: str | None = None,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> Support:
        """Whether this device supports something, and if not, why: it asks the checks that would refuse it.

        Parameters
        ----------
        what
            A program, which is compiled with these options; a type; the name of an op ("exp") or of an atomic or warp
            method of the Builder ("atomic_add"); or a capability: "cooperative_launch" of grid barriers,
            "conditional_nodes" of loops that end on the device, "captured_replay" of graphs on streams that others
            capture, "cuFuncGetParamInfo" of loaded kernels, a target such as "sm_90", the check "races", "nvtx".
        type
            The type of the operands of an op, an atomic or a warp operation.
        order, scope
            Those of an atomic.
        precision, bounds, max_ulp, block, specialize
            The options of `compile`.

        Returns
        -------
        Support
            The answer, true where the device can.

        Raises
        ------
        ValueError
            Another name, or another option of `compile` out of range.
        TypeError
            An op without a type, or neither a program, a type nor a name.
        """
        used = {name: value for name, value in (("order", order), ("scope", scope)) if value is not None}
        options = {
            "precision": precision,
            "bounds": bounds,
            "max_ulp": max_ulp,
            "block": block,
            "specialize": specialize,
        }
        return support.support(self, what, type, used, **options)  # type: ignore[arg-type]

    def _blocked(
        self,
        program: Program,
        block: Any,
        precision: str,
        bounds: str,
        max_ulp: float | None,
        values: tuple[Known, ...],
    ) -> Program:
        """The program with a block that is given, or chosen once by this device."""
        check(program)
        if block not in (None, "auto"):
            return blocks.given(program, block, self.properties)
        if self._blocks is None:
            self._blocks = blocks.Blocks(self.context, self.properties, self._kernels.store)
        return self._blocks.chosen(program, precision, bounds, max_ulp, values)

    def load(self, image: str | bytes, name: str, *, signature: str) -> ForeignKernel:
        """Load the kernel `name` from PTX text, a cubin or a fat binary from another compiler, such as NVRTC, nvcc or
        Triton.

        Parameters
        ----------
        image
            PTX as text, or the bytes of a cubin or fat binary.
        name
            The kernel's name in it.
        signature
            A word for each parameter: ptr, const_ptr (the kernel only reads there), i8 to i64, u8 to u64, f16, bf16,
            f32, f64. Offsets follow C's alignment, and are checked against what the driver reports about the kernel,
            where it can (CUDA 12.4).

        Returns
        -------
        ForeignKernel
            The kernel, which can be launched.

        Raises
        ------
        TypeError
            The image is neither text nor bytes, or the signature is not text.
        ValueError
            No such kernel, or another signature.
        UnsupportedError
            More parameters than a launch takes.
        CompileError
            The driver rejected the image.
        """
        return loaded_kernel.ForeignKernel(self, image, name, signature)  # type: ignore[arg-type]

    def run(self, program: Program | ProgramSource, *args: Any, **kwargs: Any) -> Any:
        """Compile the program (cached) and call it with host arrays.

        Parameters
        ----------
        program
            A program, or a kernel function without open parameters.
        *args
            The arguments of the call: docs/devices.md.
        **kwargs
            The same by name, and the options of a call.

        Returns
        -------
        array or tuple of arrays
            What the kernel returns: an array, or a tuple of several.

        Raises
        ------
        Error
            Those of `compile` and of a call.
        """
        return self.compile(program)(*args, **kwargs)

    def explain(self, report: AssertReport) -> Error:
        """The error for an assertion that an asynchronous launch failed."""
        return self._kernels.checks.error(report)
