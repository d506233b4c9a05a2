/* From steps to the driver's nodes: edges from what they touch, and repetitions unrolled or made
 * loops, as unroll.c decides; and the executable graph of a graph of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* A driver graph that is being filled: the whole graph, or the body of a loop. */
typedef struct level {
  vyc_graph *graph;
  CUgraph handle;
  uint32_t parent; /* node */
  vyc_order order;
  uint32_t node_room;
  uint32_t *node_of; /* by number in the order */
  const vyc_outside *outside; /* of the whole graph, inside a graph of others */
  uint32_t handle_room;
  size_t handle_count;
  CUgraphNode *handles; /* of the nodes that the next one follows */
} level;

static void level_free(level *in) {
  vyc__order_free(&in->order);
  free(in->node_of);
  free(in->handles);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A record of the node for which `order.found` was made, with its edges. The caller sets the
 * handle. */
static vyc_status add_record(level *in, uint32_t *number_out, uint32_t step, uint32_t role) {
  vyc_graph *graph = in->graph;
  const uint32_t number = graph->node_count, count = in->order.found_count;
  const bool is_first = count == 0 && in->outside != NULL;
  if (number >= VYC_MOST_NODES)
    return vyc__fail(VYC_E_UNSUPPORTED, "graph_nodes", "a graph of more than %" PRIu64 " nodes",
                     VYC_MOST_NODES);
  VYC_TRY(vyc__grow(&graph->nodes, &graph->node_room, number + 1, sizeof *graph->nodes));
  VYC_TRY(
      vyc__grow(&graph->edges, &graph->edge_room, graph->edge_count + count, sizeof *graph->edges));
  in->handle_count = is_first ? in->outside->count : count;
  VYC_TRY(vyc__grow(&in->handles, &in->handle_room, (uint32_t)in->handle_count + 1,
                    sizeof(CUgraphNode)));
  if (is_first && in->handle_count > 0)
    memcpy(in->handles, in->outside->nodes, in->handle_count * sizeof(CUgraphNode));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t before = in->node_of[in->order.found[i]];
    graph->edges[graph->edge_count + i] = before;
    in->handles[i] = graph->nodes[before].handle;
  }
  graph->nodes[number] = (vyc_node){.step = step,
                                    .role = role,
                                    .next = graph->steps[step].first_node,
                                    .parent = in->parent,
                                    .first_edge = graph->edge_count,
                                    .edge_count = count};
  graph->steps[step].first_node = number;
  graph->edge_count += count;
  graph->node_count++;
  *number_out = number;
  return VYC_OK;
}

/* The node that stands for the last one in the order. */
static vyc_status place(level *in, uint32_t number) {
  const uint32_t position = in->order.node_count - 1;
  VYC_TRY(vyc__grow(&in->node_of, &in->node_room, position + 1, sizeof(uint32_t)));
  in->node_of[position] = number;
  return VYC_OK;
}

static vyc_status begin_node(level *in, uint32_t *number_out, uint32_t step, uint32_t role,
                             const vyc_access *accesses, uint32_t count) {
  VYC_TRY(vyc__order_add(&in->order, accesses, count));
  VYC_TRY(add_record(in, number_out, step, role));
  return place(in, *number_out);
}

static vyc_status add_fill(level *in, uint32_t step, uint32_t role, uint64_t address,
                           uint64_t bytes, uint32_t value, uint32_t element_bytes) {
  vyc_graph *graph = in->graph;
  vyc_context *context = graph->child.context;
  const vyc_access access = {address, address + bytes, 1, 0};
  uint32_t number = 0;
  CUDA_MEMSET_NODE_PARAMS params;
  VYC_CU_RESULT;
  VYC_TRY(begin_node(in, &number, step, role, &access, 1));
  vyc_node *node = &graph->nodes[number];
  node->element_bytes = element_bytes;
  vyc__fill_params(address, bytes, value, element_bytes, &params);
  return VYC_CU(context, cuGraphAddMemsetNode, &node->handle, in->handle, in->handles,
                in->handle_count, &params, context->handle);
}

static vyc_status add_clears(level *in, uint32_t number) {
  vyc_step *step = &in->graph->steps[number];
  const vyc_values *values = step->now;
  memset(step->clears, 0, sizeof step->clears);
  for (uint32_t i = 0; i < step->prepared->binding_count; i++) {
    const vyc_argument *argument = &values->arguments[i];
    const uint64_t bytes = argument->count * step->prepared->bindings[i].element_bytes;
    if (bytes == 0 || !vyc__needs_clear(step->prepared, i, &values->run)) continue;
    const uint64_t address = argument->buffer->address + argument->offset;
    step->clears[i / 64] |= UINT64_C(1) << i % 64;
    VYC_TRY(add_fill(in, number, i, address, bytes, 0, vyc__clear_width(address, bytes)));
  }
  return VYC_OK;
}

static vyc_status make_cooperative(vyc_context *context, CUgraphNode node) {
  const char *operation = "cuGraphKernelNodeSetAttribute";
  CUkernelNodeAttrValue value;
  memset(&value, 0, sizeof value);
  value.cooperative = 1;
  const CUresult result =
      context->driver->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
  if (VYC_LIKELY(result == CUDA_SUCCESS)) return VYC_OK;
  if (result != CUDA_ERROR_NOT_SUPPORTED) return vyc__driver_failed(context, result, operation);
  return vyc__fail_driver(VYC_E_UNSUPPORTED, "cooperative_graph", (int32_t)result,
                          vyc__driver_result_name(context->driver, result),
                          "this driver does not accept kernels with grid barriers in graphs");
}

static vyc_status add_launch(level *in, uint32_t number) {
  vyc_graph *graph = in->graph;
  vyc_context *context = graph->child.context;
  vyc_step *step = &graph->steps[number];
  CUDA_KERNEL_NODE_PARAMS params;
  uint32_t at = 0;
  VYC_CU_RESULT;
  VYC_TRY(add_clears(in, number));
  if (vyc__step_is_empty(step, step->now)) return VYC_OK;
  if (step->barrier != NULL)
    VYC_TRY(add_fill(in, number, NODE_BARRIER, step->barrier->address, VYC_BARRIER_BYTES, 0, 4));
  VYC_TRY(begin_node(in, &at, number, NODE_LAUNCH, step->built, step->access_count));
  vyc__kernel_params(step, step->now, &params);
  VYC_TRY(VYC_CU(context, cuGraphAddKernelNode, &graph->nodes[at].handle, in->handle, in->handles,
                 in->handle_count, &params));
  return step->prepared->cooperative ? make_cooperative(context, graph->nodes[at].handle) : VYC_OK;
}

static vyc_status add_transfer(level *in, uint32_t number) {
  vyc_graph *graph = in->graph;
  vyc_context *context = graph->child.context;
  const vyc_step *step = &graph->steps[number];
  const vyc_graph_transfer *t = &step->now->transfer;
  CUDA_MEMCPY3D params;
  uint32_t at = 0;
  VYC_CU_RESULT;
  if (t->bytes == 0) return VYC_OK;
  if (vyc__is_fill(t))
    return add_fill(in, number, NODE_TRANSFER, t->to->address + t->to_offset, t->bytes, t->value,
                    t->element_bytes);
  VYC_TRY(begin_node(in, &at, number, NODE_TRANSFER, step->built, step->access_count));
  vyc__copy_params(t, &params);
  return VYC_CU(context, cuGraphAddMemcpyNode, &graph->nodes[at].handle, in->handle, in->handles,
                in->handle_count, &params, context->handle);
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static vyc_status add_steps(level *in, uint32_t first, uint32_t end);

static vyc_status fill_body(level *body, uint32_t number, uint32_t unrolled, const vyc_loop *loop) {
  vyc_graph *graph = body->graph;
  uint32_t at = 0;
  for (uint32_t i = 0; i < unrolled; i++)
    VYC_TRY(add_steps(body, number + 1, graph->steps[number].end));
  VYC_TRY(vyc__order_ends(&body->order));
  VYC_TRY(add_record(body, &at, number, NODE_LOOP_NEXT));
  graph->path = graph->path && (body->order.node_count == 0 || body->order.path);
  return vyc__loop_next_node(graph, &graph->nodes[at].handle, body->handle, body->handles,
                             body->handle_count, loop);
}

/* The kernel before a loop; the loop then follows only that kernel. */
static vyc_status add_begin(level *in, uint32_t step, const vyc_loop *loop) {
  vyc_graph *graph = in->graph;
  uint32_t at = 0;
  VYC_TRY(add_record(in, &at, step, NODE_LOOP_BEGIN));
  VYC_TRY(vyc__loop_begin_node(graph, &graph->nodes[at].handle, in->handle, in->handles,
                               in->handle_count, loop));
  VYC_TRY(place(in, at));
  in->order.found_count = 0;
  VYC_TRY(vyc__grow(&in->order.found, &in->order.found_room, 1, sizeof(uint32_t)));
  in->order.found[in->order.found_count++] = in->order.node_count - 1;
  return VYC_OK;
}

static vyc_status add_loop(level *in, uint32_t number, uint64_t limit, uint32_t unrolled) {
  vyc_graph *graph = in->graph;
  vyc_context *context = graph->child.context;
  const vyc_step *step = &graph->steps[number];
  /* A condition gets its default only at each launch of the whole graph: if the loop may be inside
   * another, which starts it again in each pass, a kernel sets it. */
  const bool nested = in->parent != VYC_NONE || in->outside != NULL;
  vyc_access *accesses = NULL;
  uint32_t count = 0, at = 0;
  level body = {.graph = graph, .order = {.serial = graph->serial}};
  vyc_loop loop = {.limit = limit,
                   .until = step->until == NULL ? 0 : step->until_address,
                   .until_bytes = step->until_bytes};
  VYC_CU_RESULT;
  if (limit != 0) loop.counter = graph->counters->address + 8 * (uint64_t)graph->loops_made;
  graph->loops_made++;
  CUgraphConditionalHandle handle = 0;
  VYC_TRY(VYC_CU(context, cuGraphConditionalHandleCreate, &handle, in->handle, context->handle, 1,
                 nested ? 0 : CU_GRAPH_COND_ASSIGN_DEFAULT));
  loop.handle = handle;
  VYC_TRY(vyc__gather_accesses(graph, number, step->end, &accesses, &count));
  vyc_status status = vyc__order_add(&in->order, accesses, count);
  free(accesses);
  if (status == VYC_OK && (nested || limit != 0)) status = add_begin(in, number, &loop);
  if (status == VYC_OK) status = add_record(in, &at, number, NODE_LOOP);
  if (status == VYC_OK) status = place(in, at);
  if (status == VYC_OK)
    status = vyc__loop_while_node(graph, &graph->nodes[at].handle, &body.handle, in->handle,
                                  in->handles, in->handle_count, &loop);
  body.parent = at;
  if (status == VYC_OK) status = fill_body(&body, number, unrolled, &loop);
  level_free(&body);
  return status;
}

static vyc_status add_repeat(level *in, uint32_t number) {
  const vyc_step *step = &in->graph->steps[number];
  const vyc_shape s = vyc__repeat_shape(in->graph, number);
  if (s.is_loop) VYC_TRY(add_loop(in, number, s.limit, s.part));
  for (uint64_t i = 0; i < s.rest; i++) VYC_TRY(add_steps(in, number + 1, step->end));
  return VYC_OK;
}

static vyc_status add_steps(level *in, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    const vyc_step *step = &in->graph->steps[i];
    if (step->kind == STEP_LAUNCH) VYC_TRY(add_launch(in, i));
    if (step->kind == STEP_TRANSFER) VYC_TRY(add_transfer(in, i));
    if (step->kind != STEP_REPEAT) continue;
    VYC_TRY(add_repeat(in, i));
    i = in->graph->steps[i].end - 1;
  }
  return VYC_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void begin_steps(vyc_graph *graph) {
  graph->node_count = 0;
  graph->edge_count = 0;
  graph->loops_made = 0;
  graph->path = true;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    vyc_step *step = &graph->steps[i];
    step->first_node = VYC_NONE;
    step->stale = false;
    if (step->kind == STEP_REPEAT) continue;
    step->built_empty = vyc__step_is_empty(step, step->now);
    step->access_count = vyc__step_accesses(step, step->now, step->built);
    step->moved = vyc__has_moved(step, step->base);
  }
}

/* For messages about its launches: the number of steps, and as many kernels as fit. */
static vyc_status name_graph(vyc_graph *graph) {
  char text[512];
  int used = snprintf(text, sizeof text, "a graph of %u step%s", graph->step_count,
                      graph->step_count == 1 ? "" : "s");
  const char *between = " (", *last = NULL;
  for (uint32_t i = 0; i < graph->step_count; i++) {
    const vyc_step *step = &graph->steps[i];
    if (step->kind != STEP_LAUNCH || (last != NULL && strcmp(step->prepared->name, last) == 0))
      continue;
    last = step->prepared->name;
    if ((size_t)used + strlen(last) + 8 > sizeof text) {
      used += snprintf(text + used, sizeof text - (size_t)used, "%s...", between);
      between = ", ";
      break;
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", between, last);
    between = ", ";
  }
  if (between[0] == ',') snprintf(text + used, sizeof text - (size_t)used, ")");
  vyc__name_release(&graph->child.context->history, graph->called); /* from a finish that failed */
  graph->called = NULL;
  VYC_TRY(vyc__name_make(&graph->called, text, NULL));
  graph->noted = vyc__noted_as(graph->called);
  return VYC_OK;
}

vyc_status vyc__graph_prepare(vyc_graph *graph) {
  VYC_TRY(vyc__check_size(graph));
  begin_steps(graph);
  return vyc__loops_prepare(graph, vyc__count_loops(graph));
}

/* What follows the whole graph follows these. */
static vyc_status list_ends(level *root, vyc_outside *outside) {
  VYC_TRY(vyc__order_ends(&root->order));
  const uint32_t count = root->order.found_count;
  VYC_TRY(vyc__grow(&outside->ends, &outside->end_room, count + 1, sizeof(CUgraphNode)));
  for (uint32_t i = 0; i < count; i++)
    outside->ends[i] = root->graph->nodes[root->node_of[root->order.found[i]]].handle;
  outside->end_count = count;
  return VYC_OK;
}

vyc_status vyc__graph_fill(vyc_graph *graph, CUgraph into, vyc_outside *outside) {
  level root = {.graph = graph,
                .handle = into,
                .parent = VYC_NONE,
                .outside = outside,
                .order = {.serial = graph->serial}};
  vyc_status status = add_steps(&root, 0, graph->step_count);
  graph->path = graph->path && (root.order.node_count == 0 || root.order.path);
  if (status == VYC_OK && outside != NULL) status = list_ends(&root, outside);
  level_free(&root);
  return status;
}

static vyc_status make(vyc_graph *graph) {
  vyc_context *context = graph->child.context;
  VYC_CU_RESULT;
  VYC_TRY(vyc__graph_prepare(graph));
  VYC_TRY(name_graph(graph));
  VYC_TRY(VYC_CU(context, cuGraphCreate, &graph->graph, 0));
  VYC_TRY(vyc__graph_fill(graph, graph->graph, NULL));
  VYC_TRY(vyc__ranges_make(graph));
  vyc__count(&context->counters, cuda_graph_instantiations, 1);
  VYC_TRY(vyc__graph_instantiate(graph));
  return VYC_CU(context, cuGraphUpload, graph->exec, context->main);
}

vyc_status vyc__graph_build(vyc_graph *graph) {
  const vyc_driver *driver = graph->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  graph->renewed = atomic_load(&graph->used.near) != 0;
  vyc__graph_unbuild(graph);
  const vyc_status status = make(graph);
  if (status != VYC_OK) {
    vyc__record_keep();
    vyc__graph_unbuild(graph);
    vyc__record_resume();
  }
  vyc__capture_restore(driver, mode);
  return status;
}

void vyc__graph_unbuild(vyc_graph *graph) {
  const vyc_driver *driver = graph->child.context->driver;
  const CUstreamCaptureMode mode = vyc__capture_relax(driver);
  if (graph->exec != NULL) driver->cuGraphExecDestroy(graph->exec);
  if (graph->graph != NULL) driver->cuGraphDestroy(graph->graph);
  graph->exec = NULL;
  graph->graph = NULL;
  vyc__capture_restore(driver, mode);
}
