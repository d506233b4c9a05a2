/* One-kernel graphs: built with the node API (no capture), patched only where something changed.
 * On an H200 patch and launch take 1.3 us where cuLaunchKernel takes 3. A graph may end by setting
 * a word that the host looks at: launch and wait take 5.7 us so, 6.2 with cuStreamSynchronize. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "room.h"

void vyc__launch_graph_init(vyc_launch_graph *exec, const vyc_prepared *prepared, void **pointers,
                            uint8_t *block) {
  memset(exec, 0, sizeof *exec);
  exec->pointers = pointers;
  exec->block = block;
  vyc__block_pointers(prepared, pointers, block);
  exec->params.func = prepared->function;
  exec->params.blockDimX = prepared->block[0];
  exec->params.blockDimY = prepared->block[1];
  exec->params.blockDimZ = prepared->block[2];
  exec->params.sharedMemBytes = prepared->dynamic_shared_bytes;
  exec->params.kernelParams = pointers;
}

/* A node behind the kernel that sets the flag, ordered behind all that the kernel wrote. Where the
 * device cannot, there is no flag. */
static vyc_status add_flag(vyc_launch_graph *exec, vyc_context *context) {
  CUstreamBatchMemOpParams operation;
  memset(&operation, 0, sizeof operation);
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = (CUdeviceptr)exec->flag;
  operation.writeValue.value = 1;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
  memset(&batch, 0, sizeof batch);
  batch.ctx = context->handle;
  batch.count = 1;
  batch.paramArray = &operation;
  CUgraphNode node;
  const CUresult result =
      context->driver->cuGraphAddBatchMemOpNode(&node, exec->graph, &exec->node, 1, &batch);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result != CUDA_ERROR_NOT_SUPPORTED)
    return vyc__driver_failed(context, result, "cuGraphAddBatchMemOpNode");
  exec->flag = 0;
  return VYC_OK;
}

static vyc_status build_graph(vyc_launch_graph *exec, vyc_context *context) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuGraphCreate, &exec->graph, 0));
  vyc_status status =
      VYC_CU(context, cuGraphAddKernelNode, &exec->node, exec->graph, NULL, 0, &exec->params);
  if (status == VYC_OK && exec->flag != 0) status = add_flag(exec, context);
  if (status == VYC_OK)
    status = VYC_CU(context, cuGraphInstantiateWithFlags, &exec->handle, exec->graph, 0);
  vyc__count(&context->counters, cuda_graph_instantiations, 1);
  if (status == VYC_OK) return VYC_OK;
  vyc__record_keep();
  context->driver->cuGraphDestroy(exec->graph);
  vyc__record_resume();
  exec->graph = NULL;
  exec->handle = NULL;
  return status;
}

static void give_back(vyc_launch_graph *exec, const vyc_driver *driver) {
  if (exec->graph == NULL) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  if (exec->handle != NULL) driver->cuGraphExecDestroy(exec->handle);
  driver->cuGraphDestroy(exec->graph);
  vyc__capture_restore(driver, mode);
  exec->handle = NULL;
  exec->graph = NULL;
}

/* ---- the budget ------------------------------------------------------------------------------ */

static vyc_kernel_context *kernels(vyc_context *context) { return (vyc_kernel_context *)context; }

void vyc__kernels_begin(vyc_context *context) {
  pthread_mutex_init(&kernels(context)->execs_lock, NULL);
}

void vyc__kernels_end(vyc_context *context) {
  pthread_mutex_destroy(&kernels(context)->execs_lock);
}

/* Caller holds execs_lock. */
static void link_exec(vyc_context *context, vyc_launch_graph *exec) {
  exec->previous = NULL;
  exec->next = kernels(context)->execs;
  if (exec->next != NULL) exec->next->previous = exec;
  kernels(context)->execs = exec;
  kernels(context)->exec_count++;
  exec->counted = true;
}

/* Caller holds execs_lock. */
static void unlink_exec(vyc_context *context, vyc_launch_graph *exec) {
  if (!exec->counted) return;
  if (exec->previous != NULL) exec->previous->next = exec->next;
  if (exec->next != NULL) exec->next->previous = exec->previous;
  if (kernels(context)->execs == exec) kernels(context)->execs = exec->next;
  kernels(context)->exec_count--;
  exec->counted = false;
}

/* Caller holds execs_lock. The exec that was launched longest ago, claimed, or NULL when none is
 * older than `age`. */
static vyc_launch_graph *take_oldest(vyc_context *context, uint32_t now, uint32_t age) {
  vyc_launch_graph *oldest = NULL;
  for (vyc_launch_graph *exec = kernels(context)->execs; exec != NULL; exec = exec->next) {
    const uint32_t its = now - atomic_load_explicit(&exec->stamp, memory_order_relaxed);
    if (its <= age || its > UINT32_MAX / 2) continue;
    age = its;
    oldest = exec;
  }
  if (oldest == NULL || !vyc__launch_graph_claim(oldest)) return NULL;
  unlink_exec(context, oldest);
  return oldest;
}

/* Launches without room from one look through the list to the next: a prime, so that calls in turn
 * do not leave every look to the same one of them. */
#define LOOK_EVERY 31u

/* Count the exec as one of the budget; false when there is no room. It takes the place of one that
 * rests for longer than it did itself: of more execs than there is room for, launched in turn,
 * those stay that are there. */
static bool admit(vyc_launch_graph *exec, vyc_context *context) {
  vyc_launch_graph *oldest = NULL;
  pthread_mutex_lock(&kernels(context)->execs_lock);
  bool room = kernels(context)->exec_count < VYC_LAUNCH_GRAPH_BUDGET;
  if (VYC_UNLIKELY(!room)) {
    const uint32_t now = atomic_fetch_add(&context->exec_clock, 1) + 1;
    const uint32_t rested = now - atomic_load_explicit(&exec->stamp, memory_order_relaxed);
    const uint32_t least = VYC_LAUNCH_GRAPH_BUDGET - 1;
    if (now % LOOK_EVERY == 0) oldest = take_oldest(context, now, rested < least ? least : rested);
    room = oldest != NULL;
  }
  vyc__launch_graph_stamp(exec, context);
  if (room) link_exec(context, exec);
  pthread_mutex_unlock(&kernels(context)->execs_lock);
  if (oldest != NULL) { /* with a launch in flight the driver frees it after that */
    give_back(oldest, context->driver);
    vyc__launch_graph_unclaim(oldest);
  }
  return room;
}

static void dismiss(vyc_launch_graph *exec, vyc_context *context) {
  pthread_mutex_lock(&kernels(context)->execs_lock);
  unlink_exec(context, exec);
  pthread_mutex_unlock(&kernels(context)->execs_lock);
}

static vyc_status build(vyc_launch_graph *exec, vyc_context *context) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status = build_graph(exec, context);
  vyc__capture_restore(context->driver, mode);
  if (status != VYC_OK) dismiss(exec, context);
  return status;
}

/* ---- launch ---------------------------------------------------------------------------------- */

vyc_status vyc__launch_graph_relaunch(vyc_launch_graph *exec, const vyc_prepared *prepared,
                                      CUstream stream) {
  vyc_context *context = prepared->child.context;
  const uint32_t grid[3] = {exec->params.gridDimX, exec->params.gridDimY, exec->params.gridDimZ};
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(prepared->cooperative))
    return vyc__launch_once(prepared, exec->pointers, grid, stream);
  if (VYC_UNLIKELY(exec->handle == NULL)) {
    if (!admit(exec, context)) return vyc__launch_once(prepared, exec->pointers, grid, stream);
    VYC_TRY(build(exec, context));
  } else if (exec->stale) {
    VYC_TRY(
        VYC_CU(context, cuGraphExecKernelNodeSetParams, exec->handle, exec->node, &exec->params));
  }
  exec->stale = false;
  vyc__launch_graph_stamp(exec, context);
  vyc__count(&context->counters, kernel_launches, 1);
  return VYC_CU(context, cuGraphLaunch, exec->handle, stream);
}

static void set(vyc_launch_graph *exec, const vyc_prepared *prepared, const uint8_t *block,
                const uint32_t grid[3]) {
  if (memcmp(exec->block, block, prepared->parameter_bytes) != 0) {
    memcpy(exec->block, block, prepared->parameter_bytes);
    exec->stale = true;
  }
  vyc__launch_graph_set_grid(exec, grid);
}

vyc_status vyc__launch_graph_launch(vyc_launch_graph *exec, const vyc_prepared *prepared,
                                    const uint8_t *block, const uint32_t grid[3], CUstream stream) {
  set(exec, prepared, block, grid);
  return vyc__launch_graph_relaunch(exec, prepared, stream);
}

vyc_status vyc__launch_graph_launch_once(vyc_launch_graph *exec, const vyc_prepared *prepared,
                                         const uint8_t *block, const uint32_t grid[3],
                                         CUstream stream) {
  set(exec, prepared, block, grid);
  return vyc__launch_once(prepared, exec->pointers, grid, stream);
}

void vyc__launch_graph_destroy(vyc_launch_graph *exec, vyc_context *context) {
  vyc__launch_graph_claim_wait(exec); /* somebody may be making room with it */
  dismiss(exec, context);
  give_back(exec, context->driver);
  vyc__launch_graph_unclaim(exec);
}

vyc_status vyc__launch_once(const vyc_prepared *prepared, void **pointers, const uint32_t grid[3],
                            CUstream stream) {
  vyc_context *context = prepared->child.context;
  vyc__count(&context->counters, kernel_launches, 1);
  vyc__count(&context->counters, plain_kernel_launches, 1);
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(prepared->cooperative))
    return VYC_CU(context, cuLaunchCooperativeKernel, prepared->function, grid[0], grid[1], grid[2],
                  prepared->block[0], prepared->block[1], prepared->block[2],
                  prepared->dynamic_shared_bytes, stream, pointers);
  return VYC_CU(context, cuLaunchKernel, prepared->function, grid[0], grid[1], grid[2],
                prepared->block[0], prepared->block[1], prepared->block[2],
                prepared->dynamic_shared_bytes, stream, pointers, NULL);
}
