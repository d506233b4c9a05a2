/* What repetitions become, and so how large a graph will be.
 *
 * A short counted repetition is unrolled, which costs nothing between kernels; a long one becomes a
 * loop over a part that is unrolled; one that the device ends is always a loop. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define UNROLL_NODES 4096u /* counted repetitions of at most this many nodes are unrolled */
#define LOOP_NODES 256u    /* the most nodes that are unrolled in the body of a longer one */

/* `body` is how many nodes one pass of the repetition has. */
static vyc_shape shape_of(const vyc_graph *graph, const vyc_step *step, uint64_t body) {
  if (step->until != NULL) return (vyc_shape){true, step->times, 0, 1};
  if (body == 0) return (vyc_shape){false, 0, 0, 0};
  const bool is_long = step->times > UNROLL_NODES / body;
  if (!is_long || !vyc__has_loops(graph->child.context))
    return (vyc_shape){false, 0, step->times, 0};
  const uint32_t part = body > LOOP_NODES ? 1 : (uint32_t)(LOOP_NODES / body);
  return (vyc_shape){true, step->times / part, step->times % part, part};
}

static uint64_t nodes_of_launch(const vyc_step *step) {
  uint64_t count = step->barrier != NULL ? 2 : 1;
  for (uint32_t b = 0; b < step->prepared->binding_count; b++)
    count += vyc__needs_clear(step->prepared, b, &step->now->run);
  return count;
}

/* The number of nodes of one pass of the steps; exact only up to VYC_MOST_NODES. */
static uint64_t count_nodes(const vyc_graph *graph, uint32_t first, uint32_t end) {
  uint64_t count = 0;
  for (uint32_t i = first; i < end && count <= VYC_MOST_NODES; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->kind != STEP_REPEAT) {
      count += step->kind == STEP_LAUNCH ? nodes_of_launch(step) : 1;
      continue;
    }
    const uint64_t body = count_nodes(graph, i + 1, step->end);
    const vyc_shape s = shape_of(graph, step, body);
    if (s.is_loop) count += 3 + body * s.part; /* two kernels and the node itself */
    count += s.rest > VYC_MOST_NODES ? VYC_MOST_NODES + 1 : s.rest * body;
    i = step->end - 1;
  }
  return count;
}

vyc_shape vyc__repeat_shape(const vyc_graph *graph, uint32_t number) {
  const vyc_step *step = &graph->steps[number];
  return shape_of(graph, step, count_nodes(graph, number + 1, step->end));
}

static uint64_t count_loops(const vyc_graph *graph, uint32_t first, uint32_t end) {
  uint64_t count = 0;
  for (uint32_t i = first; i < end; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->kind != STEP_REPEAT) continue;
    const vyc_shape s = vyc__repeat_shape(graph, i);
    const uint64_t body = count_loops(graph, i + 1, step->end);
    count += s.is_loop ? 1 + body * s.part : 0;
    count += body * s.rest;
    i = step->end - 1;
  }
  return count;
}

uint64_t vyc__count_loops(const vyc_graph *graph) {
  return count_loops(graph, 0, graph->step_count);
}

vyc_status vyc__check_size(const vyc_graph *graph) {
  if (count_nodes(graph, 0, graph->step_count) <= VYC_MOST_NODES) return VYC_OK;
  VYC_TRY(vyc__loops_supported(graph->child.context, "a repetition this long"));
  return vyc__fail(VYC_E_UNSUPPORTED, "graph_nodes",
                   "the graph has more than %" PRIu64 " nodes: record several graphs",
                   VYC_MOST_NODES);
}

vyc_status vyc__gather_accesses(const vyc_graph *graph, uint32_t first, uint32_t end,
                                vyc_access **accesses_out, uint32_t *count_out) {
  uint32_t count = 0, room = 0;
  vyc_access *all = NULL;
  for (uint32_t i = first; i < end; i++) {
    const vyc_step *step = &graph->steps[i];
    const vyc_access until = {step->until_address, step->until_address + step->until_bytes, 0, 0};
    const uint32_t more = step->kind == STEP_REPEAT ? step->until != NULL : step->access_count;
    if (more == 0) continue;
    const vyc_status status = vyc__grow(&all, &room, count + more, sizeof *all);
    if (status != VYC_OK) {
      free(all);
      return status;
    }
    memcpy(all + count, step->kind == STEP_REPEAT ? &until : step->built, more * sizeof *all);
    count += more;
  }
  *accesses_out = all;
  *count_out = count;
  return VYC_OK;
}
