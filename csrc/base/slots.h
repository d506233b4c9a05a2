/* Numbers of streams, and sets of them.
 *
 * A stream has the lowest number that no other has, its slot. Near slots have a bit of their own in
 * one word, and a place in arrays; far slots, of which there can be any number, share the last bit.
 * What is kept for a far slot is in parts that are created when needed, each twice as large as the
 * one before, and never moved, so reading takes no lock. */
#ifndef VYC_SLOTS_H
#define VYC_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "status.h"

#define VYC_SLOT_MAIN 0u
#define VYC_NEAR_SLOTS 63u
#define VYC_SLOT_OTHER                                                                             \
  VYC_NEAR_SLOTS /* the first far one: streams for which no number was left                        \
                  */
#define VYC_SLOT_NONE UINT32_MAX
#define VYC_FAR_BIT (UINT64_C(1) << VYC_NEAR_SLOTS)
#define VYC_FAR_PARTS 12u
#define VYC_FAR_UNIT 64u /* slots in the first part, and bits of a word */
#define VYC_SLOTS (VYC_NEAR_SLOTS + VYC_FAR_UNIT * ((1u << VYC_FAR_PARTS) - 1u))

typedef struct vyc_far {
  _Atomic(void *) parts[VYC_FAR_PARTS];
} vyc_far;

/* A set of far slots; NULL: it has never had one. */
typedef _Atomic(vyc_far *) vyc_far_set;

/* For each unit of far slots. memory/marks.c explains `taken`. */
typedef struct vyc_far_words {
  _Atomic uint64_t used_on, taken;
} vyc_far_words;

/* A set of slots. */
typedef struct vyc_slots {
  _Atomic uint64_t near; /* bits; the last one: `far` has some */
  vyc_far_set far;
} vyc_slots;

static inline uint64_t vyc__slot_bit(uint32_t slot) {
  return UINT64_C(1) << (slot < VYC_NEAR_SLOTS ? slot : VYC_NEAR_SLOTS);
}

/* The index of a far slot in its part, an array of entries. */
static inline uint32_t vyc__far_index(uint32_t slot, uint32_t *part_out) {
  const uint32_t n = slot - VYC_NEAR_SLOTS;
  *part_out = 31u - (uint32_t)__builtin_clz(n / VYC_FAR_UNIT + 1u);
  return n - VYC_FAR_UNIT * ((1u << *part_out) - 1u);
}
/* The first slot of a part. */
static inline uint32_t vyc__far_first(uint32_t part) {
  return VYC_NEAR_SLOTS + VYC_FAR_UNIT * ((1u << part) - 1u);
}
/* The number of slots of a part. */
static inline uint32_t vyc__far_room(uint32_t part) { return VYC_FAR_UNIT << part; }
/* NULL: the part was not created. */
static inline void *vyc__far_entry(const vyc_far *far, uint32_t slot, size_t bytes) {
  uint32_t part;
  const uint32_t index = vyc__far_index(slot, &part);
  char *entries = atomic_load_explicit(&far->parts[part], memory_order_acquire);
  return entries == NULL ? NULL : entries + index * bytes;
}
/* The same, created if needed, with zeros. NULL: out of host memory, which is not recorded. */
void *vyc__far_entry_make(vyc_far *far, uint32_t slot, size_t bytes);
/* To be called when it is not read any more. */
void vyc__far_parts_free(vyc_far *far);

/* ---- sets of far slots ----------------------------------------------------------------------- */

/* Make room for the slot: later operations on it cannot fail. VYC_E_MEMORY, which is recorded. */
vyc_status vyc__far_reserve(vyc_far_set *set, uint32_t slot);
/* The words of the unit of a slot; NULL: there is no room for it. */
vyc_far_words *vyc__far_words_of(const vyc_far_set *set, uint32_t slot);
static inline uint64_t vyc__far_mask(uint32_t slot) {
  return UINT64_C(1) << (slot - VYC_NEAR_SLOTS) % VYC_FAR_UNIT;
}
static inline bool vyc__far_has(const vyc_far_set *set, uint32_t slot) {
  const vyc_far_words *words = vyc__far_words_of(set, slot);
  return words != NULL &&
         (atomic_load_explicit(&words->used_on, memory_order_acquire) & vyc__far_mask(slot)) != 0;
}
/* The first slot from `from` on that is in the set, or taken out of it; or only such a one;
 * VYC_SLOT_NONE. */
uint32_t vyc__far_next(const vyc_far_set *set, uint32_t from);
uint32_t vyc__far_next_taken(const vyc_far_set *set, uint32_t from);
/* Take all that are in it, and forget those that were taken. */
void vyc__far_take(const vyc_far_set *set);
void vyc__far_forget_taken(const vyc_far_set *set);
void vyc__far_clear(const vyc_far_set *set);
void vyc__far_free(vyc_far_set *set);

/* ---- sets of slots --------------------------------------------------------------------------- */

/* The first slot from `from` on that has a bit in `near`, or, with the last bit, is in the far set
 * (which may be NULL: then it is VYC_SLOT_OTHER); VYC_SLOT_NONE. */
uint32_t vyc__slots_next(uint64_t near, const vyc_far_set *far, uint32_t from);
/* For each of them, in order. */
#define VYC_EACH_SLOT(slot, near, far)                                                             \
  for (uint32_t slot = vyc__slots_next((near), (far), 0); slot != VYC_SLOT_NONE;                   \
       slot = vyc__slots_next((near), (far), slot + 1))
vyc_status vyc__slots_add_far(vyc_slots *slots, uint32_t slot);
static inline vyc_status vyc__slots_add(vyc_slots *slots, uint32_t slot) {
  if (VYC_UNLIKELY(slot >= VYC_NEAR_SLOTS)) return vyc__slots_add_far(slots, slot);
  if ((atomic_load_explicit(&slots->near, memory_order_relaxed) & vyc__slot_bit(slot)) == 0)
    atomic_fetch_or(&slots->near, vyc__slot_bit(slot));
  return VYC_OK;
}
static inline bool vyc__slots_has(const vyc_slots *slots, uint32_t slot) {
  if (VYC_UNLIKELY(slot >= VYC_NEAR_SLOTS)) return vyc__far_has(&slots->far, slot);
  return (atomic_load(&slots->near) & vyc__slot_bit(slot)) != 0;
}
void vyc__slots_remove(vyc_slots *slots, uint32_t slot);
/* Whether it has no slot except this one. */
bool vyc__slots_is_within(const vyc_slots *slots, uint32_t slot);
/* Whether they have a slot in common. */
bool vyc__slots_meet(const vyc_slots *a, const vyc_slots *b);
/* Make it empty again, keeping its memory. */
void vyc__slots_clear(vyc_slots *slots);

#endif
