/* A worker, its calls, and the ring between them. */
#ifndef VYC_WORKER_WORKER_H
#define VYC_WORKER_WORKER_H

#include "room.h"

/* As in codegen/emit/resident.py. */
#define WORKER_SLOTS 64u
#define WORKER_ROOM (WORKER_SLOTS - 1) /* for calls; so there is always room for a stop */
#define WORKER_WITHHELD 32u /* a call that must not begin yet has a number lower by this */
#define WORKER_SLOT_WORDS 32u
#define WORKER_HEADER_WORDS 4u
#define WORKER_ANSWER_WORDS                                                                        \
  16u /* 32-bit, from one answer to the next: a line of the host's cache */
#define WORKER_MORE_BYTES 4096u
#define WORKER_LAUNCHING 64u /* bytes, from the place where the first ring notes its end */
#define WORKER_SLOT_BYTES ((WORKER_SLOT_WORDS - WORKER_HEADER_WORDS) * 4u)
/* In place of a kernel's number, and why a launch has ended. */
#define WORKER_STOP 0xffffu
#define WORKER_END_BUSY 0xfffeu
#define WORKER_END_IDLE 0xfffdu
#define WORKER_BUSY_NS UINT64_C(10000000)
/* With less, a launch could end before it has looked for its first call. */
#define WORKER_BUSY_LEAST_NS UINT64_C(10000)
#define WORKER_MOST_BLOCKS 32u
/* Blocks of a grid that is spread, at least, and for each part: on an H200 a block of 1,024 threads
 * that adds arrays takes 0.26 us; that there are parts costs a call some 0.8 us, and each of them
 * 0.1 us for its slot and answer. */
#define WORKER_SPREAD_BLOCKS 8u
#define WORKER_PART_BLOCKS 2u

enum {             /* vyc_worker_call.state, as those of submissions */
       CALL_FREE = 0,
       CALL_CLAIMED, /* one thread prepares, waits for or collects it */
       CALL_FLIGHT   /* submitted; a thread that claims it may check whether it has ended */
};

/* The ring of a block of the device, and the launches of that block. What is not atomic is guarded
 * by the claim of the worker, as are the words of free slots. */
typedef struct vyc_ring {
  _Alignas(VYC_CACHE_LINE) vyc_worker *worker;
  uint64_t slots, more; /* page-locked: slots, answers, end; larger parameter blocks or `slots` */
  _Atomic(CUstream) stream; /* of this ring alone; NULL: destroyed, or not made yet */
  uint32_t *next; /* number of the next call; of the worker, beside those of its other rings */
  _Atomic uint32_t launch; /* the number of the last launch; 0: none; changed under the claim */
  uint32_t noted; /* the last launch whose end has been counted */
  uint32_t due; /* the last call that it takes while the caller has paused the worker */
  uint32_t stop; /* the number of its last stop */
  bool has_stop; /* the last launch, or the next one, has a stop: the only one in the ring */
} vyc_ring;

/* Where a call is, or a part of it: the number is that of its last slot in the ring. */
typedef struct worker_part {
  vyc_ring *ring;
  uint32_t number;
} worker_part;

/* What a call uses of device memory. */
typedef struct worker_range {
  uint64_t begin, end;
  bool is_written;
} worker_range;

typedef struct vyc_worker_call {
  struct vyc_worker_call *next; /* of the worker; set once */
  _Atomic int state;
  vyc_worker *worker;
  vyc_prepared *prepared;
  vyc_scope *scope; /* of the thread that has the call, if it has entered quietly; or NULL */
  worker_part *parts; /* several, if it is spread over blocks */
  uint32_t part_count; /* in rings; 0: it has no slot */
  uint32_t slot_count; /* of the first part, whose number is that of the last */
  bool dropped; /* its results are not wanted */
  uint32_t looks;
  vyc_block *slab; /* page-locked: the host arrays of the call, or of the last one; or NULL */
  vyc_ticket *ticket;
  vyc_flight *flight; /* what it has in flight */
  uint32_t result_count, clear_count, held_count;
  struct worker_result {
    void *to;
    const void *from;
    uint64_t bytes;
  } *results;
  uint32_t *clears; /* bindings in device memory to be cleared first */
  vyc_buffer **held; /* of a call that nobody waits for */
  uint64_t *addresses;
  struct worker_take { /* buffers on which the main stream may have work, until the call has ended
                        */
    vyc_buffer *buffer;
    uint32_t take;
  } *takes;
  uint32_t take_count;
  bool is_behind; /* it begins when `behind` of the worker gets to it; see behind.c */
  /* Of a worker with several blocks, guarded by its claim: what a call uses that may not have been
   * answered, so that others that use the same are ordered behind it. */
  struct worker_order {
    struct vyc_worker_call *next;
    worker_part *parts;
    uint32_t part_count;
    uint32_t count;
    bool listed;
    worker_range *ranges;
  } order;
  worker_range *ranges; /* the same while it is prepared */
  uint32_t range_count;
  uint8_t *block;
} vyc_worker_call;

/* A call that may be free, so that few threads look through all calls, whose states others change.
 */
#define WORKER_SPARES 16u
typedef struct worker_spare {
  _Alignas(VYC_CACHE_LINE) _Atomic(vyc_worker_call *) call;
} worker_spare;

/* The references, the claim and what it guards are on lines of the host's cache of their own: each
 * call writes them, from whichever core, and a thread that waits for the claim looks at it all the
 * time. */
struct vyc_worker {
  vyc_child child;
  uint64_t id; /* no other worker of the process has it */
  _Alignas(VYC_CACHE_LINE) vyc_prepared *entry;
  vyc_prepared *clearing;
  vyc_prepared **kernels;
  uint32_t kernel_count, ring_count;
  uint32_t most_bindings, block_bytes; /* of its kernels */
  _Atomic(vyc_worker_call *) calls;
  _Atomic uint32_t pauses; /* by the caller: while this is not 0, nobody launches it */
  _Atomic bool closed;
  _Atomic(CUstream) behind; /* of the worker alone; NULL: not made yet; see behind.c */
  uint64_t idle_ns, busy_ns;
  vyc_block *memory, *more; /* page-locked: rings; larger parameter blocks or NULL */
  _Atomic uint64_t launch_count, pause_count;
  _Alignas(VYC_CACHE_LINE) vyc_claim claim; /* guards the rings, `behind` and the next seven */
  _Alignas(VYC_CACHE_LINE) uint64_t call_count;
  vyc_worker_call *ordered; /* see worker_order */
  uint64_t awaited; /* slots of streams that have waited for answers */
  vyc_worker_call *held; /* waits until calls on the same memory have ended; see order.c */
  uint32_t turn; /* of the ring that got the last call */
  uint32_t hurried; /* launches that must still end soon; see launch_it */
  uint32_t next[WORKER_MOST_BLOCKS]; /* see vyc_ring; those of eight rings are on this line */
  worker_spare spares[WORKER_SPARES]; /* by the thread that freed it last; see take() of call.c */
  vyc_ring rings[];
};

#define EACH_RING(ring, worker)                                                                    \
  for (vyc_ring *ring = (worker)->rings; ring < (worker)->rings + (worker)->ring_count; ring++)

/* ---- ring.c ---- */

uint64_t vyc__ring_bytes(void); /* of one */
void vyc__ring_begin(vyc_ring *ring, uint32_t first);
/* The caller has the claim: whether so many slots of a call have room now. While the caller has
 * paused the worker, there is room behind a stop that is behind the calls that are due. */
bool vyc__ring_takes(vyc_ring *ring, uint32_t count);
/* The caller has the claim: whether all its calls have been answered. */
bool vyc__ring_is_empty(const vyc_ring *ring);
/* What a slot says. */
typedef struct worker_slot {
  uint32_t kernel;
  const uint32_t *grid;
  const uint8_t *block; /* parameters */
  uint32_t bytes; /* of these */
  uint32_t part, others; /* of a call that is spread: its part, and how many others there are */
  bool withheld; /* the device does not see it, nor later ones, before the number is written to
                    vyc__ring_gate */
} worker_slot;
/* The caller has the claim, and there is room. Returns the call's number. */
uint32_t vyc__ring_put(vyc_ring *ring, const worker_slot *slot);
/* Its block does not run, and its next call is withheld: a launch would only wait on the device. */
bool vyc__ring_is_withheld(const vyc_ring *ring);
uint64_t vyc__ring_gate(const vyc_ring *ring, uint32_t number);
/* The word that is the call's number, or a later one, when that has been answered. */
uint64_t vyc__ring_answer(const vyc_ring *ring, uint32_t number);
/* The caller has the claim, and its block does not run, or `before` is withheld: the calls from it
 * on were not put. */
void vyc__ring_take_back(vyc_ring *ring, uint32_t before);
/* The caller has the claim and has paused the worker: the call waits for the end of the pause, and
 * no launch comes to it before: see vyc__ring_takes. */
bool vyc__ring_keeps_back(const vyc_ring *ring, uint32_t number);
/* The caller has the claim: the last call that ends without a resume of the worker. */
uint32_t vyc__ring_last(const vyc_ring *ring);
/* The caller has the claim: whether there is a call behind that one. */
bool vyc__ring_keeps_call(const vyc_ring *ring);
/* The caller has the claim and has paused the worker, and the call has not been answered: it does
 * nothing. */
void vyc__ring_empty(vyc_ring *ring, uint32_t number);
/* Whether the call has been answered: then everything that it wrote can be read. */
bool vyc__ring_is_answered(const vyc_ring *ring, uint32_t number);
/* The same for all parts of a call, which may have none. */
static inline bool vyc__parts_are_answered(const worker_part *parts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!vyc__ring_is_answered(parts[i].ring, parts[i].number)) return false;
  return true;
}
/* Its block was launched and has not noted its end. */
bool vyc__ring_is_running(const vyc_ring *ring);
/* The caller has the claim. Launches its block unless it runs, or is paused and has no call that is
 * due. `scope`: as that of a call. */
vyc_status vyc__ring_go_on(vyc_ring *ring, vyc_scope *scope);
/* The same behind the launch that runs if there is one, and behind one that ends at a stop: so all
 * calls up to `last` run, whether or not a thread of the host looks after them. */
vyc_status vyc__ring_go_until(vyc_ring *ring, uint32_t last);
/* VYC_NOT_READY, or the fault that has ended it, which only the driver can report. */
vyc_status vyc__ring_ask(const vyc_ring *ring, vyc_scope *scope);
/* The caller has the claim. The launch that runs, or the next one for calls that are due, comes to
 * a stop. */
void vyc__ring_stop(vyc_ring *ring);
/* The caller has the claim. Counts the end of the last launch, once. */
void vyc__ring_note_end(vyc_ring *ring);
/* The thread may make driver calls. */
static inline vyc_status vyc__worker_enter(vyc_context *context, vyc_scope *scope) {
  return scope == NULL ? VYC_OK : vyc__scope_current(context, scope);
}

/* ---- order.c ---- */

/* The caller has the claim. Writes the rings where the parts of the call may go, with room for
 * `count` slots: one behind the calls that use the same memory, if there are some; else several, if
 * the grid has many blocks and those of these rings nothing to do. Returns how many; 0: nowhere
 * now. */
uint32_t vyc__worker_place(vyc_worker_call *call, uint32_t count, const uint32_t grid[3]);
/* The caller has the claim: the call does not keep others back any more. */
void vyc__worker_let_go(vyc_worker_call *call);
/* The caller has the claim, and the call is in the ring. */
void vyc__worker_order(vyc_worker_call *call);

/* ---- pause.c ---- */

/* It must not be launched: the caller has paused it, or a driver call waits for the device. */
static inline bool vyc__worker_is_paused(const vyc_worker *worker) {
  return atomic_load(&worker->pauses) != 0 ||
         atomic_load(&worker->child.context->worker_pauses) != 0;
}

/* Wait until the calls of a block up to one have ended. VYC_NOT_READY: not in the time allowed. */
vyc_status vyc__ring_finish(vyc_ring *ring, uint32_t last, vyc_pace *pace);
/* Wait until the calls that were submitted have ended, but for those that wait for the end of a
 * pause. VYC_NOT_READY: not in the time allowed. */
vyc_status vyc__worker_finish(vyc_worker *worker, vyc_pace *pace);
/* Leave the device behind the calls that its launch has taken up; it may come back. */
vyc_status vyc__worker_stop(vyc_worker *worker, int64_t timeout_ns);
/* Leave it behind all calls that were submitted, and stay away. */
vyc_status vyc__worker_pause(vyc_worker *worker, int64_t timeout_ns);
/* The same for the end: calls that it has not taken up never run. */
vyc_status vyc__worker_stop_for_good(vyc_worker *worker, int64_t timeout_ns);

/* ---- behind.c ---- */

/* Work of the main stream, or of the streams in some slots, has to end before the call begins. */
vyc_status vyc__call_behind_main(vyc_worker_call *call);
vyc_status vyc__call_behind_slots(vyc_worker_call *call, uint64_t slots, const vyc_far_set *far);
/* The caller has the claim: the slot is seen when that work has ended. */
vyc_status vyc__call_open_later(const vyc_worker_call *call, uint32_t number);
/* Some call was behind work of a stream: VYC_NOT_READY, or a fault of that work. */
vyc_status vyc__behind_ask(const vyc_worker *worker, vyc_scope *scope);
/* For a call that nobody waits for any more: what uses its buffers later is ordered as behind a
 * launch in call order, or it never begins. VYC_NOT_READY: neither can be done now. */
vyc_status vyc__call_leave(const vyc_worker_call *call);
/* No word is written to a ring any more. */
vyc_status vyc__behind_finish(vyc_worker *worker, int64_t timeout_ns);

/* ---- arguments.c ---- */

/* Copy and lay out the arguments of a checked run. On failure the call is free again. */
vyc_status vyc__call_prepare(vyc_worker_call *call, uint32_t kernel, const vyc_run *run);

/* What the main stream had on the arrays of the call has ended. */
void vyc__call_main_ended(vyc_worker_call *call);

/* ---- call.c ---- */

/* A call for the caller alone, who has entered the context; quietly, if there is a scope. */
vyc_status vyc__call_take(vyc_worker *worker, vyc_worker_call **call_out, vyc_scope *scope);
uint64_t vyc__call_bytes(const vyc_prepared *prepared, const vyc_run *run, uint32_t i);
/* Give it to the worker, which is launched if need be; waits for room for at most timeout_ns. On
 * failure the call is free again. */
vyc_status vyc__call_submit(vyc_worker_call *call, uint32_t kernel, const vyc_run *run,
                            int64_t timeout_ns);
/* VYC_OK if it has ended, VYC_NOT_READY if not. */
vyc_status vyc__call_look(vyc_worker_call *call);
vyc_status vyc__call_wait(vyc_worker_call *call, int64_t timeout_ns);
/* After a wait that ended with `status`: results are copied and the call is free, or it stays in
 * flight without results. Returns the status of the call. */
vyc_status vyc__call_collect(vyc_worker_call *call, vyc_status status);
/* Make it free for another caller. */
void vyc__call_free(vyc_worker_call *call);
/* Free what it has; it is not used any more. */
void vyc__call_end(vyc_worker_call *call);
static inline void vyc__call_set(vyc_worker_call *call, int state) {
  atomic_store_explicit(&call->state, state, memory_order_release);
}

/* ---- worker.c ---- */

/* The workers of a context, one after the other: it keeps each of them in the list. The caller
 * releases it when it has the next one. */
vyc_worker *vyc__worker_next(vyc_context *context, const vyc_worker *after);

#endif
