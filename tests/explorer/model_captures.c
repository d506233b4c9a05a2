/* Captures: by the library into a graph that it builds; and by others, with what their graphs own
 * and what becomes of them: they are made executable, run once and destroyed, by the thread that
 * captured. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

static CUresult CUDAAPI model_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  LOOKS(handle);
  *status = stream_of(handle, "cuStreamIsCapturing")->captured == NULL
                ? CU_STREAM_CAPTURE_STATUS_NONE
                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

static stream *captured_stream(CUstream handle, const char *function) {
  stream *s = stream_of(handle, function);
  if (s->captured == NULL) explorer_fail("%s of a stream that nobody captures", function);
  return s;
}

static void begin(stream *s, graph *into) {
  if (s->captured != NULL) explorer_fail("a capture of a stream that is captured");
  s->captured = into;
  s->last = NULL;
}

static graph *end(stream *s) {
  graph *captured = s->captured;
  s->captured = NULL;
  return captured;
}

static CUresult CUDAAPI model_cuStreamBeginCaptureToGraph(CUstream handle, CUgraph into,
                                                          const CUgraphNode *behind,
                                                          const CUgraphEdgeData *edges,
                                                          size_t count, CUstreamCaptureMode mode) {
  (void)behind, (void)edges, (void)count, (void)mode;
  NAMES(handle);
  begin(stream_of(handle, "cuStreamBeginCaptureToGraph"), graph_of(into));
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamEndCapture(CUstream handle, CUgraph *into) {
  NAMES(handle);
  *into = (CUgraph)(void *)end(captured_stream(handle, "cuStreamEndCapture"));
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
                                                     cuuint64_t *id, CUgraph *graph_out,
                                                     const CUgraphNode **nodes, size_t *count) {
  LOOKS(handle);
  const stream *s = captured_stream(handle, "cuStreamGetCaptureInfo");
  *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != NULL) *id = 1;
  *graph_out = (CUgraph)(void *)s->captured;
  *nodes = &s->last;
  *count = s->last != NULL;
  return CUDA_SUCCESS;
}

/* Nodes run in the order of their making, whatever they depend on. */
static CUresult CUDAAPI model_cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *nodes,
                                                                size_t count, unsigned flags) {
  (void)nodes, (void)count, (void)flags;
  NAMES(handle);
  captured_stream(handle, "cuStreamUpdateCaptureDependencies");
  return CUDA_SUCCESS;
}

void capture_node(CUstream where, const node *n) {
  stream *s = stream_of(where, "a capture");
  if (s->captured == NULL) explorer_fail("work that can only be captured is given to a stream");
  add_node(&s->last, (CUgraph)(void *)s->captured, n);
}

/* ---- user objects ---------------------------------------------------------------------------- */

static CUresult CUDAAPI model_cuUserObjectCreate(CUuserObject *out, void *argument, CUhostFn end,
                                                 unsigned owners, unsigned flags) {
  (void)flags;
  MAKES();
  user_object *object = take(sizeof *object);
  *object = (user_object){end, argument, owners};
  *out = (CUuserObject)(void *)object;
  return CUDA_SUCCESS;
}

static void drop(user_object *object) {
  if (object->owners == 0) explorer_fail("a user object is released too often");
  if (--object->owners == 0) object->end(object->argument);
}

static CUresult CUDAAPI model_cuUserObjectRelease(CUuserObject object, unsigned count) {
  NAMES(object);
  for (unsigned i = 0; i < count; i++) drop((user_object *)(void *)object);
  return CUDA_SUCCESS;
}

/* The graph gets the reference of the caller. */
static CUresult CUDAAPI model_cuGraphRetainUserObject(CUgraph handle, CUuserObject object,
                                                      unsigned count, unsigned flags) {
  NAMES(handle);
  graph *g = graph_of(handle);
  if (count != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE || g->owned != NULL)
    explorer_fail("cuGraphRetainUserObject as it is not modelled");
  g->owned = (user_object *)(void *)object;
  return CUDA_SUCCESS;
}

user_object *object_retain(user_object *object) {
  if (object != NULL) object->owners++;
  return object;
}

void object_drop(user_object *object) {
  if (object != NULL) drop(object);
}

/* ---- the captures of others ------------------------------------------------------------------ */

void model_capture_begin(uint64_t handle) {
  CUgraph captured = NULL;
  model_cuGraphCreate(&captured, 0);
  begin((stream *)(uintptr_t)handle, graph_of(captured));
}

/* The executable graph owns what the graph owned; a planted defect makes it forget. */
void model_capture_run(uint64_t handle) {
  stream *s = (stream *)(uintptr_t)handle;
  const CUgraph captured = (CUgraph)(void *)end(s);
  CUgraphExec made = NULL;
  model_cuGraphInstantiateWithFlags(&made, captured, 0);
  exec *x = (exec *)(void *)made;
  if (the_model->plant == MODEL_FORGETS_OWNED) {
    object_drop(x->owned);
    x->owned = NULL;
  }
  model_cuGraphDestroy(captured);
  model_cuGraphLaunch(made, (CUstream)(void *)s);
  NAMES(s);
  while (s->first != NULL) {
    the_model->wanted = s;
    explorer_wait_round();
  }
  model_cuGraphExecDestroy(made);
}

#define MODELLED(X)                                                                                \
  X(cuStreamIsCapturing)                                                                           \
  X(cuStreamBeginCaptureToGraph)                                                                   \
  X(cuStreamEndCapture)                                                                            \
  X(cuStreamGetCaptureInfo)                                                                        \
  X(cuStreamUpdateCaptureDependencies)                                                             \
  X(cuUserObjectCreate) X(cuUserObjectRelease) X(cuGraphRetainUserObject)
const model_row model_capture_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
