/* A bound call, and what its two kinds of launches share: as it is, and with other arguments. */
#ifndef VYC_BOUND_CALL_H
#define VYC_BOUND_CALL_H

#include "launch.h"

/* A bound argument in a third of the size of a vyc_argument. */
typedef struct vyc_bound {
  vyc_buffer *buffer; /* held */
  uint64_t offset, count;
} vyc_bound;

typedef CUresult (*vyc_launcher)(CUgraphExec, CUstream);

struct vyc_call {
  vyc_child child;
  /* What a steady launch reads and writes, in few cache lines: the driver's own launch leaves none
   * of them in the first-level cache. Guarded by the claim of `launch_graph`, except what never
   * changes: slot, ring, target, launch, noted. */
  _Atomic bool steady; /* a launch only has to launch the graph, while the marks are unchanged */
  uint32_t marks_seen; /* vyc__marks_taken at a time when every buffer had the mark */
  uint32_t slot, ring; /* of the stream */
  CUstream target; /* the stream's handle */
  vyc_launcher launch; /* cuGraphLaunch */
  const vyc_name *noted; /* the prepared kernel's */
  _Atomic uint64_t launches; /* those that are not counted yet */
  vyc_launch_graph launch_graph;
  vyc_prepared *prepared;
  vyc_stream *stream; /* NULL: the context's own */
  vyc_run run; /* owns the arrays it points to */
  vyc_bound *bound;
  vyc_argument *arguments; /* the contents of `bound`, for launches on the slow path */
  uint64_t *scalars;
  uint64_t barrier; /* its address in the parameter block */
};

/* The claim is a barrier: what is needed after it is read before it. */
static inline void vyc__call_prefetch(const vyc_call *call) {
  vyc_history *history = &call->child.context->history;
  const uint32_t at = atomic_load_explicit(&history->next[call->ring], memory_order_relaxed);
  __builtin_prefetch(&call->launch_graph.claim, 1);
  __builtin_prefetch(vyc__entry_of(history, call->ring, at), 1);
}

/* In a forked child a claim may be held forever, so that is checked first. */
static inline bool vyc__call_may_be_steady(const vyc_call *call) {
  return VYC_LIKELY(atomic_load_explicit(&call->steady, memory_order_relaxed) &&
                    !vyc__is_forked(call->child.context));
}

/* The caller has claimed the launch graph, of a call that may be steady. A close sets `closed` and
 * then reads the claims, and here the claim comes first: one of the two sees the other, so the call
 * need not be counted as inside. */
static inline bool vyc__call_is_steady(const vyc_call *call, const vyc_context *context) {
  return VYC_LIKELY(atomic_load_explicit(&call->steady, memory_order_relaxed) &&
                    call->launch_graph.handle != NULL && vyc__is_open(context));
}

/* The context need not be current to launch a graph (observed with drivers of CUDA 13). */
static inline CUresult vyc__call_graph(vyc_call *call, vyc_context *context, uint32_t origin) {
  vyc__launch_graph_stamp(&call->launch_graph, context);
  vyc__note_in(&context->history, call->ring, call->noted, origin, call->launch_graph.block);
  atomic_store_explicit(&call->launches,
                        atomic_load_explicit(&call->launches, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  return call->launch(call->launch_graph.handle, call->target);
}

/* Handles the result of a launch without a current context: if the driver needs one, the launch is
 * repeated with it. */
vyc_status vyc__call_launched(vyc_call *call, CUresult result, uint32_t origin);
/* A mark may have been taken during a steady launch; the caller still has the claim. */
__attribute__((cold)) vyc_status vyc__call_mark_again(vyc_call *call);
/* Bind what `run` has, on the slow path, and launch. */
vyc_status vyc__call_change(vyc_call *call, const vyc_run *run, bool launches);

#endif
