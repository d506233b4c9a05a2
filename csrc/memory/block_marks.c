/* The marks of blocks that were given back: an event on each stream that had used the block, so
 * that nobody gets it before these have reached their marks. */
#include <stdlib.h>

#include "room.h"

#define HARVEST 4u /* marks of a stream that are removed at a time: more than a release adds */

/* ---- made ------------------------------------------------------------------------------------ */

bool vyc__pool_mark(vyc_context *context, vyc_pool *pool, vyc_block *block, CUstream stream,
                    uint32_t slot) {
  const vyc_driver *driver = context->driver;
  pthread_mutex_lock(&pool->lock);
  vyc_mark *mark = pool->spare_marks;
  if (mark != NULL) pool->spare_marks = mark->next;
  pthread_mutex_unlock(&pool->lock);
  if (mark == NULL) {
    mark = calloc(1, sizeof *mark);
    if (mark == NULL) return false;
    if (driver->cuEventCreate(&mark->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
      free(mark);
      return false;
    }
  }
  if (driver->cuEventRecord(mark->event, stream) != CUDA_SUCCESS) {
    driver->cuEventDestroy(mark->event);
    free(mark);
    return false;
  }
  mark->block = block;
  mark->queue = slot % VYC_QUEUES;
  mark->next = block->marks;
  block->marks = mark;
  return true;
}

/* The work of a stream that has left its slot has ended. */
static bool mark_slot(vyc_context *context, vyc_pool *pool, vyc_block *block, uint32_t slot) {
  if (slot == VYC_SLOT_MAIN) return vyc__pool_mark(context, pool, block, context->main, slot);
  vyc_stream *stream = vyc__slot_hold(context, slot);
  if (stream == NULL) return slot != VYC_SLOT_OTHER;
  const bool marked = vyc__pool_mark(context, pool, block, stream->handle, slot);
  vyc__slot_let_go(stream);
  return marked;
}

/* Put a mark on every stream that used the block; false if that failed or a stream has no slot. */
static bool mark_streams(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t slots,
                         const vyc_far_set *far) {
  bool marked = true;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  VYC_EACH_SLOT(slot, slots, far)
  marked = marked && mark_slot(context, pool, block, slot);
  vyc__capture_restore(context->driver, mode);
  return marked;
}

bool vyc__pool_mark_users(vyc_context *context, vyc_pool *pool, vyc_block *block, uint64_t used_on,
                          const vyc_far_set *far) {
  /* The next user of device memory is ordered behind the main stream, but the host is not. */
  const uint64_t slots = pool->pinned ? used_on : used_on & ~(UINT64_C(1) << VYC_SLOT_MAIN);
  if (VYC_LIKELY(slots == 0)) return true;
  /* The close waits for everything. */
  if (atomic_load(&context->closed) || atomic_load(&context->destroyed)) return true;
  if (VYC_UNLIKELY(atomic_load(&context->strays))) return false;
  return mark_streams(context, pool, block, slots, far) || vyc__await_end(context);
}

/* ---- reached --------------------------------------------------------------------------------- */

void vyc__pool_queue(vyc_pool *pool, vyc_mark *mark) {
  vyc_queue *queue = &pool->queues[mark->queue];
  mark->next = NULL;
  if (queue->first == NULL)
    queue->first = mark;
  else
    queue->last->next = mark;
  queue->last = mark;
  pool->queued |= UINT64_C(1) << mark->queue;
}

void vyc__pool_wait(vyc_pool *pool, vyc_block *block) {
  pool->idle_bytes += block->bytes;
  while (block->marks != NULL) {
    vyc_mark *mark = block->marks;
    block->marks = mark->next;
    block->pending++;
    vyc__pool_queue(pool, mark);
  }
}

vyc_block *vyc__pool_pass(vyc_pool *pool, vyc_mark *mark) {
  vyc_block *block = mark->block;
  mark->next = pool->spare_marks;
  pool->spare_marks = mark;
  if (--block->pending > 0) return NULL;
  pool->idle_bytes -= block->bytes;
  return block;
}

/* Caller holds the lock; cuEventQuery does not block. */
static bool harvest_queue(vyc_context *context, vyc_pool *pool, uint32_t number,
                          vyc_block **retired) {
  vyc_queue *queue = &pool->queues[number];
  for (uint32_t i = 0; i < HARVEST && queue->first != NULL; i++) {
    vyc_mark *mark = queue->first;
    if (context->driver->cuEventQuery(mark->event) != CUDA_SUCCESS) return false;
    queue->first = mark->next;
    vyc_block *block = vyc__pool_pass(pool, mark);
    if (block == NULL) continue;
    if (block->retires && !atomic_load(&context->hung)) {
      block->next = *retired;
      *retired = block;
    } else {
      block->retires = false;
      vyc__pool_push(pool, block);
    }
  }
  if (queue->first != NULL) return true;
  pool->queued &= ~(UINT64_C(1) << number);
  return false;
}

bool vyc__pool_harvest(vyc_context *context, vyc_pool *pool, vyc_block **retired) {
  bool more = false;
  if (VYC_LIKELY(pool->queued == 0)) return false;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  for (uint64_t queues = pool->queued; queues != 0; queues &= queues - 1)
    more |= harvest_queue(context, pool, (uint32_t)__builtin_ctzll(queues), retired);
  vyc__capture_restore(context->driver, mode);
  return more;
}
