/* The driver's graph of a recorded graph, which has it alone, and the executable graph made of it.
 */
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* For messages about its launches: the number of steps, and as many kernels as fit. */
static vyc_status name_graph(vyc_graph *graph) {
  char text[512];
  int used = snprintf(text, sizeof text, "a graph of %u step%s", graph->step_count,
                      VYC_S(graph->step_count));
  const char *between = " (", *last = NULL;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->kind != STEP_LAUNCH || (last != NULL && strcmp(step->prepared->name, last) == 0))
      continue;
    last = step->prepared->name;
    if ((size_t)used + strlen(last) + 8 > sizeof text) {
      used += snprintf(text + used, sizeof text - (size_t)used, "%s...", between);
      between = ", ";
      break;
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", between, last);
    between = ", ";
  }
  if (between[0] == ',') snprintf(text + used, sizeof text - (size_t)used, ")");
  vyc__name_release(&graph->child.context->history, graph->called); /* from a finish that failed */
  graph->called = NULL;
  VYC_TRY(vyc__name_make(&graph->called, text, NULL));
  graph->noted = vyc__noted_as(graph->called);
  return VYC_OK;
}

/* Without cuGraphUpload: on an H200 that processes share by turns (driver 580.159.04), not all
 * branches of a graph wait for an upload right before its launch. One in 500 graphs with a table of
 * rows ran the code of other kernels, did not end or lost the device, and none where the launch
 * uploads it (benchmarks/results/2026-11-28T0106Z-nvidia-h200-upload.txt). */
static vyc_status make(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  VYC_CU_RESULT;
  VYC_TRY(vyc__graph_prepare(graph));
  VYC_TRY(name_graph(graph));
  VYC_TRY(VYC_CU(context, cuGraphCreate, &graph->graph, 0));
  VYC_TRY(vyc__graph_fill(graph, graph->graph, NULL));
  VYC_TRY(vyc__ranges_make(graph));
  vyc__count(&context->counters, cuda_graph_instantiations, 1);
  return vyc__graph_instantiate(graph);
}

vyc_status vyc__graph_build(vyc_graph *graph) {
  const vyc_driver *driver = graph->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  graph->renewed = atomic_load(&graph->used.near) != 0;
  vyc__graph_unbuild(graph);
  const vyc_status status = make(graph);
  if (status != VYC_OK) {
    vyc__record_keep();
    vyc__graph_unbuild(graph);
    vyc__record_resume();
  }
  vyc__capture_restore(driver, mode);
  return status;
}

void vyc__graph_unbuild(vyc_graph *graph) {
  const vyc_driver *driver = graph->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  if (graph->exec != NULL) driver->cuGraphExecDestroy(graph->exec);
  if (graph->graph != NULL) driver->cuGraphDestroy(graph->graph);
  graph->exec = NULL;
  graph->graph = NULL;
  vyc__capture_restore(driver, mode);
}
