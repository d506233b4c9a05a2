/* The memory of small all-reduces: how ranks of one process get it, and how they leave.
 *
 * Kernels of other ranks write into the inbox of a rank, so a rank that leaves first lets nobody
 * launch any more, then awaits the kernels that the others have launched. Those of calls in which
 * it has no part lack its elements: their contexts are broken before they end. All others end by
 * themselves, and are not ended: what they wait for may still be on its way. */
#include <stdlib.h>

#include "one_shot.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static void group_release(vyc_inboxes *g) {
  if (atomic_fetch_sub(&g->references, 1) != 1) return;
  for (uint32_t i = 0; i < g->size; i++)
    if (g->ranks[i].context != NULL) vyc__context_release(g->ranks[i].context);
  free(g);
}

static void give_memory(vyc_context *context, const vyc_one_shot *o) {
  if (o->memory != NULL) vyc__pool_give(context, vyc__device_pool(context), o->memory, 0);
  if (o->word != NULL) vyc__pool_give(context, vyc__pinned_pool(context), o->word, 0);
}

/* The caller has entered the context. Nobody else knows the memory yet. */
static vyc_status take_memory(vyc_context *context, vyc_one_shot *o, uint32_t size) {
  const uint64_t bytes = vyc__inbox_bytes(o->most_bytes, size);
  const uint64_t all = bytes + vyc__epoch_bytes(o->most_bytes);
  VYC_TRY(vyc__pool_take(context, vyc__device_pool(context), &o->memory, all));
  VYC_TRY(vyc__pool_take(context, vyc__pinned_pool(context), &o->word, sizeof(uint64_t)));
  *(volatile uint64_t *)(uintptr_t)o->word->address = 0;
  o->inbox_bytes = bytes;
  o->epochs = o->memory->address + bytes;
  VYC_TRY(vyc__clear(context, o->memory->address, all, context->main));
  if (vyc__stream_await_end(context, context->main)) return VYC_OK;
  return vyc__fail(VYC_E_TIMEOUT, "one_shot",
                   "work on device %d has not ended in time: wait for it before the group is made",
                   context->caps.ordinal);
}

/* ---- opening --------------------------------------------------------------------------------- */

static vyc_status reach_others(vyc_communicator *const *members, uint32_t rank, uint32_t count) {
  vyc_context *context = members[rank]->child.context;
  for (uint32_t other = 0; other < count; other++)
    if (other != rank) VYC_TRY(vyc__peer_access(context, members[other]->child.context));
  return VYC_OK;
}

static vyc_status open_rank(vyc_communicator *const *members, uint32_t rank, uint32_t count,
                            vyc_one_shot *o) {
  vyc_context *context = members[rank]->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = reach_others(members, rank, count);
  if (status == VYC_OK) status = take_memory(context, o, count);
  if (status != VYC_OK) give_memory(context, o);
  vyc__leave(context, &scope);
  return status;
}

static void undo(vyc_communicator *const *members, vyc_one_shot *const *made, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    vyc_context *context = members[i]->child.context;
    vyc_scope scope;
    vyc__record_keep();
    if (vyc__enter_release(context, &scope)) {
      give_memory(context, made[i]);
      vyc__leave(context, &scope);
    }
    vyc__record_resume();
  }
}

static void publish(vyc_communicator *const *members, vyc_one_shot *const *made, vyc_inboxes *g) {
  for (uint32_t i = 0; i < g->size; i++) {
    g->ranks[i].context = vyc__context_retain(members[i]->child.context);
    g->ranks[i].word = (uint32_t *)(uintptr_t)made[i]->word->address;
    g->ranks[i].inbox = made[i]->memory->address;
    made[i]->group = g;
    made[i]->is_connected = true;
  }
  atomic_store(&g->references, g->size);
  for (uint32_t i = 0; i < g->size; i++) atomic_store(&members[i]->one_shot, made[i]);
}

static vyc_status open_all(vyc_communicator *const *members, vyc_one_shot **made, vyc_inboxes *g,
                           uint64_t most_bytes) {
  for (uint32_t i = 0; i < g->size; i++) {
    made[i] = calloc(1, sizeof *made[i]);
    vyc_status status =
        made[i] == NULL ? vyc__fail(VYC_E_MEMORY, "one_shot", "out of host memory") : VYC_OK;
    if (status == VYC_OK) {
      made[i]->most_bytes = most_bytes;
      status = open_rank(members, i, g->size, made[i]);
    }
    if (status != VYC_OK) {
      undo(members, made, i);
      return status;
    }
  }
  publish(members, made, g);
  return VYC_OK;
}

static vyc_status check_members(vyc_communicator *const *members, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE_IN("one_shot", members[i] != NULL && members[i]->rank == (int32_t)i);
    VYC_REQUIRE_IN("one_shot", members[i]->size == (int32_t)count);
    VYC_REQUIRE_IN("one_shot", atomic_load(&members[i]->one_shot) == NULL);
    if (members[i]->child.context->driver->library != members[0]->child.context->driver->library)
      return vyc__fail(VYC_E_UNSUPPORTED, "one_shot",
                       "the devices belong to two drivers: open all with one");
  }
  return VYC_OK;
}

vyc_status vyc_one_shot_open(vyc_communicator *const *members, uint32_t count,
                             uint64_t most_bytes) {
  VYC_REQUIRE(members != NULL && count > 0 && members[0] != NULL);
  VYC_TRY(vyc__one_shot_check(members[0], most_bytes));
  VYC_TRY(check_members(members, count));
  vyc_one_shot *made[VYC_ONE_SHOT_RANKS] = {NULL};
  vyc_inboxes *g = calloc(1, sizeof *g);
  if (g == NULL) return vyc__fail(VYC_E_MEMORY, "one_shot", "out of host memory");
  g->size = count;
  const vyc_status status = open_all(members, made, g, most_bytes);
  if (status == VYC_OK) return VYC_OK;
  for (uint32_t i = 0; i < count; i++) free(made[i]);
  free(g);
  return status;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Caller holds the claim, and the rank has not left. */
static void set_word(vyc_inboxes *g, uint32_t rank) {
  uint32_t runs = VYC_WORD_RUNS;
  __atomic_compare_exchange_n(g->ranks[rank].word, &runs, VYC_WORD_ENDS, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
}

void vyc__one_shot_stop(vyc_communicator *c) {
  const vyc_one_shot *o = atomic_load(&c->one_shot);
  if (o == NULL) return;
  vyc_inboxes *g = o->group;
  vyc__claim_take(&g->ranks[c->rank].claim);
  if (g->ranks[c->rank].word != NULL) set_word(g, (uint32_t)c->rank);
  vyc__claim_drop(&g->ranks[c->rank].claim);
}

static bool has_left(vyc_inboxes *g, uint32_t rank) {
  vyc__claim_take(&g->ranks[rank].claim);
  const bool has_left = g->ranks[rank].word == NULL;
  vyc__claim_drop(&g->ranks[rank].claim);
  return has_left;
}

/* What the kernels of another rank lack does not come any more: they end, and waits for them fail.
 * Its communicator is not over while the claim is held, so its context is whole again after that.
 */
static void stop_other(vyc_inboxes *g, uint32_t rank) {
  vyc__claim_take(&g->ranks[rank].claim);
  if (g->ranks[rank].word != NULL && !g->ranks[rank].is_told) {
    g->ranks[rank].is_told = true;
    (void)vyc__context_break(g->ranks[rank].context,
                             "a rank left the group while another one waits for its part of an "
                             "all_reduce");
    set_word(g, rank);
  }
  vyc__claim_drop(&g->ranks[rank].claim);
}

static uint64_t limit_of(vyc_context *context) {
  return vyc__now_ns() + (uint64_t)vyc__patience(context);
}

/* Of a context that is being closed, the close waits for them, and then the rank leaves. The close
 * waits for calls of contexts that know it, too: this one lets it go first. */
static bool await_leaving(vyc_inboxes *g, uint32_t rank, const vyc_scope *own) {
  const bool rests = own != NULL && own->gate != NULL;
  const uint64_t limit = limit_of(g->ranks[rank].context);
  if (rests) vyc__scope_rest(own);
  while (!has_left(g, rank) && vyc__now_ns() < limit) vyc__sleep_us(VYC_SLEEP_MIN_US);
  if (rests) vyc__scope_go_on(own);
  return has_left(g, rank);
}

/* False: they have not ended in time. */
static bool await_other(vyc_inboxes *g, uint32_t rank, const vyc_scope *own) {
  vyc_context *context = g->ranks[rank].context;
  vyc_scope scope;
  if (vyc__enter(context, &scope) != VYC_OK) return await_leaving(g, rank, own);
  const bool is_over = vyc__await_end(context);
  vyc__leave(context, &scope);
  return is_over;
}

static bool is_busy(vyc_context *context) {
  vyc_scope scope;
  if (vyc__enter(context, &scope) != VYC_OK) return true;
  const vyc_status status = vyc__work_look(context);
  vyc__leave(context, &scope);
  return status != VYC_OK;
}

/* Whether kernels of another rank lack elements of one that leaves. If it has ended calls without
 * the elements of others, any call that the other one has not ended may be one of them. */
static bool is_behind(vyc_inboxes *g, uint32_t rank, uint32_t other, bool is_whole) {
  const uint64_t calls = atomic_load(&g->ranks[other].calls);
  if (is_whole) return calls > atomic_load(&g->ranks[rank].calls);
  return calls > 0 && is_busy(g->ranks[other].context);
}

static bool is_launching(vyc_inboxes *g) {
  for (uint32_t rank = 0; rank < g->size; rank++)
    if (atomic_load(&g->ranks[rank].launching) != 0) return true;
  return false;
}

/* Threads that still launch may be in the driver, which waits for kernels to end, or have no core:
 * how long they take does not show whether they are behind. False: some still launch at the limit.
 */
static bool stop_those_behind(vyc_inboxes *g, uint32_t rank, bool is_whole) {
  const uint64_t limit = limit_of(g->ranks[rank].context);
  for (;;) {
    const bool is_last = !is_launching(g);
    for (uint32_t other = 0; other < g->size; other++)
      if (other != rank && !has_left(g, other) && is_behind(g, rank, other, is_whole))
        stop_other(g, other);
    if (is_last || vyc__now_ns() >= limit) return is_last;
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  }
}

/* False: kernels of other ranks may still write into its inbox. */
static bool leave(vyc_inboxes *g, uint32_t rank, bool is_whole, const vyc_scope *scope) {
  for (uint32_t each = 0; each < g->size; each++) atomic_store(&g->ranks[each].ended, true);
  vyc__claim_take(&g->ranks[rank].claim);
  g->ranks[rank].word = NULL;
  vyc__claim_drop(&g->ranks[rank].claim);
  bool are_over = stop_those_behind(g, rank, is_whole);
  for (uint32_t other = 0; other < g->size; other++)
    if (other != rank && !has_left(g, other)) are_over &= await_other(g, other, scope);
  return are_over;
}

/* Wait for its own kernels, which may need only what other ranks have already been given. */
static void await_own(vyc_context *context, vyc_inboxes *g, uint32_t rank) {
  const uint64_t limit = limit_of(context);
  while (atomic_load(&g->ranks[rank].launching) != 0 && vyc__now_ns() < limit)
    vyc__sleep_us(VYC_SLEEP_MIN_US);
  (void)vyc__await_end(context);
}

/* Whether no kernel has ended without the elements of others. */
static bool is_whole(vyc_inboxes *g, uint32_t rank) {
  vyc__claim_take(&g->ranks[rank].claim);
  const uint32_t *word = g->ranks[rank].word;
  const bool is_cut = word != NULL && __atomic_load_n(word, __ATOMIC_ACQUIRE) == VYC_WORD_CUT;
  vyc__claim_drop(&g->ranks[rank].claim);
  return !is_cut;
}

bool vyc__one_shot_end(vyc_communicator *c, vyc_one_shot *o, const vyc_scope *scope) {
  vyc_context *context = c->child.context;
  const uint32_t rank = (uint32_t)c->rank;
  vyc_inboxes *g = o->group;
  atomic_store(&g->ranks[rank].ended, true);
  if (!atomic_load(&c->ended)) await_own(context, g, rank);
  vyc__one_shot_stop(c);
  while (atomic_load(&g->ranks[rank].launching) != 0) vyc__sleep_us(VYC_SLEEP_MIN_US);
  const bool is_over = vyc__await_end(context);
  return leave(g, rank, is_whole(g, rank), scope) && is_over;
}

/* Memory that kernels may still use is leaked. */
void vyc__one_shot_close(vyc_communicator *c, bool is_free, const vyc_scope *scope) {
  vyc_one_shot *o = atomic_load(&c->one_shot);
  vyc_context *context = c->child.context;
  if (o == NULL) return;
  vyc__record_keep();
  const bool is_over = vyc__one_shot_end(c, o, scope);
  for (uint32_t i = 0; i < VYC_ONE_SHOT_TYPES * VYC_ONE_SHOT_OPS; i++)
    if (o->kernels[i] != NULL) vyc__launch_graph_destroy(&o->kernels[i]->launch_graph, context);
  if (o->order != NULL) context->driver->cuEventDestroy(o->order);
  if (is_over && is_free) {
    vyc__shared_close(context, o);
    vyc__shared_free(context, o);
    give_memory(context, o);
  }
  vyc__record_resume();
}

void vyc__one_shot_free(vyc_communicator *c) {
  vyc_one_shot *o = atomic_load(&c->one_shot);
  if (o == NULL) return;
  for (uint32_t i = 0; i < o->group->size; i++) atomic_store(&o->group->ranks[i].ended, true);
  for (uint32_t i = 0; i < VYC_ONE_SHOT_TYPES * VYC_ONE_SHOT_OPS; i++) {
    if (o->kernels[i] != NULL) vyc_prepared_release(o->kernels[i]->prepared);
    free(o->kernels[i]);
  }
  group_release(o->group);
  free(o);
}

void vyc_one_shot_leave(vyc_communicator *communicator) {
  vyc_scope scope;
  if (communicator == NULL || !vyc__communicator_enter(communicator->child.context, &scope)) return;
  vyc_context *context = communicator->child.context;
  vyc_one_shot *o = atomic_load(&communicator->one_shot);
  vyc__record_keep();
  if (o != NULL && o->shared != 0 && vyc__one_shot_end(communicator, o, &scope))
    vyc__shared_close(context, o);
  vyc__record_resume();
  vyc__leave(context, &scope);
}

void vyc_one_shot_left(vyc_communicator *communicator) {
  vyc_one_shot *o = communicator == NULL ? NULL : atomic_load(&communicator->one_shot);
  if (o != NULL) o->is_alone = true;
}
