# vyre_cuda/bundle.h for Cython.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_context, vyc_prepared
from vyre_cuda._native.core.c_kernel cimport vyc_binding, vyc_known, vyc_parameter
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/bundle.h" nogil:
    enum:
        VYC_ROLE_SCALAR

    ctypedef struct vyc_bundle
    ctypedef struct vyc_bundled_kernel

    vyc_status vyc_bundle_open(vyc_bundle **bundle_out, const char *path, const void *data, size_t bytes)
    void vyc_bundle_release(vyc_bundle *bundle)

    ctypedef struct vyc_bundle_info:
        uint32_t struct_size
        uint32_t format_version
        uint32_t producer
        uint32_t kernel_count
        uint32_t graph_count
        uint64_t bytes
        uint8_t digest[32]

    vyc_status vyc_bundle_info_get(vyc_bundle *bundle, vyc_bundle_info *info_out)

    ctypedef struct vyc_bundle_kernel:
        uint32_t struct_size
        uint32_t flags
        const char *name
        const char *precision
        const char *bounds
        uint32_t block[3]
        uint32_t index_bits
        uint32_t axes
        uint32_t parameter_count
        uint32_t buffer_count
        uint32_t scalar_count
        uint32_t variant_count
        uint32_t known_count
        const void *program
        uint64_t program_bytes
        uint8_t fingerprint[32]
        double max_ulp

    vyc_status vyc_bundle_kernel_get(vyc_bundle *bundle, vyc_bundle_kernel *kernel_out, uint32_t index)

    ctypedef struct vyc_bundle_parameter:
        uint32_t struct_size
        uint32_t role
        const char *name
        uint32_t type
        uint32_t element_bytes
        uint32_t slot
        uint32_t is_sized

    vyc_status vyc_bundle_parameter_get(vyc_bundle *bundle, vyc_bundle_parameter *parameter_out, uint32_t kernel,
                                        uint32_t index)

    vyc_status vyc_bundle_known_get(vyc_bundle *bundle, vyc_known *known_out, uint32_t kernel, uint32_t index)

    ctypedef struct vyc_bundle_variant:
        uint32_t struct_size
        uint32_t sm
        uint32_t ptx_version
        uint32_t is_cooperative
        uint32_t dynamic_shared_bytes
        uint32_t parameter_bytes
        uint32_t entry_count
        uint32_t site_count
        const char *entry
        const vyc_parameter *entries
        const vyc_binding *bindings
        const char *ptx
        uint64_t ptx_bytes
        const void *cubin
        uint64_t cubin_bytes
        uint32_t shared_bytes
        uint32_t prints

    vyc_status vyc_bundle_variant_get(vyc_bundle *bundle, vyc_bundle_variant *variant_out, uint32_t kernel,
                                      uint32_t index)

    ctypedef struct vyc_site:
        uint32_t struct_size
        uint32_t kind
        const char *message
        const char *buffer
        const char *file
        uint32_t line
        uint32_t statement

    vyc_status vyc_bundle_site_get(vyc_bundle *bundle, vyc_site *site_out, uint32_t kernel, uint32_t variant,
                                   uint32_t index)
    vyc_status vyc_bundle_extents(vyc_bundle *bundle, uint64_t *scalars, uint32_t kernel, const uint64_t *counts)
    vyc_status vyc_bundle_shape(vyc_bundle *bundle, uint64_t *counts, uint32_t *grid_out, uint32_t kernel,
                                const uint64_t *scalars)
    vyc_status vyc_bundled_kernel_load(vyc_bundled_kernel **kernel_out, char *log_out, size_t log_bytes,
                                       vyc_context *context, vyc_bundle *bundle, const char *name, uint64_t tag)
    void vyc_bundled_kernel_release(vyc_bundled_kernel *kernel)

    ctypedef struct vyc_bundled_kernel_info:
        uint32_t struct_size
        uint32_t kernel
        uint32_t variant
        uint32_t is_cubin
        uint32_t has_many

    vyc_status vyc_bundled_kernel_info_get(vyc_bundled_kernel *kernel, vyc_bundled_kernel_info *info_out)
    vyc_status vyc_bundled_kernel_many(vyc_bundled_kernel *kernel, vyc_prepared **many_out,
                                       vyc_prepared **clearing_out, vyc_prepared **many_clearing_out)
    vyc_status vyc_bundled_kernel_prepared(vyc_bundled_kernel *kernel, vyc_prepared **prepared_out)
