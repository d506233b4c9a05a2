/* Where the driver would not take a thread's capture mode back, the next change of it on the thread
 * is the one that gives it back. */
#include "capture_mode.h"

#include <stddef.h>

/* `library` NULL: nothing is owed. Drivers are closed and opened again, their libraries stay. */
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
