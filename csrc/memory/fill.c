/* Filling a part of a buffer with one element, in call order as copies are. */
#include "room.h"

static vyc_status fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes,
                       uint64_t bytes) {
  vyc_context *context = to->child.context;
  const uint64_t address = to->address + offset;
  VYC_CU_RESULT;
  VYC_TRY(vyc__copy_prepare_written(to, offset, bytes, "fill"));
  if (bytes == 0) return VYC_OK;
  vyc__count(&context->counters, fill_operations, 1);
  vyc__count(&context->counters, fill_bytes, bytes);
  if (element_bytes == 1)
    return VYC_CU(context, cuMemsetD8Async, address, (unsigned char)value, bytes, context->main);
  if (element_bytes == 2)
    return VYC_CU(context, cuMemsetD16Async, address, (unsigned short)value, bytes / 2,
                  context->main);
  return VYC_CU(context, cuMemsetD32Async, address, value, bytes / 4, context->main);
}

vyc_status vyc_fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes,
                    uint64_t bytes) {
  VYC_REQUIRE(to != NULL);
  VYC_REQUIRE(element_bytes == 1 || element_bytes == 2 || element_bytes == 4);
  VYC_REQUIRE(offset % element_bytes == 0 && bytes % element_bytes == 0);
  vyc_scope scope;
  VYC_TRY(vyc__enter(to->child.context, &scope));
  vyc_status status = fill(to, offset, value, element_bytes, bytes);
  if (status == VYC_OK) status = vyc__copy_enqueued(to);
  vyc__leave(to->child.context, &scope);
  return status;
}
