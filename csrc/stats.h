/* Counters: one row of VYC_STATS_TABLE each, kept per thread and summed when somebody asks.
 *
 * A thread has a number while it lives, and each context a shard for a number that has counted
 * there; only the thread with that number writes to it, so counting is a load, an addition and a
 * store. Numbers of ended threads are given out again, and with them the shards. Included by
 * internal.h only. */
#ifndef VYC_STATS_H
#define VYC_STATS_H

#define VYC_SHARDS                                                                                 \
  1024u /* threads at a time with a shard of their own; the others share shard 0                   \
         */

enum { /* rows of the table */
#define VYC_STATS_ROW(name, kind, help) VYC_ROW_##name,
       VYC_STATS_TABLE(VYC_STATS_ROW)
#undef VYC_STATS_ROW
           VYC_ROW_COUNT
};

typedef struct vyc_shard {
  _Atomic uint64_t counts[VYC_ROW_COUNT];
} vyc_shard;

typedef struct vyc_counters {
  _Atomic(vyc_shard *) shards[VYC_SHARDS];
  vyc_shard *shared;      /* of threads without a shard of their own */
  pthread_mutex_t lock;   /* of `base` and of making shards */
  uint64_t base[VYC_ROW_COUNT]; /* what the totals were at the last reset */
  _Atomic uint64_t most_device_ns;
} vyc_counters;

/* From 1; 0: the thread has none yet. */
extern __attribute__((visibility("hidden"))) _Thread_local uint32_t vyc__thread;
/* The calling thread's number, never 0. */
uint32_t vyc__thread_take(void);
static inline uint32_t vyc__thread_number(void) {
  return VYC_LIKELY(vyc__thread != 0) ? vyc__thread : vyc__thread_take();
}

/* VYC_E_MEMORY; vyc__counters_free takes what was begun. */
vyc_status vyc__counters_init(vyc_counters *counters);
void vyc__counters_free(vyc_counters *counters);
/* Where the thread has no shard, or none of its own. */
void vyc__count_slow(vyc_context *context, uint32_t row, uint64_t n);
/* Several at once: the shard is looked up once. */
typedef struct vyc_addend {
  uint32_t row;
  uint64_t n;
} vyc_addend;
void vyc__count_rows(vyc_context *context, const vyc_addend *addends, uint32_t count);
/* The times of a run that was measured. */
void vyc__count_timing(vyc_context *context, const vyc_timing *timing);

/* Add to a counter: a level may be lowered by adding a negative number, modulo 2^64. */
#define vyc__count(context, name, n) vyc__count_row((context), VYC_ROW_##name, (n))

#endif
