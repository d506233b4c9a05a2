from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc

from vyre_cuda._native.core.c_kernel cimport vyc_argument, vyc_run
from vyre_cuda._native.call.prepared cimport PreparedKernel
from vyre_cuda._native.trace.origin cimport Seen
from vyre_cuda._native.call.table cimport Table


cdef extern from "call/spares.h":
    ctypedef struct Spare "vyre_spare":
        pass
    ctypedef struct Spares "vyre_spares":
        pass
    void *spare_take "vyre_spare_take"(Spares *spares)
    void spare_give "vyre_spare_give"(Spares *spares, void *room)
    void spares_free "vyre_spares_free"(Spares *spares)


cdef extern from "call/ranges.h":
    ctypedef struct Range "vyre_range":
        uint64_t begin, end, parameter
    void ranges_sort "vyre_ranges_sort"(Range *ranges, uint32_t count) noexcept
    bint ranges_apart "vyre_ranges_apart"(const Range *ranges, uint32_t count) noexcept
    bint ranges_meet "vyre_ranges_meet"(const Range *ranges, uint32_t count, Range own) noexcept


# One run: what the structs point to, followed by as much as the kernel needs, and the bytes that will be copied on the
# host. What never changes stays in it from call to call.
cdef struct Frame:
    Spare spare
    vyc_run run
    vyc_argument *items
    uint64_t *scalars
    uint64_t *counts               # per parameter, and room to evaluate (table.pxd) and for ranges of results
    uint64_t staged                # bytes
    bint mixed                     # has device arrays
    uint32_t held_count            # 0 between calls
    PyObject **held                # references to buffers, which let_go gives back


# Buffers of launches are held where another thread could release one before the C layer has it: with a GIL none can.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define VYC_FREE_THREADED 1
    #else
    #define VYC_FREE_THREADED 0
    #endif
    """
    const bint FREE_THREADED "VYC_FREE_THREADED"


cdef inline void let_go(Frame *frame) noexcept:
    """Release what the frame holds, once the C layer has its own references or nobody will read the frame."""
    cdef PyObject *buffer
    while frame.held_count != 0:
        frame.held_count -= 1
        buffer = frame.held[frame.held_count]
        Py_DECREF(<object>buffer)


cdef inline Frame *new_frame(uint32_t bindings, uint32_t scalars, uint32_t counts) except NULL:
    """A new frame with room for this many; release it with `free`."""
    cdef size_t words = scalars + counts + bindings
    cdef Frame *frame = <Frame *>calloc(1, sizeof(Frame) + bindings * sizeof(vyc_argument) + words * sizeof(uint64_t))
    if frame == NULL:
        raise MemoryError
    frame.items = <vyc_argument *>(frame + 1)
    frame.scalars = <uint64_t *>(frame.items + bindings)
    frame.counts = frame.scalars + scalars
    frame.held = <PyObject **>(frame.counts + counts)
    frame.run.struct_size = sizeof(vyc_run)
    frame.run.argument_count = bindings
    frame.run.scalar_count = scalars
    frame.run.arguments = frame.items
    frame.run.scalars = frame.scalars
    frame.run.timeout_ns = -1
    frame.run.iterations = 1
    return frame


cdef class Framer(Table):
    cdef PreparedKernel _prepared
    cdef Spares _frames    # of calls with host arrays
    cdef Spares _launches  # of launches: only buffer, offset and count of their items change
    cdef Seen *_seen  # where the last call came from

    cdef Frame *first_frame(self) except NULL
    cdef object prepare(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object out, object grid)
    cdef bint take(self, Frame *frame, uint32_t parameter, object value) except -1
    cdef bint enter_shapes(self, Frame *frame, PyObject *const *args) except -1
    cdef object results_of(self, Frame *frame, object out)
    cdef bint apart(self, Frame *frame, uint32_t given)
    cdef bint many_apart(self, Frame *frame)
    cdef object give(self, Frame *frame, uint32_t parameter, object target)
    cdef bint fill_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1
    cdef bint prepare_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1


cdef inline Frame *take_frame(Framer framer, Spares *spares) except NULL:
    """A frame that belongs to the caller until it is given back; other calls have other frames."""
    cdef Frame *frame = <Frame *>spare_take(spares)
    return frame if frame != NULL else framer.first_frame()


cdef inline void give_frame(Frame *frame, Spares *spares) noexcept:
    let_go(frame)
    spare_give(spares, frame)
