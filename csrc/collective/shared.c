/* The memory of small all-reduces where ranks are processes of one machine: each shares its inbox
 * by CUDA IPC and opens those of the others.
 *
 * Memory that others have opened must not be freed (NVIDIA's documentation leaves open what happens
 * then), so a rank first gives back what it has opened, and its own only when it is told that all
 * have done so. Where a rank is gone its own stays allocated until the context ends. */
#include <stdlib.h>
#include <string.h>

#include "one_shot.h"

/* The driver shares whole allocations; this is what it shares of its own accord. */
#define SHARED_STEP (UINT64_C(2) << 20)

_Static_assert(sizeof(CUipcMemHandle) == VYC_INBOX_HANDLE_BYTES, "a handle");

static vyc_status cannot(vyc_context *context, CUresult result, const char *operation) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return vyc__driver_failed(context, result, operation);
  return vyc__fail_driver(VYC_E_UNSUPPORTED, "one_shot", (int32_t)result,
                          vyc__driver_result_name(context->driver, result),
                          "device %d cannot share memory with other processes (%s gave %s)",
                          context->caps.ordinal, operation,
                          vyc__driver_result_name(context->driver, result));
}

/* ---- sharing --------------------------------------------------------------------------------- */

static vyc_status share_inbox(vyc_context *context, vyc_one_shot *o, CUipcMemHandle *handle) {
  const vyc_driver *driver = context->driver;
  CUresult result = driver->cuMemAlloc(&o->shared, vyc__align_up(o->inbox_bytes, SHARED_STEP));
  if (result != CUDA_SUCCESS) {
    o->shared = 0;
    return vyc__driver_failed(context, result, "cuMemAlloc");
  }
  result = driver->cuIpcGetMemHandle(handle, o->shared);
  return result == CUDA_SUCCESS ? VYC_OK : cannot(context, result, "cuIpcGetMemHandle");
}

static vyc_status take_memory(vyc_context *context, vyc_one_shot *o, CUipcMemHandle *handle) {
  const uint64_t bytes = vyc__epoch_bytes(o->most_bytes);
  VYC_TRY(share_inbox(context, o, handle));
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &o->memory, bytes));
  VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &o->word, sizeof(uint64_t)));
  *(volatile uint64_t *)(uintptr_t)o->word->address = 0;
  o->epochs = o->memory->address;
  VYC_TRY(vyc__clear(context, o->shared, o->inbox_bytes, context->main));
  VYC_TRY(vyc__clear(context, o->epochs, bytes, context->main));
  if (vyc__stream_await_end(context, context->main)) return VYC_OK;
  return vyc__fail(VYC_E_TIMEOUT, "one_shot",
                   "work on device %d has not ended in time: wait for it before the group is made",
                   context->caps.ordinal);
}

/* Nobody else knows the memory. */
static void give_back(vyc_context *context, const vyc_one_shot *o) {
  vyc__record_keep();
  if (o->memory != NULL) vyc__pool_give(context, vyc__device_pool(context), o->memory, 0);
  if (o->word != NULL) vyc__pool_give(context, vyc__pinned_pool(context), o->word, 0);
  if (o->shared != 0) context->driver->cuMemFree(o->shared);
  vyc__record_resume();
}

static void publish(vyc_communicator *c, vyc_one_shot *o, vyc_inboxes *g) {
  g->size = (uint32_t)c->size;
  g->ranks[c->rank].context = vyc__context_retain(c->child.context);
  g->ranks[c->rank].word = (uint32_t *)(uintptr_t)o->word->address;
  g->ranks[c->rank].inbox = o->shared;
  atomic_store(&g->references, 1);
  o->group = g;
  o->is_connected = c->size == 1;
  atomic_store(&c->one_shot, o);
}

static vyc_status share(vyc_communicator *c, uint64_t most_bytes, CUipcMemHandle *handle) {
  vyc_context *context = c->child.context;
  vyc_one_shot *o = calloc(1, sizeof *o);
  vyc_inboxes *g = calloc(1, sizeof *g);
  vyc_status status = VYC_E_MEMORY;
  if (o == NULL || g == NULL) {
    status = vyc__fail(VYC_E_MEMORY, "one_shot", "out of host memory");
  } else {
    o->most_bytes = most_bytes;
    o->inbox_bytes = vyc__inbox_bytes(most_bytes, (uint32_t)c->size);
    status = take_memory(context, o, handle);
    if (status == VYC_OK)
      publish(c, o, g);
    else
      give_back(context, o);
  }
  if (status == VYC_OK) return VYC_OK;
  free(o);
  free(g);
  return status;
}

vyc_status vyc_one_shot_share(vyc_communicator *communicator, uint64_t most_bytes,
                              uint8_t *handle_out) {
  VYC_REQUIRE(communicator != NULL && handle_out != NULL);
  vyc_context *context = communicator->child.context;
  const vyc_driver *driver = context->driver;
  CUipcMemHandle handle;
  vyc_scope scope;
  VYC_TRY(vyc__one_shot_check(communicator, most_bytes));
  if (driver->cuIpcGetMemHandle == NULL || driver->cuIpcOpenMemHandle == NULL ||
      driver->cuIpcCloseMemHandle == NULL)
    return cannot(context, CUDA_ERROR_NOT_SUPPORTED, "cuIpcGetMemHandle");
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = share(communicator, most_bytes, &handle);
  vyc__leave(context, &scope);
  if (status == VYC_OK) memcpy(handle_out, handle.reserved, sizeof handle.reserved);
  return status;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static vyc_status open_inbox(vyc_communicator *c, vyc_one_shot *o, int32_t rank,
                             const uint8_t *bytes) {
  vyc_context *context = c->child.context;
  CUipcMemHandle handle;
  memcpy(handle.reserved, bytes, sizeof handle.reserved);
  const CUresult result = context->driver->cuIpcOpenMemHandle(&o->opened[rank], handle,
                                                              CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (result == CUDA_SUCCESS) {
    o->group->ranks[rank].inbox = o->opened[rank];
    return VYC_OK;
  }
  o->opened[rank] = 0;
  return vyc__fail_driver(VYC_E_UNSUPPORTED, "one_shot", (int32_t)result,
                          vyc__driver_result_name(context->driver, result),
                          "device %d cannot open the memory of rank %d (cuIpcOpenMemHandle gave "
                          "%s)",
                          context->caps.ordinal, rank,
                          vyc__driver_result_name(context->driver, result));
}

static vyc_status connect_all(vyc_communicator *c, vyc_one_shot *o, const uint8_t *handles) {
  for (int32_t rank = 0; rank < c->size; rank++)
    if (rank != c->rank)
      VYC_TRY(open_inbox(c, o, rank, handles + (size_t)rank * VYC_INBOX_HANDLE_BYTES));
  o->is_connected = true;
  return VYC_OK;
}

vyc_status vyc_one_shot_connect(vyc_communicator *communicator, const uint8_t *handles) {
  VYC_REQUIRE(communicator != NULL && handles != NULL);
  vyc_one_shot *o = atomic_load(&communicator->one_shot);
  VYC_REQUIRE(o != NULL && o->shared != 0 && !o->is_connected);
  vyc_scope scope;
  VYC_TRY(vyc__enter(communicator->child.context, &scope));
  const vyc_status status = connect_all(communicator, o, handles);
  if (status != VYC_OK) vyc__shared_close(communicator->child.context, o);
  vyc__leave(communicator->child.context, &scope);
  return status;
}

/* ---- end ------------------------------------------------------------------------------------- */

void vyc__shared_close(vyc_context *context, vyc_one_shot *o) {
  vyc__record_keep();
  for (uint32_t rank = 0; rank < VYC_ONE_SHOT_RANKS; rank++) {
    if (o->opened[rank] != 0) context->driver->cuIpcCloseMemHandle(o->opened[rank]);
    o->opened[rank] = 0;
  }
  vyc__record_resume();
}

void vyc__shared_free(vyc_context *context, vyc_one_shot *o) {
  if (o->shared == 0 || !o->is_alone) return;
  vyc__record_keep();
  context->driver->cuMemFree(o->shared);
  vyc__record_resume();
  o->shared = 0;
}
