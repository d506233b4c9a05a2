from libc.stdint cimport uint32_t

from vyre_cuda._native.c_api cimport vyc_context, vyc_driver, vyc_event, vyc_stream


cdef class Driver:
    cdef vyc_driver *_h


cdef class Context:
    cdef vyc_context *_h
    cdef object __weakref__
    cdef uint32_t launches
    cdef bint is_behind  # the next launch may block
    cdef dict adopted  # streams of other libraries, by handle
    cdef public object explain
    # How many threads record a graph: what launches and calls look at before they ask further.
    cdef public int recordings

    cdef object error(self, object report)


cdef class Stream:
    cdef vyc_stream *_h
    cdef Context _context


cdef class Event:
    cdef vyc_event *_h
    cdef Context _context
