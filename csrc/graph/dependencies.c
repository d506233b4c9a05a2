/* The order of a graph's nodes, from what they touch: after the last writer of what a node reads,
 * and after the last writer and all later readers of what it writes.
 *
 * Every node is on one of 8 paths, and knows how far it comes after each of them, so an edge that
 * follows from others is left out. Where a node would need one path more, it is put after the end
 * of the path that ended first: so there are never more than 8 nodes side by side. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

vyc_status vyc__grow(void *array, uint32_t *room, uint32_t count, size_t element_bytes) {
  void *current; /* `array` is the address of a pointer of any type */
  if (VYC_LIKELY(count <= *room)) return VYC_OK;
  memcpy(&current, array, sizeof current);
  uint64_t wanted = *room == 0 ? 16 : 2 * (uint64_t)*room;
  if (wanted < count) wanted = count;
  if (wanted > UINT32_MAX / 2 || wanted > SIZE_MAX / element_bytes)
    return vyc__fail(VYC_E_MEMORY, "graph", "more than %u elements in a graph", UINT32_MAX / 2);
  void *grown = realloc(current, (size_t)wanted * element_bytes);
  if (grown == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  memcpy(array, &grown, sizeof grown);
  *room = (uint32_t)wanted;
  return VYC_OK;
}

/* ---- what comes before what ------------------------------------------------------------------ */

static bool is_before(const vyc_order *order, uint32_t node, const uint32_t *clock) {
  const vyc_order_node *n = &order->nodes[node];
  return clock[n->chain] >= n->position;
}

static void merge(uint32_t *clock, const uint32_t *other) {
  for (uint32_t i = 0; i < VYC_ORDER_CHAINS; i++)
    if (other[i] > clock[i]) clock[i] = other[i];
}

static vyc_status find(vyc_order *order, uint32_t node) {
  VYC_TRY(vyc__grow(&order->found, &order->found_room, order->found_count + 1, sizeof(uint32_t)));
  order->found[order->found_count++] = node;
  return VYC_OK;
}

static int newest_first(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Keep those of `found` that do not follow from the rest; `clock` becomes the maximum of all. */
static void reduce(vyc_order *order, uint32_t *clock) {
  uint32_t kept = 0;
  if (order->found_count > 1)
    qsort(order->found, order->found_count, sizeof(uint32_t), newest_first);
  for (uint32_t i = 0; i < order->found_count; i++) {
    const uint32_t node = order->found[i];
    if (kept > 0 && (order->found[kept - 1] == node || is_before(order, node, clock))) continue;
    merge(clock, order->nodes[node].clock);
    order->nodes[node].followed = true;
    order->found[kept++] = node;
  }
  order->found_count = kept;
}

/* The path that the node continues: one that ends in a node on which it depends, a new one, one
 * whose end comes before it anyway, or else the one that ended first. */
static uint32_t chain_for(const vyc_order *order, const uint32_t *clock) {
  for (uint32_t i = 0; i < order->found_count; i++) {
    const uint32_t chain = order->nodes[order->found[i]].chain;
    if (order->tail[chain] == order->found[i]) return chain;
  }
  if (order->chain_count < VYC_ORDER_CHAINS) return order->chain_count;
  uint32_t first = 0;
  for (uint32_t i = 0; i < VYC_ORDER_CHAINS; i++) {
    if (is_before(order, order->tail[i], clock)) return i;
    if (order->tail[i] < order->tail[first]) first = i;
  }
  return first;
}

static vyc_status join_chain(vyc_order *order, uint32_t number) {
  vyc_order_node *node = &order->nodes[number];
  const uint32_t chain = chain_for(order, node->clock);
  if (chain == order->chain_count) {
    order->chain_count++;
  } else if (!is_before(order, order->tail[chain], node->clock)) {
    VYC_TRY(find(order, order->tail[chain]));
    memset(node->clock, 0, sizeof node->clock);
    reduce(order, node->clock);
  }
  node->chain = chain;
  node->position = node->clock[chain] + 1;
  node->clock[chain] = node->position;
  order->tail[chain] = number;
  return VYC_OK;
}

/* ---- what touched what ----------------------------------------------------------------------- */

/* The first segment that ends after the address. */
static uint32_t segment_behind(const vyc_order *order, uint64_t address) {
  uint32_t low = 0, high = order->segment_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (order->segments[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static vyc_status insert(vyc_order *order, uint32_t at, const vyc_order_segment *segment) {
  VYC_TRY(vyc__grow(&order->segments, &order->segment_room, order->segment_count + 1,
                    sizeof *order->segments));
  vyc_order_segment *place = order->segments + at;
  memmove(place + 1, place, (order->segment_count - at) * sizeof *place);
  *place = *segment;
  order->segment_count++;
  return VYC_OK;
}

/* Split the segment that contains the address, if there is one. */
static vyc_status split(vyc_order *order, uint64_t address) {
  const uint32_t at = segment_behind(order, address);
  if (at == order->segment_count || order->segments[at].begin >= address) return VYC_OK;
  vyc_order_segment rest = order->segments[at];
  rest.begin = address;
  order->segments[at].end = address;
  return insert(order, at + 1, &rest);
}

static vyc_status add_reader(vyc_order *order, uint32_t *readers, uint32_t node) {
  const vyc_order_cell *first = *readers == VYC_NONE ? NULL : &order->cells[*readers];
  if (first != NULL && first->node == node) return VYC_OK;
  uint32_t next = *readers;
  /* A node that follows this one also follows those before it. */
  if (first != NULL && is_before(order, first->node, order->nodes[node].clock)) next = first->next;
  VYC_TRY(vyc__grow(&order->cells, &order->cell_room, order->cell_count + 1, sizeof *order->cells));
  order->cells[order->cell_count] = (vyc_order_cell){node, next};
  *readers = order->cell_count++;
  return VYC_OK;
}

static vyc_status find_conflicts(vyc_order *order, const vyc_access *access) {
  for (uint32_t i = segment_behind(order, access->begin);
       i < order->segment_count && order->segments[i].begin < access->end; i++) {
    const vyc_order_segment *segment = &order->segments[i];
    if (access->write && segment->readers != VYC_NONE) {
      for (uint32_t c = segment->readers; c != VYC_NONE; c = order->cells[c].next)
        VYC_TRY(find(order, order->cells[c].node));
    } else if (segment->writer != VYC_NONE) {
      VYC_TRY(find(order, segment->writer));
    }
  }
  return VYC_OK;
}

static vyc_status note_write(vyc_order *order, const vyc_access *access, uint32_t node) {
  VYC_TRY(split(order, access->begin));
  VYC_TRY(split(order, access->end));
  const uint32_t first = segment_behind(order, access->begin);
  uint32_t last = first;
  while (last < order->segment_count && order->segments[last].begin < access->end) last++;
  const vyc_order_segment written = {access->begin, access->end, node, VYC_NONE};
  if (first == last) return insert(order, first, &written);
  order->segments[first] = written;
  memmove(order->segments + first + 1, order->segments + last,
          (order->segment_count - last) * sizeof *order->segments);
  order->segment_count -= last - first - 1;
  return VYC_OK;
}

static vyc_status note_read(vyc_order *order, const vyc_access *access, uint32_t node) {
  VYC_TRY(split(order, access->begin));
  VYC_TRY(split(order, access->end));
  uint64_t at = access->begin;
  for (uint32_t i = segment_behind(order, at); at < access->end; i++) {
    const bool last = i == order->segment_count || order->segments[i].begin >= access->end;
    const uint64_t next = last ? access->end : order->segments[i].begin;
    if (next > at) { /* not touched yet */
      const vyc_order_segment fresh = {at, next, VYC_NONE, VYC_NONE};
      VYC_TRY(insert(order, i, &fresh));
    }
    VYC_TRY(add_reader(order, &order->segments[i].readers, node));
    at = order->segments[i].end;
  }
  return VYC_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static vyc_status find_before(vyc_order *order, const vyc_access *accesses, uint32_t count) {
  order->found_count = 0;
  if (order->serial) return order->node_count == 0 ? VYC_OK : find(order, order->node_count - 1);
  for (uint32_t i = 0; i < count; i++)
    if (accesses[i].begin < accesses[i].end) VYC_TRY(find_conflicts(order, &accesses[i]));
  return VYC_OK;
}

vyc_status vyc__order_add(vyc_order *order, const vyc_access *accesses, uint32_t count) {
  const uint32_t number = order->node_count;
  VYC_TRY(find_before(order, accesses, count));
  VYC_TRY(vyc__grow(&order->nodes, &order->node_room, number + 1, sizeof *order->nodes));
  vyc_order_node *node = &order->nodes[number];
  memset(node, 0, sizeof *node);
  order->node_count++;
  reduce(order, node->clock);
  VYC_TRY(join_chain(order, number));
  const bool behind_last = order->found_count == 1 && order->found[0] + 1 == number;
  order->path = number == 0 || (order->path && behind_last);
  for (uint32_t i = 0; i < count && !order->serial; i++) {
    const vyc_access *access = &accesses[i];
    if (access->begin >= access->end) continue;
    VYC_TRY(access->write ? note_write(order, access, number) : note_read(order, access, number));
  }
  return VYC_OK;
}

vyc_status vyc__order_ends(vyc_order *order) {
  order->found_count = 0;
  for (uint32_t i = order->node_count; i-- > 0;)
    if (!order->nodes[i].followed) VYC_TRY(find(order, i));
  return VYC_OK;
}

void vyc__order_reset(vyc_order *order) {
  order->node_count = order->segment_count = order->cell_count = 0;
  order->found_count = order->chain_count = 0;
}

void vyc__order_free(vyc_order *order) {
  free(order->nodes);
  free(order->segments);
  free(order->cells);
  free(order->found);
  memset(order, 0, sizeof *order);
}
