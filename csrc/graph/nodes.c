/* The parameters of the driver's kernel, copy and memset nodes, when they are made and later. */
#include <string.h>

#include "graph.h"

void vyc__kernel_params(const vyc_step *step, const vyc_values *values,
                        CUDA_KERNEL_NODE_PARAMS *params_out) {
  const vyc_prepared *prepared = step->prepared;
  memset(params_out, 0, sizeof *params_out);
  const vyc_form form = vyc__form_of(prepared, &values->run);
  params_out->func = form.function;
  params_out->gridDimX = form.grid[0];
  params_out->gridDimY = form.grid[1];
  params_out->gridDimZ = form.grid[2];
  params_out->blockDimX = prepared->block[0];
  params_out->blockDimY = prepared->block[1];
  params_out->blockDimZ = prepared->block[2];
  params_out->sharedMemBytes = prepared->dynamic_shared_bytes;
  params_out->kernelParams = values->pointers;
}

void vyc__copy_params(const vyc_graph_transfer *t, CUDA_MEMCPY3D *params_out) {
  memset(params_out, 0, sizeof *params_out);
  params_out->dstMemoryType = t->to != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  params_out->dstDevice = t->to != NULL ? t->to->address + t->to_offset : 0;
  params_out->dstHost = t->to_host;
  params_out->srcMemoryType = t->from != NULL ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  params_out->srcDevice = t->from != NULL ? t->from->address + t->from_offset : 0;
  params_out->srcHost = t->from_host;
  params_out->WidthInBytes = t->bytes;
  params_out->Height = 1;
  params_out->Depth = 1;
}

void vyc__fill_params(uint64_t address, uint64_t bytes, uint32_t value, uint32_t element_bytes,
                      CUDA_MEMSET_NODE_PARAMS *params_out) {
  memset(params_out, 0, sizeof *params_out);
  params_out->dst = address;
  params_out->value = value;
  params_out->elementSize = element_bytes;
  params_out->width = bytes / element_bytes;
  params_out->height = 1;
}

uint32_t vyc__clear_width(uint64_t address, uint64_t bytes) {
  const uint64_t both = address | bytes;
  return both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1;
}

/* ---- later ----------------------------------------------------------------------------------- */

static vyc_status set_fill(vyc_graph *graph, const vyc_node *node, uint64_t address, uint64_t bytes,
                           uint32_t value) {
  vyc_context *context = graph->child.context;
  CUDA_MEMSET_NODE_PARAMS params;
  VYC_CU_RESULT;
  vyc__fill_params(address, bytes, value, node->element_bytes, &params);
  return VYC_CU(context, cuGraphExecMemsetNodeSetParams, graph->exec, node->handle, &params,
                context->handle);
}

static vyc_status set_clear(vyc_graph *graph, const vyc_node *node, const vyc_step *step,
                            const vyc_values *values) {
  const vyc_argument *argument = &values->arguments[node->role];
  const uint64_t bytes = argument->count * step->prepared->bindings[node->role].element_bytes;
  return set_fill(graph, node, argument->buffer->address + argument->offset, bytes, 0);
}

static vyc_status set_transfer(vyc_graph *graph, const vyc_node *node,
                               const vyc_graph_transfer *transfer) {
  vyc_context *context = graph->child.context;
  if (vyc__is_fill(transfer))
    return set_fill(graph, node, transfer->to->address + transfer->to_offset, transfer->bytes,
                    transfer->value);
  CUDA_MEMCPY3D params;
  VYC_CU_RESULT;
  vyc__copy_params(transfer, &params);
  return VYC_CU(context, cuGraphExecMemcpyNodeSetParams, graph->exec, node->handle, &params,
                context->handle);
}

static vyc_status set_kernel(vyc_graph *graph, const vyc_node *node,
                             const CUDA_KERNEL_NODE_PARAMS *params) {
  vyc_context *context = graph->child.context;
  VYC_CU_RESULT;
  return VYC_CU(context, cuGraphExecKernelNodeSetParams, graph->exec, node->handle, params);
}

vyc_status vyc__nodes_set(vyc_graph *graph, vyc_step *step, vyc_values *values) {
  CUDA_KERNEL_NODE_PARAMS kernel;
  if (!step->stale && vyc__values_equal(step, step->now, values)) {
    step->now = values;
    return VYC_OK;
  }
  if (step->kind == STEP_LAUNCH) vyc__kernel_params(step, values, &kernel);
  step->stale = true; /* until all nodes have the same values */
  for (uint32_t i = step->first_node; i != VYC_NONE; i = graph->nodes[i].next) {
    const vyc_node *node = &graph->nodes[i];
    if (node->role == NODE_LAUNCH)
      VYC_TRY(set_kernel(graph, node, &kernel));
    else if (node->role == NODE_TRANSFER)
      VYC_TRY(set_transfer(graph, node, &values->transfer));
    else if (node->role != NODE_BARRIER) /* which never changes */
      VYC_TRY(set_clear(graph, node, step, values));
  }
  step->stale = false;
  step->now = values;
  return VYC_OK;
}
