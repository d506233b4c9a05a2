/* The driver's executable form of a recorded graph, and why there is none. */
#include "graph.h"

static bool has_cooperative(const vyc_graph *graph) {
  for (uint32_t i = 0; i < graph->step_count; i++)
    if (graph->steps[i].kind == STEP_LAUNCH && graph->steps[i].prepared->cooperative) return true;
  return false;
}

static vyc_status fail_room(const vyc_graph *graph) {
  const vyc_context *context = graph->child.context;
  size_t free_bytes = 0, total_bytes = 0;
  if (context->driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
  return vyc__fail_driver(
      VYC_E_MEMORY, "cuGraphInstantiateWithFlags", (int32_t)CUDA_ERROR_OUT_OF_MEMORY,
      vyc__driver_result_name(context->driver, CUDA_ERROR_OUT_OF_MEMORY),
      "the driver has no room for %s: %zu of %zu bytes are free on device %d. Where "
      "these are enough, it has run out of something that all processes on it share: end "
      "some of them, or close graphs that are not needed",
      graph->called->text, free_bytes, total_bytes, context->caps.ordinal);
}

/* The driver takes memory for a graph, which idle blocks of our pools may hold. */
static CUresult instantiate_or_trim(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  const vyc_driver *driver = context->driver;
  const CUresult result = driver->cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
  if (VYC_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY)) return result;
  vyc__pool_trim(context, vyc__device_pool(context));
  vyc__log(context, VYC_LOG_INFO, "no room for a graph: idle blocks were freed");
  return driver->cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
}

vyc_status vyc__graph_instantiate(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  const char *operation = "cuGraphInstantiateWithFlags";
  const CUresult result = instantiate_or_trim(graph);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return fail_room(graph);
  if (result != CUDA_ERROR_NOT_SUPPORTED || graph->loops_made == 0 || !has_cooperative(graph))
    return vyc__driver_failed(context, result, operation);
  return vyc__fail_driver(VYC_E_UNSUPPORTED, "cooperative_loop", (int32_t)result,
                          vyc__driver_result_name(context->driver, result),
                          "the driver refused %s: it accepts kernels with grid barriers in loops "
                          "on the device only if MPS is not in use",
                          graph->called->text);
}
