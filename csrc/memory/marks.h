/* Marks of buffers; what they say, and why none is lost, is at the head of marks.c. */
#ifndef VYC_MARKS_H
#define VYC_MARKS_H

#include "pool.h"

/* Around work on a buffer. In call order, by copies and fills: wait for what streams were given on
 * it, and take their marks. */
vyc_status vyc__buffer_wait(vyc_buffer *buffer);
/* On a stream: mark it, in order behind the main stream. */
vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot);
/* The work was given and a mark may have been taken meanwhile: mark it again. When that fails the
 * work is waited for here, because nobody else would. */
vyc_status vyc__buffer_mark_again(vyc_buffer *buffer, CUstream stream, uint32_t slot);
/* How often marks were taken in the context. Read before marks are looked at, and again once the
 * work was given: where it has changed, they are looked at again. */
static inline uint32_t vyc__marks_taken(const vyc_context *context) {
  return atomic_load_explicit(&context->marks_taken, memory_order_acquire);
}
/* Slots whose work on the buffer may not have ended; which far ones, buffer->far says. What is
 * taken is in `taken` before it leaves `used_on`, so that is the order to look in. */
static inline uint64_t vyc__buffer_marks(const vyc_buffer *buffer) {
  const uint64_t used_on = atomic_load_explicit(&buffer->used_on, memory_order_acquire);
  return used_on | atomic_load_explicit(&buffer->taken, memory_order_acquire);
}
/* Wait for everything that was given on a buffer, or on its block by an earlier owner. */
vyc_status vyc__buffer_await_end(vyc_buffer *buffer);

/* `epoch`: when the stream began. A mark that is older is of a stream that has ended. */
static inline bool vyc__buffer_is_marked(const vyc_buffer *buffer, uint64_t mark, uint32_t epoch) {
  return atomic_load_explicit(&buffer->epoch, memory_order_acquire) >= epoch &&
         (atomic_load_explicit(&buffer->used_on, memory_order_relaxed) & mark) != 0;
}

/* The same of a far slot. Streams without a slot share one, which says nothing about any of them.
 */
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
/* vyc__buffer_mark_again for all arguments of a run that was given to a stream. */
vyc_status vyc__run_mark_again(const vyc_run *run, CUstream stream, uint32_t slot);
/* What comes after each run that was given to a stream: vyc__run_order_owners, and behind that what
 * is marked again. `taken`: vyc__marks_taken before its marks were looked at. */
vyc_status vyc__run_enqueued(vyc_context *context, const vyc_run *run, CUstream stream,
                             uint32_t slot, uint32_t taken);
/* vyc__run_mark_again for who has not entered the context. */
__attribute__((cold)) vyc_status vyc__run_mark_late(vyc_context *context, const vyc_run *run);

#endif
