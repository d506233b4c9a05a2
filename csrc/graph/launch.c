/* Launching a recorded graph, with or without changes to its steps. A change belongs to the launch
 * that it is for, so the launching thread has claimed the graph; what an earlier launch changed and
 * this one does not is set back first. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- launch ---------------------------------------------------------------------------------- */

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
  if (graph->communicators != NULL) return vyc__graph_made_once();
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
  if (graph->communicators != NULL) return vyc__graph_never_captured();
  if (given->value_count == 0)
    return vyc__graph_capture(graph, given->changes, given->change_count, on);
  vyc_status status = vyc__symbols_set(graph, given->values, given->value_count);
  if (status == VYC_OK) status = vyc__targets_as_changes(graph, &changes, &count);
  if (status == VYC_OK) status = vyc__graph_capture(graph, changes, count, on);
  free(changes);
  vyc__changed_keep(graph);
  return status;
}

/* Nothing is given, and neither the stream nor memory of the graph is somebody else's. */
static inline bool is_alone(const vyc_launching *l) {
  return VYC_LIKELY(l->given.change_count == 0 && l->given.value_count == 0 && !l->graph->adopted &&
                    !vyc__is_adopted(l->stream));
}

/* All that comes before the driver's launch. If somebody captures the stream, nothing of it. */
__attribute__((always_inline)) static inline vyc_status prepare(vyc_launching *l) {
  vyc_graph *graph = l->graph;
  vyc_context *context = graph->child.context;
  l->taken = vyc__marks_taken(context);
  l->renewed = graph->renewed;
  if (VYC_UNLIKELY(l->given.change_count > 0 || !graph->finished))
    VYC_TRY(vyc__changes_check(graph, l->given.changes, l->given.change_count));
  VYC_TRY(vyc__launch_stream_of(context, &l->on, l->stream));
  if (VYC_UNLIKELY(l->on.captured)) return VYC_OK;
  CUstream handle = l->on.stream;
  const uint32_t slot = l->on.slot;
  if (VYC_UNLIKELY(graph->communicators != NULL)) VYC_TRY(vyc__graph_may_communicate(graph));
  vyc_status status = VYC_OK;
  if (l->given.change_count > 0 || l->given.value_count > 0)
    status = vyc__targets_set(graph, &l->given);
  if (status == VYC_OK && (graph->away_count > 0 || graph->exec == NULL))
    status = reach_targets(graph);
  if (graph->away_count > 0) vyc__changed_keep(graph);
  VYC_TRY(status);
  l->marked = has_marks(graph, slot, l->taken);
  if (!l->marked || graph->pinned_count > 0 || !is_alone(l))
    VYC_TRY(use_memory(graph, &l->given, handle, slot, l->marked));
  if (VYC_UNLIKELY(graph->shared)) VYC_TRY(vyc__turn_take(graph));
  l->renewed = graph->renewed;
  if (VYC_UNLIKELY(graph->renewed)) VYC_TRY(order_behind_launches(graph, handle, slot));
  VYC_TRY(use_own(graph, handle, slot));
  return VYC_LIKELY(graph->reports == NULL) ? VYC_OK : vyc__graph_reports_on(graph, slot);
}

__attribute__((always_inline)) static inline vyc_status submit(vyc_launching *l, uint32_t origin) {
  vyc_graph *graph = l->graph;
  vyc_context *context = graph->child.context;
  CUstream handle = l->on.stream;
  vyc_status status = VYC_OK;
  VYC_CU_RESULT;
  vyc__note_graph(&context->history, l->on.slot, graph->noted, origin);
  vyc__count(&context->counters, cuda_graph_launches, 1);
  l->launched = false;
  if (VYC_UNLIKELY(graph->communicators != NULL)) VYC_TRY(vyc__graph_communicates(graph, handle));
  const vyc_status launched = VYC_CU(context, cuGraphLaunch, graph->exec, handle);
  l->launched = launched == VYC_OK;
  if (VYC_UNLIKELY(graph->communicators != NULL))
    status = vyc__graph_communicated(graph, handle, l->launched);
  VYC_TRY(launched);
  if (VYC_UNLIKELY(graph->shared)) graph->lead->last = graph;
  return status;
}

/* What follows the driver's launch. */
__attribute__((always_inline)) static inline vyc_status finish(vyc_launching *l,
                                                               vyc_status status) {
  vyc_graph *graph = l->graph;
  vyc_context *context = graph->child.context;
  CUstream handle = l->on.stream;
  if (!is_alone(l)) {
    const vyc_status ordered = order_owners(graph, &l->given, l->stream, handle);
    if (VYC_LIKELY(status == VYC_OK)) status = ordered;
  }
  /* The launch is enqueued before the marks are checked: see memory/marks.c. */
  if (VYC_LIKELY(vyc__marks_taken(context) == l->taken)) {
    if (VYC_UNLIKELY(!l->marked)) note_marks(graph, l->on.slot, l->taken);
    return status;
  }
  graph->marked.known = false;
  const vyc_status again = mark_again(graph, &l->given, handle, l->on.slot);
  return status == VYC_OK ? again : status;
}

/* Only the stream of this launch is behind those before it. */
void vyc__graph_launch_abandon(const vyc_launching *l) { l->graph->renewed |= l->renewed; }

static vyc_status launch(vyc_graph *graph, const vyc_given *given, vyc_stream *stream,
                         uint32_t origin, const between *events, bool *captured_out) {
  vyc_launching l;
  l.graph = graph;
  l.given = *given;
  l.stream = stream;
  l.launched = false;
  l.on.captured = false;
  vyc_status status = prepare(&l);
  *captured_out = l.on.captured;
  if (VYC_UNLIKELY(l.on.captured)) {
    if (events == NULL) return capture(graph, given, &l.on);
    return vyc__fail(
        VYC_E_INVALID, "stream",
        "the stream is being captured, and a timed launch cannot be captured: launch it "
        "without times, or on another stream");
  }
  if (VYC_UNLIKELY(events != NULL) && status == VYC_OK)
    status = vyc__event_record(events->start, &l.on);
  if (VYC_LIKELY(status == VYC_OK)) status = submit(&l, origin);
  if (VYC_UNLIKELY(!l.launched)) {
    vyc__graph_launch_abandon(&l);
    return status;
  }
  if (VYC_UNLIKELY(events != NULL) && status == VYC_OK)
    status = vyc__event_record(events->stop, &l.on);
  return finish(&l, status);
}

/* ---- a launch in parts, for together.c ---- */

vyc_status vyc__graph_launch_prepare(vyc_launching *l) {
  VYC_TRY(prepare(l));
  if (VYC_LIKELY(!l->on.captured)) return VYC_OK;
  return vyc__fail(
      VYC_E_INVALID, "stream",
      "the stream is being captured, and graphs that are launched together cannot become "
      "part of a capture: give other streams");
}

vyc_status vyc__graph_launch_submit(vyc_launching *l, uint32_t origin) { return submit(l, origin); }

vyc_status vyc__graph_launch_finish(vyc_launching *l) { return finish(l, VYC_OK); }

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

static vyc_status launch_if(vyc_graph *graph, const vyc_given *given, vyc_stream *stream,
                            const _Atomic uint32_t *version, uint32_t wanted, bool *stale_out) {
  vyc_scope scope;
  bool captured = false;
  VYC_TRY(vyc__enter_warm(graph->child.context, &scope));
  vyc__graph_claim(graph);
  *stale_out = atomic_load(version) != wanted;
  const vyc_status status = *stale_out ? VYC_OK : launch(graph, given, stream, 0, NULL, &captured);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  if (VYC_UNLIKELY(captured)) vyc__holds_reap(graph->child.context);
  return status;
}

vyc_status vyc__graph_launch_if(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                vyc_stream *stream, const _Atomic uint32_t *version,
                                uint32_t wanted, bool *stale_out) {
  const vyc_given given = {changes, count, NULL, 0};
  return launch_if(graph, &given, stream, version, wanted, stale_out);
}

vyc_status vyc__graph_launch_with_if(vyc_graph *graph, const vyc_symbol_value *values,
                                     uint32_t count, vyc_stream *stream,
                                     const _Atomic uint32_t *version, uint32_t wanted,
                                     bool *stale_out) {
  const vyc_given given = {NULL, 0, values, count};
  return launch_if(graph, &given, stream, version, wanted, stale_out);
}

vyc_status vyc_graph_launch(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                            vyc_stream *stream) {
  return vyc_graph_launch_at(graph, changes, count, stream, 0);
}
