"""The one rule for binding the arguments of a call with host arrays.

The arguments are the parameters except the outs, in declared order, by position or by name. The results are the out and
inout parameters in declared order: one is returned as an array, several as a tuple. `out=` gives arrays to write the
results to: an array when there is one result, else a tuple with one entry (None for a new array) per result, or a dict
by name. Arity, dtype and kind raise TypeError; size, shape, contiguity and overlap raise ValueError. An assertion that
fails raises the same error everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda.errors import KernelAssertionError, counted
from vyre_cuda.ir.call.geometry import Geometry, launch_geometry
from vyre_cuda.ir.core.nodes import Assert, Parameter, Source
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.ir.call import hosts, sizes
    from vyre_cuda.ir.semantics.elementwise import Array
else:
    hosts = later("vyre_cuda.ir.call.hosts")
    sizes = later("vyre_cuda.ir.call.sizes")

Accept: TypeAlias = Callable[[str, Parameter, Any], Any]


class Call(FrozenRecord, eq=False):
    """The arguments of one call, checked.

    `arrays` has, by parameter name, each in and inout as a C-contiguous 1-D array (the caller's memory where that was
    possible: do not write to it); `scalars` bit patterns; `sizes` the elements of every buffer; `shapes` the shape of
    each that is declared with several axes; `outs` the caller's own arrays for those results that have one,
    C-contiguous and writable, with any number of axes. Where `bind` was told to accept others, those are among `arrays`
    and `outs` as they were accepted.
    """

    program: Program
    arrays: Mapping[str, Any]
    scalars: Mapping[str, int]
    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    outs: Mapping[str, Any]
    geometry: Geometry

    def words(self) -> list[int]:
        """The by-value arguments of the kernel."""
        return sizes.value_words(self.program, self.scalars, self.shapes)

    def shape(self, parameter: Parameter) -> tuple[int, ...]:
        """The declared shape of a buffer."""
        return self.shapes.get(parameter.name, (self.sizes[parameter.name],))

    def deliver(self, computed: Mapping[str, Array]) -> Array | tuple[Array, ...]:
        """What the call returns: `computed` has a 1-D array per result, copied where the caller passed an out.

        The arrays may have their types' `storage` dtype.
        """
        delivered: list[Array] = []
        for parameter in result_parameters(self.program):
            array = computed[parameter.name]
            if array.dtype != parameter.type.dtype:
                array = array.view(parameter.type.dtype)
            if parameter.name in self.outs:
                destination = self.outs[parameter.name]
                destination.reshape(-1)[:] = array
                array = destination
            elif parameter.shape:
                array = array.reshape(self.shapes[parameter.name])
            delivered.append(array)
        return delivered[0] if len(delivered) == 1 else tuple(delivered)


def _nothing_else(what: str, parameter: Parameter, value: Any) -> Any:
    return None


def argument_parameters(program: Program) -> tuple[Parameter, ...]:
    """What a call takes, in order: every parameter but the outs."""
    return tuple(p for p in program.parameters if p.kind != "out")


def result_parameters(program: Program) -> tuple[Parameter, ...]:
    """What a call returns, in order: the outs and inouts."""
    return tuple(p for p in program.parameters if p.is_writable)


def bind(
    program: Program,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    out: Any = None,
    grid: int | tuple[int, ...] | None = None,
    accept: Accept = _nothing_else,
) -> Call:
    """Check the arguments of one call and work out sizes and geometry; the rule is at the top of this file.

    `accept(what, parameter, value)` is called for each array first: what it returns, unless that is None, is the
    argument, and only its size is checked further; it raises for a wrong value of its kind.
    """
    given = _by_name(program, args, kwargs)
    arrays: dict[str, Any] = {}
    scalars: dict[str, int] = {}
    extents = sizes.Extents(program)
    for parameter in argument_parameters(program):
        value = given[parameter.name]
        if not parameter.is_buffer:
            scalars[parameter.name] = _scalar(program, parameter, value)
            continue
        what = f"argument {parameter.name}"
        accepted = accept(what, parameter, value)
        array = _array(program, what, parameter, value) if accepted is None else accepted
        extents.take(what, parameter, array)
        arrays[parameter.name] = _flat(array) if accepted is None else accepted
    outs: dict[str, Any] = {}
    for parameter, value in _destinations(program, out):
        if value is not None:
            accepted = accept(f"out= for {parameter.name}", parameter, value)
            outs[parameter.name] = _destination(program, parameter, value) if accepted is None else accepted
            if parameter.kind == "out":
                extents.take(f"out= for {parameter.name}", parameter, outs[parameter.name])
    extents.size_outs(scalars)
    extents.check(scalars)
    for name, destination in outs.items():
        _check_fit(program, name, destination, extents)
    _check_overlap(program, outs)
    geometry = launch_geometry(program, extents.known, scalars, grid)
    counts = {p.name: extents.known[p.name] for p in program.parameters if p.is_buffer}
    return Call(
        program,
        MappingProxyType(arrays),
        MappingProxyType(scalars),
        MappingProxyType(counts),
        MappingProxyType(extents.shapes()),
        MappingProxyType(outs),
        geometry,
    )


def assertion_error(program: Program, site: int, thread: int) -> KernelAssertionError:
    """The error for the assertion numbered `site`, in pre-order from 0, that `thread` (linear in the launch) failed.

    Its `statement` is the number of the assert among all statements of the program, in pre-order from 0.
    """
    found = [(at, s) for at, s in enumerate(statements(program.body)) if isinstance(s, Assert)]
    at, statement = found[site]
    return failure(program, statement.message, statement=at, source=statement.source, thread=thread)


def failure(
    program: Program, message: str, *, statement: int, source: Source | None, thread: int, index: int | None = None
) -> KernelAssertionError:
    """The error for a failed assertion, or with `index` for an access out of bounds, that `thread` reported."""
    place = f" ({source[0]}:{source[1]})" if source else ""
    what = "assertion" if index is None else f"bounds check of index {index}"
    return KernelAssertionError(
        f"{message}: {what} of program {program.name} failed at statement {statement}{place} in thread {thread}",
        message=message,
        program=program.name,
        statement=statement,
        thread=thread,
        source=source,
        index=index,
    )


# ---- names -------------------------------------------------------------------------------------------------------


def _by_name(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in argument_parameters(program)]
    takes = f"{program.name} takes {counted(len(names), 'argument')} ({', '.join(names)})"
    if len(args) > len(names):
        raise TypeError(f"{takes}, {len(args)} given by position{_outs_hint(program)}{consts_hint(program)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"{program.name}: {name} is given twice, by position and by name")
        if name not in names:
            hint = _outs_hint(program) if any(p.name == name for p in program.parameters) else ""
            raise TypeError(f"{takes}, not {name}{hint}{consts_hint(program, name)}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{takes}; missing: {', '.join(missing)}")
    return given


def consts_hint(program: Program, name: str | None = None) -> str:
    """Where a const of the kernel function is set that the program was made of; `name`: if this is one."""
    consts = [each for each in program._consts if name in (None, each)]
    given = ", ".join(f"{each}=..." for each in consts)
    kind = "a const" if len(consts) == 1 else "consts"
    return f"; {', '.join(consts)}: {kind}, set by {program.name}.on(device, {given})" if consts else ""


def _outs_hint(program: Program) -> str:
    outs = [p.name for p in program.parameters if p.kind == "out"]
    return f" (pass arrays for {', '.join(outs)} by out=)" if outs else ""


def _destinations(program: Program, out: Any) -> list[tuple[Parameter, Any]]:
    results = result_parameters(program)
    names = ", ".join(parameter.name for parameter in results)
    if out is None:
        return []
    if isinstance(out, Mapping):
        unknown = [str(name) for name in out if name not in {parameter.name for parameter in results}]
        if unknown:
            raise TypeError(f"{program.name}: out= names {', '.join(unknown)}; the results are {names}")
        return [(parameter, out.get(parameter.name)) for parameter in results]
    values = out if isinstance(out, tuple) else (out,)
    if len(values) != len(results):
        what = f"a tuple of {len(values)}" if isinstance(out, tuple) else f"one {type(out).__name__}"
        raise TypeError(f"{program.name}: out= is {what} for {counted(len(results), 'result')} ({names})")
    return list(zip(results, values, strict=True))


# ---- values ------------------------------------------------------------------------------------------------------


def _scalar(program: Program, parameter: Parameter, value: Any) -> int:
    try:
        return bits_of(parameter.type, value)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{program.name}: scalar {parameter.name}: {error}") from None


def _array(program: Program, what: str, parameter: Parameter, value: Any) -> Array:
    if not (type(value) is np.ndarray or hosts.is_array(value)):
        raise TypeError(
            f"{program.name}: {what} is {hosts.described(value)}; it needs a NumPy array of {parameter.type.dtype}"
        )
    if value.dtype != parameter.type.dtype:
        swapped = " (another byte order)" * (value.dtype.newbyteorder() == parameter.type.dtype)
        way = _converted(parameter, value.dtype) if what.startswith("argument") else ""
        raise TypeError(
            f"{program.name}: {what} is an array of {value.dtype}{swapped}; it needs {parameter.type.dtype}{way}"
        )
    sizes.check_indexable(program, what, value.size)
    return value


def _converted(parameter: Parameter, given: np.dtype[Any]) -> str:
    """How to make an array of the parameter's type of one of another type."""
    name, wanted = parameter.name, parameter.type.dtype
    if given.kind == "c":
        return f" (pass {name}.real and {name}.imag as two arrays)"
    if given.names:
        fields = [field for field in given.names if given[field] == wanted]
        return f" (pass a field, as in {name}[{(fields or given.names)[0]!r}])"
    return f" (write {name}.astype(vc.{parameter.type}.dtype))"


def _flat(array: Array) -> Array:
    return np.require(np.asarray(array), requirements=("C", "A")).reshape(-1)


def _destination(program: Program, parameter: Parameter, value: Any) -> Array:
    what = f"out= for {parameter.name}"
    array = _array(program, what, parameter, value)
    if not array.flags.c_contiguous:
        raise ValueError(f"{program.name}: {what} is not C-contiguous (shape {array.shape}, strides {array.strides})")
    if not array.flags.writeable:
        raise ValueError(f"{program.name}: {what} is read-only")
    return array


def _check_fit(program: Program, name: str, destination: Any, extents: sizes.Extents) -> None:
    """The array for the result of an inout must be as its argument is."""
    shape = extents.shapes().get(name)
    if shape is not None and tuple(destination.shape) != shape:
        raise ValueError(f"{program.name}: out= for {name} has the shape {tuple(destination.shape)}, not {shape}")
    if destination.size != extents.known[name]:
        size = counted(destination.size, "element")
        raise ValueError(f"{program.name}: out= for {name} has {size}, not {extents.known[name]}")


def _check_overlap(program: Program, outs: Mapping[str, Any]) -> None:
    """Contiguous arrays overlap exactly when their bounds overlap."""
    arrays = {name: out for name, out in outs.items() if isinstance(out, np.ndarray) and out.size > 0}
    begins = {name: array.__array_interface__["data"][0] for name, array in arrays.items()}
    for one, next_one in pairwise(sorted(begins, key=begins.__getitem__)):
        if begins[next_one] < begins[one] + arrays[one].nbytes:
            first, second = (name for name in arrays if name in (one, next_one))
            raise ValueError(f"{program.name}: out= for {first} and for {second} overlap in memory")
