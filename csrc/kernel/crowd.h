/* Launches of several threads at the same time.
 *
 * A driver serves the calls of several threads one after the other, so that each takes as many
 * times longer: then one call for a launch is better than two, to patch a graph and to launch it.
 * Requests of a copy, a launch, a copy and a wait take, on an H200, 10.7 us with a graph and 14.1
 * without where one thread makes them, and 32.9 and 27.5 where eight do; with a word that the graph
 * sets at its end, 45 (benchmarks/bench_service.py). */
#ifndef VYC_KERNEL_CROWD_H
#define VYC_KERNEL_CROWD_H

#include "launch_graph.h"

typedef struct vyc_crowd {
  bool counted; /* among those that are inside */
  bool others;  /* are inside */
} vyc_crowd;

/* Before a launch whose graph is stale. The first thread to come is not counted: alone, it only
 * reads who came last. */
static inline vyc_crowd vyc__crowd_enter(vyc_context *context) {
  vyc_kernel_context *const kernels = (vyc_kernel_context *)context;
  const uintptr_t me = vyc__thread_pointer();
  if (VYC_LIKELY(atomic_load_explicit(&kernels->changer, memory_order_relaxed) == me))
    return (vyc_crowd){false, false};
  atomic_store_explicit(&kernels->changer, me, memory_order_relaxed);
  return (vyc_crowd){true,
                     atomic_fetch_add_explicit(&kernels->changers, 1, memory_order_relaxed) != 0};
}

static inline void vyc__crowd_leave(vyc_context *context, vyc_crowd crowd) {
  if (VYC_UNLIKELY(crowd.counted))
    atomic_fetch_sub_explicit(&((vyc_kernel_context *)context)->changers, 1, memory_order_relaxed);
}

#endif
