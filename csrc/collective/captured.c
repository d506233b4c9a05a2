/* Collectives in graphs: NCCL's work as nodes of a driver graph that is being built, and which
 * graphs have a communicator's work. These end before the communicator: NCCL's own end waits for
 * the driver graphs that it was captured into. */
#include <stdlib.h>

#include "room.h"

/* ---- making nodes --------------------------------------------------------------------------- */

vyc_status vyc__captured_check(const vyc_context *context) {
  const vyc_driver *driver = context->driver;
  if (driver->cuStreamBeginCaptureToGraph != NULL && driver->cuStreamGetCaptureInfo != NULL)
    return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "recorded_collectives",
                   "collectives in graphs need a driver for CUDA 12.3 or later; this one is for "
                   "CUDA %d.%d",
                   driver->version / 1000, driver->version % 1000 / 10);
}

vyc_status vyc__communicator_check(vyc_communicator *c, const char *what) {
  if (atomic_load(&c->closed)) return vyc__fail(VYC_E_INVALID, what, "the communicator is closed");
  return atomic_load(&c->ended) ? vyc__context_fail_broken(c->child.context, what) : VYC_OK;
}

vyc_status vyc__communicator_may_run(vyc_communicator *c, const char *what) {
  vyc_context *context = c->child.context;
  if (VYC_UNLIKELY(atomic_load(&context->worker_count) != 0) &&
      context->above->workers_may_run(context))
    return vyc__fail(VYC_E_INVALID, what,
                     "a worker is on device %d, and each could wait for the other: pause the "
                     "worker, or close it",
                     context->caps.ordinal);
  return vyc__communicator_check(c, what);
}

/* The lock is held, and the stream captures. */
static vyc_status give_all(vyc_communicator *c, const vyc_collective *all, uint32_t count) {
  const vyc_nccl *nccl = c->nccl;
  int result = nccl->ncclGroupStart();
  for (uint32_t i = 0; result == VYC_NCCL_SUCCESS && i < count; i++)
    result = vyc__nccl_give(c, &all[i], c->capturing);
  const int end = nccl->ncclGroupEnd();
  if (result == VYC_NCCL_SUCCESS) result = end;
  if (result == VYC_NCCL_SUCCESS) return VYC_OK;
  VYC_TRY(vyc__communicator_check(c, "graph")); /* it was ended meanwhile, and that is why */
  return vyc__nccl_failed(nccl, result, "ncclGroupEnd");
}

static vyc_status take_ends(vyc_context *context, CUstream stream, vyc_ends *ends_out) {
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = NULL;
  size_t count = 0;
  CUgraph into = NULL;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuStreamGetCaptureInfo, stream, &state, NULL, &into, &nodes, &count));
  if (state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return vyc__driver_failed(context, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                              "cuStreamGetCaptureInfo");
  ends_out->nodes = malloc((count + 1) * sizeof *ends_out->nodes);
  if (ends_out->nodes == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  if (count > 0) memcpy(ends_out->nodes, nodes, count * sizeof *nodes);
  ends_out->count = (uint32_t)count;
  return VYC_OK;
}

static vyc_status end_capture(vyc_context *context, CUstream stream, vyc_status status) {
  CUgraph into = NULL;
  VYC_CU_RESULT;
  if (status == VYC_OK) return VYC_CU(context, cuStreamEndCapture, stream, &into);
  vyc__record_keep();
  context->driver->cuStreamEndCapture(stream, &into);
  vyc__record_resume();
  return status;
}

/* The lock is held. */
static vyc_status capture(vyc_communicator *c, vyc_ends *ends_out, CUgraph into,
                          const vyc_ends *behind, const vyc_collective *all, uint32_t count) {
  vyc_context *context = c->child.context;
  VYC_CU_RESULT;
  VYC_TRY(vyc__communicator_may_run(c, "graph"));
  if (c->capturing == NULL)
    VYC_TRY(VYC_CU(context, cuStreamCreate, &c->capturing, CU_STREAM_NON_BLOCKING));
  VYC_TRY(VYC_CU(context, cuStreamBeginCaptureToGraph, c->capturing, into,
                 behind->count == 0 ? NULL : behind->nodes, NULL, behind->count,
                 CU_STREAM_CAPTURE_MODE_RELAXED));
  atomic_store_explicit(&c->call_began_ns, vyc__now_ns(), memory_order_relaxed);
  vyc_status status = give_all(c, all, count);
  atomic_store_explicit(&c->call_began_ns, 0, memory_order_relaxed);
  if (status == VYC_OK) status = take_ends(context, c->capturing, ends_out);
  status = end_capture(context, c->capturing, status);
  if (status == VYC_OK) return VYC_OK;
  free(ends_out->nodes);
  *ends_out = (vyc_ends){0};
  return status;
}

vyc_status vyc__collectives_capture(vyc_communicator *c, vyc_ends *ends_out, CUgraph into,
                                    const vyc_ends *behind, const vyc_collective *all,
                                    uint32_t count) {
  *ends_out = (vyc_ends){0};
  pthread_mutex_lock(&c->lock);
  const vyc_status status = capture(c, ends_out, into, behind, all, count);
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* ---- launches ------------------------------------------------------------------------------- */

void vyc__collectives_launched(vyc_communicator *c, const vyc_collective *all, uint32_t count,
                               CUstream stream) {
  pthread_mutex_lock(&c->lock);
  for (uint32_t i = 0; i < count; i++) vyc__collective_note(c, &all[i], stream);
  pthread_mutex_unlock(&c->lock);
}

/* ---- the graphs of a communicator ----------------------------------------------------------- */

void vyc__captor_add(vyc_captor *captor) {
  vyc_communicator *c = captor->communicator;
  pthread_mutex_lock(&c->captors_lock);
  captor->next = c->captors;
  c->captors = captor;
  pthread_mutex_unlock(&c->captors_lock);
}

void vyc__captor_remove(vyc_captor *captor) {
  vyc_communicator *c = captor->communicator;
  pthread_mutex_lock(&c->captors_lock);
  vyc_captor **link = &c->captors;
  while (*link != NULL && *link != captor) link = &(*link)->next;
  if (*link != NULL) *link = captor->next; /* else the communicator has ended it */
  pthread_mutex_unlock(&c->captors_lock);
}

/* Whether none is left. Nothing waits while the lock is held: a graph that is in use is tried again
 * later. */
static bool end_some(vyc_communicator *c) {
  pthread_mutex_lock(&c->captors_lock);
  vyc_captor **link = &c->captors;
  while (*link != NULL) {
    vyc_captor *captor = *link;
    if (captor->end(captor))
      *link = captor->next;
    else
      link = &captor->next;
  }
  const bool are_gone = c->captors == NULL;
  pthread_mutex_unlock(&c->captors_lock);
  return are_gone;
}

bool vyc__captors_end(vyc_communicator *c) {
  const uint64_t limit = vyc__now_ns() + VYC_CAPTORS_PATIENCE_NS;
  while (!end_some(c)) {
    if (vyc__now_ns() >= limit) return false;
    vyc__sleep_us(100);
  }
  return true;
}
