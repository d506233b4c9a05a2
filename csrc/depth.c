/* How far the device is behind the host. A launch blocks while about a thousand of its stream have
 * not begun (1021 on an H200 with driver 580), and who launches under a lock wants to know before.
 *
 * Two events take turns: each call looks at the one that was recorded two calls before, and records
 * it anew. So a caller that asks at every 256th launch hears of a full queue at 768 at the latest.
 */
#include "plan.h"

static vyc_status look_and_mark(vyc_context *context, CUevent *event, CUstream stream) {
  const vyc_driver *driver = context->driver;
  VYC_CU_RESULT;
  vyc_status behind = VYC_OK;
  if (*event == NULL)
    VYC_TRY(VYC_CU(context, cuEventCreate, event, CU_EVENT_DISABLE_TIMING));
  else
    behind = vyc__ready(context, driver->cuEventQuery(*event), "cuEventQuery");
  if (behind != VYC_OK && behind != VYC_NOT_READY) return behind;
  VYC_TRY(VYC_CU(context, cuEventRecord, *event, stream));
  return behind;
}

vyc_status vyc_context_is_behind(vyc_context *context, vyc_stream *stream) {
  VYC_REQUIRE(context != NULL && (stream == NULL || stream->child.context == context));
  if (stream != NULL && vyc__is_adopted(stream)) return VYC_OK; /* it may be under capture */
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_OK;
  if (!atomic_exchange(&context->depth_claimed, true)) { /* else another thread is asking */
    CUevent *event = &context->depth_events[context->depth_turn];
    context->depth_turn ^= 1u;
    status = look_and_mark(context, event, stream == NULL ? context->main : stream->handle);
    atomic_store(&context->depth_claimed, false);
  }
  vyc__leave(context, &scope);
  return status;
}

void vyc__depth_close(vyc_context *context) {
  for (uint32_t i = 0; i < 2; i++)
    if (context->depth_events[i] != NULL) context->driver->cuEventDestroy(context->depth_events[i]);
}
