/* Which ring a call goes to, and so the order of calls. Calls of one ring run one after the other,
 * in the order in which they were put there; those of several rings side by side. So a call goes
 * behind those that use the same memory, if one of them writes it, and waits while these are in
 * more than one ring; any other goes where it begins first. One call that waits in this way keeps
 * others back that use the same memory, so that these do not overtake it again and again.
 *
 * A call that follows none, and whose grid has many blocks, goes to all blocks that have nothing to
 * do, a part to each. Nothing on the device depends on where the other parts are; the call has
 * ended when all have. One that is cleared first, or that waits for a stream, stays whole. */
#include <string.h>

#include "worker.h"

static bool meet(const worker_range *a, const worker_range *b) {
  return (a->is_written || b->is_written) && a->begin < b->end && b->begin < a->end;
}

static bool depends(const vyc_worker_call *call, const worker_range *ranges, uint32_t count) {
  for (uint32_t i = 0; i < call->range_count; i++)
    for (uint32_t j = 0; j < count; j++)
      if (meet(&call->ranges[i], &ranges[j])) return true;
  return false;
}

static bool is_kept_back(const vyc_worker_call *call) {
  const vyc_worker_call *held = call->worker->held;
  return held != NULL && held != call && depends(call, held->ranges, held->range_count);
}

/* The ring with what has not been answered of these parts, if it is the one that was found; false:
 * there are several. */
static bool join(const struct worker_order *other, vyc_ring **ring) {
  for (uint32_t i = 0; i < other->part_count; i++) {
    const worker_part *part = &other->parts[i];
    if (part->ring == *ring || vyc__ring_is_answered(part->ring, part->number)) continue;
    if (*ring != NULL) return false;
    *ring = part->ring;
  }
  return true;
}

/* The ring with calls on which this one depends, or NULL; false: there are several. Forgets those
 * that have been answered. */
static bool find_ring(vyc_worker_call *call, vyc_ring **ring_out) {
  vyc_worker_call **at = &call->worker->ordered;
  *ring_out = NULL;
  while (*at != NULL) {
    struct worker_order *other = &(*at)->order;
    if (vyc__parts_are_answered(other->parts, other->part_count)) {
      other->listed = false;
      *at = other->next;
      continue;
    }
    if (depends(call, other->ranges, other->count) && !join(other, ring_out)) return false;
    at = &other->next;
  }
  return true;
}

/* The last ring, if its block has nothing to do: so one caller keeps one block. Else one that has
 * nothing to do, or else the one after the last. */
static vyc_ring *choose(vyc_worker *worker) {
  for (uint32_t i = 0; i < worker->ring_count; i++) {
    vyc_ring *ring = &worker->rings[(worker->turn + i) % worker->ring_count];
    if (vyc__ring_is_empty(ring)) return ring;
  }
  return &worker->rings[(worker->turn + 1) % worker->ring_count];
}

/* The rings whose blocks have nothing to do, from the chosen one on; as many as the grid has parts
 * for. */
static uint32_t spread(vyc_worker_call *call, const uint32_t grid[3]) {
  vyc_worker *worker = call->worker;
  const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  const uint64_t most = blocks < WORKER_SPREAD_BLOCKS ? 1 : blocks / WORKER_PART_BLOCKS;
  uint32_t count = 0;
  for (uint32_t i = 0; i < worker->ring_count && count < most; i++) {
    vyc_ring *ring = &worker->rings[(worker->turn + i) % worker->ring_count];
    if (vyc__ring_is_empty(ring)) call->parts[count++].ring = ring;
  }
  return count;
}

uint32_t vyc__worker_place(vyc_worker_call *call, uint32_t count, const uint32_t grid[3]) {
  vyc_worker *worker = call->worker;
  vyc_ring *ring = &worker->rings[0];
  if (worker->ring_count > 1) {
    if (is_kept_back(call)) return 0;
    if (!find_ring(call, &ring)) {
      if (worker->held == NULL) worker->held = call;
      return 0;
    }
    const bool follows = ring != NULL;
    if (!follows) ring = choose(worker);
    worker->turn = (uint32_t)(ring - worker->rings);
    if (!follows && count == 1 && !call->is_behind) {
      const uint32_t parts = spread(call, grid);
      if (parts > 1) return parts;
    }
  }
  call->parts[0].ring = ring;
  return VYC_LIKELY(vyc__ring_takes(ring, count)) ? 1 : 0;
}

void vyc__worker_let_go(vyc_worker_call *call) {
  if (VYC_UNLIKELY(call->worker->held == call)) call->worker->held = NULL;
}

void vyc__worker_order(vyc_worker_call *call) {
  struct worker_order *order = &call->order;
  vyc__worker_let_go(call);
  if (call->range_count == 0) return;
  worker_range *spare = order->ranges;
  memcpy(order->parts, call->parts, call->part_count * sizeof(worker_part));
  order->part_count = call->part_count;
  order->ranges = call->ranges;
  order->count = call->range_count;
  call->ranges = spare; /* it is written while others look at the list */
  if (order->listed) return;
  order->listed = true;
  order->next = call->worker->ordered;
  call->worker->ordered = call;
}
