/* Streams and events.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_STREAM_H
#define VYRE_CUDA_STREAM_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams and events --------------------------------------------------------------------- */

/* A new stream, with an order of its own. Events order it with other streams; a buffer that it uses
 * for the first time, or again after a copy, is ordered after earlier work in call order. */
VYC_API vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context);
/* The last reference waits for the stream's work, up to the context's time limit. */
VYC_API void vyc_stream_release(vyc_stream *stream);
/* A stream of another library, given by its CUstream; 0 and 1 are the legacy default stream, 2 is
 * each thread's own default stream. Only launches use it, and it is never destroyed here: its owner
 * may destroy it, even while launches from here run on it, but must pass no launches to it after
 * that, which the driver would have to refuse. Everything else here (waits, copies, releases) is
 * ordered after its launches through an event and a stream of this library. Adopting a handle again
 * returns the same stream while that is held.
 * While it is being captured, launches are captured: they run when that graph runs, and are not
 * ordered with anything outside it; earlier work on their buffers is waited for. The kernel and the
 * buffers must live as long as that graph. VYC_E_INVALID: not a CUstream, as far as the driver can
 * tell. */
VYC_API vyc_status vyc_stream_adopt(vyc_stream **stream_out, vyc_context *context, uint64_t handle);
/* Wait for all work that the stream has been given. VYC_E_ASSERT as for vyc_context_synchronize,
 * for launches on this stream. */
VYC_API vyc_status vyc_stream_synchronize(vyc_stream *stream);
/* The same for at most timeout_ns, then VYC_NOT_READY; negative: no limit. */
VYC_API vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns);
/* VYC_OK if all work has finished, otherwise VYC_NOT_READY. Failed checks are left to the next
 * wait.
 */
VYC_API vyc_status vyc_stream_query(vyc_stream *stream);
/* The CUstream, for other libraries; it lives as long as the vyc_stream and its context. For an
 * adopted stream, the adopted handle. */
VYC_API vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out);
/* A new event after the work that was submitted to the stream; it is reached when that has ended.
 */
VYC_API vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out);
/* Work submitted to the stream from now on waits for the event, which must belong to the same
 * context. The event may be released at once. */
VYC_API vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event);
/* May be called with work in flight; does not wait for it. */
VYC_API void vyc_event_release(vyc_event *event);
/* The same for callers that hold a lock of their own, like vyc_buffer_try_release: with
 * VYC_NOT_READY the caller still has the reference. */
VYC_API vyc_status vyc_event_try_release(vyc_event *event);
/* Wait until the event is reached. VYC_E_ASSERT as for vyc_context_synchronize, for launches on the
 * event's stream. */
VYC_API vyc_status vyc_event_synchronize(vyc_event *event);
/* The same for at most timeout_ns, then VYC_NOT_READY; negative: no limit. */
VYC_API vyc_status vyc_event_synchronize_for(vyc_event *event, int64_t timeout_ns);
/* VYC_OK if the event has been reached, otherwise VYC_NOT_READY. Failed checks are left to the next
 * wait. */
VYC_API vyc_status vyc_event_query(vyc_event *event);
/* Milliseconds from `start` to `stop`, two events of one context that have been reached, as timed
 * by the device. VYC_E_DRIVER (CUDA_ERROR_NOT_READY): one of them has not been reached. */
VYC_API vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start);

/* A point after all work submitted through the context so far, on any stream. It lets a caller
 * split a long wait into short ones and do something else in between. */
VYC_API vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context);
/* Wait until the fence is reached, and for the calls that workers were given before it, for at most
 * timeout_ns, then VYC_NOT_READY; negative: no limit. Calls that wait until a worker is resumed are
 * not waited for. It may be called again, also by several threads. VYC_E_ASSERT as for
 * vyc_context_synchronize. */
VYC_API vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns);
/* May be called before the fence is reached; does not wait. */
VYC_API void vyc_fence_release(vyc_fence *fence);

#ifdef __cplusplus
}
#endif
#endif
