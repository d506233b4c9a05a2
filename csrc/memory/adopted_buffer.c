/* Memory of others, which is used but never owned. It needs no marks of its own: its source stream
 * is ordered after every use here, and every use after the source. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>

#include "room.h"

/* ---- order ---------------------------------------------------------------------------------- */

vyc_status vyc__adopted_before(vyc_buffer *buffer, CUstream stream) {
  vyc_stream *source = buffer->source;
  if (VYC_UNLIKELY(buffer->peer != NULL))
    return vyc__peer_before(buffer->peer, buffer->child.context, stream);
  if (source == NULL || source->target == stream) return VYC_OK;
  bool captured = false;
  if (vyc__is_adopted(source))
    VYC_TRY(vyc__ask_capture(buffer->child.context, &captured, source->target));
  if (captured)
    return vyc__fail(VYC_E_INVALID, "stream",
                     "another library's array belongs to the stream 0x%" PRIxPTR
                     ", which is being captured: give work on it to that stream",
                     (uintptr_t)source->target);
  return vyc__stream_order(source, stream, source->target);
}

vyc_status vyc__adopted_after(vyc_buffer *buffer, CUstream stream) {
  vyc_stream *source = buffer->source;
  if (VYC_LIKELY(source == NULL)) return VYC_OK;
  if (VYC_UNLIKELY(buffer->peer != NULL))
    return vyc__peer_after(buffer->peer, buffer->child.context, stream);
  if (source->target == stream) return VYC_OK;
  return vyc__stream_order(source, source->target, stream);
}

/* Arguments of one owner usually have the same source, which is ordered only once; those in memory
 * of another device have one each. */
static bool is_repeated(const vyc_run *run, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (run->arguments[j].kind == VYC_ARGUMENT_BUFFER &&
        run->arguments[j].buffer->source == run->arguments[i].buffer->source)
      return true;
  return false;
}

vyc_status vyc__run_order_owners(const vyc_run *run, CUstream stream) {
  vyc_status status = vyc__stream_order_owner(run->stream);
  for (uint32_t i = 0; status == VYC_OK && i < run->argument_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (argument->kind != VYC_ARGUMENT_BUFFER) continue;
    if (VYC_UNLIKELY(argument->buffer->source != NULL) && !is_repeated(run, i))
      status = vyc__adopted_after(argument->buffer, stream);
  }
  return status;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void buffer_destroy(vyc_child *child) { (void)child; }

static void buffer_finish(vyc_child *child) {
  vyc_buffer *buffer = (vyc_buffer *)child;
  vyc_stream_release(buffer->source);
  vyc__far_free(&buffer->far);
  if (buffer->drop != NULL) vyc__host_drop(buffer->drop, buffer->owner);
  free(buffer);
}

static const vyc_child_kind adopted_kind = {.destroy = buffer_destroy, .finish = buffer_finish};

static vyc_status check_address(vyc_context *context, uint64_t address) {
  int ordinal = -1;
  unsigned type = 0;
  const vyc_driver *driver = context->driver;
  CUresult result = driver->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                  (CUdeviceptr)address);
  if (result == CUDA_SUCCESS)
    result = driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                           (CUdeviceptr)address);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
    return vyc__driver_failed(context, result, "cuPointerGetAttribute");
  if (result != CUDA_SUCCESS || type == CU_MEMORYTYPE_HOST)
    return vyc__fail(VYC_E_INVALID, "adopt", "address 0x%" PRIx64 " is not device memory", address);
  if (ordinal != context->caps.ordinal)
    return vyc__fail(VYC_E_INVALID, "adopt",
                     "address 0x%" PRIx64 " is memory of device %d, not of device %d", address,
                     ordinal, context->caps.ordinal);
  return VYC_OK;
}

vyc_status vyc_buffer_adopt(vyc_buffer **buffer_out, vyc_context *context,
                            const vyc_foreign_memory *memory) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL);
  *buffer_out = NULL;
  VYC_REQUIRE(memory != NULL && memory->struct_size >= sizeof *memory);
  VYC_REQUIRE((memory->flags & ~(uint32_t)VYC_FOREIGN_READ_ONLY) == 0);
  VYC_REQUIRE(memory->source == NULL || memory->source->child.context == context);
  VYC_REQUIRE(memory->address <= UINT64_MAX - memory->bytes);
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context, &scope));
  vyc_status status = VYC_OK;
  if (memory->bytes > 0) status = check_address(context, memory->address);
  if (status == VYC_OK && memory->bytes > 1)
    status = check_address(context, memory->address + memory->bytes - 1);
  vyc_buffer *buffer = status == VYC_OK ? calloc(1, sizeof *buffer) : NULL;
  if (status == VYC_OK && buffer == NULL)
    status = vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  if (status == VYC_OK) {
    atomic_init(&buffer->epoch, atomic_load(&context->epoch));
    buffer->address = memory->address;
    buffer->bytes = memory->bytes;
    buffer->source = memory->source;
    if (buffer->source != NULL) vyc__child_retain(&buffer->source->child);
    buffer->drop = memory->drop;
    buffer->owner = memory->owner;
    buffer->read_only = (memory->flags & VYC_FOREIGN_READ_ONLY) != 0;
    vyc__child_add(&buffer->child, context, &adopted_kind);
    buffer->child.is_warm = true;
    *buffer_out = buffer;
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_buffer_is_read_only(vyc_buffer *buffer, uint32_t *read_only_out) {
  VYC_REQUIRE(buffer != NULL && read_only_out != NULL);
  *read_only_out = buffer->read_only;
  return VYC_OK;
}

/* ---- for other libraries -------------------------------------------------------------------- */

static vyc_status order(vyc_buffer *buffer, const vyc_launch_stream *on) {
  vyc_context *context = buffer->child.context;
  /* A capture cannot be ordered after work outside of it, so this waits for the work. */
  if (on->captured) return vyc__buffer_await_end(buffer);
  if (buffer->source != NULL) return vyc__adopted_before(buffer, on->stream);
  const uint64_t marks = vyc__buffer_marks(buffer);
  VYC_EACH_SLOT(slot, marks, &buffer->far)
  VYC_TRY(vyc__stream_after_slot(context, on->stream, slot));
  if (buffer->block != NULL && buffer->block->recycled)
    return vyc__stream_after_main(context, on->stream);
  return VYC_OK;
}

vyc_status vyc_buffer_order(vyc_buffer *buffer, vyc_stream *stream) {
  VYC_REQUIRE(buffer != NULL);
  vyc_context *context = buffer->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_launch_stream on = {0};
  vyc_status status = vyc__launch_stream_of(context, &on, stream);
  if (status == VYC_OK) status = order(buffer, &on);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_buffer_export(vyc_buffer *buffer) {
  VYC_REQUIRE(buffer != NULL);
  vyc_context *context = buffer->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context, &scope));
  vyc__child_retain(&buffer->child);
  atomic_store(&buffer->exported, true);
  vyc__leave(context, &scope);
  return VYC_OK;
}
