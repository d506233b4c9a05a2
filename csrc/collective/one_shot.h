/* What the files of small all-reduces share: the group that ranks are in, and what each has. */
#ifndef VYC_COLLECTIVE_ONE_SHOT_H
#define VYC_COLLECTIVE_ONE_SHOT_H

#include "kernel/room.h"
#include "room.h"

#define VYC_ONE_SHOT_RANKS 8u
#define VYC_ONE_SHOT_TYPES ((uint32_t)VYC_ELEMENT_BF16 + 1)
#define VYC_ONE_SHOT_OPS ((uint32_t)VYC_COMBINE_MIN + 1)
#define VYC_ONE_SHOT_OTHERS 5u /* parameters: x, out, own, epochs, ended */

/* The word that the kernels of a rank see (distributed/one_shot_program.py). */
#define VYC_WORD_RUNS 0u
#define VYC_WORD_ENDS 1u /* they do not wait for other ranks any more, */
#define VYC_WORD_CUT 2u /* and one has ended without their elements */

/* One for all ranks of a group. */
typedef struct vyc_inboxes {
  _Atomic uint32_t references;
  uint32_t size;
  struct {
    vyc_context *context;
    _Atomic bool ended; /* no launch begins any more: it leaves, or another rank has left */
    _Atomic uint32_t launching; /* threads that may not have seen that */
    _Atomic uint64_t calls; /* also those that a thread launches */
    uint64_t inbox;
    vyc_claim claim; /* guards the rest */
    uint32_t *word; /* NULL: it has left */
    bool is_told; /* its kernels were told that a rank which they need has left */
  } ranks[VYC_ONE_SHOT_RANKS];
} vyc_inboxes;

/* Of one type and operation. */
typedef struct vyc_one_shot_kernel {
  vyc_prepared *prepared;
  bool is_known; /* launched once, without a graph */
  uint8_t *block; /* for the next launch */
  vyc_launch_graph launch_graph; /* its pointers and its block follow, and then `block` */
} vyc_one_shot_kernel;

struct vyc_one_shot { /* guarded by the lock of the communicator */
  vyc_inboxes *group;
  vyc_block *memory, *word; /* inbox and epochs; if the inbox is shared, epochs alone */
  CUdeviceptr shared; /* the inbox, which other processes open; 0: they do not */
  CUdeviceptr opened[VYC_ONE_SHOT_RANKS]; /* those of other processes */
  bool is_connected; /* all inboxes are known */
  bool is_alone; /* no other process has `shared` any more */
  uint64_t epochs, most_bytes, inbox_bytes;
  _Atomic uint64_t limit; /* bytes of an array; 0: none is reduced so */
  vyc_one_shot_kernel *kernels[VYC_ONE_SHOT_TYPES * VYC_ONE_SHOT_OPS];
  bool is_used; /* there was a launch, */
  bool is_ordered; /* and `order` was recorded behind it; else it was on the context's own stream */
  CUevent order; /* NULL: not needed yet */
};

/* Bytes of an inbox: two halves. */
static inline uint64_t vyc__inbox_bytes(uint64_t most_bytes, uint32_t size) {
  return 2 * size * (most_bytes / sizeof(uint32_t)) * sizeof(uint64_t);
}

/* Whether there can be inboxes of that many bytes for all ranks of the communicator. */
vyc_status vyc__one_shot_check(const vyc_communicator *communicator, uint64_t most_bytes);

/* ---- inboxes.c ---- */

/* Its own kernels end; whether they have. Later launches are refused. `scope`: see
 * vyc__one_shot_close. */
bool vyc__one_shot_end(vyc_communicator *communicator, vyc_one_shot *one_shot,
                       const vyc_scope *scope);

/* ---- shared.c ---- */

/* Give back the memory of other processes, and what these had, if they do not have it any more. */
void vyc__shared_close(vyc_context *context, vyc_one_shot *one_shot);
void vyc__shared_free(vyc_context *context, vyc_one_shot *one_shot);

static inline uint64_t vyc__epoch_bytes(uint64_t most_bytes) {
  return most_bytes / VYC_ONE_SHOT_BLOCK_BYTES * sizeof(uint32_t);
}

#endif
