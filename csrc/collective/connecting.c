/* Collectives in whose call NCCL may wait for other ranks: it connects ranks when they first need
 * it, and that has no end where one of them does not make its call.
 *
 * A thread that waits so cannot do what its host needs, such as to react to signals. So another
 * thread makes the call, once for what was not connected before, and the calling one asks the host
 * whether to go on. */
#include "room.h"

#define ASK_NS INT64_C(50000000)

static _Atomic(vyc_nccl_question) question;

void vyc_nccl_ask(vyc_nccl_question ask) { atomic_store(&question, ask); }

/* ---- what is connected ----------------------------------------------------------------------- */

static _Atomic uint64_t *word_of(const vyc_communicator *c, const vyc_collective *w,
                                 uint64_t *bit_out) {
  if (w->kind >= VYC_SEND) {
    *bit_out = UINT64_C(1) << (w->peer % 64);
    return &c->peers[w->kind - VYC_SEND][w->peer / 64];
  }
  *bit_out = UINT64_C(1) << (63 - __builtin_clzll(vyc__collective_bytes(c, w, false) | 1));
  return (_Atomic uint64_t *)&c->connected[w->kind];
}

bool vyc__may_be_kept(const vyc_communicator *c, const vyc_collective *w) {
  uint64_t bit;
  const _Atomic uint64_t *word = word_of(c, w, &bit);
  return (atomic_load_explicit(word, memory_order_relaxed) & bit) == 0;
}

void vyc__connected(vyc_communicator *c, const vyc_collective *w) {
  uint64_t bit;
  _Atomic uint64_t *word = word_of(c, w, &bit);
  if ((atomic_load_explicit(word, memory_order_relaxed) & bit) == 0) atomic_fetch_or(word, bit);
}

/* ---- asking ---------------------------------------------------------------------------------- */

_Thread_local bool vyc__is_asking;

static bool is_to_end(vyc_nccl_question ask) {
  const uint32_t keepers = vyc__record_open();
  const bool was_asking = vyc__is_asking;
  vyc__is_asking = true;
  const bool is = ask() != 0;
  vyc__is_asking = was_asking;
  vyc__record_shut(keepers);
  return is;
}

int vyc__give_asking(vyc_communicator *c, int (*give)(void *data), void *data) {
  const vyc_nccl_question ask = atomic_load(&question);
  vyc_nccl_call *call = ask == NULL ? NULL : vyc__nccl_other(c->child.context, c->nccl, give, data);
  if (call == NULL) return give(data);
  bool is_ended = false;
  while (!vyc__nccl_is_over(call, ASK_NS)) {
    if (is_ended || !is_to_end(ask)) continue;
    is_ended = true; /* the call returns by this */
    (void)vyc_communicator_abort(c, "the call was interrupted while NCCL waited for other ranks");
  }
  int result = 0;
  vyc_nccl_comm comm = NULL;
  vyc__nccl_await(call, -1, &result, &comm);
  return result;
}
