/* Calls of NCCL that wait for other ranks without a limit: the begin of a communicator, and also
 * its end, even by an abort, because ranks of one machine end together; and what first needs ranks
 * to be connected. Each is made by a thread of its own; a caller that runs out of time leaves that
 * thread behind with a begin or an end, and it cleans up if the call ever returns. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "room.h"

struct vyc_nccl_call {
  vyc_nccl_call_kind kind;
  const vyc_nccl *nccl;
  const vyc_driver *driver;
  CUcontext handle;
  vyc_nccl_id id; /* of a begin, as are the next */
  int rank, size;
  int (*give)(void *data); /* what is given, as is the next */
  void *data;
  pthread_mutex_t lock; /* guards the rest */
  pthread_cond_t over;
  bool is_over, is_left;
  int result;
  vyc_nccl_comm comm;
};

static _Atomic uint32_t ends; /* of communicators, from which NCCL has not returned */
static _Atomic int64_t ends_patience; /* the longest time limit of their contexts */

static bool is_end(const vyc_nccl_call *call) {
  return call->kind == VYC_NCCL_DESTROY || call->kind == VYC_NCCL_ABORT;
}

static void free_call(vyc_nccl_call *call) {
  pthread_cond_destroy(&call->over);
  pthread_mutex_destroy(&call->lock);
  free(call);
}

static int make(const vyc_nccl_call *call, vyc_nccl_comm *comm) {
  if (call->driver->cuCtxSetCurrent(call->handle) != CUDA_SUCCESS) return 1;
  switch (call->kind) {
  case VYC_NCCL_BEGIN: return call->nccl->ncclCommInitRank(comm, call->size, call->id, call->rank);
  case VYC_NCCL_DESTROY: return call->nccl->ncclCommDestroy(*comm);
  case VYC_NCCL_GIVE: return call->give(call->data);
  default: return call->nccl->ncclCommAbort(*comm);
  }
}

static void *run(void *data) {
  vyc_nccl_call *call = data;
  vyc_nccl_comm comm = call->comm;
  const int result = make(call, &comm);
  if (is_end(call)) atomic_fetch_sub(&ends, 1);
  pthread_mutex_lock(&call->lock);
  call->result = result;
  call->comm = comm;
  call->is_over = true;
  const bool is_left = call->is_left;
  pthread_cond_signal(&call->over);
  pthread_mutex_unlock(&call->lock);
  if (!is_left) return NULL;
  if (call->kind == VYC_NCCL_BEGIN && result == VYC_NCCL_SUCCESS) call->nccl->ncclCommAbort(comm);
  free_call(call);
  return NULL;
}

static vyc_nccl_call *new_call(vyc_nccl_call_kind kind, vyc_context *context,
                               const vyc_nccl *nccl) {
  vyc_nccl_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  call->kind = kind;
  call->nccl = nccl;
  call->driver = context->driver;
  call->handle = context->handle;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&call->over, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&call->lock, NULL);
  return call;
}

static bool start(vyc_nccl_call *call) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, call) != 0) {
    free_call(call);
    return false;
  }
  pthread_detach(thread);
  return true;
}

vyc_nccl_call *vyc__nccl_begin(vyc_context *context, const vyc_nccl *nccl, const uint8_t *id,
                               int32_t rank, int32_t size) {
  vyc_nccl_call *call = new_call(VYC_NCCL_BEGIN, context, nccl);
  if (call == NULL) return NULL;
  memcpy(call->id.bytes, id, sizeof call->id.bytes);
  call->rank = rank;
  call->size = size;
  return start(call) ? call : NULL;
}

static void allow(int64_t patience_ns) {
  int64_t before = atomic_load(&ends_patience);
  while (before < patience_ns &&
         !atomic_compare_exchange_weak(&ends_patience, &before, patience_ns)) {
  }
}

vyc_nccl_call *vyc__nccl_end(vyc_nccl_call_kind kind, vyc_context *context, const vyc_nccl *nccl,
                             vyc_nccl_comm comm) {
  vyc_nccl_call *call = new_call(kind, context, nccl);
  if (call == NULL) return NULL;
  call->comm = comm;
  allow(vyc__patience(context));
  atomic_fetch_add(&ends, 1);
  if (start(call)) return call;
  atomic_fetch_sub(&ends, 1);
  return NULL;
}

vyc_nccl_call *vyc__nccl_other(vyc_context *context, const vyc_nccl *nccl, int (*give)(void *data),
                               void *data) {
  vyc_nccl_call *call = new_call(VYC_NCCL_GIVE, context, nccl);
  if (call == NULL) return NULL;
  call->give = give;
  call->data = data;
  return start(call) ? call : NULL;
}

bool vyc__nccl_await_ends(int64_t most_ns) {
  int64_t patience = atomic_load(&ends_patience);
  if (patience < VYC_NCCL_LEAST_PATIENCE_NS) patience = VYC_NCCL_LEAST_PATIENCE_NS;
  const uint64_t limit = vyc__now_ns() + (uint64_t)(patience < most_ns ? patience : most_ns);
  while (atomic_load(&ends) != 0 && vyc__now_ns() < limit) vyc__sleep_us(1000);
  return atomic_load(&ends) == 0;
}

static struct timespec at_limit(int64_t timeout_ns) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  const int64_t ns = at.tv_nsec + timeout_ns % 1000000000;
  at.tv_sec += timeout_ns / 1000000000 + ns / 1000000000;
  at.tv_nsec = ns % 1000000000;
  return at;
}

/* The lock is held. */
static bool await_end(vyc_nccl_call *call, int64_t timeout_ns) {
  const struct timespec limit = at_limit(timeout_ns < 0 ? 0 : timeout_ns);
  int error = 0;
  while (!call->is_over && error == 0)
    error = timeout_ns < 0 ? pthread_cond_wait(&call->over, &call->lock)
                           : pthread_cond_timedwait(&call->over, &call->lock, &limit);
  return call->is_over;
}

bool vyc__nccl_is_over(vyc_nccl_call *call, int64_t timeout_ns) {
  pthread_mutex_lock(&call->lock);
  const bool is_over = await_end(call, timeout_ns);
  pthread_mutex_unlock(&call->lock);
  return is_over;
}

bool vyc__nccl_await(vyc_nccl_call *call, int64_t timeout_ns, int *result_out,
                     vyc_nccl_comm *comm_out) {
  pthread_mutex_lock(&call->lock);
  const bool is_over = await_end(call, timeout_ns);
  call->is_left = !is_over;
  *result_out = call->result;
  *comm_out = call->comm;
  pthread_mutex_unlock(&call->lock);
  if (is_over) free_call(call);
  return is_over;
}
