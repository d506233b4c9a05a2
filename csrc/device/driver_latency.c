/* What the machine itself takes: driver calls alone, each between two readings of the clock, on a
 * stream and with memory of their own. What this library adds shows beside them. */
#include <string.h>

#include "room.h"

#define BATCH 64u /* enqueued between two waits, so that the driver's queue is never full */
#define PATIENCE_NS UINT64_C(10000000000)
#define LOOKS_UNASKED 1024u

/* Sets a word, so that the host can see that it ran. */
static const char SETTER[] = ".version 6.3\n.target sm_75\n.address_size 64\n"
                             ".visible .entry vyc_floor(.param .u64 word)\n{\n"
                             ".reg .b64 %rd<1>;\n.reg .b32 %r<1>;\n"
                             "ld.param.u64 %rd0, [word];\nmov.u32 %r0, 1;\n"
                             "st.volatile.global.u32 [%rd0], %r0;\nret;\n}\n";

typedef struct rig {
  vyc_context *context;
  CUstream stream;
  CUevent event;
  CUmodule module;
  CUfunction function;
  CUgraph graph;
  CUgraphExec exec;
  vyc_block *host, *device, *other;
  uint64_t bytes;
  uint64_t word; /* in `host` */
  void *parameters[1];
} rig;

/* ---- making ---------------------------------------------------------------------------------- */

static vyc_status make_memory(rig *r, uint64_t bytes) {
  vyc_context *context = r->context;
  r->bytes = bytes;
  VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &r->host, bytes + VYC_ALIGN));
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &r->device, bytes));
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &r->other, bytes));
  r->word = r->host->address;
  memset((void *)(uintptr_t)r->host->address, 0, bytes + VYC_ALIGN);
  return VYC_OK;
}

static vyc_status make_graph(rig *r) {
  vyc_context *context = r->context;
  CUDA_KERNEL_NODE_PARAMS params;
  CUgraphNode node;
  VYC_CU_RESULT;
  memset(&params, 0, sizeof params);
  params.func = r->function;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = r->parameters;
  VYC_TRY(VYC_CU(context, cuGraphCreate, &r->graph, 0));
  VYC_TRY(VYC_CU(context, cuGraphAddKernelNode, &node, r->graph, NULL, 0, &params));
  return VYC_CU(context, cuGraphInstantiateWithFlags, &r->exec, r->graph, 0);
}

static vyc_status make(rig *r, vyc_context *context, uint64_t bytes) {
  VYC_CU_RESULT;
  *r = (rig){.context = context};
  r->parameters[0] = &r->word;
  VYC_TRY(make_memory(r, bytes));
  VYC_TRY(VYC_CU(context, cuStreamCreate, &r->stream, CU_STREAM_NON_BLOCKING));
  VYC_TRY(vyc__stream_after_main(context, r->stream)); /* the blocks may have had other owners */
  VYC_TRY(VYC_CU(context, cuEventCreate, &r->event, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuModuleLoadDataEx, &r->module, SETTER, 0, NULL, NULL));
  VYC_TRY(VYC_CU(context, cuModuleGetFunction, &r->function, r->module, "vyc_floor"));
  return make_graph(r);
}

/* Work that has not ended keeps what it uses. */
static void end(rig *r) {
  vyc_context *context = r->context;
  const vyc_driver *driver = context->driver;
  vyc_error failure;
  vyc__error_save(&failure);
  const bool ended = r->stream == NULL || vyc__stream_await_end(context, r->stream);
  if (ended) {
    if (r->exec != NULL) driver->cuGraphExecDestroy(r->exec);
    if (r->graph != NULL) driver->cuGraphDestroy(r->graph);
    if (r->module != NULL) driver->cuModuleUnload(r->module);
    if (r->event != NULL) driver->cuEventDestroy(r->event);
    if (r->stream != NULL) driver->cuStreamDestroy(r->stream);
    if (r->host != NULL) vyc__pool_give(context, vyc__pinned_pool(context), r->host, 0);
    if (r->device != NULL) vyc__pool_give(context, vyc__device_pool(context), r->device, 0);
    if (r->other != NULL) vyc__pool_give(context, vyc__device_pool(context), r->other, 0);
  }
  vyc__error_restore(&failure);
}

/* ---- what is measured ------------------------------------------------------------------------ */

static vyc_status launch(rig *r) {
  VYC_CU_RESULT;
  return VYC_CU(r->context, cuLaunchKernel, r->function, 1, 1, 1, 1, 1, 1, 0, r->stream,
                r->parameters, NULL);
}

static vyc_status launch_graph(rig *r) {
  VYC_CU_RESULT;
  return VYC_CU(r->context, cuGraphLaunch, r->exec, r->stream);
}

static vyc_status synchronize(rig *r) {
  VYC_CU_RESULT;
  return VYC_CU(r->context, cuStreamSynchronize, r->stream);
}

static vyc_status record(rig *r) {
  VYC_CU_RESULT;
  return VYC_CU(r->context, cuEventRecord, r->event, r->stream);
}

static vyc_status launch_and_wait(rig *r) {
  VYC_TRY(launch(r));
  return synchronize(r);
}

static vyc_status launch_graph_and_wait(rig *r) {
  VYC_TRY(launch_graph(r));
  return synchronize(r);
}

static vyc_status upload(rig *r) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(r->context, cuMemcpyHtoDAsync, r->device->address,
                 (void *)(uintptr_t)(r->host->address + VYC_ALIGN), r->bytes, r->stream));
  return synchronize(r);
}

static vyc_status download(rig *r) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(r->context, cuMemcpyDtoHAsync, (void *)(uintptr_t)(r->host->address + VYC_ALIGN),
                 r->device->address, r->bytes, r->stream));
  return synchronize(r);
}

static vyc_status copy(rig *r) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(r->context, cuMemcpyDtoDAsync, r->other->address, r->device->address, r->bytes,
                 r->stream));
  return synchronize(r);
}

/* A kernel that writes to host memory, and the host that sees it. */
static vyc_status mapped(rig *r) {
  _Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)r->word;
  const uint64_t begin = vyc__now_ns();
  atomic_store_explicit(word, 0, memory_order_relaxed);
  VYC_TRY(launch_graph(r));
  for (uint32_t looks = 1; atomic_load_explicit(word, memory_order_acquire) == 0; looks++) {
    if (looks % LOOKS_UNASKED != 0) continue;
    const vyc_status status =
        vyc__ready(r->context, r->context->driver->cuStreamQuery(r->stream), "cuStreamQuery");
    if (status != VYC_OK && status != VYC_NOT_READY) return status;
    if (vyc__now_ns() - begin > PATIENCE_NS)
      return vyc__fail(VYC_E_TIMEOUT, "measure",
                       "a kernel's write to host memory did not become visible in time");
  }
  return VYC_OK;
}

static vyc_status nothing(rig *r) {
  (void)r;
  return VYC_OK;
}

typedef vyc_status (*action)(rig *r);

static const struct {
  action act;
  bool waits; /* otherwise there is one wait for each BATCH */
} actions[] = {
    [VYC_FLOOR_CLOCK] = {nothing, true},
    [VYC_FLOOR_LAUNCH] = {launch, false},
    [VYC_FLOOR_GRAPH_LAUNCH] = {launch_graph, false},
    [VYC_FLOOR_SYNCHRONIZE] = {synchronize, true},
    [VYC_FLOOR_EVENT] = {record, false},
    [VYC_FLOOR_ROUND_TRIP] = {launch_and_wait, true},
    [VYC_FLOOR_GRAPH_ROUND_TRIP] = {launch_graph_and_wait, true},
    [VYC_FLOOR_UPLOAD] = {upload, true},
    [VYC_FLOOR_DOWNLOAD] = {download, true},
    [VYC_FLOOR_COPY] = {copy, true},
    [VYC_FLOOR_MAPPED] = {mapped, true},
};

static vyc_status measure(rig *r, uint32_t what, uint64_t *ns_out, uint32_t count) {
  VYC_TRY(launch_graph_and_wait(r)); /* creates what is created at first use */
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t begin = vyc__now_ns();
    VYC_TRY(actions[what].act(r));
    ns_out[i] = vyc__now_ns() - begin;
    if (!actions[what].waits && i % BATCH == BATCH - 1) VYC_TRY(synchronize(r));
  }
  return synchronize(r);
}

vyc_status vyc_context_measure(vyc_context *context, uint64_t *ns_out, uint32_t count,
                               uint32_t what, uint64_t bytes) {
  VYC_REQUIRE(context != NULL && (ns_out != NULL || count == 0));
  VYC_REQUIRE(what < sizeof actions / sizeof actions[0] && bytes <= UINT64_MAX / 4);
  rig r;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = make(&r, context, bytes);
  if (status == VYC_OK) status = measure(&r, what, ns_out, count);
  end(&r);
  vyc__leave(context, &scope);
  return status;
}
