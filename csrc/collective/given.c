/* Collectives, given to streams alone or in groups.
 *
 * They use their buffers as a launch does. NCCL gives the work of a group to the streams when the
 * group ends, so what must follow the work (order of adopted memory, marks that were taken) is
 * noted until then, for the thread, because NCCL's groups are the thread's. */
#include <stdlib.h>

#include "room.h"

/* ---- groups --------------------------------------------------------------------------------- */

typedef struct group {
  const vyc_nccl *nccl;
  vyc_noted *all;
  uint32_t count, room, depth;
} group;

static _Thread_local group mine;

static vyc_context *context_of(const vyc_noted *n) { return n->communicator->child.context; }

static bool is_adopted(const vyc_buffer *buffer) {
  return buffer != NULL && buffer->source != NULL;
}

/* What follows the work; mostly nothing, and then the context need not be current. */
static vyc_status after(const vyc_noted *n, vyc_scope *scope) {
  const vyc_collective *w = &n->collective;
  vyc_context *context = context_of(n);
  if (VYC_LIKELY(vyc__marks_taken(context) == n->taken && !vyc__is_adopted(w->stream) &&
                 !is_adopted(w->in) && !is_adopted(w->out)))
    return VYC_OK;
  VYC_TRY(vyc__scope_current(context, scope));
  vyc_argument arguments[2] = {{.kind = VYC_ARGUMENT_BUFFER}, {.kind = VYC_ARGUMENT_BUFFER}};
  uint32_t count = 0;
  if (w->in != NULL) arguments[count++].buffer = w->in;
  if (w->out != NULL && w->out != w->in) arguments[count++].buffer = w->out;
  const vyc_run run = {.argument_count = count, .arguments = arguments, .stream = w->stream};
  return vyc__run_enqueued(context, &run, n->on.stream, n->on.slot, n->taken);
}

static void hold(const vyc_noted *n) {
  vyc__child_retain(&n->communicator->child);
  if (n->collective.in != NULL) vyc__child_retain(&n->collective.in->child);
  if (n->collective.out != NULL) vyc__child_retain(&n->collective.out->child);
  if (n->collective.stream != NULL) vyc__child_retain(&n->collective.stream->child);
}

static void let_go(const vyc_noted *n) {
  vyc_buffer_release(n->collective.in);
  vyc_buffer_release(n->collective.out);
  vyc_stream_release(n->collective.stream);
  vyc_communicator_release(n->communicator);
}

static vyc_status keep(const vyc_noted *n) {
  if (mine.count == mine.room) {
    const uint32_t room = mine.room * 2 + 8;
    vyc_noted *all = realloc(mine.all, room * sizeof *all);
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

static void free_group(const group *g) {
  for (uint32_t i = 0; i < g->count; i++) let_go(&g->all[i]);
  free(g->all);
}

/* The thread has no group any more: while NCCL keeps one, the host may begin another. */
static group leave_group(void) {
  const group left = mine;
  mine = (group){0};
  return left;
}

vyc_status vyc_collectives_cancel(void) {
  VYC_REQUIRE(mine.depth > 0);
  const group left = leave_group();
  free_group(&left);
  return VYC_OK;
}

static vyc_status order_after(const vyc_noted *n) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_quietly(context_of(n), &scope));
  const vyc_status status = after(n, &scope);
  vyc__leave(context_of(n), &scope);
  return status;
}

/* NCCL may make a context current where none is, and leave it so. */
static vyc_status start(const group *g) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context_of(&g->all[0]), &scope));
  const vyc_status status = vyc__collectives_start(g->nccl, g->all, g->count);
  vyc__leave(context_of(&g->all[0]), &scope);
  return status;
}

vyc_status vyc_collectives_end(void) {
  VYC_REQUIRE(mine.depth > 0);
  if (--mine.depth > 0) return VYC_OK;
  const group all = leave_group();
  vyc_status status = all.count > 0 ? start(&all) : VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < all.count; i++) status = order_after(&all.all[i]);
  free_group(&all);
  return status;
}

/* ---- one ------------------------------------------------------------------------------------ */

static vyc_status use(const vyc_noted *n, vyc_buffer *buffer, vyc_scope *scope) {
  if (VYC_LIKELY(buffer == NULL || vyc__buffer_has_mark(buffer, n->on.slot))) return VYC_OK;
  VYC_TRY(vyc__scope_current(context_of(n), scope));
  return vyc__buffer_first_use(buffer, n->on.stream, n->on.slot);
}

/* Before the work; the context becomes current where the driver is called. */
static vyc_status prepare(vyc_noted *n, vyc_scope *scope) {
  const vyc_collective *w = &n->collective;
  vyc_context *context = context_of(n);
  n->taken = vyc__marks_taken(context);
  VYC_TRY(vyc__communicator_may_run(n->communicator, vyc__collective_name(w)));
  if (vyc__is_adopted(w->stream)) VYC_TRY(vyc__scope_current(context, scope));
  VYC_TRY(vyc__launch_stream_of(context, &n->on, w->stream));
  if (n->on.captured)
    return vyc__fail(
        VYC_E_INVALID, vyc__collective_name(w),
        "the stream is being captured: give another one, or record the collective in a graph");
  VYC_TRY(use(n, w->in, scope));
  return w->out == w->in ? VYC_OK : use(n, w->out, scope);
}

static vyc_noted noted_of(vyc_communicator *communicator, const vyc_collective *collective) {
  return (vyc_noted){.communicator = communicator,
                     .collective = *collective,
                     .is_one_shot = vyc__one_shot_takes(communicator, collective)};
}

static vyc_status give_alone(const vyc_noted *n) {
  vyc_communicator *c = n->communicator;
  if (VYC_LIKELY(n->is_one_shot)) return vyc__collective_give(n);
  if (vyc__may_be_kept(c, &n->collective)) return vyc__collectives_start(c->nccl, n, 1);
  VYC_TRY(vyc__take_turns(n, 1));
  const vyc_status status = vyc__collective_give(n);
  vyc__claim_drop(&c->turn);
  return status;
}

static vyc_status run(vyc_noted *n, vyc_scope *scope) {
  VYC_TRY(prepare(n, scope));
  VYC_TRY(give_alone(n));
  return after(n, scope);
}

static vyc_status run_entered(vyc_noted *n) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context_of(n), &scope));
  const vyc_status status = run(n, &scope);
  vyc__leave(context_of(n), &scope);
  return status;
}

/* For the end of the group that the thread has begun. */
static vyc_status keep_entered(vyc_noted *n) {
  vyc_scope scope;
  VYC_TRY(vyc__enter_quietly(context_of(n), &scope));
  vyc_status status = prepare(n, &scope);
  if (status == VYC_OK) status = keep(n);
  vyc__leave(context_of(n), &scope);
  return status;
}

vyc_status vyc_communicator_run(vyc_communicator *communicator, const vyc_collective *collective) {
  VYC_REQUIRE(communicator != NULL && collective != NULL);
  VYC_TRY(vyc__collective_check(communicator, collective));
  vyc_noted n = noted_of(communicator, collective);
  return VYC_UNLIKELY(mine.depth > 0) ? keep_entered(&n) : run_entered(&n);
}

/* ---- one for each of several devices --------------------------------------------------------- */

/* The group that the thread has begun keeps all of them, or is cancelled. */
static vyc_status keep_all(vyc_noted *all, uint32_t count) {
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; status == VYC_OK && i < count; i++) status = keep_entered(&all[i]);
  if (status != VYC_OK) vyc_collectives_cancel();
  return status;
}

/* One after the other, each with its context current. */
static vyc_status run_each(vyc_noted *all, uint32_t count) {
  uint32_t last = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context_of(&all[0]), &scope));
  vyc_status status = run(&all[0], &scope);
  while (status == VYC_OK && last + 1 < count) {
    status = vyc__scope_move(&scope, context_of(&all[last]), context_of(&all[last + 1]));
    if (status == VYC_OK) status = run(&all[++last], &scope);
  }
  vyc__leave(context_of(&all[last]), &scope);
  return status;
}

/* Whether NCCL has no part in them; then none waits in its call for that of another device. With
 * memory of other devices they would be ordered with these in between. */
static bool go_in_one_shot(const vyc_noted *all, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!all[i].is_one_shot || all[i].collective.in->peer != NULL ||
        all[i].collective.out->peer != NULL)
      return false;
  return true;
}

static vyc_status run_in_one_shot(vyc_noted *all, uint32_t count) {
  vyc_together t;
  t.count = 0;
  for (uint32_t i = 0; i < count; i++) vyc__together_add(&t, context_of(&all[i]));
  vyc__together_begin(&t);
  const vyc_status status = run_each(all, count);
  vyc__together_end(&t);
  return status;
}

/* The first for NCCL, which may make a context current where none is, and leave it so. */
static vyc_status enter_part(const vyc_noted *n, bool is_first, vyc_scope *scope) {
  return is_first ? vyc__enter_warm(context_of(n), scope)
                  : vyc__enter_quietly(context_of(n), scope);
}

/* A group that is whole: nothing is kept beyond the call. The contexts are entered one in the other
 * and left in the opposite order. */
static vyc_status run_together(vyc_noted *all, uint32_t count) {
  vyc_scope scopes[VYC_MOST_TOGETHER];
  uint32_t entered = 0;
  vyc_status status = VYC_OK;
  while (status == VYC_OK && entered < count) {
    status = enter_part(&all[entered], entered == 0, &scopes[entered]);
    if (status != VYC_OK) break;
    status = prepare(&all[entered], &scopes[entered]);
    entered++;
  }
  if (status == VYC_OK) status = vyc__collectives_start(all[0].communicator->nccl, all, count);
  while (entered-- > 0) {
    if (status == VYC_OK) status = after(&all[entered], &scopes[entered]);
    vyc__leave(context_of(&all[entered]), &scopes[entered]);
  }
  return status;
}

vyc_status vyc_collectives_run(vyc_communicator *const *communicators,
                               const vyc_collective *collectives, uint32_t count) {
  vyc_noted all[VYC_MOST_TOGETHER];
  VYC_REQUIRE(count == 0 || (communicators != NULL && collectives != NULL));
  if (count > VYC_MOST_TOGETHER) return vyc__too_many_together();
  for (uint32_t i = 0; i < count; i++) {
    VYC_REQUIRE(communicators[i] != NULL);
    VYC_TRY(vyc__collective_check(communicators[i], &collectives[i]));
    VYC_TRY(vyc__communicator_may_run(communicators[i], vyc__collective_name(&collectives[i])));
    all[i] = noted_of(communicators[i], &collectives[i]);
  }
  if (count == 0) return VYC_OK;
  if (mine.depth > 0) return keep_all(all, count);
  return go_in_one_shot(all, count) ? run_in_one_shot(all, count) : run_together(all, count);
}
