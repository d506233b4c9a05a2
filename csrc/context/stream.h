/* Streams, events, and the order between them. */
#ifndef VYC_STREAM_H
#define VYC_STREAM_H

#include "context.h"

/* What is in `slots`, `epochs` and `begun` of a near slot. */
typedef struct vyc_far_slot {
  vyc_stream *stream;
  uint32_t epoch;
  bool begun;
} vyc_far_slot;

/* A stream that callers have no handle of. */
struct vyc_hidden_stream {
  vyc_hidden_stream *next, *previous; /* of the context; guarded by slots_lock, as the rest */
  uint32_t holders; /* threads that look at it */
  bool listed;
  CUstream handle;
  const _Atomic int *state; /* 0: nothing is in flight on it */
  _Atomic bool unnoticed; /* a run was given to it since it was last queried */
};

struct vyc_stream {
  vyc_child child;
  vyc_stream *next, *previous; /* of the context */
  bool listed; /* among those; guarded by slots_lock, as the next */
  CUstream handle; /* this library's own, in every case */
  CUstream target; /* where work goes: `handle`, or the stream of somebody else that `handle` is
                      ordered behind after each piece of work given to it */
  uint32_t slot;
  vyc_depth depth;
  CUevent scratch; /* of an adopted stream: for one record and one wait at a time */
  vyc_claim ordering; /* held while `scratch` is used */
  _Atomic uint32_t holders; /* threads that found it by its slot or in the list, and still use it */
};

/* Where one launch goes. */
typedef struct vyc_launch_stream {
  CUstream stream;
  vyc_stream *object; /* NULL: the context's own */
  uint32_t slot;
  bool captured; /* another library is capturing the stream */
} vyc_launch_stream;

struct vyc_event {
  vyc_child child;
  CUevent handle;
  uint32_t slot; /* of the stream */
  bool is_foreign; /* recorded on an adopted stream */
};

/* ---- stream_slots.c ---- */

void vyc__stream_list(vyc_context *context, vyc_stream *stream);
/* From here on nobody looks for work on it, and another stream may have its slot. Its work has
 * ended, so that holders wait for nothing. Does nothing if it was removed before. */
void vyc__stream_unlist(vyc_context *context, vyc_stream *stream);
/* VYC_E_MEMORY, recorded. */
vyc_status vyc__stream_claim_slot(vyc_context *context, vyc_stream *stream);
/* When the stream in a slot began; see vyc_context.epochs. */
static inline uint32_t vyc__slot_epoch(const vyc_context *context, uint32_t slot) {
  if (VYC_LIKELY(slot < VYC_NEAR_SLOTS)) return context->epochs[slot];
  const vyc_far_slot *far = vyc__far_entry(&context->far_slots, slot, sizeof *far);
  return far == NULL ? 0 : far->epoch;
}
/* How many are open, and how many of them are adopted. */
void vyc__streams_count(vyc_context *context, uint64_t *all_out, uint64_t *adopted_out);
/* Memory shows, or will show, the end of a run on it, so that nobody queries it for that. Threads
 * that call at once keep to their own lines. */
static inline void vyc__hidden_stream_runs(vyc_context *context, vyc_hidden_stream *stream) {
  atomic_store_explicit(&stream->unnoticed, true, memory_order_relaxed);
  if (!atomic_load_explicit(&context->unnoticed, memory_order_relaxed))
    atomic_store_explicit(&context->unnoticed, true, memory_order_relaxed);
}
/* Waits for all work look at the stream while its state is not 0. */
void vyc__hidden_stream_add(vyc_context *context, vyc_hidden_stream *stream);
/* From here on nobody looks at it. Does nothing if it was removed before. */
void vyc__hidden_stream_remove(vyc_context *context, vyc_hidden_stream *stream);
/* One more holder of the stream that work for `target` goes to: the oldest one, and older than
 * `newest` where that is given; or NULL. */
vyc_stream *vyc__stream_known(vyc_context *context, CUstream target, const vyc_stream *newest);
/* The stream in a slot, which is not destroyed before vyc__slot_let_go; NULL: there is none. It is
 * not a reference: a release of the last one still waits for the work, even while others hold the
 * stream. */
vyc_stream *vyc__slot_hold(vyc_context *context, uint32_t slot);
/* The same for the one whose work goes to `target`. */
vyc_stream *vyc__target_hold(vyc_context *context, CUstream target);
void vyc__slot_let_go(vyc_stream *stream);

/* ---- stream.c ---- */

/* Order a stream behind what another, or the main stream, has been given. */
vyc_status vyc__stream_after(vyc_context *context, CUstream later, CUstream earlier);
vyc_status vyc__stream_after_main(vyc_context *context, CUstream stream);
/* Behind what the stream in a slot has been given; waits where it cannot be told which. */
vyc_status vyc__stream_after_slot(vyc_context *context, CUstream later, uint32_t slot);
/* A new stream; for an adopted one `target` and the event that becomes its `scratch`, else NULL. */
vyc_status vyc__stream_make(vyc_stream **stream_out, vyc_context *context, CUstream target,
                            CUevent scratch);
/* Wait for the work on the stream in a slot; VYC_NOT_READY when time is out. */
vyc_status vyc__slot_finish(vyc_context *context, uint32_t slot, int64_t timeout_ns);
/* The same for the streams in some slots, one after the other. */
vyc_status vyc__slots_finish(vyc_context *context, uint64_t slots, const vyc_far_set *far,
                             int64_t timeout_ns);

/* ---- adopted_stream.c ---- */

/* Where a launch on the given stream goes. An adopted stream is asked whether it is captured. */
vyc_status vyc__launch_stream_of(vyc_context *context, vyc_launch_stream *on_out,
                                 vyc_stream *stream);
/* The CUstream and slot of a run: the given stream's, or the context's own. VYC_E_INVALID when it
 * is being captured. */
vyc_status vyc__stream_of(vyc_context *context, CUstream *handle_out, uint32_t *slot_out,
                          vyc_stream *stream);
/* `later` waits for what `earlier` has been given, one of which is the stream's handle or target;
 * through the scratch event of an adopted one. */
vyc_status vyc__stream_order(vyc_stream *stream, CUstream later, CUstream earlier);
/* After work given to an adopted stream: lets others be ordered behind it. */
vyc_status vyc__stream_order_owner(vyc_stream *stream);
/* Whether somebody captures the stream. */
vyc_status vyc__ask_capture(vyc_context *context, bool *captured_out, CUstream stream);
static inline uint32_t vyc__slot_of(const vyc_stream *stream) {
  return stream == NULL ? VYC_SLOT_MAIN : stream->slot;
}
static inline bool vyc__is_adopted(const vyc_stream *stream) {
  return stream != NULL && stream->target != stream->handle;
}

/* ---- event.c ---- */

/* Give back the events that are kept. Nobody is inside the context. */
void vyc__events_close(vyc_context *context);
uint64_t vyc__events_kept(const vyc_context *context);
/* An event that was kept, or a new one; the caller has relaxed the capture mode. */
vyc_status vyc__event_take(vyc_event **event_out, vyc_context *context);
vyc_status vyc__event_record(vyc_event *event, const vyc_launch_stream *on);
/* The rest, where no close could do that. */
void vyc__events_free(vyc_context *context);

/* ---- queue_depth.c ---- */

void vyc__depth_close(vyc_context *context, const vyc_depth *depth);

#endif
