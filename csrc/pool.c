/* Blocks of device or page-locked memory, kept for reuse.
 *
 * Size classes: 256 B steps to 4 KiB, four per doubling to 2 MiB, multiples of 2 MiB above. A
 * released block is handed out again at once when only the context's own stream used it (the next
 * user is ordered after it), else when the streams that used it have passed the release. On
 * out-of-memory idle blocks are freed and the call is tried once more; memory is never queried on
 * the success path. */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_LIMIT 4096u
#define LARGE_STEP (UINT64_C(2) << 20)
#define LARGE_BIN (VYC_BINS - 1)
#define BYTES_MAX (UINT64_MAX / 2) /* sizes round up without wrapping */

static uint64_t class_of(uint64_t bytes, uint32_t *bin_out) {
  if (bytes == 0) bytes = 1;
  if (bytes <= SMALL_LIMIT) {
    const uint64_t size = vyc__align_up(bytes, VYC_ALIGN);
    *bin_out = (uint32_t)(size / VYC_ALIGN - 1);
    return size;
  }
  if (bytes > LARGE_STEP) {
    *bin_out = LARGE_BIN;
    return vyc__align_up(bytes, LARGE_STEP);
  }
  /* 4 KiB = 2^12 opens doubling 0; a quarter of the lower power is the step. */
  const uint32_t doubling = 63u - (uint32_t)__builtin_clzll(bytes - 1) - 12u;
  const uint64_t low = UINT64_C(1) << (doubling + 12u);
  const uint64_t size = vyc__align_up(bytes, low / 4);
  *bin_out = VYC_SMALL_BINS + doubling * 4u + (uint32_t)((size - low) / (low / 4)) - 1u;
  return size;
}

void vyc__pool_init(vyc_pool *pool, bool pinned) {
  memset(pool, 0, sizeof *pool);
  pool->pinned = pinned;
  pthread_mutex_init(&pool->lock, NULL);
}

/* ---- the driver's side ---------------------------------------------------------------------- */

static CUresult raw_alloc(vyc_context *context, const vyc_pool *pool, uint64_t *address_out,
                          uint64_t bytes) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  CUresult result;
  if (pool->pinned) {
    void *host = NULL;
    result = context->driver->cuMemHostAlloc(&host, bytes,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    *address_out = (uint64_t)(uintptr_t)host;
  } else {
    CUdeviceptr address = 0;
    result = context->driver->cuMemAlloc(&address, bytes);
    *address_out = address;
  }
  vyc__capture_restore(context->driver, mode);
  return result;
}

static void raw_free(vyc_context *context, const vyc_pool *pool, vyc_block *block) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  if (pool->pinned)
    context->driver->cuMemFreeHost((void *)(uintptr_t)block->address);
  else
    context->driver->cuMemFree((CUdeviceptr)block->address);
  if (block->event != NULL) context->driver->cuEventDestroy(block->event);
  vyc__capture_restore(context->driver, mode);
  free(block);
}

static vyc_status fail_memory(vyc_context *context, vyc_pool *pool, CUresult result,
                              uint64_t bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  if (context->driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
  const char *name = vyc__driver_result_name(context->driver, result);
  pthread_mutex_lock(&pool->lock);
  const uint64_t live = pool->live_bytes, idle = pool->idle_bytes;
  pthread_mutex_unlock(&pool->lock);
  return vyc__fail_driver(
      VYC_E_MEMORY, pool->pinned ? "cuMemHostAlloc" : "cuMemAlloc", (int32_t)result, name,
      "out of %s memory: asked for %" PRIu64 " bytes, live %" PRIu64 ", idle in the pool %" PRIu64
      ", free on the device %zu of %zu",
      pool->pinned ? "page-locked" : "device", bytes, live, idle, free_bytes, total_bytes);
}

static vyc_status grow(vyc_context *context, vyc_pool *pool, uint64_t *address_out,
                       uint64_t bytes) {
  CUresult result = raw_alloc(context, pool, address_out, bytes);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result != CUDA_ERROR_OUT_OF_MEMORY)
    return vyc__driver_failed(context, result, pool->pinned ? "cuMemHostAlloc" : "cuMemAlloc");
  vyc__pool_trim(context, &context->device_pool, false);
  if (pool->pinned) vyc__pool_trim(context, &context->pinned_pool, false);
  result = raw_alloc(context, pool, address_out, bytes);
  return result == CUDA_SUCCESS ? VYC_OK : fail_memory(context, pool, result, bytes);
}

/* ---- take and give -------------------------------------------------------------------------- */

/* Caller holds the lock. Large blocks share one bin and must fit exactly. */
static vyc_block *pop(vyc_pool *pool, uint32_t bin, uint64_t size) {
  vyc_block **link = &pool->bins[bin];
  while (*link != NULL && (*link)->bytes != size) link = &(*link)->next;
  vyc_block *block = *link;
  if (block == NULL) return NULL;
  *link = block->next;
  pool->idle_bytes -= block->bytes;
  return block;
}

static void push(vyc_pool *pool, vyc_block *block) {
  uint32_t bin;
  class_of(block->bytes, &bin);
  block->next = pool->bins[bin];
  pool->bins[bin] = block;
}

/* Caller holds the lock. */
static void account(vyc_pool *pool, uint64_t bytes) {
  pool->live_bytes += bytes;
  pool->live_count++;
  if (pool->live_bytes > pool->peak_bytes) pool->peak_bytes = pool->live_bytes;
}

/* Caller holds the lock; cuEventQuery does not block. */
static void harvest(vyc_context *context, vyc_pool *pool) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_block **link = &pool->waiting;
  while (*link != NULL) {
    vyc_block *block = *link;
    if (block->event == NULL || context->driver->cuEventQuery(block->event) != CUDA_SUCCESS) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    context->driver->cuEventDestroy(block->event);
    block->event = NULL;
    push(pool, block);
  }
  vyc__capture_restore(context->driver, mode);
}

vyc_status vyc__pool_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                          uint64_t bytes) {
  uint32_t bin;
  if (VYC_UNLIKELY(bytes > BYTES_MAX))
    return fail_memory(context, pool, CUDA_ERROR_OUT_OF_MEMORY, bytes);
  const uint64_t size = class_of(bytes, &bin);
  pthread_mutex_lock(&pool->lock);
  if (VYC_UNLIKELY(pool->waiting != NULL)) harvest(context, pool);
  vyc_block *block = pop(pool, bin, size);
  if (VYC_LIKELY(block != NULL)) {
    pool->hits++;
    account(pool, size);
    pthread_mutex_unlock(&pool->lock);
    *block_out = block;
    return VYC_OK;
  }
  pool->misses++;
  pthread_mutex_unlock(&pool->lock);
  block = calloc(1, sizeof *block);
  if (block == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  const vyc_status status = grow(context, pool, &block->address, size);
  if (status != VYC_OK) {
    free(block);
    return status;
  }
  block->bytes = size;
  pthread_mutex_lock(&pool->lock);
  account(pool, size);
  pthread_mutex_unlock(&pool->lock);
  *block_out = block;
  return VYC_OK;
}

/* An event behind what the stream has been given. */
static bool mark(vyc_context *context, vyc_block *block, CUstream stream) {
  const vyc_driver *driver = context->driver;
  if (driver->cuEventCreate(&block->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
    if (driver->cuEventRecord(block->event, stream) == CUDA_SUCCESS) return true;
    driver->cuEventDestroy(block->event);
  }
  block->event = NULL;
  return false;
}

/* The same on the one stream that used the block; false when there is no such. */
static bool mark_slot(vyc_context *context, vyc_block *block, uint64_t slots) {
  if ((slots & (slots - 1)) != 0) return false;
  const uint32_t slot = (uint32_t)__builtin_ctzll(slots);
  if (slot == VYC_SLOT_MAIN) return mark(context, block, context->main);
  vyc_stream *stream = vyc__slot_retain(context, slot);
  if (stream == NULL) return false;
  const bool marked = mark(context, block, stream->handle);
  vyc_stream_release(stream);
  return marked;
}

void vyc__pool_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on) {
  /* The next user of device memory is ordered behind the main stream, but the host is not. */
  const uint64_t others = pool->pinned ? used_on : used_on & ~(UINT64_C(1) << VYC_SLOT_MAIN);
  block->recycled = true;
  /* More than one other stream, or a foreign one, is rare: then the context is waited for. */
  const bool waits = VYC_UNLIKELY(others != 0) && mark_slot(context, block, others);
  const bool stuck = VYC_UNLIKELY(others != 0) && !waits && !vyc__settle(context);
  pthread_mutex_lock(&pool->lock);
  pool->live_bytes -= block->bytes;
  pool->live_count--;
  pool->idle_bytes += block->bytes;
  if (waits || VYC_UNLIKELY(stuck)) { /* stuck: without an event it waits for the close */
    block->next = pool->waiting;
    pool->waiting = block;
  } else {
    push(pool, block);
  }
  pthread_mutex_unlock(&pool->lock);
}

void vyc__pool_remove(vyc_context *context, vyc_pool *pool, vyc_block *block) {
  pthread_mutex_lock(&pool->lock);
  pool->live_bytes -= block->bytes;
  pool->live_count--;
  pthread_mutex_unlock(&pool->lock);
  raw_free(context, pool, block);
}

/* ---- trim and close ------------------------------------------------------------------------- */

/* Caller holds the lock. */
static vyc_block *detach_all(vyc_pool *pool, bool all) {
  vyc_block *list = NULL;
  for (uint32_t bin = 0; bin <= VYC_BINS; bin++) {
    vyc_block **head = bin < VYC_BINS ? &pool->bins[bin] : &pool->waiting;
    if (bin == VYC_BINS && !all) break;
    while (*head != NULL) {
      vyc_block *block = *head;
      *head = block->next;
      pool->idle_bytes -= block->bytes;
      block->next = list;
      list = block;
    }
  }
  return list;
}

static void put_back(vyc_pool *pool, vyc_block *list) {
  pthread_mutex_lock(&pool->lock);
  while (list != NULL) {
    vyc_block *next = list->next;
    pool->idle_bytes += list->bytes;
    push(pool, list);
    list = next;
  }
  pthread_mutex_unlock(&pool->lock);
}

void vyc__pool_trim(vyc_context *context, vyc_pool *pool, bool all) {
  pthread_mutex_lock(&pool->lock);
  if (pool->waiting != NULL) harvest(context, pool);
  vyc_block *list = detach_all(pool, all);
  pthread_mutex_unlock(&pool->lock);
  /* Earlier owners may still have work on the main stream, and the driver waits for all that runs
   * before it frees: what cannot be waited for stays idle. */
  if (list != NULL && !all && !vyc__settle(context)) {
    put_back(pool, list);
    return;
  }
  while (list != NULL) {
    vyc_block *next = list->next;
    raw_free(context, pool, list);
    list = next;
  }
}

void vyc__pool_drop(vyc_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  vyc_block *list = detach_all(pool, true);
  pthread_mutex_unlock(&pool->lock);
  while (list != NULL) {
    vyc_block *next = list->next;
    free(list);
    list = next;
  }
}

/* ---- what callers see ----------------------------------------------------------------------- */

static void read_pools(vyc_context *context, vyc_memory_stats *stats) {
  vyc_pool *pool = &context->device_pool;
  pthread_mutex_lock(&pool->lock);
  if (pool->waiting != NULL) harvest(context, pool);
  stats->live_bytes = pool->live_bytes;
  stats->idle_bytes = pool->idle_bytes;
  stats->peak_bytes = pool->peak_bytes;
  stats->live_count = pool->live_count;
  stats->hits = pool->hits;
  stats->misses = pool->misses;
  pthread_mutex_unlock(&pool->lock);
  pool = &context->pinned_pool;
  pthread_mutex_lock(&pool->lock);
  if (pool->waiting != NULL) harvest(context, pool);
  stats->pinned_live_bytes = pool->live_bytes;
  stats->pinned_idle_bytes = pool->idle_bytes;
  stats->pinned_peak_bytes = pool->peak_bytes;
  stats->pinned_live_count = pool->live_count;
  stats->pinned_hits = pool->hits;
  stats->pinned_misses = pool->misses;
  pthread_mutex_unlock(&pool->lock);
}

vyc_status vyc_context_memory_stats(vyc_context *context, vyc_memory_stats *stats_out) {
  VYC_REQUIRE(context != NULL && stats_out != NULL);
  VYC_REQUIRE(stats_out->struct_size >= sizeof(uint32_t));
  vyc_memory_stats stats = {0};
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  read_pools(context, &stats);
  vyc__leave(context, &scope);
  vyc__struct_out(stats_out, &stats, sizeof stats);
  return VYC_OK;
}

vyc_status vyc_context_trim(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc__pool_trim(context, &context->device_pool, false);
  vyc__pool_trim(context, &context->pinned_pool, false);
  vyc__leave(context, &scope);
  return VYC_OK;
}
