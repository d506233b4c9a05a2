/* Large pageable arrays of a run: copies to the submission's device slab and back.
 *
 * A submission waits for nothing, and has read its inputs when it returns: there is page-locked
 * room for all of them. Results are written when a run is collected, by the driver's own copies,
 * and never after it was abandoned. */
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "submission.h"

/* ---- host copies ----------------------------------------------------------------------------- */

#if defined(__SSE2__)
/* `to` is aligned to 16 bytes; the ranges do not overlap. */
static void copy_past_caches(uint8_t *to, const uint8_t *from, uint64_t bytes) {
  const uint64_t whole = bytes - bytes % VYC_CACHE_LINE;
  for (uint64_t i = 0; i < whole; i += VYC_CACHE_LINE)
    for (uint64_t j = i; j < i + VYC_CACHE_LINE; j += sizeof(__m128i))
      _mm_stream_si128((__m128i *)(void *)(to + j),
                       _mm_loadu_si128((const __m128i *)(const void *)(from + j)));
  memcpy(to + whole, from + whole, bytes - whole);
  _mm_sfence(); /* before the device is told to read it */
}
#else
static void copy_past_caches(uint8_t *to, const uint8_t *from, uint64_t bytes) {
  memcpy(to, from, bytes);
}
#endif

static bool is_apart(const void *to, const void *from, uint64_t bytes) {
  const uint64_t a = (uint64_t)(uintptr_t)to, b = (uint64_t)(uintptr_t)from;
  return a < b ? b - a >= bytes : a - b >= bytes;
}

void vyc__host_copy_large(void *to, const void *from, uint64_t bytes) {
  if ((uintptr_t)to % 16 != 0 || !is_apart(to, from, bytes))
    memmove(to, from, bytes);
  else
    copy_past_caches(to, from, bytes);
}

/* ---- in -------------------------------------------------------------------------------------- */

vyc_status vyc__chunks_in(vyc_context *context, uint64_t to, void *room, const void *data,
                          uint64_t bytes, CUstream stream) {
  uint8_t *const rooms = room;
  const uint8_t *const from = data;
  for (uint64_t at = 0; at < bytes; at += VYC_LARGE_CHUNK) {
    const uint64_t left = bytes - at, length = left < VYC_LARGE_CHUNK ? left : VYC_LARGE_CHUNK;
    copy_past_caches(rooms + at, from + at, length);
    VYC_TRY(vyc__copy_up(context, to + at, rooms + at, length, stream));
  }
  return VYC_OK;
}

/* ---- out ------------------------------------------------------------------------------------- */

static vyc_status ask_for_results(const vyc_submission *submission, bool *any_out) {
  vyc_context *context = submission->prepared->child.context;
  for (uint32_t i = 0; i < submission->result_count; i++) {
    const vyc_result *result = &submission->results[i];
    if (VYC_LIKELY(result->from != NULL)) continue;
    *any_out = true;
    VYC_TRY(
        vyc__copy_back(context, result->to, result->device, result->bytes, submission->own.handle));
  }
  return VYC_OK;
}

/* Copies to pageable memory have ended when the driver returns; those to memory that others have
 * page-locked have not. */
vyc_status vyc__results_fetch(vyc_submission *submission, bool *ended_out) {
  vyc_context *context = submission->prepared->child.context;
  bool any = false;
  vyc_status status = ask_for_results(submission, &any);
  if (VYC_LIKELY(!any)) return status;
  if (status == VYC_OK) status = vyc__stream_finish(context, submission->own.handle, -1);
  if (VYC_LIKELY(status == VYC_OK)) return VYC_OK;
  *ended_out = vyc__stream_await_end(context, submission->own.handle);
  submission->flagged = submission->elsewhere =
      false; /* from now on the submission's stream is queried for the end */
  return status;
}
