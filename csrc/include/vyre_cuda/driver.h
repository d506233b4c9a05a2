/* Opening the CUDA driver or the emulator; the handles of objects.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_DRIVER_H
#define VYRE_CUDA_DRIVER_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* Name of a device, NUL-terminated and truncated to name_bytes (at least 1), without opening a
 * context on it. Empty and VYC_E_UNAVAILABLE if there is no such device. */
VYC_API vyc_status vyc_driver_device_name(vyc_driver *driver, char *name_out, size_t name_bytes,
                                          int32_t ordinal);

#ifdef __cplusplus
}
#endif
#endif
