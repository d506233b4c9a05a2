/* If the driver refused to restore a thread's capture mode, the next change of it on that thread
 * restores it. */
#include "capture_mode.h"

#include <stddef.h>

/* `library` NULL: nothing is to be restored. Drivers are closed and opened again; their libraries
 * stay. */
static _Thread_local struct {
  const void *library;
  CUstreamCaptureMode mode;
} owed;

CUstreamCaptureMode vyc__capture_owed(const vyc_driver *driver) {
  if (owed.library != driver->library) return CU_STREAM_CAPTURE_MODE_RELAXED;
  owed.library = NULL;
  return owed.mode;
}

void vyc__capture_owe(const vyc_driver *driver, CUstreamCaptureMode mode) {
  CUstreamCaptureMode again = mode;
  if (driver->cuThreadExchangeStreamCaptureMode(&again) == CUDA_SUCCESS) return;
  owed.library = driver->library;
  owed.mode = mode;
}
