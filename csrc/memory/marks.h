/* Marks of buffers. The head of marks.c explains what they mean and why none is lost. */
#ifndef VYC_MARKS_H
#define VYC_MARKS_H

#include "pool.h"

/* To be called around work on a buffer. Copies and fills, in call order, wait for the work of
 * streams on it and take their marks. */
vyc_status vyc__buffer_wait(vyc_buffer *buffer);
/* Work on a stream marks the buffer, ordered after the main stream. */
vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot);
/* The work was enqueued, and the mark may have been taken in the meantime: mark the buffer again.
 * If that fails, this waits for the work, because nothing else would. */
vyc_status vyc__buffer_mark_again(vyc_buffer *buffer, CUstream stream, uint32_t slot);
/* How often marks have been taken in the context: read before marks are checked, and again after
 * the work was enqueued; if it has changed, the marks are checked again. */
static inline uint32_t vyc__marks_taken(const vyc_context *context) {
  return atomic_load_explicit(&context->marks_taken, memory_order_acquire);
}
/* Slots whose work on the buffer may not have ended; buffer->far has the far ones. A mark is added
 * to `taken` before it is cleared in `used_on`, so they are read in the opposite order. */
static inline uint64_t vyc__buffer_marks(const vyc_buffer *buffer) {
  const uint64_t used_on = atomic_load_explicit(&buffer->used_on, memory_order_acquire);
  return used_on | atomic_load_explicit(&buffer->taken, memory_order_acquire);
}
/* For work that no stream is ordered behind, so that the next of it need not ask the driver:
 * whether the main stream may have work on the buffer. If so, it is asked or waited for; when it
 * has no work, vyc__buffer_main_ended is told, with what this wrote to *take_out. */
bool vyc__buffer_main_take(vyc_buffer *buffer, uint32_t *take_out);
void vyc__buffer_main_ended(vyc_buffer *buffer, uint32_t take);
/* Wait for all work on a buffer, or on its block by an earlier owner. */
vyc_status vyc__buffer_await_end(vyc_buffer *buffer);

/* `epoch`: when the stream began. An older mark is from a stream that has ended. */
static inline bool vyc__buffer_is_marked(const vyc_buffer *buffer, uint64_t mark, uint32_t epoch) {
  return atomic_load_explicit(&buffer->epoch, memory_order_acquire) >= epoch &&
         (atomic_load_explicit(&buffer->used_on, memory_order_relaxed) & mark) != 0;
}

/* The same for a far slot. Streams without a slot share one, whose mark says nothing about any of
 * them. */
bool vyc__buffer_is_marked_far(const vyc_buffer *buffer, uint32_t slot);

static inline bool vyc__buffer_has_mark(const vyc_buffer *buffer, uint32_t slot) {
  return VYC_LIKELY(slot < VYC_NEAR_SLOTS)
             ? vyc__buffer_is_marked(buffer, UINT64_C(1) << slot,
                                     buffer->child.context->epochs[slot])
             : vyc__buffer_is_marked_far(buffer, slot);
}

static inline vyc_status vyc__buffer_use(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  return VYC_LIKELY(vyc__buffer_has_mark(buffer, slot))
             ? VYC_OK
             : vyc__buffer_first_use(buffer, stream, slot);
}
/* vyc__buffer_mark_again for all arguments of a run that was enqueued on a stream. */
vyc_status vyc__run_mark_again(const vyc_run *run, CUstream stream, uint32_t slot);
/* What follows each run that was enqueued on a stream: vyc__run_order_owners, and then marking
 * again. `taken`: vyc__marks_taken before the marks were checked. */
vyc_status vyc__run_enqueued(vyc_context *context, const vyc_run *run, CUstream stream,
                             uint32_t slot, uint32_t taken);
/* vyc__run_mark_again for callers that have not entered the context. */
__attribute__((cold)) vyc_status vyc__run_mark_late(vyc_context *context, const vyc_run *run);

#endif
