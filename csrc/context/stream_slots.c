/* The streams of a context: their numbers (base/slots.h), so that a buffer can keep which of them
 * have work on it, and the lists that waits for all work go through. Where no number is left, after
 * four billion streams or beside VYC_SLOTS others, a stream shares VYC_SLOT_OTHER, and is waited
 * for with all that is there. */
#include "room.h"

/* ---- listed ---------------------------------------------------------------------------------- */

void vyc__stream_list(vyc_context *context, vyc_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  stream->next = context->streams;
  if (stream->next != NULL) stream->next->previous = stream;
  context->streams = stream;
  stream->listed = true;
  pthread_mutex_unlock(&context->slots_lock);
}

/* Caller holds slots_lock. */
static vyc_stream *stream_in(vyc_context *context, uint32_t slot) {
  if (slot < VYC_NEAR_SLOTS) return context->slots[slot];
  const vyc_far_slot *far = vyc__far_entry(&context->far_slots, slot, sizeof *far);
  return far == NULL ? NULL : far->stream;
}

/* Caller holds slots_lock. */
static void empty_slot(vyc_context *context, uint32_t slot) {
  if (slot == VYC_SLOT_OTHER) return;
  if (slot < VYC_NEAR_SLOTS)
    context->slots[slot] = NULL;
  else
    ((vyc_far_slot *)vyc__far_entry(&context->far_slots, slot, sizeof(vyc_far_slot)))->stream =
        NULL;
}

void vyc__stream_unlist(vyc_context *context, vyc_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  while (atomic_load(&stream->holders) != 0) { /* new ones come only under the lock */
    pthread_mutex_unlock(&context->slots_lock);
    vyc__sleep_us(20);
    pthread_mutex_lock(&context->slots_lock);
  }
  if (stream->listed) {
    empty_slot(context, stream->slot);
    if (stream->previous != NULL) stream->previous->next = stream->next;
    if (stream->next != NULL) stream->next->previous = stream->previous;
    if (context->streams == stream) context->streams = stream->next;
    stream->listed = false;
  }
  pthread_mutex_unlock(&context->slots_lock);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Caller holds slots_lock. The epoch of a stream that begins in a slot. */
static uint32_t begin_epoch(vyc_context *context, bool was_begun) {
  const uint32_t epoch = atomic_load_explicit(&context->epoch, memory_order_relaxed);
  if (!was_begun) return 0;
  atomic_store(&context->epoch, epoch + 1);
  return epoch + 1;
}

/* Caller holds slots_lock. */
static uint32_t claim_near(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_MAIN + 1;
  while (slot < VYC_NEAR_SLOTS && context->slots[slot] != NULL) slot++;
  if (slot == VYC_NEAR_SLOTS) return VYC_SLOT_NONE;
  const uint64_t bit = UINT64_C(1) << slot;
  context->slots[slot] = stream;
  context->epochs[slot] = begin_epoch(context, (context->begun & bit) != 0);
  context->begun |= bit;
  return slot;
}

/* Caller holds slots_lock. VYC_SLOT_NONE: there is no memory to keep it in. */
static uint32_t claim_far(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_OTHER + 1;
  while (slot < VYC_SLOTS && stream_in(context, slot) != NULL) slot++;
  if (slot == VYC_SLOTS) return VYC_SLOT_OTHER;
  vyc_far_slot *far = vyc__far_entry_make(&context->far_slots, slot, sizeof *far);
  if (far == NULL) return VYC_SLOT_NONE;
  far->stream = stream;
  far->epoch = begin_epoch(context, far->begun);
  far->begun = true;
  return slot;
}

vyc_status vyc__stream_claim_slot(vyc_context *context, vyc_stream *stream) {
  uint32_t slot = VYC_SLOT_OTHER;
  pthread_mutex_lock(&context->slots_lock);
  if (VYC_LIKELY(atomic_load_explicit(&context->epoch, memory_order_relaxed) != UINT32_MAX)) {
    slot = claim_near(context, stream);
    if (slot == VYC_SLOT_NONE) slot = claim_far(context, stream);
  }
  pthread_mutex_unlock(&context->slots_lock);
  if (slot == VYC_SLOT_NONE) return vyc__fail(VYC_E_MEMORY, "streams", "out of host memory");
  stream->slot = slot;
  return VYC_OK;
}

/* Caller holds slots_lock. False: its last reference is gone. */
static bool try_retain(vyc_stream *stream) {
  uint32_t references = atomic_load_explicit(&stream->child.references, memory_order_relaxed);
  while (references != 0 &&
         !atomic_compare_exchange_weak(&stream->child.references, &references, references + 1)) {
  }
  return references != 0;
}

vyc_stream *vyc__slot_hold(vyc_context *context, uint32_t slot) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = stream_in(context, slot);
  if (stream != NULL) atomic_fetch_add(&stream->holders, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return stream;
}

vyc_stream *vyc__target_hold(vyc_context *context, CUstream target) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = context->streams;
  while (stream != NULL && stream->target != target) stream = stream->next;
  if (stream != NULL) atomic_fetch_add(&stream->holders, 1);
  pthread_mutex_unlock(&context->slots_lock);
  return stream;
}

void vyc__slot_let_go(vyc_stream *stream) {
  if (stream != NULL) atomic_fetch_sub(&stream->holders, 1);
}

vyc_stream *vyc__stream_known(vyc_context *context, CUstream target, const vyc_stream *newest) {
  pthread_mutex_lock(&context->slots_lock);
  vyc_stream *stream = context->streams;
  while (stream != NULL && stream->next != NULL) stream = stream->next; /* the oldest */
  while (stream != NULL && stream != newest && (stream->target != target || !try_retain(stream)))
    stream = stream->previous;
  pthread_mutex_unlock(&context->slots_lock);
  return stream == newest ? NULL : stream;
}

void vyc__streams_count(vyc_context *context, uint64_t *all_out, uint64_t *adopted_out) {
  *all_out = *adopted_out = 0;
  pthread_mutex_lock(&context->slots_lock);
  for (const vyc_stream *stream = context->streams; stream != NULL; stream = stream->next) {
    ++*all_out;
    *adopted_out += vyc__is_adopted(stream);
  }
  pthread_mutex_unlock(&context->slots_lock);
}

/* ---- hidden streams -------------------------------------------------------------------------- */

void vyc__hidden_stream_add(vyc_context *context, vyc_hidden_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  stream->previous = NULL;
  stream->next = context->hidden_streams;
  if (stream->next != NULL) stream->next->previous = stream;
  context->hidden_streams = stream;
  stream->listed = true;
  pthread_mutex_unlock(&context->slots_lock);
}

void vyc__hidden_stream_remove(vyc_context *context, vyc_hidden_stream *stream) {
  pthread_mutex_lock(&context->slots_lock);
  while (stream->holders != 0) { /* a thread that looks at it continues from its `next` */
    pthread_mutex_unlock(&context->slots_lock);
    vyc__sleep_us(VYC_SLEEP_MIN_US);
    pthread_mutex_lock(&context->slots_lock);
  }
  if (stream->listed) {
    if (stream->previous != NULL) stream->previous->next = stream->next;
    if (stream->next != NULL) stream->next->previous = stream->previous;
    if (context->hidden_streams == stream) context->hidden_streams = stream->next;
    stream->listed = false;
  }
  pthread_mutex_unlock(&context->slots_lock);
}
