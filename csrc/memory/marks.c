/* Marks: who has work on a buffer, and in which order.
 *
 * A buffer has a mark, a bit of `used_on`, for each stream slot that was given work on it. The mark
 * of S says two things: work of S on the buffer may not have ended, and S is behind all that copies
 * and fills have done to the buffer in call order. So a marked buffer is used on S as it is.
 *
 * Who uses it on S:                            Who copies it in call order, on the main stream:
 *   U1 if it has no mark of S:                   C1 set the mark of the main stream
 *      U1a comers + 1, note `takes`              C2 take the marks of others, wait for their
 * streams U1b let S wait for the main stream        C3 give the copy to the main stream U1c mark
 * it, if `takes` stands, else      C4 as C2 add S to `taken`; comers - 1 U2 give the work to S, and
 * to what stands for S where that is adopted U3 if marks_taken has changed since before U1 and the
 * mark is gone: U1 again
 *
 * To take marks is, under slots_lock: add them to `taken`, clear them in `used_on`, `takes` + 1,
 * marks_taken + 1. It is done where there are marks, marks taken by others who still wait, or
 * comers. Nobody else clears a mark but forget_ended, and only of streams that have ended; the mark
 * of the main stream is never cleared. Below, "before" among driver calls is the order in which the
 * driver has them: what a thread did before a call on a stream is seen by who makes a later one.
 *
 * Work is never lost to a wait: say a taker T clears the mark that was seen at U1, and asks S
 * whether its work has ended. Were that before U2, then T's count of marks_taken, which comes
 * before its question, would be seen at U3, and the buffer marked again. So the question comes
 * after U2, and T waits for the work. Where `used_on` itself is looked at in U3 the same holds of
 * the clearing. `taken` keeps the mark meanwhile for whoever comes after T. And where U1c found
 * that `takes` had changed, marks_taken has too: U3 begins again, with the work given.
 *
 * Order is never lost to a copy that has returned: say U1 begins behind the copy's return and finds
 * a mark, which some thread set at U1c after its own U1b. Was U1b before C3, then U1a is seen at
 * C4: either the comer is still there, and C4 counts a take, so that U1c sets no mark; or the mark
 * is there, and is taken. Neither leaves a mark to find. So U1b is after C3, and S behind it.
 * That U1b sees the mark of the main stream follows in the same way from C1, C4 and U1a, U1b: one
 * of both comes first in the order of sequentially consistent operations.
 *
 * The mark of a far slot is its bit in the far words, `used_on` and `taken` there being what they
 * are above. The last bit of the buffer's own two words says only that far words may have some:
 * whoever asks who has work on the buffer looks at it first, who asks for one far mark looks at
 * that alone. So the last bit must stand wherever a far mark can be found. Far words, too, change
 * under slots_lock alone; the last bit is set before a mark is, and cleared after all were, each in
 * `taken` before `used_on`. With that all that is said above of a bit holds of a far one: a taker
 * who sees no last bit comes before the mark, or sees the comer, who leaves behind it. Words stay
 * where they are as long as the buffer, so nobody looks at an old one. Room is made before U1a: in
 * between nothing can fail, and where it fails at U3 the work is waited for. */
#include "room.h"

#define MAIN_BIT (UINT64_C(1) << VYC_SLOT_MAIN)

/* Marks of streams whose slots others have now. Nobody marks for the stream that has a slot before
 * this was done since it began, so only marks of earlier ones go, whose work has ended. */
static void forget_ended(vyc_context *context, vyc_buffer *buffer) {
  pthread_mutex_lock(&context->slots_lock);
  const uint32_t epoch = atomic_load_explicit(&buffer->epoch, memory_order_relaxed);
  uint64_t ended = 0;
  for (uint32_t slot = VYC_SLOT_MAIN + 1; slot < VYC_NEAR_SLOTS; slot++)
    if (context->epochs[slot] > epoch) ended |= UINT64_C(1) << slot;
  atomic_fetch_and(&buffer->used_on, ~ended);
  VYC_EACH_SLOT(slot, VYC_FAR_BIT, &buffer->far)
  if (vyc__slot_epoch(context, slot) > epoch)
    atomic_fetch_and(&vyc__far_words_of(&buffer->far, slot)->used_on, ~vyc__far_mask(slot));
  atomic_store(&buffer->epoch, atomic_load_explicit(&context->epoch, memory_order_relaxed));
  pthread_mutex_unlock(&context->slots_lock);
}

static uint32_t come(vyc_context *context, vyc_buffer *buffer) {
  pthread_mutex_lock(&context->slots_lock);
  const uint32_t takes = buffer->takes;
  atomic_fetch_add(&buffer->comers, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return takes;
}

/* Caller holds slots_lock. */
static void set_mark(vyc_buffer *buffer, uint32_t slot, bool stands) {
  vyc_far_words *words = slot < VYC_NEAR_SLOTS ? NULL : vyc__far_words_of(&buffer->far, slot);
  atomic_fetch_or(stands ? &buffer->used_on : &buffer->taken, vyc__slot_bit(slot));
  if (words != NULL) atomic_fetch_or(stands ? &words->used_on : &words->taken, vyc__far_mask(slot));
}

/* VYC_SLOT_NONE: the thread came in vain. */
static void mark(vyc_context *context, vyc_buffer *buffer, uint32_t slot, uint32_t takes) {
  pthread_mutex_lock(&context->slots_lock);
  const bool stands = takes == buffer->takes;
  if (VYC_LIKELY(slot != VYC_SLOT_NONE)) {
    set_mark(buffer, slot, stands);
    buffer->unwaited |= !stands && buffer->waiters > 0; /* they do not wait for this */
  }
  atomic_fetch_sub(&buffer->comers, 1); /* behind the mark: a taker looks the other way round */
  pthread_mutex_unlock(&context->slots_lock);
}

/* The main stream may still work on the buffer, for its earlier owner when the block is recycled or
 * for this one: a stream that takes it over from there is ordered behind. */
static vyc_status order_behind_main(vyc_buffer *buffer, CUstream stream) {
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (!recycled && (atomic_load(&buffer->used_on) & MAIN_BIT) == 0) return VYC_OK;
  return vyc__stream_after_main(buffer->child.context, stream);
}

bool vyc__buffer_is_marked_far(const vyc_buffer *buffer, uint32_t slot) {
  return slot != VYC_SLOT_OTHER &&
         atomic_load_explicit(&buffer->epoch, memory_order_acquire) >=
             vyc__slot_epoch(buffer->child.context, slot) &&
         vyc__far_has(&buffer->far, slot);
}

vyc_status vyc__buffer_first_use(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  if (buffer->source != NULL) return vyc__adopted_before(buffer, stream);
  vyc_context *context = buffer->child.context;
  if (slot == VYC_SLOT_MAIN) {
    atomic_fetch_or(&buffer->used_on, MAIN_BIT);
    return VYC_OK;
  }
  if (slot >= VYC_NEAR_SLOTS) VYC_TRY(vyc__far_reserve(&buffer->far, slot));
  if (atomic_load(&buffer->epoch) < vyc__slot_epoch(context, slot)) forget_ended(context, buffer);
  const uint32_t takes = come(context, buffer);
  const vyc_status status = order_behind_main(buffer, stream);
  mark(context, buffer, status == VYC_OK ? slot : VYC_SLOT_NONE, takes);
  return status;
}

vyc_status vyc__buffer_mark_again(vyc_buffer *buffer, CUstream stream, uint32_t slot) {
  vyc_context *context = buffer->child.context;
  if (buffer->source != NULL || vyc__buffer_has_mark(buffer, slot)) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status = vyc__buffer_first_use(buffer, stream, slot);
  if (VYC_UNLIKELY(status != VYC_OK) && !vyc__stream_await_end(context, stream))
    atomic_store(&context->strays, true);
  vyc__capture_restore(context->driver, mode);
  return status;
}

vyc_status vyc__run_mark_again(const vyc_run *run, CUstream stream, uint32_t slot) {
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < run->argument_count; i++)
    if (run->arguments[i].kind == VYC_ARGUMENT_BUFFER)
      status = vyc__buffer_mark_again(run->arguments[i].buffer, stream, slot);
  return status;
}

vyc_status vyc__run_enqueued(vyc_context *context, const vyc_run *run, CUstream stream,
                             uint32_t slot, uint32_t taken) {
  const vyc_status status = vyc__run_order_owners(run, stream);
  if (VYC_LIKELY(vyc__marks_taken(context) == taken)) return status;
  const vyc_status marked = vyc__run_mark_again(run, stream, slot);
  return status == VYC_OK ? marked : status;
}

/* A close waits for all work, and what is lost has none: then no mark is missed. */
vyc_status vyc__run_mark_late(vyc_context *context, const vyc_run *run) {
  vyc_scope scope;
  vyc_error failure;
  vyc__error_save(&failure);
  if (vyc__enter(context, &scope) != VYC_OK) {
    vyc__error_restore(&failure);
    return VYC_OK;
  }
  const CUstream stream = run->stream == NULL ? context->main : run->stream->target;
  const vyc_status status = vyc__run_mark_again(run, stream, vyc__slot_of(run->stream));
  vyc__leave(context, &scope);
  return status;
}

/* What is taken of far words stays there until the waiter leaves. */
static vyc_status wait_for_slots(vyc_context *context, const vyc_buffer *buffer, uint64_t slots) {
  VYC_EACH_SLOT(slot, slots & ~VYC_FAR_BIT, NULL)
  VYC_TRY(vyc__slot_finish(context, slot, -1));
  if (VYC_LIKELY((slots & VYC_FAR_BIT) == 0)) return VYC_OK;
  for (uint32_t slot = vyc__far_next_taken(&buffer->far, VYC_NEAR_SLOTS); slot != VYC_SLOT_NONE;
       slot = vyc__far_next_taken(&buffer->far, slot + 1))
    VYC_TRY(vyc__slot_finish(context, slot, -1));
  return VYC_OK;
}

static uint64_t take(vyc_context *context, vyc_buffer *buffer) {
  pthread_mutex_lock(&context->slots_lock);
  buffer->waiters++;
  buffer->takes++;
  atomic_fetch_or(&buffer->taken, atomic_load(&buffer->used_on) & ~MAIN_BIT);
  const uint64_t slots = atomic_load(&buffer->taken);
  if (VYC_UNLIKELY((slots & VYC_FAR_BIT) != 0)) vyc__far_take(&buffer->far);
  atomic_fetch_and(&buffer->used_on, ~slots);
  atomic_fetch_add(&context->marks_taken, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return slots;
}

/* `taken` stays until nobody waits for any of it, and where a wait has failed. */
static void end_wait(vyc_context *context, vyc_buffer *buffer, bool failed) {
  pthread_mutex_lock(&context->slots_lock);
  buffer->unwaited |= failed;
  if (--buffer->waiters == 0) {
    if (!buffer->unwaited) {
      vyc__far_forget_taken(&buffer->far);
      atomic_store(&buffer->taken, 0);
    }
    buffer->unwaited = false;
  }
  pthread_mutex_unlock(&context->slots_lock);
}

vyc_status vyc__buffer_wait(vyc_buffer *buffer) {
  /* In this order: who comes marks and goes, who takes adds to `taken` and clears. */
  if (VYC_LIKELY(atomic_load(&buffer->comers) == 0 &&
                 (atomic_load(&buffer->used_on) & ~MAIN_BIT) == 0 &&
                 atomic_load(&buffer->taken) == 0))
    return VYC_OK;
  vyc_context *context = buffer->child.context;
  const vyc_status status = wait_for_slots(context, buffer, take(context, buffer));
  end_wait(context, buffer, status != VYC_OK);
  return status;
}

vyc_status vyc__buffer_await_end(vyc_buffer *buffer) {
  vyc_context *context = buffer->child.context;
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (vyc__buffer_marks(buffer) == 0 && !recycled) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_status status = vyc__stream_finish(context, context->main, -1);
  if (status == VYC_OK) status = vyc__buffer_wait(buffer);
  vyc__capture_restore(context->driver, mode);
  return status;
}
