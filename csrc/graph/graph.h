/* A recorded graph: its steps, the order that they must keep, and the nodes made of them.
 *
 * step   what was recorded: a launch, a copy, a fill, collectives, or a repetition of the steps
 * that follow node   what the driver has: a repeated step has several, an empty one none order from
 * the byte ranges that nodes read and write to the edges between them A thread that changes or
 * launches a graph claims it for that long. */
#ifndef VYC_GRAPH_GRAPH_H
#define VYC_GRAPH_GRAPH_H

#include "step.h"

#define VYC_MOST_NODES UINT64_C(262144) /* of a graph */

enum { /* vyc_node.role; other values: the number of the binding that it clears */
       NODE_LAUNCH = VYC_MAX_BINDINGS,
       NODE_TRANSFER,
       NODE_BARRIER, /* clears the state of a grid barrier */
       NODE_COLLECTIVES, /* as many as NCCL makes; what is behind them follows their ends */
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
  uint32_t first_end, end_count; /* of COLLECTIVES: in graph->ends */
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

/* The communicators whose collectives a graph has. */
typedef struct vyc_graph_communicators vyc_graph_communicators;

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
  uint32_t own_count, own_room;
  vyc_buffer **own; /* memory of the graph alone; in a captured graph what stands for it */
  bool own_watched; /* by the emulator */
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
  uint32_t end_count, end_room;
  CUgraphNode *ends;
  vyc_graph_communicators *communicators; /* NULL: there are no collectives */
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
  vyc_graph *captures; /* copies in other libraries' graphs that do not hold them; a list */
  vyc_hold *hold; /* of a copy whose nodes are in another library's graph, which holds it */
  vyc_name *called; /* describes its contents */
  const vyc_name *noted; /* see vyc__noted_as */
};

/* Return memory that launches of the graph have used. */
static inline void vyc__graph_give(const vyc_graph *graph, vyc_block *block) {
  vyc_context *context = graph->child.context;
  vyc__pool_give_used(context, vyc__device_pool(context), block, atomic_load(&graph->used.near),
                      &graph->used.far);
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

/* Where nodes go that become part of another library's graph. */
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

/* ---- executable.c ---- */

/* Builds nodes, edges and the executable graph of the current values; none is left on failure. */
vyc_status vyc__graph_build(vyc_graph *graph);
/* Makes graph->exec of graph->graph. */
vyc_status vyc__graph_instantiate(vyc_graph *graph);
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
/* Add a step as it is. */
vyc_status vyc__add_step(vyc_graph *graph, uint32_t *step_out, const vyc_step *step);
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

/* Sort them, each once, and return how many there are. */
uint32_t vyc__buffers_once(vyc_buffer **buffers, uint32_t count);
/* Room for so many; the accesses are for the caller to fill in, and it has no buffers yet. */
vyc_status vyc__row_memory_new(vyc_row_memory **rows_out, uint32_t accesses, uint32_t buffers);
/* A copy, with holds on the buffers. */
vyc_status vyc__row_memory_copy(vyc_row_memory **copy_out, const vyc_row_memory *rows);
void vyc__row_memory_drop(vyc_row_memory *rows);
/* Whether arrays in the places of a step are apart from what its rows have by themselves, as far as
 * one of the two is written; those that the base has are. */
vyc_status vyc__row_memory_check(const vyc_step *step, const vyc_run *run);

/* ---- rows.c ---- */

/* Add a step for rows that need no clears. */
vyc_status vyc__add_table(vyc_graph *graph, vyc_prepared *entry, const vyc_own_rows *own);

/* ---- own.c ---- */

/* The number of the buffer among those of the graph alone; VYC_NONE: it is not one of them. */
uint32_t vyc__own_place(const vyc_graph *graph, const vyc_buffer *buffer);
void vyc__own_drop(vyc_graph *graph);
/* Give `copy` memory of its own. */
vyc_status vyc__own_copy(vyc_graph *copy, const vyc_graph *graph);
/* What stands in `copy` for a buffer of `graph`, which may be the buffer itself. */
vyc_buffer *vyc__own_instead(const vyc_graph *copy, const vyc_graph *graph, vyc_buffer *buffer);
/* Whether some of these rows use memory of the graph alone. */
bool vyc__rows_use_own(const vyc_graph *graph, uint32_t kernels, const vyc_rows *const *rows);
/* A copy of the rows of these kernels. */
vyc_status vyc__own_rows_keep(vyc_own_rows **kept_out, uint32_t kernels,
                              vyc_prepared *const *prepared, const vyc_rows *const *rows,
                              const uint8_t *const *places);
/* A copy with what stands in `copy` for memory of `graph` alone. */
vyc_status vyc__own_rows_move(const vyc_graph *copy, const vyc_graph *graph,
                              vyc_own_rows **moved_out, const vyc_own_rows *rows);
void vyc__own_rows_drop(vyc_own_rows *kept);

/* ---- symbols.c ---- */

/* Make the values the targets of their steps, which get into graph->away. */
vyc_status vyc__symbols_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count);
/* The targets as changes in the order of steps. The caller frees *changes_out. */
vyc_status vyc__targets_as_changes(const vyc_graph *graph, vyc_graph_change **changes_out,
                                   uint32_t *count_out);
void vyc__symbols_free(vyc_graph *graph);

/* ---- changes.c ---- */

vyc_status vyc__changes_check(const vyc_graph *graph, const vyc_graph_change *changes,
                              uint32_t count);
/* What is given becomes the target of its steps, which get into graph->away. */
vyc_status vyc__targets_set(vyc_graph *graph, const vyc_given *given);
/* The targets were reached, or given up: keep those in graph->away that may differ from their base.
 */
void vyc__changed_keep(vyc_graph *graph);

/* ---- launch.c ---- */

/* The state of a launch; a thread may make several at once. The caller has claimed the graph. */
typedef struct vyc_launching {
  vyc_graph *graph;
  vyc_given given;
  vyc_stream *stream; /* as the caller names it */
  vyc_launch_stream on;
  uint32_t taken; /* marks, before the launch */
  bool marked; /* its buffers had all of theirs */
  bool renewed; /* the graph was, before the stream was ordered behind its launches */
  bool launched; /* the driver has it */
} vyc_launching;
/* Everything but the driver's launch and what must follow that. */
vyc_status vyc__graph_launch_prepare(vyc_launching *l);
vyc_status vyc__graph_launch_submit(vyc_launching *l, uint32_t origin);
vyc_status vyc__graph_launch_finish(vyc_launching *l);
/* It was prepared, and is not submitted. */
void vyc__graph_launch_abandon(const vyc_launching *l);

/* The step has a target: the executable graph may not have its base after this. */
static inline void vyc__list_away(vyc_graph *graph, uint32_t number) {
  if (graph->steps[number].away) return;
  graph->steps[number].away = true;
  graph->away[graph->away_count++] = number;
}

/* ---- collectives.c: of a graph that has some ---- */

/* Communicators do not end it any more. */
void vyc__communicators_leave(vyc_graph *graph);
void vyc__communicators_free(vyc_graph *graph);
/* Whether it can be launched now. */
vyc_status vyc__graph_may_communicate(const vyc_graph *graph);
/* Right before it is launched on the stream, and, if that has not failed, right after: what a
 * communicator that ended meanwhile says. */
vyc_status vyc__graph_communicates(vyc_graph *graph, CUstream stream);
vyc_status vyc__graph_communicated(vyc_graph *graph, CUstream stream, bool is_launched);
/* It was launched, and others that its collectives wait for were not: its communicators end. */
void vyc__graph_give_up(const vyc_graph *graph, const char *message);
/* Why it is not launched. */
vyc_status vyc__graph_made_once(void);
vyc_status vyc__graph_never_captured(void);

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
