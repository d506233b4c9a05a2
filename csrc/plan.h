/* A plan, its lanes and its graph execs: what the hot path works on.
 *
 * plan  immutable after creation: a function, its block, the template of its parameter block.
 * exec  a one-kernel graph; a patch and a launch are a pair, so an exec is claimed by one atomic
 *       exchange, and who finds it taken launches with cuLaunchKernel instead.
 * lane  one execution with host arguments: stream, pinned slab, device slab, exec. */
#ifndef VYC_PLAN_H
#define VYC_PLAN_H

#include "internal.h"

#define VYC_MAX_PARAMETER_BYTES 4096u
#define VYC_MAX_LANES 64u

typedef struct vyc_exec {
  _Atomic bool claimed;
  bool stale; /* a patch failed: what the driver holds is not what `block` says */
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec handle;
  CUDA_KERNEL_NODE_PARAMS params; /* kernelParams point into block */
  void **pointers;
  uint8_t *block;
} vyc_exec;

typedef struct vyc_result {
  void *to;
  const void *from;
  uint64_t bytes;
} vyc_result;

enum {           /* vyc_lane.state */
  LANE_FREE = 0, /* anybody may claim it */
  LANE_CLAIMED,  /* one thread prepares, waits for or collects it */
  LANE_FLIGHT,   /* submitted; whoever claims it may look whether it has finished */
  LANE_DEAD      /* destroyed, or leaked because completion could not be proven */
};

typedef struct vyc_lane {
  struct vyc_lane *next; /* of the plan; set once */
  _Atomic int state;
  vyc_plan *plan;
  CUstream stream;     /* its own */
  CUevent done;        /* recorded when a run goes on another stream */
  CUevent start, stop; /* around the kernel of a timed run; made on first need */
  bool elsewhere;      /* this run is on another stream: poll `done` */
  vyc_block *pinned, *device;
  vyc_ticket *ticket;
  vyc_exec exec;
  uint32_t result_count;
  vyc_result *results;
  uint8_t *block; /* the parameter block being built */
} vyc_lane;

struct vyc_ticket {
  _Atomic uint32_t references; /* the holder, and the lane until it has finished */
  _Atomic bool done;
  bool abandoned; /* written and read by whoever has claimed the lane */
  vyc_lane *lane;
  vyc_plan *plan; /* the holder's reference; the lane does not need it */
  vyc_error error; /* status VYC_OK or what the run failed with; valid once done */
};

struct vyc_plan {
  vyc_child child;
  vyc_module *module;
  CUfunction function;
  const char *entry; /* interned: outlives the plan */
  uint32_t block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes, parameter_count, binding_count, scalar_count;
  vyc_parameter *parameters;
  vyc_binding *bindings;
  uint64_t tag;
  bool has_report;
  vyc_block *report_block; /* of asynchronous launches */
  _Atomic(vyc_lane *) lanes;
  _Atomic uint32_t lane_count;
  _Atomic(vyc_exec *) execs[VYC_STREAM_SLOTS];
  _Atomic uint8_t launched[VYC_STREAM_SLOTS];
};

/* ---- exec.c ---- */

/* Memory of `pointers` and `block` is the caller's, parameter_count and parameter_bytes long. */
void vyc__exec_init(vyc_exec *exec, const vyc_plan *plan, void **pointers, uint8_t *block);
bool vyc__exec_claim(vyc_exec *exec);
void vyc__exec_unclaim(vyc_exec *exec);
/* Patch what changed and launch; the caller holds the claim. */
vyc_status vyc__exec_launch(vyc_exec *exec, const vyc_plan *plan, const uint8_t *block,
                            const uint32_t grid[3], CUstream stream);
void vyc__exec_destroy(vyc_exec *exec, const vyc_driver *driver);
/* cuLaunchKernel with the same block. */
vyc_status vyc__launch_once(const vyc_plan *plan, const uint8_t *block, const uint32_t grid[3],
                            CUstream stream);

/* ---- plan.c ---- */

bool vyc__is_plan(const vyc_child *child);

vyc_status vyc__run_check(const vyc_plan *plan, const vyc_run *run);
/* Write the parameter block: `addresses` has one entry per binding. */
void vyc__block_write(const vyc_plan *plan, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, uint64_t report);
static inline bool vyc__needs_clear(const vyc_plan *plan, uint32_t binding, const vyc_run *run) {
  const vyc_binding *b = &plan->bindings[binding];
  if (b->role != VYC_ROLE_OUT) return false;
  return !((b->flags & VYC_BINDING_COVERED) != 0 &&
           (uint64_t)run->grid[0] * plan->block[0] >= run->arguments[binding].count);
}
static inline bool vyc__grid_is_empty(const uint32_t grid[3]) {
  return grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}
uint64_t *vyc__report_cell(const vyc_block *block);

/* ---- lane.c ---- */

vyc_status vyc__lane_take(vyc_plan *plan, vyc_lane **lane_out);
vyc_status vyc__lane_submit(vyc_lane *lane, const vyc_run *run);
/* The caller has claimed the lane. Negative timeout: none. VYC_NOT_READY when it ran out. */
vyc_status vyc__lane_wait(vyc_lane *lane, int64_t timeout_ns);
/* After completion: results to their place, the lane free again; returns the run's status. */
vyc_status vyc__lane_collect(vyc_lane *lane, vyc_status status, vyc_timing *timing_out);
void vyc__lane_destroy(vyc_lane *lane);
vyc_status vyc__ticket_make(vyc_lane *lane, vyc_ticket **ticket_out);
void vyc__ticket_settle(vyc_lane *lane, vyc_status status);

#endif
