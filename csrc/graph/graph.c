/* Recorded graphs: adding steps, finishing, what a graph holds, and looking at it. */
#define _POSIX_C_SOURCE 200809L
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

/* A communicator that ends meanwhile waits for the driver's graph, so it must find this one until
 * that is gone, and claimed. */
static void end_driver_graph(vyc_graph *graph) {
  const bool communicates = graph->communicators != NULL;
  if (communicates) vyc__graph_claim(graph);
  vyc__graph_unbuild(graph);
  vyc__communicators_leave(graph);
  if (communicates) vyc__graph_unclaim(graph);
}

static void graph_destroy(vyc_child *child) {
  vyc_graph *graph = (vyc_graph *)child;
  vyc__hold_take_back(graph->hold);
  end_driver_graph(graph);
  vyc__graph_reports_end(graph);
  if (graph->counters != NULL) vyc__graph_give(graph, graph->counters);
  for (uint32_t i = 0; i < graph->step_count; i++)
    if (graph->steps[i].barrier != NULL) vyc__graph_give(graph, graph->steps[i].barrier);
}

static void step_end(vyc_step *step) {
  if (step->base != NULL) vyc__values_drop(step, step->base);
  vyc_buffer_release(step->until);
  vyc_prepared_release(step->prepared);
  vyc__collectives_drop(step->collectives);
  vyc__step_free(step);
}

static void graph_finish(vyc_child *child) {
  vyc_graph *graph = (vyc_graph *)child;
  vyc__turns_leave(graph);
  vyc__hold_forget(graph->hold);
  while (graph->captures != NULL) {
    vyc_graph *captured = graph->captures;
    graph->captures = captured->captures;
    captured->captures = NULL;
    vyc_graph_release(captured);
  }
  for (uint32_t i = 0; i < graph->step_count; i++) step_end(&graph->steps[i]);
  vyc__far_free(&graph->used.far);
  vyc__far_free(&graph->ordered.far);
  vyc__own_drop(graph);
  vyc__symbols_free(graph);
  free(graph->steps);
  free(graph->open);
  free(graph->away);
  free(graph->buffers);
  free(graph->pinned);
  free(graph->nodes);
  free(graph->edges);
  free(graph->ends);
  vyc__communicators_free(graph);
  vyc_module_release(graph->loop_module);
  free(graph->touched.list);
  free(graph->written.list);
  free(graph->moved);
  free(graph->accesses);
  vyc__order_free(&graph->wanted);
  vyc__name_release(&child->context->history, graph->called);
  free(graph);
}

static const vyc_child_kind graph_kind = {.destroy = graph_destroy, .finish = graph_finish};

vyc_graph *vyc__graph_new(vyc_context *context) {
  vyc_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
    return NULL;
  }
  graph->lead = graph;
  vyc__child_add(&graph->child, context, &graph_kind);
  return graph;
}

vyc_status vyc_graph_create(vyc_graph **graph_out, vyc_context *context) {
  VYC_REQUIRE(graph_out != NULL && context != NULL);
  *graph_out = NULL;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  *graph_out = vyc__graph_new(context);
  vyc__leave(context, &scope);
  return *graph_out == NULL ? VYC_E_MEMORY : VYC_OK;
}

void vyc_graph_release(vyc_graph *graph) {
  if (graph != NULL) vyc__child_release(&graph->child);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static vyc_status room_for_step(vyc_graph *graph) {
  if (graph->finished)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the graph is finished: no step can be added, so record another graph");
  return vyc__grow(&graph->steps, &graph->step_room, graph->step_count + 1, sizeof *graph->steps);
}

static uint32_t add(vyc_graph *graph, const vyc_step *step) {
  graph->steps[graph->step_count] = *step;
  return graph->step_count++;
}

vyc_status vyc__add_step(vyc_graph *graph, uint32_t *step_out, const vyc_step *step) {
  VYC_TRY(room_for_step(graph));
  *step_out = add(graph, step);
  return VYC_OK;
}

/* Memory for the parameters of a step, and for the state of its grid barrier. */
static vyc_status make_room(vyc_graph *graph, vyc_step *step) {
  vyc_context *context = graph->child.context;
  vyc_prepared *prepared = step->prepared;
  const uint32_t arguments = prepared == NULL ? 0 : prepared->binding_count;
  const uint32_t of_rows = step->rows == NULL ? 0 : step->rows->access_count;
  VYC_TRY(vyc__step_spare(step, &step->base));
  step->built = calloc((size_t)arguments + of_rows + 2, sizeof *step->built);
  if (step->built == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  if (prepared != NULL) VYC_TRY(vyc__graph_report_of(graph, &step->report, prepared));
  if (prepared == NULL || !prepared->has_barrier) return VYC_OK;
  return vyc__pool_take(context, vyc__device_pool(context), &step->barrier, VYC_BARRIER_BYTES);
}

vyc_status vyc__add_values(vyc_graph *graph, uint32_t *step_out, uint32_t kind,
                           vyc_prepared *prepared, const vyc_run *run,
                           const vyc_graph_transfer *transfer, const vyc_row_memory *rows) {
  vyc_step step = {.kind = kind, .first_node = VYC_NONE, .prepared = prepared};
  VYC_TRY(room_for_step(graph));
  vyc_status status = rows == NULL ? VYC_OK : vyc__row_memory_copy(&step.rows, rows);
  if (status == VYC_OK) status = make_room(graph, &step);
  if (status != VYC_OK) {
    vyc__step_free(&step);
    return status;
  }
  graph->recycled |= step.barrier != NULL && step.barrier->recycled;
  step.now = step.base;
  vyc__values_set(&step, step.base, run, transfer);
  vyc__values_hold(&step, step.base);
  if (prepared != NULL) vyc__child_retain(&prepared->child);
  const uint32_t number = add(graph, &step);
  if (step_out != NULL) *step_out = number;
  return VYC_OK;
}

vyc_status vyc_graph_add_launch(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                                const vyc_run *run) {
  VYC_REQUIRE(graph != NULL && prepared != NULL);
  VYC_REQUIRE(prepared->child.context == graph->child.context);
  VYC_TRY(vyc__recorded_check(prepared, run));
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status =
      vyc__add_values(graph, step_out, STEP_LAUNCH, prepared, run, NULL, NULL);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

vyc_status vyc_graph_add_transfer(vyc_graph *graph, uint32_t *step_out,
                                  const vyc_graph_transfer *transfer) {
  VYC_REQUIRE(graph != NULL);
  VYC_TRY(vyc__transfer_check(graph->child.context, transfer));
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status =
      vyc__add_values(graph, step_out, STEP_TRANSFER, NULL, NULL, transfer, NULL);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

/* The state of a grid barrier goes back to its pool. */
void vyc__remove_steps(vyc_graph *graph, uint32_t first) {
  while (graph->step_count > first) {
    vyc_step *step = &graph->steps[--graph->step_count];
    if (step->barrier != NULL) vyc__graph_give(graph, step->barrier);
    step_end(step);
  }
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static vyc_status check_until(const vyc_graph *graph, const vyc_buffer *until, uint64_t offset,
                              uint32_t bytes) {
  VYC_REQUIRE_IN("vyc_graph_repeat_begin", until->child.context == graph->child.context);
  VYC_REQUIRE_IN("vyc_graph_repeat_begin", bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  VYC_REQUIRE_IN("vyc_graph_repeat_begin",
                 offset % bytes == 0 && offset <= until->bytes && bytes <= until->bytes - offset);
  return vyc__loops_supported(graph->child.context, "a repetition with `until`");
}

vyc_status vyc__add_repeat(vyc_graph *graph, uint32_t *step_out, uint64_t times, vyc_buffer *until,
                           uint64_t until_offset, uint32_t until_bytes) {
  vyc_step step = {.kind = STEP_REPEAT,
                   .first_node = VYC_NONE,
                   .times = times,
                   .until = until,
                   .until_bytes = until_bytes};
  if (until != NULL) step.until_address = until->address + until_offset;
  VYC_TRY(vyc__add_step(graph, step_out, &step));
  if (until != NULL) vyc__child_retain(&until->child);
  return VYC_OK;
}

static vyc_status repeat_begin(vyc_graph *graph, uint32_t *step_out, uint64_t times,
                               vyc_buffer *until, uint64_t until_offset, uint32_t until_bytes) {
  uint32_t number = 0;
  VYC_TRY(vyc__grow(&graph->open, &graph->open_room, graph->open_count + 1, sizeof *graph->open));
  VYC_TRY(vyc__add_repeat(graph, &number, times, until, until_offset, until_bytes));
  graph->open[graph->open_count++] = number;
  if (step_out != NULL) *step_out = number;
  return VYC_OK;
}

vyc_status vyc_graph_repeat_begin(vyc_graph *graph, uint32_t *step_out, uint64_t times,
                                  vyc_buffer *until, uint64_t until_offset, uint32_t until_bytes) {
  VYC_REQUIRE(graph != NULL);
  if (until != NULL) VYC_TRY(check_until(graph, until, until_offset, until_bytes));
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = repeat_begin(graph, step_out, times, until, until_offset, until_bytes);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

vyc_status vyc_graph_repeat_end(vyc_graph *graph) {
  VYC_REQUIRE(graph != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  vyc_status status = VYC_OK;
  if (graph->open_count == 0)
    status = vyc__fail(VYC_E_INVALID, "graph", "no repetition is being recorded: begin one first");
  else
    graph->steps[graph->open[--graph->open_count]].end = graph->step_count;
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

/* ---- finishing ------------------------------------------------------------------------------- */

static uint64_t most_buffers(const vyc_graph *graph) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    count += step->kind == STEP_LAUNCH ? step->prepared->binding_count : 2u;
    if (step->rows != NULL) count += step->rows->buffer_count;
    if (step->collectives != NULL) count += 2 * (uint64_t)step->collectives->count;
  }
  return count;
}

void vyc__graph_list_memory(vyc_graph *graph) {
  uint32_t count = 0;
  graph->pinned_count = 0;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->until != NULL) graph->buffers[count++] = step->until;
    for (uint32_t b = 0; step->kind == STEP_LAUNCH && b < step->prepared->binding_count; b++)
      graph->buffers[count++] = step->base->arguments[b].buffer;
    for (uint32_t b = 0; step->rows != NULL && b < step->rows->buffer_count; b++)
      graph->buffers[count++] = step->rows->buffers[b];
    for (uint32_t b = 0; step->collectives != NULL && b < step->collectives->count; b++) {
      const vyc_collective *w = &step->collectives->all[b];
      if (w->in != NULL) graph->buffers[count++] = w->in;
      if (w->out != NULL) graph->buffers[count++] = w->out;
    }
    if (step->kind != STEP_TRANSFER) continue;
    if (step->base->transfer.to != NULL) graph->buffers[count++] = step->base->transfer.to;
    if (step->base->transfer.from != NULL) graph->buffers[count++] = step->base->transfer.from;
    if (step->base->transfer.pinned != NULL)
      graph->pinned[graph->pinned_count++] = step->base->transfer.pinned;
  }
  graph->buffer_count = vyc__buffers_once(graph->buffers, count);
  graph->adopted = false;
  for (uint32_t i = 0; i < graph->buffer_count; i++)
    graph->adopted |= graph->buffers[i]->source != NULL;
  graph->marked.known = false;
}

/* Lists with room for everything that launches and updates may add. */
static vyc_status make_lists(vyc_graph *graph) {
  graph->away = calloc(graph->step_count + 1, sizeof *graph->away);
  graph->buffers = calloc(most_buffers(graph), sizeof(vyc_buffer *));
  graph->pinned = calloc(graph->step_count + 1, sizeof(vyc_pinned *));
  if (graph->away != NULL && graph->buffers != NULL && graph->pinned != NULL) return VYC_OK;
  return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
}

static void free_lists(vyc_graph *graph) {
  free(graph->away);
  free(graph->buffers);
  free(graph->pinned);
  graph->away = NULL;
  graph->buffers = NULL;
  graph->pinned = NULL;
}

static vyc_status finish(vyc_graph *graph) {
  if (graph->finished || graph->open_count > 0)
    return vyc__fail(VYC_E_INVALID, "graph",
                     graph->finished
                         ? "the graph is finished already: finish it once"
                         : "a repetition has no end: end each before the graph is finished");
  vyc_status status = make_lists(graph);
  if (status == VYC_OK) {
    vyc__graph_list_memory(graph);
    status = vyc__graph_build(graph);
  }
  graph->finished = status == VYC_OK;
  if (status != VYC_OK) free_lists(graph); /* more steps may be added before the next attempt */
  return status;
}

vyc_status vyc_graph_finish(vyc_graph *graph) {
  VYC_REQUIRE(graph != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = finish(graph);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

/* ---- looking --------------------------------------------------------------------------------- */

vyc_status vyc_graph_info_get(vyc_graph *graph, vyc_graph_info *info_out) {
  VYC_REQUIRE(graph != NULL && info_out != NULL && info_out->struct_size >= sizeof(uint32_t));
  VYC_TRY(vyc__check_usable(graph->child.context));
  vyc__graph_claim(graph);
  const bool is_last = graph->shared && graph->lead->last == graph;
  const vyc_graph_info info = {.step_count = graph->step_count,
                               .node_count = graph->node_count,
                               .edge_count = graph->edge_count,
                               .in_order = graph->serial,
                               .ran_last = is_last && atomic_load(&graph->used.near) != 0};
  vyc__graph_unclaim(graph);
  vyc__struct_out(info_out, &info, sizeof info);
  return VYC_OK;
}

static uint32_t kind_of(const vyc_graph *graph, const vyc_node *node) {
  switch (node->role) {
  case NODE_LAUNCH: return VYC_NODE_KERNEL;
  case NODE_COLLECTIVES: return VYC_NODE_COLLECTIVE;
  case NODE_LOOP: return VYC_NODE_LOOP;
  case NODE_LOOP_BEGIN:
  case NODE_LOOP_NEXT: return VYC_NODE_CONTROL;
  case NODE_TRANSFER:
    return vyc__is_fill(&graph->steps[node->step].base->transfer) ? VYC_NODE_FILL : VYC_NODE_COPY;
  default: return VYC_NODE_CLEAR;
  }
}

vyc_status vyc_graph_node_get(vyc_graph *graph, vyc_graph_node *node_out, uint32_t *edge_count_out,
                              uint32_t *edges_out, uint32_t edge_room, uint32_t index) {
  VYC_REQUIRE(graph != NULL && node_out != NULL && edge_count_out != NULL);
  VYC_REQUIRE(node_out->struct_size >= sizeof(uint32_t));
  VYC_REQUIRE(edges_out != NULL || edge_room == 0);
  VYC_TRY(vyc__check_usable(graph->child.context));
  vyc__graph_claim(graph);
  vyc_status status = VYC_OK;
  vyc_graph_node found = {0};
  if (index >= graph->node_count) {
    status = vyc__fail(VYC_E_INVALID, "graph",
                       "the graph has no node %u: its info says how many there are", index);
  } else {
    const vyc_node *node = &graph->nodes[index];
    found.kind = kind_of(graph, node);
    found.step = node->step;
    found.parent = node->parent;
    *edge_count_out = node->edge_count;
    for (uint32_t i = 0; i < node->edge_count && i < edge_room; i++)
      edges_out[i] = graph->edges[node->first_edge + i];
  }
  vyc__graph_unclaim(graph);
  if (status == VYC_OK) vyc__struct_out(node_out, &found, sizeof found);
  return status;
}
