/* Telemetry: the numbers of threads, the shards that they count in, and the sums. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- numbers of threads ---------------------------------------------------------------------- */

_Thread_local uint32_t vyc__thread;

static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t numbers_given;  /* 1 to this have been given at some time */
static uint32_t numbers_left;   /* of ended threads, for the next ones: so many in the array */
static uint32_t numbers[VYC_SHARDS];
static pthread_key_t numbers_key;
static bool numbers_have_key, numbers_watch_forks;

/* At the end of a thread: what comes after in it takes a number anew. */
static void give_number(void *value) {
  const uint32_t number = (uint32_t)(uintptr_t)value;
  vyc__thread = 0;
  pthread_mutex_lock(&numbers_lock);
  if (number < VYC_SHARDS) numbers[numbers_left++] = number;
  pthread_mutex_unlock(&numbers_lock);
}

static void lock_numbers(void) { pthread_mutex_lock(&numbers_lock); }
static void unlock_numbers(void) { pthread_mutex_unlock(&numbers_lock); }

/* Caller holds the lock. What memory is short for is tried again with the next thread. */
static void prepare(void) {
  if (!numbers_have_key) numbers_have_key = pthread_key_create(&numbers_key, give_number) == 0;
  if (!numbers_watch_forks)
    numbers_watch_forks = pthread_atfork(lock_numbers, unlock_numbers, unlock_numbers) == 0;
}

uint32_t vyc__thread_take(void) {
  pthread_mutex_lock(&numbers_lock);
  prepare();
  uint32_t number = VYC_SHARDS; /* without a shard */
  if (numbers_left > 0)
    number = numbers[--numbers_left];
  else if (numbers_given < VYC_SHARDS - 1)
    number = ++numbers_given;
  const bool returns = numbers_have_key && number < VYC_SHARDS;
  pthread_mutex_unlock(&numbers_lock);
  vyc__thread = number;
  if (returns)
    pthread_setspecific(numbers_key, (void *)(uintptr_t)number); /* else it is never given again */
  return number;
}

/* ---- counting -------------------------------------------------------------------------------- */

static vyc_shard *make_shard(void) {
  const size_t bytes =
      (sizeof(vyc_shard) + 63) / 64 * 64; /* whole cache lines: threads share none */
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

void vyc__count_slow(vyc_context *context, uint32_t row, uint64_t n) {
  vyc_counters *counters = &context->counters;
  const uint32_t number = vyc__thread_number();
  if (number < VYC_SHARDS && atomic_load(&counters->shards[number]) == NULL)
    atomic_store_explicit(&counters->shards[number], make_shard(), memory_order_release);
  if (number < VYC_SHARDS && atomic_load(&counters->shards[number]) != NULL)
    vyc__count_row(context, row, n);
  else
    atomic_fetch_add_explicit(&counters->shared->counts[row], n, memory_order_relaxed);
}

void vyc__count_rows(vyc_context *context, const vyc_addend *addends, uint32_t count) {
  vyc_shard *shard = vyc__shard(context);
  for (uint32_t i = 0; i < count; i++)
    if (VYC_LIKELY(shard != NULL))
      vyc__shard_add(shard, addends[i].row, addends[i].n);
    else
      vyc__count_row(context, addends[i].row, addends[i].n);
}

void vyc__count_timing(vyc_context *context, const vyc_timing *timing) {
  const vyc_addend addends[] = {{VYC_ROW_timed_dispatches, 1},
                                {VYC_ROW_timed_wall_ns_total, timing->wall_ns},
                                {VYC_ROW_timed_device_ns_total, timing->device_ns},
                                {VYC_ROW_timed_enqueue_ns_total, timing->enqueue_ns},
                                {VYC_ROW_timed_wait_ns_total, timing->wait_ns}};
  vyc__count_rows(context, addends, sizeof addends / sizeof addends[0]);
  _Atomic uint64_t *most = &context->counters.most_device_ns;
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

static void add_shard(uint64_t *sums, vyc_shard *shard) {
  for (uint32_t row = 0; shard != NULL && row < VYC_ROW_COUNT; row++)
    sums[row] += atomic_load_explicit(&shard->counts[row], memory_order_relaxed);
}

/* What pools, bound calls, streams, events and the largest time are counted by elsewhere. */
static void add_others(vyc_context *context, uint64_t *sums) {
  const vyc_memory_stats memory = vyc__memory_read(context);
  sums[VYC_ROW_kernel_launches] += vyc__call_launches(context);
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
  sums[VYC_ROW_timed_device_ns_max] =
      atomic_load_explicit(&context->counters.most_device_ns, memory_order_relaxed);
}

static void sum(vyc_context *context, uint64_t *sums) {
  vyc_counters *counters = &context->counters;
  memset(sums, 0, VYC_ROW_COUNT * sizeof *sums);
  add_shard(sums, counters->shared);
  for (uint32_t i = 0; i < VYC_SHARDS; i++)
    add_shard(sums, atomic_load_explicit(&counters->shards[i], memory_order_acquire));
  add_others(context, sums);
}

static vyc_status check_process(const vyc_context *context) {
  if (!vyc__is_forked(context)) return VYC_OK;
  return vyc__fail(VYC_E_UNAVAILABLE, "fork", "the device was opened by the parent process");
}

vyc_status vyc_context_stats(vyc_context *context, uint64_t *values_out, uint32_t count) {
  VYC_REQUIRE(context != NULL && (values_out != NULL || count == 0));
  VYC_TRY(check_process(context));
  uint64_t sums[VYC_ROW_COUNT];
  sum(context, sums);
  vyc_counters *counters = &context->counters;
  pthread_mutex_lock(&counters->lock);
  for (uint32_t row = 0; row < count; row++)
    values_out[row] = row < VYC_ROW_COUNT ? sums[row] - counters->base[row] : 0;
  pthread_mutex_unlock(&counters->lock);
  return VYC_OK;
}

vyc_status vyc_context_reset_stats(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  VYC_TRY(check_process(context));
  uint64_t sums[VYC_ROW_COUNT];
  vyc_counters *counters = &context->counters;
  atomic_store_explicit(&counters->most_device_ns, 0, memory_order_relaxed);
  sum(context, sums);
  pthread_mutex_lock(&counters->lock);
  for (uint32_t row = 0; row < VYC_ROW_COUNT; row++)
    counters->base[row] = rows[row].kind == VYC_STATS_TOTAL ? sums[row] : 0;
  pthread_mutex_unlock(&counters->lock);
  return VYC_OK;
}

vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing) {
  VYC_REQUIRE(context != NULL && timing != NULL && timing->struct_size >= sizeof *timing);
  VYC_TRY(check_process(context));
  vyc__count_timing(context, timing);
  return VYC_OK;
}

vyc_status vyc_context_count(vyc_context *context, uint32_t row, uint64_t n) {
  VYC_REQUIRE(context != NULL && row < VYC_ROW_COUNT);
  VYC_REQUIRE(rows[row].kind != VYC_STATS_MOST);
  VYC_TRY(check_process(context));
  vyc__count_row(context, row, n);
  return VYC_OK;
}
