/* Steps of a graph that are collectives: what they hold and touch, their nodes, and what a launch
 * of a graph that has some looks at. NCCL makes the nodes, so the graph is made once, and ends
 * before the communicators do. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- communicators --------------------------------------------------------------------------- */

/* A communicator of the graph, which ends the graph before itself. */
typedef struct of_graph {
  vyc_collective_graph listed;
  vyc_graph *graph;
  uint64_t one_shots; /* all-reduces in one shot that a launch does */
} of_graph;

struct vyc_graph_communicators {
  uint32_t count, room;
  CUgraphExec counted; /* of which all->one_shots are */
  of_graph **all; /* each apart, because communicators list them */
};

static bool end_graph(vyc_collective_graph *listed) {
  vyc_graph *graph = ((of_graph *)(void *)listed)->graph;
  if (!vyc__claim_try(&graph->lead->claim)) return false;
  vyc__graph_unbuild(graph);
  vyc__graph_unclaim(graph);
  return true;
}

static vyc_status communicators_of(vyc_graph *graph, vyc_graph_communicators **communicators_out) {
  if (graph->communicators == NULL) graph->communicators = calloc(1, sizeof *graph->communicators);
  *communicators_out = graph->communicators;
  return graph->communicators != NULL ? VYC_OK
                                      : vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
}

static vyc_status belong_to(vyc_graph *graph, vyc_communicator *communicator) {
  vyc_graph_communicators *communicators;
  VYC_TRY(communicators_of(graph, &communicators));
  for (uint32_t i = 0; i < communicators->count; i++)
    if (communicators->all[i]->listed.communicator == communicator) return VYC_OK;
  VYC_TRY(vyc__grow(&communicators->all, &communicators->room, communicators->count + 1,
                    sizeof *communicators->all));
  of_graph *made = calloc(1, sizeof *made);
  if (made == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  *made = (of_graph){.listed = {.communicator = communicator, .end = end_graph}, .graph = graph};
  vyc__child_retain(&communicator->child);
  communicators->all[communicators->count++] = made;
  vyc__collective_graph_add(&made->listed);
  return VYC_OK;
}

void vyc__communicators_leave(vyc_graph *graph) {
  for (uint32_t i = 0; graph->communicators != NULL && i < graph->communicators->count; i++)
    vyc__collective_graph_remove(&graph->communicators->all[i]->listed);
}

void vyc__communicators_free(vyc_graph *graph) {
  if (graph->communicators == NULL) return;
  for (uint32_t i = 0; i < graph->communicators->count; i++) {
    vyc_communicator_release(graph->communicators->all[i]->listed.communicator);
    free(graph->communicators->all[i]);
  }
  free(graph->communicators->all);
  free(graph->communicators);
}

/* ---- adding --------------------------------------------------------------------------------- */

static vyc_status make(vyc_collectives **made_out, vyc_step *step, vyc_communicator *communicator,
                       uint32_t count, const vyc_collective *all) {
  vyc_collectives *made = calloc(1, sizeof *made + count * sizeof *all);
  step->built = calloc(2 * (size_t)count + 1, sizeof *step->built);
  if (made == NULL || step->built == NULL) {
    free(made);
    free(step->built);
    return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  }
  made->communicator = communicator;
  made->count = count;
  memcpy(made->all, all, count * sizeof *all);
  *made_out = made;
  return VYC_OK;
}

static void hold(const vyc_collectives *of) {
  vyc__child_retain(&of->communicator->child);
  for (uint32_t i = 0; i < of->count; i++) {
    if (of->all[i].in != NULL) vyc__child_retain(&of->all[i].in->child);
    if (of->all[i].out != NULL) vyc__child_retain(&of->all[i].out->child);
  }
}

static vyc_status add(vyc_graph *graph, uint32_t *step_out, vyc_communicator *communicator,
                      uint32_t count, const vyc_collective *all) {
  vyc_step step = {.kind = STEP_COLLECTIVES, .first_node = VYC_NONE};
  uint32_t number = 0;
  if (graph->open_count > 0)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "a collective cannot be in a repetition: record it for each pass");
  VYC_TRY(belong_to(graph, communicator));
  VYC_TRY(make(&step.collectives, &step, communicator, count, all));
  const vyc_status status = vyc__add_step(graph, &number, &step);
  if (status != VYC_OK) {
    free(step.collectives);
    free(step.built);
    return status;
  }
  hold(step.collectives);
  if (step_out != NULL) *step_out = number;
  return VYC_OK;
}

vyc_status vyc_graph_add_collectives(vyc_graph *graph, uint32_t *step_out,
                                     vyc_communicator *communicator, uint32_t count,
                                     const vyc_collective *collectives) {
  VYC_REQUIRE(graph != NULL && communicator != NULL && count > 0 && collectives != NULL);
  VYC_REQUIRE(communicator->child.context == graph->child.context);
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE(collectives[i].stream == NULL);
    VYC_TRY(vyc_communicator_check(communicator, &collectives[i]));
  }
  vyc_scope scope;
  VYC_TRY(vyc__enter(graph->child.context, &scope));
  vyc__graph_claim(graph);
  const vyc_status status = add(graph, step_out, communicator, count, collectives);
  vyc__graph_unclaim(graph);
  vyc__leave(graph->child.context, &scope);
  return status;
}

/* ---- launching ------------------------------------------------------------------------------ */

vyc_status vyc__graph_may_communicate(const vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->communicators->count; i++)
    VYC_TRY(vyc__communicator_may_run(graph->communicators->all[i]->listed.communicator, "graph"));
  return VYC_OK;
}

/* If a communicator has ended meanwhile, it could not destroy the graph, because that is claimed:
 * it is destroyed here. */
static vyc_status end_with_communicators(vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->communicators->count; i++) {
    const vyc_status status =
        vyc__communicator_check(graph->communicators->all[i]->listed.communicator, "graph");
    if (status == VYC_OK) continue;
    vyc__record_keep();
    vyc__graph_unbuild(graph);
    vyc__record_resume();
    return status;
  }
  return VYC_OK;
}

static void count_one_shots(vyc_graph *graph) {
  if (VYC_LIKELY(graph->communicators->counted == graph->exec)) return;
  graph->communicators->counted = graph->exec;
  for (uint32_t i = 0; i < graph->communicators->count; i++) {
    of_graph *of = graph->communicators->all[i];
    of->one_shots = 0;
    for (uint32_t step = 0; step < graph->step_count; step++) {
      const vyc_collectives *its = graph->steps[step].collectives;
      if (its != NULL && its->communicator == of->listed.communicator)
        of->one_shots += its->one_shots;
    }
  }
}

/* Of the first `count` communicators. */
static vyc_status end_one_shots(const vyc_graph *graph, uint32_t count, CUstream stream,
                                bool is_launched) {
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < count; i++) {
    const of_graph *of = graph->communicators->all[i];
    if (of->one_shots == 0) continue;
    const vyc_status ended =
        vyc__one_shots_end(of->listed.communicator, of->one_shots, is_launched, stream);
    if (status == VYC_OK) status = ended;
  }
  return status;
}

vyc_status vyc__graph_communicates(vyc_graph *graph, CUstream stream) {
  count_one_shots(graph);
  for (uint32_t i = 0; i < graph->communicators->count; i++) {
    const of_graph *of = graph->communicators->all[i];
    if (of->one_shots == 0) continue;
    const vyc_status status = vyc__one_shots_begin(of->listed.communicator, of->one_shots, stream);
    if (status == VYC_OK) continue;
    (void)end_one_shots(graph, i, stream, false);
    return status;
  }
  return VYC_OK;
}

vyc_status vyc__graph_communicated(vyc_graph *graph, CUstream stream, bool is_launched) {
  const vyc_status status = end_one_shots(graph, graph->communicators->count, stream, is_launched);
  for (uint32_t i = 0; is_launched && i < graph->step_count; i++) {
    const vyc_collectives *of = graph->steps[i].collectives;
    if (of != NULL) vyc__collectives_launched(of->communicator, of->all, of->count, stream);
  }
  const vyc_status ended = end_with_communicators(graph);
  return status == VYC_OK ? ended : status;
}

void vyc__graph_give_up(const vyc_graph *graph, const char *message) {
  for (uint32_t i = 0; graph->communicators != NULL && i < graph->communicators->count; i++)
    vyc_communicator_abort(graph->communicators->all[i]->listed.communicator, message);
}

vyc_status vyc__graph_made_once(void) {
  return vyc__fail(VYC_E_INVALID, "graph",
                   "the graph has collectives, so it is made once, by all ranks together, and this "
                   "launch needs other nodes or another order: record another graph for it");
}

vyc_status vyc__graph_never_captured(void) {
  return vyc__fail(
      VYC_E_INVALID, "graph",
      "the stream is being captured, and a graph with collectives cannot become part of "
      "a capture: launch it on another stream");
}
