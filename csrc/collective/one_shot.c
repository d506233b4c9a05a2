/* All-reduces in one shot: a kernel of each rank writes into inboxes of all ranks, and waits there.
 *
 * The kernels (distributed/one_shot_program.py) count their calls in device memory, so those of a
 * rank run one after the other, whatever their streams: a launch on another stream than the last
 * one waits for it. */
#include <stdlib.h>
#include <string.h>

#include "one_shot.h"

/* ---- kernels --------------------------------------------------------------------------------- */

static vyc_one_shot_kernel *kernel_make(vyc_prepared *prepared) {
  const size_t pointers = prepared->parameter_count * sizeof(void *);
  vyc_one_shot_kernel *k = calloc(1, sizeof *k + pointers + 2 * (size_t)prepared->block_bytes);
  if (k == NULL) return NULL;
  void **room = (void **)(void *)(k + 1);
  uint8_t *blocks = (uint8_t *)(room + prepared->parameter_count);
  k->prepared = prepared;
  k->block = blocks + prepared->block_bytes;
  vyc__launch_graph_init(&k->launch_graph, prepared, room, blocks);
  vyc__child_retain(&prepared->child);
  return k;
}

vyc_status vyc_one_shot_add(vyc_communicator *communicator, uint32_t type, uint32_t op,
                            vyc_prepared *prepared) {
  VYC_REQUIRE(communicator != NULL && prepared != NULL);
  VYC_REQUIRE(type < VYC_ONE_SHOT_TYPES && op < VYC_ONE_SHOT_OPS);
  vyc_one_shot *o = atomic_load(&communicator->one_shot);
  VYC_REQUIRE(o != NULL && prepared->child.context == communicator->child.context);
  VYC_REQUIRE(prepared->binding_count == o->group->size + VYC_ONE_SHOT_OTHERS);
  VYC_REQUIRE(prepared->scalar_count == 1 && !prepared->has_report && !prepared->has_barrier);
  vyc_status status = VYC_OK;
  pthread_mutex_lock(&communicator->lock);
  vyc_one_shot_kernel **place = &o->kernels[type * VYC_ONE_SHOT_OPS + op];
  if (*place == NULL) {
    *place = kernel_make(prepared);
    if (*place == NULL) status = vyc__fail(VYC_E_MEMORY, "one_shot", "out of host memory");
  }
  pthread_mutex_unlock(&communicator->lock);
  return status;
}

vyc_status vyc_one_shot_limit(vyc_communicator *communicator, uint64_t bytes) {
  VYC_REQUIRE(communicator != NULL);
  vyc_one_shot *o = atomic_load(&communicator->one_shot);
  VYC_REQUIRE(o != NULL && bytes <= o->most_bytes);
  VYC_REQUIRE(bytes == 0 || o->is_connected);
  atomic_store(&o->limit, bytes);
  return VYC_OK;
}

vyc_status vyc__one_shot_check(const vyc_communicator *c, uint64_t most_bytes) {
  VYC_REQUIRE_IN("one_shot", most_bytes > 0 && most_bytes % VYC_ONE_SHOT_BLOCK_BYTES == 0);
  VYC_REQUIRE_IN("one_shot", most_bytes <= UINT32_MAX / 16);
  VYC_REQUIRE_IN("one_shot", atomic_load(&c->one_shot) == NULL);
  if (c->size <= (int32_t)VYC_ONE_SHOT_RANKS) return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "one_shot",
                   "the group has %d ranks, and at most %u are possible", c->size,
                   VYC_ONE_SHOT_RANKS);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool vyc__one_shot_takes(const vyc_communicator *c, const vyc_collective *w) {
  if (w->kind != VYC_ALL_REDUCE) return false;
  const vyc_one_shot *o = atomic_load_explicit(&c->one_shot, memory_order_acquire);
  return o != NULL && vyc__collective_bytes(c, w, false) <=
                          atomic_load_explicit(&o->limit, memory_order_relaxed);
}

static vyc_status record_order(vyc_context *context, vyc_one_shot *o, CUstream stream) {
  VYC_CU_RESULT;
  if (o->order == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &o->order, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuEventRecord, o->order, stream));
  o->is_ordered = true;
  return VYC_OK;
}

/* Behind the last launch, on whatever stream. */
static vyc_status follow_last(vyc_context *context, vyc_one_shot *o, CUstream stream) {
  if (VYC_LIKELY(!o->is_ordered && (stream == context->main || !o->is_used))) return VYC_OK;
  VYC_CU_RESULT;
  if (!o->is_ordered) VYC_TRY(record_order(context, o, context->main));
  return VYC_CU(context, cuStreamWaitEvent, stream, o->order, CU_EVENT_WAIT_DEFAULT);
}

/* Streams but the context's own may be destroyed before the next launch. */
static vyc_status remember(vyc_context *context, vyc_one_shot *o, CUstream stream) {
  o->is_used = true;
  o->is_ordered = false;
  return VYC_LIKELY(stream == context->main) ? VYC_OK : record_order(context, o, stream);
}

/* Addresses and numbers of elements in the order of the kernel's parameters. */
static void arguments_of(const vyc_one_shot *o, uint32_t rank, const vyc_collective *w,
                         uint64_t *addresses, vyc_argument *arguments) {
  const vyc_inboxes *g = o->group;
  uint32_t i = 0;
  addresses[i] = w->in->address + w->in_offset;
  arguments[i++].count = w->count;
  addresses[i] = w->out->address + w->out_offset;
  arguments[i++].count = w->count;
  for (uint32_t other = 0; other < g->size; other++) {
    addresses[i] = g->ranks[other].inbox;
    arguments[i++].count = o->inbox_bytes / sizeof(uint64_t);
  }
  addresses[i] = g->ranks[rank].inbox;
  arguments[i++].count = o->inbox_bytes / sizeof(uint64_t);
  addresses[i] = o->epochs;
  arguments[i++].count = vyc__epoch_bytes(o->most_bytes) / sizeof(uint32_t);
  addresses[i] = o->word->address;
  arguments[i].count = 1;
}

/* The parameters of one all-reduce in `k->block`; returns what is launched with them. */
static vyc_form describe(const vyc_one_shot *o, vyc_one_shot_kernel *k, uint32_t rank,
                         const vyc_collective *w, uint64_t bytes) {
  uint64_t addresses[VYC_ONE_SHOT_RANKS + VYC_ONE_SHOT_OTHERS];
  vyc_argument arguments[VYC_ONE_SHOT_RANKS + VYC_ONE_SHOT_OTHERS] = {{0}};
  const uint64_t scalars[1] = {rank};
  const vyc_run run = {.arguments = arguments, .scalars = scalars};
  const vyc_hidden hidden = {0};
  arguments_of(o, rank, w, addresses, arguments);
  vyc__block_write(k->prepared, k->block, addresses, &run, &hidden);
  const uint32_t blocks = (uint32_t)((bytes - 1) / VYC_ONE_SHOT_BLOCK_BYTES + 1);
  return (vyc_form){k->prepared->function, {blocks, 1, 1}};
}

static vyc_status launch_kernel(const vyc_one_shot *o, vyc_one_shot_kernel *k, uint32_t rank,
                                const vyc_collective *w, uint64_t bytes, CUstream stream) {
  vyc_launch_graph *launch_graph = &k->launch_graph;
  const vyc_form form = describe(o, k, rank, w, bytes);
  vyc__launch_graph_claim_wait(launch_graph);
  const vyc_status status =
      k->is_known
          ? vyc__launch_graph_launch(launch_graph, k->prepared, k->block, &form, stream)
          : vyc__launch_graph_launch_once(launch_graph, k->prepared, k->block, &form, stream);
  vyc__launch_graph_unclaim(launch_graph);
  k->is_known = true;
  return status;
}

/* What follows is between the two counts, so that a rank that leaves waits for it; it then destroys
 * the event of the order. The calls are counted before, because a launch may wait for kernels that
 * wait for the rank that leaves. */
static vyc_status begin(vyc_communicator *c, vyc_one_shot *o, uint64_t calls, CUstream stream) {
  vyc_inboxes *g = o->group;
  atomic_fetch_add(&g->ranks[c->rank].launching, 1);
  vyc_status status = VYC_LIKELY(!atomic_load(&g->ranks[c->rank].ended))
                          ? follow_last(c->child.context, o, stream)
                          : vyc__fail(VYC_E_COMMUNICATION, "all_reduce",
                                      "a rank has left the group: make another group");
  if (VYC_LIKELY(status == VYC_OK))
    atomic_fetch_add(&g->ranks[c->rank].calls, calls);
  else
    atomic_fetch_sub(&g->ranks[c->rank].launching, 1);
  return status;
}

static vyc_status end(const vyc_communicator *c, vyc_one_shot *o, uint64_t calls, bool is_launched,
                      CUstream stream) {
  vyc_inboxes *g = o->group;
  const vyc_status status =
      VYC_LIKELY(is_launched) ? remember(c->child.context, o, stream) : VYC_OK;
  if (VYC_UNLIKELY(!is_launched)) atomic_fetch_sub(&g->ranks[c->rank].calls, calls);
  atomic_fetch_sub(&g->ranks[c->rank].launching, 1);
  return status;
}

static vyc_status kernel_of(const vyc_one_shot *o, const vyc_collective *w,
                            vyc_one_shot_kernel **kernel_out) {
  *kernel_out = o->kernels[w->type * VYC_ONE_SHOT_OPS + w->op];
  if (*kernel_out != NULL) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "one_shot", "there is no kernel for the type");
}

static vyc_status launch(vyc_communicator *c, vyc_one_shot *o, const vyc_collective *w,
                         uint64_t bytes, CUstream stream) {
  vyc_one_shot_kernel *k;
  VYC_TRY(kernel_of(o, w, &k));
  VYC_TRY(begin(c, o, 1, stream));
  const vyc_status status = launch_kernel(o, k, (uint32_t)c->rank, w, bytes, stream);
  const vyc_status ended = end(c, o, 1, status == VYC_OK, stream);
  return status == VYC_OK ? ended : status;
}

vyc_status vyc__one_shot_give(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  vyc_one_shot *o = atomic_load(&c->one_shot);
  const uint64_t bytes = vyc__collective_bytes(c, w, false);
  vyc_scope scope;
  if (bytes == 0) return VYC_OK;
  if (VYC_LIKELY(!vyc__is_starting))
    return launch(c, o, w, bytes, stream); /* it has been entered */
  VYC_TRY(vyc__enter_warm(c->child.context, &scope));
  const vyc_status status = launch(c, o, w, bytes, stream);
  vyc__leave(c->child.context, &scope);
  return status;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

vyc_status vyc__one_shot_node(vyc_communicator *c, CUgraphNode *node_out, CUgraph into,
                              const vyc_ends *behind, const vyc_collective *w, uint64_t bytes) {
  vyc_one_shot *o = atomic_load(&c->one_shot);
  vyc_context *context = c->child.context;
  void *pointers[2 * VYC_ONE_SHOT_RANKS + 2 * VYC_ONE_SHOT_OTHERS + 1];
  CUDA_KERNEL_NODE_PARAMS params;
  vyc_one_shot_kernel *k;
  VYC_CU_RESULT;
  VYC_TRY(kernel_of(o, w, &k));
  VYC_REQUIRE_IN("one_shot", k->prepared->parameter_count <= sizeof pointers / sizeof *pointers);
  const vyc_form form = describe(o, k, (uint32_t)c->rank, w, bytes);
  memset(&params, 0, sizeof params);
  vyc__block_pointers(k->prepared, pointers, k->block);
  params.func = form.function;
  params.gridDimX = form.grid[0];
  params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = k->prepared->block[0];
  params.blockDimY = k->prepared->block[1];
  params.blockDimZ = k->prepared->block[2];
  params.sharedMemBytes = k->prepared->dynamic_shared_bytes;
  params.kernelParams = pointers;
  return VYC_CU(context, cuGraphAddKernelNode, node_out, into,
                behind->count == 0 ? NULL : behind->nodes, behind->count, &params);
}

vyc_status vyc__one_shots_begin(vyc_communicator *c, uint64_t calls, CUstream stream) {
  pthread_mutex_lock(&c->lock);
  const vyc_status status = begin(c, atomic_load(&c->one_shot), calls, stream);
  pthread_mutex_unlock(&c->lock);
  return status;
}

vyc_status vyc__one_shots_end(vyc_communicator *c, uint64_t calls, bool is_launched,
                              CUstream stream) {
  pthread_mutex_lock(&c->lock);
  const vyc_status status = end(c, atomic_load(&c->one_shot), calls, is_launched, stream);
  pthread_mutex_unlock(&c->lock);
  return status;
}
