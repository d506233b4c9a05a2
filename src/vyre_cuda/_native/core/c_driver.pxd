# vyre_cuda/driver.h for Cython: what the extensions use of it.
from libc.stdint cimport int32_t, uint32_t

from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/driver.h" nogil:
    ctypedef struct vyc_driver
    ctypedef struct vyc_context
    ctypedef struct vyc_stream
    ctypedef struct vyc_event
    ctypedef struct vyc_buffer
    ctypedef struct vyc_pinned
    ctypedef struct vyc_module
    ctypedef struct vyc_prepared
    ctypedef struct vyc_call
    ctypedef struct vyc_ticket
    ctypedef struct vyc_graph

    ctypedef struct vyc_driver_info:
        uint32_t struct_size
        int32_t version
        int32_t device_count
        int32_t is_emulator

    vyc_status vyc_driver_open(vyc_driver **driver_out, const char *path)
    void vyc_driver_release(vyc_driver *driver)
    vyc_status vyc_driver_started(int32_t *started_out, const char *path)
    vyc_status vyc_driver_info_get(vyc_driver *driver, vyc_driver_info *info_out)
    vyc_status vyc_driver_device_name(vyc_driver *driver, char *name_out, size_t name_bytes, int32_t ordinal)

    ctypedef struct vyc_fence
