/* Streams of somebody else, used and never owned.
 *
 * Work goes straight to an adopted stream. A stream of ours is ordered behind each piece of it, and
 * stands for it in everything that waits: so nothing but a launch touches the handle, and its owner
 * may destroy it, or the driver hand the same number out again, at any time between launches. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>

#include "room.h"

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

vyc_status vyc__ask_capture(vyc_context *context, bool *captured_out, CUstream stream) {
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

vyc_status vyc__launch_stream_of(vyc_context *context, vyc_launch_stream *on_out,
                                 vyc_stream *stream) {
  if (VYC_LIKELY(stream == NULL)) {
    *on_out = (vyc_launch_stream){context->main, NULL, VYC_SLOT_MAIN, false};
    return VYC_OK;
  }
  if (stream->child.context != context)
    return vyc__fail(VYC_E_INVALID, "stream",
                     "the stream belongs to device %d: give one of device %d",
                     stream->child.context->caps.ordinal, context->caps.ordinal);
  *on_out = (vyc_launch_stream){stream->target, stream, stream->slot, false};
  return vyc__is_adopted(stream) ? vyc__ask_capture(context, &on_out->captured, stream->target)
                                 : VYC_OK;
}

vyc_status vyc__stream_of(vyc_context *context, CUstream *handle_out, uint32_t *slot_out,
                          vyc_stream *stream) {
  vyc_launch_stream on = {0};
  VYC_TRY(vyc__launch_stream_of(context, &on, stream));
  if (on.captured)
    return vyc__fail(
        VYC_E_INVALID, "stream",
        "the stream is being captured, and a call with host arrays cannot be captured: launch on "
        "device arrays, or give another stream");
  *handle_out = on.stream;
  *slot_out = on.slot;
  return VYC_OK;
}

/* If it fails, the work is in flight and nothing stands for it, so it is waited for here. If it
 * does not end, nobody can look for it later, because the handle belongs to its owner. */
vyc_status vyc__stream_order_owner(vyc_stream *stream) {
  if (VYC_LIKELY(!vyc__is_adopted(stream))) return VYC_OK;
  vyc_context *context = stream->child.context;
  const vyc_status status = vyc__stream_order(stream, stream->handle, stream->target);
  if (VYC_LIKELY(status == VYC_OK)) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  if (!vyc__stream_await_end(context, stream->target)) atomic_store(&context->strays, true);
  vyc__capture_restore(context->driver, mode);
  return status;
}

/* ---- streams -------------------------------------------------------------------------------- */

/* The driver refuses what is not a stream, as far as it can tell; it may refuse to answer for the
 * legacy stream while another one is captured. */
static vyc_status check_stream(vyc_context *context, CUstream target) {
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  if (target == CU_STREAM_LEGACY || target == CU_STREAM_PER_THREAD) return VYC_OK;
  const CUresult result = context->driver->cuStreamIsCapturing(target, &captured);
  if (result == CUDA_SUCCESS) return VYC_OK;
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
      result == CUDA_ERROR_INVALID_CONTEXT)
    return vyc__fail(VYC_E_INVALID, "vyc_stream_adopt",
                     "the handle 0x%" PRIx64 " is not a CUstream", (uint64_t)(uintptr_t)target);
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
