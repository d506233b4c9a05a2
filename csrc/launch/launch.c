/* Asynchronous launches on device buffers.
 *
 * The first launch of a kernel on a stream is a plain cuLaunchKernel; from the second on, a
 * one-kernel graph is patched and launched, which costs less than half, unless other threads do the
 * same right now (fast_path.h). */
#include <stdlib.h>
#include <string.h>

#include "fast_path.h"

/* ---- what launches and calls share ----------------------------------------------------------- */

vyc_status vyc__launch_check(const vyc_prepared *prepared, const vyc_run *run) {
  VYC_TRY(vyc__run_check(prepared, run));
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if (VYC_UNLIKELY(run->arguments[i].kind != VYC_ARGUMENT_BUFFER))
      return vyc__fail(VYC_E_INVALID, "launch",
                       "argument %u is not device memory: copy it there, or run the kernel instead",
                       i);
  return VYC_OK;
}

/* If the launch is captured, this waits for all work on the buffers: it is unknown when the launch
 * will run, and a capture cannot be ordered after work outside of it. */
vyc_status vyc__launch_prepare(const vyc_prepared *prepared, const vyc_run *run,
                               const vyc_launch_stream *on) {
  vyc_context *context = prepared->child.context;
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (VYC_UNLIKELY(on->captured)) {
      atomic_store(&argument->buffer->exported, true); /* to those who replay the capture */
      VYC_TRY(vyc__buffer_await_end(argument->buffer));
    } else {
      VYC_TRY(vyc__buffer_use(argument->buffer, on->stream, on->slot));
    }
    const uint64_t bytes = argument->count * prepared->bindings[i].element_bytes;
    if (VYC_UNLIKELY(vyc__needs_clear(prepared, i, run)) && bytes > 0)
      VYC_TRY(vyc__clear(context, argument->buffer->address + argument->offset, bytes, on->stream));
  }
  return VYC_OK;
}

vyc_status vyc__launch_hidden(vyc_prepared *prepared, vyc_hidden *hidden_out,
                              const vyc_launch_stream *on) {
  VYC_TRY(vyc__report_of(prepared, &hidden_out->report, on->slot));
  return vyc__barrier_of(prepared, &hidden_out->barrier, on);
}

/* Without a launch graph. */
static vyc_status launch_apart(vyc_prepared *prepared, const vyc_run *run, const vyc_hidden *hidden,
                               const vyc_launch_stream *on) {
  vyc_spare *spare = vyc__spare_take(prepared);
  if (spare == NULL) return VYC_E_MEMORY;
  vyc__block_write_buffers(prepared, spare->block, run, hidden);
  if (!on->captured)
    vyc__note_launch(&prepared->child.context->history, on->slot, prepared->noted,
                     vyc__origin_of(run), spare->block);
  const vyc_form form = vyc__form_of(prepared, run);
  const vyc_status status = vyc__launch_once(prepared, spare->pointers, &form, on->stream);
  vyc__spare_give(spare);
  return status;
}

vyc_status vyc__launch_captured(vyc_prepared *prepared, const vyc_run *run,
                                const vyc_launch_stream *on) {
  vyc_hidden hidden;
  VYC_TRY(vyc__launch_hidden(prepared, &hidden, on));
  VYC_TRY(vyc__barrier_clear(prepared->child.context, hidden.barrier, on->stream));
  return launch_apart(prepared, run, &hidden, on);
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* The launch graph for a stream, created at the second launch there; NULL if it cannot be created.
 */
static vyc_launch_graph *launch_graph_of(vyc_prepared *prepared, uint32_t slot) {
  vyc_on_stream *at = slot == VYC_SLOT_OTHER ? NULL : vyc__on_stream_make(prepared, slot);
  if (VYC_UNLIKELY(at == NULL)) return NULL;
  vyc_launch_graph *launch_graph = atomic_load_explicit(&at->launch_graph, memory_order_acquire);
  if (VYC_LIKELY(launch_graph != NULL)) return launch_graph;
  const size_t pointers = prepared->parameter_count * sizeof(void *);
  launch_graph = calloc(1, sizeof *launch_graph + pointers + prepared->block_bytes);
  if (launch_graph == NULL) return NULL;
  void **room = (void **)(void *)(launch_graph + 1);
  vyc__launch_graph_init(launch_graph, prepared, room,
                         (uint8_t *)(room + prepared->parameter_count));
  vyc_launch_graph *other = NULL;
  if (atomic_compare_exchange_strong(&at->launch_graph, &other, launch_graph)) return launch_graph;
  free(launch_graph);
  return other;
}

/* The caller has claimed it. */
static vyc_status launch_claimed(vyc_launch_graph *launch_graph, vyc_prepared *prepared,
                                 const vyc_run *run, const vyc_hidden *hidden,
                                 const vyc_launch_stream *on) {
  launch_graph->stale |= vyc__block_write_buffers(prepared, launch_graph->block, run, hidden);
  vyc__launch_graph_set_run(launch_graph, prepared, run);
  vyc__note_launch(&prepared->child.context->history, on->slot, prepared->noted,
                   vyc__origin_of(run), launch_graph->block);
  if (VYC_LIKELY(launch_graph->launched))
    return vyc__launch_graph_relaunch(launch_graph, prepared, on->stream);
  launch_graph->launched = true;
  const vyc_form form = vyc__launch_graph_form(launch_graph);
  return vyc__launch_once(prepared, launch_graph->pointers, &form, on->stream);
}

static vyc_status launch_block(vyc_prepared *prepared, const vyc_run *run,
                               const vyc_launch_stream *on) {
  vyc_hidden hidden;
  VYC_TRY(vyc__launch_hidden(prepared, &hidden, on));
  VYC_TRY(vyc__barrier_clear(prepared->child.context, hidden.barrier, on->stream));
  vyc_launch_graph *launch_graph = launch_graph_of(prepared, on->slot);
  if (launch_graph == NULL || !vyc__launch_graph_claim(launch_graph))
    return launch_apart(prepared, run, &hidden, on);
  const vyc_status status = launch_claimed(launch_graph, prepared, run, &hidden, on);
  vyc__launch_graph_unclaim(launch_graph);
  return status;
}

static vyc_status launch(vyc_prepared *prepared, const vyc_run *run) {
  vyc_launch_stream on;
  const uint32_t taken = vyc__marks_taken(prepared->child.context);
  VYC_TRY(vyc__launch_check(prepared, run));
  VYC_TRY(vyc__launch_stream_of(prepared->child.context, &on, run->stream));
  VYC_TRY(vyc__launch_prepare(prepared, run, &on));
  if (vyc__grid_is_empty(run->grid)) return VYC_OK;
  if (VYC_UNLIKELY(on.captured)) return vyc__launch_captured(prepared, run, &on);
  vyc__cooperative_begin(prepared);
  const vyc_status status = launch_block(prepared, run, &on);
  vyc__cooperative_end(prepared);
  return status == VYC_OK
             ? vyc__run_enqueued(prepared->child.context, run, on.stream, on.slot, taken)
             : status;
}

/* ---- the next launch of a kernel on a stream ------------------------------------------------- */

/* The launch graph for such launches on that stream, claimed; NULL: there is none, it is claimed,
 * or more is needed than to patch and launch it. The thread need not be counted as inside: a close
 * sets `closed` and then reads the claims, and here the claim comes before `closed` is read. What
 * needs no claim is checked first, because the claim is a barrier. */
static inline vyc_launch_graph *claim_plain(vyc_prepared *prepared, const vyc_run *run,
                                            vyc_plain *plain) {
  vyc_context *context = prepared->child.context;
  const vyc_stream *stream = run->stream;
  if (stream != NULL && (stream->child.context != context || vyc__is_adopted(stream))) return NULL;
  const uint32_t slot = vyc__slot_of(stream);
  const vyc_on_stream *at = vyc__on_stream(prepared, slot);
  if (VYC_UNLIKELY(at == NULL)) return NULL;
  vyc_launch_graph *launch_graph = atomic_load_explicit(&at->launch_graph, memory_order_acquire);
  if (launch_graph == NULL || !prepared->relaunches || vyc__is_forked(context) ||
      !vyc__run_is_plain(prepared, run, slot, plain) || !vyc__launch_graph_claim(launch_graph))
    return NULL;
  if (VYC_LIKELY(vyc__is_open(context) && launch_graph->handle != NULL)) return launch_graph;
  vyc__launch_graph_unclaim(launch_graph);
  return NULL;
}

static inline CUresult launch_claimed_graph(vyc_launch_graph *launch_graph, vyc_prepared *prepared,
                                            const vyc_run *run) {
  vyc_context *context = prepared->child.context;
  const CUstream target = run->stream == NULL ? context->main : run->stream->handle;
  vyc__launch_graph_stamp(launch_graph, context);
  vyc__note_launch(&context->history, vyc__slot_of(run->stream), prepared->noted,
                   vyc__origin_of(run), launch_graph->block);
  return context->driver->cuGraphLaunch(launch_graph->handle, target);
}

/* Other threads launch right now. The graph stays stale; its claim ends here. */
__attribute__((noinline)) static vyc_status
launch_without_graph(vyc_launch_graph *launch_graph, vyc_prepared *prepared, const vyc_run *run) {
  vyc_context *context = prepared->child.context;
  const CUstream target = run->stream == NULL ? context->main : run->stream->handle;
  const vyc_form form = vyc__launch_graph_form(launch_graph);
  vyc_scope scope;
  vyc_status status = vyc__enter_warm(context, &scope);
  if (VYC_LIKELY(status == VYC_OK)) {
    vyc__note_launch(&context->history, vyc__slot_of(run->stream), prepared->noted,
                     vyc__origin_of(run), launch_graph->block);
    status = vyc__launch_once(prepared, launch_graph->pointers, &form, target);
    vyc__leave(context, &scope);
  }
  vyc__launch_graph_unclaim(launch_graph);
  return status;
}

/* False: use the slow path. */
__attribute__((always_inline)) static inline bool
relaunch(vyc_prepared *prepared, const vyc_run *run, vyc_status *status_out) {
  vyc_plain plain;
  const uint32_t taken = vyc__marks_taken(prepared->child.context);
  if (VYC_UNLIKELY(run == NULL || run->struct_size < VYC_RUN_BYTES_FIRST)) return false;
  vyc_launch_graph *launch_graph = claim_plain(prepared, run, &plain);
  if (launch_graph == NULL) return false;
  launch_graph->stale |= vyc__block_change(prepared, launch_graph->block, &plain, run);
  vyc__launch_graph_set_run(launch_graph, prepared, run);
  vyc_crowd crowd = {false, false};
  *status_out = VYC_OK;
  if (VYC_LIKELY(launch_graph->stale)) {
    crowd = vyc__crowd_enter(prepared->child.context);
    if (VYC_UNLIKELY(crowd.others)) {
      *status_out = launch_without_graph(launch_graph, prepared, run);
      vyc__crowd_leave(prepared->child.context, crowd);
      if (*status_out == VYC_OK && vyc__marks_taken(prepared->child.context) != taken)
        *status_out = vyc__run_mark_late(prepared->child.context, run);
      return true;
    }
    *status_out = vyc__launch_graph_patch(launch_graph, prepared->child.context);
  }
  const bool patched = *status_out == VYC_OK;
  const CUresult result =
      VYC_LIKELY(patched) ? launch_claimed_graph(launch_graph, prepared, run) : CUDA_SUCCESS;
  vyc__crowd_leave(prepared->child.context, crowd);
  vyc__launch_graph_unclaim(launch_graph);
  if (VYC_UNLIKELY(!patched)) return true;
  if (VYC_UNLIKELY(result == CUDA_ERROR_INVALID_CONTEXT))
    return false; /* the driver needs it current */
  vyc__count(&prepared->child.context->counters, kernel_launches, 1);
  if (VYC_UNLIKELY(result != CUDA_SUCCESS))
    *status_out = vyc__driver_failed(prepared->child.context, result, "cuGraphLaunch");
  else if (VYC_UNLIKELY(vyc__marks_taken(prepared->child.context) != taken))
    *status_out = vyc__run_mark_late(prepared->child.context, run);
  return true;
}

/* A function of its own, so that launches that do not come here save no registers for it. */
__attribute__((cold, noinline)) static vyc_status launch_on_slow_path(vyc_prepared *prepared,
                                                                      const vyc_run *run) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(prepared->child.context, &scope));
  const vyc_status status = launch(prepared, run);
  vyc__leave(prepared->child.context, &scope);
  return status;
}

vyc_status vyc_prepared_launch(vyc_prepared *prepared, const vyc_run *run) {
  VYC_REQUIRE(prepared != NULL);
  vyc_status status;
  return VYC_LIKELY(relaunch(prepared, run, &status)) ? status : launch_on_slow_path(prepared, run);
}
