/* A recorded graph: its steps, the order that they must keep, and the nodes made of them.
 *
 * step   what was recorded: a launch, a copy, a fill, or a repetition of the steps that follow
 * node   what the driver has: a repeated step has several, an empty one none
 * order  from the byte ranges that nodes read and write to the edges between them
 * A thread that changes or launches a graph claims it for that long. */
#ifndef VYC_GRAPH_GRAPH_H
#define VYC_GRAPH_GRAPH_H

#include "room.h"

#define VYC_NONE UINT32_MAX
#define VYC_MOST_NODES UINT64_C(262144) /* of a graph */

typedef struct vyc_access {
  uint64_t begin, end; /* addresses of the device or of page-locked memory */
  uint32_t write;
  uint32_t reserved;
} vyc_access;

/* ---- dependencies.c ---- */

#define VYC_ORDER_CHAINS 32u

typedef struct vyc_order_node {
  uint32_t chain, position;        /* chain VYC_ORDER_CHAINS: on no chain */
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

/* ---- steps ---- */

enum { STEP_LAUNCH, STEP_TRANSFER, STEP_REPEAT };

/* The parameters of a launch or transfer. */
typedef struct vyc_values {
  vyc_run run;
  vyc_argument *arguments;
  uint64_t *scalars;
  uint8_t *block;
  void **pointers; /* pointers into it */
  vyc_graph_transfer transfer;
  uint64_t to, from; /* addresses of the transfer */
} vyc_values;

/* What the rows touch of a step that is many launches as one. */
typedef struct vyc_row_memory {
  uint32_t access_count, buffer_count;
  vyc_access *accesses;
  vyc_buffer **buffers; /* each once; held by the step */
} vyc_row_memory;

#define VYC_STEP_VALUES 3 /* the base, what the executable graph has, and what it is to have */

typedef struct vyc_step {
  uint32_t kind;
  bool away;             /* listed in graph->away: the executable graph may not have `base` */
  bool stale;            /* it is unknown what the executable graph has */
  bool built_empty;      /* no node was made for it: no threads, or no bytes */
  bool moved;            /* `base` touches other ranges than the edges were made for */
  uint32_t end;          /* REPEAT: one past its last step */
  uint32_t first_node;   /* of a list linked by vyc_node.next */
  uint32_t access_count;
  vyc_access *built;     /* the ranges that the edges were made for */
  vyc_prepared *prepared;
  vyc_row_memory *rows; /* of many launches, whose entry `prepared` is; or NULL */
  vyc_block *barrier; /* state of the kernel's grid barrier, for this step alone; or NULL */
  uint64_t report; /* where the prepared kernel reports in this graph; or 0 */
  vyc_values *values[VYC_STEP_VALUES]; /* the second and third are created when needed */
  vyc_values *base; /* one of them; it holds its buffers, and the others hold nothing */
  vyc_values *now; /* what the executable graph has, unless stale */
  vyc_values *target; /* during a launch: what it is to have; NULL: the base */
  uint64_t clears[VYC_MAX_BINDINGS / 64]; /* a bit for each binding that nodes clear */
  uint64_t times; /* REPEAT; 0 with `until`: no limit */
  vyc_buffer *until; /* or NULL */
  uint64_t until_address;
  uint32_t until_bytes;
} vyc_step;

enum { /* vyc_node.role; other values: the number of the binding that it clears */
       NODE_LAUNCH = VYC_MAX_BINDINGS,
       NODE_TRANSFER,
       NODE_BARRIER, /* clears the state of a grid barrier */
       NODE_LOOP, /* the WHILE node */
       NODE_LOOP_BEGIN, /* the kernel before it */
       NODE_LOOP_NEXT /* the last kernel of its body */
};

typedef struct vyc_node {
  CUgraphNode handle;
  uint32_t step, role;
  uint32_t next; /* of the same step */
  uint32_t parent; /* the WHILE node whose body it is in */
  uint32_t first_edge, edge_count; /* numbers of nodes, in graph->edges */
  uint32_t element_bytes; /* of a clear or fill */
} vyc_node;

typedef struct vyc_range {
  uint64_t begin, end;
} vyc_range;

typedef struct vyc_ranges { /* sorted, disjoint, merged */
  uint32_t count, room;
  vyc_range *list;
} vyc_ranges;

/* A range that a step touches now and did not touch when the graph was built. */
typedef struct vyc_moved {
  uint64_t begin, end;
  uint32_t step, write;
} vyc_moved;

/* How often a graph is built again because edges were missing: if changes keep bringing new orders,
 * instantiating costs more than branches gain. */
#define VYC_MOST_REORDERS 16u

typedef struct vyc_symbol {
  char *name; /* or NULL */
  uint32_t kind;
  uint32_t element_bytes;
  uint32_t use_count;
  vyc_graph_use *uses;
  uint32_t launch; /* the launch that had a value for it last */
} vyc_symbol;

/* What a launch brings; one of the two counts is 0. */
typedef struct vyc_given {
  const vyc_graph_change *changes;
  uint32_t change_count;
  const vyc_symbol_value *values;
  uint32_t value_count;
} vyc_given;

/* Every buffer had the mark of this slot when no more marks than these had been taken. */
typedef struct vyc_marked {
  bool known;
  uint32_t slot, epoch, taken;
} vyc_marked;

struct vyc_graph {
  vyc_child child;
  vyc_claim claim;
  vyc_graph *lead; /* has the claim of those that run in turns; itself where none do */
  vyc_graph *last; /* of a lead: the one that was launched last */
  bool shared; /* it runs in turns with others */
  bool finished;
  bool serial; /* the edges are in the order of recording, which allows any change */
  bool path; /* the nodes were built as one path: no ranges can violate their order */
  uint32_t step_count, step_room;
  vyc_step *steps;
  uint32_t open_count, open_room;
  uint32_t *open; /* repetitions whose recording has not ended */
  uint32_t away_count;
  uint32_t *away; /* room for every step */
  uint32_t buffer_count;
  vyc_buffer **buffers; /* each buffer of the base values once; room for all arguments */
  bool adopted; /* some of them have a source */
  vyc_marked marked; /* what the last launch knew of their marks */
  uint32_t pinned_count;
  vyc_pinned **pinned; /* that of the base values; room for all steps */
  uint32_t symbol_count, symbol_room;
  vyc_symbol *symbols;
  uint32_t launches_with; /* of launches with values */
  CUgraph graph;
  CUgraphExec exec; /* NULL: not built, or a build failed */
  bool renewed; /* not launched yet, unlike the executable graph before it */
  uint32_t node_count, node_room;
  vyc_node *nodes;
  uint32_t edge_count, edge_room;
  uint32_t *edges;
  vyc_ranges touched, written; /* by the nodes when they were built */
  uint32_t reorders; /* see VYC_MOST_REORDERS */
  uint32_t moved_count, moved_room;
  vyc_moved *moved; /* during a launch */
  vyc_order wanted; /* likewise */
  uint32_t access_room;
  vyc_access *accesses; /* of one step, likewise */
  vyc_module *loop_module;
  CUfunction loop_begin, loop_next;
  uint32_t loops_made; /* by the latest build */
  vyc_block *counters; /* a u64 per loop */
  bool recycled; /* of counters or barriers: an earlier owner may have work in call order, */
  vyc_slots ordered; /* after which the streams of these slots are ordered */
  vyc_slots used; /* slots of the streams it was launched on */
  vyc_report_block *reports; /* one for each kernel; a list through `next` */
  vyc_graph *captures; /* whose nodes are in graphs of others that do not hold them; a list through
                          `captures` */
  vyc_hold *hold; /* of a copy whose nodes are in graphs of others that hold it */
  vyc_name *called; /* describes its contents */
  const vyc_name *noted; /* see vyc__noted_as */
};

/* Return memory that launches of the graph have used. */
static inline void vyc__graph_give(const vyc_graph *graph, vyc_block *block) {
  vyc_context *context = graph->child.context;
  vyc__pool_give_used(context, vyc__device_pool(context), block, atomic_load(&graph->used.near),
                      &graph->used.far);
}

/* ---- steps.c ---- */

/* Values of a step that are neither its base nor what the executable graph has. */
vyc_status vyc__step_spare(vyc_step *step, vyc_values **values_out);
void vyc__step_free(vyc_step *step);
vyc_status vyc__recorded_check(const vyc_prepared *prepared, const vyc_run *run);
vyc_status vyc__transfer_check(const vyc_context *context, const vyc_graph_transfer *transfer);
/* Copy parameters that were checked. */
void vyc__values_set(const vyc_step *step, vyc_values *values, const vyc_run *run,
                     const vyc_graph_transfer *transfer);
/* Write the block again, of arguments and scalars that were changed. */
void vyc__values_refresh(const vyc_step *step, vyc_values *values);
void vyc__values_hold(const vyc_step *step, const vyc_values *values);
void vyc__values_drop(const vyc_step *step, const vyc_values *values);
bool vyc__values_equal(const vyc_step *step, const vyc_values *a, const vyc_values *b);
static inline bool vyc__is_fill(const vyc_graph_transfer *transfer) {
  return transfer->from == NULL && transfer->from_host == NULL;
}
/* Visits what a step touches, one range at a time: all of them would be too much for the stack. */
uint32_t vyc__access_count(const vyc_step *step, const vyc_values *values);
vyc_access vyc__access(const vyc_step *step, const vyc_values *values, uint32_t i);
/* The same; `accesses_out` has room for them. */
uint32_t vyc__step_accesses(const vyc_step *step, const vyc_values *values,
                            vyc_access *accesses_out);
static inline bool vyc__step_is_empty(const vyc_step *step, const vyc_values *values) {
  return step->kind == STEP_LAUNCH ? vyc__grid_is_empty(values->run.grid)
                                   : values->transfer.bytes == 0;
}

/* ---- nodes.c: parameters of the driver's nodes ---- */

void vyc__kernel_params(const vyc_step *step, const vyc_values *values,
                        CUDA_KERNEL_NODE_PARAMS *params_out);
void vyc__copy_params(const vyc_graph_transfer *transfer, CUDA_MEMCPY3D *params_out);
void vyc__fill_params(uint64_t address, uint64_t bytes, uint32_t value, uint32_t element_bytes,
                      CUDA_MEMSET_NODE_PARAMS *params_out);
/* The widest element that clears these bytes. */
uint32_t vyc__clear_width(uint64_t address, uint64_t bytes);
/* Set other parameters of the nodes of a step. */
vyc_status vyc__nodes_set(vyc_graph *graph, vyc_step *step, vyc_values *values);

/* ---- unroll.c ---- */

/* How a repetition is made: a loop of `limit` passes over `part` copies of its steps, or as many
 * passes as the array says that ends it; then `rest` copies of its steps. */
typedef struct vyc_shape {
  bool is_loop;
  uint64_t limit, rest;
  uint32_t part;
} vyc_shape;
vyc_shape vyc__repeat_shape(const vyc_graph *graph, uint32_t number);
/* The number of loops that the graph gets, including nested ones. */
uint64_t vyc__count_loops(const vyc_graph *graph);
/* VYC_E_UNSUPPORTED if there are more nodes than a graph may have. */
vyc_status vyc__check_size(const vyc_graph *graph);
/* Everything that the steps touch. The caller frees *accesses_out. */
vyc_status vyc__gather_accesses(const vyc_graph *graph, uint32_t first, uint32_t end,
                                vyc_access **accesses_out, uint32_t *count_out);

/* ---- build.c ---- */

/* Where nodes go that become part of a graph of others. */
typedef struct vyc_outside {
  const CUgraphNode *nodes; /* what the first ones follow */
  size_t count;
  CUgraphNode *ends; /* once all are made: the last nodes; the caller frees this */
  uint32_t end_count, end_room;
} vyc_outside;

/* Prepares nodes for the current values of every step: sizes, counters, and what each touches. */
vyc_status vyc__graph_prepare(vyc_graph *graph);
/* Makes the nodes and edges in a driver graph; if `outside` is NULL, in one of its own. */
vyc_status vyc__graph_fill(vyc_graph *graph, CUgraph into, vyc_outside *outside);

/* Builds nodes, edges and the executable graph of the current values; none is left on failure. */
vyc_status vyc__graph_build(vyc_graph *graph);
/* Destroys the executable graph and the graph. The values stay. */
void vyc__graph_unbuild(vyc_graph *graph);

/* ---- ranges.c ---- */

/* List the ranges that the steps touch when the graph is built. */
vyc_status vyc__ranges_make(vyc_graph *graph);
/* Whether the nodes of a step can have these values. */
bool vyc__nodes_fit(const vyc_graph *graph, const vyc_step *step, const vyc_values *values);
/* Whether the step would touch other ranges than the edges were made for. */
bool vyc__has_moved(const vyc_step *step, const vyc_values *values);
/* Whether the edges keep the order with the targets of all steps in graph->away, which the nodes
 * can have. */
vyc_status vyc__edges_fit(vyc_graph *graph, bool *fit_out);

/* ---- cover.c ---- */

/* The same for a graph without loops, from the edges that it would have if it were built again. */
vyc_status vyc__edges_cover(vyc_graph *graph, bool *covered_out);
static inline vyc_values *vyc__step_target(const vyc_step *step) {
  return step->target == NULL ? step->base : step->target;
}

/* ---- loop.c ---- */

bool vyc__has_loops(const vyc_context *context);
/* Kernels and counters for this many loops. */
vyc_status vyc__loops_prepare(vyc_graph *graph, uint64_t loops);
typedef struct vyc_loop {
  uint64_t handle, counter, limit, until;
  uint32_t until_bytes;
} vyc_loop;
vyc_status vyc__loop_begin_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph in,
                                const CUgraphNode *dependencies, uint32_t count,
                                const vyc_loop *loop);
vyc_status vyc__loop_while_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph *body_out,
                                CUgraph in, const CUgraphNode *dependencies, uint32_t count,
                                const vyc_loop *loop);
vyc_status vyc__loop_next_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph body,
                               const CUgraphNode *dependencies, uint32_t count,
                               const vyc_loop *loop);

/* ---- graph.c ---- */

/* A child of the context. NULL: out of memory, which is recorded. */
vyc_graph *vyc__graph_new(vyc_context *context);
/* Add a step with parameters that were checked; it holds the prepared kernel and the buffers, also
 * those of `rows`, which is NULL but for many launches. */
vyc_status vyc__add_values(vyc_graph *graph, uint32_t *step_out, uint32_t kind,
                           vyc_prepared *prepared, const vyc_run *run,
                           const vyc_graph_transfer *transfer, const vyc_row_memory *rows);
/* Take back the steps from this number on. */
void vyc__remove_steps(vyc_graph *graph, uint32_t first);
/* Add a repetition, whose end is not known yet; it holds `until`. */
vyc_status vyc__add_repeat(vyc_graph *graph, uint32_t *step_out, uint64_t times, vyc_buffer *until,
                           uint64_t until_offset, uint32_t until_bytes);
static inline void vyc__graph_claim(vyc_graph *graph) { vyc__claim_take(&graph->lead->claim); }
static inline void vyc__graph_unclaim(vyc_graph *graph) { vyc__claim_drop(&graph->lead->claim); }
/* List the memory of the base values again. */
void vyc__graph_list_memory(vyc_graph *graph);

/* ---- row_memory.c ---- */

/* Room for so many; the accesses are for the caller to fill in, and it has no buffers yet. */
vyc_status vyc__row_memory_new(vyc_row_memory **rows_out, uint32_t accesses, uint32_t buffers);
/* A copy, with holds on the buffers. */
vyc_status vyc__row_memory_copy(vyc_row_memory **copy_out, const vyc_row_memory *rows);
void vyc__row_memory_drop(vyc_row_memory *rows);

/* ---- symbols.c ---- */

/* Make the values the targets of their steps, which get into graph->away. */
vyc_status vyc__symbols_give(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count);
/* The targets as changes in the order of steps. The caller frees *changes_out. */
vyc_status vyc__targets_as_changes(const vyc_graph *graph, vyc_graph_change **changes_out,
                                   uint32_t *count_out);
void vyc__symbols_free(vyc_graph *graph);

/* ---- launch.c ---- */

/* The step has a target: the executable graph may not have its base after this. */
static inline void vyc__list_away(vyc_graph *graph, uint32_t number) {
  if (graph->steps[number].away) return;
  graph->steps[number].away = true;
  graph->away[graph->away_count++] = number;
}

/* ---- turns.c ---- */

/* The next launch of this graph, which shares turns, comes after those of the one before it. */
vyc_status vyc__turn_take(vyc_graph *graph);
/* A graph that ends. */
void vyc__turns_leave(vyc_graph *graph);

/* ---- reports.c ---- */

/* Where launches of the graph report; address 0 if the prepared kernel reports nothing. */
vyc_status vyc__graph_report_of(vyc_graph *graph, uint64_t *address_out, vyc_prepared *prepared);
/* To be called when the graph is launched on the stream. */
vyc_status vyc__graph_reports_on(const vyc_graph *graph, uint32_t slot);
void vyc__graph_reports_end(vyc_graph *graph);

/* ---- capture.c ---- */

/* Launch on a stream that others are capturing. The changes were checked. */
vyc_status vyc__graph_capture(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                              const vyc_launch_stream *on);

#endif
