/* One-kernel graphs: built with the node API (no capture), and patched only where something has
 * changed. On an H200 a patch and a launch take 1.3 us, and cuLaunchKernel 3. A graph may end by
 * setting a word that the host polls: launch and wait then take 5.7 us, and 6.2 with
 * cuStreamSynchronize. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "room.h"

void vyc__launch_graph_init(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                            void **pointers, uint8_t *block) {
  memset(launch_graph, 0, sizeof *launch_graph);
  launch_graph->pointers = pointers;
  launch_graph->block = block;
  vyc__block_pointers(prepared, pointers, block);
  launch_graph->params.func = prepared->function;
  launch_graph->params.blockDimX = prepared->block[0];
  launch_graph->params.blockDimY = prepared->block[1];
  launch_graph->params.blockDimZ = prepared->block[2];
  launch_graph->params.sharedMemBytes = prepared->dynamic_shared_bytes;
  launch_graph->params.kernelParams = pointers;
}

/* A node after the kernel sets the flag, ordered after everything that the kernel wrote. If the
 * device does not support this, there is no flag. */
static vyc_status add_flag(vyc_launch_graph *launch_graph, vyc_context *context) {
  CUstreamBatchMemOpParams operation;
  memset(&operation, 0, sizeof operation);
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = (CUdeviceptr)launch_graph->flag;
  operation.writeValue.value = 1;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
  memset(&batch, 0, sizeof batch);
  batch.ctx = context->handle;
  batch.count = 1;
  batch.paramArray = &operation;
  CUgraphNode node;
  const CUresult result = context->driver->cuGraphAddBatchMemOpNode(&node, launch_graph->graph,
                                                                    &launch_graph->node, 1, &batch);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result != CUDA_ERROR_NOT_SUPPORTED)
    return vyc__driver_failed(context, result, "cuGraphAddBatchMemOpNode");
  launch_graph->flag = 0;
  return VYC_OK;
}

static vyc_status build_graph(vyc_launch_graph *launch_graph, vyc_context *context) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuGraphCreate, &launch_graph->graph, 0));
  vyc_status status = VYC_CU(context, cuGraphAddKernelNode, &launch_graph->node,
                             launch_graph->graph, NULL, 0, &launch_graph->params);
  if (status == VYC_OK && launch_graph->flag != 0) status = add_flag(launch_graph, context);
  if (status == VYC_OK)
    status =
        VYC_CU(context, cuGraphInstantiateWithFlags, &launch_graph->handle, launch_graph->graph, 0);
  vyc__count(&context->counters, cuda_graph_instantiations, 1);
  if (status == VYC_OK) return VYC_OK;
  vyc__record_keep();
  context->driver->cuGraphDestroy(launch_graph->graph);
  vyc__record_resume();
  launch_graph->graph = NULL;
  launch_graph->handle = NULL;
  return status;
}

static void give_back(vyc_launch_graph *launch_graph, const vyc_driver *driver) {
  if (launch_graph->graph == NULL) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  if (launch_graph->handle != NULL) driver->cuGraphExecDestroy(launch_graph->handle);
  driver->cuGraphDestroy(launch_graph->graph);
  vyc__capture_restore(driver, mode);
  launch_graph->handle = NULL;
  launch_graph->graph = NULL;
}

/* ---- the budget ------------------------------------------------------------------------------ */

static vyc_kernel_context *kernels(vyc_context *context) { return (vyc_kernel_context *)context; }

void vyc__kernels_begin(vyc_context *context) {
  pthread_mutex_init(&kernels(context)->launch_graphs_lock, NULL);
}

void vyc__kernels_end(vyc_context *context) {
  pthread_mutex_destroy(&kernels(context)->launch_graphs_lock);
}

/* Caller holds launch_graphs_lock. */
static void link_launch_graph(vyc_context *context, vyc_launch_graph *launch_graph) {
  launch_graph->previous = NULL;
  launch_graph->next = kernels(context)->launch_graphs;
  if (launch_graph->next != NULL) launch_graph->next->previous = launch_graph;
  kernels(context)->launch_graphs = launch_graph;
  kernels(context)->launch_graph_count++;
  launch_graph->counted = true;
}

/* Caller holds launch_graphs_lock. */
static void unlink_launch_graph(vyc_context *context, vyc_launch_graph *launch_graph) {
  if (!launch_graph->counted) return;
  if (launch_graph->previous != NULL) launch_graph->previous->next = launch_graph->next;
  if (launch_graph->next != NULL) launch_graph->next->previous = launch_graph->previous;
  if (kernels(context)->launch_graphs == launch_graph)
    kernels(context)->launch_graphs = launch_graph->next;
  kernels(context)->launch_graph_count--;
  launch_graph->counted = false;
}

/* Caller holds launch_graphs_lock. The least recently launched launch graph, claimed; NULL if none
 * is older than `age`. */
static vyc_launch_graph *take_oldest(vyc_context *context, uint32_t now, uint32_t age) {
  vyc_launch_graph *oldest = NULL;
  for (vyc_launch_graph *launch_graph = kernels(context)->launch_graphs; launch_graph != NULL;
       launch_graph = launch_graph->next) {
    const uint32_t its = now - atomic_load_explicit(&launch_graph->stamp, memory_order_relaxed);
    if (its <= age || its > UINT32_MAX / 2) continue;
    age = its;
    oldest = launch_graph;
  }
  if (oldest == NULL || !vyc__launch_graph_claim(oldest)) return NULL;
  unlink_launch_graph(context, oldest);
  return oldest;
}

/* The list is searched once for so many launches without room: a prime, so that calls made in turn
 * share the searches. */
#define LOOK_EVERY 31u

/* Count the launch graph in the budget; false if there is no room. It replaces one that has been
 * idle for longer than itself; so if more launch graphs are launched in turn than there is room
 * for, those that are already counted stay. */
static bool admit(vyc_launch_graph *launch_graph, vyc_context *context) {
  vyc_launch_graph *oldest = NULL;
  pthread_mutex_lock(&kernels(context)->launch_graphs_lock);
  bool room = kernels(context)->launch_graph_count < VYC_LAUNCH_GRAPH_BUDGET;
  if (VYC_UNLIKELY(!room)) {
    const uint32_t now = atomic_fetch_add(&context->launch_graph_clock, 1) + 1;
    const uint32_t rested = now - atomic_load_explicit(&launch_graph->stamp, memory_order_relaxed);
    const uint32_t least = VYC_LAUNCH_GRAPH_BUDGET - 1;
    if (now % LOOK_EVERY == 0) oldest = take_oldest(context, now, rested < least ? least : rested);
    room = oldest != NULL;
  }
  vyc__launch_graph_stamp(launch_graph, context);
  if (room) link_launch_graph(context, launch_graph);
  pthread_mutex_unlock(&kernels(context)->launch_graphs_lock);
  if (oldest != NULL) { /* if a launch is in flight, the driver frees it after that */
    give_back(oldest, context->driver);
    vyc__launch_graph_unclaim(oldest);
  }
  return room;
}

static void dismiss(vyc_launch_graph *launch_graph, vyc_context *context) {
  pthread_mutex_lock(&kernels(context)->launch_graphs_lock);
  unlink_launch_graph(context, launch_graph);
  pthread_mutex_unlock(&kernels(context)->launch_graphs_lock);
}

static vyc_status build(vyc_launch_graph *launch_graph, vyc_context *context) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status = build_graph(launch_graph, context);
  vyc__capture_restore(context->driver, mode);
  if (status != VYC_OK) dismiss(launch_graph, context);
  return status;
}

/* ---- launch ---------------------------------------------------------------------------------- */

vyc_status vyc__launch_graph_relaunch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                      CUstream stream) {
  vyc_context *context = prepared->child.context;
  const vyc_form form = vyc__launch_graph_form(launch_graph);
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(prepared->cooperative))
    return vyc__launch_once(prepared, launch_graph->pointers, &form, stream);
  if (VYC_UNLIKELY(launch_graph->handle == NULL)) {
    if (!admit(launch_graph, context))
      return vyc__launch_once(prepared, launch_graph->pointers, &form, stream);
    VYC_TRY(build(launch_graph, context));
  } else if (launch_graph->stale) {
    VYC_TRY(VYC_CU(context, cuGraphExecKernelNodeSetParams, launch_graph->handle,
                   launch_graph->node, &launch_graph->params));
  }
  launch_graph->stale = false;
  vyc__launch_graph_stamp(launch_graph, context);
  vyc__count(&context->counters, kernel_launches, 1);
  return VYC_CU(context, cuGraphLaunch, launch_graph->handle, stream);
}

static void set_form(vyc_launch_graph *launch_graph, const vyc_form *form) {
  CUDA_KERNEL_NODE_PARAMS *params = &launch_graph->params;
  if (VYC_LIKELY(params->gridDimX == form->grid[0] && params->gridDimY == form->grid[1] &&
                 params->gridDimZ == form->grid[2] && params->func == form->function))
    return;
  params->func = form->function;
  params->gridDimX = form->grid[0];
  params->gridDimY = form->grid[1];
  params->gridDimZ = form->grid[2];
  launch_graph->stale = true;
}

void vyc__launch_graph_set_other(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                 const vyc_run *run) {
  const vyc_form form = vyc__form_of(prepared, run);
  memcpy(launch_graph->run_grid, run->grid, sizeof launch_graph->run_grid);
  launch_graph->run_flags = vyc__run_flags_of(run);
  set_form(launch_graph, &form);
}

static void set(vyc_launch_graph *launch_graph, const vyc_prepared *prepared, const uint8_t *block,
                const vyc_form *form) {
  if (memcmp(launch_graph->block, block, prepared->parameter_bytes) != 0) {
    memcpy(launch_graph->block, block, prepared->parameter_bytes);
    launch_graph->stale = true;
  }
  set_form(launch_graph, form);
}

vyc_status vyc__launch_graph_launch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                    const uint8_t *block, const vyc_form *form, CUstream stream) {
  set(launch_graph, prepared, block, form);
  return vyc__launch_graph_relaunch(launch_graph, prepared, stream);
}

vyc_status vyc__launch_graph_launch_once(vyc_launch_graph *launch_graph,
                                         const vyc_prepared *prepared, const uint8_t *block,
                                         const vyc_form *form, CUstream stream) {
  set(launch_graph, prepared, block, form);
  return vyc__launch_once(prepared, launch_graph->pointers, form, stream);
}

void vyc__launch_graph_destroy(vyc_launch_graph *launch_graph, vyc_context *context) {
  vyc__launch_graph_claim_wait(launch_graph); /* another thread may be making room with it */
  dismiss(launch_graph, context);
  give_back(launch_graph, context->driver);
  vyc__launch_graph_unclaim(launch_graph);
}

vyc_status vyc__launch_once(const vyc_prepared *prepared, void **pointers, const vyc_form *form,
                            CUstream stream) {
  const uint32_t *grid = form->grid;
  vyc_context *context = prepared->child.context;
  vyc__count(&context->counters, kernel_launches, 1);
  vyc__count(&context->counters, plain_kernel_launches, 1);
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(prepared->cooperative))
    return VYC_CU(context, cuLaunchCooperativeKernel, form->function, grid[0], grid[1], grid[2],
                  prepared->block[0], prepared->block[1], prepared->block[2],
                  prepared->dynamic_shared_bytes, stream, pointers);
  return VYC_CU(context, cuLaunchKernel, form->function, grid[0], grid[1], grid[2],
                prepared->block[0], prepared->block[1], prepared->block[2],
                prepared->dynamic_shared_bytes, stream, pointers, NULL);
}
