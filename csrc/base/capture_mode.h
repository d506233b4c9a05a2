/* The capture mode of the thread: relaxed around driver calls that captures of others forbid, and
 * then restored. */
#ifndef VYC_CAPTURE_MODE_H
#define VYC_CAPTURE_MODE_H

#include "driver.h"
#include "status.h"

/* The mode to which a thread must return that is relaxed, or cannot be: the one that an earlier
 * restore failed to set, else RELAXED. */
__attribute__((cold)) CUstreamCaptureMode vyc__capture_owed(const vyc_driver *driver);
/* A restore failed: try again, now and later. */
__attribute__((cold)) void vyc__capture_owe(const vyc_driver *driver, CUstreamCaptureMode mode);

/* Another thread may be capturing in global mode: calls that allocate, free or query must not break
 * its capture. Returns the mode to pass to vyc__capture_restore; RELAXED: nothing was changed. */
static inline CUstreamCaptureMode vyc__capture_relax(const vyc_driver *driver) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult result = driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (VYC_LIKELY(result == CUDA_SUCCESS && mode != CU_STREAM_CAPTURE_MODE_RELAXED)) return mode;
  return vyc__capture_owed(driver);
}
static inline void vyc__capture_restore(const vyc_driver *driver, CUstreamCaptureMode mode) {
  CUstreamCaptureMode found = mode;
  if (VYC_UNLIKELY(mode == CU_STREAM_CAPTURE_MODE_RELAXED)) return;
  if (VYC_UNLIKELY(driver->cuThreadExchangeStreamCaptureMode(&found) != CUDA_SUCCESS))
    vyc__capture_owe(driver, mode);
}

#endif
