/* What warm paths do for telemetry: adding to a counter, writing down a launch. Neither takes a
 * lock nor an atomic exchange. */
#ifndef VYC_TELEMETRY_H
#define VYC_TELEMETRY_H

#include <string.h>

#include "history.h"
#include "stats.h"

/* ---- stats.c ---- */

/* The calling thread's; NULL: it has not counted here yet, or has none. */
static inline vyc_shard *vyc__shard(vyc_counters *counters) {
  const uint32_t number = vyc__thread;
  if (VYC_UNLIKELY(number >= VYC_SHARDS)) return NULL;
  return atomic_load_explicit(&counters->shards[number], memory_order_relaxed);
}

static inline void vyc__shard_add(vyc_shard *shard, uint32_t row, uint64_t n) {
  const uint64_t before = atomic_load_explicit(&shard->counts[row], memory_order_relaxed);
  atomic_store_explicit(&shard->counts[row], before + n, memory_order_relaxed);
}

static inline void vyc__count_row(vyc_counters *counters, uint32_t row, uint64_t n) {
  vyc_shard *shard = vyc__shard(counters);
  if (VYC_LIKELY(shard != NULL))
    vyc__shard_add(shard, row, n);
  else
    vyc__count_slow(counters, row, n);
}

/* ---- history.c ---- */

static inline vyc_note vyc__note_of(vyc_history *history, const vyc_name *name, uint32_t origin) {
  const void *traces = atomic_load_explicit(&history->traces, memory_order_relaxed);
  return VYC_LIKELY(traces == NULL) ? vyc__note_make(name, origin)
                                    : vyc__traced(history, name, origin);
}

static inline vyc_entry *vyc__entry_of(vyc_history *history, uint32_t ring, uint32_t number) {
  return &history->entries[ring][number % VYC_HISTORY];
}

static inline uint64_t vyc__entry_put(vyc_entry *entry, uint32_t i, const uint8_t *block) {
  uint64_t word;
  memcpy(&word, block + 8 * i, sizeof word);
  atomic_store_explicit(&entry->words[i], word, memory_order_relaxed);
  return word;
}

/* `block` has VYC_NOTED_BYTES at least. Written out, because loops here are not unrolled. */
static inline void vyc__entry_write(vyc_entry *entry, vyc_note note, const uint8_t *block) {
  _Static_assert(VYC_NOTED_WORDS == 6, "each word is put");
  const uint64_t check = note ^ vyc__entry_put(entry, 0, block) ^ vyc__entry_put(entry, 1, block) ^
                         vyc__entry_put(entry, 2, block) ^ vyc__entry_put(entry, 3, block) ^
                         vyc__entry_put(entry, 4, block) ^ vyc__entry_put(entry, 5, block);
  atomic_store_explicit(&entry->check, check, memory_order_relaxed);
  atomic_store_explicit(&entry->note, note, memory_order_release);
}

static inline vyc_note vyc__entry_note(const vyc_entry *entry) {
  return atomic_load_explicit(&entry->note, memory_order_relaxed);
}

/* Without arguments: whatever words are there, they are not this note's. */
static inline void vyc__entry_write_name(vyc_entry *entry, vyc_note note) {
  uint64_t check = ~note;
  for (uint32_t i = 0; i < VYC_NOTED_WORDS; i++)
    check ^= atomic_load_explicit(&entry->words[i], memory_order_relaxed);
  atomic_store_explicit(&entry->check, check, memory_order_relaxed);
  atomic_store_explicit(&entry->note, note, memory_order_release);
}

/* Right before a launch on a stream that has the ring; origin 0: nobody said where from. */
static inline void vyc__note_in(vyc_history *history, uint32_t ring, const vyc_name *name,
                                uint32_t origin, const uint8_t *block) {
  const uint32_t at = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
  vyc__entry_write(vyc__entry_of(history, ring, at), vyc__note_of(history, name, origin), block);
  atomic_store_explicit(&history->next[ring], at + 1, memory_order_relaxed);
}

static inline void vyc__note_launch(vyc_history *history, uint32_t slot, const vyc_name *name,
                                    uint32_t origin, const uint8_t *block) {
  vyc__note_in(history, vyc__ring(slot), name, origin, block);
}

static inline void vyc__note_graph(vyc_history *history, uint32_t slot, const vyc_name *name,
                                   uint32_t origin) {
  const uint32_t ring = vyc__ring(slot);
  const uint32_t at = atomic_load_explicit(&history->next[ring], memory_order_relaxed);
  vyc__entry_write_name(vyc__entry_of(history, ring, at), vyc__note_of(history, name, origin));
  atomic_store_explicit(&history->next[ring], at + 1, memory_order_relaxed);
}

#endif
