/* The functions of libnccl.so.2 that are called, declared here: its header is not needed to build.
 * Numbers and signatures are those of NCCL 2.10 and later. */
#ifndef VYC_NCCL_H
#define VYC_NCCL_H

#include <stddef.h>
#include <stdint.h>

#include "memory/room.h"

typedef struct ncclComm *vyc_nccl_comm;
typedef struct vyc_nccl_id {
  char bytes[VYC_COMMUNICATOR_ID_BYTES];
} vyc_nccl_id;

enum { VYC_NCCL_SUCCESS = 0, VYC_NCCL_IN_PROGRESS = 7, VYC_NCCL_MINIMUM = 21000 };

#define VYC_NCCL_TABLE(X)                                                                          \
  X(ncclGetVersion, (int *version))                                                                \
  X(ncclGetUniqueId, (vyc_nccl_id * id))                                                           \
  X(ncclCommInitRank, (vyc_nccl_comm * comm, int size, vyc_nccl_id id, int rank))                  \
  X(ncclCommDestroy, (vyc_nccl_comm comm))                                                         \
  X(ncclCommAbort, (vyc_nccl_comm comm))                                                           \
  X(ncclCommGetAsyncError, (vyc_nccl_comm comm, int *error))                                       \
  X(ncclAllReduce, (const void *in, void *out, size_t count, int type, int op, vyc_nccl_comm comm, \
                    CUstream stream))                                                              \
  X(ncclAllGather,                                                                                 \
    (const void *in, void *out, size_t count, int type, vyc_nccl_comm comm, CUstream stream))      \
  X(ncclReduceScatter, (const void *in, void *out, size_t count, int type, int op,                 \
                        vyc_nccl_comm comm, CUstream stream))                                      \
  X(ncclBroadcast, (const void *in, void *out, size_t count, int type, int root,                   \
                    vyc_nccl_comm comm, CUstream stream))                                          \
  X(ncclSend,                                                                                      \
    (const void *in, size_t count, int type, int peer, vyc_nccl_comm comm, CUstream stream))       \
  X(ncclRecv, (void *out, size_t count, int type, int peer, vyc_nccl_comm comm, CUstream stream))  \
  X(ncclGroupStart, (void))                                                                        \
  X(ncclGroupEnd, (void))

typedef struct vyc_nccl {
#define VYC_NCCL_POINTER(name, arguments) int(*name) arguments;
  VYC_NCCL_TABLE(VYC_NCCL_POINTER)
#undef VYC_NCCL_POINTER
  const char *(*ncclGetErrorString)(int result);
  const char *(*ncclGetLastError)(vyc_nccl_comm comm); /* NULL: older than 2.13 */
  int version;
} vyc_nccl;

/* NULL: it was not opened. */
const vyc_nccl *vyc__nccl(void);
/* The failure of a call, recorded: VYC_E_COMMUNICATION. */
vyc_status vyc__nccl_failed(const vyc_nccl *nccl, int result, const char *function);

#endif
