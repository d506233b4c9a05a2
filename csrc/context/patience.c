/* Waits of releases: at most as long as the context's time limit, before driver calls that would
 * wait for kernels without one. */
#include "room.h"

vyc_status vyc_context_set_patience(vyc_context *context, int64_t patience_ns) {
  VYC_REQUIRE(context != NULL && patience_ns >= 0);
  atomic_store(&context->patience_ns, patience_ns);
  return VYC_OK;
}

int64_t vyc__patience(vyc_context *context) {
  return atomic_load_explicit(&context->hung, memory_order_relaxed)
             ? 0
             : atomic_load_explicit(&context->patience_ns, memory_order_relaxed);
}

/* If the streams cannot be queried, events after all of their work may still work. */
static vyc_status ask_events(vyc_context *context) {
  vyc_work_events m = {0};
  vyc_pace pace = vyc__pace_begin(vyc__patience(context), VYC_SPIN_NS);
  VYC_TRY(vyc__work_events_set_all(context, &m));
  const vyc_status status = vyc__work_events_wait(context, &m, &pace);
  vyc__work_events_free(context, &m);
  return status;
}

/* A query failed: the work may still be in flight, and another kind of query may succeed. */
static bool is_unknown(vyc_context *context, vyc_status status) {
  return status != VYC_OK && status != VYC_NOT_READY && !atomic_load(&context->lost) &&
         !atomic_load(&context->gone);
}

/* The result of a release's wait. The caller keeps the error record. */
static bool has_ended(vyc_context *context, vyc_status status) {
  if (atomic_load(&context->lost)) return true;
  if (status == VYC_NOT_READY && !atomic_exchange(&context->hung, true))
    vyc__log(context, VYC_LOG_WARNING, "work has not ended in time: what it uses is not freed");
  return status == VYC_OK;
}

bool vyc__await_end_after(vyc_context *context, vyc_status status) {
  if (is_unknown(context, status)) status = ask_events(context);
  if (is_unknown(context, status)) {
    vyc_pace pace = vyc__pace_begin(vyc__patience(context), VYC_SPIN_NS);
    status = vyc__work_look_on(context, &pace);
  }
  return has_ended(context, status);
}

bool vyc__await_end(vyc_context *context) {
  vyc__record_keep();
  const vyc_status status = vyc__own_wait(context, vyc__patience(context));
  if (status == VYC_OK) atomic_store(&context->hung, false);
  const bool ended = vyc__await_end_after(context, status) &&
                     (atomic_load(&context->lost) || vyc__is_alone(context));
  vyc__record_resume();
  return ended;
}

bool vyc__stream_await_end(vyc_context *context, CUstream stream) {
  vyc__record_keep();
  vyc_status status = vyc__stream_finish(context, stream, vyc__patience(context));
  if (is_unknown(context, status)) { /* a query or an event failed: the other may work */
    vyc_pace pace = vyc__pace_begin(vyc__patience(context), VYC_SPIN_NS);
    status = vyc__stream_finish_by_event(context, stream, &pace);
    if (is_unknown(context, status)) status = vyc__stream_finish_by_looks(context, stream, &pace);
  }
  const bool ended = has_ended(context, status);
  vyc__record_resume();
  return ended;
}
