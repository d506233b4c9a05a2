/* The thread that watches for the end of what somebody wants to be told of.
 *
 * It looks at everything in turn, as a wait does: continuously for a while after the last change,
 * then with sleeps in between, which a new notice ends. It has no state that others wait for: a
 * close makes its looks fail, so that it gives all notices and ends. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "submission/room.h"
#include "watch.h"

#define SLEEP_MAX_NS UINT64_C(200000)
#define SLEEP_MIN_NS UINT64_C(20000)

static vyc_watch *watch_of(vyc_context *context) {
  return &((vyc_completion_context *)context)->watch;
}

void vyc__watch_begin(vyc_context *context) {
  vyc_watch *watch = watch_of(context);
  pthread_condattr_t attributes;
  pthread_mutex_init(&watch->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&watch->change, &attributes);
  pthread_condattr_destroy(&attributes);
}

void vyc__watch_end(vyc_context *context) {
  vyc_watch *watch = watch_of(context);
  while (watch->spare != NULL) {
    vyc_watched *next = watch->spare->next;
    free(watch->spare);
    watch->spare = next;
  }
  pthread_cond_destroy(&watch->change);
  pthread_mutex_destroy(&watch->lock);
}

bool vyc__watch_is_mine(vyc_context *context) {
  vyc_watch *watch = watch_of(context);
  pthread_mutex_lock(&watch->lock);
  const bool is_mine = watch->is_running && pthread_equal(watch->thread, pthread_self());
  pthread_mutex_unlock(&watch->lock);
  return is_mine;
}

bool vyc__watch_is_over(vyc_context *context) {
  vyc_watch *watch = watch_of(context);
  pthread_mutex_lock(&watch->lock);
  const bool is_over = !watch->is_running;
  pthread_mutex_unlock(&watch->lock);
  return is_over;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Streams whose events were not reached at this look: those behind them need no look. */
typedef struct look {
  uint64_t behind;
} look;

static vyc_status look_at(const vyc_watched *watched, look *at) {
  if (watched->ticket != NULL) return vyc_ticket_query(watched->ticket);
  const uint32_t slot = watched->event->slot;
  const uint64_t bit = slot < 64 ? UINT64_C(1) << slot : 0;
  if ((at->behind & bit) != 0) return VYC_NOT_READY;
  const vyc_status status = watched->call == NULL ? vyc_event_query(watched->event)
                                                  : vyc_event_synchronize_for(watched->event, 0);
  if (status == VYC_NOT_READY) at->behind |= bit;
  return status;
}

static void give(const vyc_watched *watched, vyc_status status) {
  if (watched->fd >= 0) {
    const uint64_t one = 1;
    const ssize_t written = write(watched->fd, &one, sizeof one);
    (void)written; /* a full counter is readable as it is */
  }
  if (watched->call != NULL) vyc__host_notice(watched->call, watched->user, status);
}

static void let_go(vyc_context *context, vyc_watched *watched) {
  vyc_watch *watch = watch_of(context);
  if (watched->ticket != NULL) vyc__ticket_let_go(watched->ticket);
  if (watched->event != NULL) vyc_event_release(watched->event);
  pthread_mutex_lock(&watch->lock);
  watched->next = watch->spare;
  watch->spare = watched;
  pthread_mutex_unlock(&watch->lock);
}

/* One look at all of them, oldest first. True: something has ended. */
static bool look_at_all(vyc_context *context, vyc_watched **pending) {
  look at = {0};
  bool changed = false;
  for (vyc_watched **link = pending; *link != NULL;) {
    vyc_watched *watched = *link;
    const vyc_status status = look_at(watched, &at);
    if (status == VYC_NOT_READY) {
      link = &watched->next;
      continue;
    }
    *link = watched->next;
    give(watched, status);
    let_go(context, watched);
    changed = true;
  }
  return changed;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Append what was added, in its order. True: there was something. */
static bool append(vyc_watched **pending, vyc_watched *added) {
  vyc_watched *in_order = NULL;
  if (added == NULL) return false;
  while (added != NULL) {
    vyc_watched *next = added->next;
    added->next = in_order;
    in_order = added;
    added = next;
  }
  while (*pending != NULL) pending = &(*pending)->next;
  *pending = in_order;
  return true;
}

static void sleep_until_change(vyc_watch *watch, uint64_t waited_ns) {
  uint64_t sleep_ns = waited_ns / 64;
  if (sleep_ns < SLEEP_MIN_NS) sleep_ns = SLEEP_MIN_NS;
  if (sleep_ns > SLEEP_MAX_NS) sleep_ns = SLEEP_MAX_NS;
  const uint64_t until = vyc__now_ns() + sleep_ns;
  const struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
  watch->is_asleep = true;
  pthread_cond_timedwait(&watch->change, &watch->lock, &at);
  watch->is_asleep = false;
}

/* What was added since the last time, after a sleep if it is time for one. False: there is nothing
 * left to watch, and the thread ends. */
static bool take_added(vyc_context *context, vyc_watched **pending, uint64_t *changed_ns) {
  vyc_watch *watch = watch_of(context);
  const uint64_t waited_ns = vyc__now_ns() - *changed_ns;
  pthread_mutex_lock(&watch->lock);
  if (*pending != NULL && watch->added == NULL && waited_ns >= VYC_SPIN_NS)
    sleep_until_change(watch, waited_ns);
  vyc_watched *added = watch->added;
  watch->added = NULL;
  if (*pending == NULL && added == NULL) watch->is_running = false;
  pthread_mutex_unlock(&watch->lock);
  if (append(pending, added))
    *changed_ns = vyc__now_ns();
  else if (waited_ns < VYC_SPIN_NS)
    vyc__yield_after(context, waited_ns);
  return *pending != NULL;
}

static void *run(void *argument) {
  vyc_context *context = argument;
  vyc_watched *pending = NULL;
  uint64_t changed_ns = vyc__now_ns(), before = 0;
  const bool is_entered = vyc_context_enter(context, &before) == VYC_OK; /* for all looks */
  while (take_added(context, &pending, &changed_ns))
    if (look_at_all(context, &pending)) changed_ns = vyc__now_ns();
  if (is_entered) vyc_context_leave(context, before);
  vyc__context_release(context);
  return NULL;
}

/* Caller holds the lock. No signal of the host's is handled there. */
static vyc_status start(vyc_context *context, vyc_watch *watch) {
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_attr_init(&attributes) != 0)
    return vyc__fail(VYC_E_MEMORY, "pthread_create", "out of host memory");
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  vyc__context_retain(context);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int result = pthread_create(&watch->thread, &attributes, run, context);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  watch->is_running = result == 0;
  if (result == 0) return VYC_OK;
  vyc__context_release(context);
  return vyc__fail(VYC_E_MEMORY, "pthread_create", "the watching thread cannot be started (%d)",
                   result);
}

vyc_status vyc__watch_add(vyc_context *context, const vyc_watched *watched) {
  vyc_watch *watch = watch_of(context);
  vyc_status status = VYC_OK;
  pthread_mutex_lock(&watch->lock);
  vyc_watched *made = watch->spare;
  if (made != NULL)
    watch->spare = made->next;
  else
    made = malloc(sizeof *made);
  if (made == NULL) {
    status = vyc__fail(VYC_E_MEMORY, "notify", "out of host memory");
  } else {
    *made = *watched;
    if (!watch->is_running) status = start(context, watch);
    made->next = status == VYC_OK ? watch->added : watch->spare;
    *(status == VYC_OK ? &watch->added : &watch->spare) = made;
    if (watch->is_asleep) pthread_cond_signal(&watch->change);
  }
  pthread_mutex_unlock(&watch->lock);
  return status;
}
