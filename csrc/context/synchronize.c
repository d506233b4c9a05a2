/* All the work that was given through a context: whether it has ended, and waiting for that with a
 * limit of time.
 *
 * Nothing here blocks in the driver: streams are asked over and over, and events recorded at the
 * beginning of a long wait, so that work given meanwhile does not prolong it. */
#include <stdlib.h>

#include "room.h"

/* ---- streams with work ---------------------------------------------------------------------- */

typedef vyc_status (*visitor)(vyc_context *context, CUstream stream, void *data);

/* Visits are made without a lock: what is visited is held meanwhile, and stays in its list. */
static vyc_stream *hold_stream(vyc_stream *stream) {
  if (stream != NULL) atomic_fetch_add(&stream->holders, 1);
  return stream;
}

static vyc_status each_stream(vyc_context *context, visitor visit, void *data) {
  vyc_status status = VYC_OK;
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = hold_stream(context->streams);
  while (stream != NULL) {
    pthread_mutex_unlock(&context->slots_lock);
    status = visit(context, stream->handle, data);
    pthread_mutex_lock(&context->slots_lock);
    vyc_stream *next = status == VYC_OK ? hold_stream(stream->next) : NULL;
    vyc__slot_let_go(stream);
    stream = next;
  }
  pthread_mutex_unlock(&context->slots_lock);
  return status;
}

/* Caller holds slots_lock. The first from this one on that may have work, held: without a run there
 * is none in flight, and a run on another stream is found there. */
static vyc_hidden_stream *hold_busy(vyc_hidden_stream *stream) {
  while (stream != NULL && atomic_load_explicit(stream->state, memory_order_acquire) == 0)
    stream = stream->next;
  if (stream != NULL) stream->holders++;
  return stream;
}

static vyc_status each_hidden(vyc_context *context, visitor visit, void *data) {
  vyc_status status = VYC_OK;
  pthread_mutex_lock(&context->slots_lock);
  vyc_hidden_stream *stream = hold_busy(context->hidden_streams);
  while (stream != NULL) {
    pthread_mutex_unlock(&context->slots_lock);
    status = visit(context, stream->handle, data);
    pthread_mutex_lock(&context->slots_lock);
    vyc_hidden_stream *next = status == VYC_OK ? hold_busy(stream->next) : NULL;
    stream->holders--;
    stream = next;
  }
  pthread_mutex_unlock(&context->slots_lock);
  return status;
}

/* Caller holds slots_lock. The first from this one on whose end the driver has not noticed, held.
 */
static vyc_hidden_stream *hold_unnoticed(vyc_hidden_stream *stream) {
  while (stream != NULL && !atomic_load_explicit(&stream->unnoticed, memory_order_relaxed))
    stream = stream->next;
  if (stream != NULL) stream->holders++;
  return stream;
}

/* True if the driver has noticed now that nothing is in flight there. */
static bool notice_end(vyc_context *context, vyc_hidden_stream *stream) {
  if (atomic_load_explicit(stream->state, memory_order_acquire) != 0) return false;
  atomic_store_explicit(&stream->unnoticed, false, memory_order_relaxed);
  if (context->driver->cuStreamQuery(stream->handle) == CUDA_SUCCESS) return true;
  atomic_store_explicit(&stream->unnoticed, true, memory_order_relaxed);
  return false;
}

/* The driver notices that work has ended when its stream is queried. Until then each query of
 * another stream takes 1.1 us longer (H200). A stream that a race hides is left until after the
 * next run. */
static void notice_ends(vyc_context *context) {
  if (VYC_LIKELY(!atomic_load_explicit(&context->unnoticed, memory_order_relaxed))) return;
  atomic_store_explicit(&context->unnoticed, false, memory_order_relaxed);
  bool all = true;
  pthread_mutex_lock(&context->slots_lock);
  vyc_hidden_stream *stream = hold_unnoticed(context->hidden_streams);
  while (stream != NULL) {
    pthread_mutex_unlock(&context->slots_lock);
    all &= notice_end(context, stream);
    pthread_mutex_lock(&context->slots_lock);
    vyc_hidden_stream *next = hold_unnoticed(stream->next);
    stream->holders--;
    stream = next;
  }
  pthread_mutex_unlock(&context->slots_lock);
  if (!all) atomic_store_explicit(&context->unnoticed, true, memory_order_relaxed);
}

static vyc_status each(vyc_context *context, visitor visit, void *data) {
  VYC_TRY(visit(context, context->main, data));
  VYC_TRY(each_stream(context, visit, data));
  return each_hidden(context, visit, data);
}

static vyc_status look(vyc_context *context, CUstream stream, void *data) {
  (void)data;
  return vyc__ready(context, context->driver->cuStreamQuery(stream), "cuStreamQuery");
}

/* ---- an event on each stream that has work --------------------------------------------------- */

void vyc__work_events_free(vyc_context *context, vyc_work_events *m) {
  for (uint32_t i = 0; i < m->count; i++) context->driver->cuEventDestroy(m->events[i]);
  free(m->events);
  *m = (vyc_work_events){0};
}

static vyc_status mark(vyc_context *context, CUstream stream, void *data) {
  vyc_work_events *m = data;
  if (m->count == m->room) {
    const uint32_t room = m->room * 2 + 4;
    CUevent *events = realloc(m->events, room * sizeof *events);
    if (events == NULL) return vyc__fail(VYC_E_MEMORY, "fence", "out of host memory");
    m->events = events;
    m->room = room;
  }
  CUevent event = NULL;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
  m->events[m->count++] = event;
  return VYC_CU(context, cuEventRecord, event, stream);
}

static vyc_status mark_busy(vyc_context *context, CUstream stream, void *data) {
  const vyc_status status = look(context, stream, NULL);
  return status == VYC_NOT_READY ? mark(context, stream, data) : status;
}

static vyc_status set_events(vyc_context *context, vyc_work_events *m, visitor visit) {
  const vyc_status status = each(context, visit, m);
  if (status != VYC_OK) vyc__work_events_free(context, m);
  return status;
}

vyc_status vyc__work_events_set(vyc_context *context, vyc_work_events *m) {
  return set_events(context, m, mark_busy);
}

vyc_status vyc__work_events_set_all(vyc_context *context, vyc_work_events *m) {
  return set_events(context, m, mark);
}

vyc_status vyc__work_events_wait(vyc_context *context, const vyc_work_events *m, vyc_pace *pace) {
  for (uint32_t i = 0; i < m->count; i++) VYC_TRY(vyc__event_wait(context, m->events[i], pace));
  return VYC_OK;
}

/* ---- waiting for all of it ------------------------------------------------------------------- */

vyc_status vyc__work_look_on(vyc_context *context, vyc_pace *pace) {
  for (;;) {
    VYC_TRY(vyc__pace(context, pace));
    const vyc_status status = each(context, look, NULL);
    if (status != VYC_NOT_READY) return status;
  }
}

vyc_status vyc__work_look(vyc_context *context) { return each(context, look, NULL); }

/* A lack of memory for the events is not reported, because looks do without them. Not inlined,
 * because an error record takes much of the stack. */
__attribute__((noinline)) static vyc_status mark_all_busy(vyc_context *context,
                                                          vyc_work_events *m) {
  vyc_error failure;
  vyc__error_save(&failure);
  const vyc_status status = vyc__work_events_set(context, m);
  if (status == VYC_E_MEMORY) vyc__error_restore(&failure);
  return status;
}

static vyc_status wait_for_all(vyc_context *context, int64_t timeout_ns) {
  notice_ends(context);
  vyc_status status = each(context, look, NULL);
  if (status != VYC_NOT_READY) return status;
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  while (!vyc__pace_sleeps(&pace)) {
    VYC_TRY(vyc__pace(context, &pace));
    status = each(context, look, NULL);
    if (status != VYC_NOT_READY) return status;
  }
  vyc_work_events m = {0};
  status = mark_all_busy(context, &m);
  if (status == VYC_E_MEMORY) return vyc__work_look_on(context, &pace);
  VYC_TRY(status);
  status = vyc__work_events_wait(context, &m, &pace);
  vyc__work_events_free(context, &m);
  return status;
}

vyc_status vyc__work_wait(vyc_context *context, int64_t timeout_ns) {
  vyc_progress progress;
  vyc__progress_begin(&context->history, &progress);
  const vyc_status status = wait_for_all(context, timeout_ns);
  if (status == VYC_OK) vyc__progress_end(&context->history, &progress);
  return status;
}

vyc_status vyc__stream_finish_by_looks(vyc_context *context, CUstream stream, vyc_pace *pace) {
  for (;;) {
    const vyc_status status = look(context, stream, NULL);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(context, pace));
  }
}

vyc_status vyc__stream_finish_by_event(vyc_context *context, CUstream stream, vyc_pace *pace) {
  CUevent event = NULL;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
  vyc_status status = VYC_CU(context, cuEventRecord, event, stream);
  if (status == VYC_OK) status = vyc__event_wait(context, event, pace);
  context->driver->cuEventDestroy(event);
  return status;
}

vyc_status vyc__stream_finish(vyc_context *context, CUstream stream, int64_t timeout_ns) {
  vyc_status status = look(context, stream, NULL);
  if (status != VYC_NOT_READY) return status;
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  while (!vyc__pace_sleeps(&pace)) {
    VYC_TRY(vyc__pace(context, &pace));
    status = look(context, stream, NULL);
    if (status != VYC_NOT_READY) return status;
  }
  return vyc__stream_finish_by_event(context, stream, &pace);
}

vyc_status vyc__own_wait(vyc_context *context, int64_t timeout_ns) {
  VYC_TRY(vyc__work_wait(context, timeout_ns));
  return VYC_UNLIKELY(atomic_load(&context->strays)) ? VYC_NOT_READY
                                                     : VYC_OK; /* and never will be */
}

vyc_status vyc__prints_await(vyc_context *context, const vyc_pace *pace) {
  if (VYC_LIKELY(!vyc__has_prints(context))) return VYC_OK;
  return vyc__stream_finish(context, context->main, vyc__pace_left(pace));
}

/* ---- what callers see ------------------------------------------------------------------------ */

vyc_status vyc__workers_await(vyc_context *context, int64_t *timeout_ns) {
  if (VYC_LIKELY(atomic_load(&context->worker_count) == 0)) return VYC_OK;
  const vyc_pace pace = vyc__pace_begin(*timeout_ns, 0);
  const vyc_status status = context->above->workers_finish(context, *timeout_ns);
  *timeout_ns = vyc__pace_left(&pace);
  return status;
}

vyc_status vyc_context_synchronize_for(vyc_context *context, int64_t timeout_ns) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const uint32_t ended = vyc__reports_ended(context);
  vyc_status status = vyc__workers_await(context, &timeout_ns);
  vyc__scope_rest(&scope);
  if (status == VYC_OK) status = vyc__work_wait(context, timeout_ns);
  vyc__scope_go_on(&scope);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK) status = vyc__check_reports(context, ended);
  vyc__leave(context, &scope);
  if (status != VYC_NOT_READY) vyc__holds_reap(context);
  return status;
}

vyc_status vyc_context_synchronize(vyc_context *context) {
  return vyc_context_synchronize_for(context, -1);
}
