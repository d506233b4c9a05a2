/* Communicators: how they begin, are watched, and end.
 *
 * NCCL waits without a limit for ranks that never come or never leave: see apart.c. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "room.h"

/* ---- beginning ------------------------------------------------------------------------------ */

/* NCCL's communicator, without a lock or a gate of the context: it may take long. */
static vyc_status meet(vyc_nccl_comm *comm_out, vyc_context *context, const vyc_nccl *nccl,
                       const uint8_t *id, int32_t rank, int32_t size, int64_t timeout_ns) {
  int result = 0;
  vyc_nccl_call *call = vyc__nccl_begin(context, nccl, id, rank, size);
  if (call == NULL)
    return vyc__fail(VYC_E_MEMORY, "communicator",
                     "no thread could be started: end some threads of the process, or raise its "
                     "limit (ulimit -u)");
  if (!vyc__nccl_await(call, timeout_ns, &result, comm_out))
    return vyc__fail(VYC_E_TIMEOUT, "communicator",
                     "rank %d of %d waited %.1f s for the other ranks, and some did not come: "
                     "start all of them, or allow more time",
                     rank, size, (double)timeout_ns / 1e9);
  return result == VYC_NCCL_SUCCESS ? VYC_OK : vyc__nccl_failed(nccl, result, "ncclCommInitRank");
}

/* ---- end ------------------------------------------------------------------------------------ */

/* The first of several ends alone: `ends` was false. A look that began before that is waited for,
 * because it asks NCCL for the communicator's error. */
static void begin_end(vyc_communicator *c, vyc_nccl_call_kind how) {
  pthread_mutex_lock(&c->look_lock);
  pthread_mutex_unlock(&c->look_lock);
  vyc_nccl_call *call = vyc__nccl_end(how, c->child.context, c->nccl, c->comm);
  if (call != NULL)
    atomic_store(&c->ending, call);
  else
    vyc__log(c->child.context, VYC_LOG_WARNING,
             "no thread could be started: NCCL's communicator is not ended");
}

#define LOOK_NS INT64_C(50000000)

/* NCCL ends the ranks of one machine together, so where others stay in the group, its threads and
 * its memory stay until they leave, too. */
static void await_ending(vyc_communicator *c, int64_t timeout_ns) {
  int result = 0;
  vyc_nccl_comm comm = NULL;
  vyc_nccl_call *call = atomic_exchange(&c->ending, NULL);
  if (call == NULL) return;
  const uint64_t limit = vyc__now_ns() + (uint64_t)timeout_ns;
  while (!atomic_load(&c->is_broken) && !vyc__nccl_is_over(call, 0) && vyc__now_ns() < limit)
    (void)vyc__nccl_is_over(call, LOOK_NS);
  const int64_t left = vyc__now_ns() < limit ? (int64_t)(limit - vyc__now_ns()) : 0;
  const int64_t patience = left < VYC_NCCL_LEAST_PATIENCE_NS ? left : VYC_NCCL_LEAST_PATIENCE_NS;
  if (!vyc__nccl_await(call, patience, &result, &comm) && timeout_ns > 0)
    vyc__log(c->child.context, VYC_LOG_INFO,
             "rank %d has left its group before others: NCCL keeps its memory until they leave",
             c->rank);
}

/* Whether a call of another thread is in NCCL, where the end of a group is without the lock. None
 * begins any more. */
static bool is_in_call(vyc_communicator *c) {
  while (pthread_mutex_trylock(&c->lock) != 0) {
    if (atomic_load(&c->call_began_ns) != 0) return true;
    vyc__sleep_us(VYC_SLEEP_MIN_US); /* a look has it, for a moment, or a call that begins */
  }
  pthread_mutex_unlock(&c->lock);
  return atomic_load(&c->call_began_ns) != 0;
}

/* No look uses it any more, since `closed` is true. */
static void end_event(vyc_communicator *c) {
  pthread_mutex_lock(&c->look_lock);
  if (c->event != NULL) c->child.context->driver->cuEventDestroy(c->event);
  pthread_mutex_unlock(&c->look_lock);
}

/* The work on it has ended where that is possible; NCCL's own end would wait for it for ever. */
static void close_membership(vyc_communicator *c, const vyc_scope *scope) {
  vyc_context *context = c->child.context;
  if (atomic_exchange(&c->closed, true)) return;
  vyc__exit_remove(&c->exit_entry);
  const bool is_free = vyc__collective_graphs_end(c);
  end_event(c);
  vyc__one_shot_close(c, is_free, scope);
  vyc__communicator_end(context);
  int64_t patience = VYC_NCCL_LEAST_PATIENCE_NS;
  if (!atomic_exchange(&c->ends, true)) {
    atomic_store(&c->ended, true);
    const bool is_idle = vyc__await_end(context), is_called = is_in_call(c);
    /* NCCL would wait for the graphs for ever: it keeps what it has. One that is being made is
     * given up when the call of NCCL for it ends. */
    if (!is_free && !is_called) return;
    begin_end(c, is_idle && !is_called ? VYC_NCCL_DESTROY : VYC_NCCL_ABORT);
    if (vyc__patience(context) > patience) patience = vyc__patience(context);
  }
  await_ending(c, patience);
}

static void communicator_destroy(vyc_child *child) {
  close_membership((vyc_communicator *)child, NULL);
}

static vyc_status make_peers(vyc_communicator *c) {
  const size_t words = ((size_t)c->size + 63) / 64;
  for (int side = 0; side < 2; side++) {
    c->peers[side] = calloc(words, sizeof *c->peers[side]);
    if (c->peers[side] == NULL)
      return vyc__fail(VYC_E_MEMORY, "communicator", "out of host memory");
  }
  return VYC_OK;
}

static void free_peers(const vyc_communicator *c) {
  for (int side = 0; side < 2; side++) free(c->peers[side]);
}

static void communicator_finish(vyc_child *child) {
  vyc_communicator *c = (vyc_communicator *)child;
  vyc__one_shot_free(c);
  await_ending(c, 0);
  free_peers(c);
  pthread_mutex_destroy(&c->graphs_lock);
  pthread_mutex_destroy(&c->look_lock);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

/* Another rank may never take part in its work. */
static void end_at_exit(vyc_exit_entry *entry, uint64_t limit_ns) {
  vyc_communicator *c =
      (vyc_communicator *)((char *)entry - offsetof(vyc_communicator, exit_entry));
  const uint64_t now = vyc__now_ns();
  const int64_t left = now < limit_ns ? (int64_t)(limit_ns - now) : 0;
  vyc_scope scope;
  if (atomic_load(&c->ended) || !vyc__communicator_enter(c->child.context, &scope)) return;
  const bool is_idle = vyc__own_wait(c->child.context, left) == VYC_OK;
  vyc__leave(c->child.context, &scope);
  if (!is_idle || atomic_load(&c->call_began_ns) != 0)
    (void)vyc_communicator_abort(c, "the process ends, and work has not ended");
}

static const vyc_child_kind kind = {.destroy = communicator_destroy, .finish = communicator_finish};

static vyc_status make(vyc_communicator **communicator_out, vyc_context *context,
                       const vyc_nccl *nccl, vyc_nccl_comm comm, int32_t rank, int32_t size) {
  vyc_communicator *c = calloc(1, sizeof *c);
  if (c == NULL) return vyc__fail(VYC_E_MEMORY, "communicator", "out of host memory");
  vyc_scope scope;
  c->size = size;
  vyc_status status = make_peers(c);
  if (status == VYC_OK) status = vyc__enter(context, &scope);
  if (status != VYC_OK) {
    free_peers(c);
    free(c);
    return status;
  }
  c->nccl = nccl;
  c->comm = comm;
  c->rank = rank;
  c->exit_entry.end = end_at_exit;
  pthread_mutex_init(&c->lock, NULL);
  pthread_mutex_init(&c->look_lock, NULL);
  pthread_mutex_init(&c->graphs_lock, NULL);
  vyc__communicator_begin(context);
  vyc__child_add(&c->child, context, &kind);
  vyc__leave(context, &scope);
  vyc__exit_add(&c->exit_entry);
  *communicator_out = c;
  return VYC_OK;
}

vyc_status vyc_communicator_create(vyc_communicator **communicator_out, vyc_context *context,
                                   const uint8_t *id, int32_t rank, int32_t size,
                                   int64_t timeout_ns) {
  VYC_REQUIRE(communicator_out != NULL && context != NULL && id != NULL);
  *communicator_out = NULL;
  VYC_REQUIRE(rank >= 0 && rank < size);
  const vyc_nccl *nccl = vyc__nccl();
  if (nccl == NULL) return vyc__fail(VYC_E_UNSUPPORTED, "nccl", "call vyc_nccl_open first");
  if (context->host.owns_context)
    return vyc__fail(VYC_E_UNSUPPORTED, "communicator",
                     "the context is a CUcontext of the host's, and NCCL works on the primary one: "
                     "open the device without a handle");
  VYC_TRY(vyc__check_usable(context));
  vyc_nccl_comm comm = NULL;
  VYC_TRY(meet(&comm, context, nccl, id, rank, size, timeout_ns));
  const vyc_status status = make(communicator_out, context, nccl, comm, rank, size);
  if (status != VYC_OK) nccl->ncclCommAbort(comm);
  return status;
}

void vyc_communicator_release(vyc_communicator *communicator) {
  if (communicator != NULL) vyc__child_release(&communicator->child);
}

bool vyc__communicator_enter(vyc_context *context, vyc_scope *scope) {
  vyc__record_keep();
  const vyc_status status = vyc__enter(context, scope);
  vyc__record_resume();
  if (status == VYC_OK) return true;
  if (!atomic_load(&context->lost) || !vyc__enter_release(context, scope)) return false;
  vyc__scope_relax(context, scope);
  return true;
}

void vyc_communicator_close(vyc_communicator *communicator) {
  vyc_scope scope;
  if (communicator == NULL || !vyc__communicator_enter(communicator->child.context, &scope)) return;
  close_membership(communicator, &scope);
  vyc__leave(communicator->child.context, &scope);
}

vyc_status vyc_communicator_check(vyc_communicator *communicator,
                                  const vyc_collective *collective) {
  VYC_REQUIRE(communicator != NULL);
  VYC_TRY(vyc__check_usable(communicator->child.context));
  if (collective == NULL) return vyc__communicator_may_run(communicator, "communicator");
  VYC_TRY(vyc__communicator_check(communicator, "communicator"));
  VYC_TRY(vyc__captured_check(communicator->child.context));
  return vyc__collective_check(communicator, collective);
}

void vyc_communicator_left(vyc_communicator *communicator) {
  if (communicator != NULL) atomic_store(&communicator->is_broken, true);
}

/* ---- watching ------------------------------------------------------------------------------- */

/* Where what is to be watched was given. A stream ends after its work, so where there is none any
 * more, there is nothing to watch. */
typedef struct place {
  CUstream stream;
  vyc_stream *held; /* NULL for the context's own */
} place;

static place place_of(vyc_communicator *c) {
  vyc_context *context = c->child.context;
  const CUstream stream = atomic_load_explicit(&c->last_stream, memory_order_relaxed);
  const bool is_mine = stream == NULL || stream == context->main;
  return (place){stream, is_mine ? NULL : vyc__target_hold(context, stream)};
}

/* Caller holds the locks. An event behind what was given since the last one. */
static vyc_status look(vyc_communicator *c, place on) {
  vyc_context *context = c->child.context;
  VYC_CU_RESULT;
  if (c->is_watched) {
    const vyc_status status =
        vyc__ready(context, context->driver->cuEventQuery(c->event), "cuEventQuery");
    if (status != VYC_OK) return status == VYC_NOT_READY ? VYC_OK : status;
    c->is_watched = false;
  }
  const uint64_t issued = atomic_load_explicit(&c->issued, memory_order_relaxed);
  if (c->seen == issued) return VYC_OK;
  if (on.stream != atomic_load_explicit(&c->last_stream, memory_order_relaxed)) return VYC_OK;
  if (on.held == NULL && on.stream != context->main) {
    c->seen = issued;
    return VYC_OK;
  }
  if (c->event == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &c->event, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuEventRecord, c->event, on.stream));
  c->seen = issued;
  c->is_watched = true;
  c->since_ns = vyc__now_ns();
  return VYC_OK;
}

static int32_t error_of(const vyc_communicator *c) {
  int error = VYC_NCCL_SUCCESS;
  const int result = c->nccl->ncclCommGetAsyncError(c->comm, &error);
  return result == VYC_NCCL_SUCCESS && error != VYC_NCCL_IN_PROGRESS ? error : 0;
}

static void describe(vyc_communicator *c, vyc_communicator_state *state) {
  const memory_order acquire = memory_order_acquire;
  state->issued = atomic_load_explicit(&c->issued, acquire);
  state->digest = atomic_load_explicit(&c->digest, acquire);
  state->last_kind = atomic_load_explicit(&c->last_kind, acquire);
  state->last_type = atomic_load_explicit(&c->last_type, acquire);
  state->last_op = atomic_load_explicit(&c->last_op, acquire);
  state->last_peer = atomic_load_explicit(&c->last_peer, acquire);
  state->last_count = atomic_load_explicit(&c->last_count, acquire);
}

/* A call that NCCL keeps until other ranks make theirs; false: none. */
static bool describe_call(vyc_communicator *c, vyc_communicator_state *state) {
  const uint64_t began = atomic_load_explicit(&c->call_began_ns, memory_order_acquire);
  if (began == 0) return false;
  describe(c, state);
  if (atomic_load_explicit(&c->call_began_ns, memory_order_relaxed) != began) return false;
  state->waiting_ns = vyc__now_ns() - began;
  return true;
}

/* The locks are held. What a call is about to give is not behind an event that is recorded now. */
static vyc_status look_on(vyc_communicator *c, place on, vyc_communicator_state *state) {
  state->is_ended = atomic_load(&c->ended);
  if (!state->is_ended && !atomic_load(&c->closed) && !describe_call(c, state)) {
    VYC_TRY(look(c, on));
    state->waiting_ns = c->is_watched ? vyc__now_ns() - c->since_ns : 0;
  }
  describe(c, state);
  if (!state->is_ended) state->error = error_of(c);
  return VYC_OK;
}

static vyc_status watch(vyc_communicator *c, place on, vyc_communicator_state *state) {
  for (;;) {
    state->is_ended = atomic_load(&c->ended);
    if (pthread_mutex_trylock(&c->lock) == 0) {
      pthread_mutex_lock(&c->look_lock);
      const vyc_status status = look_on(c, on, state);
      pthread_mutex_unlock(&c->look_lock);
      pthread_mutex_unlock(&c->lock);
      return status;
    }
    if (describe_call(c, state)) return VYC_OK;
    vyc__sleep_us(VYC_SLEEP_MIN_US); /* the lock is held for a moment, or for a call in NCCL */
  }
}

vyc_status vyc_communicator_watch(vyc_communicator *communicator,
                                  vyc_communicator_state *state_out) {
  VYC_REQUIRE(communicator != NULL && state_out != NULL);
  VYC_REQUIRE(state_out->struct_size >= sizeof state_out->struct_size);
  vyc_communicator_state state = {0};
  vyc_scope scope;
  VYC_TRY(vyc__enter(communicator->child.context, &scope));
  const place on = place_of(communicator); /* with its lock, before the other is taken */
  const vyc_status status = watch(communicator, on, &state);
  vyc__slot_let_go(on.held);
  vyc__leave(communicator->child.context, &scope);
  if (status == VYC_OK) vyc__struct_out(state_out, &state, sizeof state);
  return status;
}

vyc_status vyc_communicator_abort(vyc_communicator *communicator, const char *message) {
  VYC_REQUIRE(communicator != NULL && message != NULL);
  vyc_context *context = communicator->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_OK;
  if (!atomic_exchange(&communicator->ends, true)) {
    /* Before the work ends, and before calls are refused: both say why. */
    status = vyc__context_break(context, message);
    atomic_store(&communicator->ended, true);
    vyc__one_shot_stop(communicator);
    /* NCCL waits for them; their launches end by what follows. */
    vyc__collective_graphs_end(communicator);
    /* Without the lock: a call of another thread, which NCCL may keep, ends by this. */
    begin_end(communicator, VYC_NCCL_ABORT);
  }
  vyc__leave(context, &scope);
  return status;
}
