/* One-kernel graphs: a patch and a launch belong together, so a thread claims the graph for both; a
 * launch that finds it claimed uses cuLaunchKernel instead. */
#ifndef VYC_KERNEL_LAUNCH_GRAPH_H
#define VYC_KERNEL_LAUNCH_GRAPH_H

#include "memory/room.h"

/* The most that a context keeps: each takes 112 KiB of device memory (H200), so all of them take 56
 * MiB. Further launches are plain ones, until a launch graph has been idle for this many launches
 * and for longer than the one launched now; then the one that has been idle longest makes room. */
#define VYC_LAUNCH_GRAPH_BUDGET 512u

/* An entry of a kernel, and its grid: see form.h. */
typedef struct vyc_form {
  CUfunction function;
  uint32_t grid[3];
} vyc_form;

typedef struct vyc_launch_graph {
  vyc_claim claim; /* first, so that its address is that of the launch graph, which launches have at
                      hand */
  struct vyc_launch_graph *next, *previous; /* of the context, while it is counted in the budget */
  _Atomic uint32_t stamp; /* context->launch_graph_clock at the latest launch */
  bool counted;
  uint64_t flag; /* address of a word that the graph sets to 1 after the kernel; 0: none */
  bool stale; /* the driver does not have what `block` and `params` say */
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec handle;
  CUDA_KERNEL_NODE_PARAMS params; /* kernelParams point into block */
  void **pointers;
  uint8_t *block;
  bool launched; /* of a prepared kernel: it has been launched once, without a graph */
  /* Of the latest run that vyc__launch_graph_set_run was given. */
  uint32_t run_flags, run_grid[3];
} vyc_launch_graph;

/* A context with its memory and its kernels. */
typedef struct vyc_kernel_context {
  vyc_memory_context memory;
  pthread_mutex_t launch_graphs_lock;
  vyc_launch_graph *launch_graphs; /* those in the budget; guarded by the lock, with their number */
  uint32_t launch_graph_count;
  uint8_t apart[64]; /* from what other threads read: a cache line */
  _Atomic uintptr_t changer; /* the thread that changed the arguments of a launch last */
  _Atomic uint32_t changers; /* threads that do so now, if another had done so before them */
} vyc_kernel_context;

void vyc__kernels_begin(vyc_context *context);
void vyc__kernels_end(vyc_context *context);

/* The caller owns `pointers` and `block`, of parameter_count entries and block_bytes bytes. */
void vyc__launch_graph_init(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                            void **pointers, uint8_t *block);
static inline bool vyc__launch_graph_claim(vyc_launch_graph *launch_graph) {
  return vyc__claim_try(&launch_graph->claim);
}
/* Claim it, waiting for its holder, which takes as long as a launch. */
static inline void vyc__launch_graph_claim_wait(vyc_launch_graph *launch_graph) {
  vyc__claim_take(&launch_graph->claim);
}
static inline void vyc__launch_graph_unclaim(vyc_launch_graph *launch_graph) {
  vyc__claim_drop(&launch_graph->claim);
}
static inline void vyc__launch_graph_stamp(vyc_launch_graph *launch_graph, vyc_context *context) {
  atomic_store_explicit(&launch_graph->stamp,
                        atomic_load_explicit(&context->launch_graph_clock, memory_order_relaxed),
                        memory_order_relaxed);
}
static inline vyc_form vyc__launch_graph_form(const vyc_launch_graph *launch_graph) {
  const CUDA_KERNEL_NODE_PARAMS *params = &launch_graph->params;
  return (vyc_form){params->func, {params->gridDimX, params->gridDimY, params->gridDimZ}};
}
/* The form of a run that differs from the one before. */
__attribute__((noinline)) void vyc__launch_graph_set_other(vyc_launch_graph *launch_graph,
                                                           const vyc_prepared *prepared,
                                                           const vyc_run *run);
/* Patch what is stale and launch; the caller holds the claim. If the context has too many launch
 * graphs, this is a plain launch: then `handle` is NULL, and no flag is set. */
vyc_status vyc__launch_graph_relaunch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                      CUstream stream);
/* The same with a given block and form. */
vyc_status vyc__launch_graph_launch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                    const uint8_t *block, const vyc_form *form, CUstream stream);
/* The same as a plain launch, whatever the launch graph contains. */
vyc_status vyc__launch_graph_launch_once(vyc_launch_graph *launch_graph,
                                         const vyc_prepared *prepared, const uint8_t *block,
                                         const vyc_form *form, CUstream stream);
/* To be called when it is not launched any more. */
void vyc__launch_graph_destroy(vyc_launch_graph *launch_graph, vyc_context *context);
/* cuLaunchKernel, which has read the parameters when it returns. */
vyc_status vyc__launch_once(const vyc_prepared *prepared, void **pointers, const vyc_form *form,
                            CUstream stream);

#endif
