/* Communicators: how they begin, are watched, and end.
 *
 * NCCL waits without a limit for ranks that never come, so a thread of its own makes the call; who
 * runs out of time leaves it behind, and it cleans up if it ever returns. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "room.h"

/* ---- beginning ------------------------------------------------------------------------------ */

typedef struct beginning {
  const vyc_nccl *nccl;
  const vyc_driver *driver;
  CUcontext handle;
  vyc_nccl_id id;
  int rank, size;
  pthread_mutex_t lock; /* guards the rest */
  pthread_cond_t over;
  bool is_over, is_left;
  int result;
  vyc_nccl_comm comm;
} beginning;

static void beginning_free(beginning *b) {
  pthread_cond_destroy(&b->over);
  pthread_mutex_destroy(&b->lock);
  free(b);
}

static void *begin(void *data) {
  beginning *b = data;
  vyc_nccl_comm comm = NULL;
  int result = b->driver->cuCtxSetCurrent(b->handle) == CUDA_SUCCESS ? VYC_NCCL_SUCCESS : 1;
  if (result == VYC_NCCL_SUCCESS)
    result = b->nccl->ncclCommInitRank(&comm, b->size, b->id, b->rank);
  pthread_mutex_lock(&b->lock);
  b->result = result;
  b->comm = comm;
  b->is_over = true;
  const bool is_left = b->is_left;
  pthread_cond_signal(&b->over);
  pthread_mutex_unlock(&b->lock);
  if (!is_left) return NULL;
  if (result == VYC_NCCL_SUCCESS) b->nccl->ncclCommAbort(comm);
  beginning_free(b);
  return NULL;
}

static struct timespec at_limit(int64_t timeout_ns) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  const int64_t ns = at.tv_nsec + timeout_ns % 1000000000;
  at.tv_sec += timeout_ns / 1000000000 + ns / 1000000000;
  at.tv_nsec = ns % 1000000000;
  return at;
}

/* False: time ran out, and the thread frees `b`. */
static bool await(beginning *b, int64_t timeout_ns) {
  const struct timespec limit = at_limit(timeout_ns < 0 ? 0 : timeout_ns);
  pthread_mutex_lock(&b->lock);
  int error = 0;
  while (!b->is_over && error == 0)
    error = timeout_ns < 0 ? pthread_cond_wait(&b->over, &b->lock)
                           : pthread_cond_timedwait(&b->over, &b->lock, &limit);
  const bool is_over = b->is_over;
  b->is_left = !is_over;
  pthread_mutex_unlock(&b->lock);
  return is_over;
}

static beginning *beginning_new(vyc_context *context, const vyc_nccl *nccl, const uint8_t *id,
                                int32_t rank, int32_t size) {
  beginning *b = calloc(1, sizeof *b);
  if (b == NULL) return NULL;
  b->nccl = nccl;
  b->driver = context->driver;
  b->handle = context->handle;
  memcpy(b->id.bytes, id, sizeof b->id.bytes);
  b->rank = rank;
  b->size = size;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&b->over, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&b->lock, NULL);
  return b;
}

/* NCCL's communicator, without a lock or a gate of the context: it may take long. */
static vyc_status meet(vyc_nccl_comm *comm_out, vyc_context *context, const vyc_nccl *nccl,
                       const uint8_t *id, int32_t rank, int32_t size, int64_t timeout_ns) {
  beginning *b = beginning_new(context, nccl, id, rank, size);
  pthread_t thread;
  if (b == NULL) return vyc__fail(VYC_E_MEMORY, "communicator", "out of host memory");
  if (pthread_create(&thread, NULL, begin, b) != 0) {
    beginning_free(b);
    return vyc__fail(VYC_E_MEMORY, "communicator", "no thread could be started");
  }
  pthread_detach(thread);
  if (!await(b, timeout_ns))
    return vyc__fail(VYC_E_TIMEOUT, "communicator",
                     "rank %d of %d waited %.1f s for the other ranks, and some did not come", rank,
                     size, (double)timeout_ns / 1e9);
  const int result = b->result;
  *comm_out = b->comm;
  beginning_free(b);
  return result == VYC_NCCL_SUCCESS ? VYC_OK : vyc__nccl_failed(nccl, result, "ncclCommInitRank");
}

/* ---- end ------------------------------------------------------------------------------------ */

/* The work on it has ended where that is possible; NCCL's own end would wait for it for ever. */
static void close_membership(vyc_communicator *c) {
  vyc_context *context = c->child.context;
  if (atomic_exchange(&c->closed, true)) return;
  const bool is_free = vyc__captors_end(c);
  if (c->event != NULL) context->driver->cuEventDestroy(c->event);
  vyc__one_shot_close(c, is_free);
  vyc__communicator_end(context);
  if (atomic_exchange(&c->ended, true)) return;
  const bool is_idle = vyc__await_end(context);
  if (!is_free) return; /* NCCL would wait for the graphs for ever: it keeps what it has */
  pthread_mutex_lock(&c->lock);
  if (is_idle)
    c->nccl->ncclCommDestroy(c->comm);
  else
    c->nccl->ncclCommAbort(c->comm);
  pthread_mutex_unlock(&c->lock);
}

static void communicator_destroy(vyc_child *child) { close_membership((vyc_communicator *)child); }

static void communicator_finish(vyc_child *child) {
  vyc_communicator *c = (vyc_communicator *)child;
  vyc__one_shot_free(c);
  pthread_mutex_destroy(&c->captors_lock);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

static const vyc_child_kind kind = {.destroy = communicator_destroy, .finish = communicator_finish};

static vyc_status make(vyc_communicator **communicator_out, vyc_context *context,
                       const vyc_nccl *nccl, vyc_nccl_comm comm, int32_t rank, int32_t size) {
  vyc_communicator *c = calloc(1, sizeof *c);
  if (c == NULL) return vyc__fail(VYC_E_MEMORY, "communicator", "out of host memory");
  vyc_scope scope;
  const vyc_status status = vyc__enter(context, &scope);
  if (status != VYC_OK) {
    free(c);
    return status;
  }
  c->nccl = nccl;
  c->comm = comm;
  c->rank = rank;
  c->size = size;
  pthread_mutex_init(&c->lock, NULL);
  pthread_mutex_init(&c->captors_lock, NULL);
  vyc__communicator_begin(context);
  vyc__child_add(&c->child, context, &kind);
  vyc__leave(context, &scope);
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
  close_membership(communicator);
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

/* Caller holds the lock. An event behind what was given since the last one. */
static vyc_status look(vyc_communicator *c, place on) {
  vyc_context *context = c->child.context;
  VYC_CU_RESULT;
  if (c->is_watched) {
    const vyc_status status =
        vyc__ready(context, context->driver->cuEventQuery(c->event), "cuEventQuery");
    if (status != VYC_OK) return status == VYC_NOT_READY ? VYC_OK : status;
    c->is_watched = false;
  }
  if (c->seen == c->issued) return VYC_OK;
  if (on.stream != atomic_load_explicit(&c->last_stream, memory_order_relaxed)) return VYC_OK;
  if (on.held == NULL && on.stream != context->main) {
    c->seen = c->issued;
    return VYC_OK;
  }
  if (c->event == NULL) VYC_TRY(VYC_CU(context, cuEventCreate, &c->event, CU_EVENT_DISABLE_TIMING));
  VYC_TRY(VYC_CU(context, cuEventRecord, c->event, on.stream));
  c->seen = c->issued;
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
  state->issued = c->issued;
  state->digest = c->digest;
  state->waiting_ns = c->is_watched ? vyc__now_ns() - c->since_ns : 0;
  state->last_kind = c->last_kind;
  state->last_type = c->last_type;
  state->last_count = c->last_count;
}

vyc_status vyc_communicator_watch(vyc_communicator *communicator,
                                  vyc_communicator_state *state_out) {
  VYC_REQUIRE(communicator != NULL && state_out != NULL);
  VYC_REQUIRE(state_out->struct_size >= sizeof state_out->struct_size);
  vyc_communicator *c = communicator;
  vyc_communicator_state state = {0};
  vyc_scope scope;
  VYC_TRY(vyc__enter(c->child.context, &scope));
  const place on = place_of(c); /* with its lock, before the other is taken */
  vyc_status status = VYC_OK;
  if (pthread_mutex_trylock(&c->lock) == 0) {
    state.is_ended = atomic_load(&c->ended);
    if (!state.is_ended) status = look(c, on);
    describe(c, &state);
    if (!state.is_ended) state.error = error_of(c);
    pthread_mutex_unlock(&c->lock);
  } else { /* a call of another thread, which NCCL keeps until the other ranks make theirs */
    const uint64_t began = atomic_load(&c->call_began_ns);
    state.is_ended = atomic_load(&c->ended);
    state.waiting_ns = began == 0 ? 0 : vyc__now_ns() - began;
  }
  vyc__slot_let_go(on.held);
  vyc__leave(c->child.context, &scope);
  if (status == VYC_OK) vyc__struct_out(state_out, &state, sizeof state);
  return status;
}

vyc_status vyc_communicator_abort(vyc_communicator *communicator, const char *message) {
  VYC_REQUIRE(communicator != NULL && message != NULL);
  vyc_context *context = communicator->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_OK;
  if (!atomic_exchange(&communicator->ended, true)) {
    status = vyc__context_break(context, message); /* before the work ends: waits see it then */
    vyc__one_shot_stop(communicator);
    vyc__captors_end(communicator); /* NCCL waits for them; their launches end by what follows */
    /* Without the lock: a call of another thread, which NCCL may keep, ends by this. */
    const int result = communicator->nccl->ncclCommAbort(communicator->comm);
    if (status == VYC_OK && result != VYC_NCCL_SUCCESS)
      status = vyc__nccl_failed(communicator->nccl, result, "ncclCommAbort");
  }
  vyc__leave(context, &scope);
  return status;
}
