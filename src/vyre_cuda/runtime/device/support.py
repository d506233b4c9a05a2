"""What a device can do, asked in one way. The answer is that of the checks that refuse it where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import ProgramError, UnsupportedError, type_name
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.effects import AtomicMethods, WarpMethods
from vyre_cuda.ir.builder.values import Value, apply, operate
from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.ir.core.program import Program, ProgramSource
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.device_selection import CHECKS, require_checks
from vyre_cuda.runtime.telemetry.profiler_ranges import require_nvtx

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device


class Support(FrozenRecord):
    """The answer of `Device.supports`: true where the device can.

    Else `reason` says why it cannot, in the words of the error, and `capability` what is missing, as that of an
    UnsupportedError; "program" where no device can, because the language has no such thing.
    """

    reason: str = ""
    capability: str = ""

    def __bool__(self) -> bool:
        return not self.reason


def support(
    device: Device, what: Program | ProgramSource | Type | str, type_: Type | None, used: dict[str, str], **options: Any
) -> Support:
    """`used`: order and scope of an atomic, where they are given; `options` are those of `Device.compile`."""
    try:
        if isinstance(what, (Program, ProgramSource)):
            device.compile(what, **options)
        elif isinstance(what, Type):
            _lower(device, _moved(what), options)
        elif not isinstance(what, str):
            raise TypeError(f"supports takes a Program, a type or a name, not {type_name(what)}")
        elif what in OPS or _is_method(what):
            _lower(device, _used(what, type_, used), options)
        else:
            _require(device, what)
    except UnsupportedError as error:
        return Support(str(error), error.capability)
    except ProgramError as error:
        return Support("; ".join(each.message for each in error.diagnostics) or str(error), error.code)
    return Support()


# ---- what has a name ------------------------------------------------------------------------------------------------


def _require(device: Device, name: str) -> None:
    if name in CHECKS:
        require_checks({name}, is_emulator=device.properties.is_emulator)
    elif name == "nvtx":
        require_nvtx()
    elif name.startswith("sm_"):
        wanted, has = Target.parse(name), device.target
        if wanted.sm > has.sm:
            raise UnsupportedError(f"{name} is newer than the device, which is {has}", capability=name)
    else:
        try:
            device.context.require(name)
        except ValueError:
            raise ValueError(
                f"supports does not know {name!r}: pass the name of an op or of a method of the Builder, or the "
                "capability of an UnsupportedError"
            ) from None


# ---- programs that use it -------------------------------------------------------------------------------------------


def _lower(device: Device, program: Program, options: dict[str, Any]) -> None:
    wanted = {name: options[name] for name in ("precision", "bounds", "max_ulp")}
    lower(program, device.target, **wanted)


def _moved(type_: Type) -> Program:
    b = Builder("probe")
    x, out = b.input("x", type_), b.output("out", type_, size=1)
    out[0] = x[0]
    return b.build()


def _is_method(name: str) -> bool:
    return any(name in vars(methods) and not name.startswith("_") for methods in (AtomicMethods, WarpMethods))


def _used(name: str, type_: Type | None, used: dict[str, str]) -> Program:
    if not isinstance(type_, Type):
        raise TypeError(f"supports({name!r}) needs a type, such as vc.f32")
    b = Builder("probe")
    x = b.inout("x", type_)
    if name in OPS:
        kept = _applied(OPS[name], type_, x[0])
    elif name in vars(AtomicMethods):
        method = getattr(b, name)
        kept = method(x, 0, *[x[1]] * (_operands(method) - 2), **used)
    else:
        method = getattr(b, name)
        kept = method(x[0], *(("add",) if name.startswith("warp_") else (0,) * (_operands(method) - 1)))
    if kept is not None:
        b.let("kept", kept)
    return b.build()


def _operands(method: Any) -> int:
    """How many parameters a method takes by position."""
    return int(method.__func__.__code__.co_posonlyargcount) - 1


def _applied(op: Op, type_: Type, x: Value) -> Value:
    if op.result == "explicit":
        return operate((op,), (x,), type_)
    return apply(op.name, *((bool_(True),) if op.leading_bool else ()), *[x] * (op.arity - op.leading_bool))
