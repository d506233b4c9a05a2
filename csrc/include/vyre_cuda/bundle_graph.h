/* Graphs of bundles: recorded work with names for what changes.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_BUNDLE_GRAPH_H
#define VYRE_CUDA_BUNDLE_GRAPH_H

#include "bundle.h"
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bundled graphs: recorded work with names for what changes ------------------------------ */

typedef struct vyc_replay vyc_replay;

typedef struct vyc_bundle_graph {
  uint32_t struct_size;
  uint32_t symbol_count;
  const char *name; /* unique among the graphs of the bundle */
  uint32_t step_count;
  uint32_t array_count;
  uint32_t condition_count; /* see vyc_bundle_condition */
  uint32_t reserved;
} vyc_bundle_graph;

/* Graph `index`, in the order of their names. VYC_E_INVALID after the last. */
VYC_API vyc_status vyc_bundle_graph_get(vyc_bundle *bundle, vyc_bundle_graph *graph_out,
                                        uint32_t index);
/* The number of a graph. VYC_E_INVALID: none has this name; the message lists those that exist. */
VYC_API vyc_status vyc_bundle_graph_find(vyc_bundle *bundle, uint32_t *index_out, const char *name);

enum { /* vyc_bundle_symbol.flags */
       VYC_SYMBOL_HAS_DEFAULT = 1u, /* otherwise each launch must provide it, or an earlier set */
       VYC_SYMBOL_WRITTEN = 2u /* an array that a step writes */
};

typedef struct vyc_bundle_symbol {
  uint32_t struct_size;
  uint32_t kind; /* VYC_SYMBOL_... */
  const char *name;
  uint32_t type; /* VYC_TYPE_... of the elements, or of the scalar */
  uint32_t element_bytes;
  uint32_t flags;
  uint32_t array; /* of an array with a default: the graph's array that holds it, */
  uint64_t value; /* from this byte on; of a scalar with a default: its bits */
  uint64_t count; /* of an array with a default: elements */
} vyc_bundle_symbol;

/* Symbol `index` of a graph, in the order of their names. VYC_E_INVALID: no such graph or symbol.
 */
VYC_API vyc_status vyc_bundle_symbol_get(vyc_bundle *bundle, vyc_bundle_symbol *symbol_out,
                                         uint32_t graph, uint32_t index);
/* The number of a symbol. VYC_E_INVALID: the graph has none of this name; the message lists those
 * that exist. */
VYC_API vyc_status vyc_bundle_symbol_find(vyc_bundle *bundle, uint32_t *index_out, uint32_t graph,
                                          const char *name);

/* Memory that belongs to a graph. */
typedef struct vyc_bundle_array {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t bytes;
  const void *contents; /* all of it; NULL: zeros */
} vyc_bundle_array;

/* Array `index` of a graph. VYC_E_INVALID: no such graph or array. */
VYC_API vyc_status vyc_bundle_array_get(vyc_bundle *bundle, vyc_bundle_array *array_out,
                                        uint32_t graph, uint32_t index);

enum { /* vyc_bundle_step.kind */
       VYC_STEP_LAUNCH = 1, /* a value for each parameter of the kernel, in declared order */
       VYC_STEP_COPY = 2, /* to, from */
       VYC_STEP_FILL = 3, /* to, the element */
       VYC_STEP_REPEAT = 4, /* the array that ends the loop, or no value */
       VYC_STEP_END = 5, /* of the innermost repeat, or of the launches as one */
       /* The launches up to the end are one, of the entry `kernel`. Its values are the symbols that
        * these launches have as arrays, one for each array of the entry. */
       VYC_STEP_ROWS = 6,
       /* What follows, to the last step, runs instead of what is before it, where the conditions of
        * the graph do not hold. */
       VYC_STEP_OTHERWISE = 7
};

enum { /* vyc_bundle_value.kind */
       VYC_VALUE_SPAN = 1, /* `count` elements of array `index` from byte `value` on */
       VYC_VALUE_SYMBOL = 2, /* what symbol `index` stands for */
       VYC_VALUE_BITS = 3 /* a scalar */
};

typedef struct vyc_bundle_value {
  uint32_t kind; /* VYC_VALUE_... */
  uint32_t index;
  uint64_t value;
  uint64_t count;
} vyc_bundle_value;

typedef struct vyc_bundle_step {
  uint32_t struct_size;
  uint32_t kind; /* VYC_STEP_... */
  uint32_t kernel; /* of a launch; of launches as one: their entry */
  uint32_t type; /* of the elements, but of a launch: VYC_TYPE_... */
  uint32_t grid[3]; /* of a launch; zeros: by the kernel's work */
  uint32_t value_count;
  uint64_t times; /* of a repeat, as in vyc_graph_repeat_begin */
  const vyc_bundle_value *values;
} vyc_bundle_step;

/* Step `index` of a graph, in the order of recording. VYC_E_INVALID: no such graph or step. */
VYC_API vyc_status vyc_bundle_step_get(vyc_bundle *bundle, vyc_bundle_step *step_out,
                                       uint32_t graph, uint32_t index);

/* What a symbol stood for when steps of the graph were merged. The merged steps run where it still
 * has as many elements, and shares memory with the other arrays in the same way; a scalar, where it
 * has the same bits. */
typedef struct vyc_bundle_condition {
  uint32_t struct_size;
  uint32_t symbol;
  uint32_t memory; /* of an array: a number that is the same for what is in one piece of memory;
                      below the graph's array_count, it is the number of that array */
  uint32_t reserved;
  uint64_t value; /* its first byte there; of a scalar: its bits */
  uint64_t count; /* of an array: elements */
} vyc_bundle_condition;

/* Condition `index` of a graph, in ascending order of their symbols. VYC_E_INVALID: no such graph
 * or condition. */
VYC_API vyc_status vyc_bundle_condition_get(vyc_bundle *bundle, vyc_bundle_condition *condition_out,
                                            uint32_t graph, uint32_t index);

/* A graph of a bundle on a device: its kernels are loaded as by vyc_bundled_kernel_load, and its
 * arrays are allocated and filled. It holds all of them. If every symbol has a default it is
 * instantiated at once, otherwise at the first launch. A graph with conditions has two forms, the
 * second of which is instantiated when it is first needed. Statuses as for vyc_bundled_kernel_load,
 * vyc_buffer_alloc and vyc_graph_finish. */
VYC_API vyc_status vyc_replay_load(vyc_replay **replay_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, vyc_bundle *bundle, const char *name,
                                   uint64_t tag);
/* May be called with launches in flight; waits as vyc_prepared_release. */
VYC_API void vyc_replay_release(vyc_replay *replay);

/* Set symbols for all later launches: all of them, or none on failure. Buffers are held. Arrays may
 * have other numbers of elements: sizes and grids of the launches follow.
 * VYC_E_INVALID: no such symbol, a symbol twice, or an array that does not fit its kernel. */
VYC_API vyc_status vyc_replay_set(vyc_replay *replay, const vyc_symbol_value *values,
                                  uint32_t count);
/* Launch, like vyc_graph_launch, with values that hold for this launch (`values` may be NULL if
 * `count` is 0); if another thread calls vyc_replay_set meanwhile, the other symbols have either
 * all of the old values or all of the new ones. VYC_E_INVALID as above, or a symbol without a
 * default has no value. */
VYC_API vyc_status vyc_replay_launch(vyc_replay *replay, const vyc_symbol_value *values,
                                     uint32_t count, vyc_stream *stream);
/* The current value of a symbol. The buffer of an array is an additional reference, to be released
 * with vyc_buffer_release. VYC_E_INVALID: it has no value. */
VYC_API vyc_status vyc_replay_get(vyc_replay *replay, vyc_symbol_value *value_out, uint32_t symbol);
/* The check that a VYC_E_ASSERT with this graph's tag reports: `kernel` is vyc_error.operation, and
 * `report` is vyc_error.report. VYC_E_INVALID: the graph has no such kernel or site. */
VYC_API vyc_status vyc_replay_site(vyc_replay *replay, vyc_site *site_out, const char *kernel,
                                   uint64_t report);

#ifdef __cplusplus
}
#endif
#endif
