/* Page-locked memory: blocks of the pinned pool, and memory of the caller's that is locked in
 * place.
 *
 * A block that is still held when its context closes stays what it is until the last reference
 * goes: host code has its address. So it keeps the primary context, beyond the close. Memory of the
 * caller's needs no such care: the close unlocks it. */
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"

/* Memory that a kernel never stops using stays locked. */
static void unlock(const vyc_pinned *pinned) {
  vyc_context *context = pinned->child.context;
  const uint64_t used_on = atomic_load_explicit(&pinned->used_on, memory_order_acquire);
  if (used_on != 0 && !vyc__settle(context)) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  context->driver->cuMemHostUnregister(pinned->data);
  vyc__capture_restore(context->driver, mode);
}

static void pinned_destroy(vyc_child *child) {
  vyc_pinned *pinned = (vyc_pinned *)child;
  vyc_context *context = child->context;
  if (pinned->block == NULL) {
    if (pinned->bytes != 0) unlock(pinned);
    return;
  }
  if (atomic_load(&context->closed)) return; /* pinned_finish frees it */
  vyc__pool_give(context, &context->pinned_pool, pinned->block,
                 atomic_load_explicit(&pinned->used_on, memory_order_acquire));
  pinned->block = NULL;
}

static void pinned_finish(vyc_child *child) {
  vyc_pinned *pinned = (vyc_pinned *)child;
  vyc_context *context = child->context;
  vyc_scope scope;
  /* With work that never ends the driver would wait for it before it frees. */
  const bool may_free = !atomic_load(&context->hung);
  if (pinned->block != NULL && may_free && vyc__enter_release(context, &scope)) {
    vyc__pool_remove(context, &context->pinned_pool, pinned->block);
    vyc__leave(context, &scope);
  }
  if (!may_free) free(pinned->block); /* the record; the memory stays locked */
  if (pinned->keeps_primary) vyc__primary_release(context);
  free(pinned);
}

/* ---- made, used, released ------------------------------------------------------------------- */

static vyc_status take(vyc_pinned *pinned, vyc_context *context, uint64_t bytes) {
  VYC_TRY(vyc__pool_take(context, &context->pinned_pool, &pinned->block, bytes));
  pinned->data = (void *)(uintptr_t)pinned->block->address;
  pinned->bytes = bytes;
  pinned->keeps_primary = true;
  vyc__primary_retain(context);
  return VYC_OK;
}

/* The driver may give registered memory another device address; this library counts on one. */
static vyc_status check_address(vyc_context *context, void *data) {
  CUdeviceptr device = 0;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuMemHostGetDevicePointer, &device, data, 0));
  if (device == (CUdeviceptr)(uintptr_t)data) return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "host_pointer_for_registered_memory",
                   "this device cannot use registered memory at its host address");
}

static vyc_status lock_in_place(vyc_pinned *pinned, vyc_context *context, void *data,
                                uint64_t bytes) {
  if (bytes == 0) return VYC_OK;
  const vyc_driver *driver = context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  const CUresult result = driver->cuMemHostRegister(
      data, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  vyc_status status = VYC_OK;
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
    status = vyc__fail(VYC_E_INVALID, "cuMemHostRegister",
                       "the %" PRIu64 " bytes at %p overlap memory that is page-locked already",
                       bytes, data);
  else if (result != CUDA_SUCCESS)
    status = vyc__driver_failed(context, result, "cuMemHostRegister");
  if (status == VYC_OK) {
    status = check_address(context, data);
    if (status != VYC_OK) driver->cuMemHostUnregister(data);
  }
  vyc__capture_restore(driver, mode);
  pinned->data = data;
  pinned->bytes = bytes;
  return status;
}

/* `data` NULL: from the pool. */
static vyc_status make(vyc_pinned **pinned_out, vyc_context *context, void *data, uint64_t bytes) {
  *pinned_out = NULL;
  vyc_pinned *pinned = calloc(1, sizeof *pinned);
  if (pinned == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status =
        data == NULL ? take(pinned, context, bytes) : lock_in_place(pinned, context, data, bytes);
    if (status == VYC_OK) vyc__child_add(&pinned->child, context, pinned_destroy, pinned_finish);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free(pinned);
    return status;
  }
  *pinned_out = pinned;
  return VYC_OK;
}

vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL);
  return make(pinned_out, context, NULL, bytes);
}

vyc_status vyc_pinned_register(vyc_pinned **pinned_out, vyc_context *context, void *data,
                               uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL && data != NULL);
  return make(pinned_out, context, data, bytes);
}

void vyc_pinned_release(vyc_pinned *pinned) {
  if (pinned != NULL) vyc__child_release(&pinned->child);
}

vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out) {
  VYC_REQUIRE(pinned != NULL && data_out != NULL);
  VYC_TRY(vyc__check_usable(pinned->child.context));
  *data_out = pinned->data;
  return VYC_OK;
}
