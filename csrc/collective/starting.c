/* Collectives that NCCL is given as a group: at once, so that a group that is cancelled starts
 * nothing, and each communicator by one thread at a time. In the end of the group NCCL may wait for
 * other ranks. */
#include <stdlib.h>

#include "room.h"

static vyc_status give_all(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count) {
  int result = nccl->ncclGroupStart();
  if (result != VYC_NCCL_SUCCESS) return vyc__nccl_failed(nccl, result, "ncclGroupStart");
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < count; i++) status = vyc__collective_give(&all[i]);
  result = nccl->ncclGroupEnd();
  if (status != VYC_OK || result == VYC_NCCL_SUCCESS) return status;
  for (uint32_t i = 0; i < count; i++) /* if one was ended meanwhile, that is the reason */
    VYC_TRY(vyc__communicator_check(all[i].communicator, "ncclGroupEnd"));
  return vyc__nccl_failed(nccl, result, "ncclGroupEnd");
}

vyc_status vyc__too_many_together(void) {
  return vyc__fail(VYC_E_INVALID, "collective",
                   "a group can have collectives of at most %u devices", VYC_MOST_TOGETHER);
}

/* What another thread gives, with the record of its failure. */
typedef struct giving {
  const vyc_nccl *nccl;
  const vyc_noted *all;
  uint32_t count;
  vyc_error failure;
} giving;

static vyc_status give_as_group(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count) {
  vyc__is_starting = true;
  const vyc_status status = give_all(nccl, all, count);
  vyc__is_starting = false;
  return status;
}

static int give_apart(void *data) {
  giving *g = data;
  const vyc_status status = give_as_group(g->nccl, g->all, g->count);
  if (status != VYC_OK) vyc__error_save(&g->failure);
  return (int)status;
}

static vyc_status give_asking(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count) {
  giving *g = calloc(1, sizeof *g);
  if (g == NULL) return vyc__fail(VYC_E_MEMORY, "collective", "out of host memory");
  *g = (giving){.nccl = nccl, .all = all, .count = count};
  const vyc_status status = (vyc_status)vyc__give_asking(all[0].communicator, give_apart, g);
  if (status != VYC_OK) vyc__error_restore(&g->failure);
  free(g);
  return status;
}

/* Those that are kept until ranks of other processes make theirs. */
static bool may_be_kept(const vyc_together *t, const vyc_noted *all, uint32_t count) {
  for (uint32_t i = 0; t->count == 1 && i < count; i++)
    if (all[i].communicator == all[0].communicator &&
        vyc__may_be_kept(all[i].communicator, &all[i].collective))
      return true;
  return false;
}

static vyc_communicator *next_of(const vyc_noted *all, uint32_t count,
                                 const vyc_communicator *behind) {
  vyc_communicator *found = NULL;
  for (uint32_t i = 0; i < count; i++) {
    vyc_communicator *c = all[i].communicator;
    if (c > behind && (found == NULL || c < found)) found = c;
  }
  return found;
}

static void drop_turns(const vyc_noted *all, uint32_t count, const vyc_communicator *limit) {
  for (vyc_communicator *c = next_of(all, count, NULL); c != limit; c = next_of(all, count, c))
    vyc__claim_drop(&c->turn);
}

/* Only calls that the host makes in the function that vyc_nccl_ask was given can find that their
 * own thread has the turn. */
static vyc_status check_outside(const vyc_communicator *c, const char *way_out) {
  const uintptr_t holder = atomic_load(&c->turn) & ~VYC_CLAIM_WAITED;
  if (VYC_LIKELY(!vyc__is_asking || holder != vyc__thread_pointer())) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "collective",
                   "this thread is inside a call of the communicator, which NCCL keeps until "
                   "other ranks make theirs: %s",
                   way_out);
}

vyc_status vyc_communicator_may_close(const vyc_communicator *communicator) {
  VYC_REQUIRE(communicator != NULL);
  return check_outside(communicator,
                       "close it when that has returned, or raise an exception to end the call");
}

/* Of each communicator once, in one order. */
vyc_status vyc__take_turns(const vyc_noted *all, uint32_t count) {
  for (vyc_communicator *c = next_of(all, count, NULL); c != NULL; c = next_of(all, count, c)) {
    const vyc_status status = check_outside(c, "call it when that has returned");
    if (status != VYC_OK) {
      drop_turns(all, count, c);
      return status;
    }
    vyc__claim_take(&c->turn);
  }
  return VYC_OK;
}

static vyc_status start_in_turn(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count) {
  vyc_together t;
  t.count = 0;
  for (uint32_t i = 0; i < count; i++)
    if (!vyc__together_add(&t, all[i].communicator->child.context)) return vyc__too_many_together();
  vyc__together_begin(&t);
  for (uint32_t i = 0; i < count; i++) vyc__call_begins(all[i].communicator);
  const vyc_status status =
      may_be_kept(&t, all, count) ? give_asking(nccl, all, count) : give_as_group(nccl, all, count);
  for (uint32_t i = 0; i < count; i++) vyc__call_ends(all[i].communicator);
  for (uint32_t i = 0; status == VYC_OK && i < count; i++)
    vyc__connected(all[i].communicator, &all[i].collective);
  vyc__together_end(&t);
  return status;
}

vyc_status vyc__collectives_start(const vyc_nccl *nccl, const vyc_noted *all, uint32_t count) {
  VYC_TRY(vyc__take_turns(all, count));
  const vyc_status status = start_in_turn(nccl, all, count);
  drop_turns(all, count, NULL);
  return status;
}
