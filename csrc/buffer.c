/* Device memory with an owner. A buffer keeps in `used_on` which streams have work on it that
 * nobody has waited for. */
#include <stdlib.h>

#include "internal.h"

/* ---- buffers -------------------------------------------------------------------------------- */

static vyc_buffer *open_buffer(vyc_context *context, vyc_block *block, uint64_t bytes) {
  vyc_buffer *buffer = &block->as.buffer;
  buffer->child.context = vyc__context_retain(context);
  atomic_store_explicit(&buffer->child.references, 1, memory_order_relaxed);
  buffer->block = block;
  atomic_store_explicit(&buffer->exported, false, memory_order_relaxed);
  buffer->address = block->address;
  buffer->bytes = bytes;
  atomic_store_explicit(&buffer->used_on, 0, memory_order_relaxed);
  atomic_store_explicit(&buffer->waited, 0, memory_order_relaxed);
  buffer->waiters = 0;
  return buffer;
}

vyc_status vyc_buffer_try_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  vyc_block *block = vyc__magazine_take(context, &context->device_pool, bytes);
  *buffer_out = NULL;
  if (VYC_UNLIKELY(block == NULL)) return VYC_NOT_READY;
  vyc__count(context, resident_allocation_bytes_requested, bytes);
  *buffer_out = open_buffer(context, block, bytes);
  return VYC_OK;
}

vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  *buffer_out = NULL;
  vyc_scope scope;
  vyc_block *block = NULL;
  VYC_TRY(vyc__enter_warm(context, &scope));
  const vyc_status status = vyc__pool_take(context, &context->device_pool, &block, bytes);
  if (status == VYC_OK) {
    vyc__count(context, resident_allocation_bytes_requested, bytes);
    *buffer_out = open_buffer(context, block, bytes);
    block->has_handle = true;
  }
  vyc__leave(context, &scope);
  return status;
}

void vyc_buffer_release(vyc_buffer *buffer) {
  if (buffer == NULL) return;
  if (buffer->block == NULL) {
    vyc__child_release(&buffer->child);
    return;
  }
  vyc_context *context = buffer->child.context;
  if (!vyc__handle_drop(&buffer->child)) return;
  vyc__handle_give(context, &context->device_pool, buffer->block,
                   atomic_load_explicit(&buffer->used_on, memory_order_relaxed));
  vyc_context_release(context);
}

/* The last reference to a context closes it, which takes its time. */
static bool is_last_of_context(const vyc_context *context) {
  return atomic_load_explicit(&context->references, memory_order_relaxed) == 1;
}

vyc_status vyc_buffer_try_release(vyc_buffer *buffer) {
  if (buffer == NULL) return VYC_OK;
  uint32_t references = atomic_load_explicit(&buffer->child.references, memory_order_acquire);
  while (VYC_UNLIKELY(references > 1))
    if (atomic_compare_exchange_weak_explicit(&buffer->child.references, &references,
                                              references - 1, memory_order_release,
                                              memory_order_acquire))
      return VYC_OK;
  vyc_context *context = buffer->child.context;
  if (VYC_UNLIKELY(buffer->block == NULL || is_last_of_context(context))) return VYC_NOT_READY;
  const uint64_t used_on = atomic_load_explicit(&buffer->used_on, memory_order_relaxed);
  if (!vyc__handle_try_give(context, &context->device_pool, buffer->block, used_on))
    return VYC_NOT_READY;
  vyc_context_release(context);
  return VYC_OK;
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
  atomic_fetch_add(&context->marks_taken, 1);
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
