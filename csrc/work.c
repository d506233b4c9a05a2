/* All the work that was given through a context: whether it has ended, waiting for that with a
 * limit of time, and fences, which are points in it.
 *
 * Nothing here blocks in the driver: streams are asked over and over, and events recorded at the
 * beginning of a long wait, so that work given meanwhile does not prolong it. */
#include <stdlib.h>

#include "plan.h"

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

/* Caller holds children_lock. The first of the lane, those behind it, and those of later plans that
 * may have work, held; a free one has nothing in flight, and one on another stream is found there.
 */
static vyc_lane *hold_busy(vyc_plan *plan, vyc_lane *lane) {
  while (plan != NULL) {
    for (; lane != NULL; lane = lane->next)
      if (lane->stream != NULL &&
          atomic_load_explicit(&lane->state, memory_order_acquire) != LANE_FREE) {
        lane->holders++;
        return lane;
      }
    plan = plan->next_plan;
    lane = plan == NULL ? NULL : atomic_load_explicit(&plan->lanes, memory_order_acquire);
  }
  return NULL;
}

static vyc_lane *hold_first(vyc_plan *plan) {
  return plan == NULL ? NULL
                      : hold_busy(plan, atomic_load_explicit(&plan->lanes, memory_order_acquire));
}

static vyc_status each_lane(vyc_context *context, visitor visit, void *data) {
  vyc_status status = VYC_OK;
  pthread_mutex_lock(&context->children_lock);
  vyc_lane *lane = hold_first(context->plans);
  while (lane != NULL) {
    const CUstream stream = lane->stream;
    pthread_mutex_unlock(&context->children_lock);
    status = visit(context, stream, data);
    pthread_mutex_lock(&context->children_lock);
    vyc_lane *next = status == VYC_OK ? hold_busy(lane->plan, lane->next) : NULL;
    lane->holders--;
    lane = next;
  }
  pthread_mutex_unlock(&context->children_lock);
  return status;
}

static vyc_status each(vyc_context *context, visitor visit, void *data) {
  VYC_TRY(visit(context, context->main, data));
  VYC_TRY(each_stream(context, visit, data));
  return each_lane(context, visit, data);
}

static vyc_status look(vyc_context *context, CUstream stream, void *data) {
  (void)data;
  return vyc__ready(context, context->driver->cuStreamQuery(stream), "cuStreamQuery");
}

/* ---- marks: an event on each stream that has work -------------------------------------------- */

typedef struct marks {
  CUevent *events;
  uint32_t count, room;
} marks;

static void marks_free(vyc_context *context, marks *m) {
  for (uint32_t i = 0; i < m->count; i++) context->driver->cuEventDestroy(m->events[i]);
  free(m->events);
  *m = (marks){0};
}

static vyc_status mark(vyc_context *context, CUstream stream, void *data) {
  marks *m = data;
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

static vyc_status marks_set(vyc_context *context, marks *m, visitor visit) {
  const vyc_status status = each(context, visit, m);
  if (status != VYC_OK) marks_free(context, m);
  return status;
}

static vyc_status marks_wait(vyc_context *context, const marks *m, vyc_pace *pace) {
  for (uint32_t i = 0; i < m->count; i++) VYC_TRY(vyc__event_wait(context, m->events[i], pace));
  return VYC_OK;
}

/* ---- waiting for all of it ------------------------------------------------------------------- */

/* Where there is no memory for marks: work that is given meanwhile is waited for, too. */
static vyc_status look_on(vyc_context *context, vyc_pace *pace) {
  for (;;) {
    VYC_TRY(vyc__pace(context, pace));
    const vyc_status status = each(context, look, NULL);
    if (status != VYC_NOT_READY) return status;
  }
}

/* That there is no memory for marks is not told. Apart, because a record takes much of a stack. */
__attribute__((noinline)) static vyc_status mark_all_busy(vyc_context *context, marks *m) {
  vyc_error failure;
  vyc__error_save(&failure);
  const vyc_status status = marks_set(context, m, mark_busy);
  if (status == VYC_E_MEMORY) vyc__error_restore(&failure);
  return status;
}

static vyc_status wait_for_all(vyc_context *context, int64_t timeout_ns) {
  vyc_status status = each(context, look, NULL);
  if (status != VYC_NOT_READY) return status;
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  while (!vyc__pace_sleeps(&pace)) {
    VYC_TRY(vyc__pace(context, &pace));
    status = each(context, look, NULL);
    if (status != VYC_NOT_READY) return status;
  }
  marks m = {0};
  status = mark_all_busy(context, &m);
  if (status == VYC_E_MEMORY) return look_on(context, &pace);
  VYC_TRY(status);
  status = marks_wait(context, &m, &pace);
  marks_free(context, &m);
  return status;
}

vyc_status vyc__work_wait(vyc_context *context, int64_t timeout_ns) {
  vyc_settling settling;
  vyc__settling_begin(&context->history, &settling);
  const vyc_status status = wait_for_all(context, timeout_ns);
  if (status == VYC_OK) vyc__settling_end(&context->history, &settling);
  return status;
}

/* Work that is given to the stream meanwhile is waited for, too. */
static vyc_status finish_by_looks(vyc_context *context, CUstream stream, vyc_pace *pace) {
  for (;;) {
    const vyc_status status = look(context, stream, NULL);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__pace(context, pace));
  }
}

static vyc_status finish_by_event(vyc_context *context, CUstream stream, vyc_pace *pace) {
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
  return finish_by_event(context, stream, &pace);
}

/* Not waited for: the one who did has given up. */
bool vyc__is_alone(vyc_context *context) {
  for (vyc_context *other = vyc__abandoned(); other != NULL; other = other->next_abandoned)
    if (other->driver->library == context->driver->library && other->device == context->device &&
        !vyc__is_forked(other) && each(other, look, NULL) == VYC_NOT_READY)
      return false;
  return true;
}

vyc_status vyc__own_wait(vyc_context *context, int64_t timeout_ns) {
  VYC_TRY(vyc__work_wait(context, timeout_ns));
  return VYC_UNLIKELY(atomic_load(&context->strays)) ? VYC_NOT_READY
                                                     : VYC_OK; /* and never will be */
}

static int64_t patience(vyc_context *context) {
  return atomic_load_explicit(&context->hung, memory_order_relaxed)
             ? 0
             : atomic_load_explicit(&context->patience_ns, memory_order_relaxed);
}

/* Where the streams could not be asked: events behind all that they were given may be. */
static vyc_status ask_events(vyc_context *context) {
  marks m = {0};
  vyc_pace pace = vyc__pace_begin(patience(context), VYC_SPIN_NS);
  VYC_TRY(marks_set(context, &m, mark));
  const vyc_status status = marks_wait(context, &m, &pace);
  marks_free(context, &m);
  return status;
}

/* A call failed that was to tell: the work may be in flight, and another way may tell. */
static bool is_unknown(vyc_context *context, vyc_status status) {
  return status != VYC_OK && status != VYC_NOT_READY && !atomic_load(&context->lost) &&
         !atomic_load(&context->gone);
}

/* What a wait of a release found. The caller keeps the error record. */
static bool settled(vyc_context *context, vyc_status status) {
  if (atomic_load(&context->lost)) return true;
  if (status == VYC_NOT_READY && !atomic_exchange(&context->hung, true))
    vyc__log(context, VYC_LOG_WARNING, "work has not ended in time: what it uses is not freed");
  return status == VYC_OK;
}

/* The same for all work, of which a wait did or did not tell. */
static bool all_settled(vyc_context *context, vyc_status status) {
  if (is_unknown(context, status)) status = ask_events(context);
  if (is_unknown(context, status)) {
    vyc_pace pace = vyc__pace_begin(patience(context), VYC_SPIN_NS);
    status = look_on(context, &pace);
  }
  return settled(context, status);
}

bool vyc__settle(vyc_context *context) {
  vyc__record_keep();
  const vyc_status status = vyc__own_wait(context, patience(context));
  if (status == VYC_OK) atomic_store(&context->hung, false);
  const bool ended =
      all_settled(context, status) && (atomic_load(&context->lost) || vyc__is_alone(context));
  vyc__record_resume();
  return ended;
}

bool vyc__stream_settle(vyc_context *context, CUstream stream) {
  vyc__record_keep();
  vyc_status status = vyc__stream_finish(context, stream, patience(context));
  if (is_unknown(context, status)) { /* a look or an event failed: one of them may do */
    vyc_pace pace = vyc__pace_begin(patience(context), VYC_SPIN_NS);
    status = finish_by_event(context, stream, &pace);
    if (is_unknown(context, status)) status = finish_by_looks(context, stream, &pace);
  }
  const bool ended = settled(context, status);
  vyc__record_resume();
  return ended;
}

bool vyc__lane_settle(vyc_lane *lane) {
  vyc_context *context = lane->plan->child.context;
  return all_settled(context, vyc__lane_wait(lane, patience(context)));
}

/* ---- what callers see ------------------------------------------------------------------------ */

vyc_status vyc_context_set_patience(vyc_context *context, int64_t patience_ns) {
  VYC_REQUIRE(context != NULL && patience_ns >= 0);
  atomic_store(&context->patience_ns, patience_ns);
  return VYC_OK;
}

vyc_status vyc_context_synchronize_for(vyc_context *context, int64_t timeout_ns) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const uint32_t ended = vyc__reports_ended(context);
  vyc_status status = vyc__work_wait(context, timeout_ns);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK) status = vyc__check_reports(context, ended);
  vyc__leave(context, &scope);
  if (status != VYC_NOT_READY) vyc__holds_reap(context);
  return status;
}

vyc_status vyc_context_synchronize(vyc_context *context) {
  return vyc_context_synchronize_for(context, -1);
}

/* Marks stay where they are: the copy that this wait is made for takes them out. */
vyc_status vyc__slots_finish(vyc_context *context, uint64_t slots, const vyc_far_set *far,
                             int64_t timeout_ns) {
  const uint64_t begin = timeout_ns < 0 ? 0 : vyc__now_ns();
  VYC_EACH_SLOT(slot, slots, far) {
    const uint64_t waited = timeout_ns < 0 ? 0 : vyc__now_ns() - begin;
    int64_t left = timeout_ns;
    if (timeout_ns >= 0) left = waited < (uint64_t)timeout_ns ? timeout_ns - (int64_t)waited : 0;
    VYC_TRY(vyc__slot_finish(context, slot, left));
  }
  return VYC_OK;
}

vyc_status vyc_buffer_synchronize_for(vyc_buffer *buffer, uint32_t host, int64_t timeout_ns) {
  VYC_REQUIRE(buffer != NULL);
  vyc_context *context = buffer->child.context;
  const uint64_t main_bit = UINT64_C(1) << VYC_SLOT_MAIN;
  uint64_t slots = vyc__buffer_marks(buffer);
  slots = host != 0 ? slots | main_bit : slots & ~main_bit;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = vyc__slots_finish(context, slots, &buffer->far, timeout_ns);
  vyc__leave(context, &scope);
  return status;
}

/* ---- fences ---------------------------------------------------------------------------------- */

struct vyc_fence {
  vyc_child child;
  marks marks;
  uint32_t reports_ended;
};

static void fence_destroy(vyc_child *child) {
  marks_free(child->context, &((vyc_fence *)child)->marks);
}

/* Where the driver could not be called any more, the list of marks is there still. */
static void fence_finish(vyc_child *child) {
  free(((vyc_fence *)child)->marks.events);
  free(child);
}

vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context) {
  VYC_REQUIRE(fence_out != NULL && context != NULL);
  *fence_out = NULL;
  vyc_fence *fence = calloc(1, sizeof *fence);
  if (fence == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    fence->reports_ended = vyc__reports_ended(context);
    status = marks_set(context, &fence->marks, mark_busy);
    if (status == VYC_OK) vyc__child_add(&fence->child, context, fence_destroy, fence_finish);
    vyc__leave(context, &scope);
  }
  if (status == VYC_OK)
    *fence_out = fence;
  else
    free(fence);
  return status;
}

vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns) {
  VYC_REQUIRE(fence != NULL);
  vyc_context *context = fence->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  vyc_status status = marks_wait(context, &fence->marks, &pace);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK) status = vyc__check_reports(context, fence->reports_ended);
  vyc__leave(context, &scope);
  return status;
}

void vyc_fence_release(vyc_fence *fence) {
  if (fence != NULL) vyc__child_release(&fence->child);
}
