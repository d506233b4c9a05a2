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

/* ---- room: the caller has claimed the ferry ------------------------------------------------- */

/* All earlier work of the main stream has ended. */
static void clear(vyc_ferry *ferry) {
  memset(ferry->busy, 0, sizeof ferry->busy);
  ferry->part = 0;
  ferry->used = 0;
}

static vyc_status next_part(vyc_context *context, vyc_ferry *ferry) {
  const uint32_t next = (ferry->part + 1) % VYC_FERRY_PARTS;
  CUevent *event = &ferry->events[ferry->part];
  VYC_CU_RESULT;
  if (ferry->busy[next]) {
    VYC_TRY(
        vyc__ready(context, context->driver->cuEventQuery(ferry->events[next]), "cuEventQuery"));
    ferry->busy[next] = false;
  }
  if (*event == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, event, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuEventRecord, *event, context->main));
  ferry->busy[ferry->part] = true;
  ferry->part = next;
  ferry->used = 0;
  return VYC_OK;
}

/* VYC_NOT_READY: the device is too far behind. The caller may use the bytes for one copy. */
static vyc_status take(vyc_context *context, vyc_ferry *ferry, void **room_out, uint64_t bytes) {
  if (VYC_UNLIKELY(ferry->block == NULL))
    VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &ferry->block,
                           VYC_FERRY_PARTS * PART_BYTES));
  if (VYC_UNLIKELY(bytes > PART_BYTES - ferry->used)) VYC_TRY(next_part(context, ferry));
  *room_out = (uint8_t *)(uintptr_t)ferry->block->address + ferry->part * PART_BYTES + ferry->used;
  ferry->used += vyc__align_up(bytes, VYC_CACHE_LINE);
  return VYC_OK;
}

void vyc__ferry_trim(vyc_context *context) {
  vyc_ferry *ferry = vyc__ferry(context);
  vyc__claim_take(&ferry->claim);
  if (ferry->block != NULL)
    vyc__pool_give(context, vyc__pinned_pool(context), ferry->block, MAIN_BIT);
  ferry->block = NULL;
  clear(ferry);
  vyc__claim_drop(&ferry->claim);
}

void vyc__ferry_close(vyc_context *context) {
  vyc_ferry *ferry = vyc__ferry(context);
  for (uint32_t i = 0; i < VYC_FERRY_PARTS; i++)
    if (ferry->events[i] != NULL) context->driver->cuEventDestroy(ferry->events[i]);
  if (ferry->block != NULL) vyc__pool_give(context, vyc__pinned_pool(context), ferry->block, 0);
  ferry->block = NULL;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool is_for_ferry(const vyc_buffer *buffer, uint64_t bytes) {
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
  VYC_TRY(take(context, vyc__ferry(context), &room, bytes));
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
  VYC_TRY(take(context, vyc__ferry(context), &room, bytes));
  VYC_TRY(vyc__copy_back(context, room, from->address + offset, bytes, context->main));
  VYC_TRY(vyc__slot_finish(context, VYC_SLOT_MAIN, timeout_ns));
  memcpy(data_out, room, bytes);
  clear(vyc__ferry(context));
  vyc__count(&context->counters, readback_bytes, bytes);
  vyc__count(&context->counters, staged_out_bytes, bytes);
  vyc__count(&context->counters, sync_points, 1);
  return vyc__check_reports_on(context, &slots);
}

vyc_status vyc_copy_try_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes,
                           int64_t timeout_ns) {
  VYC_REQUIRE(to != NULL && (data != NULL || bytes == 0) && timeout_ns >= 0);
  if (!is_for_ferry(to, bytes) || to->read_only || vyc__is_seen_outside(to)) return VYC_NOT_READY;
  vyc_context *context = to->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_NOT_READY;
  if (VYC_LIKELY(vyc__claim_try(&vyc__ferry(context)->claim))) {
    status = bring_in(to, offset, data, bytes, timeout_ns);
    vyc__claim_drop(&vyc__ferry(context)->claim);
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_copy_try_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes,
                            int64_t timeout_ns) {
  VYC_REQUIRE(from != NULL && (data_out != NULL || bytes == 0) && timeout_ns >= 0);
  if (!is_for_ferry(from, bytes)) return VYC_NOT_READY;
  vyc_context *context = from->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_NOT_READY;
  if (VYC_LIKELY(vyc__claim_try(&vyc__ferry(context)->claim))) {
    status = bring_out(from, offset, data_out, bytes, timeout_ns);
    vyc__claim_drop(&vyc__ferry(context)->claim);
  }
  vyc__leave(context, &scope);
  return status;
}
