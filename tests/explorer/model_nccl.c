/* A model of NCCL with one rank, in graphs: an all-reduce is a copy of eight bytes. As NCCL itself,
 * it waits for ever when a communicator is to end while a driver graph has its work. */
#define CUDA_NO_PROTOTYPE
#include "collective/nccl.h"
#include "model_parts.h"

struct ncclComm {
  bool live;
};

static vyc_nccl_comm comm_of(vyc_nccl_comm comm, const char *function) {
  if (!comm->live) explorer_fail("%s of a communicator that has ended", function);
  return comm;
}

static int model_ncclGetVersion(int *version) {
  *version = VYC_NCCL_MINIMUM;
  return VYC_NCCL_SUCCESS;
}

static int model_ncclGetUniqueId(vyc_nccl_id *id) {
  memset(id, 0, sizeof *id);
  return VYC_NCCL_SUCCESS;
}

static int model_ncclCommInitRank(vyc_nccl_comm *comm, int size, vyc_nccl_id id, int rank) {
  (void)size, (void)id, (void)rank;
  MAKES();
  *comm = take(sizeof **comm);
  (*comm)->live = true;
  the_model->live_comms++;
  return VYC_NCCL_SUCCESS;
}

static int end(vyc_nccl_comm comm, const char *function) {
  comm_of(comm, function);
  if (graphs_have(comm)) explorer_fail("%s waits for ever: a graph has its work", function);
  for (uint32_t i = 0; i < the_model->stream_count; i++)
    for (const work *w = the_model->streams[i]->first; w != NULL; w = w->next)
      for (uint32_t j = 0; j < w->node_count; j++)
        if (w->nodes[j].kernel.module == comm) explorer_fail("%s with work in flight", function);
  comm->live = false;
  the_model->live_comms--;
  return VYC_NCCL_SUCCESS;
}

static int model_ncclCommDestroy(vyc_nccl_comm comm) {
  WORKS(comm);
  return end(comm, "ncclCommDestroy");
}

static int model_ncclCommAbort(vyc_nccl_comm comm) {
  WORKS(comm);
  return end(comm, "ncclCommAbort");
}

static int model_ncclCommGetAsyncError(vyc_nccl_comm comm, int *error) {
  LOOKS(comm);
  comm_of(comm, "ncclCommGetAsyncError");
  *error = VYC_NCCL_SUCCESS;
  return VYC_NCCL_SUCCESS;
}

static int model_ncclAllReduce(const void *in, void *out, size_t count, int type, int op,
                               vyc_nccl_comm comm, CUstream where) {
  (void)type, (void)op;
  NAMES(comm);
  comm_of(comm, "ncclAllReduce");
  if (count != 1) explorer_fail("an all-reduce of %zu elements is not modelled", count);
  const node n = {.kind = WORK_COPY,
                  .to = (uint64_t)(uintptr_t)out,
                  .from = (uint64_t)(uintptr_t)in,
                  .bytes = 8,
                  .kernel = {.module = comm, .is_collective = true}};
  capture_node(where, &n);
  return VYC_NCCL_SUCCESS;
}

static int model_ncclGroupStart(void) { return VYC_NCCL_SUCCESS; }
static int model_ncclGroupEnd(void) { return VYC_NCCL_SUCCESS; }
static const char *model_ncclGetErrorString(int result) {
  return result == VYC_NCCL_SUCCESS ? "no error" : "an error";
}

#define NOT_MODELLED(name, ...)                                                                    \
  static int stub_##name(void) { explorer_fail("the model has no " #name); }
VYC_NCCL_TABLE(NOT_MODELLED)
#define STUB_ROW(name, ...) {#name, (void (*)(void))stub_##name},

#define MODELLED(X)                                                                                \
  X(ncclGetVersion)                                                                                \
  X(ncclGetUniqueId)                                                                               \
  X(ncclCommInitRank)                                                                              \
  X(ncclCommDestroy)                                                                               \
  X(ncclCommAbort)                                                                                 \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclAllReduce) X(ncclGroupStart) X(ncclGroupEnd) X(ncclGetErrorString)
const model_row model_nccl_rows[] = {MODELLED(MODEL_ROW) VYC_NCCL_TABLE(STUB_ROW){NULL, NULL}};
