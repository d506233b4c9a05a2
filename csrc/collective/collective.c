/* One collective: its checks, NCCL's call of it, and what is noted for the thread that watches. */
#include <inttypes.h>

#include "room.h"

/* ---- checks --------------------------------------------------------------------------------- */

static const uint8_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const names[] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "recv"};

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
  if (buffer == NULL)
    return vyc__fail(VYC_E_INVALID, name, "%s: %s is NULL: give a buffer", name, side);
  if (buffer->child.context != c->child.context)
    return vyc__fail(
        VYC_E_INVALID, name,
        "%s: %s is memory of device %d, but the communicator belongs to device %d: copy it there",
        name, side, buffer->child.context->caps.ordinal, c->child.context->caps.ordinal);
  if (vyc__mul_overflows(w->count, parts, &all) || vyc__mul_overflows(all, bytes, &total) ||
      offset > buffer->bytes || total > buffer->bytes - offset)
    return vyc__fail(VYC_E_INVALID, name,
                     "%s: a range of %" PRIu64 " element%s of %u byte%s from byte %" PRIu64
                     " does not fit in %s, which has %" PRIu64 " byte%s",
                     name, w->count * parts, VYC_S(w->count * parts), bytes, VYC_S(bytes), offset,
                     side, buffer->bytes, VYC_S(buffer->bytes));
  if (!vyc__is_aligned(buffer->address + offset, bytes))
    return vyc__fail(VYC_E_INVALID, name,
                     "%s: %s does not begin at a multiple of %u bytes: give another offset", name,
                     side, bytes);
  return VYC_OK;
}

static const char *const in_place[] = {
    [VYC_ALL_REDUCE] = ", or the same for both",
    [VYC_ALL_GATHER] = ", or this rank's part of `out` as the input",
    [VYC_REDUCE_SCATTER] = ", or this rank's part of the input as `out`",
    [VYC_BROADCAST] = ", or the same for both",
    [VYC_ALL_TO_ALL] = "",
};

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
  return vyc__fail(VYC_E_INVALID, names[w->kind],
                   "%s: the input and `out` overlap: give separate memory%s", names[w->kind],
                   in_place[w->kind]);
}

vyc_status vyc__collective_check(const vyc_communicator *c, const vyc_collective *w) {
  VYC_REQUIRE_IN("collective", w->struct_size >= sizeof *w);
  VYC_REQUIRE_IN("collective", w->kind <= VYC_RECEIVE && w->type <= VYC_ELEMENT_BF16);
  VYC_REQUIRE_IN("collective", w->op <= VYC_COMBINE_MIN);
  const bool has_peer = w->kind == VYC_BROADCAST || w->kind >= VYC_SEND;
  if (has_peer && (w->peer < 0 || w->peer >= c->size))
    return vyc__fail(VYC_E_INVALID, names[w->kind],
                     "%s: rank %d is out of range: the group has %d rank%s, numbered from 0",
                     names[w->kind], w->peer, c->size, VYC_S(c->size));
  if (w->kind >= VYC_SEND && w->peer == c->rank)
    return vyc__fail(VYC_E_INVALID, names[w->kind], "%s: rank %d is this rank itself: copy instead",
                     names[w->kind], w->peer);
  if (w->kind != VYC_RECEIVE)
    VYC_TRY(check_side(c, w, w->in, w->in_offset, parts_in(c, w), "the input"));
  if (w->kind != VYC_SEND) {
    VYC_TRY(check_side(c, w, w->out, w->out_offset, parts_out(c, w), "`out`"));
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

_Thread_local bool vyc__is_starting;

/* The lock is held. */
static vyc_status give_to_nccl(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  if (!vyc__is_starting) vyc__call_begins(c);
  const int result = vyc__nccl_give(c, w, stream);
  if (!vyc__is_starting) vyc__call_ends(c);
  if (result == VYC_NCCL_SUCCESS) return VYC_OK;
  VYC_TRY(vyc__communicator_check(c, names[w->kind])); /* if it was ended meanwhile, that is the
                                                          reason */
  return vyc__nccl_failed(c->nccl, result, names[w->kind]);
}

/* A look of another thread at what a call has noted is whole where it finds one time before and
 * after it: who sees a word of the next call sees that this one has ended. (In place of fences,
 * which the thread sanitizer does not know.) */
void vyc__call_begins(vyc_communicator *c) {
  atomic_store_explicit(&c->call_began_ns, vyc__now_ns(), memory_order_release);
}
void vyc__call_ends(vyc_communicator *c) {
  atomic_store_explicit(&c->call_began_ns, 0, memory_order_relaxed);
}

static uint64_t digest_with(uint64_t digest, uint64_t word) {
  return (digest ^ word) * UINT64_C(0x100000001B3);
}

/* What ranks compare where one waits for ever: sends and receives differ by rank. */
void vyc__collective_note(vyc_communicator *c, const vyc_collective *w, CUstream stream) {
  const memory_order relaxed = memory_order_relaxed, release = memory_order_release;
  const uint64_t issued = atomic_load_explicit(&c->issued, relaxed);
  uint64_t digest = atomic_load_explicit(&c->digest, relaxed);
  atomic_store_explicit(&c->issued, issued + 1, release);
  atomic_store_explicit(&c->last_stream, stream, release);
  atomic_store_explicit(&c->last_kind, w->kind, release);
  atomic_store_explicit(&c->last_type, w->type, release);
  atomic_store_explicit(&c->last_op, w->op, release);
  atomic_store_explicit(&c->last_peer, w->peer, release);
  atomic_store_explicit(&c->last_count, w->count, release);
  if (w->kind >= VYC_SEND) return;
  digest = digest_with(digest, (uint64_t)w->kind << 32 | w->type << 16 | w->op << 8 | 1);
  digest = digest_with(digest, w->count);
  if (w->kind == VYC_BROADCAST) digest = digest_with(digest, (uint64_t)w->peer);
  atomic_store_explicit(&c->digest, digest, release);
}

vyc_status vyc__collective_give(const vyc_noted *n) {
  vyc_communicator *c = n->communicator;
  const vyc_collective *w = &n->collective;
  const CUstream stream = n->on.stream;
  pthread_mutex_lock(&c->lock);
  vyc_status status = vyc__communicator_check(c, names[w->kind]);
  if (status == VYC_OK) {
    vyc__collective_note(c, w, stream);
    status = n->is_one_shot ? vyc__one_shot_give(c, w, stream) : give_to_nccl(c, w, stream);
  }
  pthread_mutex_unlock(&c->lock);
  return status;
}

const char *vyc__collective_name(const vyc_collective *w) { return names[w->kind]; }
