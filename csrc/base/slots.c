/* Sets of streams by their numbers, of which there may be any number. Words are changed by atomic
 * operations, and parts are added by one exchange, so sets are read without a lock. */
#include "slots.h"

#include <stdlib.h>

/* ---- parts ----------------------------------------------------------------------------------- */

static void *part_make(_Atomic(void *) *place, size_t bytes) {
  void *part = atomic_load_explicit(place, memory_order_acquire);
  if (part != NULL) return part;
  void *fresh = calloc(1, bytes);
  if (fresh == NULL || atomic_compare_exchange_strong(place, &part, fresh)) return fresh;
  free(fresh);
  return part;
}

void *vyc__far_entry_make(vyc_far *far, uint32_t slot, size_t bytes) {
  uint32_t part;
  const uint32_t index = vyc__far_index(slot, &part);
  char *entries = part_make(&far->parts[part], vyc__far_room(part) * bytes);
  return entries == NULL ? NULL : entries + index * bytes;
}

void vyc__far_parts_free(vyc_far *far) {
  for (uint32_t part = 0; part < VYC_FAR_PARTS; part++) free(atomic_load(&far->parts[part]));
}

/* ---- sets of far slots ----------------------------------------------------------------------- */

static vyc_far *far_of(const vyc_far_set *set) {
  return atomic_load_explicit(set, memory_order_acquire);
}

/* Words use the same part and index: there is one for each unit, so the index is divided. */
vyc_far_words *vyc__far_words_of(const vyc_far_set *set, uint32_t slot) {
  const vyc_far *far = far_of(set);
  uint32_t part;
  if (far == NULL) return NULL;
  const uint32_t index = vyc__far_index(slot, &part) / VYC_FAR_UNIT;
  vyc_far_words *words = atomic_load_explicit(&far->parts[part], memory_order_acquire);
  return words == NULL ? NULL : words + index;
}

vyc_status vyc__far_reserve(vyc_far_set *set, uint32_t slot) {
  vyc_far *far = far_of(set), *fresh = NULL;
  uint32_t part;
  vyc__far_index(slot, &part);
  if (far == NULL) {
    fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL) return vyc__fail(VYC_E_MEMORY, "streams", "out of host memory");
    if (atomic_compare_exchange_strong(set, &far, fresh))
      far = fresh;
    else
      free(fresh);
  }
  if (part_make(&far->parts[part], sizeof(vyc_far_words) << part) != NULL) return VYC_OK;
  return vyc__fail(VYC_E_MEMORY, "streams", "out of host memory");
}

/* A mark is added to `taken` before it is cleared in `used_on`, so they are read in the opposite
 * order. */
static uint64_t members(const vyc_far_words *words) {
  const uint64_t used_on = atomic_load_explicit(&words->used_on, memory_order_acquire);
  return used_on | atomic_load_explicit(&words->taken, memory_order_acquire);
}

static uint64_t taken(const vyc_far_words *words) {
  return atomic_load_explicit(&words->taken, memory_order_acquire);
}

static uint32_t next(const vyc_far_set *set, uint32_t from,
                     uint64_t (*bits_of)(const vyc_far_words *words)) {
  const vyc_far *far = far_of(set);
  if (far == NULL) return VYC_SLOT_NONE;
  while (from < VYC_SLOTS) {
    const uint32_t bit = (from - VYC_NEAR_SLOTS) % VYC_FAR_UNIT;
    const vyc_far_words *words = vyc__far_words_of(set, from);
    if (words == NULL) { /* there is no later one of the part either */
      uint32_t part;
      vyc__far_index(from, &part);
      from = vyc__far_first(part + 1);
      continue;
    }
    const uint64_t left = bits_of(words) >> bit;
    if (left != 0) return from + (uint32_t)__builtin_ctzll(left);
    from += VYC_FAR_UNIT - bit;
  }
  return VYC_SLOT_NONE;
}

uint32_t vyc__far_next(const vyc_far_set *set, uint32_t from) { return next(set, from, members); }

uint32_t vyc__far_next_taken(const vyc_far_set *set, uint32_t from) {
  return next(set, from, taken);
}

typedef void (*visitor)(vyc_far_words *words);

static void each(const vyc_far_set *set, visitor visit) {
  const vyc_far *far = far_of(set);
  for (uint32_t part = 0; far != NULL && part < VYC_FAR_PARTS; part++) {
    vyc_far_words *words = atomic_load_explicit(&far->parts[part], memory_order_acquire);
    for (uint32_t i = 0; words != NULL && i < 1u << part; i++) visit(words + i);
  }
}

static void take(vyc_far_words *words) {
  const uint64_t used_on = atomic_load(&words->used_on);
  if (used_on == 0) return;
  atomic_fetch_or(&words->taken, used_on);
  atomic_fetch_and(&words->used_on, ~used_on);
}

static void forget_taken(vyc_far_words *words) { atomic_store(&words->taken, 0); }

static void clear(vyc_far_words *words) {
  atomic_store(&words->used_on, 0);
  atomic_store(&words->taken, 0);
}

void vyc__far_take(const vyc_far_set *set) { each(set, take); }
void vyc__far_forget_taken(const vyc_far_set *set) { each(set, forget_taken); }
void vyc__far_clear(const vyc_far_set *set) { each(set, clear); }

void vyc__far_free(vyc_far_set *set) {
  vyc_far *far = atomic_exchange(set, NULL);
  if (far == NULL) return;
  vyc__far_parts_free(far);
  free(far);
}

/* ---- sets of slots --------------------------------------------------------------------------- */

uint32_t vyc__slots_next(uint64_t near, const vyc_far_set *far, uint32_t from) {
  const uint64_t left = from < VYC_NEAR_SLOTS ? (near & ~VYC_FAR_BIT) >> from : 0;
  if (left != 0) return from + (uint32_t)__builtin_ctzll(left);
  if ((near & VYC_FAR_BIT) == 0) return VYC_SLOT_NONE;
  const uint32_t far_from = from < VYC_NEAR_SLOTS ? VYC_NEAR_SLOTS : from;
  if (far == NULL) return far_from == VYC_SLOT_OTHER ? VYC_SLOT_OTHER : VYC_SLOT_NONE;
  return vyc__far_next(far, far_from);
}

vyc_status vyc__slots_add_far(vyc_slots *slots, uint32_t slot) {
  if (vyc__far_has(&slots->far, slot)) return VYC_OK;
  VYC_TRY(vyc__far_reserve(&slots->far, slot));
  atomic_fetch_or(&slots->near, VYC_FAR_BIT);
  atomic_fetch_or(&vyc__far_words_of(&slots->far, slot)->used_on, vyc__far_mask(slot));
  return VYC_OK;
}

void vyc__slots_remove(vyc_slots *slots, uint32_t slot) {
  if (slot < VYC_NEAR_SLOTS)
    atomic_fetch_and(&slots->near, ~vyc__slot_bit(slot));
  else if (vyc__far_has(&slots->far, slot))
    atomic_fetch_and(&vyc__far_words_of(&slots->far, slot)->used_on, ~vyc__far_mask(slot));
}

bool vyc__slots_is_within(const vyc_slots *slots, uint32_t slot) {
  const uint64_t near = atomic_load(&slots->near);
  VYC_EACH_SLOT(other, near, &slots->far)
  if (other != slot) return false;
  return true;
}

bool vyc__slots_meet(const vyc_slots *a, const vyc_slots *b) {
  const uint64_t both = atomic_load(&a->near) & atomic_load(&b->near);
  if ((both & ~VYC_FAR_BIT) != 0) return true;
  VYC_EACH_SLOT(slot, both & VYC_FAR_BIT, &a->far)
  if (vyc__far_has(&b->far, slot)) return true;
  return false;
}

void vyc__slots_clear(vyc_slots *slots) {
  atomic_store(&slots->near, 0);
  vyc__far_clear(&slots->far);
}
