/* Collective communication of several devices, by NCCL.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_COLLECTIVE_H
#define VYRE_CUDA_COLLECTIVE_H

#include "memory.h"
#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- collectives ---------------------------------------------------------------------------- */

typedef struct vyc_communicator vyc_communicator;

enum { VYC_COMMUNICATOR_ID_BYTES = 128 };

/* Open libnccl.so.2, from `path` or (NULL) where the loader finds it, once for the process; later
 * calls need no path. VYC_E_UNSUPPORTED: it cannot be opened, or is older than 2.10. */
VYC_API vyc_status vyc_nccl_open(const char *path);
/* Its version: major * 10000 + minor * 100 + patch. VYC_E_UNSUPPORTED: it was not opened. */
VYC_API vyc_status vyc_nccl_version(int32_t *version_out);
typedef int (*vyc_nccl_question)(void);
/* NCCL connects ranks when they first need it, and keeps a call of vyc_communicator_run or
 * vyc_collectives_end, or one that makes a graph, until the others make theirs. Meanwhile the
 * calling thread calls `ask` some twenty times a second, without a lock of this library but that of
 * the graph; if that does not return 0, the communicator is ended (see vyc_communicator_abort), and
 * the call fails. NULL, as at first: NCCL's calls are made by the calling thread itself. */
VYC_API void vyc_nccl_ask(vyc_nccl_question ask);
/* Write the VYC_COMMUNICATOR_ID_BYTES bytes of a new group to id_out: one rank makes them, and all
 * get them before they create their communicators. VYC_E_UNSUPPORTED: NCCL was not opened.
 * VYC_E_COMMUNICATION: it failed. */
VYC_API vyc_status vyc_nccl_unique_id(uint8_t *id_out);

/* One member, `rank` (from 0) of `size`, of a group of devices that communicate, each with a
 * context of its own, here or in other processes; `id` is that of vyc_nccl_unique_id. It returns
 * when all have come. VYC_E_TIMEOUT: some had not after timeout_ns (negative: no limit).
 * VYC_E_UNSUPPORTED: NCCL was not opened, or the context is not on a primary CUcontext.
 * VYC_E_COMMUNICATION: NCCL refused it. */
VYC_API vyc_status vyc_communicator_create(vyc_communicator **communicator_out,
                                           vyc_context *context, const uint8_t *id, int32_t rank,
                                           int32_t size, int64_t timeout_ns);
/* Wait for the device's work, up to the context's time limit (vyc_context_set_patience), and end
 * the membership now; its work that has not ended by then is stopped, and leaves unspecified
 * values. Every later use of it fails with VYC_E_INVALID, except that closing it again does
 * nothing. Graphs that have its collectives are given up before, and cannot be launched any more.
 * NCCL ends the ranks of one machine together: its own end is waited for up to the same limit, and
 * for a second at least; where others stay in the group, its memory stays until they leave. */
VYC_API void vyc_communicator_close(vyc_communicator *communicator);
/* Whether this thread may close it. VYC_E_INVALID: the thread is inside a call of the communicator,
 * in the function that vyc_nccl_ask was given; a close there would end that call. */
VYC_API vyc_status vyc_communicator_may_close(const vyc_communicator *communicator);
/* Report that a rank of the group has ended. NCCL ends the ranks of one machine together, so its
 * own end may never come: a close, also one that another thread is in, waits for it at most a
 * second. */
VYC_API void vyc_communicator_left(vyc_communicator *communicator);
/* The last reference closes it; graphs hold one. */
VYC_API void vyc_communicator_release(vyc_communicator *communicator);

enum { /* vyc_collective.kind */
       VYC_ALL_REDUCE = 0,     /* out[i] = combination of all ranks' in[i] */
       VYC_ALL_GATHER = 1,     /* out: each rank's `count` elements, by rank */
       VYC_REDUCE_SCATTER = 2, /* out: the rank's `count` elements of the combination */
       VYC_BROADCAST = 3,      /* out = in of rank `peer` */
       VYC_ALL_TO_ALL = 4,     /* out: `count` elements from each rank, in: as many for each */
       VYC_SEND = 5,           /* in, to rank `peer` */
       VYC_RECEIVE = 6         /* out, from rank `peer` */
};

enum { /* vyc_collective.op */
       VYC_COMBINE_ADD = 0,
       VYC_COMBINE_MULTIPLY = 1,
       VYC_COMBINE_MAX = 2,
       VYC_COMBINE_MIN = 3
};

enum { /* vyc_collective.type: NCCL's numbers */
       VYC_ELEMENT_I8 = 0,
       VYC_ELEMENT_U8 = 1,
       VYC_ELEMENT_I32 = 2,
       VYC_ELEMENT_U32 = 3,
       VYC_ELEMENT_I64 = 4,
       VYC_ELEMENT_U64 = 5,
       VYC_ELEMENT_F16 = 6,
       VYC_ELEMENT_F32 = 7,
       VYC_ELEMENT_F64 = 8,
       VYC_ELEMENT_BF16 = 9
};

typedef struct vyc_collective {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t type;
  uint32_t op;
  int32_t peer;
  uint32_t reserved;
  uint64_t count; /* elements; see the kinds */
  vyc_buffer *in; /* NULL: VYC_RECEIVE */
  uint64_t in_offset; /* bytes */
  vyc_buffer *out; /* NULL: VYC_SEND */
  uint64_t out_offset; /* bytes */
  vyc_stream *stream; /* NULL: in call order */
} vyc_collective;

/* Give a collective to the stream, as a launch there, and return. `in` and `out` are the same
 * memory (of a gather and a scatter: the rank's part), or apart; an all-to-all, a send and a
 * receive need memory apart. All ranks must make the same calls in the same order. VYC_E_INVALID: a
 * worker is on the device, which could wait for the collective while that waits for it; pause it.
 * VYC_E_COMMUNICATION: NCCL failed, or the communicator was ended, see vyc_communicator_abort. */
VYC_API vyc_status vyc_communicator_run(vyc_communicator *communicator,
                                        const vyc_collective *collective);
/* Whether a collective can be a step of a graph: the status that vyc_graph_add_collectives would
 * return. NULL: that of the next vyc_communicator_run, or of the launch of a graph that has some.
 */
VYC_API vyc_status vyc_communicator_check(vyc_communicator *communicator,
                                          const vyc_collective *collective);
/* Begin a group: until its end the calling thread's collectives, also of several communicators, are
 * only noted. A thread that has several devices must group what they do together. Groups nest.
 * VYC_E_UNSUPPORTED: NCCL was not opened. */
VYC_API vyc_status vyc_collectives_begin(void);
/* End it. The end of the outermost group gives all that was noted to its streams; on failure, with
 * a status of vyc_communicator_run, some may have been given, and the group has ended all the same.
 * VYC_E_INVALID: the thread has begun none. */
VYC_API vyc_status vyc_collectives_end(void);
#define VYC_MOST_TOGETHER 32u /* the most devices whose work waits for each other */
/* A group of one collective for each communicator, which are of different devices, up to
 * VYC_MOST_TOGETHER. Statuses as for vyc_communicator_run; VYC_E_INVALID for what that would
 * refuse, before any is given. A group that the thread has begun is cancelled on failure. Other
 * threads may copy between the devices meanwhile: a copy is behind all parts, or none. Parts that
 * are given by several calls have no such order. */
VYC_API vyc_status vyc_collectives_run(vyc_communicator *const *communicators,
                                       const vyc_collective *collectives, uint32_t count);
/* Forget what was noted since the outermost beginning, and end all groups of the thread: for a
 * group of which a call was refused, because a part of it would wait for the rest. VYC_E_INVALID:
 * the thread has begun none. */
VYC_API vyc_status vyc_collectives_cancel(void);

typedef struct vyc_communicator_state {
  uint32_t struct_size;
  uint32_t is_ended; /* aborted */
  uint64_t issued; /* collectives given to streams so far */
  uint64_t digest; /* of their kinds, types, ops and sizes, in order */
  uint64_t waiting_ns; /* how long the oldest work known of has not ended; 0: all has */
  uint32_t last_kind, last_type;
  uint64_t last_count;
  int32_t error; /* ncclResult_t of work that failed, 0: none */
  uint32_t last_op;
  int32_t last_peer;
  uint32_t reserved;
} vyc_communicator_state;

/* How far the communicator is, for a thread that watches and asks every so often: each call makes
 * an event behind the work given since the last one. While another thread is inside a call of NCCL,
 * waiting_ns is how long that call has taken, and what is noted of it counts as given. */
VYC_API vyc_status vyc_communicator_watch(vyc_communicator *communicator,
                                          vyc_communicator_state *state_out);
/* End it now, also while another thread is inside a call: its work on the device stops and leaves
 * unspecified values. From then on all of its collectives, and until the context's last
 * communicator has been closed also waits for the context, its streams, events and fences and
 * copies to host memory, fail with VYC_E_COMMUNICATION and `message`. Ending it again does nothing.
 */
VYC_API vyc_status vyc_communicator_abort(vyc_communicator *communicator, const char *message);

/* ---- small all-reduces ----------------------------------------------------------------------- */

enum { VYC_ONE_SHOT_BLOCK_BYTES = 2048 /* of elements, which a block of their kernels reduces */ };

/* Give the members, all ranks of a group in this process, by rank, memory for small all-reduces,
 * which then need no NCCL: for arrays of up to most_bytes, a multiple of VYC_ONE_SHOT_BLOCK_BYTES.
 * It waits for the devices. VYC_E_UNSUPPORTED: they cannot access each other's memory, belong to
 * two drivers, or are more than 8. */
VYC_API vyc_status vyc_one_shot_open(vyc_communicator *const *members, uint32_t count,
                                     uint64_t most_bytes);
enum { VYC_INBOX_HANDLE_BYTES = 64 };
/* The same for ranks of several processes of one machine, in two steps. A rank makes its memory and
 * a handle of it (CUDA IPC), VYC_INBOX_HANDLE_BYTES bytes, which the caller takes to the others.
 * VYC_E_UNSUPPORTED: the device cannot share memory, or there are more than 8 ranks. */
VYC_API vyc_status vyc_one_shot_share(vyc_communicator *communicator, uint64_t most_bytes,
                                      uint8_t *handle_out);
/* The memory of the others, from the handles of all ranks, by rank. VYC_E_UNSUPPORTED: this device
 * cannot access that of another one. */
VYC_API vyc_status vyc_one_shot_connect(vyc_communicator *communicator, const uint8_t *handles);
/* Wait for the device's work, up to the context's time limit, and give back what was connected;
 * small all-reduces of this rank fail from then on. To be called before the communicator is closed;
 * without vyc_one_shot_share it does nothing. */
VYC_API void vyc_one_shot_leave(vyc_communicator *communicator);
/* Say that all ranks have left, so that the close gives back what this one shares; without this it
 * stays allocated until the context ends. */
VYC_API void vyc_one_shot_left(vyc_communicator *communicator);
/* The member's kernel for a type (VYC_ELEMENT_...) and an operation (VYC_COMBINE_...), from
 * distributed/one_shot_program.py; it is held. Further ones for the same do nothing. VYC_E_INVALID:
 * the member has no memory for small all-reduces. */
VYC_API vyc_status vyc_one_shot_add(vyc_communicator *communicator, uint32_t type, uint32_t op,
                                    vyc_prepared *prepared);
/* From now on all-reduces of up to `bytes` bytes (at first 0) go this way, and need such a kernel.
 * All ranks must say the same between the same two calls. VYC_E_INVALID: more than most_bytes, or
 * not connected yet. */
VYC_API vyc_status vyc_one_shot_limit(vyc_communicator *communicator, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
