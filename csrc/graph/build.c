/* From steps to the driver's nodes: edges from what they touch, and repetitions unrolled or made
 * loops, as unroll.c decides. */
#include <inttypes.h>
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
  const vyc_outside *outside; /* of the whole graph, inside another library's graph */
  uint32_t handle_room;
  size_t handle_count;
  CUgraphNode *handles; /* of the nodes that the next one follows */
  vyc_capturing capturing; /* collectives; those of loops are refused */
} level;

static void level_free(level *in) {
  vyc__order_free(&in->order);
  free(in->node_of);
  free(in->handles);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Add the handles of a node, which the nodes behind it follow. */
static vyc_status add_handles(level *in, uint32_t number) {
  const vyc_graph *graph = in->graph;
  const vyc_node *node = &graph->nodes[number];
  const bool is_many = node->role == NODE_COLLECTIVES;
  const CUgraphNode *handles = is_many ? graph->ends + node->first_end : &node->handle;
  const uint32_t count = is_many ? node->end_count : 1;
  VYC_TRY(vyc__grow(&in->handles, &in->handle_room, (uint32_t)in->handle_count + count + 1,
                    sizeof(CUgraphNode)));
  if (count > 0) memcpy(in->handles + in->handle_count, handles, count * sizeof *handles);
  in->handle_count += count;
  return VYC_OK;
}

/* A record of the node for which `order.found` was made, with its edges. The caller sets the
 * handle. */
static vyc_status add_record(level *in, uint32_t *number_out, uint32_t step, uint32_t role) {
  vyc_graph *graph = in->graph;
  const uint32_t number = graph->node_count, count = in->order.found_count;
  const bool is_first = count == 0 && in->outside != NULL;
  if (number >= VYC_MOST_NODES)
    return vyc__fail(VYC_E_UNSUPPORTED, "graph_nodes",
                     "the graph has more than %" PRIu64 " nodes: record several graphs",
                     VYC_MOST_NODES);
  VYC_TRY(vyc__grow(&graph->nodes, &graph->node_room, number + 1, sizeof *graph->nodes));
  VYC_TRY(
      vyc__grow(&graph->edges, &graph->edge_room, graph->edge_count + count, sizeof *graph->edges));
  in->handle_count = is_first ? in->outside->count : 0;
  VYC_TRY(vyc__grow(&in->handles, &in->handle_room, (uint32_t)in->handle_count + 1,
                    sizeof(CUgraphNode)));
  if (is_first && in->handle_count > 0)
    memcpy(in->handles, in->outside->nodes, in->handle_count * sizeof(CUgraphNode));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t before = in->node_of[in->order.found[i]];
    graph->edges[graph->edge_count + i] = before;
    VYC_TRY(add_handles(in, before));
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
  return vyc__fail_driver(
      VYC_E_UNSUPPORTED, "cooperative_graph", (int32_t)result,
      vyc__driver_result_name(context->driver, result),
      "this driver does not accept kernels with grid barriers in graphs: launch them alone");
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

static vyc_status add_collectives(level *in, uint32_t number) {
  vyc_graph *graph = in->graph;
  const vyc_step *step = &graph->steps[number];
  vyc_collectives *of = step->collectives;
  uint32_t at = 0;
  vyc_ends ends;
  of->one_shots = 0;
  if (step->built_empty) return VYC_OK;
  VYC_TRY(begin_node(in, &at, number, NODE_COLLECTIVES, step->built, step->access_count));
  const vyc_ends behind = {in->handles, (uint32_t)in->handle_count};
  VYC_TRY(vyc__collectives_capture(of->communicator, &in->capturing, &ends, &of->one_shots,
                                   in->handle, &behind, of->all, of->count));
  const vyc_status status = vyc__grow(&graph->ends, &graph->end_room,
                                      graph->end_count + ends.count + 1, sizeof *graph->ends);
  if (status == VYC_OK) {
    memcpy(graph->ends + graph->end_count, ends.nodes, ends.count * sizeof *ends.nodes);
    graph->nodes[at].first_end = graph->end_count;
    graph->nodes[at].end_count = ends.count;
    graph->end_count += ends.count;
  }
  free(ends.nodes);
  return status;
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
    if (step->kind == STEP_COLLECTIVES) VYC_TRY(add_collectives(in, i));
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
  graph->end_count = 0;
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
  vyc_status status =
      vyc__collectives_captured(&root.capturing, add_steps(&root, 0, graph->step_count));
  graph->path = graph->path && (root.order.node_count == 0 || root.order.path);
  if (status == VYC_OK && outside != NULL) status = list_ends(&root, outside);
  level_free(&root);
  return status;
}
