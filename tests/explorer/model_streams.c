/* The model's streams and events. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

static stream *add_stream(bool foreign) {
  if (the_model->stream_count >= MODEL_STREAMS) explorer_fail("the model has no more streams");
  stream *s = take(sizeof *s);
  s->live = true;
  s->foreign = foreign;
  s->device = device_now();
  s->number = the_model->stream_count;
  s->end = &s->first;
  the_model->streams[the_model->stream_count++] = s;
  return s;
}

uint64_t model_stream_of_others(void) { return (uint64_t)(uintptr_t)add_stream(true); }

static CUresult CUDAAPI model_cuStreamCreate(CUstream *out, unsigned flags) {
  (void)flags;
  MAKES();
  *out = (CUstream)(void *)add_stream(false);
  the_model->live_streams++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamDestroy(CUstream handle) {
  NAMES(handle);
  stream *s = stream_of(handle, "cuStreamDestroy");
  if (s->foreign) explorer_fail("cuStreamDestroy of a stream of others");
  s->live = false;
  the_model->live_streams--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamQuery(CUstream handle) {
  WORKS(handle);
  stream *s = stream_of(handle, "cuStreamQuery");
  if (the_model->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (s->first == NULL) return CUDA_SUCCESS;
  the_model->wanted = s;
  return CUDA_ERROR_NOT_READY;
}

static CUresult CUDAAPI model_cuStreamSynchronize(CUstream handle) {
  WORKS_WITH_ALL();
  stream *s = stream_of(handle, "cuStreamSynchronize");
  while (s->first != NULL) {
    the_model->wanted = s;
    explorer_wait_round();
  }
  return the_model->faulted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static event *event_of(CUevent handle, const char *function) {
  event *e = (event *)(void *)handle;
  if (e == NULL) explorer_fail("%s without an event", function);
  if (!e->live) explorer_fail("%s of an event that was destroyed", function);
  return e;
}

static CUresult CUDAAPI model_cuStreamWaitEvent(CUstream handle, CUevent which, unsigned flags) {
  (void)flags;
  WORKS_WITH(handle, which);
  stream *s = stream_of(handle, "cuStreamWaitEvent");
  const event *e = event_of(which, "cuStreamWaitEvent");
  give(s, WORK_WAIT)->behind = e->last;
  return given();
}

static CUresult CUDAAPI model_cuEventCreate(CUevent *out, unsigned flags) {
  (void)flags;
  MAKES();
  event *e = take(sizeof *e);
  e->live = true;
  *out = (CUevent)(void *)e;
  the_model->live_events++;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuEventDestroy(CUevent handle) {
  NAMES(handle);
  event_of(handle, "cuEventDestroy")->live = false;
  the_model->live_events--;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuEventRecord(CUevent handle, CUstream where) {
  WORKS_WITH(where, handle);
  event *e = event_of(handle, "cuEventRecord");
  stream *s = stream_of(where, "cuEventRecord");
  e->last = give(s, WORK_RECORD);
  e->stream = s;
  return given();
}

static CUresult CUDAAPI model_cuEventQuery(CUevent handle) {
  WORKS(handle);
  const event *e = event_of(handle, "cuEventQuery");
  if (the_model->faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (e->last == NULL || e->last->done) return CUDA_SUCCESS;
  the_model->wanted = e->stream;
  return CUDA_ERROR_NOT_READY;
}

static void give_value(CUstream handle, uint32_t kind, CUdeviceptr address, uint32_t value,
                       const char *function) {
  work *w = give(stream_of(handle, function), kind);
  model_check_memory(address, 4, function);
  w->node_count = 1;
  w->nodes[0] = (node){.kind = kind, .to = address, .value = value};
}

static CUresult CUDAAPI model_cuStreamWriteValue32(CUstream handle, CUdeviceptr address,
                                                   cuuint32_t value, unsigned flags) {
  (void)flags;
  WORKS(handle);
  give_value(handle, WORK_SET, address, value, "cuStreamWriteValue32");
  return given();
}

static CUresult CUDAAPI model_cuStreamWaitValue32(CUstream handle, CUdeviceptr address,
                                                  cuuint32_t value, unsigned flags) {
  WORKS(handle);
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) explorer_fail("a wait for a value that is not modelled");
  give_value(handle, WORK_WAIT_VALUE, address, value, "cuStreamWaitValue32");
  return given();
}

static CUresult CUDAAPI model_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  event_of(start, "cuEventElapsedTime");
  event_of(stop, "cuEventElapsedTime");
  *milliseconds = 1.0f;
  return CUDA_SUCCESS;
}

#define MODELLED(X)                                                                                \
  X(cuStreamCreate)                                                                                \
  X(cuStreamDestroy)                                                                               \
  X(cuStreamQuery)                                                                                 \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamWriteValue32)                                                                          \
  X(cuStreamWaitValue32)                                                                           \
  X(cuStreamWaitEvent)                                                                             \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventElapsedTime)
const model_row model_stream_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
