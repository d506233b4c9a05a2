from vyre_cuda._native.core.c_api cimport vyc_graph, vyc_graph_transfer
from vyre_cuda._native.core.context cimport Context, Stream
from vyre_cuda._native.trace.origin cimport Seen


cdef class Transfer:
    cdef vyc_graph_transfer transfer
    cdef tuple keep


cdef class Replayer:
    # What a recording in the runtime adds.
    cdef Context _context
    cdef public Graph _native
    cdef public dict _users
    cdef public dict _values


cdef class Graph:
    cdef vyc_graph *_h
    cdef Context _context
    cdef bint _long
    cdef object _last
    cdef Seen *_seen  # where the last launch came from

    cdef int launch_as_is(self, Stream stream) except -1
    cdef int keep_changes(self, list changes) except -1
