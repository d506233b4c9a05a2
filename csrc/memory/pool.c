/* Taking blocks from a pool and giving them back.
 *
 * Size classes: steps of 256 B up to 4 KiB, four per doubling up to 2 MiB, multiples of 2 MiB
 * above. A released block is handed out again at once if only the context's own stream used it (its
 * next user is ordered after that), otherwise when the streams that used it have reached its marks.
 * The number of waiting blocks does not matter to an allocation: it queries the oldest mark of each
 * stream, and a few more if that has been reached. Before it asks the driver for memory, it queries
 * the rest and looks in the magazines of other threads; if the driver has none, idle blocks are
 * freed and it asks once more. If nothing fails, the driver is never asked how much memory there
 * is. */
#include "room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_LIMIT 4096u
#define LARGE_STEP (UINT64_C(2) << 20)
#define BYTES_MAX (UINT64_MAX / 2) /* sizes round up without wrapping */

uint64_t vyc__pool_class(uint64_t bytes, uint32_t *bin_out) {
  if (bytes == 0) bytes = 1;
  if (bytes <= SMALL_LIMIT) {
    const uint64_t size = vyc__align_up(bytes, VYC_ALIGN);
    *bin_out = (uint32_t)(size / VYC_ALIGN - 1);
    return size;
  }
  if (bytes > LARGE_STEP) {
    *bin_out = VYC_LARGE_BIN;
    return vyc__align_up(bytes, LARGE_STEP);
  }
  /* Doubling 0 begins at 4 KiB = 2^12; the step is a quarter of the lower power. */
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

void vyc__pool_destroy(vyc_pool *pool) {
  for (uint32_t i = 0; i < VYC_LARGE_BUCKETS; i++) {
    while (pool->large[i] != NULL) {
      vyc_stack *next = pool->large[i]->next;
      free(pool->large[i]);
      pool->large[i] = next;
    }
  }
  for (uint32_t i = 0; i < VYC_MAGAZINES; i++) free(atomic_load(&pool->magazines[i]));
  pthread_mutex_destroy(&pool->lock);
}

void vyc__pool_note_live(vyc_pool *pool, uint64_t bytes) {
  const uint64_t live =
      atomic_fetch_add_explicit(&pool->live_bytes, bytes, memory_order_relaxed) + bytes;
  uint64_t peak = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed);
  while (VYC_UNLIKELY(live > peak) &&
         !atomic_compare_exchange_weak_explicit(&pool->peak_bytes, &peak, live,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* ---- idle blocks ----------------------------------------------------------------------------- */

/* Caller holds the lock. NULL: there is none yet, or no memory for one. */
static vyc_stack *find_stack(vyc_pool *pool, uint64_t size, uint32_t bin, bool make) {
  if (bin != VYC_LARGE_BIN) return &pool->stacks[bin];
  vyc_stack **bucket = &pool->large[size / LARGE_STEP % VYC_LARGE_BUCKETS];
  for (vyc_stack *stack = *bucket; stack != NULL; stack = stack->next)
    if (stack->bytes == size) return stack;
  vyc_stack *stack = make ? calloc(1, sizeof *stack) : NULL;
  if (stack == NULL) return NULL;
  stack->bytes = size;
  stack->next = *bucket;
  *bucket = stack;
  return stack;
}

void vyc__pool_push(vyc_pool *pool, vyc_block *block) {
  vyc_stack *stack = block->stack;
  block->previous = NULL;
  block->next = stack->top;
  if (block->next != NULL) block->next->previous = block;
  stack->top = block;
  block->newer = NULL;
  block->older = pool->newest;
  if (block->older != NULL)
    block->older->newer = block;
  else
    pool->oldest = block;
  pool->newest = block;
  pool->idle_bytes += block->bytes;
}

void vyc__pool_unlink(vyc_pool *pool, vyc_block *block) {
  if (block->previous != NULL)
    block->previous->next = block->next;
  else
    block->stack->top = block->next;
  if (block->next != NULL) block->next->previous = block->previous;
  if (block->newer != NULL)
    block->newer->older = block->older;
  else
    pool->newest = block->older;
  if (block->older != NULL)
    block->older->newer = block->newer;
  else
    pool->oldest = block->newer;
  pool->idle_bytes -= block->bytes;
}

/* ---- the driver's side ----------------------------------------------------------------------- */

static const char *alloc_name(const vyc_pool *pool) {
  return pool->pinned ? "cuMemHostAlloc" : "cuMemAlloc";
}

const vyc_allocator *vyc__pool_allocator(const vyc_context *context, const vyc_pool *pool) {
  return pool->pinned ? &context->host.pinned : &context->host.device;
}

static CUresult raw_alloc(vyc_context *context, const vyc_pool *pool, uint64_t *address_out,
                          uint64_t bytes) {
  const vyc_allocator *host = vyc__pool_allocator(context, pool);
  if (VYC_UNLIKELY(host->alloc != NULL))
    return vyc__host_alloc(host, address_out, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
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

static vyc_status fail_memory(vyc_context *context, vyc_pool *pool, CUresult result,
                              uint64_t bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  if (context->driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
  const uint64_t live = atomic_load(&pool->live_bytes), held = vyc__magazines_sum(pool).bytes;
  pthread_mutex_lock(&pool->lock);
  const uint64_t idle = pool->idle_bytes + held;
  pthread_mutex_unlock(&pool->lock);
  return vyc__fail_driver(VYC_E_MEMORY, alloc_name(pool), (int32_t)result,
                          vyc__driver_result_name(context->driver, result),
                          "out of %s memory: asked for %" PRIu64 " bytes, live %" PRIu64
                          ", idle in the pool %" PRIu64 ", free on device %d %zu of %zu. Release "
                          "what is not needed, here or in other processes",
                          pool->pinned ? "page-locked" : "device", bytes, live, idle,
                          context->caps.ordinal, free_bytes, total_bytes);
}

static vyc_status grow(vyc_context *context, vyc_pool *pool, uint64_t *address_out, uint64_t bytes,
                       bool empties_submissions) {
  CUresult result = raw_alloc(context, pool, address_out, bytes);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    if (empties_submissions) context->above->empty_submissions(context);
    vyc__pool_trim(context, vyc__device_pool(context));
    if (pool->pinned) vyc__pool_trim(context, pool);
    vyc__log(context, VYC_LOG_INFO, "out of %s memory: idle blocks were freed",
             pool->pinned ? "page-locked" : "device");
    result = raw_alloc(context, pool, address_out, bytes);
    if (result == CUDA_SUCCESS) return VYC_OK;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return fail_memory(context, pool, result, bytes);
  }
  return vyc__driver_failed(context, result, alloc_name(pool));
}

/* Caller holds the lock. */
static void enroll(vyc_pool *pool, vyc_block *block) {
  block->registered_next = pool->registered;
  if (block->registered_next != NULL) block->registered_next->registered_previous = block;
  pool->registered = block;
  pool->takes++;
  pool->misses++;
}

static vyc_block *alloc_record(void) {
  const size_t bytes = (size_t)vyc__align_up(sizeof(vyc_block), VYC_CACHE_LINE);
  vyc_block *block = aligned_alloc(VYC_CACHE_LINE, bytes);
  return block == NULL ? NULL : memset(block, 0, bytes);
}

void vyc__block_drop(const vyc_pool *pool, vyc_block *block) {
  vyc__far_free(pool->pinned ? &block->as.pinned.used.far : &block->as.buffer.far);
  free(block);
}

static vyc_status make(vyc_context *context, vyc_pool *pool, vyc_block **block_out, uint64_t size,
                       uint32_t bin, bool empties_submissions) {
  vyc_block *block = alloc_record();
  pthread_mutex_lock(&pool->lock);
  vyc_stack *stack = block == NULL ? NULL : find_stack(pool, size, bin, true);
  pthread_mutex_unlock(&pool->lock);
  vyc_status status = stack == NULL
                          ? vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory")
                          : grow(context, pool, &block->address, size, empties_submissions);
  if (status != VYC_OK) {
    free(block); /* it was never used */
    return status;
  }
  block->bytes = size;
  block->bin = (uint16_t)bin;
  block->stack = stack;
  pthread_mutex_lock(&pool->lock);
  enroll(pool, block);
  pthread_mutex_unlock(&pool->lock);
  *block_out = block;
  return VYC_OK;
}

/* ---- take and give --------------------------------------------------------------------------- */

/* Caller holds the lock. */
static vyc_block *pop_idle(vyc_pool *pool, uint64_t size, uint32_t bin) {
  const vyc_stack *stack = find_stack(pool, size, bin, false);
  vyc_block *block = stack == NULL ? NULL : stack->top;
  if (block == NULL) return NULL;
  vyc__pool_unlink(pool, block);
  pool->takes++;
  return block;
}

static vyc_block *take_idle(vyc_context *context, vyc_pool *pool, uint64_t size, uint32_t bin) {
  vyc_block *retired = NULL, *block;
  bool more;
  pthread_mutex_lock(&pool->lock);
  do {
    more = vyc__pool_harvest(context, pool, &retired);
    block = pop_idle(pool, size, bin);
  } while (block == NULL && more);
  pthread_mutex_unlock(&pool->lock);
  vyc__blocks_free(context, pool, retired);
  vyc__pool_keep_budget(context, pool); /* blocks that were waiting may be too many idle ones */
  if (block != NULL) return block;
  block = vyc__magazine_steal(pool, size, bin);
  if (block == NULL) return NULL;
  pthread_mutex_lock(&pool->lock);
  pool->takes++;
  pthread_mutex_unlock(&pool->lock);
  return block;
}

static vyc_status take(vyc_context *context, vyc_pool *pool, vyc_block **block_out, uint64_t bytes,
                       bool empties_submissions) {
  uint32_t bin;
  if (VYC_UNLIKELY(bytes > BYTES_MAX))
    return fail_memory(context, pool, CUDA_ERROR_OUT_OF_MEMORY, bytes);
  *block_out = vyc__magazine_take(context, pool, bytes);
  if (*block_out == NULL) {
    vyc__magazine_make(pool);
    const uint64_t size = vyc__pool_class(bytes, &bin);
    *block_out = take_idle(context, pool, size, bin);
    if (*block_out == NULL) VYC_TRY(make(context, pool, block_out, size, bin, empties_submissions));
    vyc__pool_note_live(pool, size);
  }
  (*block_out)->has_handle = false;
  return VYC_OK;
}

vyc_status vyc__pool_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                          uint64_t bytes) {
  return take(context, pool, block_out, bytes, true);
}

vyc_status vyc__pool_try_take(vyc_context *context, vyc_pool *pool, vyc_block **block_out,
                              uint64_t bytes) {
  return take(context, pool, block_out, bytes, false);
}

/* Caller holds the lock. Chooses where a live block goes. */
static void put(vyc_pool *pool, vyc_block *block, bool marked) {
  if (!marked) {
    block->next = pool->stuck;
    pool->stuck = block;
  } else if (block->marks == NULL) {
    vyc__pool_push(pool, block);
  } else {
    vyc__pool_wait(pool, block);
  }
}

void vyc__pool_give_used(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                         const vyc_far_set *far) {
  pthread_mutex_lock(&pool->lock);
  const bool closed = pool->closed, outlives = block->outlives;
  if (closed) block->has_handle = false; /* so that the close leaves it to this thread */
  pool->giving++;                        /* and waits for this thread */
  pthread_mutex_unlock(&pool->lock);
  const bool marked = closed || vyc__pool_mark_users(context, pool, block, used_on, far);
  atomic_fetch_sub_explicit(&pool->live_bytes, block->bytes, memory_order_relaxed);
  block->recycled = true;
  pthread_mutex_lock(&pool->lock);
  pool->gives++;
  block->has_handle = false;
  if (!closed) put(pool, block, marked);
  pthread_mutex_unlock(&pool->lock);
  if (VYC_UNLIKELY(outlives)) {
    vyc__block_end(context, pool, block);
  } else if (VYC_UNLIKELY(closed)) {
    block->next = NULL;
    vyc__blocks_free(context, pool, block);
  } else {
    vyc__pool_keep_budget(context, pool);
  }
  pthread_mutex_lock(&pool->lock);
  pool->giving--;
  pthread_mutex_unlock(&pool->lock);
}

bool vyc__handle_try_give(vyc_context *context, vyc_pool *pool, vyc_block *block,
                          uint64_t used_on) {
  const uint64_t others = pool->pinned ? used_on : used_on & ~(UINT64_C(1) << VYC_SLOT_MAIN);
  return VYC_LIKELY(others == 0 && !vyc__is_forked(context)) &&
         vyc__magazine_give(context, pool, block);
}
