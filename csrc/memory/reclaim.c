/* What is returned to the driver, and when: over the budget, by a trim, when memory runs out, and
 * by a close.
 *
 * Nothing is freed while work may still use it: blocks over the budget wait for the main stream if
 * it is busy, and a trim waits for it, up to the context's time limit. If work is known to hang,
 * nothing is freed, because the driver would wait for that work. */
#include <stdlib.h>

#include "room.h"

#define MAGAZINE_SHARE (4u * VYC_MAGAZINES) /* of the budget; all magazines together: a quarter */

/* Memory that was allocated in a destroyed CUcontext was freed with it. */
static bool is_void(const vyc_context *context) {
  return VYC_UNLIKELY(atomic_load_explicit(&context->destroyed, memory_order_relaxed));
}

static void raw_free(vyc_context *context, const vyc_pool *pool, uint64_t address) {
  if (is_void(context)) return;
  const vyc_allocator *host = vyc__pool_allocator(context, pool);
  if (VYC_UNLIKELY(host->free != NULL))
    vyc__host_free(host, address);
  else if (pool->pinned)
    context->driver->cuMemFreeHost((void *)(uintptr_t)address);
  else
    context->driver->cuMemFree((CUdeviceptr)address);
}

static void marks_free(vyc_context *context, vyc_mark *marks) {
  while (marks != NULL) {
    vyc_mark *next = marks->next;
    if (!is_void(context)) context->driver->cuEventDestroy(marks->event);
    free(marks);
    marks = next;
  }
}

/* Caller holds the lock. */
static void strike_off(vyc_pool *pool, vyc_block *block) {
  if (block->registered_previous != NULL)
    block->registered_previous->registered_next = block->registered_next;
  else
    pool->registered = block->registered_next;
  if (block->registered_next != NULL)
    block->registered_next->registered_previous = block->registered_previous;
}

void vyc__blocks_free(vyc_context *context, vyc_pool *pool, vyc_block *list) {
  if (VYC_LIKELY(list == NULL)) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc__workers_pause(context);
  while (list != NULL) {
    vyc_block *block = list;
    list = block->next;
    raw_free(context, pool, block->address);
    marks_free(context, block->marks);
    pthread_mutex_lock(&pool->lock);
    strike_off(pool, block);
    pool->frees++;
    pthread_mutex_unlock(&pool->lock);
    vyc__block_drop(pool, block);
  }
  vyc__workers_resume(context);
  vyc__capture_restore(context->driver, mode);
}

/* Makes the blocks of a list idle again. */
static void put_back(vyc_pool *pool, vyc_block *list) {
  pthread_mutex_lock(&pool->lock);
  while (list != NULL) {
    vyc_block *next = list->next;
    vyc__pool_push(pool, list);
    list = next;
  }
  pthread_mutex_unlock(&pool->lock);
}

/* ---- budget ---------------------------------------------------------------------------------- */

/* Caller holds the lock. The share of the magazines is set aside. */
static uint64_t limit_of(const vyc_pool *pool) {
  return pool->budget - pool->magazine_count * (pool->budget / MAGAZINE_SHARE);
}

/* Caller holds the lock. */
static vyc_block *detach_oldest(vyc_pool *pool) {
  vyc_block *list = NULL, **end = &list;
  const uint64_t limit = limit_of(pool);
  while (pool->idle_bytes > limit && pool->oldest != NULL) {
    vyc_block *block = pool->oldest;
    vyc__pool_unlink(pool, block);
    block->next = NULL;
    *end = block;
    end = &block->next;
  }
  return list;
}

/* The main stream is busy: makes the blocks wait for it. Returns those that could not be marked. */
static vyc_block *retire_later(vyc_context *context, vyc_pool *pool, vyc_block *list) {
  vyc_block *left = NULL;
  while (list != NULL) {
    vyc_block *block = list;
    list = block->next;
    block->retires = vyc__pool_mark(context, pool, block, context->main, VYC_SLOT_MAIN);
    if (!block->retires) {
      block->next = left;
      left = block;
      continue;
    }
    pthread_mutex_lock(&pool->lock);
    vyc__pool_wait(pool, block);
    pthread_mutex_unlock(&pool->lock);
  }
  return left;
}

static bool hangs(const vyc_context *context) {
  return atomic_load_explicit(&context->hung, memory_order_relaxed);
}

void vyc__pool_keep_budget(vyc_context *context, vyc_pool *pool) {
  if (VYC_UNLIKELY(atomic_load(&context->closed) || hangs(context) || is_void(context))) return;
  pthread_mutex_lock(&pool->lock);
  vyc_block *list = VYC_UNLIKELY(pool->idle_bytes > limit_of(pool)) ? detach_oldest(pool) : NULL;
  pthread_mutex_unlock(&pool->lock);
  if (VYC_LIKELY(list == NULL)) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  bool idle = pool->pinned || context->driver->cuStreamQuery(context->main) == CUDA_SUCCESS;
  if (!idle) {
    list = retire_later(context, pool, list);
    idle = list == NULL || vyc__await_end(context);
  }
  vyc__capture_restore(context->driver, mode);
  if (idle)
    vyc__blocks_free(context, pool, list);
  else
    put_back(pool, list);
}

void vyc__pool_set_budget(vyc_context *context, vyc_pool *pool, uint64_t bytes) {
  pthread_mutex_lock(&pool->lock);
  pool->budget = bytes;
  atomic_store(&pool->magazine_bytes, bytes / MAGAZINE_SHARE);
  pthread_mutex_unlock(&pool->lock);
  put_back(pool, vyc__magazines_drain(pool));
  vyc__pool_keep_budget(context, pool);
}

/* ---- trim ------------------------------------------------------------------------------------ */

/* Caller holds the lock. */
static vyc_block *detach_idle(vyc_pool *pool, vyc_block *list) {
  while (pool->oldest != NULL) {
    vyc_block *block = pool->oldest;
    vyc__pool_unlink(pool, block);
    block->next = list;
    list = block;
  }
  return list;
}

/* Caller holds the lock. Takes every mark out of its queue, stream by stream. */
static vyc_mark *detach_marks(vyc_pool *pool) {
  vyc_mark *list = NULL, **end = &list;
  for (; pool->queued != 0; pool->queued &= pool->queued - 1) {
    vyc_queue *queue = &pool->queues[__builtin_ctzll(pool->queued)];
    *end = queue->first;
    end = &queue->last->next;
    *queue = (vyc_queue){NULL, NULL};
  }
  return list;
}

/* Adds the waiting blocks whose marks are reached in time to the list. */
static vyc_block *wait_for_marks(vyc_context *context, vyc_pool *pool, vyc_mark *marks,
                                 vyc_block *list) {
  vyc_pace pace = vyc__pace_begin(atomic_load(&context->patience_ns), VYC_SPIN_NS);
  vyc__record_keep();
  while (marks != NULL) {
    vyc_mark *mark = marks;
    vyc_block *block = NULL;
    marks = mark->next;
    const bool passed = !hangs(context) && vyc__event_wait(context, mark->event, &pace) == VYC_OK;
    pthread_mutex_lock(&pool->lock);
    if (passed)
      block = vyc__pool_pass(pool, mark);
    else
      vyc__pool_queue(pool, mark);
    pthread_mutex_unlock(&pool->lock);
    if (block == NULL) continue;
    block->next = list;
    list = block;
  }
  vyc__record_resume();
  return list;
}

static void free_spare_marks(vyc_context *context, vyc_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  vyc_mark *marks = pool->spare_marks;
  pool->spare_marks = NULL;
  pthread_mutex_unlock(&pool->lock);
  marks_free(context, marks);
}

void vyc__pool_trim(vyc_context *context, vyc_pool *pool) {
  vyc_block *list = vyc__magazines_drain(pool);
  pthread_mutex_lock(&pool->lock);
  list = detach_idle(pool, list);
  vyc_mark *marks = detach_marks(pool);
  pthread_mutex_unlock(&pool->lock);
  if (list == NULL && marks == NULL) return;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  /* Earlier owners of device memory may still have work on the main stream; and the driver waits
   * for kernels before it frees. */
  if (!vyc__await_end(context)) {
    put_back(pool, list);
    list = NULL;
  }
  list = wait_for_marks(context, pool, marks, list);
  free_spare_marks(context, pool);
  vyc__capture_restore(context->driver, mode);
  vyc__blocks_free(context, pool, list);
}

/* ---- close ----------------------------------------------------------------------------------- */

/* Caller holds the lock. Takes a block that is a live handle off the register. Other live blocks
 * belong to a run that never ended, and leak with it. */
static vyc_block *disown(vyc_pool *pool) {
  vyc_block *block = pool->registered;
  while (block != NULL && !block->has_handle) block = block->registered_next;
  if (block == NULL) return NULL;
  strike_off(pool, block);
  block->outlives = true;
  return block;
}

bool vyc__pool_is_giving(vyc_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  const bool giving = pool->giving != 0;
  pthread_mutex_unlock(&pool->lock);
  return giving;
}

static void wait_for_givers(vyc_pool *pool) {
  while (vyc__pool_is_giving(pool)) vyc__sleep_us(20);
}

static void free_idle(vyc_context *context, vyc_pool *pool) {
  vyc_block *list = vyc__magazines_drain(pool);
  pthread_mutex_lock(&pool->lock);
  list = detach_idle(pool, list);
  vyc_block *stuck = pool->stuck;
  pool->stuck = NULL;
  for (vyc_mark *mark = detach_marks(pool), *next; mark != NULL; mark = next) {
    next = mark->next;
    vyc_block *block = vyc__pool_pass(pool, mark);
    if (block == NULL) continue;
    block->next = list;
    list = block;
  }
  pthread_mutex_unlock(&pool->lock);
  vyc__blocks_free(context, pool, list);
  vyc__blocks_free(context, pool, stuck);
}

static void free_live(vyc_context *context, vyc_pool *pool) {
  for (;;) {
    pthread_mutex_lock(&pool->lock);
    const vyc_block *block = disown(pool);
    const uint64_t address = block == NULL ? 0 : block->address;
    const bool stays = block != NULL && vyc__is_known_outside(pool, block);
    if (stays) vyc__primary_retain(context);
    pthread_mutex_unlock(&pool->lock);
    if (block == NULL) return; /* its holder may free it from here on */
    if (!stays) raw_free(context, pool, address);
  }
}

/* Free the records of blocks that are never given back: those of runs, which end with the
 * CUcontext. */
static void forget_runs(vyc_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  while (pool->registered != NULL) {
    vyc_block *block = pool->registered;
    strike_off(pool, block);
    vyc__block_drop(pool, block);
  }
  pthread_mutex_unlock(&pool->lock);
}

/* From now on a thread that gives a block back also frees it; before, it became idle. */
void vyc__pool_close(vyc_context *context, vyc_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->closed = true;
  pthread_mutex_unlock(&pool->lock);
  wait_for_givers(pool);
  free_idle(context, pool);
  free_live(context, pool);
  wait_for_givers(pool);
  if (is_void(context)) forget_runs(pool);
  free_spare_marks(context, pool);
}

void vyc__block_end(vyc_context *context, vyc_pool *pool, vyc_block *block) {
  if (vyc__is_known_outside(pool, block)) {
    if (!hangs(context)) raw_free(context, pool, block->address);
    vyc__primary_release(context);
  }
  vyc__block_drop(pool, block);
}

void vyc__handle_give(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                      const vyc_far_set *far) {
  vyc_scope scope;
  if (vyc__handle_try_give(context, pool, block, used_on) || vyc__is_forked(context)) return;
  if (VYC_UNLIKELY(vyc__was_destroyed(context))) {
    vyc__pool_give_used(context, pool, block, used_on, far);
    return;
  }
  if (atomic_load(&context->gone)) {
    pthread_mutex_lock(&pool->lock);
    const bool outlives = block->outlives;
    pthread_mutex_unlock(&pool->lock);
    if (!outlives) return; /* abandoned by the close: its memory is left to the driver */
    if (!vyc__is_known_outside(pool, block)) {
      vyc__block_end(context, pool, block); /* no driver call: no context need be current */
      return;
    }
  }
  if (!vyc__enter_release(context, &scope)) return;
  vyc__scope_relax(context, &scope);
  vyc__pool_give_used(context, pool, block, used_on, far);
  vyc__leave(context, &scope);
}
