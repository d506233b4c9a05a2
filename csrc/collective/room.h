/* Collectives: work of several devices that communicate, by NCCL. */
#ifndef VYC_COLLECTIVE_ROOM_H
#define VYC_COLLECTIVE_ROOM_H

#include "memory/room.h"
#include "nccl.h"

typedef struct vyc_one_shot vyc_one_shot; /* see one_shot.h */
typedef struct vyc_nccl_call vyc_nccl_call; /* see apart.c */

/* A graph that has collectives of a communicator, as that knows it. */
typedef struct vyc_collective_graph vyc_collective_graph;
struct vyc_collective_graph {
  vyc_collective_graph *next; /* of the communicator's list, guarded by its graphs_lock */
  vyc_communicator *communicator; /* held by the graph */
  /* Destroys the driver's graph, for good. False: a thread uses it right now, and that looks
   * whether the communicator has ended before it is done. Called with the lock of the list. */
  bool (*end)(vyc_collective_graph *graph);
};

/* What is open where the process ends. */
typedef struct vyc_exit_entry vyc_exit_entry;
struct vyc_exit_entry {
  vyc_exit_entry *next;
  /* Ends its work, if that has not ended by then. */
  void (*end)(vyc_exit_entry *entry, uint64_t limit_ns);
};

struct vyc_communicator {
  vyc_child child;
  const vyc_nccl *nccl;
  vyc_nccl_comm comm;
  int32_t rank, size;
  vyc_claim turn; /* of the thread that NCCL works for: it allows one call at a time */
  pthread_mutex_t lock; /* held over NCCL's calls, but not where a group ends, which may wait */
  pthread_mutex_t look_lock; /* taken after `lock`: held while a thread looks at `comm`, which must
                                stay */
  _Atomic bool ends; /* an abort or a close has begun */
  _Atomic bool ended; /* aborted or closed; `comm` is gone then */
  _Atomic(vyc_nccl_call *) ending; /* NCCL's end of it, which nobody has waited for yet */
  _Atomic bool closed;
  _Atomic bool is_broken; /* a rank of the group has ended: see vyc_communicator_left */
  _Atomic uint64_t call_began_ns; /* of the call that is in NCCL; 0: none */
  /* Written by the thread that has the lock. */
  _Atomic uint64_t issued, digest, last_count;
  _Atomic uint32_t last_kind, last_type, last_op;
  _Atomic int32_t last_peer;
  _Atomic(CUstream) last_stream; /* of the last collective; it may be gone */
  uint64_t seen; /* guarded by the lock, as is the rest: `issued` when `event` was recorded */
  CUevent event; /* NULL: not made yet */
  bool is_watched; /* the event was recorded and is not known to have been reached */
  uint64_t since_ns; /* when it was recorded */
  _Atomic(vyc_one_shot *) one_shot; /* NULL: all goes by NCCL */
  /* What NCCL has connected ranks for: of each kind a bit for each power of two of bytes, because
   * it chooses among ways by size; and the ranks to which this has sent, and from which received.
   */
  _Atomic uint64_t connected[VYC_SEND];
  _Atomic uint64_t *peers[2];
  pthread_mutex_t graphs_lock;
  vyc_collective_graph *graphs;
  vyc_exit_entry exit_entry;
};

/* ---- collective.c ---- */

vyc_status vyc__collective_check(const vyc_communicator *communicator,
                                 const vyc_collective *collective);
const char *vyc__collective_name(const vyc_collective *collective);
/* How many bytes it reads, or writes. */
uint64_t vyc__collective_bytes(const vyc_communicator *communicator,
                               const vyc_collective *collective, bool written);
/* NCCL's call and its result. The caller holds the lock. */
int vyc__nccl_give(const vyc_communicator *communicator, const vyc_collective *collective,
                   CUstream stream);
extern _Thread_local bool vyc__is_starting; /* this thread starts a group, which is one call */
/* Around calls in which NCCL may wait for other ranks. */
void vyc__call_begins(vyc_communicator *communicator);
void vyc__call_ends(vyc_communicator *communicator);
/* What the thread that watches looks at. The caller holds the lock. */
void vyc__collective_note(vyc_communicator *communicator, const vyc_collective *collective,
                          CUstream stream);

/* One collective on its way to a stream; those of a group hold their buffers until it ends. */
typedef struct vyc_noted {
  vyc_communicator *communicator;
  vyc_collective collective;
  bool is_one_shot;
  vyc_launch_stream on;
  uint32_t taken;
} vyc_noted;

/* Give it to its stream, without anything else. */
vyc_status vyc__collective_give(const vyc_noted *noted);

/* ---- starting.c ---- */

/* More than VYC_MOST_TOGETHER devices. */
vyc_status vyc__too_many_together(void);
vyc_status vyc__collectives_start(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count);
/* Take the `turn` of each communicator: no other thread calls NCCL for them until this one drops
 * it. Refused if the thread is inside a call of one of them, in the function that vyc_nccl_ask was
 * given. */
vyc_status vyc__take_turns(const vyc_noted *all, uint32_t count);

/* ---- apart.c ---- */

#define VYC_NCCL_LEAST_PATIENCE_NS INT64_C(1000000000) /* for ranks that end at about one time */

typedef enum vyc_nccl_call_kind {
  VYC_NCCL_BEGIN,
  VYC_NCCL_DESTROY,
  VYC_NCCL_ABORT,
  VYC_NCCL_GIVE
} vyc_nccl_call_kind;

/* NULL: no thread could be started. */
vyc_nccl_call *vyc__nccl_begin(vyc_context *context, const vyc_nccl *nccl, const uint8_t *id,
                               int32_t rank, int32_t size);
vyc_nccl_call *vyc__nccl_end(vyc_nccl_call_kind kind, vyc_context *context, const vyc_nccl *nccl,
                             vyc_nccl_comm comm);
/* Call `give`, whose result is that of the call, in a thread of its own. */
vyc_nccl_call *vyc__nccl_other(vyc_context *context, const vyc_nccl *nccl, int (*give)(void *data),
                               void *data);
/* Whether it is over, or will be within the time. */
bool vyc__nccl_is_over(vyc_nccl_call *call, int64_t timeout_ns);
/* The call is over after this, or (false, after the time; negative: no limit) left behind. */
bool vyc__nccl_await(vyc_nccl_call *call, int64_t timeout_ns, int *result_out,
                     vyc_nccl_comm *comm_out);

/* Wait for the ends of communicators that have begun, also those left behind: up to the time limit
 * of their contexts, and most_ns. Whether all are over. */
bool vyc__nccl_await_ends(int64_t most_ns);

/* ---- connecting.c ---- */

/* Whether NCCL may keep the call of a collective until other ranks make theirs. */
bool vyc__may_be_kept(const vyc_communicator *communicator, const vyc_collective *collective);
/* It was given, so that the next like it is not kept. */
void vyc__connected(vyc_communicator *communicator, const vyc_collective *collective);
extern _Thread_local bool vyc__is_asking; /* this thread is in the function that vyc_nccl_ask was
                                             given, which may call the library */
/* Call `give`, which NCCL may keep, while the calling thread asks the host whether to go on; if
 * not, the communicator ends. No lock is held, and no claim but that of a graph that is being made.
 * Returns the result of `give`. */
int vyc__give_asking(vyc_communicator *communicator, int (*give)(void *data), void *data);

/* ---- exit.c ---- */

/* Between these two the exit of the process ends it. */
void vyc__exit_add(vyc_exit_entry *entry);
void vyc__exit_remove(vyc_exit_entry *entry);

/* ---- collective_graphs.c ---- */

#define VYC_COLLECTIVE_GRAPHS_PATIENCE_NS UINT64_C(1000000000)

/* Whether the driver can have collectives in graphs. */
vyc_status vyc__captured_check(const vyc_context *context);
/* Whether the communicator has not ended; `what` is what asks. */
vyc_status vyc__communicator_check(vyc_communicator *communicator, const char *what);
/* The same, and no worker is on the device. */
vyc_status vyc__communicator_may_run(vyc_communicator *communicator, const char *what);
void vyc__collective_graph_add(vyc_collective_graph *graph);
void vyc__collective_graph_remove(vyc_collective_graph *graph);
/* End the driver's graphs of all; false: some were in use for as long as
 * VYC_COLLECTIVE_GRAPHS_PATIENCE_NS.
 */
bool vyc__collective_graphs_end(vyc_communicator *communicator);

/* ---- captured.c ---- */

typedef struct vyc_ends { /* nodes of a driver graph that others follow */
  CUgraphNode *nodes;
  uint32_t count;
} vyc_ends;

/* The capture of all collectives of a driver graph, of zeros at first. It stays open until the
 * graph is full, because NCCL cannot be captured into one graph twice: a second capture has the
 * first one's number, by which NCCL finds streams that no longer capture. */
typedef struct vyc_capturing {
  vyc_context *context;
  CUstream stream;
  bool is_open;
} vyc_capturing;

/* Make nodes behind others of a driver graph, and behind those of the capture so far, and list
 * those that have what follows behind them; the caller frees ends_out->nodes. NCCL may wait here
 * for the other ranks to do the same. Those in one shot are kernel nodes, before NCCL's; their
 * number is in one_shots_out. */
vyc_status vyc__collectives_capture(vyc_communicator *communicator, vyc_capturing *capturing,
                                    vyc_ends *ends_out, uint32_t *one_shots_out, CUgraph into,
                                    const vyc_ends *behind, const vyc_collective *all,
                                    uint32_t count);
/* The graph is full, or `status` says why not; returns the first failure. */
vyc_status vyc__collectives_captured(vyc_capturing *capturing, vyc_status status);
/* They were given to the stream, in a graph. */
void vyc__collectives_launched(vyc_communicator *communicator, const vyc_collective *all,
                               uint32_t count, CUstream stream);

/* ---- communicator.c ---- */

/* For a close: a close of the context waits for it; where that was first, it ends what is left, and
 * this is false. */
bool vyc__communicator_enter(vyc_context *context, vyc_scope *scope);

/* ---- one_shot.c ---- */

/* Whether it goes in one shot, as the limit is now. */
bool vyc__one_shot_takes(const vyc_communicator *communicator, const vyc_collective *collective);
/* The caller holds the lock. */
vyc_status vyc__one_shot_give(vyc_communicator *communicator, const vyc_collective *collective,
                              CUstream stream);
/* The same as a node of a driver graph. */
vyc_status vyc__one_shot_node(vyc_communicator *communicator, CUgraphNode *node_out, CUgraph into,
                              const vyc_ends *behind, const vyc_collective *collective,
                              uint64_t bytes);
/* Before a graph with so many such nodes is given to the stream, and, if that has not failed,
 * after; `is_launched`: the driver has not refused it. */
vyc_status vyc__one_shots_begin(vyc_communicator *communicator, uint64_t calls, CUstream stream);
vyc_status vyc__one_shots_end(vyc_communicator *communicator, uint64_t calls, bool is_launched,
                              CUstream stream);

/* ---- inboxes.c ---- */

/* Its kernels on this device end, with unspecified results. */
void vyc__one_shot_stop(vyc_communicator *communicator);
/* When the communicator is destroyed, while the driver may be called, and when it is freed;
 * `is_free`: no graph has its kernels any more; `scope` is that of the caller, NULL: a close of the
 * context, or a release. */
void vyc__one_shot_close(vyc_communicator *communicator, bool is_free, const vyc_scope *scope);
void vyc__one_shot_free(vyc_communicator *communicator);

#endif
