/* Filling a part of a buffer with one element, in call order as copies are. */
#include "room.h"

vyc_status vyc__fill_elements(vyc_context *context, uint64_t to, uint32_t value,
                              uint32_t element_bytes, uint64_t bytes, CUstream stream) {
  VYC_CU_RESULT;
  vyc__count(&context->counters, fill_operations, 1);
  vyc__count(&context->counters, fill_bytes, bytes);
  if (element_bytes == 1)
    return VYC_CU(context, cuMemsetD8Async, to, (unsigned char)value, bytes, stream);
  if (element_bytes == 2)
    return VYC_CU(context, cuMemsetD16Async, to, (unsigned short)value, bytes / 2, stream);
  return VYC_CU(context, cuMemsetD32Async, to, value, bytes / 4, stream);
}

static vyc_status fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes,
                       uint64_t bytes) {
  vyc_context *context = to->child.context;
  VYC_TRY(vyc__copy_prepare_written(to, offset, bytes, "fill"));
  if (bytes == 0) return VYC_OK;
  return vyc__fill_elements(context, to->address + offset, value, element_bytes, bytes,
                            context->main);
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
