# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Launches of kernels from other compilers, prepared, recorded and ordered like those of programs.

Device arrays and exact Python numbers go straight into the C structs of one run; anything else is
passed to `_array` and `_bits` of the subclass, which convert and explain.
"""
cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from vyre_cuda._native.core.c_kernel cimport (
    VYC_ARGUMENT_BUFFER, vyc_argument, vyc_call_create, vyc_call_run_at, vyc_prepared_launch, vyc_run,
)
from vyre_cuda._native.core.context cimport Stream, load
from vyre_cuda._native.memory.adopted cimport stream_of
from vyre_cuda._native.call.frame cimport Frame, let_go, new_frame, spare_give, spare_take, spares_free
from vyre_cuda._native.call.numbers cimport float_bits, integer_bits
from vyre_cuda._native.memory.memory cimport Buffer, Span, new_reference
from vyre_cuda._native.core.module cimport Module
from vyre_cuda._native.trace.origin cimport origin_of
from vyre_cuda._native.call.prepared cimport AnyCall, Arguments, PreparedKernel, copy_run
from vyre_cuda._native.core.status cimport check

from vyre_cuda.errors import FREED, counted

cdef int scalar_bits(uint64_t *bits, object value, const Word *word) except -1:
    """1 and the bits of an exact Python number that fits, else 0."""
    if word.width == 0:
        return float_bits(bits, value, word.typenum)
    return integer_bits(bits, value, word.width)


cdef int fill_grid(object grid, uint32_t *max_grid, vyc_run *run) except -1:
    """One to three numbers of blocks, checked against the device's limits."""
    cdef int i
    cdef int64_t extent
    cdef tuple axes = grid if isinstance(grid, tuple) else (grid,)
    if not 1 <= len(axes) <= 3:
        raise ValueError(f"grid={grid!r} has {len(axes)} axes; it needs one to three")
    run.grid = [1, 1, 1]
    for i in range(<int>len(axes)):
        if isinstance(axes[i], bool) or not hasattr(axes[i], "__index__"):
            raise TypeError(f"grid={grid!r}: an int or a tuple of one to three ints is needed")
        if not 1 <= axes[i] <= max_grid[i]:
            raise ValueError(
                f"grid={grid!r}: {axes[i]} blocks on axis {'xyz'[i]}; this device takes 1 to {max_grid[i]}")
        extent = axes[i]
        run.grid[i] = <uint32_t>extent
    return 0


cdef class Launcher:
    """A loaded kernel. Subclasses supply `_variant`, `_array`, `_bits` and `_record_launch`."""

    def __init__(self, Module module not None, list words not None, tuple max_grid not None) -> None:
        """`words`: for each parameter whether it is a pointer, its width and NumPy's type number, as in Row."""
        cdef int i
        self.module = module
        self._words = <Word *>calloc(len(words) + 1, sizeof(Word))
        if self._words == NULL:
            raise MemoryError
        self._count = len(words)
        for i in range(self._count):
            self._words[i].is_pointer, self._words[i].width, self._words[i].typenum = words[i]
        for i in range(3):
            self._max_grid[i] = max_grid[i]

    def __dealloc__(self):
        free(self._words)
        spares_free(&self._frames)

    cdef Frame *take(self) except NULL:
        """A frame that belongs to the caller until it is given back. Any parameter may be a plain number."""
        cdef Frame *frame = <Frame *>spare_take(&self._frames)
        return frame if frame != NULL else new_frame(self._count, self._count, 0)

    cdef void give(self, Frame *frame) noexcept:
        let_go(frame)
        spare_give(&self._frames, frame)

    cdef PreparedKernel prepared_for(self, object block, uint32_t shared_bytes, bint cooperative, object addresses):
        """The kernel at this block and shared memory, with plain numbers for pointers in the bit set `addresses`."""
        cdef tuple last
        with cython.critical_section(self):
            last = self._last
        if last is not None and last[0] == block and last[1] == shared_bytes and last[2] == cooperative \
                and last[3] == addresses:
            return <PreparedKernel>last[4]
        prepared = self._variant(block, shared_bytes, cooperative, addresses)
        fresh = (block, shared_bytes, cooperative, addresses, prepared)
        with cython.critical_section(self):
            last = self._last  # the old one is released when this returns
            self._last = fresh
        return prepared

    cdef object fill(self, Frame *given, tuple args, object grid, Stream stream):
        """Fill the run; returns the bit set of pointers that are plain numbers."""
        cdef int i
        cdef uint32_t bindings = 0
        cdef uint32_t count = 0
        cdef Span span
        cdef object addresses = 0
        cdef object one = 1  # a Python int: there may be more pointers than bits in a C word
        cdef PyObject *buffer
        if len(args) != self._count:
            raise TypeError(f"the kernel takes {counted(self._count, 'argument')}; {len(args)} given")
        for i in range(self._count):
            value = args[i]
            if self._words[i].is_pointer:
                if PyLong_CheckExact(value):
                    if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
                        raise OverflowError(
                            f"argument {i}: {value} is not an address, which has 64 bits: "
                            "pass the array, or its address")
                    given.scalars[count] = value
                    count += 1
                    addresses |= one << i
                    continue
                if not isinstance(value, Span):
                    value = self._array(i, value, stream)
                span = <Span>value
                buffer = new_reference(span)
                if buffer == NULL:
                    raise ValueError(f"argument {i}: {FREED}")
                given.held[bindings] = buffer
                given.held_count = bindings + 1
                memset(&given.items[bindings], 0, sizeof(vyc_argument))
                given.items[bindings].kind = VYC_ARGUMENT_BUFFER
                given.items[bindings].buffer = (<Buffer>buffer)._h
                given.items[bindings].offset = span.offset
                bindings += 1
                continue
            if not scalar_bits(&given.scalars[count], value, &self._words[i]):
                given.scalars[count] = self._bits(i, value)
            count += 1
        fill_grid(grid, self._max_grid, &given.run)
        given.run.argument_count = bindings
        given.run.scalar_count = count
        given.run.timeout_ns = -1
        given.run.origin = 0
        given.run.stream = NULL if stream is None else stream._h
        return addresses

    def launch(self, *args, grid, block, uint32_t shared_bytes=0, bint cooperative=False, stream=None):
        """Launch without waiting, in the order of the stream or of the device.

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

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit the signature.
        ResourceError
            The device cannot launch as much.
        """
        cdef Frame *given
        cdef PreparedKernel prepared
        if load(self.module.context._recordings) != 0 and self._record_launch(
                args, grid, block, shared_bytes, cooperative, stream):
            return
        cdef Stream on = stream_of(self.module.context, stream)
        given = self.take()
        try:
            prepared = self.prepared_for(block, shared_bytes, cooperative, self.fill(given, args, grid, on))
            given.run.origin = origin_of(&self._seen)
            check(vyc_prepared_launch(prepared._h, &given.run))
        finally:
            self.give(given)

    def prepared_and_arguments(self, tuple args not None, grid, block, uint32_t shared_bytes,
                               bint cooperative) -> tuple[PreparedKernel, Arguments]:
        """The prepared kernel and the arguments of a launch with these."""
        cdef Frame *given = self.take()
        cdef Arguments arguments
        cdef uint32_t i
        try:
            prepared = self.prepared_for(block, shared_bytes, cooperative, self.fill(given, args, grid, None))
            arguments = copy_run(&given.run)
            arguments.keep = [args, [<object>given.held[i] for i in range(given.held_count)]]
            return prepared, arguments
        finally:
            self.give(given)


cdef class LoadedCall(AnyCall):
    """A launch of a loaded kernel with its arguments bound. Subclasses supply `_record_call`."""

    def __init__(self, Launcher launcher not None, tuple args not None, object grid, object block,
                 uint32_t shared_bytes, bint cooperative, object stream) -> None:
        cdef Frame *given
        self._launcher = launcher
        self._on = stream_of(launcher.module.context, stream)
        self._grid = grid
        given = launcher.take()
        try:
            self._addresses = launcher.fill(given, args, grid, self._on)
            self._prepared = launcher.prepared_for(block, shared_bytes, cooperative, self._addresses)
            check(vyc_call_create(&self._h, self._prepared._h, &given.run))
        finally:
            launcher.give(given)
        self._values = args

    def __call__(self, *args):
        """Launch; with arguments, bind those first, for later launches too."""
        cdef Frame *given
        if load(self._launcher.module.context._recordings) != 0 and self._record_call(args):
            return
        if args:
            given = self._launcher.take()
            try:
                if self._launcher.fill(given, args, self._grid, self._on) != self._addresses:
                    raise TypeError(
                        "a bound call takes an array where an array was bound, and an address where an address was: "
                        "bind again"
                    )
                self.set_values(&given.run, args)
            finally:
                self._launcher.give(given)
        check(vyc_call_run_at(self._h, origin_of(&self._seen)))
