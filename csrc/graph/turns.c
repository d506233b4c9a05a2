/* Graphs whose launches run one after the other, like those of one graph: they share the claim of
 * the first of them, which knows the one that was launched last. A launch of another one is ordered
 * after all streams on which that one has been launched, as after those of an executable graph that
 * was replaced. */
#include "graph.h"

vyc_status vyc_graph_in_turns(vyc_graph *graph, vyc_graph *of) {
  VYC_REQUIRE(graph != NULL && of != NULL && graph != of);
  VYC_REQUIRE(graph->child.context == of->child.context);
  if (graph->lead != graph || graph->shared || atomic_load(&graph->used.near) != 0)
    return vyc__fail(VYC_E_INVALID, "graph",
                     "the graph has been launched, or takes turns already: say so once, before its "
                     "first launch");
  vyc__graph_claim(of);
  vyc_graph *lead = of->lead;
  if (!lead->shared) lead->last = lead;
  lead->shared = graph->shared = true;
  graph->lead = lead;
  vyc__child_retain(&lead->child);
  vyc__graph_unclaim(of);
  return VYC_OK;
}

static vyc_status add_streams(vyc_graph *to, const vyc_graph *of) {
  vyc_status status = VYC_OK;
  const uint64_t near = atomic_load(&of->used.near);
  VYC_EACH_SLOT(other, near, &of->used.far)
  if (status == VYC_OK) status = vyc__slots_add(&to->used, other);
  return status;
}

vyc_status vyc__turn_take(vyc_graph *graph) {
  const vyc_graph *last = graph->lead->last;
  if (last == graph) return VYC_OK;
  VYC_TRY(add_streams(graph, last));
  graph->renewed = true;
  return VYC_OK;
}

void vyc__turns_leave(vyc_graph *graph) {
  vyc_graph *lead = graph->lead;
  if (lead == graph) return;
  vyc__graph_claim(lead);
  if (lead->last == graph) {
    /* Without memory for far streams, the next launch is not ordered after those. */
    add_streams(lead, graph);
    lead->renewed = true;
    lead->last = lead;
  }
  vyc__graph_unclaim(lead);
  vyc_graph_release(lead);
}
