/* Asynchronous launches on device buffers.
 *
 * A kernel's first launch on a stream is a plain cuLaunchKernel; from the second on a one-kernel
 * graph is patched and launched, which costs less than half. */
#include <stdlib.h>
#include <string.h>

#include "fast_path.h"

/* ---- what launches and calls share ----------------------------------------------------------- */

vyc_status vyc__launch_check(const vyc_plan *plan, const vyc_run *run) {
  VYC_TRY(vyc__run_check(plan, run));
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (VYC_UNLIKELY(run->arguments[i].kind != VYC_ARGUMENT_BUFFER))
      return vyc__fail(VYC_E_INVALID, "launch", "argument %u is not device memory", i);
  return VYC_OK;
}

/* What the buffers still have in flight is waited for when the launch is captured: it runs no one
 * knows when, and a capture cannot be ordered behind work outside of it. */
vyc_status vyc__launch_prepare(const vyc_plan *plan, const vyc_run *run, const vyc_place *place) {
  vyc_context *context = plan->child.context;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (VYC_UNLIKELY(place->captured)) {
      atomic_store(&argument->buffer->exported, true); /* to whoever replays the capture */
      VYC_TRY(vyc__buffer_settle(argument->buffer));
    } else {
      VYC_TRY(vyc__buffer_use(argument->buffer, place->stream, place->slot));
    }
    const uint64_t bytes = argument->count * plan->bindings[i].element_bytes;
    if (VYC_UNLIKELY(vyc__needs_clear(plan, i, run)) && bytes > 0)
      VYC_TRY(
          vyc__clear(context, argument->buffer->address + argument->offset, bytes, place->stream));
  }
  return VYC_OK;
}

vyc_status vyc__launch_hidden(vyc_plan *plan, vyc_hidden *hidden_out, const vyc_place *place) {
  VYC_TRY(vyc__report_of(plan, &hidden_out->report, place->slot));
  return vyc__barrier_of(plan, &hidden_out->barrier, place);
}

/* Without an exec. */
static vyc_status launch_apart(vyc_plan *plan, const vyc_run *run, const vyc_hidden *hidden,
                               const vyc_place *place) {
  vyc_spare *spare = vyc__spare_take(plan);
  if (spare == NULL) return VYC_E_MEMORY;
  vyc__block_write_buffers(plan, spare->block, run, hidden);
  if (!place->captured)
    vyc__note_launch(&plan->child.context->history, place->slot, plan->noted, vyc__origin_of(run),
                     spare->block);
  const vyc_status status = vyc__launch_once(plan, spare->pointers, run->grid, place->stream);
  vyc__spare_give(spare);
  return status;
}

vyc_status vyc__launch_captured(vyc_plan *plan, const vyc_run *run, const vyc_place *place) {
  vyc_hidden hidden;
  VYC_TRY(vyc__launch_hidden(plan, &hidden, place));
  VYC_TRY(vyc__barrier_clear(plan->child.context, hidden.barrier, place->stream));
  return launch_apart(plan, run, &hidden, place);
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* The exec of a stream, whose graph is made at the second launch there; NULL when it cannot be had.
 */
static vyc_exec *exec_of(vyc_plan *plan, uint32_t slot) {
  vyc_on_stream *at = slot == VYC_SLOT_OTHER ? NULL : vyc__on_stream_make(plan, slot);
  if (VYC_UNLIKELY(at == NULL)) return NULL;
  vyc_exec *exec = atomic_load_explicit(&at->exec, memory_order_acquire);
  if (VYC_LIKELY(exec != NULL)) return exec;
  const size_t pointers = plan->parameter_count * sizeof(void *);
  exec = calloc(1, sizeof *exec + pointers + plan->block_bytes);
  if (exec == NULL) return NULL;
  void **room = (void **)(void *)(exec + 1);
  vyc__exec_init(exec, plan, room, (uint8_t *)(room + plan->parameter_count));
  vyc_exec *other = NULL;
  if (atomic_compare_exchange_strong(&at->exec, &other, exec)) return exec;
  free(exec);
  return other;
}

/* The caller has claimed it. */
static vyc_status launch_claimed(vyc_exec *exec, vyc_plan *plan, const vyc_run *run,
                                 const vyc_hidden *hidden, const vyc_place *place) {
  exec->stale |= vyc__block_write_buffers(plan, exec->block, run, hidden);
  vyc__exec_set_grid(exec, run->grid);
  vyc__note_launch(&plan->child.context->history, place->slot, plan->noted, vyc__origin_of(run),
                   exec->block);
  if (VYC_LIKELY(exec->launched)) return vyc__exec_relaunch(exec, plan, place->stream);
  exec->launched = true;
  return vyc__launch_once(plan, exec->pointers, run->grid, place->stream);
}

static vyc_status launch_block(vyc_plan *plan, const vyc_run *run, const vyc_place *place) {
  vyc_hidden hidden;
  VYC_TRY(vyc__launch_hidden(plan, &hidden, place));
  VYC_TRY(vyc__barrier_clear(plan->child.context, hidden.barrier, place->stream));
  vyc_exec *exec = exec_of(plan, place->slot);
  if (exec == NULL || !vyc__exec_claim(exec)) return launch_apart(plan, run, &hidden, place);
  const vyc_status status = launch_claimed(exec, plan, run, &hidden, place);
  vyc__exec_unclaim(exec);
  return status;
}

static vyc_status launch(vyc_plan *plan, const vyc_run *run) {
  vyc_place place;
  const uint32_t taken = vyc__marks_taken(plan->child.context);
  VYC_TRY(vyc__launch_check(plan, run));
  VYC_TRY(vyc__place_of(plan->child.context, &place, run->stream));
  VYC_TRY(vyc__launch_prepare(plan, run, &place));
  if (vyc__grid_is_empty(run->grid)) return VYC_OK;
  if (VYC_UNLIKELY(place.captured)) return vyc__launch_captured(plan, run, &place);
  vyc__cooperative_begin(plan);
  const vyc_status status = launch_block(plan, run, &place);
  vyc__cooperative_end(plan);
  return status == VYC_OK
             ? vyc__run_follow(plan->child.context, run, place.stream, place.slot, taken)
             : status;
}

/* ---- the next launch of a kernel on a stream ------------------------------------------------- */

/* The exec that such launches have there, claimed; NULL: they have none, it is taken, or it takes
 * more than a patch and a launch of it. No entry needs to be counted: a close sets `closed` and
 * then looks at the claims, and here the claim comes before the look at `closed`. What needs no
 * claim is looked at before, because the claim is a barrier. */
static inline vyc_exec *claim_plain(vyc_plan *plan, const vyc_run *run, vyc_plain *plain) {
  vyc_context *context = plan->child.context;
  const vyc_stream *stream = run->stream;
  if (stream != NULL && (stream->child.context != context || vyc__is_adopted(stream))) return NULL;
  const uint32_t slot = vyc__slot_of(stream);
  const vyc_on_stream *at = vyc__on_stream(plan, slot);
  if (VYC_UNLIKELY(at == NULL)) return NULL;
  vyc_exec *exec = atomic_load_explicit(&at->exec, memory_order_acquire);
  if (exec == NULL || !plan->relaunches || vyc__is_forked(context) ||
      !vyc__run_is_plain(plan, run, slot, plain) || !vyc__exec_claim(exec))
    return NULL;
  if (VYC_LIKELY(vyc__is_usable(context) && exec->handle != NULL)) return exec;
  vyc__exec_unclaim(exec);
  return NULL;
}

static inline CUresult launch_exec(vyc_exec *exec, vyc_plan *plan, const vyc_run *run) {
  vyc_context *context = plan->child.context;
  const CUstream target = run->stream == NULL ? context->main : run->stream->handle;
  vyc__exec_stamp(exec, context);
  vyc__note_launch(&context->history, vyc__slot_of(run->stream), plan->noted, vyc__origin_of(run),
                   exec->block);
  return context->driver->cuGraphLaunch(exec->handle, target);
}

/* False: the long way is to be taken. */
__attribute__((always_inline)) static inline bool relaunch(vyc_plan *plan, const vyc_run *run,
                                                           vyc_status *status_out) {
  vyc_plain plain;
  const uint32_t taken = vyc__marks_taken(plan->child.context);
  if (VYC_UNLIKELY(run == NULL || run->struct_size < VYC_RUN_BYTES_FIRST)) return false;
  vyc_exec *exec = claim_plain(plan, run, &plain);
  if (exec == NULL) return false;
  exec->stale |= vyc__block_change(plan, exec->block, &plain, run);
  vyc__exec_set_grid(exec, run->grid);
  *status_out = VYC_LIKELY(exec->stale) ? vyc__exec_patch(exec, plan->child.context) : VYC_OK;
  const bool patched = *status_out == VYC_OK;
  const CUresult result = VYC_LIKELY(patched) ? launch_exec(exec, plan, run) : CUDA_SUCCESS;
  vyc__exec_unclaim(exec);
  if (VYC_UNLIKELY(!patched)) return true;
  if (VYC_UNLIKELY(result == CUDA_ERROR_INVALID_CONTEXT)) return false; /* wants it current */
  vyc__count(&plan->child.context->counters, kernel_launches, 1);
  if (VYC_UNLIKELY(result != CUDA_SUCCESS))
    *status_out = vyc__driver_failed(plan->child.context, result, "cuGraphLaunch");
  else if (VYC_UNLIKELY(vyc__marks_taken(plan->child.context) != taken))
    *status_out = vyc__run_mark_late(plan->child.context, run);
  return true;
}

/* Apart: what it keeps in registers is not saved by a launch that does not come here. */
__attribute__((cold, noinline)) static vyc_status launch_at_length(vyc_plan *plan,
                                                                   const vyc_run *run) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(plan->child.context, &scope));
  const vyc_status status = launch(plan, run);
  vyc__leave(plan->child.context, &scope);
  return status;
}

vyc_status vyc_plan_launch(vyc_plan *plan, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL);
  vyc_status status;
  return VYC_LIKELY(relaunch(plan, run, &status)) ? status : launch_at_length(plan, run);
}
