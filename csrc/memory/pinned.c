/* Page-locked memory: blocks of the pinned pool, and memory of the caller's that is locked in
 * place.
 *
 * A block that is still held when its context closes stays what it is until the last reference
 * goes: host code has its address. Memory of the caller's needs no such care: the close unlocks it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "room.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef vyc_status take_block(vyc_context *, vyc_pool *, vyc_block **, uint64_t);

static vyc_status allocate(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes,
                           take_block *take) {
  *pinned_out = NULL;
  vyc_scope scope;
  vyc_block *block = NULL;
  VYC_TRY(vyc__enter_warm(context, &scope));
  const vyc_status status = take(context, vyc__pinned_pool(context), &block, bytes);
  if (status == VYC_OK) {
    vyc_pinned *pinned = &block->as.pinned;
    pinned->child.context = vyc__context_retain(context);
    atomic_store_explicit(&pinned->child.references, 1, memory_order_relaxed);
    pinned->block = block;
    pinned->data = (void *)(uintptr_t)block->address;
    pinned->bytes = bytes;
    vyc__slots_clear(&pinned->used);
    block->has_handle = true;
    *pinned_out = pinned;
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL);
  return allocate(pinned_out, context, bytes, vyc__pool_take);
}

vyc_status vyc_pinned_try_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL);
  return allocate(pinned_out, context, bytes, vyc__pool_try_take);
}

void vyc__pinned_drop(vyc_pinned *pinned) {
  if (pinned == NULL) return;
  if (pinned->block == NULL) {
    vyc__child_release(&pinned->child);
    return;
  }
  vyc_context *context = pinned->child.context;
  if (!vyc__handle_drop(&pinned->child)) return;
  vyc__handle_give(context, vyc__pinned_pool(context), pinned->block,
                   atomic_load_explicit(&pinned->used.near, memory_order_relaxed),
                   &pinned->used.far);
  vyc__context_release(context);
}

vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out) {
  VYC_REQUIRE(pinned != NULL && data_out != NULL);
  if (vyc__is_forked(pinned->child.context)) return vyc__check_usable(pinned->child.context);
  *data_out = pinned->data;
  return VYC_OK;
}

/* ---- memory of the caller's ------------------------------------------------------------------ */

/* Memory that a kernel does not stop using stays locked. */
static void unlock(const vyc_pinned *pinned) {
  vyc_context *context = pinned->child.context;
  const uint64_t used_on = atomic_load_explicit(&pinned->used.near, memory_order_acquire);
  if (used_on != 0 && !vyc__await_end(context)) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc__workers_pause(context);
  context->driver->cuMemHostUnregister(pinned->data);
  vyc__workers_resume(context);
  vyc__capture_restore(context->driver, mode);
}

/* The memory is the caller's once the release returns, so a close that unlocks it is waited for. */
static void await_close(vyc_context *context) {
  vyc_pace pace = vyc__pace_begin(vyc__patience(context), 0);
  if (!atomic_load(&context->closed)) return;
  while (!atomic_load(&context->gone) && vyc__pace(context, &pace) == VYC_OK) {
  }
}

/* Runs hold the memory until somebody collects them, and may still use it: they are waited for,
 * inside a gate, because a close destroys their streams. */
static void unlock_early(vyc_pinned *pinned) {
  vyc_context *context = pinned->child.context;
  vyc_scope scope;
  if (vyc__is_forked(context) || atomic_load(&context->gone)) return;
  vyc__record_keep();
  if (vyc__enter(context, &scope) != VYC_OK) {
    await_close(context);
  } else {
    if (atomic_load(&pinned->child.references) == 1 || vyc__await_end(context)) {
      unlock(pinned);
      pinned->bytes = 0;
    }
    vyc__leave(context, &scope);
  }
  vyc__record_resume();
}

void vyc_pinned_release(vyc_pinned *pinned) {
  if (pinned == NULL) return;
  if (pinned->block == NULL && pinned->bytes != 0) unlock_early(pinned);
  vyc__pinned_drop(pinned);
}

static void destroy(vyc_child *child) {
  const vyc_pinned *pinned = (const vyc_pinned *)child;
  if (pinned->bytes != 0) unlock(pinned);
}

static void finish(vyc_child *child) {
  vyc__far_free(&((vyc_pinned *)child)->used.far);
  free(child);
}

static const vyc_child_kind registered_kind = {.destroy = destroy, .finish = finish};

/* The driver may give registered memory another device address; this library counts on one. */
static vyc_status check_address(vyc_context *context, void *data) {
  CUdeviceptr device = 0;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuMemHostGetDevicePointer, &device, data, 0));
  if (device == (CUdeviceptr)(uintptr_t)data) return VYC_OK;
  return vyc__fail(
      VYC_E_UNSUPPORTED, "host_pointer_for_registered_memory",
      "this device cannot use registered memory at its host address: use memory that this "
      "library page-locks");
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
                       "a range of %" PRIu64
                       " byte%s at %p overlaps memory that is page-locked already: "
                       "release that first",
                       bytes, VYC_S(bytes), data);
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

vyc_status vyc_pinned_register(vyc_pinned **pinned_out, vyc_context *context, void *data,
                               uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL && data != NULL);
  *pinned_out = NULL;
  vyc_pinned *pinned = calloc(1, sizeof *pinned);
  if (pinned == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = lock_in_place(pinned, context, data, bytes);
    if (status == VYC_OK) vyc__child_add(&pinned->child, context, &registered_kind);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free(pinned);
    return status;
  }
  *pinned_out = pinned;
  return VYC_OK;
}
