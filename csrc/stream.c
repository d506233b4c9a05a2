/* Streams. A context numbers its streams (slots.h), so that a buffer can keep which of
 * them have work on it. Where no number is left, after four billion streams or beside VYC_SLOTS
 * others, a stream shares VYC_SLOT_OTHER, and is waited for with all that is there. */
#include <stdlib.h>

#include "internal.h"

/* ---- streams -------------------------------------------------------------------------------- */

static void list_add(vyc_context *context, vyc_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  stream->next = context->streams;
  if (stream->next != NULL) stream->next->previous = stream;
  context->streams = stream;
  stream->listed = true;
  pthread_mutex_unlock(&context->slots_lock);
}

/* Caller holds slots_lock. */
static vyc_stream *stream_in(vyc_context *context, uint32_t slot) {
  if (slot < VYC_NEAR_SLOTS) return context->slots[slot];
  const vyc_far_slot *far = vyc__far_entry(&context->far_slots, slot, sizeof *far);
  return far == NULL ? NULL : far->stream;
}

/* Caller holds slots_lock. */
static void empty_slot(vyc_context *context, uint32_t slot) {
  if (slot == VYC_SLOT_OTHER) return;
  if (slot < VYC_NEAR_SLOTS)
    context->slots[slot] = NULL;
  else
    ((vyc_far_slot *)vyc__far_entry(&context->far_slots, slot, sizeof(vyc_far_slot)))->stream =
        NULL;
}

/* From here on nobody looks for work on it, and another stream may have its slot. Its work has
 * ended, so that holders wait for nothing. Nothing when it was removed before. */
static void list_remove(vyc_context *context, vyc_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  while (atomic_load(&stream->holders) != 0) { /* none comes but under the lock */
    pthread_mutex_unlock(&context->slots_lock);
    vyc__sleep_us(20);
    pthread_mutex_lock(&context->slots_lock);
  }
  if (stream->listed) {
    empty_slot(context, stream->slot);
    if (stream->previous != NULL) stream->previous->next = stream->next;
    if (stream->next != NULL) stream->next->previous = stream->previous;
    if (context->streams == stream) context->streams = stream->next;
    stream->listed = false;
  }
  pthread_mutex_unlock(&context->slots_lock);
}

static void give_back(vyc_context *context, const vyc_stream *stream) {
  vyc__depth_close(context, &stream->depth);
  if (stream->scratch != NULL) context->driver->cuEventDestroy(stream->scratch);
  context->driver->cuStreamDestroy(stream->handle);
}

static void stream_destroy(vyc_child *child) {
  vyc_stream *stream = (vyc_stream *)child;
  vyc_context *context = child->context;
  /* The slot is given to another stream; marks of this one must not outlive its work. */
  if (!vyc__stream_settle(context, stream->handle)) {
    pthread_mutex_lock(&context->slots_lock);
    stream->leaked = true;
    pthread_mutex_unlock(&context->slots_lock);
    child->finish = vyc__child_leak;
    return;
  }
  vyc__slot_reports_end(context, stream->slot);
  list_remove(context, stream);
  give_back(context, stream);
}

/* What looks for abandoned work goes on looking at the stream. One whose CUcontext was destroyed
 * was not destroyed itself, and is listed still; of a forked child nobody reads the list. */
static void stream_finish(vyc_child *child) {
  vyc_stream *stream = (vyc_stream *)child;
  if (atomic_load(&child->context->abandoned)) return;
  if (!vyc__is_forked(child->context)) list_remove(child->context, stream);
  free(stream);
}

void vyc__streams_count(vyc_context *context, uint64_t *all_out, uint64_t *adopted_out) {
  *all_out = *adopted_out = 0;
  pthread_mutex_lock(&context->slots_lock);
  for (const vyc_stream *stream = context->streams; stream != NULL; stream = stream->next) {
    ++*all_out;
    *adopted_out += vyc__is_adopted(stream);
  }
  pthread_mutex_unlock(&context->slots_lock);
}

static vyc_stream *leaked_stream(vyc_context *context) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = context->streams;
  while (stream != NULL && !stream->leaked) stream = stream->next;
  pthread_mutex_unlock(&context->slots_lock);
  return stream;
}

void vyc__streams_reap(vyc_context *context) {
  for (vyc_stream *stream = leaked_stream(context); stream != NULL;
       stream = leaked_stream(context)) {
    list_remove(context, stream);
    give_back(context, stream);
    free(stream);
  }
}

/* Caller holds slots_lock. The epoch of a stream that begins in a slot. */
static uint32_t begin_epoch(vyc_context *context, bool was_begun) {
  const uint32_t epoch = atomic_load_explicit(&context->epoch, memory_order_relaxed);
  if (!was_begun) return 0;
  atomic_store(&context->epoch, epoch + 1);
  return epoch + 1;
}

/* Caller holds slots_lock. */
static uint32_t claim_near(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_MAIN + 1;
  while (slot < VYC_NEAR_SLOTS && context->slots[slot] != NULL) slot++;
  if (slot == VYC_NEAR_SLOTS) return VYC_SLOT_NONE;
  const uint64_t bit = UINT64_C(1) << slot;
  context->slots[slot] = stream;
  context->epochs[slot] = begin_epoch(context, (context->begun & bit) != 0);
  context->begun |= bit;
  return slot;
}

/* Caller holds slots_lock. VYC_SLOT_NONE: there is no memory to keep it in. */
static uint32_t claim_far(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_OTHER + 1;
  while (slot < VYC_SLOTS && stream_in(context, slot) != NULL) slot++;
  if (slot == VYC_SLOTS) return VYC_SLOT_OTHER;
  vyc_far_slot *far = vyc__far_entry_make(&context->far_slots, slot, sizeof *far);
  if (far == NULL) return VYC_SLOT_NONE;
  far->stream = stream;
  far->epoch = begin_epoch(context, far->begun);
  far->begun = true;
  return slot;
}

static vyc_status claim_slot(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_OTHER;
  pthread_mutex_lock(&context->slots_lock);
  if (VYC_LIKELY(atomic_load_explicit(&context->epoch, memory_order_relaxed) != UINT32_MAX)) {
    slot = claim_near(context, stream);
    if (slot == VYC_SLOT_NONE) slot = claim_far(context, stream);
  }
  pthread_mutex_unlock(&context->slots_lock);
  if (slot == VYC_SLOT_NONE) return vyc__fail(VYC_E_MEMORY, "streams", "out of host memory");
  stream->slot = slot;
  return VYC_OK;
}

/* Caller holds slots_lock. False: it is on its way out. */
static bool try_retain(vyc_stream *stream) {
  uint32_t references = atomic_load_explicit(&stream->child.references, memory_order_relaxed);
  while (references != 0 &&
         !atomic_compare_exchange_weak(&stream->child.references, &references, references + 1)) {
  }
  return references != 0;
}

vyc_stream *vyc__slot_hold(vyc_context *context, uint32_t slot) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = stream_in(context, slot);
  if (stream != NULL) atomic_fetch_add(&stream->holders, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return stream;
}

void vyc__slot_let_go(vyc_stream *stream) {
  if (stream != NULL) atomic_fetch_sub(&stream->holders, 1);
}

vyc_stream *vyc__stream_known(vyc_context *context, CUstream target, const vyc_stream *newest) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = context->streams;
  while (stream != NULL && stream->next != NULL) stream = stream->next; /* the oldest */
  while (stream != NULL && stream != newest && (stream->target != target || !try_retain(stream)))
    stream = stream->previous;
  pthread_mutex_unlock(&context->slots_lock);
  return stream == newest ? NULL : stream;
}

vyc_status vyc__stream_make(vyc_stream **stream_out, vyc_context *context, CUstream target,
                            CUevent scratch) {
  vyc_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  VYC_CU_RESULT;
  vyc_status status = VYC_CU(context, cuStreamCreate, &stream->handle, CU_STREAM_NON_BLOCKING);
  if (status != VYC_OK) goto fail_stream;
  stream->target = target == NULL ? stream->handle : target;
  status = claim_slot(context, stream);
  if (status != VYC_OK) goto fail_slot;
  stream->scratch = scratch;
  vyc__child_add(&stream->child, context, stream_destroy, stream_finish);
  vyc__history_stream(&context->history, stream->slot, (uint64_t)(uintptr_t)stream->target);
  list_add(context, stream);
  *stream_out = stream;
  return VYC_OK;

fail_slot:
  context->driver->cuStreamDestroy(stream->handle);
fail_stream:
  free(stream);
  return status;
}

vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context) {
  VYC_REQUIRE(stream_out != NULL && context != NULL);
  *stream_out = NULL;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = vyc__stream_make(stream_out, context, NULL, NULL);
  vyc__leave(context, &scope);
  return status;
}

void vyc_stream_release(vyc_stream *stream) {
  if (stream != NULL) vyc__child_release(&stream->child);
}

/* What far streams share says nothing about any of them. */
static vyc_status finish_in_slot(vyc_context *context, uint32_t slot, CUstream stream,
                                 int64_t timeout_ns) {
  vyc_history *history = &context->history;
  const uint32_t ring = vyc__ring(slot);
  const uint32_t given = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
  const vyc_status status = vyc__stream_finish(context, stream, timeout_ns);
  if (status == VYC_OK && ring != VYC_RING_FAR)
    atomic_store_explicit(&history->settled[ring], given, memory_order_relaxed);
  return status;
}

vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns) {
  VYC_REQUIRE(stream != NULL);
  vyc_context *context = stream->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const uint32_t ended = vyc__reports_ended(context);
  vyc_status status = finish_in_slot(context, stream->slot, stream->handle, timeout_ns);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK)
    status =
        vyc__check_reports_of(context, stream->slot, stream->slot == VYC_SLOT_OTHER ? 0 : ended);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_stream_synchronize(vyc_stream *stream) {
  return vyc_stream_synchronize_for(stream, -1);
}

vyc_status vyc_stream_query(vyc_stream *stream) {
  VYC_REQUIRE(stream != NULL);
  vyc_context *context = stream->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status =
      vyc__ready(context, context->driver->cuStreamQuery(stream->handle), "cuStreamQuery");
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out) {
  VYC_REQUIRE(stream != NULL && handle_out != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(stream->child.context, &scope));
  vyc__leave(stream->child.context, &scope);
  *handle_out = (uint64_t)(uintptr_t)stream->target;
  return VYC_OK;
}

vyc_status vyc__stream_of(vyc_context *context, CUstream *handle_out, uint32_t *slot_out,
                          vyc_stream *stream) {
  vyc_place place;
  VYC_TRY(vyc__place_of(context, &place, stream));
  if (place.captured)
    return vyc__fail(VYC_E_INVALID, "stream",
                     "the stream is being captured: a call with host arguments cannot be");
  *handle_out = place.stream;
  *slot_out = place.slot;
  return VYC_OK;
}

vyc_status vyc__stream_after(vyc_context *context, CUstream later, CUstream earlier) {
  if (later == earlier) return VYC_OK;
  CUevent event = NULL;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
  vyc_status status = VYC_CU(context, cuEventRecord, event, earlier);
  if (status == VYC_OK)
    status = VYC_CU(context, cuStreamWaitEvent, later, event, CU_EVENT_WAIT_DEFAULT);
  context->driver->cuEventDestroy(event);
  return status;
}

vyc_status vyc__stream_after_main(vyc_context *context, CUstream stream) {
  return vyc__stream_after(context, stream, context->main);
}

vyc_status vyc__slot_finish(vyc_context *context, uint32_t slot, int64_t timeout_ns) {
  if (slot == VYC_SLOT_MAIN) return finish_in_slot(context, slot, context->main, timeout_ns);
  vyc_stream *stream = vyc__slot_hold(context, slot);
  if (stream == NULL) /* it has ended its work, or is one of those without a number */
    return slot == VYC_SLOT_OTHER ? vyc__work_wait(context, timeout_ns) : VYC_OK;
  const vyc_status status = finish_in_slot(context, slot, stream->handle, timeout_ns);
  vyc__slot_let_go(stream);
  return status;
}
