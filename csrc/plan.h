/* A plan, its lanes and its graph execs: what the hot path works on.
 *
 * plan  immutable after creation: a function, its block, the template of its parameter block.
 * exec  a one-kernel graph; a patch and a launch are a pair, so an exec is claimed (claim.h), and a
 *       launch that finds it taken goes by cuLaunchKernel instead.
 * lane  one execution with host arguments: stream, pinned slab, device slab, exec. */
#ifndef VYC_PLAN_H
#define VYC_PLAN_H

#include <string.h>

#include "memory/room.h"

#define VYC_MAX_PARAMETER_BYTES 32764u /* from PTX 8.1 on; the driver checks the lower limit */
#define VYC_MAX_LANES 64u

/* When a kernel uses host memory in place (mapped) that it does not stream through: while the
 * sectors that it loads or stores, each a transfer of its own of 1 to 2 ns, cost less than the copy
 * that they save: 0.6 us and 0.03 ns a byte to the device, 2 us and more from there. Measured on an
 * H200 with benchmarks/probes/transports.c; the same figures show that small inputs in the
 * parameter block would save 0.5 us at best, and cost up to ten times the copy. */
#define VYC_MAPPED_LOADS(bytes) (512u + (bytes) / 64u)
#define VYC_MAPPED_STORES 4096u
/* Pageable memory of so many bytes goes through the copy engine, whatever the kernel does with it:
 * in by such chunks, which the host writes past its caches, and back by the driver's own copies.
 * Medians on an H200, by benchmarks/probes/pageable.c, for 64 KiB, 256 KiB, 1, 4, 16 and 64 MiB
 * each way: so 32, 62, 185, 671 us, 3.2 and 12.9 ms; in place, in page-locked memory, 19, 59, 219,
 * 775 us, 4.0 and 21.1 ms. A ring of chunks that stay in the caches is 11 % slower for 4 MiB and 7
 * % faster for 64 MiB, and a submission would wait for it. For the way back from 1 MiB on the
 * driver takes 113, 347 us, 1.21 and 4.4 ms, and the host, chunk by chunk, 118, 327 us, 1.15 and
 * 4.5 ms. */
#define VYC_LARGE_BYTES (UINT64_C(1) << 20)
#define VYC_LARGE_CHUNK (UINT64_C(512) << 10)
#define VYC_FLAG_OFFSET 64u /* bytes into a lane's cell: a cache line apart from the record */
#define VYC_CELL_BYTES 128u

/* An instantiated graph takes 112 KiB of device memory (H200): so many are kept by a context, 56
 * MiB. Launches past that are plain ones, until an exec has not been launched in as many of them:
 * then the one that was not for longest makes room. */
#define VYC_EXEC_BUDGET 512u

#define VYC_MAX_BINDINGS 256

struct vyc_module {
  vyc_child child;
  CUmodule handle;
};

typedef struct vyc_exec {
  vyc_claim claim; /* first: its address is that of the exec, which launches have at hand */
  struct vyc_exec *next, *previous; /* of the context, while it counts as one of the budget */
  _Atomic uint32_t stamp;           /* context->exec_clock at the latest launch */
  bool counted;
  uint64_t flag; /* address of a word that the graph sets to 1 after the kernel; 0: none */
  bool stale; /* what the driver holds is not what `block` and the grid of `params` say */
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec handle;
  CUDA_KERNEL_NODE_PARAMS params; /* kernelParams point into block */
  void **pointers;
  uint8_t *block;
  bool launched; /* of a plan's: once, without a graph */
} vyc_exec;

/* The same for a launch that has no exec, or not now: as many as there were such launches at a time
 * stay with the plan. */
typedef struct vyc_spare {
  struct vyc_spare *next; /* of the plan; set once */
  _Atomic bool taken;
  uint8_t *block;
  void *pointers[];
} vyc_spare;

typedef struct vyc_result {
  void *to;
  const void *from; /* in page-locked memory; NULL: at `device` */
  uint64_t device;
  uint64_t bytes;
} vyc_result;

enum {           /* vyc_lane.state */
       LANE_FREE = 0, /* anybody may claim it */
       LANE_CLAIMED,  /* one thread prepares, waits for or collects it */
       LANE_FLIGHT,   /* submitted; whoever claims it may look whether it has finished */
       LANE_DEAD      /* never used again: retired, or its run could not be seen to end */
};

enum {                 /* vyc_lane.ways: of a binding in host memory */
       WAY_MAPPED = 0, /* the kernel uses it there */
       WAY_COPIED,     /* a copy each way between page-locked memory and the device slab */
       WAY_LARGE       /* pageable: by chunks to the device slab, and to its place at the end */
};

typedef struct vyc_lane {
  struct vyc_lane *next; /* of the plan; set once */
  _Atomic int state;
  vyc_plan *plan;
  vyc_hidden_stream own; /* its stream; the handle is NULL once it is destroyed */
  CUevent done;        /* recorded when a run goes on another stream */
  CUevent start, stop; /* around the kernel of a timed run; made on first need */
  bool elsewhere;      /* this run is on another stream */
  uint32_t slot;       /* of that stream */
  bool copies_out;     /* this run has results in the device slab */
  bool flagged;        /* its graph sets the flag at its end; else the stream or `done` tells */
  bool dropped;        /* nobody wants this run's results: none are written */
  bool has_large;      /* this run has a binding of WAY_LARGE */
  bool cramped;        /* nor may it have one: the device has no room for it */
  uint32_t looks;      /* at the flag */
  uint64_t asked_ns;   /* when the driver was asked after the run by somebody who does not wait */
  vyc_block *cell;     /* page-locked: the record of failed checks, and the flag */
  vyc_block *pinned, *device;
  vyc_block *barrier; /* grid barrier state */
  vyc_ticket *ticket;
  vyc_flight *flight; /* what it has in flight */
  vyc_exec exec;
  uint32_t result_count;
  vyc_result *results;
  uint32_t held_count;
  vyc_pinned **held; /* page-locked arguments of the run */
  uint8_t *ways;     /* of each binding of the run */
  uint64_t *addresses; /* likewise, for the kernel */
  uint8_t *block; /* the parameter block being built */
} vyc_lane;

struct vyc_ticket {
  _Atomic uint32_t references; /* the holder, and the lane until it has finished */
  _Atomic bool done;
  vyc_lane *lane;
  vyc_plan *plan; /* the holder's reference; the lane does not need it */
  bool timed;
  uint64_t begin_ns, submitted_ns; /* of a timed run */
  vyc_timing timing;               /* of a timed run; valid once done */
  vyc_error error; /* status VYC_OK or what the run failed with; valid once done; the last member */
};

/* A vyc_parameter in a third of its room. */
typedef struct vyc_place_in_block {
  uint16_t offset, index;
  uint8_t kind, size;
} vyc_place_in_block;
_Static_assert(VYC_MAX_PARAMETER_BYTES <= UINT16_MAX, "offsets and scalars fit");

/* The report of a plan in one place. */
typedef struct vyc_report_block {
  vyc_report report; /* first */
  vyc_block *block;
  struct vyc_report_block *next; /* of a graph */
} vyc_report_block;

/* What a plan has for launches on one stream, by its slot. */
typedef struct vyc_on_stream {
  _Atomic(vyc_exec *) exec;
  _Atomic(vyc_report_block *) report;
  _Atomic(vyc_block *) barrier; /* grid barrier state */
} vyc_on_stream;

struct vyc_plan {
  vyc_child child;
  /* What every launch reads, together. */
  const vyc_name *noted; /* see vyc__noted_as */
  uint32_t parameter_count, binding_count, scalar_count;
  uint32_t block[3];
  bool relaunches; /* a launch of an exec is all that a launch takes; drivers from CUDA 13 on
                      need no current context for that (seen) */
  bool may_overlap; /* written arguments may share bytes with others */
  bool has_report;
  bool cooperative;
  bool has_barrier; /* the kernel takes the state of a grid barrier */
  vyc_place_in_block *parameters; /* few_parameters, if they fit there */
  vyc_binding *bindings; /* likewise */
  uint32_t written_count; /* bindings that must lie apart from the others */
  vyc_place_in_block few_parameters[12];
  vyc_binding few_bindings[5];
  uint8_t written[VYC_MAX_BINDINGS]; /* numbers of those that must lie apart */
  /* The rest. */
  vyc_module *module;
  CUfunction function;
  vyc_name *called;
  const char *name; /* in messages: that of `called` */
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t block_bytes; /* of memory for a parameter block: room for what is noted of it, too */
  uint64_t tag;
  vyc_claim pairing; /* a thread clears the barrier state and launches, which are a pair */
  uint64_t most_blocks; /* resident at once, when cooperative */
  _Atomic(vyc_block *) captured; /* grid barrier state of captured launches, one each */
  _Atomic(vyc_lane *) lanes;
  _Atomic uint32_t lane_count;
  _Atomic uint64_t mean_wait_ns;
  vyc_on_stream near[VYC_NEAR_SLOTS];
  vyc_far far; /* of vyc_on_stream */
  _Atomic(vyc_spare *) spares; /* newest first */
};

/* A context with its memory and its kernels. */
typedef struct vyc_kernel_context {
  vyc_memory_context memory;
  pthread_mutex_t execs_lock;
  vyc_exec *execs; /* those of the budget; guarded by execs_lock, as is their number */
  uint32_t exec_count;
} vyc_kernel_context;

/* ---- call.c ---- */

/* Launches that bound calls have made and not counted yet. */
uint64_t vyc__call_launches(vyc_context *context);

/* ---- exec.c ---- */

void vyc__kernels_begin(vyc_context *context);
void vyc__kernels_end(vyc_context *context);

/* Memory of `pointers` and `block` is the caller's, parameter_count and block_bytes long. */
void vyc__exec_init(vyc_exec *exec, const vyc_plan *plan, void **pointers, uint8_t *block);
static inline bool vyc__exec_claim(vyc_exec *exec) { return vyc__claim_try(&exec->claim); }
/* Claim it however long its holder needs, which is a launch. */
static inline void vyc__exec_claim_wait(vyc_exec *exec) { vyc__claim_take(&exec->claim); }
static inline void vyc__exec_unclaim(vyc_exec *exec) { vyc__claim_drop(&exec->claim); }
static inline void vyc__exec_stamp(vyc_exec *exec, vyc_context *context) {
  atomic_store_explicit(&exec->stamp,
                        atomic_load_explicit(&context->exec_clock, memory_order_relaxed),
                        memory_order_relaxed);
}
static inline void vyc__exec_set_grid(vyc_exec *exec, const uint32_t grid[3]) {
  CUDA_KERNEL_NODE_PARAMS *params = &exec->params;
  if (VYC_LIKELY(params->gridDimX == grid[0] && params->gridDimY == grid[1] &&
                 params->gridDimZ == grid[2]))
    return;
  params->gridDimX = grid[0];
  params->gridDimY = grid[1];
  params->gridDimZ = grid[2];
  exec->stale = true;
}
/* Patch what is stale and launch; the caller holds the claim. A plain launch when the context has
 * too many execs: `handle` is NULL then, and no flag is set. */
vyc_status vyc__exec_relaunch(vyc_exec *exec, const vyc_plan *plan, CUstream stream);
/* The same with the block and the grid given. */
vyc_status vyc__exec_launch(vyc_exec *exec, const vyc_plan *plan, const uint8_t *block,
                            const uint32_t grid[3], CUstream stream);
/* The same as a plain launch, whatever the exec has. */
vyc_status vyc__exec_launch_once(vyc_exec *exec, const vyc_plan *plan, const uint8_t *block,
                                 const uint32_t grid[3], CUstream stream);
/* Nobody launches it any more. */
void vyc__exec_destroy(vyc_exec *exec, vyc_context *context);
/* cuLaunchKernel, which has read the parameters when it returns. */
vyc_status vyc__launch_once(const vyc_plan *plan, void **pointers, const uint32_t grid[3],
                            CUstream stream);

/* ---- plan.c ---- */

extern __attribute__((visibility("hidden"))) const vyc_child_kind vyc__plan_kind;
/* What the plan has for the stream of a slot; NULL: nothing was made. */
static inline vyc_on_stream *vyc__on_stream(vyc_plan *plan, uint32_t slot) {
  return VYC_LIKELY(slot < VYC_NEAR_SLOTS)
             ? &plan->near[slot]
             : vyc__far_entry(&plan->far, slot, sizeof(vyc_on_stream));
}
/* The same, made if need be; NULL: out of host memory, and recorded. */
vyc_on_stream *vyc__on_stream_make(vyc_plan *plan, uint32_t slot);
/* For every stream that the plan has something for, and more. */
void vyc__on_each_stream(vyc_plan *plan,
                         void (*visit)(vyc_plan *plan, vyc_on_stream *at, uint32_t slot));
/* What vyc_plan_create demands of a description, whatever the device. */
vyc_status vyc__plan_check(const vyc_plan_desc *desc);
vyc_status vyc__run_check(const vyc_plan *plan, const vyc_run *run);
/* With more written bindings than this, ranges are sorted, not compared one by one. */
#define VYC_FEW_WRITTEN 8u
/* Of each binding where it begins and ends: what is written lies apart from every other. */
bool vyc__ranges_apart(const vyc_plan *plan, const uint64_t *begins, const uint64_t *ends);
/* A caller of an earlier version has a shorter struct. */
#define VYC_RUN_BYTES_FIRST offsetof(vyc_run, iterations)
static inline uint32_t vyc__origin_of(const vyc_run *run) {
  return run->struct_size < sizeof *run ? 0 : run->origin;
}
__attribute__((cold)) vyc_status vyc__run_fail_size(const vyc_run *run);
/* A run is there, and its caller has said which version of it. */
static inline vyc_status vyc__run_check_size(const vyc_run *run) {
  return VYC_LIKELY(run != NULL && run->struct_size >= VYC_RUN_BYTES_FIRST)
             ? VYC_OK
             : vyc__run_fail_size(run);
}
static inline uint32_t vyc__iterations(const vyc_run *run) {
  const bool has_them = run->struct_size >= offsetof(vyc_run, origin);
  return !has_them || run->iterations == 0 ? 1 : run->iterations;
}
static inline bool vyc__grid_is_empty(const uint32_t grid[3]) {
  return grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}
static inline bool vyc__needs_clear(const vyc_plan *plan, uint32_t binding, const vyc_run *run) {
  const vyc_binding *b = &plan->bindings[binding];
  if (b->role != VYC_ROLE_OUT) return false;
  return (b->flags & VYC_BINDING_COVERED) == 0 || vyc__grid_is_empty(run->grid) ||
         (uint64_t)run->grid[0] * plan->block[0] < run->arguments[binding].count;
}
/* The word of a lane's cell that says its run has ended. */
static inline _Atomic uint32_t *vyc__lane_flag(const vyc_lane *lane) {
  return (_Atomic uint32_t *)(uintptr_t)(lane->cell->address + VYC_FLAG_OFFSET);
}

/* ---- parameters.c ---- */

/* Device addresses that no argument brings; 0 where the kernel takes none. */
typedef struct vyc_hidden {
  uint64_t report, barrier;
} vyc_hidden;
/* Write the parameter block: `addresses` has one entry per binding. */
void vyc__block_write(const vyc_plan *plan, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, const vyc_hidden *hidden);
/* The same of a run whose arguments are all buffers, into a block that was written before or is
 * zero. True: it was another. */
bool vyc__block_write_buffers(const vyc_plan *plan, uint8_t *block, const vyc_run *run,
                              const vyc_hidden *hidden);
/* Where each parameter is in a block, as the driver takes them. */
void vyc__block_pointers(const vyc_plan *plan, void **pointers, uint8_t *block);
/* A block of its own until it is given back.
 * NULL: out of host memory, and recorded. */
vyc_spare *vyc__spare_take(vyc_plan *plan);
void vyc__spare_give(vyc_spare *spare);
/* Nobody launches the plan any more. */
void vyc__spares_free(vyc_plan *plan);

/* ---- cooperative.c ---- */

#define VYC_BARRIER_BYTES 8u /* the state of a grid barrier: two words */

vyc_status vyc__cooperative_prepare(vyc_plan *plan, vyc_context *context);
vyc_status vyc__cooperative_check(const vyc_plan *plan, const uint32_t grid[3]);
/* Make the state if there is none, and clear it on the stream. */
vyc_status vyc__barrier_ready(vyc_context *context, vyc_block **block, CUstream stream);
/* The state for launches in one place; address 0 when the plan needs none. */
vyc_status vyc__barrier_of(vyc_plan *plan, uint64_t *address_out, const vyc_place *place);
/* Before each launch that uses the state; nothing for address 0. */
vyc_status vyc__barrier_clear(vyc_context *context, uint64_t address, CUstream stream);
void vyc__barriers_release(vyc_plan *plan);
/* Around clearing the state and the launch that counts on it; nothing for other plans. */
void vyc__cooperative_begin(vyc_plan *plan);
void vyc__cooperative_end(vyc_plan *plan);

/* ---- report_block.c ---- */

/* Preset, in memory of its own; vyc__report_free undoes it. */
vyc_status vyc__report_block_make(vyc_report_block **block_out, vyc_plan *plan);
/* Where launches on a stream slot report; address 0 when the plan reports nothing. */
vyc_status vyc__report_of(vyc_plan *plan, uint64_t *address_out, uint32_t slot);
/* No launch is made any more. */
void vyc__plan_reports_end(vyc_plan *plan);

/* ---- launch.c ---- */

/* What launches and bound calls share: the checks of their runs, */
vyc_status vyc__launch_check(const vyc_plan *plan, const vyc_run *run);
/* the buffers in order and cleared where the kernel may leave them unwritten, */
vyc_status vyc__launch_prepare(const vyc_plan *plan, const vyc_run *run, const vyc_place *place);
/* the hidden arguments of launches in one place, */
vyc_status vyc__launch_hidden(vyc_plan *plan, vyc_hidden *hidden_out, const vyc_place *place);
/* and a launch that goes into a capture of somebody else. */
vyc_status vyc__launch_captured(vyc_plan *plan, const vyc_run *run, const vyc_place *place);

/* ---- stage.c ---- */

/* Grow the slabs for this run. */
vyc_status vyc__stage_reserve(vyc_lane *lane, const vyc_run *run, CUstream stream);
/* Host arguments to where the kernel will look, which goes into lane->addresses. */
vyc_status vyc__stage_in(vyc_lane *lane, const vyc_run *run, CUstream stream, uint32_t slot);
/* After the kernel of a lane that copies out: device-side results back to their host side. */
vyc_status vyc__stage_out(vyc_lane *lane, const vyc_run *run, CUstream stream);
static inline bool vyc__is_host(const vyc_argument *argument) {
  return argument->kind != VYC_ARGUMENT_BUFFER;
}

/* ---- pageable.c ---- */

/* The same as memmove, past the caches, which the device would ask in vain. */
void vyc__host_copy_large(void *to, const void *from, uint64_t bytes);
static inline void vyc__host_copy(void *to, const void *from, uint64_t bytes) {
  if (VYC_LIKELY(bytes < VYC_LARGE_BYTES))
    memmove(to, from, bytes);
  else
    vyc__host_copy_large(to, from, bytes);
}
/* Pageable memory to the device by way of `room` in page-locked memory, as large: the host copies a
 * chunk while the device copies the one before. Nothing is waited for; `data` has been read. */
vyc_status vyc__chunks_in(vyc_context *context, uint64_t to, void *room, const void *data,
                          uint64_t bytes, CUstream stream);
/* The run has ended: its results in the device slab to pageable memory. It fails with *ended_out
 * false when copies may be in flight still. */
vyc_status vyc__results_fetch(vyc_lane *lane, bool *ended_out);

/* ---- lane.c ---- */

/* Waits at most *left_ns while too many are in flight, then VYC_NOT_READY; *left_ns becomes what is
 * left of that. Negative: no limit. */
vyc_status vyc__lane_take(vyc_plan *plan, vyc_lane **lane_out, int64_t *left_ns);
/* What lanes have for arguments and results of their runs goes to the pools, where no run is in
 * flight, prepared or still to be collected. */
void vyc__lanes_empty(vyc_context *context);
/* Nobody else uses the plan. False: some run never ended, and what it uses has leaked. */
bool vyc__lanes_destroy(vyc_plan *plan);
void vyc__lanes_free(vyc_plan *plan);
/* On failure the lane has been given up. */
vyc_status vyc__lane_submit(vyc_lane *lane, const vyc_run *run, bool timed);
/* The run of a lane is known to have ended: let go of its page-locked arguments. */
void vyc__lane_let_go(vyc_lane *lane);

/* ---- lane_wait.c ---- */

static inline void vyc__lane_set(vyc_lane *lane, int state) {
  atomic_store_explicit(&lane->state, state, memory_order_release);
}
/* `done` is behind the lane's run. */
static inline bool vyc__lane_is_marked(const vyc_lane *lane) {
  return lane->elsewhere && (!lane->flagged || lane->slot == VYC_SLOT_OTHER);
}
/* One look at a submitted lane: VYC_OK when its run has ended, VYC_NOT_READY when it has not. */
vyc_status vyc__lane_poll(vyc_lane *lane);
/* The same wait for a release, as vyc__stream_settle. */
bool vyc__lane_settle(vyc_lane *lane);
/* The caller has claimed the lane. Negative timeout: none. VYC_NOT_READY when it ran out. */
vyc_status vyc__lane_wait(vyc_lane *lane, int64_t timeout_ns);
/* After a wait that ended with `status`: results to their place and the lane free again, or, when
 * the wait failed, the results dropped and the lane in flight until it is seen to end. Returns the
 * run's status. */
vyc_status vyc__lane_collect(vyc_lane *lane, vyc_status status, vyc_timing *timing_out);
/* Nobody else uses the plan. False: the run never ended, and what it uses is leaked. */
bool vyc__lane_destroy(vyc_lane *lane);

/* ---- ticket.c ---- */

/* NULL: out of memory, and recorded. free() undoes it. */
vyc_ticket *vyc__ticket_alloc(void);
/* Two references: the lane's and the caller's, who has claimed the lane. */
void vyc__ticket_attach(vyc_ticket *ticket, vyc_lane *lane);
/* Where the times of the lane's run go; NULL when nobody asked for them. */
vyc_timing *vyc__ticket_timing(vyc_lane *lane);
/* From clock readings; device_ns is not touched. */
static inline void vyc__timing_fill(vyc_timing *timing, uint64_t begin_ns, uint64_t submitted_ns) {
  const uint64_t end = vyc__now_ns();
  timing->wall_ns = end - begin_ns;
  timing->enqueue_ns = submitted_ns - begin_ns;
  timing->wait_ns = end - submitted_ns;
}
/* Tell the lane's ticket, if it has one, how the run ended. */
void vyc__ticket_settle(vyc_lane *lane, vyc_status status);

#endif
