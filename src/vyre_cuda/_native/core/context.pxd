from libc.stdint cimport uint32_t, uint64_t

from vyre_cuda._native.core.c_context cimport vyc_context_is_behind
from vyre_cuda._native.core.c_driver cimport vyc_context, vyc_driver, vyc_event, vyc_stream
from vyre_cuda._native.core.c_status cimport VYC_NOT_READY

# Words that threads read and write without a lock: each access is atomic and costs as much as a plain one.
cdef extern from *:
    """
    #define VYC_LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
    #define VYC_STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
    #define VYC_ADD(word, value) __atomic_fetch_add(&(word), (value), __ATOMIC_RELAXED)
    """
    int load "VYC_LOAD"(int word) noexcept nogil
    uint32_t load_u32 "VYC_LOAD"(uint32_t word) noexcept nogil
    uint64_t load_u64 "VYC_LOAD"(uint64_t word) noexcept nogil
    void store "VYC_STORE"(int word, int value) noexcept nogil
    int add "VYC_ADD"(int word, int value) noexcept nogil
    void store_u32 "VYC_STORE"(uint32_t word, uint32_t value) noexcept nogil
    void store_u64 "VYC_STORE"(uint64_t word, uint64_t value) noexcept nogil


cdef class Driver:
    cdef vyc_driver *_h


cdef class Context:
    cdef vyc_context *_h
    cdef object __weakref__
    cdef uint32_t launches
    cdef bint is_behind  # the next launch may block
    cdef dict adopted  # streams of other libraries, by handle
    cdef public object explain
    cdef public object awaiting
    # How many threads are recording a graph: launches and calls test this first.
    cdef int _recordings

    cdef object error(self, object report)
    cdef int wait(self, object timeout) except -1


# Launches between two checks of how far the device is behind.
cdef enum:
    LOOK_EVERY = 256


cdef inline bint looks_deep(Context context, vyc_stream *stream) noexcept:
    """Count a launch or a copy on a stream (NULL: call order); returns whether its queue may be full. The
    count is a hint: with several threads, some may be lost."""
    cdef uint32_t launches = load_u32(context.launches) + 1
    store_u32(context.launches, launches)
    if launches % LOOK_EVERY == 0:
        store(context.is_behind, vyc_context_is_behind(context._h, stream) == VYC_NOT_READY)
    return load(context.is_behind)


cdef class Stream:
    cdef vyc_stream *_h
    cdef Context _context

    cdef int finish(self, object timeout) except -1


cdef class Event:
    cdef vyc_event *_h
    cdef Context _context
