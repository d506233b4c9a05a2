# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""A call with host arrays of fixed sizes: its inputs and outputs are page-locked memory that is kept.

The arguments of a replay are copied in, the kernel runs on that memory, and its outputs are copied out.
"""
import threading

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

cimport numpy as cnp

from vyre_cuda._native.core.c_driver cimport vyc_ticket
from vyre_cuda._native.core.c_kernel cimport (
    VYC_ARGUMENT_PINNED, VYC_RUN_GRID_OF_WORK, vyc_argument, vyc_prepared_check, vyc_prepared_run, vyc_run,
)
from vyre_cuda._native.core.c_status cimport VYC_E_INVALID, VYC_OK, vyc_status
from vyre_cuda._native.core.context cimport load, load_u64, store_u64
from vyre_cuda._native.memory.memory cimport Pinned, pinned_of
from vyre_cuda._native.call.prepared cimport PreparedKernel, finish_run
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.trace.origin cimport origin_of

from vyre_cuda._native.core.status import AssertReport

cnp.import_array()


# How long to wait for a run while holding the GIL, in ns, as in dispatch.pyx.
cdef int64_t HELD_NS = 50_000


# Bytes that are compared at a time: what was compared is not copied.
cdef enum:
    PIECE = 4096


cdef bint is_plain(object value, int typenum):
    """An exact ndarray of this type, C-contiguous, aligned and in native byte order."""
    return (
        cnp.PyArray_CheckExact(value)
        and cnp.PyArray_TYPE(<cnp.ndarray>value) == typenum
        and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>value)
    )


cdef inline bint fits(cnp.ndarray value, cnp.ndarray kept):
    """Whether it has the size that was recorded and, where that has several axes, the shape."""
    return cnp.PyArray_SIZE(value) == cnp.PyArray_SIZE(kept) \
        and (cnp.PyArray_NDIM(kept) == 1 or cnp.PyArray_SAMESHAPE(value, kept))


cdef size_t equal_bytes(const char *one, const char *other, size_t size) noexcept nogil:
    """How many bytes are equal, up to the first piece that has others."""
    cdef size_t at = 0
    cdef size_t piece
    while at < size:
        piece = min(size - at, PIECE)
        if memcmp(one + at, other + at, piece) != 0:
            return at
        at += piece
    return size


# Of the contents of arrays: recorded calls of one kernel share what it keeps on the device.
cdef extern from *:
    """
    static uint64_t vyc_last_number;
    #define VYC_NEW_NUMBER() __atomic_add_fetch(&vyc_last_number, 1, __ATOMIC_RELAXED)
    """
    uint64_t new_number "VYC_NEW_NUMBER"() noexcept nogil


cdef class Recorded:
    """Subclasses supply `_ordered`, `_check_sizes`, `_converted`, `_scalar`, `_targets`, `_renewed`, `_assertion` and
    `_refuse_in_recording`.
    """

    # Stands for an argument that a replay does not pass.
    KEEP = object()

    def __init__(self, PreparedKernel prepared not None, list rows not None, list inputs not None,
                 list outputs not None, list scalars not None, tuple grid not None, uint32_t iterations, bint skips,
                 bint sized, tuple known=(), bint of_work=False) -> None:
        """`rows`: (slot, NumPy type number) of each argument, slot -1 - n for scalar n; `inputs`, `outputs`: a
        page-locked array or None for each binding; `sized`: sizes or the grid may follow from scalars; `known`:
        (number, bits) of each scalar that the kernel was compiled for; `of_work`: the grid is not the
        caller's. ValueError for arguments that it refuses.
        """
        cdef Py_ssize_t i
        self._prepared = prepared
        self._items = <vyc_argument *>calloc(len(inputs) + 1, sizeof(vyc_argument))
        self._scalars = <uint64_t *>calloc(len(scalars) + 1, sizeof(uint64_t))
        self._contents = <uint64_t *>calloc(len(inputs) + 1, sizeof(uint64_t))
        self._slot = <int32_t *>calloc(len(rows) + 1, sizeof(int32_t))
        self._typenum = <int32_t *>calloc(len(rows) + 1, sizeof(int32_t))
        if (self._items == NULL or self._scalars == NULL or self._contents == NULL or self._slot == NULL
                or self._typenum == NULL):
            raise MemoryError
        self._lock = threading.Lock()
        self._inputs = inputs
        self._outputs = outputs
        self._skips = skips
        self._sized = sized
        self._known = known
        self._count = len(rows)
        written = [i for i in range(len(outputs)) if outputs[i] is not None]
        self._result = written[0] if len(written) == 1 else -1
        for i in range(len(rows)):
            self._slot[i], self._typenum[i] = rows[i]
        for i in range(len(scalars)):
            self._scalars[i] = scalars[i]
        memset(&self._run, 0, sizeof(self._run))
        self._run.struct_size = sizeof(vyc_run)
        self._run.grid = [grid[0], grid[1], grid[2]]
        self._run.argument_count = len(inputs)
        self._run.scalar_count = len(scalars)
        self._run.arguments = self._items
        self._run.scalars = self._scalars
        self._run.contents = self._contents
        self._run.iterations = iterations
        self._run.flags = VYC_RUN_GRID_OF_WORK if of_work else 0
        for i in range(len(inputs)):
            self._contents[i] = new_number()
        self.point()
        check(vyc_prepared_check(prepared._h, &self._run))

    def __dealloc__(self):
        free(self._items)
        free(self._scalars)
        free(self._contents)
        free(self._slot)
        free(self._typenum)

    cdef int point(self) except -1:
        """Point the arguments at the arrays."""
        cdef Py_ssize_t i
        cdef cnp.ndarray array
        for i in range(len(self._inputs)):
            array = self._inputs[i] if self._inputs[i] is not None else self._outputs[i]
            self._items[i].kind = VYC_ARGUMENT_PINNED
            self._items[i].count = cnp.PyArray_SIZE(array)
            self._items[i].pinned = (<Pinned?>pinned_of(array))._h
            if self._inputs[i] is not None:
                self._items[i].data = cnp.PyArray_DATA(array)
            if self._outputs[i] is not None:
                array = self._outputs[i]
                self._items[i].result = cnp.PyArray_DATA(array)
                self._items[i].pinned = (<Pinned?>pinned_of(array))._h
        return 0

    @property
    def skipped(self) -> int:
        """How many replays did not run, because their inputs were those of the replay before."""
        return load_u64(self._skipped)

    def replay(self, *args, out=None, **kwargs):
        """Run the call again, on other contents.

        Parameters
        ----------
        *args
            The kernel's arguments in order; those that are not given keep their last values.
        out
            Memory for the results, as for a call; new arrays without it.
        **kwargs
            Arguments by name.

        Returns
        -------
        array or tuple of arrays
            What the kernel returns.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments of other sizes or types than those recorded.
        RecordingError
            The thread is recording a graph of the device.
        Error
            Those of a call.
        """
        cdef uint32_t i
        cdef uint32_t given
        if load(self._prepared.context._recordings) != 0:
            self._refuse_in_recording()
        if kwargs or <uint32_t>len(args) > self._count:
            args = self._ordered(args, kwargs)
        if out is not None:
            out = [out] if self.takes(out) else self._targets(out)
        if self._sized:
            self._check_sizes(args)
        given = len(args)
        with self._lock:
            if not self._skips:
                self._fresh = False
            for i in range(given):
                if args[i] is not self.KEEP:
                    self.take(i, args[i])
            if self._fresh:
                store_u64(self._skipped, self._skipped + 1)
            else:
                self.run()
            return self.deliver(out)

    cdef bint takes(self, object out):
        """Whether this is the plain array of the one result."""
        cdef cnp.ndarray kept
        if self._result < 0:
            return False
        kept = self._outputs[self._result]
        return is_plain(out, cnp.PyArray_TYPE(kept)) and cnp.PyArray_ISWRITEABLE(<cnp.ndarray>out) \
            and fits(<cnp.ndarray>out, kept)

    cdef int take(self, uint32_t i, object value) except -1:
        cdef int32_t slot = self._slot[i]
        cdef uint64_t bits
        if slot >= 0:
            return self.take_array(i, slot, value)
        slot = -1 - slot
        bits = self._scalar(i, value)
        if bits != self._scalars[slot]:
            self._fresh = False
        self._scalars[slot] = bits
        return 0

    cdef int take_array(self, uint32_t i, int32_t slot, object value) except -1:
        cdef cnp.ndarray kept = self._inputs[slot]
        cdef cnp.ndarray array
        if not is_plain(value, self._typenum[i]) or not fits(<cnp.ndarray>value, kept):
            value = self._converted(i, value)
        array = value
        cdef size_t size = cnp.PyArray_NBYTES(kept)
        cdef void *to = cnp.PyArray_DATA(kept)
        cdef const void *source = cnp.PyArray_DATA(array)
        cdef size_t same
        with nogil:
            same = equal_bytes(<char *>to, <const char *>source, size)
            memcpy(<char *>to + same, <const char *>source + same, size - same)
        if same < size:
            self._fresh = False
            self._contents[slot] = new_number()
        return 0

    def run(self) -> None:
        """Run on the kept memory. A run whose wait failed keeps that memory; then new memory is allocated."""
        ended = False
        try:
            self.wait()
            ended = True
        except AssertReport as report:
            ended = True
            raise self._assertion(report) from None
        finally:
            if not ended:
                self._inputs = self._renewed(self._inputs)
                self._outputs = self._renewed(self._outputs)
                self.point()
        self._fresh = True

    cdef int wait(self) except -1:
        cdef vyc_ticket *ticket = NULL
        self._run.timeout_ns = HELD_NS
        self._run.origin = origin_of(&self._seen)
        cdef vyc_status status = vyc_prepared_run(self._prepared._h, &ticket, &self._run)
        if status == VYC_OK:
            return 0
        if status == VYC_E_INVALID:
            for slot, bits in self._known:  # a value that was refused is not kept
                self._scalars[slot] = bits
        return finish_run(self._prepared, status, ticket, &self._run)

    cdef object deliver(self, object out):
        cdef Py_ssize_t i
        cdef Py_ssize_t at = 0
        cdef cnp.ndarray kept, target
        results = []
        for i in range(len(self._outputs)):
            if self._outputs[i] is None:
                continue
            kept = self._outputs[i]
            if out is None or out[at] is None:
                target = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(kept), cnp.PyArray_DIMS(kept), cnp.PyArray_TYPE(kept), 0)
            else:
                target = out[at]
            memcpy(cnp.PyArray_DATA(target), cnp.PyArray_DATA(kept), cnp.PyArray_NBYTES(kept))
            results.append(target)
            at += 1
        return results[0] if len(results) == 1 else tuple(results)
