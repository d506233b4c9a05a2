/* Graphs: many launches as one.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_GRAPH_H
#define VYRE_CUDA_GRAPH_H

#include "collective.h"
#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graphs: many launches as one ----------------------------------------------------------- */

/* A recording of launches, copies and fills that is launched as a whole. Steps are added, and then
 * vyc_graph_finish makes it launchable; a step that is added after that, or a launch or change
 * before, is VYC_E_INVALID. Where a function returns the number of a step, step_out may be NULL.
 * The result is as if the steps ran one after the other; steps that do not touch the same bytes, or
 * only read them, may run at the same time. */
VYC_API vyc_status vyc_graph_create(vyc_graph **graph_out, vyc_context *context);
/* May be called with launches in flight; an unfinished recording is dropped. */
VYC_API void vyc_graph_release(vyc_graph *graph);

/* This memory is used by the graph alone, and its contents are unspecified at the start of each
 * launch: a captured launch gets memory of its own in its place, which lives as long as the rest of
 * what it uses. The buffer is of vyc_buffer_alloc, and held. VYC_E_INVALID: the graph has steps, or
 * the buffer belongs to it already. */
VYC_API vyc_status vyc_graph_own(vyc_graph *graph, vyc_buffer *buffer);

/* A copy, or a fill if `from` and `from_host` are both NULL. Host memory must be page-locked; it is
 * read or written at every launch. */
typedef struct vyc_graph_transfer {
  uint32_t struct_size;
  uint32_t element_bytes; /* of a fill: 1, 2 or 4 */
  uint32_t value; /* of each element of a fill */
  uint32_t reserved;
  uint64_t bytes;
  vyc_buffer *to; /* or NULL and to_host */
  uint64_t to_offset; /* bytes */
  void *to_host;
  vyc_buffer *from; /* or NULL and from_host */
  uint64_t from_offset; /* bytes */
  const void *from_host;
  vyc_pinned *pinned; /* the host memory's: held. NULL: the caller keeps it as long as the graph */
} vyc_graph_transfer;

/* Add a step and return its number, counted from 0. Arguments of a launch are buffers and its
 * stream is NULL; else as vyc_prepared_launch. The prepared kernel and the buffers are held.
 * Cooperative kernels run one after the other.
 * VYC_E_UNSUPPORTED: a cooperative kernel with more blocks than the device holds at once. */
VYC_API vyc_status vyc_graph_add_launch(vyc_graph *graph, uint32_t *step_out,
                                        vyc_prepared *prepared, const vyc_run *run);
/* Add what vyc_prepared_launch_many would launch on these rows: one step, and before it steps that
 * clear outs, if some must be cleared. *step_out is the number of the last one. The table is in
 * memory that the graph holds, like the kernels and the buffers. These steps cannot be changed.
 * VYC_E_INVALID: as vyc_prepared_launch_many, or `many` is NULL, or the rows have a stream.
 * VYC_E_UNSUPPORTED: the rows have more blocks than one launch can have. */
VYC_API vyc_status vyc_graph_add_rows(vyc_graph *graph, uint32_t *step_out, vyc_prepared *prepared,
                                      vyc_prepared *many, const vyc_rows *rows);
/* The same for rows of up to 16 kernels, which do not depend on each other, as one launch of
 * `entry`. It is another entry of these kernels, which have the same block, and takes what the
 * entry for many launches of one kernel takes (vyc_prepared_launch_many), and then, for each kernel
 * but the last, a scalar of 32 bits: before which row with blocks those of this kernel end. From
 * one row of the table to the next are as many bytes as the kernel with the largest parameter block
 * needs. The elements of `rows` are those of `prepared`. */
VYC_API vyc_status vyc_graph_add_tables(vyc_graph *graph, uint32_t *step_out, vyc_prepared *entry,
                                        uint32_t count, vyc_prepared *const *prepared,
                                        const vyc_rows *const *rows);
/* The same with arrays that symbols and changes can replace. An element of `places`, which may be
 * NULL, has a number for each argument of these rows, in their order: 0 for an array of the row's
 * own, else which of the entry's bindings stands for it. The entry has up to 16 such bindings
 * behind its table, VYC_ROLE_IN, or VYC_ROLE_INOUT for what is written, and where a row would have
 * the address of the array the table has the number. All arguments with one number are the same
 * array, whose elements have the size that the binding has. A launch or a change with another array
 * is refused where that shares memory with another array of the rows, in a place or not, and one of
 * the two is written: the rows run beside each other. A change of this step is a run whose
 * arguments are the arrays in these places, each as large as before; of that run nothing else is
 * used.
 * VYC_E_INVALID too: an array with a number would have to be cleared, or is one of a kernel with
 * VYC_PREPARED_MAY_OVERLAP. */
VYC_API vyc_status vyc_graph_add_tables_with(vyc_graph *graph, uint32_t *step_out,
                                             vyc_prepared *entry, uint32_t count,
                                             vyc_prepared *const *prepared,
                                             const vyc_rows *const *rows,
                                             const uint8_t *const *places);
/* Add a copy or a fill and return its number; its buffers and `pinned` are held. The ranges of a
 * copy may not overlap. */
VYC_API vyc_status vyc_graph_add_transfer(vyc_graph *graph, uint32_t *step_out,
                                          const vyc_graph_transfer *transfer);
/* Collectives that begin together, as between vyc_collectives_begin and _end, as one step; their
 * streams are NULL. The communicator and the buffers are held. All ranks must record the same ones,
 * and call vyc_graph_finish and launch their graphs in the same order: each from a thread of its
 * own, as NCCL may keep a call until the others make theirs, but launches of one process by
 * vyc_graph_launch_together. They run one after the other. Such a graph is made once: a launch
 * whose changes need other nodes or edges, and one on a stream that is being captured, give
 * VYC_E_INVALID, as do launches after vyc_communicator_close. VYC_E_INVALID too: inside a
 * repetition. VYC_E_UNSUPPORTED: a driver before 12.3. */
VYC_API vyc_status vyc_graph_add_collectives(vyc_graph *graph, uint32_t *step_out,
                                             vyc_communicator *communicator, uint32_t count,
                                             const vyc_collective *collectives);
/* Begin and end a repetition of the steps in between, which may contain repetitions. With `until`
 * NULL: `times` times, which may be 0. Otherwise, after each pass the device looks at the integer
 * of until_bytes (1, 2, 4 or 8), and stops if it is not 0, or after `times` passes unless that is
 * 0. VYC_E_UNSUPPORTED: `until` with a driver before 12.4. */
VYC_API vyc_status vyc_graph_repeat_begin(vyc_graph *graph, uint32_t *step_out, uint64_t times,
                                          vyc_buffer *until, uint64_t until_offset,
                                          uint32_t until_bytes);
/* The end of the innermost repetition. VYC_E_INVALID: none is open. */
VYC_API vyc_status vyc_graph_repeat_end(vyc_graph *graph);
/* Instantiate. No steps can be added after that. If it fails, steps may be added, and it may be
 * called again. VYC_E_INVALID: a repetition has no end, or the graph is finished.
 * VYC_E_UNSUPPORTED: more than 262144 nodes, of which a driver before 12.4 needs some for each pass
 * of a repetition, or the driver does not take cooperative kernels in graphs or in loops. */
VYC_API vyc_status vyc_graph_finish(vyc_graph *graph);

/* From now on, launches of `graph` and of `of`, and of the graphs with which that runs in turns,
 * run one after the other on any streams, like launches of one graph. To be called before `graph`
 * is launched. VYC_E_INVALID: it was launched, or runs in turns already. */
VYC_API vyc_status vyc_graph_in_turns(vyc_graph *graph, vyc_graph *of);

/* New parameters for a step, of the same kind: a run for a launch, a transfer between the same
 * kinds of memory for a transfer. */
typedef struct vyc_graph_change {
  uint32_t step;
  uint32_t reserved;
  const vyc_run *run; /* one of the two is NULL */
  const vyc_graph_transfer *transfer;
} vyc_graph_change;

/* Change steps, in ascending order, for all later launches: all of them, or none on failure. */
VYC_API vyc_status vyc_graph_update(vyc_graph *graph, const vyc_graph_change *changes,
                                    uint32_t count);
/* Launch, in the order of the stream (NULL: in call order) and after earlier launches of this
 * graph, with changes that hold for this launch. The graph is not instantiated again, unless a
 * change brings a size to or from 0, or needs an order between steps that the graph does not have
 * (with loops, any change that moves memory which steps share). Then the graph is instantiated
 * again, with the branches that are possible now; after 16 such times, it is instantiated in the
 * order of recording, for good. On failure nothing was launched, and the graph can be launched
 * again. Errors in its kernels are reported by the next wait.
 * On an adopted stream that is being captured, the nodes become part of the captured graph, with
 * the values of this launch, and run when that graph runs (see vyc_stream_adopt). What they use is
 * held by that graph, its clones and executable graphs, and launches of these. After the last of
 * them has ended, it is released by the next capture, vyc_context_synchronize, trim, open, close or
 * release, or by a buffer allocation that finds no memory. If the driver does not support this,
 * `graph` holds it, and must live as long. A close releases it in any case. If the launch fails
 * half-way, the capture has ended. VYC_E_UNSUPPORTED: the driver does not say what is being
 * captured. */
VYC_API vyc_status vyc_graph_launch(vyc_graph *graph, const vyc_graph_change *changes,
                                    uint32_t count, vyc_stream *stream);
/* The same, from an origin of vyc_origin_add. */
VYC_API vyc_status vyc_graph_launch_at(vyc_graph *graph, const vyc_graph_change *changes,
                                       uint32_t count, vyc_stream *stream, uint32_t origin);
/* The same between two events of the stream, right before and right after the graph: once both are
 * reached, vyc_event_elapsed returns how long it took. On failure there are no events.
 * VYC_E_INVALID: the stream is being captured. */
VYC_API vyc_status vyc_graph_launch_between(vyc_graph *graph, vyc_event **start_out,
                                            vyc_event **stop_out, const vyc_graph_change *changes,
                                            uint32_t count, vyc_stream *stream, uint32_t origin);

/* Graphs of different devices, each with changes that hold for this launch. */
typedef struct vyc_graph_part {
  uint32_t struct_size;
  uint32_t change_count;
  vyc_graph *graph;
  const vyc_graph_change *changes;
  vyc_stream *stream; /* NULL: call order */
} vyc_graph_part;

/* Launch up to VYC_MOST_TOGETHER graphs, one of each device, each as vyc_graph_launch_at does, by
 * one thread that does not wait although their kernels may wait for each other. If one of them
 * cannot be launched, none is; only if the driver itself refuses a launch, *launched_out says how
 * many others were launched before, and then their communicators are ended. VYC_E_INVALID: a device
 * twice, or a stream that is being captured. */
VYC_API vyc_status vyc_graph_launch_together(const vyc_graph_part *parts, uint32_t count,
                                             uint32_t *launched_out, uint32_t origin);

/* ---- symbols: values of several steps that are set together --------------------------------- */

enum { /* vyc_graph_symbol.kind, vyc_bundle_symbol.kind */
       VYC_SYMBOL_ARRAY = 1,
       VYC_SYMBOL_SCALAR = 2
};

/* Where a step uses a symbol. */
typedef struct vyc_graph_use {
  uint32_t step;
  uint32_t place; /* of a launch: the number of the argument or of the scalar; else 0: what a copy
                     reads, or the value of a fill */
} vyc_graph_use;

typedef struct vyc_graph_symbol {
  uint32_t struct_size;
  uint32_t kind; /* VYC_SYMBOL_... */
  const char *name; /* or NULL */
  uint32_t element_bytes; /* of an array; of a scalar that is the value of a fill */
  uint32_t use_count;
  const vyc_graph_use *uses; /* in ascending order */
} vyc_graph_symbol;

/* A value for a symbol. This struct cannot grow. */
typedef struct vyc_symbol_value {
  uint32_t symbol; /* its number */
  uint32_t reserved;
  uint64_t bits; /* of a scalar */
  vyc_buffer *buffer; /* of an array: */
  uint64_t offset; /* bytes */
  uint64_t count; /* elements */
} vyc_symbol_value;

/* Add a symbol and return its number, counted from 0. Work and sizes of launches do not follow from
 * its values: they stay as they are. VYC_E_INVALID: no such step or place, elements of other sizes,
 * in many launches as one anything but an array with a place, a place twice or of another symbol,
 * or the name is taken. It may also be called after vyc_graph_finish. */
VYC_API vyc_status vyc_graph_add_symbol(vyc_graph *graph, uint32_t *symbol_out,
                                        const vyc_graph_symbol *symbol);
/* VYC_E_INVALID: the graph has no symbol of this name. */
VYC_API vyc_status vyc_graph_find_symbol(vyc_graph *graph, uint32_t *symbol_out, const char *name);
/* Launch as vyc_graph_launch_at, with values of symbols that hold for this launch. It allocates
 * host memory only the first time that a step gets a value. VYC_E_INVALID: no such symbol, one
 * twice, or an array that a step does not take, such as one with another number of elements. */
VYC_API vyc_status vyc_graph_launch_with(vyc_graph *graph, const vyc_symbol_value *values,
                                         uint32_t count, vyc_stream *stream, uint32_t origin);
/* Set values for all later launches: all of them, or none on failure. Buffers are held.
 * VYC_E_INVALID as for vyc_graph_launch_with. */
VYC_API vyc_status vyc_graph_set(vyc_graph *graph, const vyc_symbol_value *values, uint32_t count);

typedef struct vyc_graph_info {
  uint32_t struct_size;
  uint32_t step_count;
  uint32_t node_count;
  uint32_t edge_count;
  uint32_t in_order; /* 1: made in the order of recording, see vyc_graph_launch */
  uint32_t ran_last; /* 1: of the graphs that run in turns, the one that was launched last; 0 before
                      * their first launch */
} vyc_graph_info;

enum { /* vyc_graph_node.kind */
       VYC_NODE_KERNEL = 1,
       VYC_NODE_COPY = 2,
       VYC_NODE_FILL = 3,
       VYC_NODE_CLEAR = 4, /* of an out, before its kernel */
       VYC_NODE_LOOP = 5,
       VYC_NODE_CONTROL = 6, /* a kernel that a loop needs */
       VYC_NODE_COLLECTIVE = 7 /* all that NCCL makes of a step */
};

typedef struct vyc_graph_node {
  uint32_t struct_size;
  uint32_t kind; /* VYC_NODE_... */
  uint32_t step;
  uint32_t parent; /* the loop that it is in, UINT32_MAX: none */
} vyc_graph_node;

/* The size of a graph; nodes and edges are 0 before it is finished. */
VYC_API vyc_status vyc_graph_info_get(vyc_graph *graph, vyc_graph_info *info_out);
/* Node `index` of a finished graph, and up to edge_room of the nodes for which it waits, whose
 * number is *edge_count_out; edges_out may be NULL if edge_room is 0. VYC_E_INVALID: no such node.
 */
VYC_API vyc_status vyc_graph_node_get(vyc_graph *graph, vyc_graph_node *node_out,
                                      uint32_t *edge_count_out, uint32_t *edges_out,
                                      uint32_t edge_room, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
