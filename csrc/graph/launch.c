/* Launching a recorded graph, with or without changes to its steps. A change belongs to the launch
 * that it is for, so the launching thread has claimed the graph; what an earlier launch changed and
 * this one does not is set back first. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- changes --------------------------------------------------------------------------------- */

/* Host memory must stay host memory, and a fill a fill. */
static vyc_status check_kind(const vyc_graph_transfer *old, const vyc_graph_transfer *fresh) {
  if ((old->to == NULL) == (fresh->to == NULL) && (old->from == NULL) == (fresh->from == NULL) &&
      vyc__is_fill(old) == vyc__is_fill(fresh))
    return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "graph", "a recorded transfer must keep its kinds of memory");
}

static vyc_status check_change(const vyc_graph *graph, const vyc_graph_change *change) {
  VYC_REQUIRE_IN("graph", change->step < graph->step_count);
  const vyc_step *step = &graph->steps[change->step];
  if (step->kind == STEP_LAUNCH) {
    VYC_REQUIRE_IN("graph", change->run != NULL && change->transfer == NULL);
    VYC_REQUIRE_IN("graph", step->rows == NULL);
    return vyc__recorded_check(step->prepared, change->run);
  }
  VYC_REQUIRE_IN("graph",
                 step->kind == STEP_TRANSFER && change->transfer != NULL && change->run == NULL);
  VYC_TRY(vyc__transfer_check(graph->child.context, change->transfer));
  return check_kind(&step->base->transfer, change->transfer);
}

static vyc_status check_changes(const vyc_graph *graph, const vyc_graph_change *changes,
                                uint32_t count) {
  VYC_REQUIRE_IN("graph", changes != NULL || count == 0);
  if (!graph->finished) return vyc__fail(VYC_E_INVALID, "graph", "the graph is not finished");
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE_IN("graph", i == 0 || changes[i - 1].step < changes[i].step);
    VYC_TRY(check_change(graph, &changes[i]));
  }
  return VYC_OK;
}

/* Keep those in the list that differ from their base, or may. */
static void keep_changed(vyc_graph *graph) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < graph->away_count; i++) {
    vyc_step *step = &graph->steps[graph->away[i]];
    step->target = NULL;
    step->away = step->now != step->base || step->stale || step->moved;
    if (step->away) graph->away[kept++] = graph->away[i];
  }
  graph->away_count = kept;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static vyc_status set_targets(vyc_graph *graph, const vyc_given *given) {
  const vyc_graph_change *changes = given->changes;
  for (uint32_t i = 0; i < given->change_count; i++) {
    vyc_step *step = &graph->steps[changes[i].step];
    VYC_TRY(vyc__step_spare(step, &step->target));
    vyc__values_set(step, step->target, changes[i].run, changes[i].transfer);
    vyc__list_away(graph, changes[i].step);
  }
  if (VYC_LIKELY(given->value_count == 0)) return VYC_OK;
  return vyc__symbols_give(graph, given->values, given->value_count);
}

static bool fits(const vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->away_count; i++) {
    const vyc_step *step = &graph->steps[graph->away[i]];
    if (!vyc__nodes_fit(graph, step, vyc__step_target(step))) return false;
  }
  return true;
}

static vyc_status reach_targets(vyc_graph *graph) {
  const bool fit = VYC_LIKELY(graph->exec != NULL && fits(graph));
  bool in_order = true;
  if (fit) VYC_TRY(vyc__edges_fit(graph, &in_order));
  if (VYC_LIKELY(fit && in_order)) {
    for (uint32_t i = 0; i < graph->away_count; i++) {
      vyc_step *step = &graph->steps[graph->away[i]];
      VYC_TRY(vyc__nodes_set(graph, step, vyc__step_target(step)));
    }
    return VYC_OK;
  }
  if (graph->captors != NULL) return vyc__graph_made_once();
  graph->serial |= !in_order && ++graph->reorders > VYC_MOST_REORDERS;
  for (uint32_t i = 0; i < graph->away_count; i++) {
    vyc_step *step = &graph->steps[graph->away[i]];
    step->now = vyc__step_target(step);
  }
  return vyc__graph_build(graph);
}

/* A mark of a stream that has not ended goes only when marks are taken. So if none were since all
 * buffers were seen to have theirs, they need not be looked at: that none were is compared again
 * after the launch, as if the marks had been seen now. */
static bool has_marks(const vyc_graph *graph, uint32_t slot, uint32_t taken) {
  const vyc_marked *marked = &graph->marked;
  return marked->known && marked->slot == slot && marked->taken == taken &&
         marked->epoch == graph->child.context->epochs[slot];
}

static void note_marks(vyc_graph *graph, uint32_t slot, uint32_t taken) {
  graph->marked =
      (vyc_marked){.known = slot < VYC_NEAR_SLOTS && !graph->adopted, .slot = slot, .taken = taken};
  if (graph->marked.known) graph->marked.epoch = graph->child.context->epochs[slot];
}

static vyc_status use_memory(const vyc_graph *graph, const vyc_given *given, CUstream stream,
                             uint32_t slot, bool marked) {
  const vyc_graph_change *changes = given->changes;
  for (uint32_t i = 0; !marked && i < graph->buffer_count; i++)
    VYC_TRY(vyc__buffer_use(graph->buffers[i], stream, slot));
  for (uint32_t i = 0; i < graph->pinned_count; i++)
    VYC_TRY(vyc__pinned_use(graph->pinned[i], slot));
  for (uint32_t i = 0; i < given->value_count; i++)
    if (given->values[i].buffer != NULL)
      VYC_TRY(vyc__buffer_use(given->values[i].buffer, stream, slot));
  for (uint32_t i = 0; i < given->change_count; i++) {
    const vyc_run *run = changes[i].run;
    for (uint32_t j = 0; run != NULL && j < run->argument_count; j++)
      VYC_TRY(vyc__buffer_use(run->arguments[j].buffer, stream, slot));
    const vyc_graph_transfer *t = changes[i].transfer;
    if (t != NULL && t->to != NULL) VYC_TRY(vyc__buffer_use(t->to, stream, slot));
    if (t != NULL && t->from != NULL) VYC_TRY(vyc__buffer_use(t->from, stream, slot));
    if (t != NULL && t->pinned != NULL) VYC_TRY(vyc__pinned_use(t->pinned, slot));
  }
  return VYC_OK;
}

/* Marks may have been taken during the launch. */
static vyc_status mark_again(const vyc_graph *graph, const vyc_given *given, CUstream stream,
                             uint32_t slot) {
  const vyc_graph_change *changes = given->changes;
  for (uint32_t i = 0; i < graph->buffer_count; i++)
    VYC_TRY(vyc__buffer_mark_again(graph->buffers[i], stream, slot));
  for (uint32_t i = 0; i < given->value_count; i++)
    if (given->values[i].buffer != NULL)
      VYC_TRY(vyc__buffer_mark_again(given->values[i].buffer, stream, slot));
  for (uint32_t i = 0; i < given->change_count; i++) {
    const vyc_graph_transfer *t = changes[i].transfer;
    if (changes[i].run != NULL) VYC_TRY(vyc__run_mark_again(changes[i].run, stream, slot));
    if (t != NULL && t->to != NULL) VYC_TRY(vyc__buffer_mark_again(t->to, stream, slot));
    if (t != NULL && t->from != NULL) VYC_TRY(vyc__buffer_mark_again(t->from, stream, slot));
  }
  return VYC_OK;
}

/* The graph's own memory: counters of loops, and states of grid barriers. Streams without a slot
 * share one, which says nothing about any of them. */
static vyc_status use_own(vyc_graph *graph, CUstream stream, uint32_t slot) {
  VYC_TRY(vyc__slots_add(&graph->used, slot));
  if (VYC_LIKELY(!graph->recycled) || vyc__slots_has(&graph->ordered, slot)) return VYC_OK;
  VYC_TRY(vyc__stream_after_main(graph->child.context, stream));
  return slot == VYC_SLOT_OTHER ? VYC_OK : vyc__slots_add(&graph->ordered, slot);
}

/* The driver runs launches of one executable graph one after the other. Launches of a new
 * executable graph are ordered after those of the one before it, on any streams. */
static vyc_status order_behind_launches(vyc_graph *graph, CUstream stream, uint32_t slot) {
  if (VYC_LIKELY(!graph->renewed)) return VYC_OK;
  vyc_context *context = graph->child.context;
  const uint64_t near = atomic_load(&graph->used.near);
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_status status = VYC_OK;
  VYC_EACH_SLOT(other, near, &graph->used.far)
  if (status == VYC_OK && (other != slot || slot == VYC_SLOT_OTHER))
    status = vyc__stream_after_slot(context, stream, other);
  vyc__capture_restore(context->driver, mode);
  graph->renewed = status != VYC_OK;
  return status;
}

/* Order memory and streams of others after the launch. */
static vyc_status order_owners(const vyc_graph *graph, const vyc_given *given, vyc_stream *stream,
                               CUstream handle) {
  const vyc_graph_change *changes = given->changes;
  VYC_TRY(vyc__stream_order_owner(stream));
  for (uint32_t i = 0; graph->adopted && i < graph->buffer_count; i++)
    if (VYC_UNLIKELY(graph->buffers[i]->source != NULL))
      VYC_TRY(vyc__adopted_after(graph->buffers[i], handle));
  for (uint32_t i = 0; i < given->value_count; i++)
    if (given->values[i].buffer != NULL && given->values[i].buffer->source != NULL)
      VYC_TRY(vyc__adopted_after(given->values[i].buffer, handle));
  for (uint32_t i = 0; i < given->change_count; i++) {
    const vyc_run *run = changes[i].run;
    for (uint32_t j = 0; run != NULL && j < run->argument_count; j++)
      if (VYC_UNLIKELY(run->arguments[j].buffer->source != NULL))
        VYC_TRY(vyc__adopted_after(run->arguments[j].buffer, handle));
    const vyc_graph_transfer *t = changes[i].transfer;
    if (t != NULL && t->to != NULL) VYC_TRY(vyc__adopted_after(t->to, handle));
    if (t != NULL && t->from != NULL) VYC_TRY(vyc__adopted_after(t->from, handle));
  }
  return VYC_OK;
}

/* The events right before and right after a timed launch. */
typedef struct between {
  vyc_event *start, *stop;
} between;

static vyc_status capture(vyc_graph *graph, const vyc_given *given, const vyc_launch_stream *on) {
  vyc_graph_change *changes = NULL;
  uint32_t count = 0;
  if (graph->captors != NULL) return vyc__graph_never_captured();
  if (given->value_count == 0)
    return vyc__graph_capture(graph, given->changes, given->change_count, on);
  vyc_status status = vyc__symbols_give(graph, given->values, given->value_count);
  if (status == VYC_OK) status = vyc__targets_as_changes(graph, &changes, &count);
  if (status == VYC_OK) status = vyc__graph_capture(graph, changes, count, on);
  free(changes);
  keep_changed(graph);
  return status;
}

static vyc_status launch(vyc_graph *graph, const vyc_given *given, vyc_stream *stream,
                         uint32_t origin, const between *events, bool *captured_out) {
  vyc_context *context = graph->child.context;
  vyc_launch_stream on;
  const uint32_t taken = vyc__marks_taken(context);
  VYC_CU_RESULT;
  VYC_TRY(check_changes(graph, given->changes, given->change_count));
  VYC_TRY(vyc__launch_stream_of(context, &on, stream));
  *captured_out = on.captured;
  if (VYC_UNLIKELY(on.captured)) {
    if (events == NULL) return capture(graph, given, &on);
    return vyc__fail(VYC_E_INVALID, "stream",
                     "the stream is being captured, and a timed launch cannot be captured");
  }
  CUstream handle = on.stream;
  const uint32_t slot = on.slot;
  if (VYC_UNLIKELY(graph->captors != NULL)) VYC_TRY(vyc__graph_may_communicate(graph));
  vyc_status status = set_targets(graph, given);
  if (status == VYC_OK && (graph->away_count > 0 || graph->exec == NULL))
    status = reach_targets(graph);
  keep_changed(graph);
  VYC_TRY(status);
  const bool marked = has_marks(graph, slot, taken);
  VYC_TRY(use_memory(graph, given, handle, slot, marked));
  if (VYC_UNLIKELY(graph->shared)) VYC_TRY(vyc__turn_take(graph));
  VYC_TRY(order_behind_launches(graph, handle, slot));
  VYC_TRY(use_own(graph, handle, slot));
  VYC_TRY(vyc__graph_reports_on(graph, slot));
  vyc__note_graph(&context->history, slot, graph->noted, origin);
  vyc__count(&context->counters, cuda_graph_launches, 1);
  if (VYC_UNLIKELY(events != NULL)) VYC_TRY(vyc__event_record(events->start, &on));
  if (VYC_UNLIKELY(graph->captors != NULL)) VYC_TRY(vyc__graph_communicates(graph, handle));
  const vyc_status launched = VYC_CU(context, cuGraphLaunch, graph->exec, handle);
  if (VYC_UNLIKELY(graph->captors != NULL))
    status = vyc__graph_communicated(graph, handle, launched == VYC_OK);
  VYC_TRY(launched);
  if (VYC_UNLIKELY(graph->shared)) graph->lead->last = graph;
  if (VYC_UNLIKELY(events != NULL) && status == VYC_OK)
    status = vyc__event_record(events->stop, &on);
  const vyc_status ordered = order_owners(graph, given, stream, handle);
  if (VYC_LIKELY(status == VYC_OK)) status = ordered;
  /* The launch is enqueued before the marks are checked: see memory/marks.c. */
  if (VYC_LIKELY(vyc__marks_taken(context) == taken)) {
    if (VYC_UNLIKELY(!marked)) note_marks(graph, slot, taken);
    return status;
  }
  graph->marked.known = false;
  const vyc_status again = mark_again(graph, given, handle, slot);
  return status == VYC_OK ? again : status;
}

vyc_status vyc_graph_launch_at(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                               vyc_stream *stream, uint32_t origin) {
  VYC_REQUIRE(graph != NULL);
  vyc_scope scope;
  bool captured = false;
  const vyc_given given = {changes, count, NULL, 0};
  VYC_TRY(vyc__enter_warm(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = launch(graph, &given, stream, origin, NULL, &captured);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  if (VYC_UNLIKELY(captured)) vyc__holds_reap(graph->child.context);
  return status;
}

vyc_status vyc_graph_launch_with(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count,
                                 vyc_stream *stream, uint32_t origin) {
  VYC_REQUIRE(graph != NULL && (values != NULL || count == 0));
  vyc_scope scope;
  bool captured = false;
  const vyc_given given = {NULL, 0, values, count};
  VYC_TRY(vyc__enter_warm(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = launch(graph, &given, stream, origin, NULL, &captured);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  if (VYC_UNLIKELY(captured)) vyc__holds_reap(graph->child.context);
  return status;
}

static vyc_status take_events(between *events, vyc_context *context) {
  VYC_TRY(vyc__event_take(&events->start, context));
  return vyc__event_take(&events->stop, context);
}

vyc_status vyc_graph_launch_between(vyc_graph *graph, vyc_event **start_out, vyc_event **stop_out,
                                    const vyc_graph_change *changes, uint32_t count,
                                    vyc_stream *stream, uint32_t origin) {
  VYC_REQUIRE(graph != NULL && start_out != NULL && stop_out != NULL);
  *start_out = *stop_out = NULL;
  vyc_context *context = graph->child.context;
  vyc_scope scope;
  between events = {NULL, NULL};
  bool captured = false;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = take_events(&events, context);
  if (status == VYC_OK) {
    const vyc_given given = {changes, count, NULL, 0};
    vyc__graph_claim(graph);
    status = launch(graph, &given, stream, origin, &events, &captured);
    vyc__graph_unclaim(graph);
  }
  vyc__leave(context, &scope);
  if (status == VYC_OK) {
    *start_out = events.start;
    *stop_out = events.stop;
    return VYC_OK;
  }
  vyc__record_keep();
  vyc_event_release(events.start);
  vyc_event_release(events.stop);
  vyc__record_resume();
  return status;
}

vyc_status vyc__graph_launch_if(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                vyc_stream *stream, const _Atomic uint32_t *version,
                                uint32_t wanted, bool *stale_out) {
  vyc_scope scope;
  bool captured = false;
  const vyc_given given = {changes, count, NULL, 0};
  VYC_TRY(vyc__enter_warm(graph->child.context, &scope));
  vyc__graph_claim(graph);
  *stale_out = atomic_load(version) != wanted;
  const vyc_status status = *stale_out ? VYC_OK : launch(graph, &given, stream, 0, NULL, &captured);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  if (VYC_UNLIKELY(captured)) vyc__holds_reap(graph->child.context);
  return status;
}

vyc_status vyc_graph_launch(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                            vyc_stream *stream) {
  return vyc_graph_launch_at(graph, changes, count, stream, 0);
}

/* ---- update ---------------------------------------------------------------------------------- */

/* The targets become what all later launches have. */
static void keep_targets(vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->away_count; i++) {
    vyc_step *step = &graph->steps[graph->away[i]];
    vyc_values *fresh = step->target, *old = step->base;
    if (fresh == NULL) continue;
    vyc__values_hold(step, fresh);
    step->base = fresh;
    step->moved = vyc__has_moved(step, fresh);
    vyc__values_drop(step, old);
  }
}

static vyc_status update(vyc_graph *graph, const vyc_given *given) {
  VYC_TRY(check_changes(graph, given->changes, given->change_count));
  const vyc_status status = set_targets(graph, given);
  if (status == VYC_OK) keep_targets(graph);
  keep_changed(graph);
  VYC_TRY(status);
  vyc__graph_list_memory(graph);
  return VYC_OK;
}

static vyc_status update_claimed(vyc_graph *graph, const vyc_given *given) {
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = update(graph, given);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

vyc_status vyc_graph_update(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count) {
  VYC_REQUIRE(graph != NULL);
  const vyc_given given = {changes, count, NULL, 0};
  return update_claimed(graph, &given);
}

vyc_status vyc_graph_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count) {
  VYC_REQUIRE(graph != NULL && (values != NULL || count == 0));
  const vyc_given given = {NULL, 0, values, count};
  return update_claimed(graph, &given);
}
