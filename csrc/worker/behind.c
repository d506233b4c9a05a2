/* The order between calls and streams, without a wait of the host.
 *
 * A call whose arrays are in flight on streams goes to the ring like any other, but without its
 * number, so the device does not take it yet. A stream of the worker, `behind`, waits for those
 * streams and then writes the number. That stream serves all calls, in the order in which they came
 * to it; each waits only for what was given to a stream before it, so no two wait for each other.
 *
 * A launch of the worker that comes to such a call waits for it on the device, but not for longer
 * than a busy one stays: that work may need the device's queue in which the launch is, and others
 * may wait for the whole device. It is launched again when the number is there.
 *
 * The other way round a stream waits for the answer of a call. A launch of the worker can end
 * before it has taken that call, and nobody may be there to launch it again; so one more is queued
 * behind it, which ends when the call has been answered.
 *
 * A call with device arrays that its caller leaves, as after Ctrl-C, becomes a launch in call order
 * to all others: the main stream waits for its answer. One that waits until the caller
 * resumes the worker is emptied instead. */
#include "worker.h"

static vyc_status make_behind(vyc_worker *worker) {
  vyc_context *context = worker->child.context;
  VYC_CU_RESULT;
  vyc_status status = VYC_OK;
  CUstream made = NULL;
  vyc__claim_take(&worker->claim);
  if (worker->behind == NULL) {
    status = VYC_CU(context, cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
    if (status == VYC_OK) worker->behind = made; /* threads look at it without the claim */
  }
  vyc__claim_drop(&worker->claim);
  return status;
}

vyc_status vyc__call_behind_main(vyc_worker_call *call) {
  vyc_worker *worker = call->worker;
  VYC_TRY(make_behind(worker));
  call->is_behind = true;
  return vyc__stream_after_main(worker->child.context, worker->behind);
}

vyc_status vyc__call_behind_slots(vyc_worker_call *call, uint64_t slots, const vyc_far_set *far) {
  vyc_worker *worker = call->worker;
  VYC_TRY(make_behind(worker));
  call->is_behind = true;
  VYC_EACH_SLOT(slot, slots, far)
  VYC_TRY(vyc__stream_after_slot(worker->child.context, worker->behind, slot));
  return VYC_OK;
}

vyc_status vyc__call_open_later(const vyc_worker_call *call, uint32_t number) {
  vyc_worker *worker = call->worker;
  vyc_context *context = worker->child.context;
  VYC_CU_RESULT;
  VYC_TRY(vyc__worker_enter(context, call->scope));
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status =
      VYC_CU(context, cuStreamWriteValue32, worker->behind,
             vyc__ring_gate(call->parts[0].ring, number), number, CU_STREAM_WRITE_VALUE_DEFAULT);
  vyc__capture_restore(context->driver, mode);
  return status;
}

vyc_status vyc__behind_ask(const vyc_worker *worker, vyc_scope *scope) {
  vyc_context *context = worker->child.context;
  VYC_TRY(vyc__worker_enter(context, scope));
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status =
      vyc__ready(context, context->driver->cuStreamQuery(worker->behind), "cuStreamQuery");
  vyc__capture_restore(context->driver, mode);
  return status == VYC_OK ? VYC_NOT_READY : status;
}

vyc_status vyc__behind_finish(vyc_worker *worker, int64_t timeout_ns) {
  vyc__claim_take(&worker->claim);
  const CUstream behind = worker->behind;
  vyc__claim_drop(&worker->claim);
  return behind == NULL ? VYC_OK : vyc__stream_finish(worker->child.context, behind, timeout_ns);
}

/* ---- a stream behind calls ------------------------------------------------------------------- */

/* The caller has the claim. VYC_NOT_READY: a driver call waits for the device, and nobody may
 * launch the worker. */
static vyc_status wait_for_ring(const vyc_launch_stream *on, vyc_ring *ring, uint32_t last) {
  vyc_worker *worker = ring->worker;
  vyc_context *context = worker->child.context;
  VYC_CU_RESULT;
  if (vyc__ring_is_answered(ring, last)) return VYC_OK;
  if (atomic_load(&context->worker_pauses) != 0) return VYC_NOT_READY;
  VYC_TRY(vyc__ring_go_until(ring, last));
  worker->awaited |= vyc__slot_bit(on->slot);
  return VYC_CU(context, cuStreamWaitValue32, on->stream, vyc__ring_answer(ring, last), last,
                CU_STREAM_WAIT_VALUE_GEQ);
}

static vyc_status check_resumed(const vyc_ring *ring) {
  if (!vyc__ring_keeps_call(ring)) return VYC_OK;
  return vyc__fail(
      VYC_E_UNAVAILABLE, "worker",
      "the worker is paused, and calls wait for the end of the pause: resume it first");
}

static vyc_status wait_for_rings(const vyc_launch_stream *on, vyc_worker *worker) {
  vyc_status status = VYC_OK;
  vyc__claim_take(&worker->claim);
  for (uint32_t i = 0; status == VYC_OK && i < worker->ring_count; i++) {
    vyc_ring *ring = &worker->rings[i];
    status = check_resumed(ring);
    if (status == VYC_OK) status = wait_for_ring(on, ring, vyc__ring_last(ring));
  }
  vyc__claim_drop(&worker->claim);
  return status;
}

static vyc_status wait_for_worker(vyc_stream *stream, vyc_worker *worker) {
  vyc_context *context = worker->child.context;
  vyc_launch_stream on;
  VYC_TRY(vyc__launch_stream_of(context, &on, stream));
  if (on.captured)
    return vyc__fail(VYC_E_INVALID, "worker",
                     "the stream is being captured and cannot wait: give another one");
  vyc_pace pace = vyc__pace_begin(-1, 0);
  for (;;) {
    const vyc_status status = wait_for_rings(&on, worker);
    if (status != VYC_NOT_READY) return status;
    VYC_TRY(vyc__check_usable(context));
    VYC_TRY(vyc__pace(context, &pace));
  }
}

vyc_status vyc_stream_wait_worker(vyc_stream *stream, vyc_worker *worker) {
  VYC_REQUIRE(stream != NULL && worker != NULL);
  if (VYC_UNLIKELY(stream->child.context != worker->child.context))
    return vyc__fail(
        VYC_E_INVALID, __func__,
        "the worker and the stream belong to different devices: give a stream of the worker's");
  vyc_context *context = worker->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = wait_for_worker(stream, worker);
  vyc__leave(context, &scope);
  return status;
}

/* ---- calls that are left --------------------------------------------------------------------- */

/* The caller has the claim. */
static void withdraw(const vyc_worker_call *call, const worker_part *part) {
  for (uint32_t j = 0; j < call->slot_count; j++)
    if (!vyc__ring_is_answered(part->ring, part->number - j))
      vyc__ring_empty(part->ring, part->number - j);
}

static vyc_status wait_for_parts(const vyc_launch_stream *on, const vyc_worker_call *call) {
  vyc_worker *worker = call->worker;
  vyc_status status = VYC_OK;
  vyc__claim_take(&worker->claim);
  const bool is_paused = atomic_load(&worker->pauses) != 0;
  for (uint32_t i = 0; status == VYC_OK && i < call->part_count; i++) {
    const worker_part *part = &call->parts[i];
    if (is_paused && vyc__ring_keeps_back(part->ring, part->number - call->slot_count + 1))
      withdraw(call, part);
    else
      status = wait_for_ring(on, part->ring, part->number);
  }
  vyc__claim_drop(&worker->claim);
  return status;
}

static vyc_status leave(const vyc_worker_call *call) {
  vyc_context *context = call->worker->child.context;
  const vyc_launch_stream on = {.stream = context->main, .slot = VYC_SLOT_MAIN};
  const uint32_t taken = vyc__marks_taken(context);
  for (uint32_t i = 0; i < call->held_count; i++)
    VYC_TRY(vyc__buffer_use(call->held[i], on.stream, on.slot));
  VYC_TRY(wait_for_parts(&on, call));
  if (vyc__marks_taken(context) == taken) return VYC_OK;
  for (uint32_t i = 0; i < call->held_count; i++)
    VYC_TRY(vyc__buffer_mark_again(call->held[i], on.stream, on.slot));
  return VYC_OK;
}

vyc_status vyc__call_leave(const vyc_worker_call *call) {
  const vyc_driver *driver = call->worker->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  const vyc_status status = leave(call);
  vyc__capture_restore(driver, mode);
  return status;
}
