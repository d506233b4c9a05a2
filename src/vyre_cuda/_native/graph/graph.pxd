from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from vyre_cuda._native.core.c_driver cimport vyc_graph
from vyre_cuda._native.core.c_graph cimport vyc_graph_transfer, vyc_symbol_value
from vyre_cuda._native.core.c_status cimport vyc_status
from vyre_cuda._native.core.context cimport Context, Stream
from vyre_cuda._native.graph.slot cimport Slot
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
    cdef public bint _is_behind  # the next replay with values has more to do than to launch


cdef class Graph:
    cdef vyc_graph *_h
    cdef Context _context
    cdef bint _long
    cdef bint _communicates
    cdef object _last
    cdef Seen *_seen  # where the last launch came from

    cdef dict _slots  # of the symbols that the C layer sets, by name

    cdef int launch_as_is(self, Stream stream) except -1
    cdef int launch_with(self, Replayer graph, PyObject *const *args, tuple keys) except -1
    cdef int give(self, vyc_status *status, vyc_symbol_value *values, uint32_t count, object stream) except -1
    cdef int keep_array(self, Slot slot, object value) except -1
    cdef int keep_changes(self, list changes) except -1
