# vyre_cuda/notice.h for Cython: what the extensions use of it.
from libc.stdint cimport int32_t, uint32_t

from vyre_cuda._native.core.c_driver cimport vyc_event, vyc_stream, vyc_ticket
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/notice.h" nogil:
    ctypedef struct vyc_notice:
        uint32_t struct_size
        int32_t fd
        void (*call)(void *user, vyc_status status) noexcept nogil
        void *user

    vyc_status vyc_ticket_notify(vyc_ticket *ticket, const vyc_notice *notice)
    vyc_status vyc_event_notify(vyc_event *event, const vyc_notice *notice)
    vyc_status vyc_stream_notify(vyc_stream *stream, const vyc_notice *notice)
