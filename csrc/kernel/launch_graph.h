/* One-kernel graphs: a patch and a launch are a pair, so one is claimed for both, and a launch that
 * finds it taken goes by cuLaunchKernel instead. */
#ifndef VYC_KERNEL_LAUNCH_GRAPH_H
#define VYC_KERNEL_LAUNCH_GRAPH_H

#include "memory/room.h"

/* How many a context keeps: one takes 112 KiB of device memory (H200), so all take 56 MiB. Further
 * launches are plain ones, until some launch graph has not been launched for this many of them, nor
 * for as long as what is launched now; then the one not launched for longest makes room. */
#define VYC_LAUNCH_GRAPH_BUDGET 512u

typedef struct vyc_launch_graph {
  vyc_claim claim; /* first: its address is that of the launch graph, which launches have at hand */
  struct vyc_launch_graph *next,
      *previous; /* of the context, while it counts as one of the budget */
  _Atomic uint32_t stamp; /* context->launch_graph_clock at the latest launch */
  bool counted;
  uint64_t flag; /* address of a word that the graph sets to 1 after the kernel; 0: none */
  bool stale; /* what the driver holds is not what `block` and the grid of `params` say */
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec handle;
  CUDA_KERNEL_NODE_PARAMS params; /* kernelParams point into block */
  void **pointers;
  uint8_t *block;
  bool launched; /* of a prepared kernel's: once, without a graph */
} vyc_launch_graph;

/* A context with its memory and its kernels. */
typedef struct vyc_kernel_context {
  vyc_memory_context memory;
  pthread_mutex_t launch_graphs_lock;
  vyc_launch_graph *launch_graphs; /* those of the budget; the lock guards them and their number */
  uint32_t launch_graph_count;
} vyc_kernel_context;

void vyc__kernels_begin(vyc_context *context);
void vyc__kernels_end(vyc_context *context);

/* Memory of `pointers` and `block` is the caller's, parameter_count and block_bytes long. */
void vyc__launch_graph_init(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                            void **pointers, uint8_t *block);
static inline bool vyc__launch_graph_claim(vyc_launch_graph *launch_graph) {
  return vyc__claim_try(&launch_graph->claim);
}
/* Claim it however long its holder needs, which is a launch. */
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
static inline void vyc__launch_graph_set_grid(vyc_launch_graph *launch_graph,
                                              const uint32_t grid[3]) {
  CUDA_KERNEL_NODE_PARAMS *params = &launch_graph->params;
  if (VYC_LIKELY(params->gridDimX == grid[0] && params->gridDimY == grid[1] &&
                 params->gridDimZ == grid[2]))
    return;
  params->gridDimX = grid[0];
  params->gridDimY = grid[1];
  params->gridDimZ = grid[2];
  launch_graph->stale = true;
}
/* Patch what is stale and launch; the caller holds the claim. A plain launch when the context has
 * too many launch graphs: `handle` is NULL then, and no flag is set. */
vyc_status vyc__launch_graph_relaunch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                      CUstream stream);
/* The same with the block and the grid given. */
vyc_status vyc__launch_graph_launch(vyc_launch_graph *launch_graph, const vyc_prepared *prepared,
                                    const uint8_t *block, const uint32_t grid[3], CUstream stream);
/* The same as a plain launch, whatever the launch graph has. */
vyc_status vyc__launch_graph_launch_once(vyc_launch_graph *launch_graph,
                                         const vyc_prepared *prepared, const uint8_t *block,
                                         const uint32_t grid[3], CUstream stream);
/* Nobody launches it any more. */
void vyc__launch_graph_destroy(vyc_launch_graph *launch_graph, vyc_context *context);
/* cuLaunchKernel, which has read the parameters when it returns. */
vyc_status vyc__launch_once(const vyc_prepared *prepared, void **pointers, const uint32_t grid[3],
                            CUstream stream);

#endif
