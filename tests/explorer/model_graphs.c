/* The model's graphs: nodes, executable copies, launches. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

graph *graph_of(CUgraph handle) {
  graph *g = (graph *)(void *)handle;
  if (!g->live) explorer_fail("a graph is used that was destroyed");
  return g;
}

static exec *exec_of(CUgraphExec handle, const char *function) {
  exec *x = (exec *)(void *)handle;
  if (x == NULL || !x->live) explorer_fail("%s of an exec that was destroyed", function);
  return x;
}

CUresult CUDAAPI model_cuGraphCreate(CUgraph *out, unsigned flags) {
  (void)flags;
  MAKES();
  graph *g = take(sizeof *g);
  g->live = true;
  g->next = the_model->graphs;
  the_model->graphs = g;
  the_model->live_graphs++;
  *out = (CUgraph)(void *)g;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI model_cuGraphDestroy(CUgraph handle) {
  NAMES(handle);
  graph *g = graph_of(handle);
  g->live = false;
  object_drop(g->owned);
  the_model->live_graphs--;
  return CUDA_SUCCESS;
}

CUresult add_node(CUgraphNode *out, CUgraph handle, const node *n) {
  graph *g = graph_of(handle);
  if (g->node_count >= MODEL_NODES) explorer_fail("a graph of the model has no room for a node");
  g->nodes[g->node_count] = *n;
  *out = (CUgraphNode)(uintptr_t)(++g->node_count);
  return CUDA_SUCCESS;
}

static bool have(const node *nodes, uint32_t count, const void *comm) {
  for (uint32_t i = 0; i < count; i++)
    if (nodes[i].kernel.module == comm) return true;
  return false;
}

bool graphs_have(const void *comm) {
  for (const graph *g = the_model->graphs; g != NULL; g = g->next)
    if (g->live && have(g->nodes, g->node_count, comm)) return true;
  for (const exec *x = the_model->execs; x != NULL; x = x->next)
    if (x->live && have(x->nodes, x->node_count, comm)) return true;
  return false;
}

static CUresult CUDAAPI model_cuGraphAddKernelNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_KERNEL_NODE_PARAMS *params) {
  (void)before, (void)count;
  NAMES(handle);
  const node n = {.kind = WORK_KERNEL, .kernel = kernel_of(params->func, params->kernelParams)};
  return add_node(out, handle, &n);
}

static node copy_node(const CUDA_MEMCPY3D *p) {
  const uint64_t to = p->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->dstHost
                                                             : (uint64_t)p->dstDevice;
  const uint64_t from = p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->srcHost
                                                               : (uint64_t)p->srcDevice;
  return (node){.kind = WORK_COPY,
                .to = to + p->dstXInBytes,
                .from = from + p->srcXInBytes,
                .bytes = p->WidthInBytes * (p->Height == 0 ? 1 : p->Height)};
}

static CUresult CUDAAPI model_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_MEMCPY3D *params, CUcontext context) {
  (void)before, (void)count, (void)context;
  NAMES(handle);
  const node n = copy_node(params);
  return add_node(out, handle, &n);
}

static node fill_node(const CUDA_MEMSET_NODE_PARAMS *p) {
  return (node){.kind = WORK_FILL,
                .width = p->elementSize,
                .to = p->dst,
                .bytes = p->width * p->elementSize,
                .value = p->value};
}

static CUresult CUDAAPI model_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph handle,
                                                   const CUgraphNode *before, size_t count,
                                                   const CUDA_MEMSET_NODE_PARAMS *params,
                                                   CUcontext context) {
  (void)before, (void)count, (void)context;
  NAMES(handle);
  const node n = fill_node(params);
  return add_node(out, handle, &n);
}

static CUresult CUDAAPI
model_cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                               size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
  (void)before, (void)count;
  NAMES(handle);
  return add_node(out, handle,
                  &(node){.kind = WORK_SET,
                          .to = params->paramArray[0].writeValue.address,
                          .value = params->paramArray[0].writeValue.value});
}

static CUresult CUDAAPI model_cuGraphKernelNodeSetAttribute(CUgraphNode which,
                                                            CUkernelNodeAttrID attribute,
                                                            const CUkernelNodeAttrValue *value) {
  (void)which, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI model_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
                                                   unsigned long long flags) {
  (void)flags;
  NAMES(handle);
  const graph *g = graph_of(handle);
  exec *x = take(sizeof *x);
  x->live = true;
  x->next = the_model->execs;
  the_model->execs = x;
  x->node_count = g->node_count;
  memcpy(x->nodes, g->nodes, sizeof x->nodes);
  x->owned = object_retain(g->owned);
  the_model->live_execs++;
  *out = (CUgraphExec)(void *)x;
  return CUDA_SUCCESS;
}

static node *node_of(CUgraphExec handle, CUgraphNode which, const char *function) {
  exec *x = exec_of(handle, function);
  const uint64_t number = (uint64_t)(uintptr_t)which;
  if (number == 0 || number > x->node_count) explorer_fail("%s of a node of another", function);
  return &x->nodes[number - 1];
}

static CUresult CUDAAPI model_cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_KERNEL_NODE_PARAMS *p) {
  NAMES(handle);
  node *n = node_of(handle, which, "cuGraphExecKernelNodeSetParams");
  n->kernel = kernel_of(p->func, p->kernelParams);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphExecMemcpyNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_MEMCPY3D *params,
                                                             CUcontext context) {
  (void)context;
  NAMES(handle);
  *node_of(handle, which, "cuGraphExecMemcpyNodeSetParams") = copy_node(params);
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI model_cuGraphExecMemsetNodeSetParams(CUgraphExec handle, CUgraphNode which,
                                                             const CUDA_MEMSET_NODE_PARAMS *params,
                                                             CUcontext context) {
  (void)context;
  NAMES(handle);
  *node_of(handle, which, "cuGraphExecMemsetNodeSetParams") = fill_node(params);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI model_cuGraphExecDestroy(CUgraphExec handle) {
  NAMES(handle);
  exec *x = exec_of(handle, "cuGraphExecDestroy");
  x->live = false;
  object_drop(x->owned);
  the_model->live_execs--;
  return CUDA_SUCCESS;
}

/* Within the device, as cuMemcpyDtoDAsync: what is copied becomes the number of the operation. */
static void copy_as_kernel(node *n) {
  if (n->kind != WORK_COPY || !is_device(n->to) || !is_device(n->from)) return;
  *n = (node){.kind = WORK_KERNEL,
              .kernel = {.module = n->kernel.module,
                         .is_collective = n->kernel.is_collective,
                         .in = n->from,
                         .out = n->to,
                         .value = the_model->hooks.operation(),
                         .count = 1}};
}

/* A kernel for each row, in the place of those with a table. */
static void put_rows(work *w, const exec *x) {
  w->node_count = 0;
  for (uint32_t i = 0; i < x->node_count; i++) {
    if (w->node_count >= MODEL_NODES) explorer_fail("a graph of more than %u nodes", MODEL_NODES);
    if (x->nodes[i].kind == WORK_KERNEL && x->nodes[i].kernel.row != 0)
      w->node_count +=
          rows_of(w->nodes + w->node_count, &x->nodes[i].kernel, MODEL_NODES - w->node_count);
    else
      w->nodes[w->node_count++] = x->nodes[i];
  }
}

static bool has_reduce(const exec *x) {
  for (uint32_t i = 0; i < x->node_count; i++)
    if (x->nodes[i].kernel.reduce != NULL) return true;
  return false;
}

static void kernels_given(work *w) {
  uint32_t kernels = 0, number = 0;
  for (uint32_t i = 0; i < w->node_count; i++) kernels += w->nodes[i].kind == WORK_KERNEL;
  for (uint32_t i = 0; i < w->node_count; i++) {
    model_kernel *kernel = &w->nodes[i].kernel;
    if (w->nodes[i].kind != WORK_KERNEL) continue;
    if (kernel->reduce != NULL) reduce_given(kernel);
    kernel_given(kernel, number++, kernels);
  }
}

/* Launches of one exec run one after the other, on whatever streams. */
CUresult CUDAAPI model_cuGraphLaunch(CUgraphExec handle, CUstream where) {
  WORKS_WITH(where, handle);
  exec *x = exec_of(handle, "cuGraphLaunch");
  if (the_model->faulted) return given(); /* no table of rows was copied */
  if (has_reduce(x) && the_model->hooks.refuses()) return CUDA_ERROR_INVALID_VALUE;
  work *w = give(stream_of(where, "cuGraphLaunch"), WORK_GRAPH);
  w->node_count = x->node_count;
  memcpy(w->nodes, x->nodes, sizeof w->nodes);
  w->behind = x->last != NULL && !x->last->done ? x->last : NULL;
  x->last = w;
  if (w->node_count == 1 && w->nodes[0].kernel.row != 0) {
    rows_given(w);
    return given();
  }
  put_rows(w, x);
  for (uint32_t i = 0; i < w->node_count; i++) copy_as_kernel(&w->nodes[i]);
  kernels_given(w);
  return given();
}

#define MODELLED(X)                                                                                \
  X(cuGraphCreate)                                                                                 \
  X(cuGraphDestroy)                                                                                \
  X(cuGraphAddKernelNode)                                                                          \
  X(cuGraphAddMemcpyNode)                                                                          \
  X(cuGraphAddMemsetNode)                                                                          \
  X(cuGraphAddBatchMemOpNode)                                                                      \
  X(cuGraphKernelNodeSetAttribute)                                                                 \
  X(cuGraphInstantiateWithFlags)                                                                   \
  X(cuGraphExecKernelNodeSetParams)                                                                \
  X(cuGraphExecMemcpyNodeSetParams)                                                                \
  X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecDestroy) X(cuGraphLaunch)
const model_row model_graph_rows[] = {MODELLED(MODEL_ROW){NULL, NULL}};
