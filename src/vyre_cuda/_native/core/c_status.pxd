# vyre_cuda/status.h for Cython: what the extensions use of it.
from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef extern from "vyre_cuda/status.h" nogil:
    ctypedef enum vyc_status:
        VYC_OK
        VYC_E_INVALID
        VYC_E_UNAVAILABLE
        VYC_E_UNSUPPORTED
        VYC_E_MEMORY
        VYC_E_DRIVER
        VYC_E_COMPILE
        VYC_E_LOST
        VYC_E_TIMEOUT
        VYC_E_ASSERT
        VYC_E_COMMUNICATION
        VYC_E_INTERNAL
        VYC_NOT_READY
        VYC_E_FILE
        VYC_E_FORMAT
        VYC_E_VERSION

    ctypedef struct vyc_error:
        uint32_t struct_size
        int32_t status
        int32_t driver_result
        uint64_t report
        uint64_t tag
        char operation[64]
        char driver_name[64]
        char message[640]
        uint64_t report_index
        char launches[1024]

    vyc_status vyc_last_error(vyc_error *error_out)
    const char *vyc_last_message()
    uint32_t vyc_version()
