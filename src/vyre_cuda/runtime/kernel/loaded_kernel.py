"""Kernels from other compilers: loaded, checked against their signature, and launched like kernels of programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call.loaded import Launcher, LoadedCall
from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.core.context import Stream, refuse_pickle
from vyre_cuda._native.core.module import Module, is_binary
from vyre_cuda.codegen.core.target import LARGE_PARAMETER_BYTES
from vyre_cuda.descriptors.signature import PARAMETER_KINDS, ROLES, width_of
from vyre_cuda.errors import RecordingError, UnsupportedError, counted, type_name
from vyre_cuda.ir.core.limits import MAX_PARAMETERS
from vyre_cuda.ir.core.nodes import AXES
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import BY_NAME, Type, u64
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.properties import KernelAttributes
from vyre_cuda.runtime.base.range_names import RESIDENT
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.memory.interop import adopt, is_foreign

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

_POINTERS = {"ptr": "inout", "const_ptr": "in"}
# Bytes of parameters on the newest devices; the driver allows fewer on older ones. Arrays: what the C layer takes.
_MOST_BYTES = LARGE_PARAMETER_BYTES
_MOST_ARRAYS = MAX_PARAMETERS
_ALL = -1  # the bit set of all parameters
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


class ForeignParameter(FrozenRecord):
    """One word of a signature and its place in the parameter block: `offset` and `size` in bytes."""

    word: str
    offset: int
    size: int

    @property
    def type(self) -> Type:
        """The type that is passed: a pointer is an unsigned 64-bit number."""
        return BY_NAME.get(self.word, u64)

    @property
    def is_pointer(self) -> bool:
        """Whether it is `ptr` or `const_ptr`."""
        return self.word in _POINTERS


class ForeignKernel(Launcher):
    """A kernel loaded from PTX text or a binary; made by `Device.load`.

    Its pointers take device arrays, arrays of other libraries, and addresses as ints, about which nothing is known:
    order their use yourself. A `ptr` counts as read and written, a `const_ptr` as read. `confirmed`: the driver
    reported where each parameter is, and the signature agrees; otherwise the offsets are computed.
    """

    def __init__(self, device: Device, image: str | bytes, name: str, signature: str) -> None:
        data = _checked_image(device, image)
        self.parameters = parse_signature(signature)
        module = Module(device.context, data)
        try:
            told = module.layout(name)
        except ValueError as error:
            raise ValueError(f"{error}{_names_of(data)}") from None
        if told is not None:
            _confirm(name, self.parameters, told)
        properties = device.properties
        most = properties.max_grid_dim_x, properties.max_grid_dim_y, properties.max_grid_dim_z
        super().__init__(module, [_word(parameter) for parameter in self.parameters], most)
        self.device = device
        self.name = name
        self.confirmed = told is not None
        self._variants: dict[Any, PreparedKernel] = {}
        self.attributes = KernelAttributes(**self._prepare((1, 1, 1), 0, False, _ALL).function_info())

    def bind(
        self, *args: Any, grid: Any, block: Any, shared_bytes: int = 0, cooperative: bool = False, stream: Any = None
    ) -> BoundForeignCall:
        """A launch with bound arguments: `call()` launches again, `call(*args)` binds others first.

        Parameters
        ----------
        *args
            An argument for each word of the signature: device arrays, addresses as ints, numbers.
        grid
            Blocks: an int or a tuple of one to three.
        block
            Threads per block, likewise.
        shared_bytes
            Bytes of dynamic shared memory.
        cooperative
            Whether all blocks are resident at the same time, as barriers of the whole grid need.
        stream
            As for `Kernel.launch`.

        Returns
        -------
        BoundForeignCall
            The bound call.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit the signature, or a grid, block or size is out of range.
        ResourceError
            The device cannot launch as much.
        """
        return BoundForeignCall(self, args, grid, block, shared_bytes, cooperative, stream)

    def launch_many(
        self,
        rows: Iterable[Iterable[Any]],
        *,
        grid: Any,
        block: Any,
        shared_bytes: int = 0,
        cooperative: bool = False,
        stream: Any = None,
    ) -> None:
        """Launch once for each row, one row after the other: only kernels of programs can be one launch.

        Parameters
        ----------
        rows
            Rows of arguments, as `launch` takes them.
        grid, block, shared_bytes, cooperative, stream
            Those of each launch.

        Raises
        ------
        TypeError, ValueError, OverflowError
            The arguments of a row do not fit the signature; the message has its number, from 0, and the rows before it
            are launched or recorded.
        ResourceError
            The device cannot launch as much.
        """
        for number, row in enumerate(rows):
            try:
                self.launch(
                    *row, grid=grid, block=block, shared_bytes=shared_bytes, cooperative=cooperative, stream=stream
                )
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from error

    def _record_launch(
        self, args: tuple[Any, ...], grid: Any, block: Any, shared_bytes: int, cooperative: bool, stream: Any
    ) -> bool:
        """Whether this thread is recording a graph, which then has the launch."""
        graph = self.device._recorder()
        if graph is None:
            return self._watched(args, grid, block, shared_bytes, cooperative, stream)
        if stream is not None:
            raise RecordingError(
                f"{self.name}: a recorded launch cannot have a stream of its own; give the stream to replay()"
            )
        graph._launch_loaded(self, args, (grid, block, shared_bytes, cooperative))
        return True

    def _watched(
        self, args: tuple[Any, ...], grid: Any, block: Any, shared_bytes: int, cooperative: bool, stream: Any
    ) -> bool:
        """Whether the launch was made inside its own profiler range."""
        watch = self.device._watch
        with watch.profiled(RESIDENT, self.name) as opened:
            if opened:
                self.launch(
                    *args, grid=grid, block=block, shared_bytes=shared_bytes, cooperative=cooperative, stream=stream
                )
                return True
        if watch.traces:
            watch.note(self.name, map(str, range(len(args))), args, {"grid": grid, "block": block})
        return False

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        words = " ".join(parameter.word for parameter in self.parameters)
        said = "confirmed by the driver" if self.confirmed else "not confirmed: the driver cannot tell"
        return f"<vyre_cuda.ForeignKernel {self.name}({words}), {said}>"

    # ---- what the warm path hands over ------------------------------------------------------------------------------

    def _variant(self, block: Any, shared_bytes: int, cooperative: bool, addresses: int) -> PreparedKernel:
        extents = self._checked_block(block)
        self._check_shared(shared_bytes)
        key = (extents, shared_bytes, cooperative, addresses)
        prepared = self._variants.get(key)
        if prepared is None:
            prepared = self._variants.setdefault(key, self._prepare(extents, shared_bytes, cooperative, addresses))
        return prepared

    def _prepare(
        self, block: tuple[int, int, int], shared_bytes: int, cooperative: bool, addresses: int
    ) -> PreparedKernel:
        rows: list[tuple[int, int, int, int]] = []
        bindings: list[tuple[int, int, int, int]] = []
        scalars = 0
        types: list[int] = []
        for position, parameter in enumerate(self.parameters):
            if parameter.is_pointer and not addresses >> position & 1:
                rows.append((PARAMETER_KINDS["buffer"], len(bindings), parameter.offset, parameter.size))
                bindings.append((ROLES[_POINTERS[parameter.word]], 0, 1, 0))
            else:
                rows.append((PARAMETER_KINDS["scalar"], scalars, parameter.offset, parameter.size))
                scalars += 1
                types.append(0 if parameter.is_pointer else parameter.type.code)
        if len(bindings) > _MOST_ARRAYS:
            raise UnsupportedError(
                f"{self.name}: {len(bindings)} arrays; a launch takes at most {_MOST_ARRAYS}: pass the addresses "
                "of the others as ints, and order their use yourself",
                capability="parameters",
            )
        end = max((p.offset + p.size for p in self.parameters), default=0)
        labels = [(b"", code) for code in (*[0] * len(bindings), *types)]
        return PreparedKernel(
            self.module,
            self.name,
            block,
            shared_bytes,
            end,
            rows,
            bindings,
            scalars,
            0,
            cooperative,
            may_overlap=True,
            labels=labels,
        )

    def _array(self, position: int, value: Any, stream: Stream | None) -> DeviceArray:
        if not is_foreign(value):
            raise TypeError(
                f"{self.name}: argument {position} is {type_name(value)}; a {self.parameters[position].word} "
                "takes an array in device memory, or an address as an int"
            )
        try:
            return adopt(self.device, value, stream)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: argument {position}: {error}") from error

    def _bits(self, position: int, value: Any) -> int:
        type_ = self.parameters[position].type
        try:
            return bits_of(type_, value)
        except (TypeError, OverflowError) as error:
            raise type(error)(f"{self.name}: argument {position}: {error}") from None

    def _checked_block(self, block: Any) -> tuple[int, int, int]:
        axes = block if isinstance(block, tuple) else (block,)
        if not 1 <= len(axes) <= 3:
            raise ValueError(f"{self.name}: block={block!r} has {len(axes)} axes; it needs one to three")
        for extent in axes:
            if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
                raise TypeError(f"{self.name}: block={block!r}: an int or a tuple of one to three ints is needed")
        x, y, z = (*(int(extent) for extent in axes), 1, 1)[:3]
        properties = self.device.properties
        most = properties.max_block_dim_x, properties.max_block_dim_y, properties.max_block_dim_z
        for axis, extent, limit in zip(AXES, (x, y, z), most, strict=True):
            if not 1 <= extent <= limit:
                raise ValueError(
                    f"{self.name}: block={block!r}: {extent} threads on axis {axis}; this device takes 1 to {limit}"
                )
        if x * y * z > self.attributes.max_threads_per_block:
            raise ValueError(
                f"{self.name}: a block of {x * y * z} threads; this kernel takes "
                f"{self.attributes.max_threads_per_block} on this device"
            )
        return x, y, z

    def _check_shared(self, shared_bytes: int) -> None:
        static = self.attributes.static_shared_bytes
        limit = self.device.properties.max_shared_memory_per_block_optin
        if static + shared_bytes > limit:
            raise ValueError(
                f"{self.name}: the kernel's {static} bytes of shared memory and shared_bytes={shared_bytes} are "
                f"more than the {limit} bytes of a block on this device"
            )


class BoundForeignCall(LoadedCall):
    """A loaded kernel with its arguments bound; made by `ForeignKernel.bind`.

    `call()` launches without waiting; `call(*args)`, with all arguments in order, binds those first, for later launches
    too. Bound arguments stay alive. An array must stay an array, and an address an address.
    """

    def __init__(
        self,
        kernel: ForeignKernel,
        args: tuple[Any, ...],
        grid: Any,
        block: Any,
        shared_bytes: int,
        cooperative: bool,
        stream: Any,
    ) -> None:
        super().__init__(kernel, args, grid, block, shared_bytes, cooperative, stream)
        self._kernel = kernel
        self._shape = (grid, block, shared_bytes, cooperative)
        self._stream = stream

    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.BoundForeignCall of {self._kernel.name} on {self._kernel.device.properties.name}>"

    def _record_call(self, args: tuple[Any, ...]) -> bool:
        if self._kernel.device._recorder() is None:
            return self._watched(args)
        if args:
            raise RecordingError(f"{self._kernel.name}: a recorded bound call takes no other arguments")
        return self._kernel._record_launch(self.values, *self._shape, self._stream)

    def _watched(self, args: tuple[Any, ...]) -> bool:
        """Whether the launch was made inside its own profiler range."""
        kernel = self._kernel
        watch = kernel.device._watch
        with watch.profiled(RESIDENT, kernel.name) as opened:
            if opened:
                self(*args)
                return True
        if watch.traces:
            watch.note(kernel.name, map(str, range(len(self.values))), args or self.values, {})
        return False


def parse_signature(signature: str) -> tuple[ForeignParameter, ...]:
    """The parameters of a signature, at the offsets that C gives them: each at a multiple of its size."""
    if not isinstance(signature, str):
        raise TypeError(f"a signature is a str of words such as ptr and f32, not {type_name(signature)}")
    found: list[ForeignParameter] = []
    end = 0
    for word in signature.split():
        if word == "bool_" or (word not in BY_NAME and word not in _POINTERS):
            known = [*_POINTERS, *(name for name in BY_NAME if name != "bool_")]
            raise ValueError(
                f"unknown word {word!r} in the signature {signature!r}; known words are {', '.join(known)}"
            )
        size = 8 if word in _POINTERS else BY_NAME[word].itemsize
        offset = -(-end // size) * size
        found.append(ForeignParameter(word, offset, size))
        end = offset + size
    if end > _MOST_BYTES:
        raise UnsupportedError(
            f"a signature of {len(found)} parameters, {end} bytes; a kernel takes at most {_MOST_BYTES}: "
            "pass the rest in an array",
            capability="parameters",
        )
    return tuple(found)


def _word(parameter: ForeignParameter) -> tuple[bool, int, int]:
    return parameter.is_pointer, width_of(parameter.type), parameter.type.dtype.num


def _checked_image(device: Device, image: str | bytes) -> bytes:
    if not isinstance(image, (str, bytes, bytearray)):
        raise TypeError(f"load takes PTX text, or the bytes of PTX, a cubin or a fat binary, not {type_name(image)}")
    data = image.encode() if isinstance(image, str) else bytes(image)
    if device.properties.is_emulator and is_binary(data):
        raise UnsupportedError(
            "the emulator runs PTX text, not a cubin or fat binary: load the PTX", capability="cubin"
        )
    return data


def _names_of(data: bytes) -> str:
    names = [] if is_binary(data) else _ENTRY.findall(data.decode("utf-8", "replace"))
    return f"; the module has {', '.join(names)}" if names else ""


def _confirm(name: str, parameters: Sequence[ForeignParameter], told: list[tuple[int, int]]) -> None:
    if [(parameter.offset, parameter.size) for parameter in parameters] == told:
        return
    ours = ", ".join(f"{p.word} ({counted(p.size, 'byte')} at {p.offset})" for p in parameters) or "nothing"
    theirs = ", ".join(f"{counted(size, 'byte')} at {offset}" for offset, size in told) or "nothing"
    raise ValueError(f"kernel {name} takes {theirs}; the signature says {ours}")
