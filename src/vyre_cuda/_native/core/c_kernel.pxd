# vyre_cuda/kernel.h for Cython: what the extensions use of it.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport (
    vyc_buffer, vyc_call, vyc_context, vyc_module, vyc_pinned, vyc_prepared, vyc_stream, vyc_ticket,
)
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/kernel.h" nogil:
    vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes, vyc_context *context,
                               const void *image, size_t nbytes)
    void vyc_module_release(vyc_module *module)
    vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out, size_t log_bytes,
                               vyc_context *context, const void *ptx, size_t nbytes)
    vyc_status vyc_module_parameter(vyc_module *module, uint32_t *offset_out, uint32_t *bytes_out, const char *name,
                                    uint32_t index)
    vyc_status vyc_module_block_size(vyc_module *module, uint32_t *threads_out, const char *name,
                                     uint32_t dynamic_shared_bytes, uint32_t limit)
    vyc_status vyc_module_resident_blocks(vyc_module *module, uint32_t *blocks_out, const char *name,
                                          uint32_t threads, uint32_t dynamic_shared_bytes)

    ctypedef struct vyc_function_info:
        uint32_t struct_size
        int32_t max_threads_per_block
        int32_t registers
        int32_t static_shared_bytes
        int32_t local_bytes
        int32_t constant_bytes
        int32_t ptx_version
        int32_t binary_version
        int32_t resident_blocks

    enum:
        VYC_PARAMETER_POINTER
        VYC_PARAMETER_SCALAR
        VYC_PARAMETER_SIZE
        VYC_PARAMETER_REPORT
        VYC_PARAMETER_GRID_BARRIER
        VYC_PREPARED_COOPERATIVE
        VYC_PREPARED_MAY_OVERLAP
        VYC_PREPARED_PRINTS
        VYC_ROLE_IN
        VYC_ROLE_INOUT
        VYC_ROLE_OUT
        VYC_BINDING_STREAMING
        VYC_BINDING_COVERED
        VYC_BINDING_LOOPS
        VYC_BINDING_AXES
        VYC_BINDING_ELEMENTS_SHIFT
        VYC_BINDING_UNSPECIFIED
        VYC_ARGUMENT_HOST
        VYC_ARGUMENT_PINNED
        VYC_ARGUMENT_BUFFER

    ctypedef struct vyc_parameter:
        uint32_t kind
        uint32_t index
        uint32_t offset
        uint32_t size

    ctypedef struct vyc_binding:
        uint32_t role
        uint32_t flags
        uint32_t element_bytes
        uint32_t sectors

    ctypedef struct vyc_label:
        const char *name
        uint32_t type

    ctypedef struct vyc_known:
        uint32_t kind
        uint32_t index
        uint32_t type
        uint64_t value
        const char *name

    ctypedef struct vyc_prepared_desc:
        uint32_t struct_size
        uint32_t block[3]
        uint32_t dynamic_shared_bytes
        uint32_t parameter_bytes
        uint32_t parameter_count
        uint32_t binding_count
        uint32_t scalar_count
        uint32_t flags
        const char *entry
        const vyc_parameter *parameters
        const vyc_binding *bindings
        uint64_t tag
        const char *name
        const vyc_label *labels
        const vyc_known *known
        uint32_t known_count
        uint32_t several_elements
        const char *several
        uint64_t several_from

    vyc_status vyc_prepared_create(vyc_prepared **prepared_out, vyc_module *module, const vyc_prepared_desc *desc)
    void vyc_prepared_release(vyc_prepared *prepared)
    vyc_status vyc_prepared_add_several(vyc_prepared *prepared, vyc_module *module, const char *entry,
                                        uint32_t elements, uint64_t threads)
    vyc_status vyc_prepared_function(vyc_prepared *prepared, vyc_function_info *info_out)

    ctypedef struct vyc_argument:
        uint32_t kind
        uint64_t count
        const void *data
        void *result
        vyc_buffer *buffer
        uint64_t offset
        vyc_pinned *pinned

    ctypedef struct vyc_timing:
        uint32_t struct_size
        uint64_t wall_ns
        uint64_t enqueue_ns
        uint64_t wait_ns
        uint64_t device_ns

    vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing)

    enum:
        VYC_RUN_GRID_OF_WORK

    ctypedef struct vyc_run:
        uint32_t struct_size
        uint32_t grid[3]
        uint32_t argument_count
        uint32_t scalar_count
        const vyc_argument *arguments
        const uint64_t *scalars
        vyc_stream *stream
        int64_t timeout_ns
        vyc_timing *timing_out
        uint32_t iterations
        uint32_t origin
        const uint64_t *contents
        uint32_t flags

    vyc_status vyc_prepared_check(vyc_prepared *prepared, const vyc_run *run)
    vyc_status vyc_prepared_run(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_prepared_submit(vyc_prepared *prepared, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_ticket_query(vyc_ticket *ticket)
    vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns)
    vyc_status vyc_ticket_timing(vyc_ticket *ticket, vyc_timing *timing_out)
    void vyc_ticket_release(vyc_ticket *ticket)
    vyc_status vyc_prepared_launch(vyc_prepared *prepared, const vyc_run *run)

    ctypedef struct vyc_rows:
        uint32_t struct_size
        uint32_t count
        uint32_t argument_count
        uint32_t scalar_count
        const vyc_argument *arguments
        const uint64_t *scalars
        const uint32_t *grids
        vyc_stream *stream
        uint32_t origin
        uint32_t flags
        vyc_prepared *clearing
        vyc_prepared *many_clearing

    vyc_status vyc_prepared_launch_many(vyc_prepared *prepared, vyc_prepared *many, const vyc_rows *rows)
    vyc_status vyc_call_create(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run)
    vyc_status vyc_call_set(vyc_call *call, const vyc_run *run)
    vyc_status vyc_call_run_at(vyc_call *call, uint32_t origin)
    vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run)
    void vyc_call_release(vyc_call *call)
