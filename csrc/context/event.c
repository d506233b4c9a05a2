/* Events: points in the work of a stream.
 *
 * Making one and destroying it takes the driver longer than recording it. So a few that were
 * released are kept, as children of the context that nobody holds, and recorded anew for whoever
 * asks next: a wait that was given before is still for the record before. */
#include <stdlib.h>

#include "room.h"

/* ---- kept ------------------------------------------------------------------------------------ */

/* Under a gate, so that no close looks meanwhile. */
static vyc_event *take_kept(vyc_context *context) {
  for (uint32_t i = 0; i < VYC_KEPT_EVENTS; i++) {
    if (atomic_load_explicit(&context->kept_events[i], memory_order_relaxed) == NULL) continue;
    vyc_event *event =
        atomic_exchange_explicit(&context->kept_events[i], NULL, memory_order_acquire);
    if (event == NULL) continue;
    vyc__context_retain(context);
    return event;
  }
  return NULL;
}

/* The caller's is the last reference. True: it is not the caller's any more. Only a capture of
 * somebody else can have recorded the event of an adopted stream, so that one is not kept. */
static bool keep(vyc_context *context, vyc_event *event) {
  if (event->is_foreign || !vyc__is_usable(context)) return false;
  for (uint32_t i = 0; i < VYC_KEPT_EVENTS; i++) {
    vyc_event *found = NULL;
    if (!atomic_compare_exchange_strong(&context->kept_events[i], &found, event)) continue;
    if (VYC_LIKELY(!atomic_load(&context->closed))) return true;
    found = event; /* a close has begun: either it finds the event, or it is taken out here */
    return !atomic_compare_exchange_strong(&context->kept_events[i], &found, NULL);
  }
  return false;
}

static void list_remove(vyc_context *context, vyc_event *event) {
  vyc_child *child = &event->child;
  pthread_mutex_lock(&context->children_lock);
  if (child->previous != NULL) child->previous->next = child->next;
  if (child->next != NULL) child->next->previous = child->previous;
  if (context->children == child) context->children = child->next;
  pthread_mutex_unlock(&context->children_lock);
}

uint64_t vyc__events_kept(const vyc_context *context) {
  uint64_t kept = 0;
  for (uint32_t i = 0; i < VYC_KEPT_EVENTS; i++)
    kept += atomic_load_explicit(&context->kept_events[i], memory_order_relaxed) != NULL;
  return kept;
}

void vyc__events_close(vyc_context *context) {
  for (uint32_t i = 0; i < VYC_KEPT_EVENTS; i++) {
    vyc_event *event = atomic_exchange(&context->kept_events[i], NULL);
    if (event == NULL) continue;
    list_remove(context, event);
    context->driver->cuEventDestroy(event->handle);
    free(event);
  }
}

void vyc__events_free(vyc_context *context) {
  for (uint32_t i = 0; i < VYC_KEPT_EVENTS; i++) free(atomic_load(&context->kept_events[i]));
}

/* ---- record and release ---------------------------------------------------------------------- */

static void event_destroy(vyc_child *child) {
  child->context->driver->cuEventDestroy(((vyc_event *)child)->handle);
}

static const vyc_child_kind event_kind = {.destroy = event_destroy};

static vyc_status make(vyc_event **event_out, vyc_context *context) {
  vyc_event *event = calloc(1, sizeof *event);
  if (event == NULL) return vyc__fail(VYC_E_MEMORY, "vyc_stream_record", "out of host memory");
  VYC_CU_RESULT;
  const vyc_status status = VYC_CU(context, cuEventCreate, &event->handle, CU_EVENT_DEFAULT);
  if (status != VYC_OK) {
    free(event);
    return status;
  }
  vyc__count(&context->counters, event_creations, 1);
  vyc__child_add(&event->child, context, &event_kind);
  *event_out = event;
  return VYC_OK;
}

vyc_status vyc__event_take(vyc_event **event_out, vyc_context *context) {
  vyc_event *event = take_kept(context);
  if (event == NULL) VYC_TRY(make(&event, context));
  *event_out = event;
  return VYC_OK;
}

vyc_status vyc__event_record(vyc_event *event, const vyc_launch_stream *on) {
  vyc_context *context = event->child.context;
  /* The stream of call order may also be given as a stream; its events are of call order. */
  event->slot = on->stream == context->main ? VYC_SLOT_MAIN : on->slot;
  event->is_foreign = vyc__is_adopted(on->object);
  VYC_CU_RESULT;
  return VYC_CU(context, cuEventRecord, event->handle, on->stream);
}

static vyc_status record(vyc_stream *stream, vyc_event **event_out, vyc_scope *scope) {
  vyc_context *context = stream->child.context;
  const vyc_launch_stream on = {stream->target, stream, stream->slot, false};
  vyc_event *event = vyc__is_adopted(stream) ? NULL : take_kept(context);
  if (event == NULL) {
    vyc__scope_relax(context, scope);
    VYC_TRY(make(&event, context));
  }
  const vyc_status status = vyc__event_record(event, &on);
  if (VYC_UNLIKELY(status != VYC_OK))
    vyc__child_release(&event->child);
  else
    *event_out = event;
  return status;
}

vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out) {
  VYC_REQUIRE(stream != NULL && event_out != NULL);
  *event_out = NULL;
  vyc_context *context = stream->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter_as_found(context, &scope));
  const vyc_status status = record(stream, event_out, &scope);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_event_try_release(vyc_event *event) {
  if (event == NULL || vyc__child_drop_shared(&event->child)) return VYC_OK;
  vyc_context *context = event->child.context;
  if (VYC_UNLIKELY(vyc__is_last_of_context(context))) return VYC_NOT_READY;
  if (VYC_UNLIKELY(!keep(context, event))) return VYC_NOT_READY;
  vyc__context_release(context);
  return VYC_OK;
}

void vyc_event_release(vyc_event *event) {
  if (vyc_event_try_release(event) != VYC_OK) vyc__child_release(&event->child);
}

/* ---- waiting --------------------------------------------------------------------------------- */

vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event) {
  VYC_REQUIRE(stream != NULL && event != NULL);
  if (VYC_UNLIKELY(stream->child.context != event->child.context))
    return vyc__fail(VYC_E_INVALID, __func__,
                     "the event and the stream belong to different devices: wait for the event on "
                     "the host; a copy between "
                     "the devices is ordered behind the work of both");
  vyc_context *context = stream->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status =
      VYC_CU(context, cuStreamWaitEvent, stream->target, event->handle, CU_EVENT_WAIT_DEFAULT);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_event_synchronize_for(vyc_event *event, int64_t timeout_ns) {
  VYC_REQUIRE(event != NULL);
  vyc_context *context = event->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  vyc__scope_rest(&scope);
  vyc_status status = vyc__event_wait(context, event->handle, &pace);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK) status = vyc__prints_await(context, &pace);
  vyc__scope_go_on(&scope);
  if (status == VYC_OK) status = vyc__check_reports_of(context, event->slot, 0);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_event_synchronize(vyc_event *event) { return vyc_event_synchronize_for(event, -1); }

vyc_status vyc_event_query(vyc_event *event) {
  VYC_REQUIRE(event != NULL);
  vyc_context *context = event->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status =
      vyc__ready(context, context->driver->cuEventQuery(event->handle), "cuEventQuery");
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start) {
  VYC_REQUIRE(stop != NULL && milliseconds_out != NULL && start != NULL);
  if (VYC_UNLIKELY(stop->child.context != start->child.context))
    return vyc__fail(VYC_E_INVALID, __func__,
                     "the two events belong to different devices: measure between events of one");
  vyc_context *context = stop->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status =
      VYC_CU(context, cuEventElapsedTime, milliseconds_out, start->handle, stop->handle);
  vyc__leave(context, &scope);
  return status;
}
