/* The arguments of a call: where the kernel finds them, and what has to end before. */
#include <string.h>

#include "worker.h"

#define CLEAR_MOST (WORKER_ROOM - 1)
#define SLAB_LEAST UINT64_C(16384) /* bytes */

static vyc_status count_slab(const vyc_prepared *prepared, const vyc_run *run,
                             uint64_t *bytes_out) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < run->argument_count; i++) {
    if (!vyc__is_host(&run->arguments[i])) continue;
    const uint64_t bytes = vyc__call_bytes(prepared, run, i);
    all = bytes > VYC_WORKER_CALL_BYTES ? bytes : all + vyc__align_up(bytes, VYC_ALIGN);
    if (all > VYC_WORKER_CALL_BYTES)
      return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                       "kernel %s: a call of a worker takes at most %llu bytes of host arrays: use "
                       "device arrays, or the kernel itself",
                       prepared->name, (unsigned long long)VYC_WORKER_CALL_BYTES);
  }
  *bytes_out = all;
  return VYC_OK;
}

/* An array of the host: it is where the kernel finds it, and its result comes from there. */
static void stage(vyc_worker_call *call, const vyc_run *run, uint32_t i, uint64_t address) {
  const vyc_prepared *prepared = call->prepared;
  const vyc_argument *argument = &run->arguments[i];
  const vyc_binding *binding = &prepared->bindings[i];
  const uint64_t bytes = vyc__call_bytes(prepared, run, i);
  void *at = (void *)(uintptr_t)address;
  call->addresses[i] = address;
  if (bytes == 0) return;
  if (binding->role != VYC_ROLE_OUT)
    memcpy(at, argument->data, bytes);
  else if (vyc__leaves_gaps(prepared, i, run))
    memset(at, (binding->flags & VYC_BINDING_UNSPECIFIED) != 0 ? VYC_UNSPECIFIED_BYTE : 0, bytes);
  if (binding->role != VYC_ROLE_IN)
    call->results[call->result_count++] = (struct worker_result){argument->result, at, bytes};
}

static vyc_status not_begun(const vyc_worker_call *call) {
  return vyc__fail(VYC_E_TIMEOUT, "worker",
                   "kernel %s has not begun: other work on its arrays has not ended in the time "
                   "allowed: allow more, or wait for that first",
                   call->prepared->name);
}

/* The calls of a worker with several blocks wait here, in the thread. The driver's queues serve
 * several streams each: a launch that polls may stand in one before the work that a call waits for,
 * or before the word that opens it. A single block leaves when it comes to such a call; of several,
 * the others may be idle and stay. A test of threads whose calls began behind their streams failed
 * on a GPU that other processes used too. */
static bool waits_here(const vyc_worker_call *call) { return call->worker->ring_count > 1; }

/* Work on a buffer that was submitted before has ended, or the call begins behind it; the main
 * stream is asked once for all. */
static vyc_status wait_or_order(vyc_worker_call *call, vyc_buffer *buffer, int64_t timeout_ns) {
  if (VYC_UNLIKELY(buffer->source != NULL))
    return vyc__fail(
        VYC_E_UNSUPPORTED, "worker",
        "kernel %s: an array of another library is used on a stream of its own: launch the "
        "kernel on it, or copy it",
        call->prepared->name);
  struct worker_take *taken = &call->takes[call->take_count];
  if (VYC_UNLIKELY(vyc__buffer_main_take(buffer, &taken->take))) {
    taken->buffer = buffer;
    call->take_count++;
  }
  const bool comes = atomic_load(&buffer->comers) != 0; /* read first: see vyc__buffer_wait */
  const uint64_t marks = vyc__buffer_marks(buffer) & ~(UINT64_C(1) << VYC_SLOT_MAIN);
  if (VYC_LIKELY(marks == 0 && !comes)) return VYC_OK;
  vyc_context *context = buffer->child.context;
  VYC_TRY(vyc__worker_enter(context, call->scope));
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  /* A thread that is about to mark the buffer does so during this call, so there is no order
   * between the two. */
  const bool waits = comes || waits_here(call);
  vyc_status status = vyc__slots_finish(context, marks, &buffer->far, waits ? timeout_ns : 0);
  if (status == VYC_NOT_READY)
    status = waits ? not_begun(call) : vyc__call_behind_slots(call, marks, &buffer->far);
  else if (status == VYC_OK)
    status = vyc__buffer_wait(buffer);
  vyc__capture_restore(context->driver, mode);
  return status;
}

static vyc_status use_buffer(vyc_worker_call *call, const vyc_run *run, uint32_t i) {
  const vyc_argument *argument = &run->arguments[i];
  const uint64_t bytes = vyc__call_bytes(call->prepared, run, i);
  call->addresses[i] = argument->buffer->address + argument->offset;
  if (bytes == 0) return VYC_OK;
  if (call->worker->ring_count > 1)
    call->ranges[call->range_count++] =
        (worker_range){call->addresses[i], call->addresses[i] + bytes,
                       call->prepared->bindings[i].role != VYC_ROLE_IN};
  if (VYC_UNLIKELY(vyc__needs_clear(call->prepared, i, run))) {
    if (call->worker->clearing == NULL || call->clear_count == CLEAR_MOST)
      return vyc__fail(
          VYC_E_UNSUPPORTED, "worker",
          "kernel %s: the worker cannot clear so many results in device memory: launch the "
          "kernel",
          call->prepared->name);
    call->clears[call->clear_count++] = i;
  }
  return wait_or_order(call, argument->buffer, run->timeout_ns);
}

void vyc__call_main_ended(vyc_worker_call *call) {
  for (uint32_t i = 0; i < call->take_count; i++)
    vyc__buffer_main_ended(call->takes[i].buffer, call->takes[i].take);
  call->take_count = 0;
}

static vyc_status finish_main(vyc_worker_call *call, int64_t timeout_ns) {
  vyc_context *context = call->worker->child.context;
  VYC_TRY(vyc__worker_enter(context, call->scope));
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const bool waits = waits_here(call);
  vyc_status status = vyc__stream_finish(context, context->main, waits ? timeout_ns : 0);
  if (status == VYC_OK)
    vyc__call_main_ended(call);
  else if (status == VYC_NOT_READY)
    status = waits ? not_begun(call) : vyc__call_behind_main(call);
  vyc__capture_restore(context->driver, mode);
  return status;
}

/* Small ones are kept from call to call. */
static vyc_status reserve_slab(vyc_worker_call *call, uint64_t bytes) {
  vyc_context *context = call->worker->child.context;
  if (VYC_LIKELY(call->slab != NULL && call->slab->bytes >= bytes)) return VYC_OK;
  VYC_TRY(vyc__worker_enter(context, call->scope));
  if (call->slab != NULL) vyc__pool_give(context, vyc__pinned_pool(context), call->slab, 0);
  call->slab = NULL;
  return vyc__pool_take(context, vyc__pinned_pool(context), &call->slab,
                        bytes < SLAB_LEAST ? SLAB_LEAST : bytes);
}

static vyc_status place_arguments(vyc_worker_call *call, const vyc_run *run) {
  vyc_context *context = call->worker->child.context;
  uint64_t bytes = 0, staged = 0;
  VYC_TRY(count_slab(call->prepared, run, &bytes));
  if (bytes > 0) VYC_TRY(reserve_slab(call, bytes));
  uint64_t address = bytes > 0 ? call->slab->address : 0;
  for (uint32_t i = 0; i < run->argument_count; i++) {
    if (vyc__is_host(&run->arguments[i])) {
      stage(call, run, i, address);
      const uint64_t own = vyc__call_bytes(call->prepared, run, i);
      if (call->prepared->bindings[i].role != VYC_ROLE_OUT) staged += own;
      address += vyc__align_up(own, VYC_ALIGN);
    } else {
      VYC_TRY(use_buffer(call, run, i));
    }
  }
  if (staged > 0) vyc__count(&context->counters, staged_in_bytes, staged);
  return VYC_LIKELY(call->take_count == 0) ? VYC_OK : finish_main(call, run->timeout_ns);
}

vyc_status vyc__call_prepare(vyc_worker_call *call, uint32_t kernel, const vyc_run *run) {
  call->prepared = call->worker->kernels[kernel];
  call->dropped = call->is_behind = false;
  call->part_count = call->slot_count = 0;
  call->result_count = call->clear_count = call->take_count = call->range_count = 0;
  call->looks = 0;
  const vyc_status status = place_arguments(call, run);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    vyc__call_free(call);
    return status;
  }
  const vyc_hidden hidden = {0, 0};
  vyc__block_write(call->prepared, call->block, call->addresses, run, &hidden);
  const vyc_note note = vyc__note_of(&call->worker->child.context->history, call->prepared->noted,
                                     vyc__origin_of(run));
  vyc__entry_write(&call->flight->entry, note, call->block);
  return VYC_OK;
}
