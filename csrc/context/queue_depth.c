/* How far the device is behind the host. A launch blocks while about a thousand of its stream have
 * not begun (1021 on an H200 with driver 580), and who launches under a lock wants to know before.
 *
 * Two events of a stream take turns: each call looks at the one that was recorded two calls before,
 * and records it anew. So a caller that asks at every 256th launch on a stream hears of a full
 * queue at 768 at the latest, whatever is asked of other streams meanwhile.
 */
#include "room.h"

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
  vyc_depth *depth = stream == NULL ? &context->depth : &stream->depth;
  if (!atomic_exchange(&depth->claimed, true)) { /* else another thread is asking */
    CUevent *event = &depth->events[depth->turn];
    depth->turn ^= 1u;
    status = look_and_mark(context, event, stream == NULL ? context->main : stream->handle);
    atomic_store(&depth->claimed, false);
  }
  vyc__leave(context, &scope);
  return status;
}

void vyc__depth_close(vyc_context *context, const vyc_depth *depth) {
  for (uint32_t i = 0; i < 2; i++)
    if (depth->events[i] != NULL) context->driver->cuEventDestroy(depth->events[i]);
}
