# vyre_cuda/stream.h for Cython: what the extensions use of it.
from libc.stdint cimport int64_t, uint64_t

from vyre_cuda._native.core.c_driver cimport vyc_context, vyc_event, vyc_fence, vyc_stream
from vyre_cuda._native.core.c_status cimport vyc_status

cdef extern from "vyre_cuda/stream.h" nogil:
    vyc_status vyc_stream_create(vyc_stream **stream_out, vyc_context *context)
    vyc_status vyc_stream_adopt(vyc_stream **stream_out, vyc_context *context, uint64_t handle)
    void vyc_stream_release(vyc_stream *stream)
    vyc_status vyc_stream_synchronize(vyc_stream *stream)
    vyc_status vyc_stream_synchronize_for(vyc_stream *stream, int64_t timeout_ns)
    vyc_status vyc_stream_query(vyc_stream *stream)
    vyc_status vyc_stream_handle(vyc_stream *stream, uint64_t *handle_out)
    vyc_status vyc_stream_record(vyc_stream *stream, vyc_event **event_out)
    vyc_status vyc_stream_wait(vyc_stream *stream, vyc_event *event)
    void vyc_event_release(vyc_event *event)
    vyc_status vyc_event_try_release(vyc_event *event)
    vyc_status vyc_event_synchronize(vyc_event *event)
    vyc_status vyc_event_synchronize_for(vyc_event *event, int64_t timeout_ns)
    vyc_status vyc_event_query(vyc_event *event)
    vyc_status vyc_event_elapsed(vyc_event *stop, float *milliseconds_out, vyc_event *start)
    vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context)
    vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns)
    void vyc_fence_release(vyc_fence *fence)
