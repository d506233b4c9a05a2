/* What a context has counted, as callers see it. */
#include <string.h>

#include "room.h"

/* The counts that pools, bound calls, streams and events keep themselves. */
static void add_others(vyc_context *context, uint64_t *sums) {
  const vyc_memory_stats memory = vyc__memory_read(context);
  sums[VYC_ROW_kernel_launches] = vyc__kernel_launches(context);
  sums[VYC_ROW_live_bytes] = memory.live_bytes;
  sums[VYC_ROW_idle_bytes] = memory.idle_bytes;
  sums[VYC_ROW_device_pool_hits] = memory.hits;
  sums[VYC_ROW_device_pool_misses] = memory.misses;
  sums[VYC_ROW_pinned_live_bytes] = memory.pinned_live_bytes;
  sums[VYC_ROW_pinned_idle_bytes] = memory.pinned_idle_bytes;
  sums[VYC_ROW_pinned_pool_hits] = memory.pinned_hits;
  sums[VYC_ROW_pinned_pool_misses] = memory.pinned_misses;
  vyc__streams_count(context, &sums[VYC_ROW_live_streams], &sums[VYC_ROW_adopted_streams]);
  sums[VYC_ROW_idle_events] = vyc__events_kept(context);
}

static void sum(vyc_context *context, uint64_t *sums) {
  vyc__counters_sum(&context->counters, sums);
  add_others(context, sums);
}

static vyc_status check_process(const vyc_context *context) {
  if (!vyc__is_forked(context)) return VYC_OK;
  return vyc__fail(VYC_E_UNAVAILABLE, "fork",
                   "the device was opened by the parent process: ask there");
}

vyc_status vyc_context_stats(vyc_context *context, uint64_t *values_out, uint32_t count) {
  VYC_REQUIRE(context != NULL && (values_out != NULL || count == 0));
  VYC_TRY(check_process(context));
  uint64_t base[VYC_ROW_COUNT], sums[VYC_ROW_COUNT];
  vyc__counters_base(&context->counters, base);
  sum(context, sums);
  for (uint32_t row = 0; row < count; row++)
    values_out[row] = row < VYC_ROW_COUNT ? sums[row] - base[row] : 0;
  return VYC_OK;
}

vyc_status vyc_context_reset_stats(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  VYC_TRY(check_process(context));
  uint64_t sums[VYC_ROW_COUNT];
  atomic_store_explicit(&context->counters.most_device_ns, 0, memory_order_relaxed);
  sum(context, sums);
  vyc__counters_reset(&context->counters, sums);
  return VYC_OK;
}

vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing) {
  VYC_REQUIRE(context != NULL && timing != NULL && timing->struct_size >= sizeof *timing);
  VYC_TRY(check_process(context));
  vyc__count_timing(&context->counters, timing);
  return VYC_OK;
}

vyc_status vyc_context_count(vyc_context *context, uint32_t row, uint64_t n) {
  VYC_REQUIRE(context != NULL && row < VYC_ROW_COUNT);
  VYC_REQUIRE(vyc__counter_kind(row) != VYC_STATS_MOST);
  VYC_TRY(check_process(context));
  vyc__count_row(&context->counters, row, n);
  return VYC_OK;
}
