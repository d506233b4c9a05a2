/* Where the kernels of a graph report failed checks: one record for each kernel, on whatever
 * streams the graph is launched. */
#include "graph.h"

vyc_status vyc__graph_report_of(vyc_graph *graph, uint64_t *address_out, vyc_prepared *prepared) {
  *address_out = 0;
  if (VYC_LIKELY(!prepared->has_report)) return VYC_OK;
  vyc_report_block *found = graph->reports;
  while (found != NULL && found->report.called != prepared->called) found = found->next;
  if (found == NULL) {
    VYC_TRY(vyc__report_block_make(&found, prepared));
    found->next = graph->reports;
    graph->reports = found;
    vyc__report_add(graph->child.context, &found->report);
  }
  *address_out = found->block->address;
  return VYC_OK;
}

vyc_status vyc__graph_reports_on(const vyc_graph *graph, uint32_t slot) {
  for (vyc_report_block *r = graph->reports; r != NULL; r = r->next)
    VYC_TRY(vyc__slots_add(&r->report.used, slot));
  return VYC_OK;
}

void vyc__graph_reports_end(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  if (graph->reports == NULL) return;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_report_block *r = graph->reports; r != NULL; r = r->next)
    vyc__report_end(context, &r->report);
  graph->reports = NULL;
  vyc__report_count_end(context);
  pthread_mutex_unlock(&context->children_lock);
}
