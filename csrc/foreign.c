/* Streams and memory of somebody else, used and never owned.
 *
 * Work goes straight to an adopted stream. A stream of ours is ordered behind each piece of it, and
 * stands for it in everything that waits: so nothing but a launch touches the handle, and its owner
 * may destroy it, or the driver hand the same number out again, at any time between launches.
 * Adopted memory needs no marks of its own: its source stream is ordered behind every use here, and
 * every use behind the source. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>

#include "plan.h"

/* ---- order ---------------------------------------------------------------------------------- */

vyc_status vyc__stream_order(vyc_stream *stream, CUstream later, CUstream earlier) {
  if (later == earlier) return VYC_OK;
  vyc_context *context = stream->child.context;
  if (VYC_UNLIKELY(stream->scratch == NULL)) return vyc__stream_after(context, later, earlier);
  VYC_CU_RESULT;
  vyc__claim_take(&stream->ordering);
  vyc_status status = VYC_CU(context, cuEventRecord, stream->scratch, earlier);
  if (status == VYC_OK)
    status = VYC_CU(context, cuStreamWaitEvent, later, stream->scratch, CU_EVENT_WAIT_DEFAULT);
  vyc__claim_drop(&stream->ordering);
  return status;
}

static vyc_status ask_capture(vyc_context *context, bool *captured_out, CUstream stream) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = context->driver->cuStreamIsCapturing(stream, &capture);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) {
    *captured_out = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return VYC_OK;
  }
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return vyc__fail_driver(
        VYC_E_DRIVER, "cuStreamIsCapturing", (int32_t)result,
        vyc__driver_result_name(context->driver, result),
        "the legacy default stream cannot be used while a stream that synchronizes with it is "
        "being captured: give the stream of the capture, or wait until it has ended");
  return vyc__driver_failed(context, result, "cuStreamIsCapturing");
}

vyc_status vyc__place_of(vyc_context *context, vyc_place *place_out, vyc_stream *stream) {
  if (VYC_LIKELY(stream == NULL)) {
    *place_out = (vyc_place){context->main, NULL, VYC_SLOT_MAIN, false};
    return VYC_OK;
  }
  if (stream->child.context != context)
    return vyc__fail(VYC_E_INVALID, "stream", "the stream belongs to another device");
  *place_out = (vyc_place){stream->target, stream, stream->slot, false};
  return vyc__is_adopted(stream) ? ask_capture(context, &place_out->captured, stream->target)
                                 : VYC_OK;
}

/* When it fails the work is in flight and nobody would wait for it: it is waited for here. What
 * does not end nobody can look for later, because the handle is its owner's. */
vyc_status vyc__stream_given(vyc_stream *stream) {
  if (VYC_LIKELY(!vyc__is_adopted(stream))) return VYC_OK;
  vyc_context *context = stream->child.context;
  const vyc_status status = vyc__stream_order(stream, stream->handle, stream->target);
  if (VYC_LIKELY(status == VYC_OK)) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  if (!vyc__stream_settle(context, stream->target)) atomic_store(&context->strays, true);
  vyc__capture_restore(context->driver, mode);
  return status;
}

vyc_status vyc__foreign_before(vyc_buffer *buffer, CUstream stream) {
  vyc_stream *source = buffer->source;
  if (source == NULL || source->target == stream) return VYC_OK;
  bool captured = false;
  if (vyc__is_adopted(source))
    VYC_TRY(ask_capture(buffer->child.context, &captured, source->target));
  if (captured)
    return vyc__fail(VYC_E_INVALID, "stream",
                     "an array of another library belongs to the stream 0x%" PRIxPTR
                     ", which is being captured: work on it must be given to that stream",
                     (uintptr_t)source->target);
  return vyc__stream_order(source, stream, source->target);
}

vyc_status vyc__foreign_after(vyc_buffer *buffer, CUstream stream) {
  vyc_stream *source = buffer->source;
  if (VYC_LIKELY(source == NULL || source->target == stream)) return VYC_OK;
  return vyc__stream_order(source, source->target, stream);
}

/* Arguments of one owner mostly have one source: it is ordered once. */
static bool is_repeated(const vyc_run *run, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (run->arguments[j].kind == VYC_ARGUMENT_BUFFER &&
        run->arguments[j].buffer->source == run->arguments[i].buffer->source)
      return true;
  return false;
}

vyc_status vyc__run_given(const vyc_run *run, CUstream stream) {
  vyc_status status = vyc__stream_given(run->stream);
  for (uint32_t i = 0; status == VYC_OK && i < run->argument_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (argument->kind != VYC_ARGUMENT_BUFFER) continue;
    if (VYC_UNLIKELY(argument->buffer->source != NULL) && !is_repeated(run, i))
      status = vyc__foreign_after(argument->buffer, stream);
  }
  return status;
}

/* ---- streams -------------------------------------------------------------------------------- */

/* What is no stream the driver refuses, as far as it can tell; the legacy stream it may not answer
 * for while another one is captured. */
static vyc_status check_stream(vyc_context *context, CUstream target) {
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  if (target == CU_STREAM_LEGACY || target == CU_STREAM_PER_THREAD) return VYC_OK;
  const CUresult result = context->driver->cuStreamIsCapturing(target, &captured);
  if (result == CUDA_SUCCESS) return VYC_OK;
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
      result == CUDA_ERROR_INVALID_CONTEXT)
    return vyc__fail(VYC_E_INVALID, "vyc_stream_adopt", "the handle 0x%" PRIx64 " is no CUstream",
                     (uint64_t)(uintptr_t)target);
  return vyc__driver_failed(context, result, "cuStreamIsCapturing");
}

static vyc_status adopt(vyc_stream **stream_out, vyc_context *context, CUstream target) {
  CUevent scratch = NULL;
  VYC_CU_RESULT;
  VYC_TRY(check_stream(context, target));
  VYC_TRY(VYC_CU(context, cuEventCreate, &scratch, CU_EVENT_DISABLE_TIMING));
  const vyc_status status = vyc__stream_make(stream_out, context, target, scratch);
  if (status == VYC_OK) {
    /* Another thread may have adopted it meanwhile: the older one is everybody's. */
    vyc_stream *older = vyc__stream_known(context, target, *stream_out);
    if (older == NULL) return VYC_OK;
    vyc_stream_release(*stream_out);
    *stream_out = older;
    return VYC_OK;
  }
  vyc_error failure;
  vyc__error_save(&failure);
  context->driver->cuEventDestroy(scratch);
  vyc__error_restore(&failure);
  return status;
}

vyc_status vyc_stream_adopt(vyc_stream **stream_out, vyc_context *context, uint64_t handle) {
  VYC_REQUIRE(stream_out != NULL && context != NULL);
  *stream_out = NULL;
  const CUstream target = handle == 0 ? CU_STREAM_LEGACY : (CUstream)(uintptr_t)handle;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_OK;
  *stream_out = vyc__stream_known(context, target, NULL); /* adopted before, or of this library */
  if (*stream_out == NULL) status = adopt(stream_out, context, target);
  vyc__leave(context, &scope);
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
    vyc__child_add(&buffer->child, context, buffer_destroy, buffer_finish);
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

vyc_status vyc__stream_after_slot(vyc_context *context, CUstream later, uint32_t slot) {
  if (slot == VYC_SLOT_MAIN) return vyc__stream_after_main(context, later);
  vyc_stream *stream = vyc__slot_hold(context, slot);
  if (stream == NULL) return vyc__slot_finish(context, slot, -1);
  const vyc_status status =
      stream->target == later ? VYC_OK : vyc__stream_after(context, later, stream->handle);
  vyc__slot_let_go(stream);
  return status;
}

static vyc_status order(vyc_buffer *buffer, const vyc_place *place) {
  vyc_context *context = buffer->child.context;
  /* A capture can be ordered behind nothing outside of it: the work is waited for instead. */
  if (place->captured) return vyc__buffer_settle(buffer);
  if (buffer->source != NULL) return vyc__foreign_before(buffer, place->stream);
  const uint64_t marks = vyc__buffer_marks(buffer);
  VYC_EACH_SLOT(slot, marks, &buffer->far)
  VYC_TRY(vyc__stream_after_slot(context, place->stream, slot));
  if (buffer->block != NULL && buffer->block->recycled)
    return vyc__stream_after_main(context, place->stream);
  return VYC_OK;
}

vyc_status vyc_buffer_order(vyc_buffer *buffer, vyc_stream *stream) {
  VYC_REQUIRE(buffer != NULL);
  vyc_context *context = buffer->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_place place = {0};
  vyc_status status = vyc__place_of(context, &place, stream);
  if (status == VYC_OK) status = order(buffer, &place);
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

vyc_status vyc_context_stream(vyc_context *context, uint64_t *handle_out) {
  VYC_REQUIRE(context != NULL && handle_out != NULL);
  VYC_TRY(vyc__check_usable(context));
  *handle_out = (uint64_t)(uintptr_t)context->main;
  return VYC_OK;
}
