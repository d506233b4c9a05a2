/* What warm paths do for telemetry: adding to a counter, writing down a launch. Neither takes a
 * lock nor an atomic exchange. Included by internal.h only. */
#ifndef VYC_TELEMETRY_H
#define VYC_TELEMETRY_H

/* ---- stats.c ---- */

/* The calling thread's; NULL: it has not counted here yet, or has none. */
static inline vyc_shard *vyc__shard(vyc_context *context) {
  const uint32_t number = vyc__thread;
  if (VYC_UNLIKELY(number >= VYC_SHARDS)) return NULL;
  return atomic_load_explicit(&context->counters.shards[number], memory_order_relaxed);
}

static inline void vyc__shard_add(vyc_shard *shard, uint32_t row, uint64_t n) {
  const uint64_t before = atomic_load_explicit(&shard->counts[row], memory_order_relaxed);
  atomic_store_explicit(&shard->counts[row], before + n, memory_order_relaxed);
}

static inline void vyc__count_row(vyc_context *context, uint32_t row, uint64_t n) {
  vyc_shard *shard = vyc__shard(context);
  if (VYC_LIKELY(shard != NULL))
    vyc__shard_add(shard, row, n);
  else
    vyc__count_slow(context, row, n);
}

/* ---- history.c ---- */

static inline vyc_note vyc__note_of(vyc_context *context, const vyc_name *name, uint32_t origin) {
  const void *traces = atomic_load_explicit(&context->traces, memory_order_relaxed);
  return VYC_LIKELY(traces == NULL) ? vyc__note_make(name, origin)
                                    : vyc__traced(context, name, origin);
}

/* Right before a launch on the stream of a slot; origin 0: nobody said where from. */
static inline void vyc__note_launch(vyc_context *context, uint32_t slot, const vyc_name *name,
                                    uint32_t origin) {
  vyc_history *history = &context->history;
  const uint32_t at = atomic_load_explicit(&history->next[slot], memory_order_relaxed);
  atomic_store_explicit(&history->notes[slot][at % VYC_HISTORY],
                        vyc__note_of(context, name, origin), memory_order_release);
  atomic_store_explicit(&history->next[slot], at + 1, memory_order_relaxed);
}

#endif
