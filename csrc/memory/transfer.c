/* Uploads and downloads of many ranges: checked before anything is copied, with overlapping and
 * adjacent ranges merged into one copy, empty ones skipped, and one wait for all.
 *
 * Ranges up to VYC_CHUNK bytes are gathered in a page-locked block, where their positions alone
 * merge them. Larger ones are copied one by one: page-locked memory directly, other memory through
 * bounce.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gather.h"

static vyc_status check(const vyc_context *context, const vyc_transfer *items, uint32_t count,
                        bool download) {
  VYC_REQUIRE_IN("transfer", context != NULL && (items != NULL || count == 0));
  for (uint32_t i = 0; i < count; i++) {
    const vyc_transfer *item = &items[i];
    VYC_REQUIRE_IN("transfer", item->buffer != NULL);
    VYC_REQUIRE_IN("transfer", item->bytes == 0 || (download ? item->result : item->data) != NULL);
    if (item->buffer->child.context != context)
      return vyc__fail(VYC_E_INVALID, "transfer",
                       "item %u belongs to another device: copy it with that one", i);
    if (!download) VYC_TRY(vyc__check_writable(item->buffer, "transfer"));
    VYC_TRY(vyc__check_range(item->buffer, item->offset, item->bytes, "transfer"));
  }
  return VYC_OK;
}

static vyc_status prepare(const vyc_transfer *items, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (items[i].bytes > 0)
      VYC_TRY(vyc__copy_prepare(items[i].buffer, items[i].offset, items[i].bytes, "transfer"));
  return VYC_OK;
}

static bool is_empty(const vyc_transfer *items, uint32_t count) {
  while (count > 0 && items[count - 1].bytes == 0) count--;
  return count == 0;
}

/* Wait for copies between the device and a caller's memory. If the wait fails they may still access
 * that memory, so this waits for them as a release does, before the caller gets it back. */
static vyc_status finish(vyc_context *context, const vyc_scope *scope) {
  VYC_CU_RESULT;
  vyc_history *history = &context->history;
  const uint32_t given = atomic_load_explicit(&history->next[VYC_SLOT_MAIN], memory_order_relaxed);
  vyc__count(&context->counters, sync_points, 1);
  vyc__scope_rest(scope); /* it may wait for a kernel that the close of another device ends */
  const vyc_status status = VYC_CU(context, cuStreamSynchronize, context->main);
  vyc__scope_go_on(scope);
  if (VYC_LIKELY(status == VYC_OK)) {
    atomic_store_explicit(&history->ended[VYC_SLOT_MAIN], given, memory_order_relaxed);
    return VYC_OK;
  }
  vyc__stream_await_end(context, context->main);
  return status;
}

/* The same after a step that returned `status`: the first failure is reported. */
static vyc_status finish_too(vyc_context *context, const vyc_scope *scope, vyc_status status) {
  if (status == VYC_OK) return finish(context, scope);
  vyc__record_keep();
  finish(context, scope);
  vyc__record_resume();
  return status;
}

/* ---- a range of a buffer -------------------------------------------------------------------- */

typedef struct range {
  const vyc_buffer *buffer;
  uint64_t begin, end;
} range;

static range range_of(const vyc_transfer *item) {
  return (range){item->buffer, item->offset, item->offset + item->bytes};
}

/* Extends the range if the item overlaps or touches it. */
static bool join(range *r, const vyc_transfer *item) {
  const range other = range_of(item);
  if (other.buffer != r->buffer || other.begin > r->end || other.end < r->begin) return false;
  if (other.begin < r->begin) r->begin = other.begin;
  if (other.end > r->end) r->end = other.end;
  return true;
}

/* ---- upload ---------------------------------------------------------------------------------- */

typedef struct packing {
  vyc_context *context;
  vyc_block *block;
  uint64_t used;
  bool waits; /* the device reads a caller's memory, or others see what it writes */
} packing;

static void pack_end(packing *p) {
  if (p->block == NULL) return;
  vyc__pool_give(p->context, vyc__pinned_pool(p->context), p->block, UINT64_C(1) << VYC_SLOT_MAIN);
  p->block = NULL;
}

static vyc_status pack_room(packing *p, uint64_t bytes, uint64_t rest) {
  if (p->block != NULL && bytes <= p->block->bytes - p->used) return VYC_OK;
  pack_end(p);
  p->used = 0;
  const uint64_t size = rest < VYC_CHUNK ? rest : VYC_CHUNK;
  return vyc__pool_take(p->context, vyc__pinned_pool(p->context), &p->block, size);
}

/* Items that form one range, gathered in order, so that later bytes win. `rest`: the bytes of this
 * and later items. */
static vyc_status upload_range(packing *p, const range *r, const vyc_transfer *items,
                               uint32_t count, uint64_t rest) {
  const uint64_t bytes = r->end - r->begin;
  VYC_TRY(pack_room(p, bytes, rest));
  uint8_t *const room = (uint8_t *)(uintptr_t)p->block->address + p->used;
  for (uint32_t i = 0; i < count; i++)
    if (items[i].bytes > 0)
      memcpy(room + (items[i].offset - r->begin), items[i].data, items[i].bytes);
  p->used += bytes;
  vyc__count(&p->context->counters, staged_in_bytes, bytes);
  return vyc__copy_up(p->context, r->buffer->address + r->begin, room, bytes, p->context->main);
}

static vyc_status upload_large(packing *p, const vyc_transfer *item) {
  const uint64_t to = item->buffer->address + item->offset;
  if (item->pinned == NULL) return vyc__bounce_in(p->context, to, item->data, item->bytes);
  p->waits = true;
  return vyc__copy_up(p->context, to, item->data, item->bytes, p->context->main);
}

/* The number of items from `first` on that form one range of at most a chunk; 1 for a large one. */
static uint32_t gather(range *r, const vyc_transfer *items, uint32_t count) {
  uint32_t n = 1;
  *r = range_of(&items[0]);
  while (n < count) {
    range wider = *r;
    if (items[n].bytes > 0 && (!join(&wider, &items[n]) || wider.end - wider.begin > VYC_CHUNK))
      break;
    *r = wider;
    n++;
  }
  return n;
}

static vyc_status upload(packing *p, const vyc_transfer *items, uint32_t count) {
  uint64_t rest = 0;
  for (uint32_t i = 0; i < count; i++) rest += items[i].bytes;
  for (uint32_t i = 0, n; i < count; i += n) {
    range r;
    n = 1;
    if (items[i].bytes == 0) continue;
    if (items[i].bytes > VYC_CHUNK) {
      VYC_TRY(upload_large(p, &items[i]));
    } else {
      n = gather(&r, &items[i], count - i);
      VYC_TRY(upload_range(p, &r, &items[i], n, rest));
    }
    for (uint32_t j = i; j < i + n; j++) rest -= items[j].bytes;
  }
  return VYC_OK;
}

/* Order the next users of the buffers after the copies, including the owners of adopted memory. */
static vyc_status given(packing *p, const vyc_transfer *items, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (items[i].bytes == 0) continue;
    VYC_TRY(vyc__copy_enqueued(items[i].buffer));
    p->waits |= vyc__is_seen_outside(items[i].buffer);
  }
  return VYC_OK;
}

vyc_status vyc_upload(vyc_context *context, const vyc_transfer *items, uint32_t count) {
  VYC_TRY(check(context, items, count, false));
  if (is_empty(items, count)) return vyc__check_usable(context);
  packing p = {.context = context};
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = prepare(items, count);
  if (status == VYC_OK) status = upload(&p, items, count);
  if (status == VYC_OK) status = given(&p, items, count);
  pack_end(&p);
  if (p.waits) status = finish_too(context, &scope, status);
  vyc__leave(context, &scope);
  return status;
}

/* ---- download ------------------------------------------------------------------------------- */

#define BATCH_BYTES (UINT64_C(16) << 20) /* gathered at once */

static int by_place(const void *left, const void *right) {
  const vyc_transfer *a = *(const vyc_transfer *const *)left;
  const vyc_transfer *b = *(const vyc_transfer *const *)right;
  if (a->buffer != b->buffer) return (uintptr_t)a->buffer < (uintptr_t)b->buffer ? -1 : 1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The number of items, sorted by position, that form one range of at most a chunk. */
static uint32_t gather_sorted(range *r, const vyc_transfer *const *items, uint32_t count) {
  uint32_t n = 1;
  *r = range_of(items[0]);
  while (n < count) {
    range wider = *r;
    if (!join(&wider, items[n]) || wider.end - wider.begin > VYC_CHUNK) break;
    *r = wider;
    n++;
  }
  return n;
}

/* Small items that are read with one wait: the first ones, with room for their ranges. */
typedef struct batch {
  vyc_context *context;
  const vyc_scope *scope;
  const vyc_transfer *const *items;
  uint32_t count; /* of those that are left; once it is measured, of the batch */
  uint64_t used, bytes; /* of the room, and of the ranges in it */
  uint32_t small; /* ranges that the gathering kernel takes */
  uint8_t *room;
  vyc_gathering gathering;
} batch;

typedef vyc_status batch_visit(batch *b, const range *r, uint32_t first, uint32_t count,
                               uint64_t place);

/* Buffers of our own, which every kernel can reach. */
static bool is_small(const range *r) {
  return r->buffer->block != NULL && r->end - r->begin <= VYC_GATHER_BYTES;
}

/* Each range of the batch with its place, which begins where the gathering kernel wants it. */
static vyc_status walk_batch(batch *b, batch_visit *visit) {
  b->used = 0;
  for (uint32_t i = 0, n; i < b->count; i += n) {
    range r;
    n = gather_sorted(&r, &b->items[i], b->count - i);
    const uint64_t bytes = r.end - r.begin;
    const uint64_t gap = (r.buffer->address + r.begin - b->used) % VYC_GATHER_ALIGN;
    if (b->used + gap + bytes > BATCH_BYTES) {
      b->count = i;
      return VYC_OK;
    }
    b->used += gap;
    VYC_TRY(visit(b, &r, i, n, b->used));
    b->used += bytes;
  }
  return VYC_OK;
}

static vyc_status measure(batch *b, const range *r, uint32_t first, uint32_t count,
                          uint64_t place) {
  (void)first, (void)count, (void)place;
  b->bytes += r->end - r->begin;
  b->small += is_small(r);
  return VYC_OK;
}

static vyc_status enqueue_copy(batch *b, const range *r, uint32_t first, uint32_t count,
                               uint64_t place) {
  (void)first, (void)count;
  return vyc__copy_back(b->context, b->room + place, r->buffer->address + r->begin,
                        r->end - r->begin, b->context->main);
}

static vyc_status enqueue_gathered(batch *b, const range *r, uint32_t first, uint32_t count,
                                   uint64_t place) {
  if (!is_small(r)) return enqueue_copy(b, r, first, count, place);
  return vyc__gather_add(&b->gathering, b->room + place, r->buffer->address + r->begin,
                         r->end - r->begin);
}

static vyc_status distribute(batch *b, const range *r, uint32_t first, uint32_t count,
                             uint64_t place) {
  for (uint32_t i = first; i < first + count; i++)
    memcpy(b->items[i]->result, b->room + place + (b->items[i]->offset - r->begin),
           b->items[i]->bytes);
  return VYC_OK;
}

static vyc_status enqueue(batch *b) {
  if (!vyc__gather_begin(&b->gathering, b->context, b->small)) return walk_batch(b, enqueue_copy);
  VYC_TRY(walk_batch(b, enqueue_gathered));
  return vyc__gather_end(&b->gathering);
}

static vyc_status download_batch(batch *b) {
  vyc_context *context = b->context;
  vyc_block *block = NULL;
  VYC_TRY(walk_batch(b, measure));
  VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &block, b->used));
  b->room = (uint8_t *)(uintptr_t)block->address;
  vyc_status status = enqueue(b);
  if (status == VYC_OK) status = finish(context, b->scope);
  const bool ended = status == VYC_OK;
  if (ended) status = walk_batch(b, distribute);
  if (ended) vyc__count(&context->counters, staged_out_bytes, b->bytes);
  vyc__pool_give(context, vyc__pinned_pool(context), block,
                 ended ? 0 : UINT64_C(1) << VYC_SLOT_MAIN);
  return status;
}

static vyc_status download_small(vyc_context *context, const vyc_scope *scope,
                                 const vyc_transfer *const *items, uint32_t count) {
  for (uint32_t i = 0; i < count;) {
    batch b = {.context = context, .scope = scope, .items = items + i, .count = count - i};
    VYC_TRY(download_batch(&b));
    i += b.count;
  }
  return VYC_OK;
}

static vyc_status download_large(vyc_context *context, const vyc_transfer *item, bool *direct) {
  const uint64_t from = item->buffer->address + item->offset;
  *direct = true;
  return vyc__copy_back(context, item->result, from, item->bytes, context->main);
}

static vyc_status download(vyc_context *context, const vyc_scope *scope, const vyc_transfer *items,
                           uint32_t count, const vyc_transfer **sorted) {
  uint32_t small = 0;
  bool direct = false;
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < count; i++) {
    vyc__count(&context->counters, readback_bytes, items[i].bytes);
    if (items[i].bytes > VYC_CHUNK)
      status = download_large(context, &items[i], &direct);
    else if (items[i].bytes > 0)
      sorted[small++] = &items[i];
  }
  if (status == VYC_OK && small > 0) {
    qsort(sorted, small, sizeof *sorted, by_place);
    status = download_small(context, scope, sorted, small);
    if (status == VYC_OK) return VYC_OK; /* its wait covered the direct copies too */
  }
  return direct ? finish_too(context, scope, status) : status;
}

/* The far ones of a buffer, and of its source. */
static vyc_status add_far(vyc_slots *slots, const vyc_buffer *buffer, uint64_t marks) {
  const uint32_t source = vyc__slot_of(buffer->source);
  if (source >= VYC_NEAR_SLOTS) VYC_TRY(vyc__slots_add(slots, source));
  VYC_EACH_SLOT(slot, marks & VYC_FAR_BIT, &buffer->far)
  VYC_TRY(vyc__slots_add(slots, slot));
  return VYC_OK;
}

/* The streams for whose work it waits, including the main stream: those whose reports are checked.
 */
static vyc_status list_slots(const vyc_context *context, vyc_slots *slots,
                             const vyc_transfer *items, uint32_t count) {
  const bool looks = vyc__has_reports(context);
  uint64_t near = UINT64_C(1) << VYC_SLOT_MAIN;
  for (uint32_t i = 0; i < count; i++) {
    const vyc_buffer *buffer = items[i].buffer;
    const uint64_t both = vyc__buffer_marks(buffer) | vyc__slot_bit(vyc__slot_of(buffer->source));
    if (VYC_UNLIKELY(looks && (both & VYC_FAR_BIT) != 0)) VYC_TRY(add_far(slots, buffer, both));
    near |= both;
  }
  atomic_store_explicit(&slots->near, near, memory_order_relaxed);
  return VYC_OK;
}

vyc_status vyc_download(vyc_context *context, const vyc_transfer *items, uint32_t count) {
  const vyc_transfer *few[16];
  VYC_TRY(check(context, items, count, true));
  if (is_empty(items, count)) return vyc__check_usable(context);
  const vyc_transfer **sorted =
      count <= 16 ? few : (const vyc_transfer **)malloc(count * sizeof *sorted);
  if (sorted == NULL) return vyc__fail(VYC_E_MEMORY, "malloc", "out of host memory");
  vyc_scope scope;
  vyc_slots slots = {0};
  vyc_status status = list_slots(context, &slots, items, count);
  if (status == VYC_OK) status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = prepare(items, count);
    if (status == VYC_OK) status = download(context, &scope, items, count, sorted);
    if (status == VYC_OK) status = vyc__check_reports_on(context, &slots);
    vyc__leave(context, &scope);
  }
  vyc__far_free(&slots.far);
  if (sorted != few) free((void *)sorted);
  return status;
}
