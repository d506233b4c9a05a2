/* One-kernel graphs: built with the node API (no capture), patched only where something changed.
 * On an H200 patch and launch take 1.3 us where cuLaunchKernel takes 3. A graph may end by setting
 * a word that the host looks at: launch and wait take 5.7 us so, 6.2 with cuStreamSynchronize. */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <string.h>

#include "plan.h"

void vyc__exec_init(vyc_exec *exec, const vyc_plan *plan, void **pointers, uint8_t *block) {
  memset(exec, 0, sizeof *exec);
  exec->pointers = pointers;
  exec->block = block;
  for (uint32_t i = 0; i < plan->parameter_count; i++)
    pointers[i] = block + plan->parameters[i].offset;
  exec->params.func = plan->function;
  exec->params.blockDimX = plan->block[0];
  exec->params.blockDimY = plan->block[1];
  exec->params.blockDimZ = plan->block[2];
  exec->params.sharedMemBytes = plan->dynamic_shared_bytes;
  exec->params.kernelParams = pointers;
}

bool vyc__exec_claim(vyc_exec *exec) {
  return !atomic_exchange_explicit(&exec->claimed, true, memory_order_acquire);
}

void vyc__exec_claim_wait(vyc_exec *exec) {
  while (VYC_UNLIKELY(!vyc__exec_claim(exec))) sched_yield();
}

void vyc__exec_unclaim(vyc_exec *exec) {
  atomic_store_explicit(&exec->claimed, false, memory_order_release);
}

static void set(vyc_exec *exec, const vyc_plan *plan, const uint8_t *block,
                const uint32_t grid[3]) {
  memcpy(exec->block, block, plan->parameter_bytes);
  exec->params.gridDimX = grid[0];
  exec->params.gridDimY = grid[1];
  exec->params.gridDimZ = grid[2];
}

/* A node behind the kernel that sets the flag, ordered behind all that the kernel wrote. Where the
 * device cannot, there is no flag. */
static vyc_status add_flag(vyc_exec *exec, vyc_context *context) {
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

static vyc_status build(vyc_exec *exec, vyc_context *context) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuGraphCreate, &exec->graph, 0));
  vyc_status status =
      VYC_CU(context, cuGraphAddKernelNode, &exec->node, exec->graph, NULL, 0, &exec->params);
  if (status == VYC_OK && exec->flag != 0) status = add_flag(exec, context);
  if (status == VYC_OK)
    status = VYC_CU(context, cuGraphInstantiateWithFlags, &exec->handle, exec->graph, 0);
  if (status == VYC_OK) return VYC_OK;
  vyc_error failure;
  vyc__error_save(&failure);
  context->driver->cuGraphDestroy(exec->graph);
  vyc__error_restore(&failure);
  exec->graph = NULL;
  exec->handle = NULL;
  return status;
}

vyc_status vyc__exec_launch(vyc_exec *exec, const vyc_plan *plan, const uint8_t *block,
                            const uint32_t grid[3], CUstream stream) {
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(plan->cooperative)) return vyc__launch_once(plan, block, grid, stream);
  if (VYC_UNLIKELY(exec->handle == NULL)) {
    set(exec, plan, block, grid);
    VYC_TRY(build(exec, context));
  } else if (exec->stale || memcmp(exec->block, block, plan->parameter_bytes) != 0 ||
             exec->params.gridDimX != grid[0] || exec->params.gridDimY != grid[1] ||
             exec->params.gridDimZ != grid[2]) {
    set(exec, plan, block, grid);
    exec->stale = true;
    VYC_TRY(
        VYC_CU(context, cuGraphExecKernelNodeSetParams, exec->handle, exec->node, &exec->params));
    exec->stale = false;
  }
  atomic_store_explicit(&context->last_launch, plan->entry, memory_order_relaxed);
  return VYC_CU(context, cuGraphLaunch, exec->handle, stream);
}

void vyc__exec_destroy(vyc_exec *exec, const vyc_driver *driver) {
  if (exec->graph == NULL) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  if (exec->handle != NULL) driver->cuGraphExecDestroy(exec->handle);
  driver->cuGraphDestroy(exec->graph);
  vyc__capture_restore(driver, mode);
  exec->handle = NULL;
  exec->graph = NULL;
}

vyc_status vyc__launch_once(const vyc_plan *plan, const uint8_t *block, const uint32_t grid[3],
                            CUstream stream) {
  vyc_context *context = plan->child.context;
  void *pointers[VYC_MAX_PARAMETER_BYTES / 4];
  for (uint32_t i = 0; i < plan->parameter_count; i++)
    pointers[i] = (void *)(uintptr_t)(block + plan->parameters[i].offset);
  atomic_store_explicit(&context->last_launch, plan->entry, memory_order_relaxed);
  VYC_CU_RESULT;
  if (VYC_UNLIKELY(plan->cooperative))
    return VYC_CU(context, cuLaunchCooperativeKernel, plan->function, grid[0], grid[1], grid[2],
                  plan->block[0], plan->block[1], plan->block[2], plan->dynamic_shared_bytes,
                  stream, pointers);
  return VYC_CU(context, cuLaunchKernel, plan->function, grid[0], grid[1], grid[2], plan->block[0],
                plan->block[1], plan->block[2], plan->dynamic_shared_bytes, stream, pointers, NULL);
}
