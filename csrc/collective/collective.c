/* Collectives, given to streams alone or in groups.
 *
 * They use their buffers as a launch does. NCCL gives the work of a group to the streams when the
 * group ends, so what must follow the work (order of adopted memory, marks that were taken) is
 * noted until then, for the thread, because NCCL's groups are the thread's. */
#include <inttypes.h>
#include <stdlib.h>

#include "room.h"

/* ---- checks --------------------------------------------------------------------------------- */

static const uint8_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                    "all_to_all", "send",       "receive"};

/* How many elements each side has for `count`. */
static uint64_t parts_in(const vyc_communicator *c, const vyc_collective *w) {
  return w->kind == VYC_REDUCE_SCATTER || w->kind == VYC_ALL_TO_ALL ? (uint64_t)c->size : 1;
}
static uint64_t parts_out(const vyc_communicator *c, const vyc_collective *w) {
  return w->kind == VYC_ALL_GATHER || w->kind == VYC_ALL_TO_ALL ? (uint64_t)c->size : 1;
}

uint64_t vyc__collective_bytes(const vyc_communicator *c, const vyc_collective *w, bool written) {
  return w->count * element_bytes[w->type] * (written ? parts_out(c, w) : parts_in(c, w));
}

static vyc_status check_side(const vyc_communicator *c, const vyc_collective *w,
                             const vyc_buffer *buffer, uint64_t offset, uint64_t parts,
                             const char *side) {
  const char *name = names[w->kind];
  const uint32_t bytes = element_bytes[w->type];
  uint64_t all = 0, total = 0;
  if (buffer == NULL) return vyc__fail(VYC_E_INVALID, name, "`%s` is NULL: give a buffer", side);
  if (buffer->child.context != c->child.context)
    return vyc__fail(VYC_E_INVALID, name,
                     "`%s` is memory of device %d, but the communicator belongs to device %d", side,
                     buffer->child.context->caps.ordinal, c->child.context->caps.ordinal);
  if (vyc__mul_overflows(w->count, parts, &all) || vyc__mul_overflows(all, bytes, &total) ||
      offset > buffer->bytes || total > buffer->bytes - offset)
    return vyc__fail(VYC_E_INVALID, name,
                     "%" PRIu64 " elements of %u bytes from byte %" PRIu64
                     " of `%s`, which has %" PRIu64 " bytes",
                     w->count * parts, bytes, offset, side, buffer->bytes);
  if (!vyc__is_aligned(buffer->address + offset, bytes))
    return vyc__fail(VYC_E_INVALID, name, "`%s` does not begin at a multiple of %u bytes", side,
                     bytes);
  return VYC_OK;
}

/* Where NCCL allows both to be the same memory, it must be the same part. */
static vyc_status check_overlap(const vyc_communicator *c, const vyc_collective *w) {
  const uint64_t part = w->count * element_bytes[w->type];
  const uint64_t in = w->in->address + w->in_offset, out = w->out->address + w->out_offset;
  const uint64_t in_bytes = part * parts_in(c, w), out_bytes = part * parts_out(c, w);
  if (in >= out + out_bytes || out >= in + in_bytes) return VYC_OK;
  const uint64_t own = part * (uint64_t)c->rank;
  const bool is_in_place = w->kind == VYC_ALL_GATHER       ? in == out + own
                           : w->kind == VYC_REDUCE_SCATTER ? out == in + own
                           : w->kind == VYC_ALL_TO_ALL     ? false
                                                           : in == out;
  if (is_in_place) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, names[w->kind], "`in` and `out` overlap: give separate memory");
}

vyc_status vyc__collective_check(const vyc_communicator *c, const vyc_collective *w) {
  VYC_REQUIRE_IN("collective", w->struct_size >= sizeof *w);
  VYC_REQUIRE_IN("collective", w->kind <= VYC_RECEIVE && w->type <= VYC_ELEMENT_BF16);
  VYC_REQUIRE_IN("collective", w->op <= VYC_COMBINE_MIN);
  const bool has_peer = w->kind == VYC_BROADCAST || w->kind >= VYC_SEND;
  if (has_peer && (w->peer < 0 || w->peer >= c->size))
    return vyc__fail(VYC_E_INVALID, names[w->kind], "rank %d is out of range: there are %d ranks",
                     w->peer, c->size);
  if (w->kind >= VYC_SEND && w->peer == c->rank)
    return vyc__fail(VYC_E_INVALID, names[w->kind], "rank %d is this rank itself: copy instead",
                     w->peer);
  if (w->kind != VYC_RECEIVE) VYC_TRY(check_side(c, w, w->in, w->in_offset, parts_in(c, w), "in"));
  if (w->kind != VYC_SEND) {
    VYC_TRY(check_side(c, w, w->out, w->out_offset, parts_out(c, w), "out"));
    VYC_TRY(vyc__check_writable(w->out, names[w->kind]));
  }
  return w->kind < VYC_SEND && w->count > 0 ? check_overlap(c, w) : VYC_OK;
}

/* ---- NCCL's calls --------------------------------------------------------------------------- */

/* The lock is held. Each rank sends a part to each, also to itself. */
static int give_all_to_all(const vyc_communicator *c, const vyc_collective *w, const char *in,
                           char *out, CUstream stream) {
  const vyc_nccl *nccl = c->nccl;
  const uint64_t part = w->count * element_bytes[w->type];
  int result = nccl->ncclGroupStart();
  if (result != VYC_NCCL_SUCCESS) return result;
  for (int32_t rank = 0; result == VYC_NCCL_SUCCESS && rank < c->size; rank++) {
    const uint64_t offset = (uint64_t)rank * part;
    result = nccl->ncclSend(in + offset, w->count, (int)w->type, rank, c->comm, stream);
    if (result == VYC_NCCL_SUCCESS)
      result = nccl->ncclRecv(out + offset, w->count, (int)w->type, rank, c->comm, stream);
  }
  const int end = nccl->ncclGroupEnd();
  return result == VYC_NCCL_SUCCESS ? end : result;
}

int vyc__nccl_give(const vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  const vyc_nccl *nccl = c->nccl;
  const void *in = w->in == NULL ? NULL : (void *)(uintptr_t)(w->in->address + w->in_offset);
  void *out = w->out == NULL ? NULL : (void *)(uintptr_t)(w->out->address + w->out_offset);
  const int type = (int)w->type, op = (int)w->op;
  switch (w->kind) {
  case VYC_ALL_REDUCE: return nccl->ncclAllReduce(in, out, w->count, type, op, c->comm, stream);
  case VYC_ALL_GATHER: return nccl->ncclAllGather(in, out, w->count, type, c->comm, stream);
  case VYC_REDUCE_SCATTER:
    return nccl->ncclReduceScatter(in, out, w->count, type, op, c->comm, stream);
  case VYC_BROADCAST: return nccl->ncclBroadcast(in, out, w->count, type, w->peer, c->comm, stream);
  case VYC_ALL_TO_ALL: return give_all_to_all(c, w, in, out, stream);
  case VYC_SEND: return nccl->ncclSend(in, w->count, type, w->peer, c->comm, stream);
  default: return nccl->ncclRecv(out, w->count, type, w->peer, c->comm, stream);
  }
}

static _Thread_local bool is_starting; /* this thread starts a group, which is one call */

/* The lock is held. */
static vyc_status give(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  const uint64_t bytes = w->count * element_bytes[w->type];
  if (w->kind == VYC_ALL_REDUCE && vyc__one_shot_takes(c, bytes))
    return vyc__one_shot_give(c, w, bytes, stream); /* which does not wait */
  if (!is_starting) vyc__call_begins(c);
  const int result = vyc__nccl_give(c, w, stream);
  if (!is_starting) vyc__call_ends(c);
  if (result == VYC_NCCL_SUCCESS) return VYC_OK;
  VYC_TRY(vyc__communicator_check(c, names[w->kind])); /* it was ended meanwhile: that is why */
  return vyc__nccl_failed(c->nccl, result, names[w->kind]);
}

/* A look of another thread at what a call has noted is whole where it finds one time before and
 * after it. */
void vyc__call_begins(vyc_communicator *c) {
  atomic_store_explicit(&c->call_began_ns, vyc__now_ns(), memory_order_release);
}
void vyc__call_ends(vyc_communicator *c) {
  atomic_store_explicit(&c->call_began_ns, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
}

static uint64_t digest_with(uint64_t digest, uint64_t word) {
  return (digest ^ word) * UINT64_C(0x100000001B3);
}

/* What ranks compare where one waits for ever: sends and receives differ by rank. */
void vyc__collective_note(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  const memory_order relaxed = memory_order_relaxed;
  const uint64_t issued = atomic_load_explicit(&c->issued, relaxed);
  uint64_t digest = atomic_load_explicit(&c->digest, relaxed);
  atomic_store_explicit(&c->issued, issued + 1, relaxed);
  atomic_store_explicit(&c->last_stream, stream, relaxed);
  atomic_store_explicit(&c->last_kind, w->kind, relaxed);
  atomic_store_explicit(&c->last_type, w->type, relaxed);
  atomic_store_explicit(&c->last_count, w->count, relaxed);
  if (w->kind >= VYC_SEND) return;
  digest = digest_with(digest, (uint64_t)w->kind << 32 | w->type << 16 | w->op << 8 | 1);
  digest = digest_with(digest, w->count);
  if (w->kind == VYC_BROADCAST) digest = digest_with(digest, (uint64_t)w->peer);
  atomic_store_explicit(&c->digest, digest, relaxed);
}

vyc_status vyc__collective_give(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  pthread_mutex_lock(&c->lock);
  vyc_status status = vyc__communicator_check(c, names[w->kind]);
  if (status == VYC_OK) {
    vyc__collective_note(c, w, stream);
    status = give(c, w, stream);
  }
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* One collective of a group, whose buffers are held until it ends. */
typedef struct noted {
  vyc_communicator *communicator;
  vyc_collective collective;
  vyc_launch_stream on;
  uint32_t taken;
} noted;

typedef struct group {
  const vyc_nccl *nccl;
  noted *all;
  uint32_t count, room, depth;
} group;

static _Thread_local group mine;

static vyc_status after(const noted *n) {
  const vyc_collective *w = &n->collective;
  vyc_context *context = n->communicator->child.context;
  vyc_argument arguments[2] = {{.kind = VYC_ARGUMENT_BUFFER}, {.kind = VYC_ARGUMENT_BUFFER}};
  uint32_t count = 0;
  if (w->in != NULL) arguments[count++].buffer = w->in;
  if (w->out != NULL && w->out != w->in) arguments[count++].buffer = w->out;
  const vyc_run run = {.argument_count = count, .arguments = arguments, .stream = w->stream};
  return vyc__run_enqueued(context, &run, n->on.stream, n->on.slot, n->taken);
}

static void hold(const noted *n) {
  vyc__child_retain(&n->communicator->child);
  if (n->collective.in != NULL) vyc__child_retain(&n->collective.in->child);
  if (n->collective.out != NULL) vyc__child_retain(&n->collective.out->child);
  if (n->collective.stream != NULL) vyc__child_retain(&n->collective.stream->child);
}

static void let_go(const noted *n) {
  vyc_buffer_release(n->collective.in);
  vyc_buffer_release(n->collective.out);
  vyc_stream_release(n->collective.stream);
  vyc_communicator_release(n->communicator);
}

static vyc_status keep(const noted *n) {
  if (mine.count == mine.room) {
    const uint32_t room = mine.room * 2 + 8;
    noted *all = realloc(mine.all, room * sizeof *all);
    if (all == NULL) return vyc__fail(VYC_E_MEMORY, "collective", "out of host memory");
    mine.all = all;
    mine.room = room;
  }
  mine.all[mine.count++] = *n;
  hold(n);
  return VYC_OK;
}

vyc_status vyc_collectives_begin(void) {
  const vyc_nccl *nccl = vyc__nccl();
  if (nccl == NULL) return vyc__fail(VYC_E_UNSUPPORTED, "nccl", "call vyc_nccl_open first");
  if (mine.depth == 0) mine = (group){.nccl = nccl};
  mine.depth++;
  return VYC_OK;
}

/* In the end of the group NCCL waits for other ranks, where it does. */
static vyc_status give_all(const vyc_nccl *nccl, const noted *all, uint32_t count) {
  int result = nccl->ncclGroupStart();
  if (result != VYC_NCCL_SUCCESS) return vyc__nccl_failed(nccl, result, "ncclGroupStart");
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < count; i++)
    status = vyc__collective_give(all[i].communicator, &all[i].collective, all[i].on.stream);
  result = nccl->ncclGroupEnd();
  if (status != VYC_OK || result == VYC_NCCL_SUCCESS) return status;
  for (uint32_t i = 0; i < count; i++) /* one was ended meanwhile: that is why */
    VYC_TRY(vyc__communicator_check(all[i].communicator, "ncclGroupEnd"));
  return vyc__nccl_failed(nccl, result, "ncclGroupEnd");
}

static vyc_status too_many(void) {
  return vyc__fail(VYC_E_INVALID, "collective",
                   "a group can have collectives of %u devices at most", VYC_MOST_TOGETHER);
}

/* NCCL gets all of them at once here, so that a group that is cancelled starts nothing. */
static vyc_status start(const vyc_nccl *nccl, const noted *all, uint32_t count) {
  vyc_together t;
  t.count = 0;
  for (uint32_t i = 0; i < count; i++)
    if (!vyc__together_add(&t, all[i].communicator->child.context)) return too_many();
  vyc__together_begin(&t);
  for (uint32_t i = 0; i < count; i++) vyc__call_begins(all[i].communicator);
  is_starting = true;
  const vyc_status status = give_all(nccl, all, count);
  is_starting = false;
  for (uint32_t i = 0; i < count; i++) vyc__call_ends(all[i].communicator);
  vyc__together_end(&t);
  return status;
}

static void leave_group(void) {
  for (uint32_t i = 0; i < mine.count; i++) let_go(&mine.all[i]);
  free(mine.all);
  mine = (group){0};
}

vyc_status vyc_collectives_cancel(void) {
  VYC_REQUIRE(mine.depth > 0);
  leave_group();
  return VYC_OK;
}

static vyc_status follow(const noted *n) {
  vyc_context *context = n->communicator->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = after(n);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_collectives_end(void) {
  VYC_REQUIRE(mine.depth > 0);
  if (--mine.depth > 0) return VYC_OK;
  vyc_status status = mine.count > 0 ? start(mine.nccl, mine.all, mine.count) : VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < mine.count; i++) status = follow(&mine.all[i]);
  leave_group();
  return status;
}

/* ---- one ------------------------------------------------------------------------------------ */

static vyc_status prepare(noted *n) {
  const vyc_collective *w = &n->collective;
  vyc_context *context = n->communicator->child.context;
  n->taken = vyc__marks_taken(context);
  VYC_TRY(vyc__communicator_may_run(n->communicator, names[w->kind]));
  VYC_TRY(vyc__launch_stream_of(context, &n->on, w->stream));
  if (n->on.captured)
    return vyc__fail(
        VYC_E_INVALID, names[w->kind],
        "the stream is being captured: give another one, or record the collective in a graph");
  if (w->in != NULL) VYC_TRY(vyc__buffer_use(w->in, n->on.stream, n->on.slot));
  if (w->out != NULL && w->out != w->in) VYC_TRY(vyc__buffer_use(w->out, n->on.stream, n->on.slot));
  return VYC_OK;
}

static vyc_status run(noted *n) {
  VYC_TRY(prepare(n));
  if (VYC_UNLIKELY(mine.depth > 0)) return keep(n);
  VYC_TRY(vyc__collective_give(n->communicator, &n->collective, n->on.stream));
  return after(n);
}

static vyc_status run_checked(vyc_communicator *communicator, const vyc_collective *collective) {
  vyc_context *context = communicator->child.context;
  noted n = {.communicator = communicator, .collective = *collective};
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context, &scope));
  const vyc_status status = run(&n);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_communicator_run(vyc_communicator *communicator, const vyc_collective *collective) {
  VYC_REQUIRE(communicator != NULL && collective != NULL);
  VYC_TRY(vyc__collective_check(communicator, collective));
  return run_checked(communicator, collective);
}

/* ---- one for each of several devices --------------------------------------------------------- */

#define MOST_TOGETHER 8u /* on the stack */

/* Whether NCCL has no part in them; then none waits in its call for that of another device. With
 * memory of other devices they would be ordered with these in between. */
static bool go_in_one_shot(vyc_communicator *const *communicators, const vyc_collective *all,
                           uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (all[i].kind != VYC_ALL_REDUCE || all[i].in->peer != NULL || all[i].out->peer != NULL ||
        !vyc__one_shot_takes(communicators[i], vyc__collective_bytes(communicators[i], &all[i], 0)))
      return false;
  return true;
}

static vyc_status run_each(vyc_communicator *const *communicators, const vyc_collective *all,
                           uint32_t count) {
  for (uint32_t i = 0; i < count; i++) VYC_TRY(run_checked(communicators[i], &all[i]));
  return VYC_OK;
}

static vyc_status run_in_one_shot(vyc_communicator *const *communicators, const vyc_collective *all,
                                  uint32_t count) {
  vyc_together t;
  t.count = 0;
  for (uint32_t i = 0; i < count; i++) vyc__together_add(&t, communicators[i]->child.context);
  vyc__together_begin(&t);
  const vyc_status status = run_each(communicators, all, count);
  vyc__together_end(&t);
  return status;
}

static vyc_status run_group(vyc_communicator *const *communicators, const vyc_collective *all,
                            uint32_t count) {
  VYC_TRY(vyc_collectives_begin());
  const vyc_status status = run_each(communicators, all, count);
  if (status == VYC_OK) return vyc_collectives_end();
  vyc_collectives_cancel();
  return status;
}

/* A group that is whole: nothing is kept beyond the call. The contexts are entered one in the other
 * and left in the opposite order, each current again for what follows its work. */
static vyc_status run_together(vyc_communicator *const *communicators, const vyc_collective *all,
                               uint32_t count) {
  noted n[MOST_TOGETHER];
  vyc_scope scopes[MOST_TOGETHER];
  uint32_t entered = 0;
  vyc_status status = VYC_OK;
  while (status == VYC_OK && entered < count) {
    n[entered] = (noted){.communicator = communicators[entered], .collective = all[entered]};
    status = vyc__enter_warm(communicators[entered]->child.context, &scopes[entered]);
    if (status == VYC_OK) status = prepare(&n[entered++]);
  }
  if (status == VYC_OK) status = start(communicators[0]->nccl, n, count);
  while (entered-- > 0) {
    if (status == VYC_OK) status = after(&n[entered]);
    vyc__leave(communicators[entered]->child.context, &scopes[entered]);
  }
  return status;
}

vyc_status vyc_collectives_run(vyc_communicator *const *communicators,
                               const vyc_collective *collectives, uint32_t count) {
  VYC_REQUIRE(count == 0 || (communicators != NULL && collectives != NULL));
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE(communicators[i] != NULL);
    VYC_TRY(vyc__collective_check(communicators[i], &collectives[i]));
    VYC_TRY(vyc__communicator_may_run(communicators[i], names[collectives[i].kind]));
  }
  if (mine.depth > 0 || count > MOST_TOGETHER) return run_group(communicators, collectives, count);
  return go_in_one_shot(communicators, collectives, count)
             ? run_in_one_shot(communicators, collectives, count)
             : run_together(communicators, collectives, count);
}
