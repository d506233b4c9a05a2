/* Small copies between a caller's memory and a buffer, for callers that hold a lock of their own:
 * without a lock in this library, and with as few driver calls as possible.
 *
 * They go through page-locked memory that the context keeps, in parts that are used in turn. A copy
 * gets the next bytes of a part; an event is recorded after the copies of a full part, which is
 * used again once that has been reached. So an upload waits for nothing, one event serves many
 * copies, and an abandoned download can only write to bytes that no other copy has. */
#include <string.h>

#include "room.h"

#define PART_BYTES (UINT64_C(2) * VYC_TRY_BYTES)
#define MAIN_BIT (UINT64_C(1) << VYC_SLOT_MAIN)

/* ---- room: the caller has claimed the memory ------------------------------------------------- */

/* All earlier work of the main stream has ended. */
static void clear(vyc_small_copies *small) {
  memset(small->busy, 0, sizeof small->busy);
  small->part = 0;
  small->used = 0;
}

static vyc_status next_part(vyc_context *context, vyc_small_copies *small) {
  const uint32_t next = (small->part + 1) % VYC_SMALL_COPY_PARTS;
  CUevent *event = &small->events[small->part];
  VYC_CU_RESULT;
  if (small->busy[next]) {
    VYC_TRY(
        vyc__ready(context, context->driver->cuEventQuery(small->events[next]), "cuEventQuery"));
    small->busy[next] = false;
  }
  if (*event == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, event, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuEventRecord, *event, context->main));
  small->busy[small->part] = true;
  small->part = next;
  small->used = 0;
  return VYC_OK;
}

/* VYC_NOT_READY: the device is too far behind. The caller may use the bytes for one copy. */
static vyc_status take(vyc_context *context, vyc_small_copies *small, void **room_out,
                       uint64_t bytes) {
  if (VYC_UNLIKELY(small->block == NULL))
    VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &small->block,
                           VYC_SMALL_COPY_PARTS * PART_BYTES));
  if (VYC_UNLIKELY(bytes > PART_BYTES - small->used)) VYC_TRY(next_part(context, small));
  *room_out = (uint8_t *)(uintptr_t)small->block->address + small->part * PART_BYTES + small->used;
  small->used += vyc__align_up(bytes, VYC_CACHE_LINE);
  return VYC_OK;
}

void vyc__small_copies_trim(vyc_context *context) {
  vyc_small_copies *small = vyc__small_copies(context);
  vyc__claim_take(&small->claim);
  if (small->block != NULL)
    vyc__pool_give(context, vyc__pinned_pool(context), small->block, MAIN_BIT);
  small->block = NULL;
  clear(small);
  vyc__claim_drop(&small->claim);
}

void vyc__small_copies_close(vyc_context *context) {
  vyc_small_copies *small = vyc__small_copies(context);
  for (uint32_t i = 0; i < VYC_SMALL_COPY_PARTS; i++)
    if (small->events[i] != NULL) context->driver->cuEventDestroy(small->events[i]);
  if (small->block != NULL) vyc__pool_give(context, vyc__pinned_pool(context), small->block, 0);
  small->block = NULL;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool is_small_copy(const vyc_buffer *buffer, uint64_t bytes) {
  return bytes > 0 && bytes <= VYC_TRY_BYTES && buffer->source == NULL;
}

/* Wait, for as long as is allowed, for the work on other streams that a copy must follow, by the
 * marks in `near`. Far marks are left to the functions that may take longer. */
static vyc_status begin(vyc_buffer *buffer, uint64_t near, uint64_t offset, uint64_t bytes,
                        int64_t timeout_ns, const char *operation) {
  if (VYC_UNLIKELY((near & VYC_FAR_BIT) != 0)) return VYC_NOT_READY;
  if (VYC_UNLIKELY((near & ~MAIN_BIT) != 0))
    VYC_TRY(vyc__slots_finish(buffer->child.context, near & ~MAIN_BIT, NULL, timeout_ns));
  return vyc__copy_prepare(buffer, offset, bytes, operation);
}

static vyc_status bring_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes,
                           int64_t timeout_ns) {
  vyc_context *context = to->child.context;
  void *room = NULL;
  VYC_TRY(begin(to, vyc__buffer_marks(to), offset, bytes, timeout_ns, "copy_in"));
  VYC_TRY(take(context, vyc__small_copies(context), &room, bytes));
  memcpy(room, data, bytes);
  vyc__count(&context->counters, staged_in_bytes, bytes);
  VYC_TRY(vyc__copy_up(context, to->address + offset, room, bytes, context->main));
  return vyc__copy_enqueued(to);
}

static vyc_status bring_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes,
                            int64_t timeout_ns) {
  vyc_context *context = from->child.context;
  void *room = NULL;
  const uint64_t near = vyc__buffer_marks(from) | MAIN_BIT;
  const vyc_slots slots = {.near = near};
  VYC_TRY(begin(from, near, offset, bytes, timeout_ns, "copy_out"));
  VYC_TRY(take(context, vyc__small_copies(context), &room, bytes));
  VYC_TRY(vyc__copy_back(context, room, from->address + offset, bytes, context->main));
  VYC_TRY(vyc__slot_finish(context, VYC_SLOT_MAIN, timeout_ns));
  memcpy(data_out, room, bytes);
  clear(vyc__small_copies(context));
  vyc__count(&context->counters, readback_bytes, bytes);
  vyc__count(&context->counters, staged_out_bytes, bytes);
  vyc__count(&context->counters, sync_points, 1);
  return vyc__check_reports_on(context, &slots);
}

vyc_status vyc_copy_try_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes,
                           int64_t timeout_ns) {
  VYC_REQUIRE(to != NULL && (data != NULL || bytes == 0) && timeout_ns >= 0);
  if (!is_small_copy(to, bytes) || to->read_only || vyc__is_seen_outside(to)) return VYC_NOT_READY;
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_NOT_READY;
  if (VYC_LIKELY(vyc__claim_try(&vyc__small_copies(context)->claim))) {
    status = bring_in(to, offset, data, bytes, timeout_ns);
    vyc__claim_drop(&vyc__small_copies(context)->claim);
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_copy_try_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes,
                            int64_t timeout_ns) {
  VYC_REQUIRE(from != NULL && (data_out != NULL || bytes == 0) && timeout_ns >= 0);
  if (!is_small_copy(from, bytes)) return VYC_NOT_READY;
  vyc_context *context = from->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_NOT_READY;
  if (VYC_LIKELY(vyc__claim_try(&vyc__small_copies(context)->claim))) {
    status = bring_out(from, offset, data_out, bytes, timeout_ns);
    vyc__claim_drop(&vyc__small_copies(context)->claim);
  }
  vyc__leave(context, &scope);
  return status;
}
