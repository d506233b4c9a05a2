/* The pools as callers see them: statistics, budgets, trimming. */
#include "room.h"

typedef struct reading {
  uint64_t live_bytes, idle_bytes, peak_bytes, live_count, hits, misses, frees, budget;
} reading;

/* What is no longer used becomes idle first. */
static void harvest(vyc_context *context, vyc_pool *pool) {
  vyc_block *retired = NULL;
  pthread_mutex_lock(&pool->lock);
  while (vyc__pool_harvest(context, pool, &retired)) {
  }
  pthread_mutex_unlock(&pool->lock);
  vyc__blocks_free(context, pool, retired);
  vyc__pool_keep_budget(context, pool);
}

static reading read_pool(vyc_pool *pool) {
  reading r = {0};
  const vyc_magazine_sums sums = vyc__magazines_sum(pool);
  r.live_bytes = atomic_load(&pool->live_bytes);
  r.peak_bytes = atomic_load(&pool->peak_bytes);
  pthread_mutex_lock(&pool->lock);
  r.idle_bytes = pool->idle_bytes + sums.bytes;
  r.live_count = pool->takes + sums.takes - pool->gives - sums.gives;
  r.hits = pool->takes + sums.takes - pool->misses;
  r.misses = pool->misses;
  r.frees = pool->frees;
  r.budget = pool->budget;
  pthread_mutex_unlock(&pool->lock);
  return r;
}

static vyc_memory_stats read_both(vyc_context *context) {
  const reading device = read_pool(vyc__device_pool(context));
  const reading pinned = read_pool(vyc__pinned_pool(context));
  return (vyc_memory_stats){.live_bytes = device.live_bytes,
                            .idle_bytes = device.idle_bytes,
                            .peak_bytes = device.peak_bytes,
                            .live_count = device.live_count,
                            .hits = device.hits,
                            .misses = device.misses,
                            .pinned_live_bytes = pinned.live_bytes,
                            .pinned_idle_bytes = pinned.idle_bytes,
                            .pinned_peak_bytes = pinned.peak_bytes,
                            .pinned_live_count = pinned.live_count,
                            .pinned_hits = pinned.hits,
                            .pinned_misses = pinned.misses,
                            .frees = device.frees,
                            .pinned_frees = pinned.frees,
                            .budget_bytes = device.budget,
                            .pinned_budget_bytes = pinned.budget};
}

static vyc_status read_usable(vyc_context *context, vyc_memory_stats *stats) {
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  harvest(context, vyc__device_pool(context));
  harvest(context, vyc__pinned_pool(context));
  *stats = read_both(context);
  vyc__leave(context, &scope);
  return VYC_OK;
}

vyc_memory_stats vyc__memory_read(vyc_context *context) {
  vyc_memory_stats stats;
  vyc_error failure;
  vyc__error_save(&failure);
  if (read_usable(context, &stats) != VYC_OK) stats = read_both(context);
  vyc__error_restore(&failure);
  return stats;
}

vyc_status vyc_context_memory_stats(vyc_context *context, vyc_memory_stats *stats_out) {
  VYC_REQUIRE(context != NULL && stats_out != NULL);
  VYC_REQUIRE(stats_out->struct_size >= sizeof(uint32_t));
  vyc_memory_stats stats;
  VYC_TRY(read_usable(context, &stats));
  vyc__struct_out(stats_out, &stats, sizeof stats);
  return VYC_OK;
}

vyc_status vyc_context_trim(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  vyc__holds_reap(context);
  VYC_TRY(vyc__enter(context, &scope));
  context->above->empty_submissions(context);
  vyc__small_copies_trim(context);
  vyc__scope_rest(&scope); /* it may wait for a kernel that the close of another device ends */
  vyc__pool_trim(context, vyc__device_pool(context));
  vyc__pool_trim(context, vyc__pinned_pool(context));
  vyc__scope_go_on(&scope);
  vyc__leave(context, &scope);
  return VYC_OK;
}

vyc_status vyc_context_set_memory_budget(vyc_context *context, uint64_t bytes,
                                         uint64_t pinned_bytes) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc__pool_set_budget(context, vyc__device_pool(context), bytes);
  vyc__pool_set_budget(context, vyc__pinned_pool(context), pinned_bytes);
  vyc__leave(context, &scope);
  return VYC_OK;
}
