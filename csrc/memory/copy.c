/* Copies and fills of buffers, on the context's own stream, after waiting for the buffer's other
 * streams. */
#include <inttypes.h>

#include "room.h"

/* ---- counted --------------------------------------------------------------------------------- */

vyc_status vyc__copy_up(vyc_context *context, uint64_t to, const void *from, uint64_t bytes,
                        CUstream stream) {
  VYC_CU_RESULT;
  vyc__count(&context->counters, host_upload_operations, 1);
  vyc__count(&context->counters, host_to_device_bytes, bytes);
  return VYC_CU(context, cuMemcpyHtoDAsync, to, from, bytes, stream);
}

vyc_status vyc__copy_back(vyc_context *context, void *to, uint64_t from, uint64_t bytes,
                          CUstream stream) {
  VYC_CU_RESULT;
  vyc__count(&context->counters, device_readback_operations, 1);
  vyc__count(&context->counters, device_to_host_bytes, bytes);
  return VYC_CU(context, cuMemcpyDtoHAsync, to, from, bytes, stream);
}

vyc_status vyc__copy_within(vyc_context *context, uint64_t to, uint64_t from, uint64_t bytes,
                            CUstream stream) {
  VYC_CU_RESULT;
  vyc__count(&context->counters, device_copy_operations, 1);
  vyc__count(&context->counters, device_to_device_bytes, bytes);
  return VYC_CU(context, cuMemcpyDtoDAsync, to, from, bytes, stream);
}

vyc_status vyc__fill_bytes(vyc_context *context, uint64_t to, uint8_t value, uint64_t bytes,
                           CUstream stream) {
  VYC_CU_RESULT;
  vyc__count(&context->counters, fill_operations, 1);
  vyc__count(&context->counters, fill_bytes, bytes);
  return VYC_CU(context, cuMemsetD8Async, to, value, bytes, stream);
}

vyc_status vyc__clear(vyc_context *context, uint64_t to, uint64_t bytes, CUstream stream) {
  return vyc__fill_bytes(context, to, 0, bytes, stream);
}

/* ---- checks ---------------------------------------------------------------------------------- */

vyc_status vyc__check_range(const vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                            const char *operation) {
  if (VYC_LIKELY(offset <= buffer->bytes && bytes <= buffer->bytes - offset)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, operation,
                   "a range of %" PRIu64 " byte%s from byte %" PRIu64
                   " does not fit in a buffer of %" PRIu64 " byte%s",
                   bytes, VYC_S(bytes), offset, buffer->bytes, VYC_S(buffer->bytes));
}

vyc_status vyc__check_writable(const vyc_buffer *buffer, const char *operation) {
  if (VYC_LIKELY(!buffer->read_only)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, operation,
                   "the memory is read-only, as declared by its owner: write to a copy of it");
}

static vyc_status mark_main(vyc_buffer *buffer) {
  if (VYC_LIKELY((atomic_load(&buffer->used_on) & UINT64_C(1) << VYC_SLOT_MAIN) != 0))
    return VYC_OK;
  return vyc__buffer_first_use(buffer, buffer->child.context->main, VYC_SLOT_MAIN);
}

vyc_status vyc__copy_prepare(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                             const char *operation) {
  VYC_TRY(vyc__check_range(buffer, offset, bytes, operation));
  VYC_TRY(mark_main(buffer));
  return vyc__buffer_wait(buffer);
}

vyc_status vyc__copy_enqueued(vyc_buffer *buffer) {
  if (VYC_LIKELY(buffer->source == NULL))
    VYC_TRY(mark_main(buffer)); /* if it was taken in the meantime */
  VYC_TRY(vyc__adopted_after(buffer, buffer->child.context->main));
  return vyc__buffer_wait(buffer);
}

vyc_status vyc__copy_prepare_written(vyc_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     const char *operation) {
  VYC_TRY(vyc__check_writable(buffer, operation));
  return vyc__copy_prepare(buffer, offset, bytes, operation);
}

vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes) {
  VYC_REQUIRE(to != NULL && (data != NULL || bytes == 0));
  const vyc_transfer one = {.buffer = to, .offset = offset, .bytes = bytes, .data = data};
  return vyc_upload(to->child.context, &one, 1);
}

vyc_status vyc_copy_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes) {
  VYC_REQUIRE(from != NULL && (data_out != NULL || bytes == 0));
  const vyc_transfer one = {.buffer = from, .offset = offset, .bytes = bytes, .result = data_out};
  return vyc_download(from->child.context, &one, 1);
}

static vyc_status move(vyc_context *context, uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t gap = to > from ? to - from : from - to;
  if (bytes == 0 || gap == 0) return VYC_OK;
  if (gap >= bytes) return vyc__copy_within(context, to, from, bytes, context->main);
  vyc_block *block = NULL; /* the ranges overlap, which the driver does not support */
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &block, bytes));
  vyc_status status = vyc__copy_within(context, block->address, from, bytes, context->main);
  if (status == VYC_OK)
    status = vyc__copy_within(context, to, block->address, bytes, context->main);
  vyc__pool_give(context, vyc__device_pool(context), block, 0);
  return status;
}

/* Between contexts: the driver's copy runs in call order of `to`'s. */
static vyc_status move_across(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                              uint64_t from_offset, uint64_t bytes) {
  vyc_context *context = to->child.context, *other = from->child.context;
  const uint64_t a = to->address + to_offset, b = from->address + from_offset;
  if (bytes == 0 || a == b) return VYC_OK;
  if ((a > b ? a - b : b - a) < bytes)
    return vyc__fail(VYC_E_INVALID, "copy", "the ranges overlap: copy within one device");
  VYC_TRY(vyc__peer_before(from, context, context->main));
  vyc__count(&context->counters, device_copy_operations, 1);
  vyc__count(&context->counters, device_to_device_bytes, bytes);
  VYC_CU_RESULT;
  const vyc_status status = VYC_CU(context, cuMemcpyPeerAsync, a, context->handle, b, other->handle,
                                   bytes, context->main);
  const vyc_status after = vyc__peer_after(from, context, context->main);
  return status == VYC_OK ? after : status;
}

static vyc_status copy_across(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                              uint64_t from_offset, uint64_t bytes) {
  vyc_context *context = to->child.context, *other = from->child.context;
  if (context->driver->library != other->driver->library)
    return vyc__fail(VYC_E_INVALID, "copy",
                     "the buffers belong to two drivers: copy by way of host memory");
  VYC_TRY(vyc__check_range(from, from_offset, bytes, "copy"));
  VYC_TRY(vyc__check_usable(other));
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc__peer_reach(context, other);
  vyc_status status = vyc__copy_prepare_written(to, to_offset, bytes, "copy");
  if (status == VYC_OK) status = move_across(to, to_offset, from, from_offset, bytes);
  if (status == VYC_OK) status = vyc__copy_enqueued(to);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from, uint64_t from_offset,
                    uint64_t bytes) {
  VYC_REQUIRE(to != NULL && from != NULL);
  if (to->child.context != from->child.context)
    return copy_across(to, to_offset, from, from_offset, bytes);
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = vyc__copy_prepare_written(to, to_offset, bytes, "copy");
  if (status == VYC_OK) status = vyc__copy_prepare(from, from_offset, bytes, "copy");
  if (status == VYC_OK)
    status = move(context, to->address + to_offset, from->address + from_offset, bytes);
  if (status == VYC_OK) status = vyc__copy_enqueued(to);
  if (status == VYC_OK) status = vyc__copy_enqueued(from);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes) {
  VYC_REQUIRE(to != NULL);
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = vyc__copy_prepare_written(to, offset, bytes, "fill_zero");
  if (status == VYC_OK && bytes > 0)
    status = vyc__clear(context, to->address + offset, bytes, context->main);
  if (status == VYC_OK) status = vyc__copy_enqueued(to);
  vyc__leave(context, &scope);
  return status;
}
