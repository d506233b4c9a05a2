/* vyre_cuda: dispatch of prepared kernels on NVIDIA GPUs through the CUDA driver, or on the
 * emulator through the same calls.
 *
 * Rules that every function keeps:
 *  - Returns vyc_status; on failure the calling thread's error record (vyc_last_error) says more.
 *  - Argument order: object, outputs, inputs (a size right after its array), options.
 *  - `T **x_out` gives ownership, vyc_x_release takes it. `const T *` is borrowed for the call.
 *    Releasing NULL is allowed. Children hold a counted reference on their parent, so any order of
 *    release is right. A handle of a closed context stays valid to release; every other call on it
 *    answers VYC_E_UNAVAILABLE.
 *  - Structs that the caller allocates begin with `struct_size`, set by the caller to sizeof;
 * fields are only ever appended. Enum values are never reused.
 *  - Every function is safe to call from any thread; what is not safe on one object from two
 * threads at a time says so. The thread's current CUDA context is left as it was found.
 *  - In a forked child every call on a context opened by the parent answers VYC_E_UNAVAILABLE. */
#ifndef VYRE_CUDA_H
#define VYRE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VYC_API __attribute__((visibility("default")))
#else
#define VYC_API
#endif

/* ---- status --------------------------------------------------------------------------------- */

typedef enum vyc_status {
  VYC_OK = 0,
  VYC_E_INVALID = 1,     /* the caller broke the contract; the message names the argument */
  VYC_E_UNAVAILABLE = 2, /* no driver, no device, a closed context, a forked child */
  VYC_E_UNSUPPORTED = 3, /* this device or driver cannot; the message names what is missing */
  VYC_E_MEMORY = 4,      /* device or host memory ran out; the message has the numbers */
  VYC_E_DRIVER = 5,      /* a driver call failed */
  VYC_E_COMPILE = 6,     /* the driver refused a module */
  VYC_E_LOST = 7,        /* a kernel fault ended the context; only a new process recovers it */
  VYC_E_TIMEOUT = 8,     /* the wait ended before the work did */
  VYC_E_ASSERT = 9,      /* a kernel reported a failed assertion */
  VYC_E_INTERNAL = 10,   /* a defect of this library */
  VYC_NOT_READY = 11     /* no error: the work has not finished */
} vyc_status;

typedef struct vyc_error {
  uint32_t struct_size;
  int32_t status;        /* vyc_status */
  int32_t driver_result; /* CUresult, 0 when no driver call failed */
  uint32_t reserved;
  uint64_t report;       /* VYC_E_ASSERT: linear thread << 20 | site */
  uint64_t tag;          /* VYC_E_ASSERT: vyc_plan_desc.tag of the kernel */
  char operation[64];    /* the driver call or the library function */
  char driver_name[64];  /* the CUresult's name */
  char message[640];
  uint64_t report_index; /* VYC_E_ASSERT of a bounds check: the index */
} vyc_error;

/* The calling thread's record of its last failure. */
VYC_API vyc_status vyc_last_error(vyc_error *error_out);

/* Library version: major * 10000 + minor * 100 + patch. */
VYC_API uint32_t vyc_version(void);

/* ---- driver --------------------------------------------------------------------------------- */

typedef struct vyc_driver vyc_driver;
typedef struct vyc_context vyc_context;
typedef struct vyc_stream vyc_stream;
typedef struct vyc_event vyc_event;
typedef struct vyc_buffer vyc_buffer;
typedef struct vyc_pinned vyc_pinned;
typedef struct vyc_module vyc_module;
typedef struct vyc_plan vyc_plan;
typedef struct vyc_call vyc_call;
typedef struct vyc_ticket vyc_ticket;

typedef struct vyc_driver_info {
  uint32_t struct_size;
  int32_t version;      /* of the CUDA API: major * 1000 + minor * 10 */
  int32_t device_count;
  int32_t is_emulator;
} vyc_driver_info;

/* Open a driver library; NULL means libcuda.so.1. The first open runs cuInit.
 * VYC_E_UNAVAILABLE: not found, not a driver, older than 12.0, or no device; the message says
 * which. */
VYC_API vyc_status vyc_driver_open(vyc_driver **driver_out, const char *path);
VYC_API void vyc_driver_release(vyc_driver *driver);
VYC_API vyc_status vyc_driver_info_get(vyc_driver *driver, vyc_driver_info *info_out);
/* Name of a device without opening a context on it. */
VYC_API vyc_status vyc_driver_device_name(vyc_driver *driver, char *name_out, size_t name_bytes,
                                          int32_t ordinal);

/* ---- context -------------------------------------------------------------------------------- */

/* Device attributes, one row each: field of vyc_caps, CUdevice_attribute without its prefix. A
 * value that the driver does not know is -1. */
/* clang-format off */
#define VYC_ATTRIBUTE_TABLE(X)                                                          \
  X(max_threads_per_block, MAX_THREADS_PER_BLOCK)                                       \
  X(max_block_dim_x, MAX_BLOCK_DIM_X)                                                   \
  X(max_block_dim_y, MAX_BLOCK_DIM_Y)                                                   \
  X(max_block_dim_z, MAX_BLOCK_DIM_Z)                                                   \
  X(max_grid_dim_x, MAX_GRID_DIM_X)                                                     \
  X(max_grid_dim_y, MAX_GRID_DIM_Y)                                                     \
  X(max_grid_dim_z, MAX_GRID_DIM_Z)                                                     \
  X(max_shared_memory_per_block, MAX_SHARED_MEMORY_PER_BLOCK)                           \
  X(max_shared_memory_per_block_optin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)               \
  X(max_shared_memory_per_multiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)         \
  X(reserved_shared_memory_per_block, RESERVED_SHARED_MEMORY_PER_BLOCK)                 \
  X(total_constant_memory, TOTAL_CONSTANT_MEMORY)                                       \
  X(warp_size, WARP_SIZE)                                                               \
  X(max_registers_per_block, MAX_REGISTERS_PER_BLOCK)                                   \
  X(max_registers_per_multiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)                 \
  X(max_threads_per_multiprocessor, MAX_THREADS_PER_MULTIPROCESSOR)                     \
  X(max_blocks_per_multiprocessor, MAX_BLOCKS_PER_MULTIPROCESSOR)                       \
  X(multiprocessor_count, MULTIPROCESSOR_COUNT)                                         \
  X(l2_cache_size, L2_CACHE_SIZE)                                                       \
  X(clock_rate_khz, CLOCK_RATE)                                                         \
  X(memory_clock_rate_khz, MEMORY_CLOCK_RATE)                                           \
  X(memory_bus_width_bits, GLOBAL_MEMORY_BUS_WIDTH)                                     \
  X(cooperative_launch, COOPERATIVE_LAUNCH)                                             \
  X(concurrent_kernels, CONCURRENT_KERNELS)                                             \
  X(async_engine_count, ASYNC_ENGINE_COUNT)                                             \
  X(can_map_host_memory, CAN_MAP_HOST_MEMORY)                                           \
  X(unified_addressing, UNIFIED_ADDRESSING)                                             \
  X(host_native_atomics, HOST_NATIVE_ATOMIC_SUPPORTED)                                  \
  X(pageable_memory_access, PAGEABLE_MEMORY_ACCESS)                                     \
  X(memory_pools, MEMORY_POOLS_SUPPORTED)                                               \
  X(integrated, INTEGRATED)                                                             \
  X(ecc_enabled, ECC_ENABLED)                                                           \
  X(pci_domain_id, PCI_DOMAIN_ID)                                                       \
  X(pci_bus_id, PCI_BUS_ID)                                                             \
  X(pci_device_id, PCI_DEVICE_ID)
/* clang-format on */

typedef struct vyc_caps {
  uint32_t struct_size;
  int32_t ordinal;
  int32_t compute_capability_major;
  int32_t compute_capability_minor;
  int32_t driver_version;
  int32_t is_emulator;
  uint64_t total_memory; /* bytes */
  uint8_t uuid[16];
  char name[256];
#define VYC_CAPS_FIELD(field, attribute) int32_t field;
  VYC_ATTRIBUTE_TABLE(VYC_CAPS_FIELD)
#undef VYC_CAPS_FIELD
} vyc_caps;

/* Row `index` of the attribute table: its name and its offset in vyc_caps, or VYC_E_INVALID past
 * the end. */
VYC_API vyc_status vyc_caps_field(const char **name_out, size_t *offset_out, uint32_t index);

/* Retain the primary context of a device and probe it. */
VYC_API vyc_status vyc_context_open(vyc_context **context_out, vyc_driver *driver, int32_t ordinal);
VYC_API vyc_status vyc_context_caps(vyc_context *context, vyc_caps *caps_out);
/* Wait for all work launched through this context, on foreign streams too. */
VYC_API vyc_status vyc_context_synchronize(vyc_context *context);
/* Wait for the work, free everything that the driver holds for this context and its children. */
VYC_API vyc_status vyc_context_close(vyc_context *context);
VYC_API void vyc_context_release(vyc_context *context);

typedef struct vyc_memory_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t live_bytes;  /* in use, without idle blocks */
  uint64_t idle_bytes;  /* kept for reuse */
  uint64_t peak_bytes;  /* most live bytes at a time */
  uint64_t live_count;
  uint64_t hits;        /* allocations served from idle blocks */
  uint64_t misses;
  uint64_t pinned_live_bytes;
  uint64_t pinned_idle_bytes;
  uint64_t pinned_peak_bytes;
  uint64_t pinned_live_count;
  uint64_t pinned_hits;
  uint64_t pinned_misses;
} vyc_memory_stats;

VYC_API vyc_status vyc_context_memory_stats(vyc_context *context, vyc_memory_stats *stats_out);
/* Give idle blocks back to the driver. */
VYC_API vyc_status vyc_context_trim(vyc_context *context);

/* ---- streams and events --------------------------------------------------------------------- */

VYC_API vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context);
VYC_API void vyc_stream_release(vyc_stream *stream);
VYC_API vyc_status vyc_stream_synchronize(vyc_stream *stream);
/* VYC_OK when all work has finished, else VYC_NOT_READY. */
VYC_API vyc_status vyc_stream_query(vyc_stream *stream);
/* The CUstream, for other libraries. */
VYC_API vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out);
VYC_API vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out);
VYC_API vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event);
VYC_API void vyc_event_release(vyc_event *event);
VYC_API vyc_status vyc_event_synchronize(vyc_event *event);
VYC_API vyc_status vyc_event_query(vyc_event *event);
/* Milliseconds from `start` to `stop`, both finished. */
VYC_API vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start);

/* ---- memory --------------------------------------------------------------------------------- */

/* Device memory from the context's pool; contents are unspecified. bytes may be 0. */
VYC_API vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes);
/* The block is reused once all work that was given to the library before this call has finished. */
VYC_API void vyc_buffer_release(vyc_buffer *buffer);
VYC_API vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out);

/* Copies and fills run in call order with work given without a stream. copy_in returns once the
 * host bytes may change; copy_out once they have arrived. Ranges are in bytes and checked. */
VYC_API vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes);
VYC_API vyc_status vyc_copy_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes);
VYC_API vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                            uint64_t from_offset, uint64_t bytes);
VYC_API vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes);

/* Page-locked host memory that the device can read and write at its host address. */
VYC_API vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes);
VYC_API void vyc_pinned_release(vyc_pinned *pinned);
VYC_API vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out);

/* ---- modules -------------------------------------------------------------------------------- */

/* Load PTX text (NUL-terminated; `bytes` counts the NUL) or a cubin. The driver's compiler writes
 * into `log_out` (NUL-terminated, at most log_bytes). VYC_E_COMPILE: the image was refused. */
VYC_API vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, const void *image, size_t bytes);
VYC_API void vyc_module_release(vyc_module *module);
/* Compile PTX text to the device's own image. *image_out is owned by the caller: free(3). */
VYC_API vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out,
                                   size_t log_bytes, vyc_context *context, const void *ptx,
                                   size_t bytes);

typedef struct vyc_function_info {
  uint32_t struct_size;
  int32_t max_threads_per_block;
  int32_t registers;             /* per thread */
  int32_t static_shared_bytes;
  int32_t local_bytes;           /* per thread; spills live here */
  int32_t constant_bytes;
  int32_t ptx_version;
  int32_t binary_version;
  int32_t resident_blocks;       /* per multiprocessor, at the plan's block and shared bytes */
  uint32_t reserved;
} vyc_function_info;

/* ---- plans: a kernel prepared for dispatch --------------------------------------------------- */

enum { /* vyc_parameter.kind: what goes into the kernel's parameter block */
       VYC_PARAMETER_POINTER = 1, /* address of binding `index` */
       VYC_PARAMETER_SCALAR = 2,  /* scalar `index` */
       VYC_PARAMETER_SIZE = 3,    /* element count of binding `index` */
       VYC_PARAMETER_REPORT = 4,  /* address of the record of failed checks: four u64 (key, index,
                                     lock, reserved), the key preset to all ones, the others to 0 */
       VYC_PARAMETER_GRID_BARRIER =
           5 /* address of two u32 of device memory, 0 before the first launch */
};

typedef struct vyc_parameter {
  uint32_t kind;
  uint32_t index;
  uint32_t offset; /* bytes into the parameter block */
  uint32_t size;   /* bytes */
  uint32_t reserved[2];
} vyc_parameter;

enum { /* vyc_binding.role */
       VYC_ROLE_IN = 1,
       VYC_ROLE_INOUT = 2,
       VYC_ROLE_OUT = 3
};

enum {                        /* vyc_binding.flags */
       VYC_BINDING_STREAMING =
           1u, /* each element touched about once, word-wide: fit for zero-copy */
       VYC_BINDING_COVERED = 2u    /* every element is written when grid.x * block.x >= count */
};

typedef struct vyc_binding {
  uint32_t role;
  uint32_t flags;
  uint32_t element_bytes;
  uint32_t reserved;
} vyc_binding;

enum {                       /* vyc_plan_desc.flags */
       VYC_PLAN_COOPERATIVE = 1u /* has grid barriers: all blocks resident, or VYC_E_UNSUPPORTED */
};

typedef struct vyc_plan_desc {
  uint32_t struct_size;
  uint32_t block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t parameter_count;
  uint32_t binding_count;
  uint32_t scalar_count;
  uint32_t flags; /* VYC_PLAN_... */
  const char *entry;
  const vyc_parameter *parameters;
  const vyc_binding *bindings;
  uint64_t tag; /* handed back in vyc_error.tag */
} vyc_plan_desc;

VYC_API vyc_status vyc_plan_create(vyc_plan **plan_out, vyc_module *module,
                                   const vyc_plan_desc *desc);
VYC_API void vyc_plan_release(vyc_plan *plan);
VYC_API vyc_status vyc_plan_function(vyc_plan *plan, vyc_function_info *info_out);

enum { /* vyc_argument.kind */
       VYC_ARGUMENT_HOST = 1, /* pageable memory: staged */
       VYC_ARGUMENT_PINNED = 2, /* memory of vyc_pinned_alloc: used in place */
       VYC_ARGUMENT_BUFFER = 3 /* device memory */
};

typedef struct vyc_argument {
  uint32_t kind;
  uint32_t reserved0;
  uint64_t count; /* elements */
  const void *data; /* HOST, PINNED: input; NULL for an out */
  void *result; /* HOST, PINNED: where the output goes; NULL for an in */
  vyc_buffer *buffer; /* BUFFER */
  uint64_t offset; /* BUFFER: bytes */
  uint64_t reserved1[2];
} vyc_argument;

typedef struct vyc_timing {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t wall_ns;
  uint64_t enqueue_ns; /* staging and launch */
  uint64_t wait_ns;
  uint64_t device_ns; /* between events right around the kernel */
} vyc_timing;

typedef struct vyc_run {
  uint32_t struct_size;
  uint32_t grid[3];
  uint32_t argument_count;
  uint32_t scalar_count;
  const vyc_argument *arguments; /* one per binding, in order */
  const uint64_t *scalars; /* the bits of each scalar, in order */
  vyc_stream *stream; /* NULL: the context's own order */
  int64_t timeout_ns; /* of the wait; negative: none */
  vyc_timing *timing_out; /* or NULL */
} vyc_run;

/* Host or mixed arguments in, results out: stage, launch, wait, collect. When the wait ends early
 * (VYC_E_TIMEOUT) the run goes on and *ticket_out owns it, else it is NULL; with ticket_out NULL
 * the run is abandoned instead: its results go nowhere. A grid of 0 launches nothing. */
VYC_API vyc_status vyc_plan_run(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run);
/* The same without the wait. Inputs may change when it returns, except pinned ones. Result memory
 * must live until the ticket is finished or released. */
VYC_API vyc_status vyc_plan_submit(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run);
/* VYC_OK: finished, results are in place. VYC_NOT_READY: not yet. Else: what the run failed with.
 */
VYC_API vyc_status vyc_ticket_query(vyc_ticket *ticket);
VYC_API vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns);
/* An unfinished run is abandoned: nothing is written to its result memory any more. */
VYC_API void vyc_ticket_release(vyc_ticket *ticket);

/* Asynchronous launch on buffers. */
VYC_API vyc_status vyc_plan_launch(vyc_plan *plan, const vyc_run *run);

/* A launch with its arguments bound, in a graph of its own. */
VYC_API vyc_status vyc_call_create(vyc_call **call_out, vyc_plan *plan, const vyc_run *run);
VYC_API vyc_status vyc_call_set(vyc_call *call, const vyc_run *run);
VYC_API vyc_status vyc_call_run(vyc_call *call);
VYC_API void vyc_call_release(vyc_call *call);

#ifdef __cplusplus
}
#endif
#endif
