/* Collectives in graphs: NCCL's work as nodes of a driver graph that is being built. */
#include <stdlib.h>

#include "base/capture_mode.h"
#include "room.h"

/* ---- making nodes --------------------------------------------------------------------------- */

/* The stream captures. */
static vyc_status give_all(vyc_communicator *c, const vyc_collective *all, uint32_t count,
                           CUstream stream) {
  const vyc_nccl *nccl = c->nccl;
  VYC_TRY(vyc__communicator_check(c, "graph"));
  int result = nccl->ncclGroupStart();
  for (uint32_t i = 0; result == VYC_NCCL_SUCCESS && i < count; i++)
    result = vyc__nccl_give(c, &all[i], stream);
  const int end = nccl->ncclGroupEnd();
  if (result == VYC_NCCL_SUCCESS) result = end;
  if (result == VYC_NCCL_SUCCESS) return VYC_OK;
  VYC_TRY(vyc__communicator_check(c, "graph")); /* if it was ended meanwhile, that is the reason */
  return vyc__nccl_failed(nccl, result, "ncclGroupEnd");
}

/* What follows the capture so far; valid until the next call of the driver for it. */
static vyc_status look_up(const vyc_capturing *capturing, vyc_ends *found_out) {
  vyc_context *context = capturing->context;
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = NULL;
  size_t count = 0;
  CUgraph into = NULL;
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuStreamGetCaptureInfo, capturing->stream, &state, NULL, &into, &nodes,
                 &count));
  if (state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return vyc__driver_failed(context, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                              "cuStreamGetCaptureInfo");
  *found_out = (vyc_ends){(CUgraphNode *)nodes, (uint32_t)count};
  return VYC_OK;
}

static vyc_status take_ends(const vyc_capturing *capturing, vyc_ends *ends_out) {
  vyc_ends found;
  VYC_TRY(look_up(capturing, &found));
  ends_out->nodes = malloc((found.count + 1) * sizeof *ends_out->nodes);
  if (ends_out->nodes == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  if (found.count > 0) memcpy(ends_out->nodes, found.nodes, found.count * sizeof *found.nodes);
  ends_out->count = found.count;
  return VYC_OK;
}

static vyc_status open_capture(vyc_capturing *capturing, vyc_context *context, CUgraph into,
                               const vyc_ends *behind) {
  VYC_CU_RESULT;
  capturing->context = context;
  VYC_TRY(VYC_CU(context, cuStreamCreate, &capturing->stream, CU_STREAM_NON_BLOCKING));
  VYC_TRY(VYC_CU(context, cuStreamBeginCaptureToGraph, capturing->stream, into,
                 behind->count == 0 ? NULL : behind->nodes, NULL, behind->count,
                 CU_STREAM_CAPTURE_MODE_RELAXED));
  capturing->is_open = true;
  return VYC_OK;
}

static bool has(const vyc_ends *all, CUgraphNode node) {
  for (uint32_t i = 0; i < all->count; i++)
    if (all->nodes[i] == node) return true;
  return false;
}

/* What the capture does next follows these too. */
static vyc_status add_dependencies(const vyc_capturing *capturing, const vyc_ends *behind) {
  vyc_context *context = capturing->context;
  vyc_ends found;
  VYC_TRY(look_up(capturing, &found));
  CUgraphNode *more = malloc((behind->count + 1) * sizeof *more);
  if (more == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  size_t count = 0;
  for (uint32_t i = 0; i < behind->count; i++)
    if (!has(&found, behind->nodes[i])) more[count++] = behind->nodes[i];
  VYC_CU_RESULT;
  vyc_status status = VYC_OK;
  if (count > 0)
    status = VYC_CU(context, cuStreamUpdateCaptureDependencies, capturing->stream, more, count,
                    CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
  free(more);
  return status;
}

/* What another thread gives, with the record of its failure. */
typedef struct giving {
  vyc_communicator *communicator;
  const vyc_collective *all;
  uint32_t count;
  CUstream stream;
  vyc_error failure;
} giving;

static int give_apart(void *data) {
  giving *g = data;
  const vyc_driver *driver = g->communicator->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  const vyc_status status = give_all(g->communicator, g->all, g->count, g->stream);
  vyc__capture_restore(driver, mode);
  if (status != VYC_OK) vyc__error_save(&g->failure);
  return (int)status;
}

static vyc_status give_asking(vyc_communicator *c, const vyc_collective *all, uint32_t count,
                              CUstream stream) {
  giving *g = calloc(1, sizeof *g);
  if (g == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  *g = (giving){.communicator = c, .all = all, .count = count, .stream = stream};
  const vyc_status status = (vyc_status)vyc__give_asking(c, give_apart, g);
  if (status != VYC_OK) vyc__error_restore(&g->failure);
  free(g);
  return status;
}

/* The turn is this thread's. What NCCL does, behind `behind`; it may wait for other ranks. */
static vyc_status capture(vyc_communicator *c, vyc_capturing *capturing, vyc_ends *ends_out,
                          CUgraph into, const vyc_ends *behind, const vyc_collective *all,
                          uint32_t count) {
  VYC_TRY(capturing->is_open ? add_dependencies(capturing, behind)
                             : open_capture(capturing, c->child.context, into, behind));
  vyc__call_begins(c);
  const vyc_status status = give_asking(c, all, count, capturing->stream);
  vyc__call_ends(c);
  return status == VYC_OK ? take_ends(capturing, ends_out) : status;
}

/* What is for NCCL; `all` has room for each collective. */
typedef struct rest {
  vyc_collective *all;
  uint32_t count;
} rest;

/* The lock is held. Kernels one behind the other, since they count in the same memory; then
 * *last_out is the last of them. */
static vyc_status add_one_shots(vyc_communicator *c, CUgraphNode *last_out, uint32_t *one_shots_out,
                                CUgraph into, const vyc_ends *behind, const vyc_collective *all,
                                uint32_t count, rest *rest) {
  vyc_ends next = *behind;
  CUgraphNode node = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t bytes = vyc__collective_bytes(c, &all[i], false);
    if (!vyc__one_shot_takes(c, &all[i])) {
      rest->all[rest->count++] = all[i];
      continue;
    }
    if (bytes == 0) continue;
    VYC_TRY(vyc__one_shot_node(c, &node, into, &next, &all[i], bytes));
    *last_out = node;
    next = (vyc_ends){last_out, 1};
    (*one_shots_out)++;
  }
  return VYC_OK;
}

/* Those in one shot; what is for NCCL is put into `rest`. */
static vyc_status make_one_shots(vyc_communicator *c, CUgraphNode *last_out,
                                 uint32_t *one_shots_out, CUgraph into, const vyc_ends *behind,
                                 const vyc_collective *all, uint32_t count, rest *rest) {
  pthread_mutex_lock(&c->lock);
  vyc_status status = vyc__communicator_may_run(c, "graph");
  if (status == VYC_OK)
    status = add_one_shots(c, last_out, one_shots_out, into, behind, all, count, rest);
  pthread_mutex_unlock(&c->lock);
  return status;
}

static vyc_status list(vyc_ends *ends_out, const vyc_ends *ends) {
  ends_out->nodes = malloc((ends->count + 1) * sizeof *ends_out->nodes);
  if (ends_out->nodes == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  if (ends->count > 0) memcpy(ends_out->nodes, ends->nodes, ends->count * sizeof *ends->nodes);
  ends_out->count = ends->count;
  return VYC_OK;
}

static vyc_status capture_in_turn(vyc_communicator *c, vyc_capturing *capturing, vyc_ends *ends_out,
                                  CUgraph into, const vyc_ends *behind, const rest *rest) {
  const vyc_noted own = {.communicator = c};
  VYC_TRY(vyc__take_turns(&own, 1));
  const vyc_status status = capture(c, capturing, ends_out, into, behind, rest->all, rest->count);
  vyc__claim_drop(&c->turn);
  return status;
}

vyc_status vyc__collectives_capture(vyc_communicator *c, vyc_capturing *capturing,
                                    vyc_ends *ends_out, uint32_t *one_shots_out, CUgraph into,
                                    const vyc_ends *behind, const vyc_collective *all,
                                    uint32_t count) {
  CUgraphNode last = NULL;
  rest rest = {.all = malloc(count * sizeof *rest.all)};
  *ends_out = (vyc_ends){0};
  *one_shots_out = 0;
  if (rest.all == NULL) return vyc__fail(VYC_E_MEMORY, "graph", "out of host memory");
  vyc_status status = make_one_shots(c, &last, one_shots_out, into, behind, all, count, &rest);
  const vyc_ends after_kernels = {&last, 1};
  const vyc_ends *after = *one_shots_out > 0 ? &after_kernels : behind;
  if (status == VYC_OK)
    status = rest.count > 0 ? capture_in_turn(c, capturing, ends_out, into, after, &rest)
                            : list(ends_out, after);
  free(rest.all);
  return status;
}

static vyc_status end_capture(const vyc_capturing *capturing, vyc_status status) {
  vyc_context *context = capturing->context;
  CUgraph into = NULL;
  VYC_CU_RESULT;
  if (status == VYC_OK) return VYC_CU(context, cuStreamEndCapture, capturing->stream, &into);
  vyc__record_keep();
  context->driver->cuStreamEndCapture(capturing->stream, &into);
  vyc__record_resume();
  return status;
}

vyc_status vyc__collectives_captured(vyc_capturing *capturing, vyc_status status) {
  if (capturing->is_open) status = end_capture(capturing, status);
  if (capturing->stream != NULL) capturing->context->driver->cuStreamDestroy(capturing->stream);
  *capturing = (vyc_capturing){0};
  return status;
}

/* ---- launches ------------------------------------------------------------------------------- */

void vyc__collectives_launched(vyc_communicator *c, const vyc_collective *all, uint32_t count,
                               CUstream stream) {
  pthread_mutex_lock(&c->lock);
  for (uint32_t i = 0; i < count; i++) vyc__collective_note(c, &all[i], stream);
  pthread_mutex_unlock(&c->lock);
}
