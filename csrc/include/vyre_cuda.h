/* vyre_cuda: runs prepared kernels on NVIDIA GPUs through the CUDA driver, or on the emulator
 * through the same calls.
 *
 * A host in short. Every call returns a status; vyc_last_error has the message of a failure.
 *
 *   vyc_driver_open(&driver, NULL);                 libcuda.so.1, or the path of the emulator
 *   vyc_context_open(&context, driver, 0);          a device; _open_with: the host's own CUcontext
 *   vyc_bundle_open(&bundle, "k.vyre", NULL, 0);    kernels compiled by `vyre-cuda bundle`
 *   vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0);
 *   vyc_bundled_kernel_run(kernel, NULL, &run);     host arrays in, host arrays out
 *   vyc_bundled_kernel_release(kernel); ...         in any order
 *
 * Ways to run a kernel, from the quickest to write to the quickest to run:
 *
 *   host arrays     vyc_bundled_kernel_run, vyc_bundled_kernel_submit;
 *                   VYC_ARGUMENT_PINNED memory is used in place
 *   device buffers  vyc_buffer_alloc, vyc_copy_in, vyc_bundled_kernel_launch, vyc_copy_out
 *   bound calls     vyc_bundled_kernel_resolve, vyc_bundled_kernel_prepared, vyc_call_create,
 *                   vyc_call_run
 *   graphs          vyc_graph_create and vyc_graph_add_...; vyc_replay_load for those of a bundle
 *
 * Without a bundle, kernels come from PTX or a cubin: vyc_module_load and vyc_prepared_create, and
 * vyc_prepared_... in place of vyc_bundled_kernel_...
 *
 * What each status means, and what to do:
 *
 *   VYC_E_INVALID        a mistake in the calling code; nothing was done
 *   VYC_E_MEMORY         release something, or call vyc_context_trim, and try again
 *   VYC_E_ASSERT         a check of the program failed: see vyc_bundled_kernel_site,
 *                        vyc_replay_site
 *   VYC_E_TIMEOUT        the work continues; wait again or abandon it
 *   VYC_NOT_READY        not an error: the work has not finished
 *   VYC_E_UNAVAILABLE    this context can no longer be used; open another
 *   VYC_E_LOST           nor can any other context on this device in this process
 *   VYC_E_DRIVER         an error of the driver: vyc_error.driver_name
 *   VYC_E_UNSUPPORTED    this device or driver does not support it
 *   VYC_E_COMPILE        the driver refused the code
 *   VYC_E_FILE           the bundle cannot be read
 *   VYC_E_FORMAT         the file is not a valid bundle
 *   VYC_E_VERSION        the bundle has a newer format
 *
 * Rules for all functions:
 *  - They return vyc_status; on failure the calling thread's error record (vyc_last_error) says
 *    more. Besides the statuses named below, every function returns VYC_E_INVALID for an argument
 *    that is missing or out of range, and every function on a context, or on something made from
 *    it, may return VYC_E_UNAVAILABLE (closed, or a forked child), VYC_E_LOST, VYC_E_MEMORY and
 *    VYC_E_DRIVER.
 *  - Argument order: object, outputs, inputs (a size right after its array), options.
 *  - `T **x_out` gives the caller one reference, which vyc_x_release releases; on failure it is
 *    NULL. `const T *` is borrowed for the call. Releasing NULL is allowed. Children hold a counted
 *    reference to their parent, so any order of release is right. A handle of a closed context can
 *    still be released.
 *  - Structs that the caller allocates begin with `struct_size`, which the caller sets to sizeof;
 *    fields are only ever appended, and never more is written than the caller has room for. Enum
 *    values are never reused. Reserved fields are 0.
 *  - Every function may be called from any thread, also on the same object, and also while another
 *    thread closes the context. Releasing is the exception: a thread must not release a reference
 *    that another thread is using. The current CUDA context is left as found.
 *  - "In call order": work without a stream runs as if on one stream. Unless stated otherwise, a
 *    call does not use the caller's host memory after it has returned.
 *  - Callbacks of the caller must return: if a C++ exception or the end of its thread leaves one,
 *    the process is aborted, with a line on stderr. They must not longjmp.
 *  - The library stays in the process once it is loaded; dlclose only releases its handle.
 *  - A forked child may close and release what its parent opened; every other call on it returns
 *    VYC_E_UNAVAILABLE.
 *  - Runs, launches, bound calls, replays, copies and waits use at most 8 KiB of the caller's stack
 *    up to the driver's own function, for any kernel, and touch each page of that; all other calls
 *    use at most 32 KiB. The driver's own use is additional, and so is the thread's error record,
 *    which is thread-local static memory of 5 KiB. */
#ifndef VYRE_CUDA_H
#define VYRE_CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
  VYC_E_INTERNAL = 10,   /* a bug in this library */
  VYC_NOT_READY = 11,    /* not an error: the work has not finished */
  VYC_E_FILE = 12,       /* a file cannot be read; the message has the system's reason */
  VYC_E_FORMAT = 13, /* not a bundle, or a damaged one; the message says what is wrong, and where */
  VYC_E_VERSION = 14 /* a bundle of a newer format than this library reads */
} vyc_status;

typedef struct vyc_error {
  uint32_t struct_size;
  int32_t status; /* vyc_status */
  int32_t driver_result; /* CUresult, 0 when no driver call failed */
  uint32_t reserved;
  uint64_t report; /* VYC_E_ASSERT: linear thread << 20 | site */
  uint64_t tag; /* VYC_E_ASSERT: vyc_prepared_desc.tag of the kernel */
  char operation[64]; /* the driver call or what the library did; VYC_E_ASSERT: the kernel */
  char driver_name[64]; /* the CUresult's name */
  char message[640];
  uint64_t report_index; /* VYC_E_ASSERT of a bounds check: the index */
  char launches[4096]; /* VYC_E_LOST: see vyc_context_in_flight, lines that fit */
} vyc_error;

/* The calling thread's record of its last failure, which stays until its next failure; zeros before
 * the first. */
VYC_API vyc_status vyc_last_error(vyc_error *error_out);

/* Library version: major * 10000 + minor * 100 + patch. */
VYC_API uint32_t vyc_version(void);

/* ---- driver --------------------------------------------------------------------------------- */

typedef struct vyc_driver vyc_driver;
typedef struct vyc_context vyc_context;
typedef struct vyc_stream vyc_stream;
typedef struct vyc_event vyc_event;
typedef struct vyc_fence vyc_fence;
typedef struct vyc_buffer vyc_buffer;
typedef struct vyc_pinned vyc_pinned;
typedef struct vyc_module vyc_module;
typedef struct vyc_prepared vyc_prepared;
typedef struct vyc_call vyc_call;
typedef struct vyc_ticket vyc_ticket;
typedef struct vyc_graph vyc_graph;

typedef struct vyc_driver_info {
  uint32_t struct_size;
  int32_t version; /* of the CUDA API: major * 1000 + minor * 10 */
  int32_t device_count;
  int32_t is_emulator;
} vyc_driver_info;

/* Open a driver library; NULL means libcuda.so.1. The first open runs cuInit. The library stays
 * loaded until the process ends; several drivers may be open at the same time.
 * VYC_E_UNAVAILABLE: not found, not a driver, older than 12.0, or no device; the message says
 * which. */
VYC_API vyc_status vyc_driver_open(vyc_driver **driver_out, const char *path);
/* Release the handle; contexts hold the driver themselves, and the library stays loaded. */
VYC_API void vyc_driver_release(vyc_driver *driver);
/* Whether cuInit of that library (NULL: libcuda.so.1) has been called in this process, by anyone;
 * the driver reads its environment then. Opens nothing: 0 if the library is not loaded.
 * VYC_E_UNAVAILABLE: the library loaded under that name is not a driver. */
VYC_API vyc_status vyc_driver_started(int32_t *started_out, const char *path);
/* What was found when the driver was opened; makes no driver call. */
VYC_API vyc_status vyc_driver_info_get(vyc_driver *driver, vyc_driver_info *info_out);
/* Name of a device, NUL-terminated and truncated to name_bytes, without opening a context on it.
 * Empty and VYC_E_UNAVAILABLE if there is no such device. */
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

/* For callers that list the fields of vyc_caps: the name of row `index` of the attribute table, and
 * its offset in vyc_caps; VYC_E_INVALID after the last row. */
VYC_API vyc_status vyc_caps_field(const char **name_out, size_t *offset_out, uint32_t index);

/* Retain the primary context of a device and read its properties. The context keeps the driver.
 * VYC_E_UNAVAILABLE: no such device. */
VYC_API vyc_status vyc_context_open(vyc_context **context_out, vyc_driver *driver, int32_t ordinal);
enum { /* level of vyc_context_options.log */
       VYC_LOG_WARNING = 1, /* something was abandoned, or will not work again */
       VYC_LOG_INFO = 2 /* something was done in a different way */
};

/* Memory allocated by the host. `alloc` writes the address of `bytes` bytes, aligned to 256, and
 * returns 0; any other result means out of memory: then idle blocks are freed, and `alloc` is
 * called once more. `free` takes an address that `alloc` returned. Any thread may call both, with
 * the CUcontext current and no lock held; they must not call this library on the same context.
 * Blocks are pooled like the driver's. `free` is called after a close for memory that outlives the
 * close, and never for memory that unfinished work uses. */
typedef struct vyc_allocator {
  int32_t (*alloc)(void *user, uint64_t *address_out, uint64_t bytes);
  void (*free)(void *user, uint64_t address);
  void *user;
} vyc_allocator;

typedef struct vyc_context_options {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint64_t handle; /* a CUcontext of the host's on this device; 0: the primary context */
  vyc_allocator device_memory; /* functions NULL: cuMemAlloc and cuMemFree */
  vyc_allocator pinned_memory; /* page-locked, portable, at the same address on the device;
                                  functions NULL: cuMemHostAlloc and cuMemFreeHost */
  /* Receives messages that no status reports; may be NULL. Called by any thread, with no lock held;
   * `message` is borrowed for the call. It must not call this library on the same context. */
  void (*log)(void *user, int32_t level, const char *message);
  void *log_user;
} vyc_context_options;

/* The same with options, which are copied; NULL: none. A CUcontext of the host is used and never
 * destroyed or reset: it must live until the close or the last release has returned, and longer if
 * page-locked memory does. Several contexts may be opened on one CUcontext. VYC_E_INVALID: the
 * handle is not a CUcontext of this device.
 * If a primary context is reset in spite of this, the close notices it at the latest, by the number
 * of the context. From then on every call returns VYC_E_UNAVAILABLE and releases do nothing: its
 * allocations are gone with it, and are not passed to `free`. What the driver does with launches
 * before that is undefined. The same is tried for a CUcontext of cuCtxCreate that was destroyed,
 * but the driver may have reused its memory, and has been seen to end the process. */
VYC_API vyc_status vyc_context_open_with(vyc_context **context_out, vyc_driver *driver,
                                         int32_t ordinal, const vyc_context_options *options);
/* The properties of the device; works in every state of the context. */
VYC_API vyc_status vyc_context_caps(vyc_context *context, vyc_caps *caps_out);
/* Wait for all work launched through this context, also on foreign streams. VYC_E_ASSERT: a check
 * failed in an asynchronous launch since the last wait. Each failure is reported once, by the first
 * wait for the work that caused it: this function and a fence wait for all work, others for one
 * stream, and copies to host memory for call order and for the streams on which their buffers were
 * used. The reports of a graph belong to the streams on which it was launched; one that was not
 * reported when its stream ended is reported here. */
VYC_API vyc_status vyc_context_synchronize(vyc_context *context);
/* The same for at most timeout_ns, then VYC_NOT_READY; negative: no limit. This and the other
 * functions that end in _for never block in the driver: they poll, continuously for the first 4 ms,
 * then with sleeps of up to 200 us. They wait for work that was submitted before. */
VYC_API vyc_status vyc_context_synchronize_for(vyc_context *context, int64_t timeout_ns);
/* For callers that launch while they hold a lock of their own: a launch blocks while about a
 * thousand launches of its stream have not started. Call this at every 256th launch: it returns
 * VYC_NOT_READY if the work that the stream (NULL: call order) had two such calls ago has not
 * ended, so that the next 256 launches may block. */
VYC_API vyc_status vyc_context_is_behind(vyc_context *context, vyc_stream *stream);
/* Refuse new calls, wait for running calls and for the work, then free everything that the driver
 * holds for this context and its children. When it returns, everything is freed, also for other
 * threads that call it; calling it again returns VYC_OK. VYC_E_ASSERT as above, or the status with
 * which the wait failed: the context is closed all the same. VYC_E_TIMEOUT: a call was still
 * running, or work had not ended, at the time limit: the context is closed but abandoned: no
 * further driver call is made, and what is left stays until the process ends. While work of an
 * abandoned context runs on the device, the memory of other contexts on it stays too, because the
 * driver frees nothing then; closing those waits only for their own work. */
VYC_API vyc_status vyc_context_close(vyc_context *context);
/* The same with its own time limit; negative: none. */
VYC_API vyc_status vyc_context_close_for(vyc_context *context, int64_t timeout_ns);
/* How long releases, and a close without its own limit, wait for work before they abandon it as
 * hung; 10 s at first. What is abandoned is leaked; later releases do not wait. */
VYC_API vyc_status vyc_context_set_patience(vyc_context *context, int64_t patience_ns);
/* The last reference, of the owner or of a child, closes the context. */
VYC_API void vyc_context_release(vyc_context *context);
/* The CUstream of call order, for other libraries. */
VYC_API vyc_status vyc_context_stream(vyc_context *context, uint64_t *handle_out);

typedef struct vyc_memory_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t live_bytes; /* in use, without idle blocks */
  uint64_t idle_bytes; /* kept for reuse */
  uint64_t peak_bytes; /* most live bytes at a time */
  uint64_t live_count;
  uint64_t hits; /* allocations served from idle blocks */
  uint64_t misses;
  uint64_t pinned_live_bytes;
  uint64_t pinned_idle_bytes;
  uint64_t pinned_peak_bytes;
  uint64_t pinned_live_count;
  uint64_t pinned_hits;
  uint64_t pinned_misses;
  uint64_t frees; /* blocks that went back to the driver */
  uint64_t pinned_frees;
  uint64_t budget_bytes; /* that may be idle */
  uint64_t pinned_budget_bytes;
} vyc_memory_stats;

/* A snapshot; blocks whose use has ended by now count as idle. */
VYC_API vyc_status vyc_context_memory_stats(vyc_context *context, vyc_memory_stats *stats_out);
/* VYC_OK, or VYC_E_UNSUPPORTED as what needs the capability would answer: "cooperative_launch" of
 * kernels with grid barriers, "conditional_nodes" of loops that end on the device,
 * "captured_replay" of graphs on streams that somebody captures, "cuFuncGetParamInfo" of
 * vyc_module_parameter. VYC_E_INVALID: there is no capability of that name. */
VYC_API vyc_status vyc_context_supports(vyc_context *context, const char *capability);
/* Wait for work that may still use idle blocks, then return all of them to the driver, and also the
 * memory that prepared kernels keep for the host arguments of their runs, unless a run is in flight
 * or waits to be collected. A call that runs out of memory does the same before it fails. */
VYC_API vyc_status vyc_context_trim(vyc_context *context);
/* Limits for the idle device memory and page-locked memory that are kept, in bytes. The excess is
 * returned to the driver, least recently used first, once no work uses it. A new context keeps a
 * quarter of the device's memory, and a sixteenth of that of page-locked memory. 0 keeps nothing.
 */
VYC_API vyc_status vyc_context_set_memory_budget(vyc_context *context, uint64_t bytes,
                                                 uint64_t pinned_bytes);

/* ---- telemetry ------------------------------------------------------------------------------ */

enum { /* kinds of rows */
       VYC_STATS_TOTAL = 1, /* grows; a reset sets it to 0 */
       VYC_STATS_LEVEL = 2, /* a current value, which a reset keeps */
       VYC_STATS_MOST = 3 /* the largest since the last reset */
};

/* Counters of a context, one row each: name, kind, meaning. Rows are only ever appended. The host
 * language counts those of caches and compilation (vyc_context_count), this library the others. */
/* clang-format off */
#define VYC_STATS_TABLE(X)                                                                         \
  X(kernel_launches, TOTAL, "Kernels launched on a stream, without those of recorded graphs.")     \
  X(plain_kernel_launches, TOTAL, "Kernel launches without a prepared graph, which cost more.")    \
  X(cuda_graph_launches, TOTAL, "Replays of recorded graphs.")                                     \
  X(cuda_graph_instantiations, TOTAL, "Graphs instantiated, including those of single kernels.")   \
  X(host_dispatches, TOTAL, "Calls with host arrays.")                                             \
  X(host_upload_operations, TOTAL, "Copies from host to device by a copy engine.")                 \
  X(host_to_device_bytes, TOTAL, "Bytes of those copies.")                                         \
  X(device_readback_operations, TOTAL, "Copies from device to host by a copy engine.")             \
  X(device_to_host_bytes, TOTAL, "Bytes of those copies.")                                         \
  X(device_copy_operations, TOTAL, "Copies within the device.")                                    \
  X(device_to_device_bytes, TOTAL, "Bytes of those copies.")                                       \
  X(fill_operations, TOTAL, "Fills of device memory.")                                             \
  X(fill_bytes, TOTAL, "Bytes of those fills.")                                                    \
  X(mapped_read_bytes, TOTAL, "Bytes of arguments that kernels read in host memory.")              \
  X(mapped_write_bytes, TOTAL, "Bytes of results that kernels wrote in host memory.")              \
  X(staged_in_bytes, TOTAL, "Bytes that the host copied to page-locked memory for the device.")    \
  X(staged_out_bytes, TOTAL, "Bytes that the host copied from page-locked memory to a caller.")    \
  X(readback_bytes, TOTAL, "Bytes of results and downloads that callers requested.")               \
  X(resident_allocation_bytes_requested, TOTAL, "Bytes requested for device arrays.")              \
  X(transient_allocation_bytes_requested, TOTAL, "Bytes requested for staging of calls.")          \
  X(sync_points, TOTAL, "Waits for the device on behalf of a caller.")                             \
  X(timed_dispatches, TOTAL, "Timed calls that ended.")                                            \
  X(timed_wall_ns_total, TOTAL, "Nanoseconds of timed calls.")                                     \
  X(timed_device_ns_total, TOTAL, "Nanoseconds that their kernels ran.")                           \
  X(timed_device_ns_max, MOST, "Nanoseconds that the longest of these kernels ran.")               \
  X(timed_enqueue_ns_total, TOTAL, "Nanoseconds of staging and launching in timed calls.")         \
  X(timed_wait_ns_total, TOTAL, "Nanoseconds of waiting in timed calls.")                          \
  X(driver_errors, TOTAL, "Driver calls that failed.")                                             \
  X(module_loads, TOTAL, "Modules loaded.")                                                        \
  X(module_load_ns_total, TOTAL, "Nanoseconds of loading and linking modules.")                    \
  X(module_links, TOTAL, "PTX texts linked to device images.")                                     \
  X(compiles, TOTAL, "Programs lowered to PTX.")                                                   \
  X(compile_ns_total, TOTAL, "Nanoseconds of lowering programs.")                                  \
  X(kernel_cache_hits, TOTAL, "Compilations that found a kernel in memory.")                       \
  X(kernel_cache_misses, TOTAL, "Compilations that found no kernel in memory.")                    \
  X(kernel_cache_evictions, TOTAL, "Kernels dropped for newer ones.")                              \
  X(kernel_cache_entries, LEVEL, "Kernels in memory.")                                             \
  X(kernel_cache_bytes, LEVEL, "Bytes of PTX and images of kernels in memory.")                    \
  X(disk_cache_hits, TOTAL, "Device images read from the disk cache.")                             \
  X(disk_cache_misses, TOTAL, "Device images that were not in the disk cache.")                    \
  X(disk_cache_evictions, TOTAL, "Files removed from the disk cache for newer ones.")              \
  X(disk_cache_read_bytes, TOTAL, "Bytes read from the disk cache.")                               \
  X(disk_cache_written_bytes, TOTAL, "Bytes written to the disk cache.")                           \
  X(disk_cache_errors, TOTAL, "Files of the disk cache that were damaged or could not be used.")   \
  X(device_pool_hits, TOTAL, "Allocations of device memory served from idle blocks.")              \
  X(device_pool_misses, TOTAL, "Allocations of device memory requested from the driver.")          \
  X(pinned_pool_hits, TOTAL, "Allocations of page-locked memory served from idle blocks.")         \
  X(pinned_pool_misses, TOTAL, "Allocations of page-locked memory requested from the driver.")     \
  X(live_bytes, LEVEL, "Bytes of device memory in use.")                                           \
  X(idle_bytes, LEVEL, "Bytes of device memory kept for reuse.")                                   \
  X(pinned_live_bytes, LEVEL, "Bytes of page-locked memory in use.")                               \
  X(pinned_idle_bytes, LEVEL, "Bytes of page-locked memory kept for reuse.")                       \
  X(live_streams, LEVEL, "Open streams, including adopted ones.")                                  \
  X(adopted_streams, LEVEL, "Foreign streams, kept so that they are adopted only once.")           \
  X(idle_events, LEVEL, "Released events that are kept for the next record.")                      \
  X(event_creations, TOTAL, "Events that the driver created because none was kept.")
/* clang-format on */

/* Row `row` of the table; VYC_E_INVALID after the last. The texts are static. */
VYC_API vyc_status vyc_stats_row(const char **name_out, const char **help_out, uint32_t *kind_out,
                                 uint32_t row);
/* The first `count` rows; 0 for rows that this version does not have. Increments that other threads
 * make at the same time may or may not be included. Works in every state of the context except in a
 * forked child. */
VYC_API vyc_status vyc_context_stats(vyc_context *context, uint64_t *values_out, uint32_t count);
/* Set totals and largest values to 0; nothing that is kept for reuse is dropped. */
VYC_API vyc_status vyc_context_reset_stats(vyc_context *context);
/* Add to a row that the host counts; for a level, n may be a negative number modulo 2^64. */
VYC_API vyc_status vyc_context_count(vyc_context *context, uint32_t row, uint64_t n);

/* The launches that are not known to have ended, newest first on each stream, one per line: kernel,
 * arguments (see vyc_prepared_desc.labels) if they are within the first 48 bytes of the parameter
 * block, origin, how many launches ago, and on which stream. Lines that do not fit are left out;
 * *count_out counts all. The last 32 launches of each stream are remembered; if two threads launch
 * on one stream at the same time, one launch or its arguments may be lost. Works in every state of
 * the context. */
VYC_API vyc_status vyc_context_in_flight(vyc_context *context, char *text_out, size_t bytes,
                                         uint32_t *count_out);
/* A description for the calling thread's next launch on this context: up to 255 bytes of text,
 * which is copied; NULL removes it. The texts of the last 256 such launches are kept. After the
 * first call of this function launches cost a little more. */
VYC_API vyc_status vyc_context_trace(vyc_context *context, const char *text);
/* A number for a place where launches are made, such as "step.cpp:12". With it in vyc_run.origin,
 * or passed to vyc_call_run_at or vyc_graph_launch_at, vyc_context_in_flight and errors append ",
 * launched at " and up to 255 bytes of the text, at no cost. The text is copied. Origins belong to
 * the process and are kept, so ask only once for each place. After 65,534 of them the result is 0,
 * which appends nothing. */
VYC_API vyc_status vyc_origin_add(uint32_t *origin_out, const char *text);

enum { /* what vyc_context_measure measures: driver calls alone */
       VYC_FLOOR_CLOCK = 0, /* nothing: the clock */
       VYC_FLOOR_LAUNCH = 1, /* cuLaunchKernel */
       VYC_FLOOR_GRAPH_LAUNCH = 2, /* cuGraphLaunch of one kernel */
       VYC_FLOOR_SYNCHRONIZE = 3, /* cuStreamSynchronize of an idle stream */
       VYC_FLOOR_EVENT = 4, /* cuEventRecord */
       VYC_FLOOR_ROUND_TRIP = 5, /* cuLaunchKernel, cuStreamSynchronize */
       VYC_FLOOR_GRAPH_ROUND_TRIP = 6, /* cuGraphLaunch, cuStreamSynchronize */
       VYC_FLOOR_UPLOAD = 7, /* from page-locked memory, to completion */
       VYC_FLOOR_DOWNLOAD = 8, /* to page-locked memory, to completion */
       VYC_FLOOR_COPY = 9, /* within the device, to completion */
       VYC_FLOOR_MAPPED = 10 /* cuGraphLaunch of a kernel that writes to host memory, seen there */
};

/* `count` measured times of one of these, in nanoseconds, one after the other. `bytes` is the size
 * of the copies, and of the memory that is allocated for them: page-locked memory once, and device
 * memory twice. Other work on the device affects the times. */
VYC_API vyc_status vyc_context_measure(vyc_context *context, uint64_t *ns_out, uint32_t count,
                                       uint32_t what, uint64_t bytes);

/* ---- streams and events --------------------------------------------------------------------- */

/* A stream with its own order. Events order it with other streams; a buffer that it uses for the
 * first time, or again after a copy, is ordered after earlier work in call order. */
VYC_API vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context);
/* The last reference waits for the stream's work, up to the context's time limit. */
VYC_API void vyc_stream_release(vyc_stream *stream);
/* A stream of another library, given by its CUstream; 0 and 1 are the legacy default stream, 2 is
 * each thread's own default stream. Only launches use it, and it is never destroyed here: its owner
 * may destroy it, even while launches from here run on it, but must pass no launches to it after
 * that, which the driver would have to refuse. Everything else here (waits, copies, releases) is
 * ordered after its launches through an event and a stream of this library. Adopting a handle again
 * returns the same stream while that is held.
 * While it is being captured, launches are captured: they run when that graph runs, and are not
 * ordered with anything outside it; earlier work on their buffers is waited for. The kernel and the
 * buffers must live as long as that graph. VYC_E_INVALID: not a CUstream, as far as the driver can
 * tell. */
VYC_API vyc_status vyc_stream_adopt(vyc_stream **stream_out, vyc_context *context, uint64_t handle);
/* VYC_E_ASSERT as for vyc_context_synchronize, for launches on this stream. */
VYC_API vyc_status vyc_stream_synchronize(vyc_stream *stream);
/* The same for at most timeout_ns, then VYC_NOT_READY; negative: no limit. */
VYC_API vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns);
/* VYC_OK if all work has finished, otherwise VYC_NOT_READY. */
VYC_API vyc_status vyc_stream_query(vyc_stream *stream);
/* The CUstream, for other libraries; it lives as long as the vyc_stream and its context. For an
 * adopted stream, the adopted handle. */
VYC_API vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out);
/* A new event after the work that was submitted to the stream. */
VYC_API vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out);
/* Work submitted to the stream from now on waits for the event, which must belong to the same
 * context. The event may be released at once. */
VYC_API vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event);
/* May be called with work in flight; does not wait for it. */
VYC_API void vyc_event_release(vyc_event *event);
/* The same for callers that hold a lock of their own, like vyc_buffer_try_release: with
 * VYC_NOT_READY the caller still has the reference. */
VYC_API vyc_status vyc_event_try_release(vyc_event *event);
/* VYC_E_ASSERT as for vyc_context_synchronize, for launches on the event's stream. */
VYC_API vyc_status vyc_event_synchronize(vyc_event *event);
/* The same for at most timeout_ns, then VYC_NOT_READY; negative: no limit. */
VYC_API vyc_status vyc_event_synchronize_for(vyc_event *event, int64_t timeout_ns);
/* VYC_OK or VYC_NOT_READY. */
VYC_API vyc_status vyc_event_query(vyc_event *event);
/* Milliseconds from `start` to `stop`, both finished. */
VYC_API vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start);

/* A point after all work submitted through the context so far, on any stream. It lets a caller
 * split a long wait into short ones and do something else in between. */
VYC_API vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context);
/* VYC_OK or VYC_NOT_READY; VYC_E_ASSERT as for vyc_context_synchronize. */
VYC_API vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns);
/* May be called before the fence is reached; does not wait. */
VYC_API void vyc_fence_release(vyc_fence *fence);

/* ---- memory --------------------------------------------------------------------------------- */

/* Device memory from the context's pool; the contents are unspecified, and bytes may be 0.
 * VYC_E_MEMORY: the message states the requested, live, idle and free bytes. */
VYC_API vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes);
/* Add a reference for another library that receives the address and must release it: the memory
 * stays valid until then, even after the context is closed. */
VYC_API vyc_status vyc_buffer_export(vyc_buffer *buffer);
/* May be called with work on the buffer in flight: the block is reused after that work. */
VYC_API void vyc_buffer_release(vyc_buffer *buffer);
/* The same for callers that hold a lock of their own, like an interpreter's: it makes no driver
 * call and takes no lock. VYC_NOT_READY: this was not possible, and nothing was done; use the
 * functions above. Buffers that a thread releases with these functions serve its next allocations.
 */
VYC_API vyc_status vyc_buffer_try_alloc(vyc_buffer **buffer_out, vyc_context *context,
                                        uint64_t bytes);
/* VYC_NOT_READY: the caller still has the reference. */
VYC_API vyc_status vyc_buffer_try_release(vyc_buffer *buffer);
/* The CUdeviceptr, for other libraries; this library does not know about their work. */
VYC_API vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out);
/* Wait for the work for which a copy of the buffer would wait, for at most timeout_ns, then
 * VYC_NOT_READY; negative: no limit. `host`: 1 for a copy from or to host memory, 0 for a fill or a
 * copy to another buffer. */
VYC_API vyc_status vyc_buffer_synchronize_for(vyc_buffer *buffer, uint32_t host,
                                              int64_t timeout_ns);
/* Work submitted to the stream (NULL: in call order) from now on waits for all work on the buffer.
 * If the stream is being captured, it cannot wait, so the caller waits instead. */
VYC_API vyc_status vyc_buffer_order(vyc_buffer *buffer, vyc_stream *stream);

enum { /* vyc_foreign_memory.flags */
       VYC_FOREIGN_READ_ONLY = 1u /* nothing here may write to it: VYC_E_INVALID */
};

typedef struct vyc_foreign_memory {
  uint32_t struct_size;
  uint32_t flags; /* VYC_FOREIGN_... */
  uint64_t address;
  uint64_t bytes; /* may be 0; the address is not looked at then */
  vyc_stream *source;
  void (*drop)(void *owner);
  void *owner;
} vyc_foreign_memory;

/* Device memory of another library as a buffer. Each use runs after earlier work on `source`, the
 * stream on which its owner works, and later work on that stream waits for the use; NULL: no order.
 * `drop`, unless NULL, is called once with `owner` after the last reference is gone, by any thread
 * and in any state of the context, but never if this function fails. VYC_E_INVALID: not memory of
 * this device. */
VYC_API vyc_status vyc_buffer_adopt(vyc_buffer **buffer_out, vyc_context *context,
                                    const vyc_foreign_memory *memory);
/* 1 if it was adopted as read-only. */
VYC_API vyc_status vyc_buffer_is_read_only(vyc_buffer *buffer, uint32_t *read_only_out);

/* Copies and fills run in call order, after all work on their buffers on any stream. Ranges are in
 * bytes and are checked. copy_in returns when `data` has been read, copy_out when the bytes have
 * arrived (VYC_E_ASSERT as for vyc_context_synchronize: they have arrived all the same); copy and
 * fill_zero do not wait. Ranges of one buffer may overlap. */
VYC_API vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes);
/* The bytes have arrived when it returns; `data_out` is not used after that. */
VYC_API vyc_status vyc_copy_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes);
/* The same two for callers that hold a lock of their own: for at most VYC_TRY_BYTES, without a
 * lock, and waiting at most timeout_ns, which must not be negative. VYC_NOT_READY: this was not
 * possible, and neither the buffer nor data_out was written; use the functions above. */
enum { VYC_TRY_BYTES = 16384 };
VYC_API vyc_status vyc_copy_try_in(vyc_buffer *to, uint64_t offset, const void *data,
                                   uint64_t bytes, int64_t timeout_ns);
VYC_API vyc_status vyc_copy_try_out(vyc_buffer *from, uint64_t offset, void *data_out,
                                    uint64_t bytes, int64_t timeout_ns);
/* Between buffers of one context; both may be released at once. */
VYC_API vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                            uint64_t from_offset, uint64_t bytes);
/* Set the bytes to 0. */
VYC_API vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes);
/* Fill with elements of element_bytes (1, 2 or 4), each the low bytes of `value`. */
VYC_API vyc_status vyc_fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes,
                            uint64_t bytes);

typedef struct vyc_transfer {
  vyc_buffer *buffer;
  uint64_t offset, bytes;
  const void *data; /* upload: from here */
  void *result; /* download: to here */
  vyc_pinned *pinned; /* whose memory that is: used in place where it is large; NULL: pageable */
  uint64_t reserved;
} vyc_transfer;

/* Many copies with at most one wait for all. Everything is checked before anything is copied; empty
 * items are skipped. An upload copies its items in order, so later bytes win; it returns when all
 * data has been read, and, if other libraries know the memory, has arrived. Neighboring ranges of a
 * buffer are merged: for an upload consecutive items, for a download any. The results of a download
 * have arrived when it returns (VYC_E_ASSERT as for vyc_copy_out). */
VYC_API vyc_status vyc_upload(vyc_context *context, const vyc_transfer *items, uint32_t count);
/* See above: copies to the `result` of each item. */
VYC_API vyc_status vyc_download(vyc_context *context, const vyc_transfer *items, uint32_t count);

/* Page-locked host memory that the device can read and write at its host address, from a pool like
 * that of device memory; the contents are unspecified, and bytes may be 0. After its release it is
 * reused after the work that is known to use it; a run knows by vyc_argument.pinned. Unlike
 * everything else it outlives a close: the memory, and with it the primary context, stay until it
 * is released. */
VYC_API vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes);
/* For callers that can use ordinary memory instead: if page-locked memory runs out, prepared
 * kernels keep what they have for the host arrays of their calls. */
VYC_API vyc_status vyc_pinned_try_alloc(vyc_pinned **pinned_out, vyc_context *context,
                                        uint64_t bytes);
/* Page-lock the caller's memory, which must stay valid until the release; the release waits for
 * work that is known to use it, and a close unlocks it. VYC_E_INVALID: it overlaps memory that is
 * already page-locked. VYC_E_UNSUPPORTED: the device would see it at another address. */
VYC_API vyc_status vyc_pinned_register(vyc_pinned **pinned_out, vyc_context *context, void *data,
                                       uint64_t bytes);
/* May be called with work on the memory in flight, and after a close; views of the memory become
 * invalid. */
VYC_API void vyc_pinned_release(vyc_pinned *pinned);
/* The address, which is the same on the host and the device, and valid until the release. Works in
 * every state of the context except in a forked child. */
VYC_API vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out);

/* ---- modules -------------------------------------------------------------------------------- */

/* Load PTX text (NUL-terminated; `bytes` includes the NUL), a cubin or a fat binary. The image is
 * not kept. The driver's compiler writes its messages to `log_out` (NUL-terminated, at most
 * log_bytes; NULL: no log). VYC_E_COMPILE: the image was refused. */
VYC_API vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, const void *image, size_t bytes);
/* Prepared kernels hold their module. The last reference waits for running kernels, up to the
 * context's time limit; then the code is leaked. */
VYC_API void vyc_module_release(vyc_module *module);
/* The position of parameter `index` of a kernel in its parameter block, according to the driver; 0
 * bytes after the last. VYC_E_INVALID: no such kernel. VYC_E_UNSUPPORTED: the kernel exists, but
 * the driver (older than CUDA 12.4) cannot say. */
VYC_API vyc_status vyc_module_parameter(vyc_module *module, uint32_t *offset_out,
                                        uint32_t *bytes_out, const char *name, uint32_t index);
/* Compile PTX text to an image for this device. The caller owns *image_out: free(3). The log and
 * VYC_E_COMPILE as above. */
VYC_API vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out,
                                   size_t log_bytes, vyc_context *context, const void *ptx,
                                   size_t bytes);

/* The number of threads in a block with which most threads are resident, at most `limit` (0: the
 * device's limit), according to the driver; and the number of blocks resident on a multiprocessor,
 * 0 if not even one fits. VYC_E_INVALID: no such kernel. */
VYC_API vyc_status vyc_module_block_size(vyc_module *module, uint32_t *threads_out,
                                         const char *name, uint32_t dynamic_shared_bytes,
                                         uint32_t limit);
VYC_API vyc_status vyc_module_resident_blocks(vyc_module *module, uint32_t *blocks_out,
                                              const char *name, uint32_t threads,
                                              uint32_t dynamic_shared_bytes);

typedef struct vyc_function_info {
  uint32_t struct_size;
  int32_t max_threads_per_block;
  int32_t registers; /* per thread */
  int32_t static_shared_bytes;
  int32_t local_bytes; /* per thread; spills live here */
  int32_t constant_bytes;
  int32_t ptx_version;
  int32_t binary_version;
  int32_t resident_blocks; /* per multiprocessor, at the prepared kernel's block and shared bytes */
  uint32_t reserved;
} vyc_function_info;

/* ---- kernels prepared for dispatch ---------------------------------------------------------- */

enum { /* vyc_parameter.kind: what goes into the kernel's parameter block */
       VYC_PARAMETER_POINTER = 1, /* address of binding `index` */
       VYC_PARAMETER_SCALAR = 2, /* scalar `index` */
       VYC_PARAMETER_SIZE = 3, /* element count of binding `index` */
       VYC_PARAMETER_REPORT = 4, /* address of the record of failed checks: four u64 (key, index,
                                    lock, reserved), the key preset to all ones, the others to 0 */
       VYC_PARAMETER_GRID_BARRIER =
           5 /* address of two u32 of device memory, 0 before the first launch */
};

typedef struct vyc_parameter {
  uint32_t kind;
  uint32_t index;
  uint32_t offset; /* bytes into the parameter block */
  uint32_t size; /* bytes */
  uint32_t reserved[2];
} vyc_parameter;

enum { /* vyc_binding.role */
       VYC_ROLE_IN = 1,
       VYC_ROLE_INOUT = 2,
       VYC_ROLE_OUT = 3
};

enum { /* vyc_binding.flags */
       VYC_BINDING_STREAMING =
           1u, /* each element is accessed about once, word by word: suited to zero-copy */
       VYC_BINDING_COVERED = 2u /* every element is written when grid.x * block.x >= count */
};

typedef struct vyc_binding {
  uint32_t role;
  uint32_t flags;
  uint32_t element_bytes;
  uint32_t sectors; /* the most sectors of 32 bytes that 32 consecutive threads access, either only
                     * loading or only storing, and without atomics; 0: unknown */
} vyc_binding;

enum { /* vyc_prepared_desc.flags */
       VYC_PREPARED_COOPERATIVE =
           1u, /* has grid barriers: all blocks must be resident, or VYC_E_UNSUPPORTED */
       VYC_PREPARED_MAY_OVERLAP = 2u /* buffers that are written may share bytes with others */
};

/* The name of an argument in messages about launches. */
typedef struct vyc_label {
  const char *name; /* NULL: nothing */
  uint32_t type; /* VYC_TYPE_... of the elements, or of the scalar; 0: not known */
  uint32_t reserved;
} vyc_label;

typedef struct vyc_prepared_desc {
  uint32_t struct_size;
  uint32_t block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t parameter_count;
  uint32_t binding_count;
  uint32_t scalar_count;
  uint32_t flags; /* VYC_PREPARED_... */
  const char *entry;
  const vyc_parameter *parameters;
  const vyc_binding *bindings;
  uint64_t tag; /* returned in vyc_error.tag */
  const char *name; /* the kernel's name in messages; NULL: `entry` */
  const vyc_label *labels; /* one for each binding, then one for each scalar; NULL: by position, as
                            * numbers */
} vyc_prepared_desc;

/* Look up the function and prepare its calls. `desc` and everything that it points to are copied;
 * the prepared kernel keeps the module. VYC_E_UNSUPPORTED: a cooperative kernel on a device without
 * cooperative launches. */
VYC_API vyc_status vyc_prepared_create(vyc_prepared **prepared_out, vyc_module *module,
                                       const vyc_prepared_desc *desc);
/* The last reference waits for runs in flight, up to the context's time limit; a run that has not
 * ended by then is leaked, with everything that it uses. Tickets and calls hold a reference. */
VYC_API void vyc_prepared_release(vyc_prepared *prepared);
/* What the driver knows about the kernel. */
VYC_API vyc_status vyc_prepared_function(vyc_prepared *prepared, vyc_function_info *info_out);

enum { /* vyc_argument.kind */
       VYC_ARGUMENT_HOST = 1, /* pageable memory: staged */
       VYC_ARGUMENT_PINNED = 2, /* page-locked memory: used in place */
       VYC_ARGUMENT_BUFFER = 3 /* device memory */
};

typedef struct vyc_argument {
  uint32_t kind;
  uint32_t reserved0;
  uint64_t count; /* elements */
  const void *data; /* HOST, PINNED: input; NULL for an out; PINNED: aligned to the element */
  void *result; /* HOST, PINNED: where the output goes; NULL for an in; PINNED: aligned, too */
  vyc_buffer *buffer; /* BUFFER */
  uint64_t offset; /* BUFFER: bytes; elements are aligned there */
  vyc_pinned *pinned; /* PINNED: held until the run has ended; NULL: the caller keeps the memory */
  uint64_t reserved1;
} vyc_argument;

typedef struct vyc_timing {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t wall_ns;
  uint64_t enqueue_ns; /* staging and launch */
  uint64_t wait_ns;
  uint64_t device_ns; /* between events right around the kernel */
} vyc_timing;

/* Count work that the host timed itself, for example with vyc_graph_launch_between, as a timed
 * call. */
VYC_API vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing);

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
  uint32_t
      iterations; /* of the kernel, each on what the previous one left; 0 means 1. Host runs only */
  uint32_t origin; /* the place of the launch, from vyc_origin_add; 0: none */
  /* NULL, or a number for each argument. Where the number of an input in host memory is not 0 and
   * the same as in an earlier run of the kernel, its bytes must be those of that run; they are then
   * not copied to the device again if they are still there. Host runs only */
  const uint64_t *contents;
} vyc_run;

/* The bits of a float for vyc_run.scalars; those of an integer are its value, cast. */
static inline uint64_t vyc_bits_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline uint64_t vyc_bits_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Host or mixed arguments in, results out: stage, launch, wait, collect. With only host arguments
 * and no stream it may overlap other work; otherwise it runs in the order of its stream. A buffer
 * that is written may not share bytes with another argument. A grid of 0 launches nothing, and outs
 * are zero. VYC_E_TIMEOUT: the run continues, and *ticket_out, otherwise NULL, owns it; if
 * ticket_out is NULL, the run is abandoned. If *ticket_out is NULL even so, 64 runs of the prepared
 * kernel were in flight and this one was not started. VYC_E_ASSERT: a check failed, and no result
 * was written. After another failure while waiting, the results are lost. PINNED memory belongs to
 * the run until the run has ended. */
VYC_API vyc_status vyc_prepared_run(vyc_prepared *prepared, vyc_ticket **ticket_out,
                                    const vyc_run *run);
/* The same without the wait; timing_out is ignored. Inputs may change when it returns, except
 * PINNED ones. Result memory must live until the ticket is finished or released. It waits only if
 * 64 runs of the prepared kernel are in flight, for at most timeout_ns; then VYC_E_TIMEOUT, and
 * nothing was started. */
VYC_API vyc_status vyc_prepared_submit(vyc_prepared *prepared, vyc_ticket **ticket_out,
                                       const vyc_run *run);
/* VYC_OK: finished, and the results are in place. VYC_NOT_READY: not yet. Otherwise the status with
 * which the run failed, at every call. A finished ticket works in every state of the context. */
VYC_API vyc_status vyc_ticket_query(vyc_ticket *ticket);
/* The same after waiting at most timeout_ns; negative: no limit. */
VYC_API vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns);
/* The times of a finished run of vyc_prepared_run with timing_out whose wait ended early;
 * VYC_NOT_READY: not finished yet. */
VYC_API vyc_status vyc_ticket_timing(vyc_ticket *ticket, vyc_timing *timing_out);
/* An unfinished run is abandoned: it continues, but nothing more is written to its HOST results.
 * The kernel still uses PINNED memory and buffers. */
VYC_API void vyc_ticket_release(vyc_ticket *ticket);

/* Asynchronous launch on buffers, in the order of its stream; timeout_ns and timing_out are
 * ignored. The buffers may be released at once. Errors in the kernel are reported by the next wait.
 */
VYC_API vyc_status vyc_prepared_launch(vyc_prepared *prepared, const vyc_run *run);

/* A launch with bound arguments, in its own graph. The call holds the prepared kernel, the stream
 * and the buffers. vyc_call_run launches it as vyc_prepared_launch would; vyc_call_set binds other
 * arguments, all at once and between launches, on the same stream. */
VYC_API vyc_status vyc_call_create(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run);
/* Bind other arguments for the next launches. VYC_E_INVALID: another stream, or as for
 * vyc_prepared_launch; then the previous arguments stay bound. */
VYC_API vyc_status vyc_call_set(vyc_call *call, const vyc_run *run);
/* Launch; errors in the kernel are reported by the next wait. */
VYC_API vyc_status vyc_call_run(vyc_call *call);
/* The same, from an origin of vyc_origin_add. */
VYC_API vyc_status vyc_call_run_at(vyc_call *call, uint32_t origin);
/* vyc_call_set and vyc_call_run in one. If the launch fails, the arguments are bound all the same.
 * If the same few sets of arguments recur, a call for each is faster, because nothing is patched
 * then. */
VYC_API vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run);
/* May be called with launches in flight. */
VYC_API void vyc_call_release(vyc_call *call);

/* ---- graphs: many launches as one ----------------------------------------------------------- */

/* A recording of launches, copies and fills that is launched as a whole. Steps are added, and then
 * vyc_graph_finish makes it launchable. The result is as if the steps ran one after the other;
 * steps that do not touch the same bytes, or only read them, may run at the same time. */
VYC_API vyc_status vyc_graph_create(vyc_graph **graph_out, vyc_context *context);
/* May be called with launches in flight; an unfinished recording is dropped. */
VYC_API void vyc_graph_release(vyc_graph *graph);

/* A copy, or a fill if `from` and `from_host` are both NULL. Host memory must be page-locked; it is
 * read or written at every launch. */
typedef struct vyc_graph_transfer {
  uint32_t struct_size;
  uint32_t element_bytes; /* of a fill: 1, 2 or 4 */
  uint32_t value; /* of each element of a fill */
  uint32_t reserved;
  uint64_t bytes;
  vyc_buffer *to; /* or NULL and to_host */
  uint64_t to_offset; /* bytes */
  void *to_host;
  vyc_buffer *from; /* or NULL and from_host */
  uint64_t from_offset; /* bytes */
  const void *from_host;
  vyc_pinned *pinned; /* the host memory's: held. NULL: the caller keeps it as long as the graph */
} vyc_graph_transfer;

/* Add a step and return its number, counted from 0. Arguments of a launch are buffers and its
 * stream is NULL, as in vyc_prepared_launch. The prepared kernel and the buffers are held. The
 * ranges of one copy may not overlap. Cooperative kernels run one after the other.
 * VYC_E_UNSUPPORTED: a cooperative kernel with more blocks than the device holds at once. */
VYC_API vyc_status vyc_graph_add_launch(vyc_graph *graph, uint32_t *step_out,
                                        vyc_prepared *prepared, const vyc_run *run);
/* The same for a copy or a fill, whose buffers and `pinned` are held. */
VYC_API vyc_status vyc_graph_add_transfer(vyc_graph *graph, uint32_t *step_out,
                                          const vyc_graph_transfer *transfer);
/* Begin and end a repetition of the steps in between, which may contain repetitions. With `until`
 * NULL: `times` times, which may be 0. Otherwise, after each pass the device looks at the integer
 * of until_bytes (1, 2, 4 or 8), and stops if it is not 0, or after `times` passes unless that is
 * 0. VYC_E_UNSUPPORTED: `until`, or more than 262144 nodes in all, with a driver before 12.4. */
VYC_API vyc_status vyc_graph_repeat_begin(vyc_graph *graph, uint32_t *step_out, uint64_t times,
                                          vyc_buffer *until, uint64_t until_offset,
                                          uint32_t until_bytes);
/* VYC_E_INVALID: no repetition is open. */
VYC_API vyc_status vyc_graph_repeat_end(vyc_graph *graph);
/* Instantiate. No steps can be added after that. If it fails, it may be called again. */
VYC_API vyc_status vyc_graph_finish(vyc_graph *graph);

/* New parameters for a step, of the same kind: a run for a launch, a transfer between the same
 * kinds of memory for a transfer. */
typedef struct vyc_graph_change {
  uint32_t step;
  uint32_t reserved;
  const vyc_run *run; /* one of the two is NULL */
  const vyc_graph_transfer *transfer;
} vyc_graph_change;

/* Change steps, in ascending order, for all later launches: all of them, or none on failure. */
VYC_API vyc_status vyc_graph_update(vyc_graph *graph, const vyc_graph_change *changes,
                                    uint32_t count);
/* Launch, in the order of the stream (NULL: in call order) and after earlier launches of this
 * graph, with changes that hold for this launch. The graph is not instantiated again, unless a
 * change brings a size to or from 0, or needs an order between steps that the graph does not have
 * (with loops, any change that moves memory which steps share). Then the graph is instantiated
 * again, with the branches that are possible now; after 16 such times, it is instantiated in the
 * order of recording, for good. On failure nothing was launched, and the graph can be launched
 * again. Errors in its kernels are reported by the next wait.
 * On an adopted stream that is being captured, the nodes become part of the captured graph, with
 * the values of this launch, and run when that graph runs (see vyc_stream_adopt). What they use is
 * held by that graph, its clones and executable graphs, and launches of these. After the last of
 * them has ended, it is released by the next capture, vyc_context_synchronize, trim, open, close or
 * release, or by a buffer allocation that finds no memory. If the driver does not support this,
 * `graph` holds it, and must live as long. A close releases it in any case. If the launch fails
 * half-way, the capture has ended. VYC_E_UNSUPPORTED: the driver does not say what is being
 * captured. */
VYC_API vyc_status vyc_graph_launch(vyc_graph *graph, const vyc_graph_change *changes,
                                    uint32_t count, vyc_stream *stream);
/* The same, from an origin of vyc_origin_add. */
VYC_API vyc_status vyc_graph_launch_at(vyc_graph *graph, const vyc_graph_change *changes,
                                       uint32_t count, vyc_stream *stream, uint32_t origin);
/* The same between two events of the stream, right before and right after the graph: once both are
 * reached, vyc_event_elapsed returns how long it took. On failure there are no events.
 * VYC_E_INVALID: the stream is being captured. */
VYC_API vyc_status vyc_graph_launch_between(vyc_graph *graph, vyc_event **start_out,
                                            vyc_event **stop_out, const vyc_graph_change *changes,
                                            uint32_t count, vyc_stream *stream, uint32_t origin);

typedef struct vyc_graph_info {
  uint32_t struct_size;
  uint32_t step_count;
  uint32_t node_count;
  uint32_t edge_count;
  uint32_t in_order; /* 1: made in the order of recording, see vyc_graph_launch */
  uint32_t reserved;
} vyc_graph_info;

enum { /* vyc_graph_node.kind */
       VYC_NODE_KERNEL = 1,
       VYC_NODE_COPY = 2,
       VYC_NODE_FILL = 3,
       VYC_NODE_CLEAR = 4, /* of an out, before its kernel */
       VYC_NODE_LOOP = 5,
       VYC_NODE_CONTROL = 6 /* a kernel that a loop needs */
};

typedef struct vyc_graph_node {
  uint32_t struct_size;
  uint32_t kind; /* VYC_NODE_... */
  uint32_t step;
  uint32_t parent; /* the loop that it is in, UINT32_MAX: none */
} vyc_graph_node;

/* The size of a graph; nodes and edges are 0 before it is finished. */
VYC_API vyc_status vyc_graph_info_get(vyc_graph *graph, vyc_graph_info *info_out);
/* Node `index` of a finished graph, and up to edge_room of the nodes for which it waits. */
VYC_API vyc_status vyc_graph_node_get(vyc_graph *graph, vyc_graph_node *node_out,
                                      uint32_t *edge_count_out, uint32_t *edges_out,
                                      uint32_t edge_room, uint32_t index);

/* ---- bundles: compiled programs in a file --------------------------------------------------- */

/* The format that this library reads and `vc.bundle` writes. */
#define VYC_BUNDLE_FORMAT 2u

typedef struct vyc_bundle vyc_bundle;
typedef struct vyc_bundled_kernel vyc_bundled_kernel;

/* Read and check a bundle: the file `path`, or if path is NULL the `bytes` at `data`, which are
 * copied. Needs no driver. Everything in it is checked except the device code itself, which runs
 * with the rights of the process; so trust a bundle as you would trust a library. VYC_E_FILE: the
 * file cannot be read. VYC_E_FORMAT: not a bundle, truncated, damaged (the digest differs) or
 * inconsistent. VYC_E_VERSION: a newer format. VYC_E_MEMORY. */
VYC_API vyc_status vyc_bundle_open(vyc_bundle **bundle_out, const char *path, const void *data,
                                   size_t bytes);
/* Objects loaded from it hold their own references. */
VYC_API void vyc_bundle_release(vyc_bundle *bundle);

typedef struct vyc_bundle_info {
  uint32_t struct_size;
  uint32_t format_version;
  uint32_t producer; /* vyc_version of who wrote it */
  uint32_t kernel_count;
  uint32_t graph_count;
  uint32_t reserved;
  uint64_t bytes;
  uint8_t digest[32]; /* BLAKE2b-256 of the file with the digest as zeros */
} vyc_bundle_info;

/* The contents of the file's header. */
VYC_API vyc_status vyc_bundle_info_get(vyc_bundle *bundle, vyc_bundle_info *info_out);

enum { /* vyc_bundle_parameter.role, beside VYC_ROLE_IN, _INOUT and _OUT */
       VYC_ROLE_SCALAR = 4
};

enum { /* types of elements and scalars; a bool is a byte of 0 or 1, bf16 the upper half of f32 */
       VYC_TYPE_BOOL = 1,
       VYC_TYPE_U8 = 2,
       VYC_TYPE_I8 = 3,
       VYC_TYPE_U16 = 4,
       VYC_TYPE_I16 = 5,
       VYC_TYPE_U32 = 6,
       VYC_TYPE_I32 = 7,
       VYC_TYPE_U64 = 8,
       VYC_TYPE_I64 = 9,
       VYC_TYPE_F16 = 10,
       VYC_TYPE_BF16 = 11,
       VYC_TYPE_F32 = 12,
       VYC_TYPE_F64 = 13
};

enum { /* vyc_bundle_kernel.flags */
       VYC_KERNEL_WHOLE_PROGRAM = 1u /* `program` has the body, not the signature alone */
};

/* Texts and bytes that these structs point to live as long as the bundle. */
typedef struct vyc_bundle_kernel {
  uint32_t struct_size;
  uint32_t flags; /* VYC_KERNEL_... */
  const char *name; /* of the program; unique among the kernels of the bundle */
  const char *precision;
  const char *bounds;
  uint32_t block[3]; /* threads of a block */
  uint32_t index_bits; /* n: at most 2^n - 1 elements per buffer, 2^n threads per axis; 31, 32, 63
                          or 64, of which 31 and 63 mean that ids and sizes are signed */
  uint32_t axes; /* for which the work is known; 0: each call brings a grid */
  uint32_t parameter_count;
  uint32_t buffer_count;
  uint32_t scalar_count;
  uint32_t variant_count;
  uint32_t reserved;
  const void *program; /* wire bytes for vc.Program.from_bytes */
  uint64_t program_bytes;
  uint8_t fingerprint[32]; /* vc.Program.fingerprint of the whole program */
  double max_ulp; /* what it was compiled with; 0: left to the precision */
} vyc_bundle_kernel;

/* VYC_E_INVALID after the last. */
VYC_API vyc_status vyc_bundle_kernel_get(vyc_bundle *bundle, vyc_bundle_kernel *kernel_out,
                                         uint32_t index);
/* VYC_E_INVALID: no kernel of this name; the message lists the existing ones. */
VYC_API vyc_status vyc_bundle_kernel_find(vyc_bundle *bundle, uint32_t *index_out,
                                          const char *name);

typedef struct vyc_bundle_parameter {
  uint32_t struct_size;
  uint32_t role; /* VYC_ROLE_... */
  const char *name;
  uint32_t type; /* VYC_TYPE_... */
  uint32_t element_bytes;
  uint32_t slot; /* its number among the buffers (vyc_run.arguments) or among the scalars */
  uint32_t is_sized; /* 1: the size of an out follows from the other arguments; so do the size that
                        an in or inout must have, and the value of an extent */
} vyc_bundle_parameter;

/* Parameter `index`, in declared order, of a kernel. The extents of buffers that are declared with
 * several axes follow, axis by axis: scalars with names such as "x.0", which each call passes. */
VYC_API vyc_status vyc_bundle_parameter_get(vyc_bundle *bundle, vyc_bundle_parameter *parameter_out,
                                            uint32_t kernel, uint32_t index);

/* The code of a kernel for one GPU generation, in ascending order. */
typedef struct vyc_bundle_variant {
  uint32_t struct_size;
  uint32_t sm; /* 90: sm_90; PTX also runs on what is newer */
  uint32_t ptx_version; /* major * 10 + minor */
  uint32_t is_cooperative;
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t entry_count; /* rows of `entries` */
  uint32_t site_count;
  const char *entry; /* name of the function */
  const vyc_parameter *entries; /* as in vyc_prepared_desc.parameters */
  const vyc_binding *bindings; /* as in vyc_prepared_desc.bindings, one per buffer */
  const char *ptx; /* NUL-terminated */
  uint64_t ptx_bytes; /* with the NUL */
  const void *cubin; /* NULL: there is PTX alone */
  uint64_t cubin_bytes;
  uint32_t shared_bytes; /* of a block, dynamic_shared_bytes among them */
  uint32_t reserved;
} vyc_bundle_variant;

/* VYC_E_INVALID: no such kernel or variant. */
VYC_API vyc_status vyc_bundle_variant_get(vyc_bundle *bundle, vyc_bundle_variant *variant_out,
                                          uint32_t kernel, uint32_t index);

enum { /* vyc_site.kind */
       VYC_SITE_ASSERT = 1, /* an assertion of the program */
       VYC_SITE_BOUNDS = 2 /* a check of an index */
};

/* A place of a program whose failure is reported by its number. */
typedef struct vyc_site {
  uint32_t struct_size;
  uint32_t kind; /* VYC_SITE_... */
  const char *message;
  const char *buffer; /* of a bounds check, else "" */
  const char *file; /* "": not known */
  uint32_t line;
  uint32_t statement; /* its number in the program, in pre-order from 0 */
} vyc_site;

/* VYC_E_INVALID: no such kernel, variant or site. */
VYC_API vyc_status vyc_bundle_site_get(vyc_bundle *bundle, vyc_site *site_out, uint32_t kernel,
                                       uint32_t variant, uint32_t index);

/* Write the extents of a call that follow from the other arguments, those of is_sized parameters,
 * into `scalars`, which has the bits of each scalar and the other extents. `counts` has the number
 * of elements of every in and inout. With these extents the outs have their declared shapes.
 * VYC_E_INVALID: an extent that is negative or too large; the message has the number. */
VYC_API vyc_status vyc_bundle_extents(vyc_bundle *bundle, uint64_t *scalars, uint32_t kernel,
                                      const uint64_t *counts);

/* The sizes of the outs and the grid of a call, computed as in Python. `counts` has the number of
 * elements of every buffer: given for in and inout, and for an out that is not is_sized; written
 * for the sized outs. `grid_out`, unless NULL, is the number of blocks, all 0 if there is nothing
 * to do. `scalars` has the bits of each scalar and extent. VYC_E_INVALID: a size or grid that is
 * negative or too large, an argument or extent that is not as declared, or grid_out for a kernel
 * whose calls provide the grid; the message has the numbers. */
VYC_API vyc_status vyc_bundle_shape(vyc_bundle *bundle, uint64_t *counts, uint32_t grid_out[3],
                                    uint32_t kernel, const uint64_t *scalars);

/* A kernel of a bundle, loaded on a device: the cubin for its GPU generation, or else the PTX of
 * the newest generation that it supports, which the driver compiles (its messages go to log_out, as
 * for vyc_module_load). If the driver refuses a cubin or PTX, the next one is tried. `tag` is
 * returned in vyc_error.tag. The kernel holds the bundle and the context. VYC_E_INVALID: no kernel
 * of this name. VYC_E_UNSUPPORTED: the bundle has no code that this device can run. VYC_E_COMPILE:
 * the driver refused everything. */
VYC_API vyc_status vyc_bundled_kernel_load(vyc_bundled_kernel **kernel_out, char *log_out,
                                           size_t log_bytes, vyc_context *context,
                                           vyc_bundle *bundle, const char *name, uint64_t tag);
/* As vyc_prepared_release. */
VYC_API void vyc_bundled_kernel_release(vyc_bundled_kernel *kernel);

typedef struct vyc_bundled_kernel_info {
  uint32_t struct_size;
  uint32_t kernel; /* its number in the bundle */
  uint32_t variant; /* which was loaded */
  uint32_t is_cubin; /* 1: machine code; 0: PTX that the driver compiled */
} vyc_bundled_kernel_info;

/* Works in every state of the context. */
VYC_API vyc_status vyc_bundled_kernel_info_get(vyc_bundled_kernel *kernel,
                                               vyc_bundled_kernel_info *info_out);
/* The prepared kernel, for vyc_call_create, vyc_graph_add_launch and vyc_prepared_function: an
 * additional reference, to be released with vyc_prepared_release. A prepared kernel does not know
 * its work, and a grid of zeros launches nothing: complete its runs with
 * vyc_bundled_kernel_resolve. */
VYC_API vyc_status vyc_bundled_kernel_prepared(vyc_bundled_kernel *kernel,
                                               vyc_prepared **prepared_out);
/* Complete a run: a grid of zeros becomes the grid of the work. VYC_E_INVALID: a wrong number of
 * arguments or scalars, a wrong count of a sized out, or as for vyc_bundle_shape. */
VYC_API vyc_status vyc_bundled_kernel_resolve(vyc_bundled_kernel *kernel, vyc_run *run);
/* vyc_prepared_run, vyc_prepared_submit and vyc_prepared_launch with a copy of the run that is
 * completed first. */
VYC_API vyc_status vyc_bundled_kernel_run(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                          const vyc_run *run);
/* As vyc_prepared_submit. */
VYC_API vyc_status vyc_bundled_kernel_submit(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                             const vyc_run *run);
/* As vyc_prepared_launch. */
VYC_API vyc_status vyc_bundled_kernel_launch(vyc_bundled_kernel *kernel, const vyc_run *run);
/* The check that a VYC_E_ASSERT with this kernel's tag reports, from vyc_error.report. */
VYC_API vyc_status vyc_bundled_kernel_site(vyc_bundled_kernel *kernel, vyc_site *site_out,
                                           uint64_t report);

/* ---- bundled graphs: recorded work with names for what changes ------------------------------ */

typedef struct vyc_replay vyc_replay;

typedef struct vyc_bundle_graph {
  uint32_t struct_size;
  uint32_t symbol_count;
  const char *name; /* unique among the graphs of the bundle */
  uint32_t step_count;
  uint32_t array_count;
} vyc_bundle_graph;

/* VYC_E_INVALID after the last. */
VYC_API vyc_status vyc_bundle_graph_get(vyc_bundle *bundle, vyc_bundle_graph *graph_out,
                                        uint32_t index);
/* VYC_E_INVALID: no graph of this name; the message lists the existing ones. */
VYC_API vyc_status vyc_bundle_graph_find(vyc_bundle *bundle, uint32_t *index_out, const char *name);

enum { /* vyc_bundle_symbol.kind */
       VYC_SYMBOL_ARRAY = 1,
       VYC_SYMBOL_SCALAR = 2
};

enum { /* vyc_bundle_symbol.flags */
       VYC_SYMBOL_HAS_DEFAULT = 1u, /* otherwise each launch must provide it, or an earlier set */
       VYC_SYMBOL_WRITTEN = 2u /* an array that a step writes */
};

typedef struct vyc_bundle_symbol {
  uint32_t struct_size;
  uint32_t kind; /* VYC_SYMBOL_... */
  const char *name;
  uint32_t type; /* VYC_TYPE_... of the elements, or of the scalar */
  uint32_t element_bytes;
  uint32_t flags;
  uint32_t array; /* of an array with a default: the graph's array that holds it, */
  uint64_t value; /* from this byte on; of a scalar with a default: its bits */
  uint64_t count; /* of an array with a default: elements */
} vyc_bundle_symbol;

/* In the order of their names. */
VYC_API vyc_status vyc_bundle_symbol_get(vyc_bundle *bundle, vyc_bundle_symbol *symbol_out,
                                         uint32_t graph, uint32_t index);
/* VYC_E_INVALID: the graph has no symbol of this name. */
VYC_API vyc_status vyc_bundle_symbol_find(vyc_bundle *bundle, uint32_t *index_out, uint32_t graph,
                                          const char *name);

/* Memory that belongs to a graph. */
typedef struct vyc_bundle_array {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes;
  const void *contents; /* all of it; NULL: zeros */
} vyc_bundle_array;

/* VYC_E_INVALID: no such graph or array. */
VYC_API vyc_status vyc_bundle_array_get(vyc_bundle *bundle, vyc_bundle_array *array_out,
                                        uint32_t graph, uint32_t index);

enum { /* vyc_bundle_step.kind */
       VYC_STEP_LAUNCH = 1, /* a value for each parameter of the kernel, in declared order */
       VYC_STEP_COPY = 2, /* to, from */
       VYC_STEP_FILL = 3, /* to, the element */
       VYC_STEP_REPEAT = 4, /* the array that ends the loop, or no value */
       VYC_STEP_END = 5 /* of the innermost repeat */
};

enum { /* vyc_bundle_value.kind */
       VYC_VALUE_SPAN = 1, /* `count` elements of array `index` from byte `value` on */
       VYC_VALUE_SYMBOL = 2, /* what symbol `index` stands for */
       VYC_VALUE_BITS = 3 /* a scalar */
};

typedef struct vyc_bundle_value {
  uint32_t kind; /* VYC_VALUE_... */
  uint32_t index;
  uint64_t value;
  uint64_t count;
} vyc_bundle_value;

typedef struct vyc_bundle_step {
  uint32_t struct_size;
  uint32_t kind; /* VYC_STEP_... */
  uint32_t kernel; /* of a launch */
  uint32_t type; /* of the elements, but of a launch: VYC_TYPE_... */
  uint32_t grid[3]; /* of a launch; zeros: by the kernel's work */
  uint32_t value_count;
  uint64_t times; /* of a repeat, as in vyc_graph_repeat_begin */
  const vyc_bundle_value *values;
} vyc_bundle_step;

/* In the order of recording. */
VYC_API vyc_status vyc_bundle_step_get(vyc_bundle *bundle, vyc_bundle_step *step_out,
                                       uint32_t graph, uint32_t index);

/* A graph of a bundle on a device: its kernels are loaded as by vyc_bundled_kernel_load, and its
 * arrays are allocated and filled. It holds all of them. If every symbol has a default it is
 * instantiated at once, otherwise at the first launch. Statuses as for vyc_bundled_kernel_load,
 * vyc_buffer_alloc and vyc_graph_finish. */
VYC_API vyc_status vyc_replay_load(vyc_replay **replay_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, vyc_bundle *bundle, const char *name,
                                   uint64_t tag);
/* May be called with launches in flight. */
VYC_API void vyc_replay_release(vyc_replay *replay);

/* A value for a symbol. This struct cannot grow. */
typedef struct vyc_symbol_value {
  uint32_t symbol; /* its number */
  uint32_t reserved;
  uint64_t bits; /* of a scalar */
  vyc_buffer *buffer; /* of an array: */
  uint64_t offset; /* bytes */
  uint64_t count; /* elements; sizes and grids of the launches follow */
} vyc_symbol_value;

/* Set symbols for all later launches: all of them, or none on failure. Buffers are held.
 * VYC_E_INVALID: no such symbol, a symbol twice, or an array that does not fit its kernel. */
VYC_API vyc_status vyc_replay_set(vyc_replay *replay, const vyc_symbol_value *values,
                                  uint32_t count);
/* Launch, like vyc_graph_launch, with values that hold for this launch; if another thread calls
 * vyc_replay_set meanwhile, the other symbols have either all of the old values or all of the new
 * ones. VYC_E_INVALID as above, or a symbol without a default has no value. */
VYC_API vyc_status vyc_replay_launch(vyc_replay *replay, const vyc_symbol_value *values,
                                     uint32_t count, vyc_stream *stream);
/* The current value of a symbol. The buffer of an array is an additional reference, to be released
 * with vyc_buffer_release. VYC_E_INVALID: it has no value. */
VYC_API vyc_status vyc_replay_get(vyc_replay *replay, vyc_symbol_value *value_out, uint32_t symbol);
/* The check that a VYC_E_ASSERT with this graph's tag reports: `kernel` is vyc_error.operation, and
 * `report` is vyc_error.report. VYC_E_INVALID: the graph has no such kernel or site. */
VYC_API vyc_status vyc_replay_site(vyc_replay *replay, vyc_site *site_out, const char *kernel,
                                   uint64_t report);

#ifdef __cplusplus
}
#endif
#endif
