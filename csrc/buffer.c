/* Device and page-locked memory with an owner, and the copies between them.
 *
 * A buffer keeps in `used_on` which streams have work on it that nobody has waited for. Copies and
 * fills go on the context's own stream, after the buffer's other streams have been waited for. */
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"

/* ---- buffers -------------------------------------------------------------------------------- */

static void buffer_destroy(vyc_child *child) {
  vyc_buffer *buffer = (vyc_buffer *)child;
  vyc__pool_give(child->context, &child->context->device_pool, buffer->block,
                 atomic_load_explicit(&buffer->used_on, memory_order_acquire));
}

vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  *buffer_out = NULL;
  vyc_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = vyc__pool_take(context, &context->device_pool, &buffer->block, bytes);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free(buffer);
    return status;
  }
  buffer->address = buffer->block->address;
  buffer->bytes = bytes;
  vyc__child_add(&buffer->child, context, buffer_destroy, NULL);
  *buffer_out = buffer;
  return VYC_OK;
}

void vyc_buffer_release(vyc_buffer *buffer) {
  if (buffer != NULL) vyc__child_release(&buffer->child);
}

vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out) {
  VYC_REQUIRE(buffer != NULL && address_out != NULL);
  *address_out = buffer->address;
  return VYC_OK;
}

/* A recycled block's earlier owner may still use it on the main stream: the first stream that
 * takes it over from there is ordered behind. */
vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  vyc_context *context = buffer->child.context;
  VYC_CU_RESULT;
  if (slot != VYC_SLOT_MAIN && buffer->block->recycled) {
    CUevent event = NULL;
    VYC_TRY(VYC_CU(context, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
    vyc_status status = VYC_CU(context, cuEventRecord, event, context->main);
    if (status == VYC_OK)
      status = VYC_CU(context, cuStreamWaitEvent, stream, event, CU_EVENT_WAIT_DEFAULT);
    context->driver->cuEventDestroy(event);
    VYC_TRY(status);
  }
  atomic_fetch_or_explicit(&buffer->used_on, UINT64_C(1) << slot, memory_order_relaxed);
  return VYC_OK;
}

vyc_status vyc__buffer_wait(vyc_buffer *buffer, uint32_t except) {
  const uint64_t keep = UINT64_C(1) << except;
  uint64_t rest = atomic_load_explicit(&buffer->used_on, memory_order_acquire) & ~keep;
  while (VYC_UNLIKELY(rest != 0)) {
    const uint32_t slot = (uint32_t)__builtin_ctzll(rest);
    const uint64_t bit = UINT64_C(1) << slot;
    /* Cleared first: work given while we wait marks it again. */
    atomic_fetch_and_explicit(&buffer->used_on, ~bit, memory_order_acq_rel);
    VYC_TRY(vyc__slot_synchronize(buffer->child.context, slot));
    rest &= ~bit;
  }
  return VYC_OK;
}

/* ---- copies --------------------------------------------------------------------------------- */

static vyc_status check_range(const vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                              const char *operation) {
  if (VYC_LIKELY(offset <= buffer->bytes && bytes <= buffer->bytes - offset)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, operation,
                   "bytes [%" PRIu64 "..%" PRIu64 ") of a buffer of %" PRIu64 " bytes", offset,
                   offset + bytes, buffer->bytes);
}

/* Everything a transfer on the main stream needs of a buffer. */
static vyc_status prepare(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                          const char *operation) {
  VYC_TRY(check_range(buffer, offset, bytes, operation));
  VYC_TRY(vyc__buffer_wait(buffer, VYC_SLOT_MAIN));
  return vyc__buffer_use(buffer, buffer->child.context->main, VYC_SLOT_MAIN);
}

vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes) {
  VYC_REQUIRE(to != NULL && (data != NULL || bytes == 0));
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare(to, offset, bytes, "copy_in");
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuMemcpyHtoDAsync, to->address + offset, data, bytes, context->main);
  /* Pinned and large pageable sources are read after the call returns. */
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuStreamSynchronize, context->main);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_copy_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes) {
  VYC_REQUIRE(from != NULL && (data_out != NULL || bytes == 0));
  vyc_context *context = from->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare(from, offset, bytes, "copy_out");
  if (status == VYC_OK && bytes > 0)
    status =
        VYC_CU(context, cuMemcpyDtoHAsync, data_out, from->address + offset, bytes, context->main);
  if (status == VYC_OK) status = VYC_CU(context, cuStreamSynchronize, context->main);
  if (status == VYC_OK) status = vyc__check_reports(context);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from, uint64_t from_offset,
                    uint64_t bytes) {
  VYC_REQUIRE(to != NULL && from != NULL);
  if (to->child.context != from->child.context)
    return vyc__fail(VYC_E_INVALID, __func__, "the buffers belong to different devices");
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare(to, to_offset, bytes, "copy");
  if (status == VYC_OK) status = prepare(from, from_offset, bytes, "copy");
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuMemcpyDtoDAsync, to->address + to_offset,
                    from->address + from_offset, bytes, context->main);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes) {
  VYC_REQUIRE(to != NULL);
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare(to, offset, bytes, "fill_zero");
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuMemsetD8Async, to->address + offset, 0, bytes, context->main);
  vyc__leave(context, &scope);
  return status;
}

/* ---- page-locked memory --------------------------------------------------------------------- */

static void pinned_destroy(vyc_child *child) {
  vyc__pool_give(child->context, &child->context->pinned_pool, ((vyc_pinned *)child)->block,
                 0);
}

vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(pinned_out != NULL && context != NULL);
  *pinned_out = NULL;
  vyc_pinned *pinned = calloc(1, sizeof *pinned);
  if (pinned == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = vyc__pool_take(context, &context->pinned_pool, &pinned->block, bytes);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free(pinned);
    return status;
  }
  vyc__child_add(&pinned->child, context, pinned_destroy, NULL);
  *pinned_out = pinned;
  return VYC_OK;
}

void vyc_pinned_release(vyc_pinned *pinned) {
  if (pinned != NULL) vyc__child_release(&pinned->child);
}

vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out) {
  VYC_REQUIRE(pinned != NULL && data_out != NULL);
  *data_out = (void *)(uintptr_t)pinned->block->address;
  return VYC_OK;
}
