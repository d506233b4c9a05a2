from vyre_cuda._native.c_api cimport vyc_graph, vyc_graph_transfer
from vyre_cuda._native.origin cimport Seen


cdef class Transfer:
    cdef vyc_graph_transfer transfer
    cdef tuple keep


cdef class Graph:
    cdef vyc_graph *_h
    cdef bint _long
    cdef object _last
    cdef Seen *_seen  # where the last launch came from
