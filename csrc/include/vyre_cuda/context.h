/* Contexts: a device, opened.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_CONTEXT_H
#define VYRE_CUDA_CONTEXT_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* The same with its own time limit; negative: none. VYC_E_INVALID: called by a vyc_notice.call of
 * this context; it stays open. */
VYC_API vyc_status vyc_context_close_for(vyc_context *context, int64_t timeout_ns);
/* How many nanoseconds releases, and a close without its own limit, wait for work before they
 * abandon it as hung; 10 s at first. It must not be negative. What is abandoned is leaked; later
 * releases do not wait. Works in every state of the context. */
VYC_API vyc_status vyc_context_set_patience(vyc_context *context, int64_t patience_ns);
/* The last reference, of the owner or of a child, closes the context, as vyc_context_close does. */
VYC_API void vyc_context_release(vyc_context *context);
/* Let kernels of a context use memory of `other`, another device of the same driver or the same
 * device opened again, by vyc_buffer_adopt_peer. The other direction is a call of its own. Calling
 * it again does nothing. VYC_E_UNSUPPORTED: the devices cannot reach each other's memory. */
VYC_API vyc_status vyc_context_enable_peer(vyc_context *context, vyc_context *other);
/* 1 if this device can reach the memory of the device with that ordinal, of the same driver; then
 * copies between the two are direct. 0: they go by way of the host. */
VYC_API vyc_status vyc_context_can_access_peer(vyc_context *context, int32_t ordinal,
                                               uint32_t *access_out);
/* Make the CUcontext the calling thread's current one, until vyc_context_leave: so a thread that
 * makes many calls switches to it once, and not in each of them. That changes nothing else, and
 * every call works without it. *before_out is the CUcontext that was current, 0: none. */
VYC_API vyc_status vyc_context_enter(vyc_context *context, uint64_t *before_out);
/* On the same thread: make `before` current again. It works after a close, too; while a CUcontext
 * whose context was closed is current, other calls of the driver on this thread fail. */
VYC_API vyc_status vyc_context_leave(vyc_context *context, uint64_t before);
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

#ifdef __cplusplus
}
#endif
#endif
