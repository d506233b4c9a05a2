from libc.stdint cimport uint64_t

from vyre_cuda._native.collective.c_collective cimport vyc_collective, vyc_communicator
from vyre_cuda._native.core.context cimport Context
from vyre_cuda._native.memory.memory cimport Span


cdef class Member:
    cdef vyc_communicator *_h
    cdef vyc_communicator *_closing  # until its close has ended
    cdef int _users  # threads that are in the middle of a call; changed with the GIL, or by nobody else
    cdef int _looks  # as `_users`, in short calls whose end a close waits for
    cdef object __weakref__
    cdef readonly Context context
    cdef readonly int rank
    cdef readonly int size

    cdef int begin(self, int *calls) except -1
    cdef void end(self, int *calls) noexcept
    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef bint begin_close(self, vyc_communicator **handle) noexcept


cdef class Together:
    cdef readonly tuple members
    cdef readonly dict types
    cdef public uint64_t limit
    cdef public uint64_t ready

    cdef bint is_ready(self, const vyc_collective *made, Span source)
    cdef int note(self, vyc_collective *made, int kind, int i, object x, object out, list results,
                  list keep) except -1


# `part`: (kind, type, op, peer, what is read, what is written, count). Returns the buffers, which the caller keeps.
cdef tuple collective_of(vyc_collective *made, tuple part)
