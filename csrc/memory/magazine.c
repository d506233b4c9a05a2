/* Magazines: a thread gets back the blocks that it has released, without a lock and without the
 * driver.
 *
 * The number of a thread selects its magazine, so a new thread inherits that of an ended one, and
 * two threads share one only if there are more than VYC_MAGAZINES. The blocks and bytes of each are
 * limited, and a pool that has no block of a size looks through all magazines before it asks the
 * driver: memory in a magazine is never missing elsewhere. */
#include <stdlib.h>

#include "room.h"

#define BLOCKS_OF_A_BIN 16u
#define BLOCKS_LARGE 4u /* of any size; searched one by one */

static uint32_t magazine_number(void) { return vyc__thread_number() % VYC_MAGAZINES; }

/* The magazine of the calling thread, claimed; NULL if it has none or another thread is using it.
 */
static vyc_magazine *claim_own(vyc_pool *pool) {
  vyc_magazine *magazine =
      atomic_load_explicit(&pool->magazines[magazine_number()], memory_order_acquire);
  return VYC_LIKELY(magazine != NULL && vyc__claim_try(&magazine->claim)) ? magazine : NULL;
}

/* The caller has claimed it. */
static vyc_block *pop(vyc_magazine *magazine, uint64_t size, uint32_t bin) {
  vyc_block **link = &magazine->tops[bin];
  while (*link != NULL && (*link)->bytes != size) link = &(*link)->next;
  vyc_block *block = *link;
  if (VYC_UNLIKELY(block == NULL)) return NULL;
  *link = block->next;
  magazine->bytes -= size;
  magazine->counts[bin]--;
  return block;
}

vyc_block *vyc__magazine_take(vyc_context *context, vyc_pool *pool, uint64_t bytes) {
  uint32_t bin;
  if (VYC_UNLIKELY(bytes > UINT64_MAX / 2)) return NULL;
  const uint64_t size = vyc__pool_class(bytes, &bin);
  vyc_magazine *magazine = claim_own(pool);
  if (VYC_UNLIKELY(magazine == NULL)) return NULL;
  /* A close sets its flag first and then claims the magazines. */
  vyc_block *block = VYC_LIKELY(vyc__is_usable(context)) ? pop(magazine, size, bin) : NULL;
  if (VYC_LIKELY(block != NULL)) {
    magazine->takes++;
    block->has_handle = true; /* before a close can look at it */
  }
  vyc__claim_drop(&magazine->claim);
  if (VYC_LIKELY(block != NULL)) vyc__pool_note_live(pool, size);
  return block;
}

bool vyc__magazine_give(vyc_context *context, vyc_pool *pool, vyc_block *block) {
  const uint32_t bin = block->bin;
  const uint64_t size = block->bytes;
  vyc_magazine *magazine = claim_own(pool);
  if (VYC_UNLIKELY(magazine == NULL)) return false;
  const uint64_t most = atomic_load_explicit(&pool->magazine_bytes, memory_order_relaxed);
  const bool fits =
      VYC_LIKELY(!atomic_load(&context->closed) && magazine->bytes + size <= most &&
                 magazine->counts[bin] < (bin == VYC_LARGE_BIN ? BLOCKS_LARGE : BLOCKS_OF_A_BIN));
  if (fits) {
    block->recycled = true;
    block->has_handle = false;
    block->next = magazine->tops[bin];
    magazine->tops[bin] = block;
    magazine->bytes += size;
    magazine->counts[bin]++;
    magazine->gives++;
    atomic_fetch_sub_explicit(&pool->live_bytes, size, memory_order_relaxed);
  }
  vyc__claim_drop(&magazine->claim);
  return fits;
}

void vyc__magazine_make(vyc_pool *pool) {
  _Atomic(vyc_magazine *) *place = &pool->magazines[magazine_number()];
  if (VYC_LIKELY(atomic_load_explicit(place, memory_order_relaxed) != NULL)) return;
  vyc_magazine *fresh = calloc(1, sizeof *fresh), *other = NULL;
  if (fresh == NULL) return;
  if (!atomic_compare_exchange_strong(place, &other, fresh)) {
    free(fresh);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  pool->magazine_count++;
  pthread_mutex_unlock(&pool->lock);
}

/* ---- seen from other threads ----------------------------------------------------------------- */

static vyc_magazine *claim_number(vyc_pool *pool, uint32_t i) {
  vyc_magazine *magazine = atomic_load_explicit(&pool->magazines[i], memory_order_acquire);
  if (magazine == NULL) return NULL;
  vyc__claim_take(&magazine->claim);
  return magazine;
}

vyc_block *vyc__magazine_steal(vyc_pool *pool, uint64_t size, uint32_t bin) {
  vyc_block *block = NULL;
  for (uint32_t i = 0; block == NULL && i < VYC_MAGAZINES; i++) {
    vyc_magazine *magazine = claim_number(pool, i);
    if (magazine == NULL) continue;
    block = pop(magazine, size, bin);
    vyc__claim_drop(&magazine->claim);
  }
  return block;
}

vyc_block *vyc__magazines_drain(vyc_pool *pool) {
  vyc_block *list = NULL;
  for (uint32_t i = 0; i < VYC_MAGAZINES; i++) {
    vyc_magazine *magazine = claim_number(pool, i);
    if (magazine == NULL) continue;
    for (uint32_t bin = 0; bin < VYC_BINS; bin++) {
      while (magazine->tops[bin] != NULL) {
        vyc_block *block = pop(magazine, magazine->tops[bin]->bytes, bin);
        block->next = list;
        list = block;
      }
    }
    vyc__claim_drop(&magazine->claim);
  }
  return list;
}

vyc_magazine_sums vyc__magazines_sum(vyc_pool *pool) {
  vyc_magazine_sums sums = {0, 0, 0};
  for (uint32_t i = 0; i < VYC_MAGAZINES; i++) {
    vyc_magazine *magazine = claim_number(pool, i);
    if (magazine == NULL) continue;
    sums.bytes += magazine->bytes;
    sums.takes += magazine->takes;
    sums.gives += magazine->gives;
    vyc__claim_drop(&magazine->claim);
  }
  return sums;
}
