/* Counters: one row of VYC_STATS_TABLE each, kept per thread and summed when somebody asks.
 *
 * Each context has a shard for the number of a thread that has counted there; only the thread with
 * that number writes to it, so counting is a load, an addition and a store. The numbers of ended
 * threads are given out again, and with them the shards. */
#ifndef VYC_COUNTERS_H
#define VYC_COUNTERS_H

#include <pthread.h>

#include "base/room.h"

#define VYC_SHARDS VYC_THREADS /* threads beyond share one */

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
  vyc_shard *shared;      /* for threads without a shard of their own */
  pthread_mutex_t lock;   /* for `base` */
  uint64_t base[VYC_ROW_COUNT]; /* what the totals were at the last reset */
  _Atomic uint64_t most_device_ns;
} vyc_counters;

/* VYC_E_MEMORY: call vyc__counters_free all the same. */
vyc_status vyc__counters_init(vyc_counters *counters);
void vyc__counters_free(vyc_counters *counters);
/* For a thread that has no shard yet, or none of its own. */
void vyc__count_slow(vyc_counters *counters, uint32_t row, uint64_t n);
/* Several at once: the shard is looked up once. */
typedef struct vyc_addend {
  uint32_t row;
  uint64_t n;
} vyc_addend;
void vyc__count_rows(vyc_counters *counters, const vyc_addend *addends, uint32_t count);
/* The times of a timed run. */
void vyc__count_timing(vyc_counters *counters, const vyc_timing *timing);

/* What has been counted, by row, or in one row. */
void vyc__counters_sum(vyc_counters *counters, uint64_t *sums);
uint64_t vyc__counters_total(const vyc_counters *counters, uint32_t row);
/* What the totals were at the last reset. Read before the sums from which it is subtracted: a reset
 * in between would have larger ones. */
void vyc__counters_base(vyc_counters *counters, uint64_t *base_out);
/* Totals begin anew at `sums`, unless another reset has found more. */
void vyc__counters_reset(vyc_counters *counters, const uint64_t *sums);
/* VYC_STATS_... */
uint32_t vyc__counter_kind(uint32_t row);

/* The warm path: no lock and no atomic exchange. */
/* The shard of the calling thread; NULL: it has not counted here yet, or has none. */
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

/* Add to a counter: a level may be lowered by adding a negative number, modulo 2^64. */
#define vyc__count(counters, name, n) vyc__count_row((counters), VYC_ROW_##name, (n))

#endif
