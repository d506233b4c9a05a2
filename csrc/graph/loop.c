/* Repetition on the device: a WHILE node, whose condition is set by the last kernel of its body.
 *
 * The kernels that set it call a function that only the driver's compiler can supply, so they are
 * in a module of their own, which is always loaded as PTX text. The condition gets its default at
 * each launch of the graph; a loop inside a loop, or one that counts, begins with a kernel. */
#include <stddef.h>
#include <string.h>

#include "graph.h"

#define CONDITIONAL_DRIVER 12040 /* bodies with copies and fills exist since CUDA 12.4 */

static const char SETTER[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry vyc_loop_begin(.param .u64 handle, .param .u64 counter, .param .u64 limit,\n"
    "    .param .u64 until, .param .u32 until_bytes)\n{\n"
    ".reg .pred %p<1>;\n.reg .b64 %rd<3>;\n"
    "ld.param.u64 %rd0, [handle];\nld.param.u64 %rd1, [counter];\n"
    "setp.eq.u64 %p0, %rd1, 0;\n@%p0 bra SET;\n"
    "mov.u64 %rd2, 0;\nst.global.u64 [%rd1], %rd2;\n"
    "SET:\n{\n.param .b64 argument0;\nst.param.b64 [argument0], %rd0;\n"
    ".param .b32 argument1;\nst.param.b32 [argument1], 1;\n"
    "call.uni cudaGraphSetConditional, (argument0, argument1);\n}\nret;\n}\n"
    ".visible .entry vyc_loop_next(.param .u64 handle, .param .u64 counter, .param .u64 limit,\n"
    "    .param .u64 until, .param .u32 until_bytes)\n{\n"
    ".reg .pred %p<7>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<6>;\n"
    "ld.param.u64 %rd0, [handle];\nld.param.u64 %rd1, [counter];\nld.param.u64 %rd2, [limit];\n"
    "ld.param.u64 %rd3, [until];\nld.param.u32 %r1, [until_bytes];\nmov.u32 %r0, 1;\n"
    "setp.eq.u64 %p0, %rd1, 0;\n@%p0 bra LOOK;\n"
    "ld.global.u64 %rd4, [%rd1];\nadd.u64 %rd4, %rd4, 1;\nst.global.u64 [%rd1], %rd4;\n"
    "setp.lt.u64 %p1, %rd4, %rd2;\nselp.u32 %r0, 1, 0, %p1;\n"
    "LOOK:\nsetp.eq.u64 %p2, %rd3, 0;\n@%p2 bra SET;\n"
    "setp.eq.u32 %p3, %r1, 1;\n@%p3 bra BYTE;\nsetp.eq.u32 %p4, %r1, 2;\n@%p4 bra HALF;\n"
    "setp.eq.u32 %p5, %r1, 4;\n@%p5 bra WORD;\n"
    "ld.global.u64 %rd5, [%rd3];\nbra TEST;\n"
    "WORD:\nld.global.u32 %rd5, [%rd3];\nbra TEST;\n"
    "HALF:\nld.global.u16 %rd5, [%rd3];\nbra TEST;\n"
    "BYTE:\nld.global.u8 %rd5, [%rd3];\n"
    "TEST:\nsetp.eq.u64 %p6, %rd5, 0;\nselp.u32 %r2, %r0, 0, %p6;\nmov.u32 %r0, %r2;\n"
    "SET:\n{\n.param .b64 argument0;\nst.param.b64 [argument0], %rd0;\n"
    ".param .b32 argument1;\nst.param.b32 [argument1], %r0;\n"
    "call.uni cudaGraphSetConditional, (argument0, argument1);\n}\nret;\n}\n";

bool vyc__has_loops(const vyc_context *context) {
  const vyc_driver *driver = context->driver;
  return driver->version >= CONDITIONAL_DRIVER && driver->cuGraphAddNode != NULL &&
         driver->cuGraphConditionalHandleCreate != NULL;
}

vyc_status vyc__loops_supported(const vyc_context *context, const char *what) {
  if (vyc__has_loops(context)) return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "conditional_nodes",
                   "%s needs conditional graph nodes, which drivers for CUDA 12.4 or newer have; "
                   "this one supports CUDA %d.%d: update it, or record the passes one by one",
                   what, context->driver->version / 1000, context->driver->version % 1000 / 10);
}

static vyc_status load(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  VYC_CU_RESULT;
  if (graph->loop_module == NULL)
    VYC_TRY(vyc_module_load(&graph->loop_module, NULL, 0, context, SETTER, sizeof SETTER));
  const CUmodule module = graph->loop_module->handle;
  VYC_TRY(VYC_CU(context, cuModuleGetFunction, &graph->loop_begin, module, "vyc_loop_begin"));
  return VYC_CU(context, cuModuleGetFunction, &graph->loop_next, module, "vyc_loop_next");
}

vyc_status vyc__loops_prepare(vyc_graph *graph, uint64_t loops) {
  vyc_context *context = graph->child.context;
  if (loops == 0) return VYC_OK;
  if (graph->loop_next == NULL) VYC_TRY(load(graph));
  const uint64_t bytes = loops * sizeof(uint64_t);
  if (graph->counters != NULL && graph->counters->bytes >= bytes) return VYC_OK;
  if (graph->counters != NULL) vyc__graph_give(graph, graph->counters);
  graph->counters = NULL;
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &graph->counters, bytes));
  graph->recycled |= graph->counters->recycled;
  vyc__slots_clear(&graph->ordered);
  return VYC_OK;
}

static vyc_status kernel_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph in,
                              const CUgraphNode *dependencies, uint32_t count, CUfunction function,
                              const vyc_loop *loop) {
  vyc_context *context = graph->child.context;
  vyc_loop copy = *loop;
  void *pointers[] = {&copy.handle, &copy.counter, &copy.limit, &copy.until, &copy.until_bytes};
  const CUDA_KERNEL_NODE_PARAMS params = {.func = function,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 1,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = pointers};
  VYC_CU_RESULT;
  return VYC_CU(context, cuGraphAddKernelNode, node_out, in, dependencies, count, &params);
}

vyc_status vyc__loop_begin_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph in,
                                const CUgraphNode *dependencies, uint32_t count,
                                const vyc_loop *loop) {
  return kernel_node(graph, node_out, in, dependencies, count, graph->loop_begin, loop);
}

vyc_status vyc__loop_next_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph body,
                               const CUgraphNode *dependencies, uint32_t count,
                               const vyc_loop *loop) {
  return kernel_node(graph, node_out, body, dependencies, count, graph->loop_next, loop);
}

vyc_status vyc__loop_while_node(vyc_graph *graph, CUgraphNode *node_out, CUgraph *body_out,
                                CUgraph in, const CUgraphNode *dependencies, uint32_t count,
                                const vyc_loop *loop) {
  vyc_context *context = graph->child.context;
  CUgraphNodeParams params;
  VYC_CU_RESULT;
  memset(&params, 0, sizeof params);
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = loop->handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  params.conditional.size = 1;
  params.conditional.ctx = context->handle;
  VYC_TRY(VYC_CU(context, cuGraphAddNode, node_out, in, dependencies, count, &params));
  *body_out = params.conditional.phGraph_out[0];
  return VYC_OK;
}
