/* Collectives: work of several devices that communicate, by NCCL. */
#ifndef VYC_COLLECTIVE_ROOM_H
#define VYC_COLLECTIVE_ROOM_H

#include "memory/room.h"
#include "nccl.h"

typedef struct vyc_one_shot vyc_one_shot; /* see one_shot.h */

struct vyc_communicator {
  vyc_child child;
  const vyc_nccl *nccl;
  vyc_nccl_comm comm;
  int32_t rank, size;
  pthread_mutex_t lock; /* NCCL allows one call at a time; held over its calls, which do not wait */
  _Atomic bool ended; /* aborted; `comm` is gone then */
  _Atomic uint64_t call_began_ns; /* of the call that holds the lock; 0: none */
  uint64_t issued, digest; /* guarded by the lock, as is the rest */
  uint64_t seen; /* `issued` when `event` was recorded */
  CUstream last_stream;
  uint32_t last_kind, last_type;
  uint64_t last_count;
  CUevent event; /* NULL: not made yet */
  bool is_watched; /* the event was recorded and is not known to have been reached */
  uint64_t since_ns; /* when it was recorded */
  _Atomic(vyc_one_shot *) one_shot; /* NULL: all goes by NCCL */
};

/* ---- collective.c ---- */

/* The checks of a collective, and NCCL's call of it on a stream, without anything else. */
vyc_status vyc__collective_check(const vyc_communicator *communicator,
                                 const vyc_collective *collective);
vyc_status vyc__collective_give(vyc_communicator *communicator, const vyc_collective *collective,
                                CUstream stream);

/* ---- one_shot.c ---- */

/* Whether all-reduces of so many bytes go in one shot. */
bool vyc__one_shot_takes(vyc_communicator *communicator, uint64_t bytes);
/* The caller holds the lock. */
vyc_status vyc__one_shot_give(vyc_communicator *communicator, const vyc_collective *collective,
                              uint64_t bytes, CUstream stream);

/* ---- inboxes.c ---- */

/* Its kernels on this device end, with unspecified results. */
void vyc__one_shot_stop(vyc_communicator *communicator);
/* When the communicator is destroyed, while the driver may be called, and when it is freed. */
void vyc__one_shot_close(vyc_communicator *communicator);
void vyc__one_shot_free(vyc_communicator *communicator);

#endif
