/* A replay on a stream that others are capturing: its nodes become part of the captured graph, with
 * the values of this replay, its branches and its loops.
 *
 * They are made as the nodes of a second recorded graph, which holds what they use as long as
 * anything can launch them (context/captured_hold.c), and which has counters, barriers and other
 * memory of its own (own.c): it is unknown when they run, and nothing outside of the captured graph
 * can be ordered with them. */
#include <stdlib.h>

#include "graph.h"

/* ---- the second graph ------------------------------------------------------------------------ */

static vyc_status copy_transfer(vyc_graph *copy, const vyc_graph *graph,
                                const vyc_graph_transfer *of) {
  vyc_graph_transfer transfer = *of;
  transfer.to = vyc__own_instead(copy, graph, of->to);
  transfer.from = vyc__own_instead(copy, graph, of->from);
  return vyc__add_values(copy, NULL, STEP_TRANSFER, NULL, NULL, &transfer, NULL);
}

static void set_argument(vyc_argument *argument, const vyc_argument *fresh, vyc_buffer *buffer) {
  vyc_buffer *before = argument->buffer;
  *argument = *fresh;
  argument->buffer = buffer;
  if (buffer == before) return;
  vyc__child_retain(&buffer->child);
  vyc_buffer_release(before);
}

static vyc_status copy_launch(vyc_graph *copy, const vyc_graph *graph, const vyc_step *step,
                              const vyc_run *run) {
  uint32_t number = 0;
  VYC_TRY(vyc__add_values(copy, &number, STEP_LAUNCH, step->prepared, run, NULL, step->rows));
  vyc_step *made = &copy->steps[number];
  for (uint32_t i = 0; i < step->prepared->binding_count; i++) {
    vyc_argument *argument = &made->base->arguments[i];
    const vyc_argument now = *argument;
    set_argument(argument, &now, vyc__own_instead(copy, graph, now.buffer));
  }
  vyc__values_refresh(made, made->base);
  return VYC_OK;
}

/* The arrays of this launch in the places that rows of the last step have for some. */
static void copy_places(const vyc_graph *copy, const vyc_graph *graph, const vyc_step *step,
                        const vyc_run *run) {
  const vyc_step *made = &copy->steps[copy->step_count - 1];
  const vyc_argument *arguments = vyc__rows_arguments(step, run);
  for (uint32_t i = 1; i < step->prepared->binding_count; i++)
    set_argument(&made->base->arguments[i], &arguments[i - 1],
                 vyc__own_instead(copy, graph, arguments[i - 1].buffer));
  vyc__values_refresh(made, made->base);
}

/* With a table of the memory that stands for that of the graph alone. */
static vyc_status copy_rows(vyc_graph *copy, const vyc_graph *graph, const vyc_step *step,
                            const vyc_run *run) {
  vyc_own_rows *moved = NULL;
  vyc_status status = vyc__own_rows_move(copy, graph, &moved, step->rows->own);
  if (status == VYC_OK) status = vyc__add_table(copy, step->prepared, moved);
  if (status == VYC_OK) copy_places(copy, graph, step, run);
  vyc__own_rows_drop(moved);
  return status;
}

/* With the table of the step. */
static vyc_status copy_table(vyc_graph *copy, const vyc_graph *graph, const vyc_step *step,
                             const vyc_run *run) {
  VYC_TRY(copy_launch(copy, graph, step, &step->base->run));
  copy_places(copy, graph, step, run);
  return VYC_OK;
}

static vyc_status copy_values(vyc_graph *copy, const vyc_graph *graph, const vyc_step *step,
                              const vyc_graph_change *change) {
  const vyc_values *base = step->base;
  if (step->kind == STEP_TRANSFER)
    return copy_transfer(copy, graph, change == NULL ? &base->transfer : change->transfer);
  const vyc_run *run = change == NULL ? &base->run : change->run;
  if (step->rows != NULL && step->rows->own != NULL) return copy_rows(copy, graph, step, run);
  return step->rows != NULL ? copy_table(copy, graph, step, run)
                            : copy_launch(copy, graph, step, run);
}

static vyc_status copy_repeat(vyc_graph *copy, const vyc_graph *graph, const vyc_step *step) {
  uint32_t number = 0;
  const uint64_t offset = step->until == NULL ? 0 : step->until_address - step->until->address;
  vyc_buffer *until = vyc__own_instead(copy, graph, step->until);
  VYC_TRY(vyc__add_repeat(copy, &number, step->times, until, offset, step->until_bytes));
  copy->steps[number].end = step->end;
  return VYC_OK;
}

static vyc_status copy_steps(vyc_graph *copy, const vyc_graph *graph,
                             const vyc_graph_change *changes, uint32_t count) {
  VYC_TRY(vyc__own_copy(copy, graph));
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    const vyc_graph_change *change = count > 0 && changes->step == i ? changes : NULL;
    VYC_TRY(step->kind == STEP_REPEAT ? copy_repeat(copy, graph, step)
                                      : copy_values(copy, graph, step, change));
    if (change == NULL) continue;
    changes++;
    count--;
  }
  return VYC_OK;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Wait for all work on a buffer, as in vyc__launch_prepare. */
static vyc_status await_buffer(vyc_buffer *buffer) {
  if (buffer == NULL) return VYC_OK;
  atomic_store(&buffer->exported, true); /* to those who launch the captured graph */
  return vyc__buffer_await_end(buffer);
}

static vyc_status await_step(const vyc_step *step) {
  if (step->kind == STEP_REPEAT) return await_buffer(step->until);
  if (step->kind == STEP_TRANSFER) {
    VYC_TRY(await_buffer(step->base->transfer.to));
    return await_buffer(step->base->transfer.from);
  }
  for (uint32_t i = 0; i < step->prepared->binding_count; i++)
    VYC_TRY(await_buffer(step->base->arguments[i].buffer));
  for (uint32_t i = 0; step->rows != NULL && i < step->rows->buffer_count; i++)
    VYC_TRY(await_buffer(step->rows->buffers[i]));
  return VYC_OK;
}

static vyc_status await_memory(const vyc_graph *copy) {
  vyc_context *context = copy->child.context;
  for (uint32_t i = 0; i < copy->step_count; i++) VYC_TRY(await_step(&copy->steps[i]));
  return copy->recycled ? vyc__stream_finish(context, context->main, -1) : VYC_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static vyc_status find_capture(vyc_context *context, CUgraph *into_out, vyc_outside *outside,
                               CUstream stream) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuStreamGetCaptureInfo, stream, &capture, NULL, into_out, &outside->nodes,
                 &outside->count));
  if (capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) return VYC_OK;
  return vyc__driver_failed(context, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                            "cuStreamGetCaptureInfo");
}

static vyc_status add_nodes(vyc_graph *copy, CUgraph into, vyc_outside *outside, CUstream stream) {
  vyc_context *context = copy->child.context;
  VYC_CU_RESULT;
  vyc_status status = vyc__graph_fill(copy, into, outside);
  if (status == VYC_OK && outside->end_count > 0)
    status = VYC_CU(context, cuStreamUpdateCaptureDependencies, stream, outside->ends,
                    outside->end_count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  free(outside->ends);
  return status;
}

/* No node can be removed from a graph that is being captured. So that half a replay is never run,
 * this ends the capture, by a call that no capture survives. */
static void end_capture(const vyc_context *context, CUstream stream) {
  vyc_error failure;
  vyc__error_save(&failure);
  context->driver->cuStreamSynchronize(stream);
  vyc__error_restore(&failure);
}

static bool has_begun(const vyc_graph *copy) {
  if (copy->node_count > 1 || copy->loops_made > 0) return true;
  return copy->node_count == 1 && copy->nodes[0].handle != NULL;
}

static vyc_status capture(vyc_graph *copy, const vyc_graph *graph, const vyc_graph_change *changes,
                          uint32_t count, const vyc_launch_stream *on, bool *held_out) {
  vyc_context *context = copy->child.context;
  CUstream stream = on->stream;
  CUgraph into = NULL;
  vyc_outside outside = {0};
  VYC_TRY(copy_steps(copy, graph, changes, count));
  VYC_TRY(vyc__graph_prepare(copy));
  VYC_TRY(await_memory(copy));
  VYC_TRY(vyc__graph_reports_on(copy, on->slot));
  VYC_TRY(find_capture(context, &into, &outside, stream));
  const vyc_status status = add_nodes(copy, into, &outside, stream);
  if (status != VYC_OK && has_begun(copy)) end_capture(context, stream);
  if (status == VYC_OK) *held_out = vyc__hold_give(&copy->hold, &copy->child, into);
  return status;
}

vyc_status vyc__captures_supported(const vyc_context *context) {
  const vyc_driver *driver = context->driver;
  if (driver->cuStreamGetCaptureInfo != NULL && driver->cuStreamUpdateCaptureDependencies != NULL)
    return VYC_OK;
  return vyc__fail(
      VYC_E_UNSUPPORTED, "captured_replay",
      "this driver does not say into which graph a stream is being captured: launch the "
      "graph on a stream that is not");
}

vyc_status vyc__graph_capture(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                              const vyc_launch_stream *on) {
  vyc_context *context = graph->child.context;
  const vyc_driver *driver = context->driver;
  VYC_TRY(vyc__captures_supported(context));
  vyc_graph *copy = vyc__graph_new(context);
  if (copy == NULL) return VYC_E_MEMORY;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  bool held = false;
  const vyc_status status = capture(copy, graph, changes, count, on, &held);
  if (status == VYC_OK) vyc__count(&context->counters, cuda_graph_launches, 1);
  if (status == VYC_OK && !held) {
    copy->captures = graph->captures;
    graph->captures = copy;
  } else {
    vyc_error failure;
    vyc__error_save(&failure);
    vyc_graph_release(copy);
    vyc__error_restore(&failure);
  }
  vyc__capture_restore(driver, mode);
  return status;
}
