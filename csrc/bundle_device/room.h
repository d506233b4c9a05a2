/* A graph of a bundle on a device: its kernels and arrays, what its symbols stand for, and the
 * graph once it is built.
 *
 * Values are guarded by the lock, under which no other is taken: a thread that needs them copies
 * them, with references to the buffers, and uses the copy. */
#ifndef VYC_BUNDLE_DEVICE_ROOM_H
#define VYC_BUNDLE_DEVICE_ROOM_H

#include <pthread.h>

#include "bundle/room.h"
#include "graph/room.h"

/* What a symbol stands for. */
typedef struct vyc_meaning {
  vyc_symbol_value value;
  bool is_set;
  bool is_given; /* by the current call */
} vyc_meaning;

struct vyc_replay {
  vyc_bundle *bundle;
  vyc_context *context;
  const vyc_disk_graph *row;
  vyc_bundled_kernel **kernels; /* by their number in the bundle; NULL: not in this graph */
  uint32_t kernel_count;
  vyc_buffer **arrays;
  uint32_t *numbers; /* of each step in the graph; an end has none */
  pthread_mutex_t lock;
  vyc_meaning *meanings; /* of each symbol */
  uint32_t *settable;    /* the number of each symbol in the graph; UINT32_MAX: it has none */
  _Atomic(vyc_graph *) graph;
  _Atomic bool is_complete; /* every symbol has a value of its own */
  vyc_claim claim;          /* for a thread that sets symbols or builds the graph */
  /* The version of what symbols stand for, both in `meanings` and in the base of the graph: odd
   * while a thread changes these, which it starts before it claims the graph. */
  _Atomic uint32_t version;
  _Atomic uint32_t launchers; /* threads that want to launch and are held up by setters */
};

/* A step with its values, as the graph takes it. */
typedef struct vyc_bound {
  vyc_run run;
  vyc_graph_transfer transfer;
  vyc_argument *arguments; /* room for VYC_MOST_PARAMETERS each */
  uint64_t *scalars;
} vyc_bound;

/* ---- kernel.c ---- */

/* The entry of a worker: its parameters have the names of the worker's kernels, the last one of
 * which clears results. */
vyc_status vyc__bundled_entry_load(vyc_bundled_kernel **entry_out, vyc_context *context,
                                   vyc_bundle *bundle, const char *name);
uint32_t vyc__bundled_variant(const vyc_bundled_kernel *kernel);
uint32_t vyc__bundled_parameters(const vyc_bundled_kernel *kernel);
const char *vyc__bundled_parameter(const vyc_bundled_kernel *kernel, uint32_t index);
vyc_prepared *vyc__bundled_borrow(const vyc_bundled_kernel *kernel);

/* ---- replay_bind.c ---- */

static inline const vyc_disk_graph_step *vyc__replay_step(const vyc_replay *replay,
                                                          uint32_t index) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_STEPS, replay->row->steps.first + index,
                         sizeof(vyc_disk_graph_step));
}
static inline const vyc_disk_symbol *vyc__replay_symbol(const vyc_replay *replay, uint32_t index) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_SYMBOLS,
                         replay->row->symbols.first + index, sizeof(vyc_disk_symbol));
}

/* Whether a value of the step comes from a given symbol, and whether all of its symbols have
 * values. */
bool vyc__replay_uses_given(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step);
bool vyc__replay_is_complete(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step);
/* Every symbol has one. */
static inline bool vyc__replay_has_all(const vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (!meanings[i].is_set) return false;
  return true;
}
/* Fill in a launch, a copy or a fill. */
vyc_status vyc__replay_bind(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            uint32_t step);
/* The whole graph. */
vyc_status vyc__replay_build(vyc_replay *replay, vyc_graph **graph_out,
                             const vyc_meaning *meanings);

/* ---- replay_symbols.c ---- */

/* Give the graph the symbols that it can set. */
vyc_status vyc__replay_add_symbols(vyc_replay *replay, vyc_graph *graph);
/* Launch, if the graph can set all of these values; else *done_out is false. */
vyc_status vyc__replay_launch_set(vyc_replay *replay, const vyc_symbol_value *values,
                                  uint32_t count, vyc_stream *stream, bool *done_out);

#endif
