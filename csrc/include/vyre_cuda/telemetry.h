/* Counters, and the last launches of a context.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_TELEMETRY_H
#define VYRE_CUDA_TELEMETRY_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  X(event_creations, TOTAL, "Events that the driver created because none was kept.")               \
  X(worker_calls, TOTAL, "Calls given to workers.")                                                \
  X(worker_launches, TOTAL, "Launches of workers.")                                                \
  X(worker_turns, TOTAL, "Launches of workers that ended so that others had their turn.")          \
  X(worker_idle_ends, TOTAL, "Launches of workers that ended because no call came.")               \
  X(worker_pauses, TOTAL, "Stops of workers for calls that wait for the device, or by callers.")   \
  X(worker_errors, TOTAL, "Calls of workers that ended with an error.")                            \
  X(worker_spread_calls, TOTAL, "Calls of workers that several blocks had parts of.")
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
 * block, origin, how many launches ago, and on which stream. The last 32 launches of each stream
 * are remembered, and one more line has the number of those before; if two threads launch on one
 * stream at the same time, one launch or its arguments may be lost. Lines that do not fit are left
 * out; *count_out counts all lines. text_out may be NULL if `bytes` is 0. Works in every state of
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
 * memory twice. Other work on the device affects the times. VYC_E_TIMEOUT: VYC_FLOOR_MAPPED alone,
 * if the host does not see what the kernel has written. */
VYC_API vyc_status vyc_context_measure(vyc_context *context, uint64_t *ns_out, uint32_t count,
                                       uint32_t what, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
