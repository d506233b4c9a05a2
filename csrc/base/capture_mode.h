/* The capture mode of the thread: relaxed around driver calls that captures of others forbid, and
 * left as it was found. */
#ifndef VYC_CAPTURE_MODE_H
#define VYC_CAPTURE_MODE_H

#include "driver.h"
#include "status.h"

/* The mode that a thread which is relaxed, or cannot be, is to come back to: what an earlier
 * restore has failed with, else RELAXED. */
__attribute__((cold)) CUstreamCaptureMode vyc__capture_owed(const vyc_driver *driver);
/* A restore has failed: try again, now and later. */
__attribute__((cold)) void vyc__capture_owe(const vyc_driver *driver, CUstreamCaptureMode mode);

/* Another thread may be capturing in global mode: what allocates, frees or queries must not break
 * its capture. Returns the mode to hand to vyc__capture_restore; RELAXED: nothing has changed. */
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
