/* Streams: making and ending them, waiting for them, the order between them. */
#include <stdlib.h>

#include "room.h"

static void give_back(vyc_context *context, const vyc_stream *stream) {
  vyc__depth_close(context, &stream->depth);
  if (stream->scratch != NULL) context->driver->cuEventDestroy(stream->scratch);
  context->driver->cuStreamDestroy(stream->handle);
}

static void stream_destroy(vyc_child *child) {
  vyc_stream *stream = (vyc_stream *)child;
  vyc_context *context = child->context;
  /* The slot is given to another stream; marks of this one must not outlive its work. */
  if (!vyc__stream_await_end(context, stream->handle)) {
    child->has_leaked = true;
    return;
  }
  vyc__slot_reports_end(context, stream->slot);
  vyc__stream_unlist(context, stream);
  give_back(context, stream);
}

/* Looks for abandoned work continue at the stream until here. If its CUcontext was destroyed,
 * `destroy` was not called and it is still listed; in a forked child nobody reads the list. */
static void stream_finish(vyc_child *child) {
  vyc_stream *stream = (vyc_stream *)child;
  if (atomic_load(&child->context->abandoned)) return;
  if (!vyc__is_forked(child->context)) vyc__stream_unlist(child->context, stream);
  free(stream);
}

static void stream_reap(vyc_child *child) {
  vyc_stream *stream = (vyc_stream *)child;
  vyc__stream_unlist(child->context, stream);
  give_back(child->context, stream);
  free(stream);
}

static const vyc_child_kind stream_kind = {
    .destroy = stream_destroy, .finish = stream_finish, .reap = stream_reap};

vyc_status vyc__stream_make(vyc_stream **stream_out, vyc_context *context, CUstream target,
                            CUevent scratch) {
  vyc_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  VYC_CU_RESULT;
  vyc_status status = VYC_CU(context, cuStreamCreate, &stream->handle, CU_STREAM_NON_BLOCKING);
  if (status != VYC_OK) goto fail_stream;
  stream->target = target == NULL ? stream->handle : target;
  status = vyc__stream_claim_slot(context, stream);
  if (status != VYC_OK) goto fail_slot;
  stream->scratch = scratch;
  vyc__child_add(&stream->child, context, &stream_kind);
  vyc__history_stream(&context->history, stream->slot, (uint64_t)(uintptr_t)stream->target);
  vyc__stream_list(context, stream);
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
    atomic_store_explicit(&history->ended[ring], given, memory_order_relaxed);
  return status;
}

vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns) {
  VYC_REQUIRE(stream != NULL);
  vyc_context *context = stream->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const uint32_t ended = vyc__reports_ended(context);
  vyc_pace pace = {.timeout_ns = timeout_ns};
  if (VYC_UNLIKELY(vyc__has_prints(context))) pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  vyc__scope_rest(&scope);
  vyc_status status = finish_in_slot(context, stream->slot, stream->handle, timeout_ns);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (VYC_UNLIKELY(pace.begin_ns != 0) && status == VYC_OK)
    status = vyc__prints_await(context, &pace);
  vyc__scope_go_on(&scope);
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

vyc_status vyc__stream_after_slot(vyc_context *context, CUstream later, uint32_t slot) {
  if (slot == VYC_SLOT_MAIN) return vyc__stream_after_main(context, later);
  vyc_stream *stream = vyc__slot_hold(context, slot);
  if (stream == NULL) return vyc__slot_finish(context, slot, -1);
  const vyc_status status =
      stream->target == later ? VYC_OK : vyc__stream_after(context, later, stream->handle);
  vyc__slot_let_go(stream);
  return status;
}

vyc_status vyc_context_stream(vyc_context *context, uint64_t *handle_out) {
  VYC_REQUIRE(context != NULL && handle_out != NULL);
  VYC_TRY(vyc__check_usable(context));
  *handle_out = (uint64_t)(uintptr_t)context->main;
  return VYC_OK;
}

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
