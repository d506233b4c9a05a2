/* Whether a graph has every edge that it would have if it were built again for what its steps are
 * to touch now: the nodes are visited as build.c makes them, and their order is found in the same
 * way. Other edges are kept; they only order more than needed. */
#include "graph.h"

typedef struct walk {
  vyc_graph *graph;
  bool covered;
} walk;

/* The next node; without loops its number is its position in the order. Both lists are newest
 * first. */
static vyc_status next_node(walk *w, const vyc_access *accesses, uint32_t count) {
  vyc_graph *graph = w->graph;
  vyc_order *order = &graph->wanted;
  const vyc_node *node = &graph->nodes[order->node_count];
  const uint32_t *edges = graph->edges + node->first_edge;
  uint32_t at = 0;
  VYC_TRY(vyc__order_add(order, accesses, count));
  for (uint32_t i = 0; i < order->found_count && w->covered; i++) {
    while (at < node->edge_count && edges[at] > order->found[i]) at++;
    w->covered = at < node->edge_count && edges[at] == order->found[i];
  }
  return VYC_OK;
}

static vyc_status walk_clears(walk *w, const vyc_step *step, const vyc_values *values) {
  for (uint32_t i = 0; i < step->prepared->binding_count; i++) {
    if ((step->clears[i / 64] >> i % 64 & 1) == 0) continue;
    const vyc_argument *argument = &values->arguments[i];
    const uint64_t begin = argument->buffer->address + argument->offset;
    const uint64_t bytes = argument->count * step->prepared->bindings[i].element_bytes;
    VYC_TRY(next_node(w, &(vyc_access){begin, begin + bytes, 1, 0}, 1));
  }
  return VYC_OK;
}

static vyc_status walk_step(walk *w, const vyc_step *step) {
  const vyc_values *values = vyc__step_target(step);
  if (step->kind == STEP_LAUNCH) VYC_TRY(walk_clears(w, step, values));
  if (step->built_empty) return VYC_OK;
  if (step->barrier != NULL) {
    const uint64_t begin = step->barrier->address;
    VYC_TRY(next_node(w, &(vyc_access){begin, begin + VYC_BARRIER_BYTES, 1, 0}, 1));
  }
  vyc_graph *graph = w->graph;
  VYC_TRY(vyc__grow(&graph->accesses, &graph->access_room, vyc__access_count(step, values),
                    sizeof *graph->accesses));
  const uint32_t count = vyc__step_accesses(step, values, graph->accesses);
  return next_node(w, graph->accesses, count);
}

static vyc_status walk_steps(walk *w, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end && w->covered; i++) {
    const vyc_step *step = &w->graph->steps[i];
    if (step->kind != STEP_REPEAT) {
      VYC_TRY(walk_step(w, step));
      continue;
    }
    const uint64_t times = vyc__repeat_shape(w->graph, i).rest;
    for (uint64_t j = 0; j < times && w->covered; j++) VYC_TRY(walk_steps(w, i + 1, step->end));
    i = step->end - 1;
  }
  return VYC_OK;
}

vyc_status vyc__edges_cover(vyc_graph *graph, bool *covered_out) {
  walk w = {graph, true};
  vyc__order_reset(&graph->wanted);
  const vyc_status status = walk_steps(&w, 0, graph->step_count);
  *covered_out = status == VYC_OK && w.covered;
  return status;
}
