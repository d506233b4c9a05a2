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

/* A range of bytes in one piece of memory, or of addresses. */
typedef struct vyc_extent {
  uint64_t begin, end;
} vyc_extent;

/* What a symbol stands for. */
typedef struct vyc_meaning {
  vyc_symbol_value value;
  vyc_extent extent; /* room for a comparison: of any symbol */
  bool is_set;
  bool is_given; /* by the current call */
} vyc_meaning;

struct vyc_bundled_kernel {
  vyc_prepared *prepared;
  vyc_prepared *many, *clearing, *many_clearing; /* as in vyc_bundled_kernel_many */
  vyc_bundle *bundle;
  const vyc_disk_kernel *row;
  const vyc_disk_parameter *parameters;
  vyc_bundled_kernel_info info;
  uint32_t buffers, scalars;
};

/* Steps, and the graph that is made of them. */
typedef struct vyc_replay_form {
  uint32_t begin, end; /* its steps */
  uint32_t *numbers;   /* of each step in the graph, once it is made; some have none, and of
                          launches as one those without blocks have UINT32_MAX */
  uint32_t *settable;  /* the number of each symbol in the graph; UINT32_MAX: it has none */
  _Atomic(vyc_graph *) graph;
  _Atomic bool is_outdated; /* its base is not what symbols stand for; changes with the version */
} vyc_replay_form;

#define VYC_NO_CLUSTER UINT32_MAX

/* Arrays that shared memory when steps were merged, directly or by way of others. */
typedef struct vyc_cluster {
  vyc_extent then; /* in their memory */
  uint64_t moved;  /* to where it is, of a fixed one: it has an array that is no symbol */
  uint32_t first;  /* of its conditions */
  bool is_fixed;
} vyc_cluster;

struct vyc_replay {
  vyc_bundle *bundle;
  vyc_context *context;
  const vyc_disk_graph *row;
  vyc_bundled_kernel **kernels; /* by their number in the bundle; NULL: not in this graph */
  vyc_prepared **entries;       /* likewise, of many launches as one */
  vyc_prepared *clearing, *many_clearing;
  uint32_t kernel_count;
  vyc_buffer **arrays;
  pthread_mutex_t lock;
  vyc_meaning *meanings; /* of each symbol */
  bool *decides;         /* likewise: whether the form depends on it */
  _Atomic(vyc_meaning *) room; /* of a launch with many symbols */
  /* The second form runs where a condition does not hold for what symbols stand for. `ready`: the
   * one that runs with what they stand for by themselves, once it is made and not outdated. */
  vyc_replay_form forms[2];
  uint32_t form_count;
  _Atomic(vyc_replay_form *) ready;
  const vyc_disk_condition *conditions;
  uint32_t condition_count;
  vyc_cluster *clusters;
  uint32_t cluster_count;
  uint32_t *cluster_of; /* of each condition; VYC_NO_CLUSTER: a scalar, or it has no elements */
  vyc_extent *fixed; /* where the fixed ones are, in order */
  uint32_t fixed_count;
  _Atomic bool is_complete; /* every symbol has a value of its own */
  vyc_claim claim; /* for a thread that sets symbols or builds a graph */
  /* The version of what symbols stand for, both in `meanings` and in the base of the graphs: odd
   * while a thread changes these, which it starts before it claims a graph. */
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

typedef struct vyc_compiler_log {
  char *text;
  size_t bytes;
} vyc_compiler_log;

/* Kernel `index`, whatever it is. */
vyc_status vyc__bundled_load(vyc_bundled_kernel **kernel_out, vyc_compiler_log log,
                             vyc_context *context, vyc_bundle *bundle, uint32_t index,
                             uint64_t tag);
/* The entry of a worker: its parameters have the names of the worker's kernels, the last one of
 * which clears results. */
vyc_status vyc__bundled_entry_load(vyc_bundled_kernel **entry_out, vyc_context *context,
                                   vyc_bundle *bundle, const char *name);
uint32_t vyc__bundled_variant(const vyc_bundled_kernel *kernel);
uint32_t vyc__bundled_parameters(const vyc_bundled_kernel *kernel);
const char *vyc__bundled_parameter(const vyc_bundled_kernel *kernel, uint32_t index);
/* The name that the entry has in the code of its variant. */
const char *vyc__bundled_code_entry(const vyc_bundled_kernel *kernel);
vyc_prepared *vyc__bundled_borrow(const vyc_bundled_kernel *kernel);
/* The grid of a run whose arguments have the sizes that the kernel declares. */
vyc_status vyc__bundled_resolve(const vyc_bundled_kernel *kernel, uint32_t grid[3],
                                const vyc_run *run);

/* ---- kernel_rows.c ---- */

vyc_status vyc__rows_entry_prepare(vyc_bundled_kernel *entry, vyc_module *module,
                                   const vyc_disk_variant *v, uint64_t tag);
/* The entry `index` for many launches as one; `kernels` has its kernels, by their numbers. */
vyc_status vyc__rows_entry_load(vyc_prepared **entry_out, vyc_context *context, vyc_bundle *bundle,
                                uint32_t index, vyc_bundled_kernel *const *kernels);
/* The kernel that clears outs and its entry, if the bundle has both. */
vyc_status vyc__rows_clearing_load(vyc_prepared **clearing_out, vyc_prepared **many_clearing_out,
                                   vyc_context *context, vyc_bundle *bundle);
/* What a loaded kernel has for many launches as one. */
vyc_status vyc__bundled_load_many(vyc_bundled_kernel *kernel, vyc_context *context);

/* ---- replay_bind.c ---- */

static inline const vyc_disk_graph_step *vyc__replay_step(const vyc_replay *replay,
                                                          uint32_t index) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_STEPS, replay->row->steps.first + index,
                         sizeof(vyc_disk_graph_step));
}
static inline const vyc_bundle_value *vyc__replay_values(const vyc_replay *replay,
                                                         const vyc_disk_graph_step *step) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_VALUES, step->values.first,
                         sizeof(vyc_bundle_value));
}
static inline const vyc_disk_symbol *vyc__replay_symbol(const vyc_replay *replay, uint32_t index) {
  return vyc__bundle_row(replay->bundle, VYC_SECTION_GRAPH_SYMBOLS,
                         replay->row->symbols.first + index, sizeof(vyc_disk_symbol));
}

/* The number behind this step, where launches as one are one step. */
uint32_t vyc__replay_behind(const vyc_replay *replay, uint32_t step);
/* Whether a value of the step comes from a symbol, from a given one, and whether all of its symbols
 * have values. */
bool vyc__replay_has_symbols(const vyc_replay *replay, uint32_t step);
bool vyc__replay_uses_given(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step);
bool vyc__replay_is_complete(const vyc_replay *replay, const vyc_meaning *meanings, uint32_t step);
/* Every symbol has one. */
static inline bool vyc__replay_has_all(const vyc_replay *replay, const vyc_meaning *meanings) {
  for (uint32_t i = 0; i < replay->row->symbols.count; i++)
    if (!meanings[i].is_set) return false;
  return true;
}
/* Fill in a launch, a copy, a fill, or the arrays of launches as one. */
vyc_status vyc__replay_bind(const vyc_replay *replay, vyc_bound *bound, const vyc_meaning *meanings,
                            uint32_t step);

/* ---- replay_build.c ---- */

/* The whole graph of a form, whose numbers are written too. */
vyc_status vyc__replay_build(vyc_replay *replay, vyc_replay_form *form, vyc_graph **graph_out,
                             const vyc_meaning *meanings);

/* ---- replay_forms.c ---- */

vyc_status vyc__replay_find_forms(vyc_replay *replay);
/* The form that runs where symbols stand for these; all have values. It uses the room in them. */
vyc_replay_form *vyc__replay_choose(vyc_replay *replay, vyc_meaning *meanings);

/* ---- replay_sharing.c ---- */

/* Whether a symbol stands for the array, or a part of it, by itself. */
bool vyc__replay_is_default(const vyc_replay *replay, uint32_t array);
/* What shared memory when steps were merged; the graph has its forms and its arrays. */
vyc_status vyc__replay_find_clusters(vyc_replay *replay);
/* Whether symbols that have as many elements as then share memory in the same way; as above. */
bool vyc__replay_shares_alike(const vyc_replay *replay, vyc_meaning *meanings);

/* ---- replay_symbols.c ---- */

/* Give the graph the symbols that it can set. */
vyc_status vyc__replay_add_symbols(vyc_replay *replay, const vyc_replay_form *form,
                                   vyc_graph *graph);
/* Launch, if a graph can set all of these values by itself; else *done_out is false. */
vyc_status vyc__replay_launch_set(vyc_replay *replay, const vyc_symbol_value *values,
                                  uint32_t count, vyc_stream *stream, bool *done_out);

#endif
