/* Device memory with an owner, and the copies to, from and between such buffers.
 *
 * A buffer keeps in `used_on` which streams have work on it that nobody has waited for. Copies and
 * fills go on the context's own stream, after the buffer's other streams have been waited for. */
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"

/* ---- buffers -------------------------------------------------------------------------------- */

static void buffer_destroy(vyc_child *child) {
  vyc_buffer *buffer = (vyc_buffer *)child;
  if (atomic_load(&buffer->exported) && atomic_load(&child->context->closed))
    return; /* buffer_finish frees it */
  vyc__pool_give(child->context, &child->context->device_pool, buffer->block,
                 atomic_load_explicit(&buffer->used_on, memory_order_acquire));
  buffer->block = NULL;
}

static void buffer_finish(vyc_child *child) {
  vyc_buffer *buffer = (vyc_buffer *)child;
  vyc_context *context = child->context;
  vyc_scope scope;
  if (VYC_UNLIKELY(atomic_load(&buffer->exported))) {
    if (buffer->block != NULL && vyc__enter_release(context, &scope)) {
      vyc__pool_remove(context, &context->device_pool, buffer->block);
      vyc__leave(context, &scope);
    }
    vyc__primary_release(context);
  }
  free(buffer);
}

vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  *buffer_out = NULL;
  vyc_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter_warm(context, &scope);
  if (status == VYC_OK) {
    status = vyc__pool_take(context, &context->device_pool, &buffer->block, bytes);
    if (status == VYC_OK) vyc__child_add(&buffer->child, context, buffer_destroy, buffer_finish);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free(buffer);
    return status;
  }
  buffer->child.is_warm = true;
  buffer->address = buffer->block->address;
  buffer->bytes = bytes;
  *buffer_out = buffer;
  return VYC_OK;
}

void vyc_buffer_release(vyc_buffer *buffer) {
  if (buffer != NULL) vyc__child_release(&buffer->child);
}

vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out) {
  VYC_REQUIRE(buffer != NULL && address_out != NULL);
  VYC_TRY(vyc__check_usable(buffer->child.context));
  *address_out = buffer->address;
  return VYC_OK;
}

/* The main stream may still work on the buffer, for its earlier owner when the block is recycled or
 * for this one: a stream that takes it over from there is ordered behind. */
vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  if (buffer->source != NULL) return vyc__foreign_before(buffer, stream);
  const uint64_t main_bit = UINT64_C(1) << VYC_SLOT_MAIN;
  const uint64_t used_on = atomic_load_explicit(&buffer->used_on, memory_order_relaxed);
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (slot != VYC_SLOT_MAIN && (recycled || (used_on & main_bit) != 0))
    VYC_TRY(vyc__stream_after_main(buffer->child.context, stream));
  atomic_fetch_or_explicit(&buffer->used_on, UINT64_C(1) << slot, memory_order_relaxed);
  return VYC_OK;
}

static vyc_status wait_for_slots(vyc_context *context, uint64_t slots) {
  for (; slots != 0; slots &= slots - 1)
    VYC_TRY(vyc__slot_finish(context, (uint32_t)__builtin_ctzll(slots), -1));
  return VYC_OK;
}

/* Marks are taken out of used_on before the wait, so that work given meanwhile marks again; until
 * the last waiter is through they stay in `waited`, where a second thread finds what it must wait
 * for as well. */
vyc_status vyc__buffer_wait(vyc_buffer *buffer, uint32_t except) {
  const uint64_t others = ~(UINT64_C(1) << except);
  if (VYC_LIKELY((atomic_load(&buffer->used_on) & others) == 0 &&
                 atomic_load(&buffer->waited) == 0))
    return VYC_OK;
  vyc_context *context = buffer->child.context;
  pthread_mutex_lock(&context->slots_lock);
  buffer->waiters++;
  atomic_fetch_or(&buffer->waited, atomic_load(&buffer->used_on) & others);
  const uint64_t slots = atomic_load(&buffer->waited);
  atomic_fetch_and(&buffer->used_on, ~slots);
  pthread_mutex_unlock(&context->slots_lock);
  const vyc_status status = wait_for_slots(context, slots);
  pthread_mutex_lock(&context->slots_lock);
  if (VYC_UNLIKELY(status != VYC_OK)) atomic_fetch_or(&buffer->used_on, slots);
  if (--buffer->waiters == 0) atomic_store(&buffer->waited, 0);
  pthread_mutex_unlock(&context->slots_lock);
  return status;
}

vyc_status vyc__buffer_settle(vyc_buffer *buffer) {
  vyc_context *context = buffer->child.context;
  const uint64_t used_on = atomic_load_explicit(&buffer->used_on, memory_order_acquire);
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (used_on == 0 && !recycled) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_status status = vyc__stream_finish(context, context->main, -1);
  if (status == VYC_OK) status = vyc__buffer_wait(buffer, VYC_SLOT_MAIN);
  vyc__capture_restore(context->driver, mode);
  return status;
}

/* ---- copies --------------------------------------------------------------------------------- */

static vyc_status check_range(const vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                              const char *operation) {
  if (VYC_LIKELY(offset <= buffer->bytes && bytes <= buffer->bytes - offset)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, operation,
                   "%" PRIu64 " bytes from byte %" PRIu64 " of a buffer of %" PRIu64 " bytes",
                   bytes, offset, buffer->bytes);
}

/* Everything a transfer on the main stream needs of a buffer. */
static vyc_status prepare(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                          const char *operation) {
  VYC_TRY(check_range(buffer, offset, bytes, operation));
  VYC_TRY(vyc__buffer_wait(buffer, VYC_SLOT_MAIN));
  return vyc__buffer_use(buffer, buffer->child.context->main, VYC_SLOT_MAIN);
}

static vyc_status prepare_written(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                                  const char *operation) {
  if (VYC_UNLIKELY(buffer->read_only))
    return vyc__fail(VYC_E_INVALID, operation, "the memory is read-only: its owner said so");
  return prepare(buffer, offset, bytes, operation);
}

/* Wait for a copy between the device and a caller's memory. When the wait fails the copy may still
 * touch that memory, so the device is waited for before the caller gets it back. */
static vyc_status finish_copy(vyc_context *context) {
  VYC_CU_RESULT;
  const vyc_status status = VYC_CU(context, cuStreamSynchronize, context->main);
  if (VYC_LIKELY(status == VYC_OK)) return VYC_OK;
  vyc_error failure;
  vyc__error_save(&failure);
  context->driver->cuCtxSynchronize();
  vyc__error_restore(&failure);
  return status;
}

vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes) {
  VYC_REQUIRE(to != NULL && (data != NULL || bytes == 0));
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare_written(to, offset, bytes, "copy_in");
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuMemcpyHtoDAsync, to->address + offset, data, bytes, context->main);
  /* Pinned and large pageable sources are read after the call returns. */
  if (status == VYC_OK && bytes > 0) status = finish_copy(context);
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
  if (status == VYC_OK) status = finish_copy(context);
  if (status == VYC_OK) status = vyc__check_reports(context);
  vyc__leave(context, &scope);
  return status;
}

static vyc_status copy_within(vyc_context *context, uint64_t to, uint64_t from, uint64_t bytes) {
  VYC_CU_RESULT;
  const uint64_t gap = to > from ? to - from : from - to;
  if (bytes == 0 || gap == 0) return VYC_OK;
  if (gap >= bytes) return VYC_CU(context, cuMemcpyDtoDAsync, to, from, bytes, context->main);
  vyc_block *block = NULL; /* the ranges overlap, which the driver does not allow */
  VYC_TRY(vyc__pool_take(context, &context->device_pool, &block, bytes));
  vyc_status status =
      VYC_CU(context, cuMemcpyDtoDAsync, block->address, from, bytes, context->main);
  if (status == VYC_OK)
    status = VYC_CU(context, cuMemcpyDtoDAsync, to, block->address, bytes, context->main);
  vyc__pool_give(context, &context->device_pool, block, 0);
  return status;
}

vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from, uint64_t from_offset,
                    uint64_t bytes) {
  VYC_REQUIRE(to != NULL && from != NULL);
  if (to->child.context != from->child.context)
    return vyc__fail(VYC_E_INVALID, __func__, "the buffers belong to different devices");
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare_written(to, to_offset, bytes, "copy");
  if (status == VYC_OK) status = prepare(from, from_offset, bytes, "copy");
  if (status == VYC_OK)
    status = copy_within(context, to->address + to_offset, from->address + from_offset, bytes);
  if (status == VYC_OK) status = vyc__foreign_after(to, context->main);
  if (status == VYC_OK) status = vyc__foreign_after(from, context->main);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes) {
  VYC_REQUIRE(to != NULL);
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare_written(to, offset, bytes, "fill_zero");
  if (status == VYC_OK && bytes > 0)
    status = VYC_CU(context, cuMemsetD8Async, to->address + offset, 0, bytes, context->main);
  if (status == VYC_OK) status = vyc__foreign_after(to, context->main);
  vyc__leave(context, &scope);
  return status;
}
