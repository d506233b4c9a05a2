# vyre_cuda/worker.h for Cython: what the extensions use of it.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_prepared, vyc_stream, vyc_ticket
from vyre_cuda._native.core.c_kernel cimport vyc_run
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/worker.h" nogil:
    ctypedef struct vyc_worker:
        pass

    ctypedef struct vyc_worker_desc:
        uint32_t struct_size
        uint32_t kernel_count
        vyc_prepared *const *kernels
        vyc_prepared *clearing
        uint64_t idle_ns
        uint64_t busy_ns
        uint32_t first
        uint32_t blocks

    ctypedef struct vyc_worker_stats:
        uint32_t struct_size
        uint32_t running
        uint64_t calls
        uint64_t launches
        uint64_t pauses

    vyc_status vyc_worker_create(vyc_worker **worker_out, vyc_prepared *entry, const vyc_worker_desc *desc)
    vyc_status vyc_worker_run(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel, const vyc_run *run)
    vyc_status vyc_worker_submit(vyc_worker *worker, vyc_ticket **ticket_out, uint32_t kernel, const vyc_run *run)
    vyc_status vyc_stream_wait_worker(vyc_stream *stream, vyc_worker *worker)
    vyc_status vyc_worker_pause(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_pause_wait(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_resume(vyc_worker *worker)
    vyc_status vyc_worker_close(vyc_worker *worker, int64_t timeout_ns)
    vyc_status vyc_worker_stats_get(vyc_worker *worker, vyc_worker_stats *stats_out)
    void vyc_worker_release(vyc_worker *worker)
