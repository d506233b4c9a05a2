# vyre_cuda.h for other extensions: `from vyre_cuda.c_api cimport vyc_driver_open`. Compile with
# vyre_cuda.get_include(), link to vyre_cuda in vyre_cuda.get_library_dir(). What the package itself
# uses is declared in c_*.pxd in _native, by header, and the rest here.
from libc.stdint cimport int32_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_bundle cimport *
from vyre_cuda._native.core.c_bundle_graph cimport *
from vyre_cuda._native.core.c_context cimport *
from vyre_cuda._native.core.c_driver cimport *
from vyre_cuda._native.core.c_graph cimport *
from vyre_cuda._native.core.c_kernel cimport *
from vyre_cuda._native.core.c_memory cimport *
from vyre_cuda._native.core.c_notice cimport *
from vyre_cuda._native.core.c_status cimport *
from vyre_cuda._native.core.c_stream cimport *
from vyre_cuda._native.core.c_telemetry cimport *
from vyre_cuda._native.core.c_worker cimport *

cdef extern from "vyre_cuda.h" nogil:
    vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t nbytes)
    vyc_status vyc_copy_out(vyc_buffer *source, uint64_t offset, void *data_out, uint64_t nbytes)

    vyc_status vyc_call_run(vyc_call *call)
    vyc_status vyc_graph_add_tables(
        vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry, uint32_t count, vyc_prepared *const *prepared,
        const vyc_rows *const *rows)
    vyc_status vyc_graph_launch(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                vyc_stream *stream)
    vyc_status vyc_graph_find_symbol(vyc_graph *graph, uint32_t *symbol_out, const char *name)
    vyc_status vyc_graph_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count)

    uint64_t vyc_bits_f32(float value)
    uint64_t vyc_bits_f64(double value)

    ctypedef struct vyc_allocator:
        int32_t (*alloc)(void *user, uint64_t *address_out, uint64_t nbytes)
        void (*free)(void *user, uint64_t address)
        void *user

    ctypedef struct vyc_context_options:
        uint32_t struct_size
        uint32_t flags
        uint64_t handle
        vyc_allocator device_memory
        vyc_allocator pinned_memory
        void (*log)(void *user, int32_t level, const char *message)
        void *log_user

    vyc_status vyc_context_enter(vyc_context *context, uint64_t *before_out)
    vyc_status vyc_context_leave(vyc_context *context, uint64_t before)
    vyc_status vyc_context_open_with(vyc_context **context_out, vyc_driver *driver, int32_t ordinal,
                                     const vyc_context_options *options)

    enum:
        VYC_TYPE_BOOL
        VYC_TYPE_U8
        VYC_TYPE_I8
        VYC_TYPE_U16
        VYC_TYPE_I16
        VYC_TYPE_U32
        VYC_TYPE_I32
        VYC_TYPE_U64
        VYC_TYPE_I64
        VYC_TYPE_F16
        VYC_TYPE_BF16
        VYC_TYPE_F32
        VYC_TYPE_F64
        VYC_SYMBOL_HAS_DEFAULT
        VYC_SYMBOL_WRITTEN

    vyc_status vyc_bundle_kernel_find(vyc_bundle *bundle, uint32_t *index_out, const char *name)
    vyc_status vyc_bundled_kernel_resolve(vyc_bundled_kernel *kernel, vyc_run *run)
    vyc_status vyc_bundled_kernel_run(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_bundled_kernel_submit(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out, const vyc_run *run)
    vyc_status vyc_bundled_kernel_launch(vyc_bundled_kernel *kernel, const vyc_run *run)
    vyc_status vyc_bundled_kernel_launch_many(vyc_bundled_kernel *kernel, const vyc_rows *rows)
    vyc_status vyc_bundled_kernel_site(vyc_bundled_kernel *kernel, vyc_site *site_out, uint64_t report)

    ctypedef struct vyc_replay

    vyc_status vyc_bundle_graph_find(vyc_bundle *bundle, uint32_t *index_out, const char *name)
    vyc_status vyc_bundle_symbol_find(vyc_bundle *bundle, uint32_t *index_out, uint32_t graph, const char *name)
    vyc_status vyc_replay_load(vyc_replay **replay_out, char *log_out, size_t log_bytes, vyc_context *context,
                               vyc_bundle *bundle, const char *name, uint64_t tag)
    void vyc_replay_release(vyc_replay *replay)
    vyc_status vyc_replay_set(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count)
    vyc_status vyc_replay_launch(vyc_replay *replay, const vyc_symbol_value *values, uint32_t count,
                                 vyc_stream *stream)
    vyc_status vyc_replay_get(vyc_replay *replay, vyc_symbol_value *value_out, uint32_t symbol)
    vyc_status vyc_replay_site(vyc_replay *replay, vyc_site *site_out, const char *kernel,
                               uint64_t report)

    vyc_status vyc_bundled_worker_load(vyc_worker **worker_out, vyc_bundled_kernel **kernels_out,
                                       uint32_t kernel_count, vyc_context *context, vyc_bundle *bundle,
                                       const char *name, const vyc_worker_desc *desc)
