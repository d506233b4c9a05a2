/* Device memory with an owner. */
#include <stdlib.h>

#include "room.h"

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
  atomic_store_explicit(&buffer->taken, 0, memory_order_relaxed);
  atomic_store_explicit(&buffer->epoch, atomic_load_explicit(&context->epoch, memory_order_relaxed),
                        memory_order_relaxed);
  return buffer; /* no comers or waiters are counted in it: those of an earlier owner have left */
}

vyc_status vyc_buffer_try_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  vyc_block *block = vyc__magazine_take(context, vyc__device_pool(context), bytes);
  *buffer_out = NULL;
  if (VYC_UNLIKELY(block == NULL)) return VYC_NOT_READY;
  vyc__count(&context->counters, resident_allocation_bytes_requested, bytes);
  *buffer_out = open_buffer(context, block, bytes);
  return VYC_OK;
}

static vyc_status alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  vyc_scope scope;
  vyc_block *block = NULL;
  VYC_TRY(vyc__enter_warm(context, &scope));
  const vyc_status status = vyc__pool_take(context, vyc__device_pool(context), &block, bytes);
  if (status == VYC_OK) {
    vyc__count(&context->counters, resident_allocation_bytes_requested, bytes);
    vyc__far_clear(
        &block->as.buffer.far); /* a block from a magazine has no far words of an earlier owner */
    *buffer_out = open_buffer(context, block, bytes);
    block->has_handle = true;
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  *buffer_out = NULL;
  const vyc_status status = alloc(buffer_out, context, bytes);
  if (VYC_LIKELY(status != VYC_E_MEMORY) || !vyc__holds_reap(context)) return status;
  return alloc(buffer_out, context, bytes);
}

void vyc_buffer_release(vyc_buffer *buffer) {
  if (buffer == NULL) return;
  if (buffer->block == NULL) {
    vyc__child_release(&buffer->child);
    return;
  }
  vyc_context *context = buffer->child.context;
  if (!vyc__handle_drop(&buffer->child)) return;
  vyc__handle_give(context, vyc__device_pool(context), buffer->block, vyc__buffer_marks(buffer),
                   &buffer->far);
  vyc__context_release(context);
}

vyc_status vyc_buffer_try_release(vyc_buffer *buffer) {
  if (buffer == NULL || vyc__child_drop_shared(&buffer->child)) return VYC_OK;
  vyc_context *context = buffer->child.context;
  if (VYC_UNLIKELY(buffer->block == NULL || vyc__is_last_of_context(context))) return VYC_NOT_READY;
  if (!vyc__handle_try_give(context, vyc__device_pool(context), buffer->block,
                            vyc__buffer_marks(buffer)))
    return VYC_NOT_READY;
  vyc__context_release(context);
  return VYC_OK;
}

vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out) {
  VYC_REQUIRE(buffer != NULL && address_out != NULL);
  VYC_TRY(vyc__check_usable(buffer->child.context));
  *address_out = buffer->address;
  return VYC_OK;
}

/* Marks are kept: the copy for which this waits takes them. */
vyc_status vyc_buffer_synchronize_for(vyc_buffer *buffer, uint32_t host, int64_t timeout_ns) {
  VYC_REQUIRE(buffer != NULL);
  vyc_context *context = buffer->child.context;
  const uint64_t main_bit = UINT64_C(1) << VYC_SLOT_MAIN;
  uint64_t slots = vyc__buffer_marks(buffer);
  slots = host != 0 ? slots | main_bit : slots & ~main_bit;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc__scope_rest(&scope);
  const vyc_status status = vyc__slots_finish(context, slots, &buffer->far, timeout_ns);
  vyc__scope_go_on(&scope);
  vyc__leave(context, &scope);
  return status;
}
