/* What runs after what: from the bytes that nodes read and write to the edges between them. */
#ifndef VYC_GRAPH_ORDER_H
#define VYC_GRAPH_ORDER_H

#include "room.h"

#define VYC_NONE UINT32_MAX

typedef struct vyc_access {
  uint64_t begin, end; /* addresses of the device or of page-locked memory */
  uint32_t write;
  uint32_t reserved;
} vyc_access;

/* ---- dependencies.c ---- */

/* So many nodes of a graph run side by side at most: on an H200, 1,024 independent kernels take
 * 185 us so, and 952 us without a limit (2026-11-27T080214Z and T010741Z in benchmarks/results).
 * Before, graphs of 17 and more did not end on a GPU that processes share; they were launched right
 * after an upload, see executable.c. */
#define VYC_ORDER_CHAINS 8u

typedef struct vyc_order_node {
  uint32_t chain, position;
  uint32_t clock[VYC_ORDER_CHAINS]; /* by chain: the last position before it, or its own */
  bool followed;                   /* a node depends on it */
} vyc_order_node;

typedef struct vyc_order_segment {
  uint64_t begin, end;
  uint32_t writer;  /* VYC_NONE: not written yet */
  uint32_t readers; /* since then: a list in `cells` */
} vyc_order_segment;

typedef struct vyc_order_cell {
  uint32_t node, next;
} vyc_order_cell;

/* An order of zeros is empty. */
typedef struct vyc_order {
  bool serial; /* every node comes after the one before it */
  bool path;   /* they turned out to be in such an order; valid if there is a node */
  uint32_t node_count, node_room;
  vyc_order_node *nodes;
  uint32_t segment_count, segment_room;
  vyc_order_segment *segments; /* sorted, disjoint */
  uint32_t cell_count, cell_room;
  vyc_order_cell *cells;
  uint32_t found_count, found_room;
  uint32_t *found;
  uint32_t tail[VYC_ORDER_CHAINS];
  uint32_t chain_count;
} vyc_order;

/* Add the next node, number node_count, with what it touches. The nodes that it must follow, newest
 * first and without those that follow from the others, are in `found` until the next call. */
vyc_status vyc__order_add(vyc_order *order, const vyc_access *accesses, uint32_t count);
/* Put the nodes on which no other node depends into `found`. */
vyc_status vyc__order_ends(vyc_order *order);
/* Make it empty again, keeping its memory. */
void vyc__order_reset(vyc_order *order);
void vyc__order_free(vyc_order *order);

/* Room for `count` elements; the array grows by doubling. VYC_E_MEMORY leaves it as it is. */
vyc_status vyc__grow(void *array, uint32_t *room, uint32_t count, size_t element_bytes);

#endif
