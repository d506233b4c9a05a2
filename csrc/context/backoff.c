/* The pace of every wait: first continuous checks, then checks with growing sleeps in between. */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>

#include "room.h"

#define SLEEP_MAX_US 200u
/* A thread that yields while others want its core gets it back after a slice of theirs, hundreds of
 * microseconds later. The emulator's threads may be the ones that want it; a GPU needs no core, and
 * requests to it often take more than 50 us: these waits yield when a slice is little beside them.
 */
#define YIELD_EMULATOR_NS UINT64_C(50000)
#define YIELD_NS UINT64_C(1000000)

vyc_pace vyc__pace_begin(int64_t timeout_ns, uint64_t spin_ns) {
  return (vyc_pace){vyc__now_ns(), 0, spin_ns, timeout_ns};
}

int64_t vyc__pace_left(const vyc_pace *pace) {
  if (pace->timeout_ns < 0) return pace->timeout_ns;
  const uint64_t waited = vyc__now_ns() - pace->begin_ns;
  return waited < (uint64_t)pace->timeout_ns ? pace->timeout_ns - (int64_t)waited : 0;
}

/* A 64th of the time waited so far, so that a sleep adds little to a wait. The last one ends at the
 * time limit. */
static void sleep_between(const vyc_pace *pace) {
  uint64_t pause_us = pace->waited_ns / 64000;
  if (pause_us < VYC_SLEEP_MIN_US) pause_us = VYC_SLEEP_MIN_US;
  if (pause_us > SLEEP_MAX_US) pause_us = SLEEP_MAX_US;
  if (pace->timeout_ns >= 0) {
    const uint64_t left_us = ((uint64_t)pace->timeout_ns - pace->waited_ns) / 1000 + 1;
    if (left_us < pause_us) pause_us = left_us;
  }
  vyc__sleep_us((uint32_t)pause_us);
}

void vyc__yield_after(const vyc_context *context, uint64_t waited_ns) {
  if (waited_ns > (context->driver->is_emulator ? YIELD_EMULATOR_NS : YIELD_NS)) sched_yield();
}

vyc_status vyc__pace(const vyc_context *context, vyc_pace *pace) {
  const uint64_t before_ns = pace->waited_ns; /* the last check began after it */
  pace->waited_ns = vyc__now_ns() - pace->begin_ns;
  if (pace->timeout_ns >= 0 && pace->waited_ns >= (uint64_t)pace->timeout_ns)
    return before_ns < (uint64_t)pace->timeout_ns ? VYC_OK : VYC_NOT_READY;
  if (!vyc__pace_sleeps(pace)) {
    vyc__yield_after(context, pace->waited_ns);
    return VYC_OK;
  }
  if (atomic_load_explicit(&context->gone, memory_order_relaxed))
    return vyc__fail(VYC_E_UNAVAILABLE, "close",
                     "device %d was closed during the wait: close it only after the last wait",
                     context->caps.ordinal);
  sleep_between(pace);
  return VYC_OK;
}

vyc_status vyc__ready(vyc_context *context, CUresult result, const char *operation) {
  if (result == CUDA_SUCCESS) return VYC_OK;
  if (result == CUDA_ERROR_NOT_READY) return VYC_NOT_READY;
  return vyc__driver_failed(context, result, operation);
}

vyc_status vyc__event_wait(vyc_context *context, CUevent event, vyc_pace *pace) {
  for (;;) {
    const vyc_status status =
        vyc__ready(context, context->driver->cuEventQuery(event), "cuEventQuery");
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(context, pace));
  }
}
