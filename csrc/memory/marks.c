/* clang-format off */
/* Marks: who has work on a buffer, and in which order.
 *
 * A buffer has a mark, a bit of `used_on`, for each stream slot on which work on it was enqueued.
 * The mark of S means two things: work of S on the buffer may not have ended, and S is ordered
 * after everything that copies and fills have done to the buffer in call order. So work on S can
 * use a marked buffer as it is.
 *
 * A thread that uses it on S, the comer:        A thread that copies it in call order, the taker:
 *   U1 if there is no mark of S:                  C1 set the mark of the main stream
 *      U1a comers + 1, read `takes`               C2 take the marks of others, wait for them
 *      U1b make S wait for the main stream        C3 enqueue the copy on the main stream
 *      U1c mark S if `takes` is unchanged,        C4 as C1 and C2
 *          else add S to `taken`; comers - 1
 *   U2 enqueue the work on S, and on the stream that S stands for if it is adopted
 *   U3 if marks_taken has changed since before U1 and the mark is gone: U1 again
 *
 * To take marks means, under slots_lock: add them to `taken`, clear them in `used_on`, `takes` + 1,
 * marks_taken + 1. This is done if there are marks, marks taken by others that still wait, or
 * comers. Nothing else clears a mark except forget_ended, and that only marks of streams that have
 * ended, and vyc__buffer_main_take, which takes the mark of the main stream and nothing else; no
 * other function clears that one. Below, "before" among driver calls means the
 * order in which the driver gets them: what a thread did before a call on a stream is visible to
 * the caller of a later one.
 *
 * No wait misses work: suppose that a taker T clears the mark that was seen at U1, and asks S
 * whether its work has ended. If that were before U2, then U3 would see T's increment of
 * marks_taken, which comes before its question, and the buffer would be marked again. So the
 * question comes after U2, and T waits for the work. If U3 looks at `used_on` itself, the same
 * holds for the clearing. In the meantime `taken` keeps the mark for takers that come after T. And
 * if U1c found that `takes` had changed, then marks_taken has changed too: U3 starts again, with
 * the work enqueued.
 *
 * No work overtakes a copy that has returned: suppose that U1 begins after the copy has returned
 * and finds a mark, which some thread set at U1c after its own U1b. If that U1b was before C3, then
 * C4 sees its U1a: either the comer is still there, and C4 increments `takes`, so that U1c sets no
 * mark; or the mark is there, and is taken. Neither leaves a mark to find. So U1b was after C3, and
 * S is ordered after the copy. That U1b sees the mark of the main stream follows in the same way
 * from C1, C4 and U1a, U1b: one of the two comes first in the order of sequentially consistent
 * operations.
 *
 * The mark of the main stream is taken by who would otherwise have to ask it before each use (M):
 * M1 add it to `taken`, clear it in `used_on`, main_takes + 1, marks_taken + 1; M2 see that the main
 * stream has no work; M3 clear it in `taken` if main_takes is unchanged. What was marked before M1
 * and enqueued before M2 has ended then. What was marked before M1 and enqueued later sees
 * marks_taken at U3, or comes to C4, and is marked again before its function returns. Between M1
 * and M3 the mark is in `taken`, where U1b looks after `used_on`. A U1b that finds it nowhere, with
 * the copy enqueued after M2, comes before C4, which then sees U1a as above. If main_takes has
 * changed, another thread took the mark of later work, and clears it after its own M2. If M2 fails,
 * the mark stays in `taken`, until one succeeds.
 *
 * The mark of a far slot is its bit in the far words, whose `used_on` and `taken` are what they are
 * above. The last bit of the buffer's own two words says only that far words may have marks: to
 * find all streams with work on the buffer, a thread reads it first; for one far mark it reads only
 * that. So the last bit must be set wherever a far mark can be found. Far words, too, change only
 * under slots_lock; the last bit is set before a mark is, and cleared after all marks were, each in
 * `taken` before `used_on`. So everything above holds for far marks: a taker that does not see the
 * last bit comes before the mark, or sees the comer, which is ordered after it. Words keep their
 * address as long as the buffer exists, so no thread reads an old one. Room for them is made before
 * U1a: after that nothing can fail, and if it fails at U3, the work is waited for. */
/* clang-format on */
#include "room.h"

#define MAIN_BIT (UINT64_C(1) << VYC_SLOT_MAIN)

/* Forget marks of streams whose slots other streams have now. No stream marks the buffer before
 * this has been done since it began, so only marks of earlier streams are removed, and their work
 * has ended. */
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

/* VYC_SLOT_NONE: the thread marks nothing. */
static void mark(vyc_context *context, vyc_buffer *buffer, uint32_t slot, uint32_t takes) {
  pthread_mutex_lock(&context->slots_lock);
  const bool stands = takes == buffer->takes;
  if (VYC_LIKELY(slot != VYC_SLOT_NONE)) {
    set_mark(buffer, slot, stands);
    buffer->unwaited |= !stands && buffer->waiters > 0; /* they do not wait for this work */
  }
  atomic_fetch_sub(&buffer->comers, 1); /* after the mark; takers read in the opposite order */
  pthread_mutex_unlock(&context->slots_lock);
}

/* The main stream may still be working on the buffer, for its previous owner if the block is
 * recycled, or for this one: a stream that takes over from it is ordered after that. */
static vyc_status order_behind_main(vyc_buffer *buffer, CUstream stream) {
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (!recycled && (vyc__buffer_marks(buffer) & MAIN_BIT) == 0) return VYC_OK;
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

/* A close waits for all work, and a lost context has none: then no mark is needed. */
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

static vyc_status wait_for_slot(vyc_context *context, uint32_t slot) {
  VYC_TRY(vyc__slot_finish(context, slot, -1));
  vyc__reports_copied_after(context, slot);
  return VYC_OK;
}

/* Marks that are taken stay in `taken` of the far words until the waiter leaves. */
static vyc_status wait_for_slots(vyc_context *context, const vyc_buffer *buffer, uint64_t slots) {
  VYC_EACH_SLOT(slot, slots & ~VYC_FAR_BIT, NULL)
  VYC_TRY(wait_for_slot(context, slot));
  if (VYC_LIKELY((slots & VYC_FAR_BIT) == 0)) return VYC_OK;
  for (uint32_t slot = vyc__far_next_taken(&buffer->far, VYC_NEAR_SLOTS); slot != VYC_SLOT_NONE;
       slot = vyc__far_next_taken(&buffer->far, slot + 1))
    VYC_TRY(wait_for_slot(context, slot));
  return VYC_OK;
}

static uint64_t take(vyc_context *context, vyc_buffer *buffer) {
  pthread_mutex_lock(&context->slots_lock);
  buffer->waiters++;
  buffer->takes++;
  atomic_fetch_or(&buffer->taken, atomic_load(&buffer->used_on) & ~MAIN_BIT);
  const uint64_t slots = atomic_load(&buffer->taken) & ~MAIN_BIT;
  if (VYC_UNLIKELY((slots & VYC_FAR_BIT) != 0)) vyc__far_take(&buffer->far);
  atomic_fetch_and(&buffer->used_on, ~slots);
  atomic_fetch_add(&context->marks_taken, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return slots;
}

/* `taken` is kept until no thread waits for any of it, and after a wait has failed. */
static void end_wait(vyc_context *context, vyc_buffer *buffer, bool failed) {
  pthread_mutex_lock(&context->slots_lock);
  buffer->unwaited |= failed;
  if (--buffer->waiters == 0) {
    if (!buffer->unwaited) {
      vyc__far_forget_taken(&buffer->far);
      atomic_fetch_and(&buffer->taken, MAIN_BIT);
    }
    buffer->unwaited = false;
  }
  pthread_mutex_unlock(&context->slots_lock);
}

vyc_status vyc__buffer_wait(vyc_buffer *buffer) {
  /* In this order, because a comer marks and then leaves, and a taker adds to `taken` and then
   * clears. */
  if (VYC_LIKELY(atomic_load(&buffer->comers) == 0 &&
                 (atomic_load(&buffer->used_on) & ~MAIN_BIT) == 0 &&
                 (atomic_load(&buffer->taken) & ~MAIN_BIT) == 0))
    return VYC_OK;
  vyc_context *context = buffer->child.context;
  const vyc_status status = wait_for_slots(context, buffer, take(context, buffer));
  end_wait(context, buffer, status != VYC_OK);
  return status;
}

bool vyc__buffer_main_take(vyc_buffer *buffer, uint32_t *take_out) {
  vyc_context *context = buffer->child.context;
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (VYC_LIKELY(!recycled && (vyc__buffer_marks(buffer) & MAIN_BIT) == 0)) return false;
  pthread_mutex_lock(&context->slots_lock);
  if ((atomic_load(&buffer->used_on) & MAIN_BIT) != 0) {
    atomic_fetch_or(&buffer->taken, MAIN_BIT);
    atomic_fetch_and(&buffer->used_on, ~MAIN_BIT);
    buffer->main_takes++;
    atomic_fetch_add(&context->marks_taken, 1);
  }
  *take_out = buffer->main_takes;
  pthread_mutex_unlock(&context->slots_lock);
  return true;
}

void vyc__buffer_main_ended(vyc_buffer *buffer, uint32_t take) {
  vyc_context *context = buffer->child.context;
  pthread_mutex_lock(&context->slots_lock);
  if (buffer->main_takes == take) atomic_fetch_and(&buffer->taken, ~MAIN_BIT);
  pthread_mutex_unlock(&context->slots_lock);
  if (buffer->block != NULL) buffer->block->recycled = false; /* that was before this owner */
}

vyc_status vyc__buffer_await_end(vyc_buffer *buffer) {
  vyc_context *context = buffer->child.context;
  if (VYC_UNLIKELY(buffer->peer != NULL)) return vyc__peer_await_end(buffer->peer);
  const bool recycled = buffer->block != NULL && buffer->block->recycled;
  if (vyc__buffer_marks(buffer) == 0 && !recycled) return VYC_OK;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_status status = vyc__stream_finish(context, context->main, -1);
  if (status == VYC_OK) status = vyc__buffer_wait(buffer);
  vyc__capture_restore(context->driver, mode);
  return status;
}
