/* A bound call, and what its two ways of launching share: as it is, and with other arguments. */
#ifndef VYC_BOUND_CALL_H
#define VYC_BOUND_CALL_H

#include "launch.h"

/* What is bound; a vyc_argument takes three times the room. */
typedef struct vyc_bound {
  vyc_buffer *buffer; /* held */
  uint64_t offset, count;
} vyc_bound;

typedef CUresult (*vyc_launcher)(CUgraphExec, CUstream);

struct vyc_call {
  vyc_child child;
  /* What a steady launch reads and writes, in few cache lines: the driver's own launch leaves none
   * of them in the first cache. Guarded by the claim of `launch_graph`, but for what never changes:
   * slot, ring, target, launch, noted. */
  _Atomic bool steady; /* nothing but a launch of the graph is left to do, while the marks stand */
  uint32_t marks_seen; /* vyc__marks_taken when every buffer had the mark */
  uint32_t slot, ring; /* of the stream */
  CUstream target; /* the stream's handle */
  vyc_launcher launch; /* cuGraphLaunch */
  const vyc_name *noted; /* the prepared kernel's */
  _Atomic uint64_t launches; /* that are not counted yet */
  vyc_launch_graph launch_graph;
  vyc_prepared *prepared;
  vyc_stream *stream; /* NULL: the context's own */
  vyc_run run; /* owns the arrays it points to */
  vyc_bound *bound;
  vyc_argument *arguments; /* what `bound` says, where a launch at length needs it */
  uint64_t *scalars;
  uint64_t barrier; /* the address in the block */
};

/* The claim is a barrier: what is needed behind it is asked for before. */
static inline void vyc__call_prefetch(const vyc_call *call) {
  vyc_history *history = &call->child.context->history;
  const uint32_t at = atomic_load_explicit(&history->next[call->ring], memory_order_relaxed);
  __builtin_prefetch(&call->launch_graph.claim, 1);
  __builtin_prefetch(vyc__entry_of(history, call->ring, at), 1);
}

/* In a forked child a claim may be held for ever, so there is a look before it. */
static inline bool vyc__call_may_be_steady(const vyc_call *call) {
  return VYC_LIKELY(atomic_load_explicit(&call->steady, memory_order_relaxed) &&
                    !vyc__is_forked(call->child.context));
}

/* The caller has claimed the launch graph. A close sets `closed` and then looks at the claims, and
 * here the claim comes first: one of both sees the other, and no entry needs to be counted. */
static inline bool vyc__call_is_steady(const vyc_call *call) {
  return VYC_LIKELY(atomic_load_explicit(&call->steady, memory_order_relaxed) &&
                    call->launch_graph.handle != NULL && vyc__is_usable(call->child.context));
}

/* The context need not be current to launch a graph (seen with drivers of CUDA 13). */
static inline CUresult vyc__call_graph(vyc_call *call, vyc_context *context, uint32_t origin) {
  vyc__launch_graph_stamp(&call->launch_graph, context);
  vyc__note_in(&context->history, call->ring, call->noted, origin, call->launch_graph.block);
  atomic_store_explicit(&call->launches,
                        atomic_load_explicit(&call->launches, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  return call->launch(call->launch_graph.handle, call->target);
}

/* What a launch without the context current gave: a driver that wants it gets it. */
vyc_status vyc__call_launched(vyc_call *call, CUresult result, uint32_t origin);
/* A mark may have been taken while a steady launch was given: the caller has the claim still. */
__attribute__((cold)) vyc_status vyc__call_mark_again(vyc_call *call);
/* Bind what `run` has, whatever that takes, and launch. */
vyc_status vyc__call_change(vyc_call *call, const vyc_run *run, bool launches);

#endif
