/* Telemetry: the shards that threads count in, and the sums. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

/* ---- counting -------------------------------------------------------------------------------- */

static vyc_shard *make_shard(void) {
  const size_t bytes =
      (sizeof(vyc_shard) + 63) / 64 * 64; /* whole cache lines, so that threads share none */
  vyc_shard *shard = aligned_alloc(64, bytes);
  if (shard != NULL) memset(shard, 0, bytes);
  return shard;
}

vyc_status vyc__counters_init(vyc_counters *counters) {
  pthread_mutex_init(&counters->lock, NULL);
  counters->shared = make_shard();
  return counters->shared != NULL ? VYC_OK
                                  : vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
}

void vyc__counters_free(vyc_counters *counters) {
  for (uint32_t i = 0; i < VYC_SHARDS; i++) free(atomic_load(&counters->shards[i]));
  free(counters->shared);
  pthread_mutex_destroy(&counters->lock);
}

void vyc__count_slow(vyc_counters *counters, uint32_t row, uint64_t n) {
  const uint32_t number = vyc__thread_number();
  if (number < VYC_SHARDS && atomic_load(&counters->shards[number]) == NULL)
    atomic_store_explicit(&counters->shards[number], make_shard(), memory_order_release);
  if (number < VYC_SHARDS && atomic_load(&counters->shards[number]) != NULL)
    vyc__count_row(counters, row, n);
  else
    atomic_fetch_add_explicit(&counters->shared->counts[row], n, memory_order_relaxed);
}

void vyc__count_rows(vyc_counters *counters, const vyc_addend *addends, uint32_t count) {
  vyc_shard *shard = vyc__shard(counters);
  for (uint32_t i = 0; i < count; i++)
    if (VYC_LIKELY(shard != NULL))
      vyc__shard_add(shard, addends[i].row, addends[i].n);
    else
      vyc__count_row(counters, addends[i].row, addends[i].n);
}

void vyc__count_timing(vyc_counters *counters, const vyc_timing *timing) {
  const vyc_addend addends[] = {{VYC_ROW_timed_dispatches, 1},
                                {VYC_ROW_timed_wall_ns_total, timing->wall_ns},
                                {VYC_ROW_timed_device_ns_total, timing->device_ns},
                                {VYC_ROW_timed_enqueue_ns_total, timing->enqueue_ns},
                                {VYC_ROW_timed_wait_ns_total, timing->wait_ns}};
  vyc__count_rows(counters, addends, sizeof addends / sizeof addends[0]);
  _Atomic uint64_t *most = &counters->most_device_ns;
  uint64_t before = atomic_load_explicit(most, memory_order_relaxed);
  while (before < timing->device_ns &&
         !atomic_compare_exchange_weak(most, &before, timing->device_ns)) {
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

struct stats_row {
  const char *name, *help;
  uint32_t kind;
};

static const struct stats_row rows[] = {
#define VYC_STATS_ROW(name, kind, help) {#name, help, VYC_STATS_##kind},
    VYC_STATS_TABLE(VYC_STATS_ROW)
#undef VYC_STATS_ROW
};

vyc_status vyc_stats_row(const char **name_out, const char **help_out, uint32_t *kind_out,
                         uint32_t row) {
  VYC_REQUIRE(name_out != NULL && help_out != NULL && kind_out != NULL);
  VYC_REQUIRE(row < VYC_ROW_COUNT);
  *name_out = rows[row].name;
  *help_out = rows[row].help;
  *kind_out = rows[row].kind;
  return VYC_OK;
}

uint64_t vyc__counters_total(const vyc_counters *counters, uint32_t row) {
  uint64_t sum = atomic_load_explicit(&counters->shared->counts[row], memory_order_relaxed);
  for (uint32_t i = 0; i < VYC_SHARDS; i++) {
    vyc_shard *shard = atomic_load_explicit(&counters->shards[i], memory_order_acquire);
    if (shard != NULL) sum += atomic_load_explicit(&shard->counts[row], memory_order_relaxed);
  }
  return sum;
}

static void add_shard(uint64_t *sums, vyc_shard *shard) {
  for (uint32_t row = 0; shard != NULL && row < VYC_ROW_COUNT; row++)
    sums[row] += atomic_load_explicit(&shard->counts[row], memory_order_relaxed);
}

void vyc__counters_sum(vyc_counters *counters, uint64_t *sums) {
  memset(sums, 0, VYC_ROW_COUNT * sizeof *sums);
  add_shard(sums, counters->shared);
  for (uint32_t i = 0; i < VYC_SHARDS; i++)
    add_shard(sums, atomic_load_explicit(&counters->shards[i], memory_order_acquire));
  sums[VYC_ROW_timed_device_ns_max] =
      atomic_load_explicit(&counters->most_device_ns, memory_order_relaxed);
}

void vyc__counters_base(vyc_counters *counters, uint64_t *base_out) {
  pthread_mutex_lock(&counters->lock);
  memcpy(base_out, counters->base, sizeof counters->base);
  pthread_mutex_unlock(&counters->lock);
}

void vyc__counters_reset(vyc_counters *counters, const uint64_t *sums) {
  pthread_mutex_lock(&counters->lock);
  for (uint32_t row = 0; row < VYC_ROW_COUNT; row++)
    if (rows[row].kind == VYC_STATS_TOTAL && sums[row] > counters->base[row])
      counters->base[row] = sums[row];
  pthread_mutex_unlock(&counters->lock);
}

uint32_t vyc__counter_kind(uint32_t row) { return rows[row].kind; }
