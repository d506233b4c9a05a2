/* Copies and fills in the order of a stream, without a wait.
 *
 * They use their buffers as a launch does: each is marked, and ordered behind what copies did to it
 * in call order (marks.c). Page-locked memory knows the stream, so that it is reused behind the
 * copy. */
#include <inttypes.h>

#include "room.h"

/* What a copy has to do with a stream, besides the driver call itself. */
typedef struct stream_copy {
  vyc_stream *stream;
  vyc_buffer *to, *from; /* NULL: page-locked memory, or no source */
  vyc_pinned *pinned;    /* or NULL */
  const char *operation;
} stream_copy;

static vyc_status check_pinned(const vyc_pinned *pinned, uint64_t offset, uint64_t bytes,
                               const char *operation) {
  if (VYC_LIKELY(offset <= pinned->bytes && bytes <= pinned->bytes - offset)) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, operation,
                   "a range of %" PRIu64 " byte%s from byte %" PRIu64
                   " does not fit in page-locked memory of %" PRIu64 " byte%s",
                   bytes, VYC_S(bytes), offset, pinned->bytes, VYC_S(pinned->bytes));
}

static vyc_status check_contexts(const stream_copy *copy) {
  const vyc_context *context = copy->stream->child.context;
  if ((copy->to == NULL || copy->to->child.context == context) &&
      (copy->from == NULL || copy->from->child.context == context) &&
      (copy->pinned == NULL || copy->pinned->child.context == context))
    return VYC_OK;
  return vyc__fail(
      VYC_E_INVALID, copy->operation,
      "the stream and the memory belong to different devices: give a stream of the memory's");
}

static vyc_status prepare(const stream_copy *copy, vyc_launch_stream *on_out) {
  VYC_TRY(vyc__launch_stream_of(copy->stream->child.context, on_out, copy->stream));
  if (on_out->captured)
    return vyc__fail(VYC_E_INVALID, copy->operation,
                     "the stream is being captured: record the copy with vyc_graph_add_transfer");
  if (copy->to != NULL) VYC_TRY(vyc__check_writable(copy->to, copy->operation));
  if (copy->to != NULL) VYC_TRY(vyc__buffer_use(copy->to, on_out->stream, on_out->slot));
  if (copy->from != NULL) VYC_TRY(vyc__buffer_use(copy->from, on_out->stream, on_out->slot));
  return copy->pinned == NULL ? VYC_OK : vyc__pinned_use(copy->pinned, on_out->slot);
}

/* As after a launch on the stream. */
static vyc_status enqueued(const stream_copy *copy, const vyc_launch_stream *on, uint32_t taken) {
  vyc_argument arguments[2] = {{.kind = VYC_ARGUMENT_BUFFER}, {.kind = VYC_ARGUMENT_BUFFER}};
  uint32_t count = 0;
  if (copy->to != NULL) arguments[count++].buffer = copy->to;
  if (copy->from != NULL) arguments[count++].buffer = copy->from;
  const vyc_run run = {.argument_count = count, .arguments = arguments, .stream = copy->stream};
  return vyc__run_enqueued(copy->stream->child.context, &run, on->stream, on->slot, taken);
}

/* The driver call: `value` and `element_bytes` of a fill, else `source`. */
typedef struct driver_copy {
  uint64_t to;     /* address */
  uint64_t source; /* address */
  uint64_t bytes;
  uint32_t value, element_bytes;
} driver_copy;

static vyc_status give(const stream_copy *copy, const driver_copy *call, CUstream stream) {
  vyc_context *context = copy->stream->child.context;
  if (copy->from == NULL && copy->pinned == NULL)
    return vyc__fill_elements(context, call->to, call->value, call->element_bytes, call->bytes,
                              stream);
  if (copy->from == NULL)
    return vyc__copy_up(context, call->to, (const void *)(uintptr_t)call->source, call->bytes,
                        stream);
  if (copy->to == NULL)
    return vyc__copy_back(context, (void *)(uintptr_t)call->to, call->source, call->bytes, stream);
  return vyc__copy_within(context, call->to, call->source, call->bytes, stream);
}

/* The ranges have been checked. */
static vyc_status run_copy(const stream_copy *copy, const driver_copy *call) {
  vyc_context *context = copy->stream->child.context;
  vyc_launch_stream on;
  vyc_scope scope;
  VYC_TRY(check_contexts(copy));
  VYC_TRY(vyc__enter_warm(context, &scope));
  const uint32_t taken = vyc__marks_taken(context);
  vyc_status status = prepare(copy, &on);
  if (status == VYC_OK && call->bytes > 0) {
    status = give(copy, call, on.stream);
    if (status == VYC_OK) status = enqueued(copy, &on, taken);
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_stream_copy_in(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset,
                              vyc_pinned *from, uint64_t from_offset, uint64_t bytes) {
  VYC_REQUIRE(stream != NULL && to != NULL && from != NULL);
  VYC_TRY(vyc__check_range(to, to_offset, bytes, __func__));
  VYC_TRY(check_pinned(from, from_offset, bytes, __func__));
  const stream_copy copy = {.stream = stream, .to = to, .pinned = from, .operation = __func__};
  const driver_copy call = {.to = to->address + to_offset,
                            .source = (uint64_t)(uintptr_t)from->data + from_offset,
                            .bytes = bytes};
  return run_copy(&copy, &call);
}

vyc_status vyc_stream_copy_out(vyc_stream *stream, vyc_pinned *to, uint64_t to_offset,
                               vyc_buffer *from, uint64_t from_offset, uint64_t bytes) {
  VYC_REQUIRE(stream != NULL && to != NULL && from != NULL);
  VYC_TRY(vyc__check_range(from, from_offset, bytes, __func__));
  VYC_TRY(check_pinned(to, to_offset, bytes, __func__));
  const stream_copy copy = {.stream = stream, .from = from, .pinned = to, .operation = __func__};
  const driver_copy call = {.to = (uint64_t)(uintptr_t)to->data + to_offset,
                            .source = from->address + from_offset,
                            .bytes = bytes};
  return run_copy(&copy, &call);
}

vyc_status vyc_stream_copy(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                           uint64_t from_offset, uint64_t bytes) {
  VYC_REQUIRE(stream != NULL && to != NULL && from != NULL);
  VYC_TRY(vyc__check_range(to, to_offset, bytes, __func__));
  VYC_TRY(vyc__check_range(from, from_offset, bytes, __func__));
  const uint64_t a = to->address + to_offset, b = from->address + from_offset;
  if (bytes > 0 && (a > b ? a - b : b - a) < bytes)
    return vyc__fail(VYC_E_INVALID, __func__, "the ranges overlap, which only vyc_copy supports");
  const stream_copy copy = {.stream = stream, .to = to, .from = from, .operation = __func__};
  const driver_copy call = {.to = a, .source = b, .bytes = bytes};
  return run_copy(&copy, &call);
}

vyc_status vyc_stream_fill(vyc_stream *stream, vyc_buffer *to, uint64_t offset, uint32_t value,
                           uint32_t element_bytes, uint64_t bytes) {
  VYC_REQUIRE(stream != NULL && to != NULL);
  VYC_REQUIRE(element_bytes == 1 || element_bytes == 2 || element_bytes == 4);
  VYC_REQUIRE(offset % element_bytes == 0 && bytes % element_bytes == 0);
  VYC_TRY(vyc__check_range(to, offset, bytes, __func__));
  const stream_copy copy = {.stream = stream, .to = to, .operation = __func__};
  const driver_copy call = {
      .to = to->address + offset, .bytes = bytes, .value = value, .element_bytes = element_bytes};
  return run_copy(&copy, &call);
}
