/* Closing a context: no thread can enter any more; once all have left and the work has ended, the
 * resources of the children are destroyed. What does not end in time is abandoned and leaked. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

/* No thread can enter any more. False: one was still inside at the time limit. */
static bool is_left(vyc_context *context, vyc_pace *pace) {
  for (uint32_t i = 0; i < VYC_GATES; i++)
    while (atomic_load(&context->gates[i].inside) != 0)
      if (vyc__pace(context, pace) != VYC_OK) return false;
  /* Calls of other contexts that use its memory. If no reference is left there are none, and this
   * thread may itself be in such a call. */
  while (atomic_load(&context->references) != 0 && !vyc__peers_have_left(context))
    if (vyc__pace(context, pace) != VYC_OK) {
      vyc__peers_forget(context);
      return false;
    }
  while (!vyc__watch_is_over(context)) /* it gives its notices, and ends */
    if (vyc__pace(context, pace) != VYC_OK) return false;
  while (vyc__children_are_claimed(context))
    if (vyc__pace(context, pace) != VYC_OK) return false;
  return true;
}

/* Releases of memory pass no gate. One that starts from here on sees the close and uses no stream.
 */
static bool is_given(vyc_context *context, vyc_pace *pace) {
  while (vyc__memory_is_giving(context))
    if (vyc__pace(context, pace) != VYC_OK) return false;
  return true;
}

static void close_driver_side(vyc_context *context) {
  vyc__events_close(context);
  vyc__children_close(context);
  vyc__reports_close(context);
  vyc__memory_close(context);
  vyc__depth_close(context, &context->depth);
  context->driver->cuStreamDestroy(context->main);
}

/* From here on no driver call is made, and the context's resources stay as they are. */
static void leave_all(vyc_context *context) {
  vyc__context_retain(context);
  atomic_store(&context->hung, true);
  atomic_store(&context->gone, true);
}

/* Work may run for ever. */
static vyc_status give_up(vyc_context *context, int64_t timeout_ns) {
  atomic_store(&context->abandoned, true);
  vyc__abandoned_keep(context);
  leave_all(context);
  vyc__log(context, VYC_LOG_WARNING, "close abandoned device %d: its work has not ended",
           context->caps.ordinal);
  char launches[sizeof((vyc_error *)NULL)->launches];
  vyc__history_text(&context->history, launches, sizeof launches);
  vyc__fail(VYC_E_TIMEOUT, "close",
            "work on device %d has not ended after %.3f s: it was abandoned, and the driver keeps "
            "what it uses until the process ends%s%.*s",
            context->caps.ordinal, timeout_ns < 0 ? 0 : (double)timeout_ns * 1e-9,
            launches[0] == '\0' ? "" : "; launched last: ", (int)strcspn(launches, "\n"), launches);
  vyc__fail_launches(launches);
  return VYC_E_TIMEOUT;
}

/* The driver freed everything with the CUcontext. Reported here if it has not been reported yet. */
static vyc_status end_destroyed(vyc_context *context, bool was_known) {
  vyc__memory_forget(context);
  vyc__primary_release(context);
  return was_known ? VYC_OK : vyc__fail_destroyed(context);
}

static vyc_status close_now(vyc_context *context, int64_t timeout_ns) {
  const bool was_lost = atomic_load(&context->lost);
  vyc_pace pace = vyc__pace_begin(timeout_ns, 0);
  if (!is_left(context, &pace)) return give_up(context, timeout_ns);
  vyc_scope scope;
  if (vyc__is_destroyed(context)) return end_destroyed(context, was_lost);
  if (!is_given(context, &pace)) return give_up(context, timeout_ns);
  vyc__enter_release(context, &scope);
  vyc__scope_relax(context, &scope);
  vyc_status status = VYC_OK;
  if (!atomic_load(&context->lost))
    status = context->above->workers_finish(context, vyc__pace_left(&pace));
  vyc__workers_pause(context); /* for good */
  if (status == VYC_OK && !atomic_load(&context->lost))
    status = vyc__own_wait(context, vyc__pace_left(&pace));
  if (status == VYC_OK) status = vyc__check_reports(context, 0);
  if (status == VYC_NOT_READY ||
      (status != VYC_OK && status != VYC_E_ASSERT && !vyc__await_end(context))) {
    status = give_up(context, timeout_ns);
    vyc__leave(context, &scope);
    return status;
  }
  vyc_error failure;
  vyc__error_save(&failure);
  if (atomic_load(&context->lost) || vyc__is_alone(context)) {
    close_driver_side(context);
    vyc__leave(context, &scope);
    vyc__primary_release(context);
    atomic_store(&context->gone, true);
  } else { /* the driver frees nothing while a kernel runs on the device */
    vyc__log(
        context, VYC_LOG_WARNING,
        "work of an abandoned device is still running: the resources of this one are not freed");
    vyc__left_keep(context);
    leave_all(context);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) vyc__error_restore(&failure);
  return status;
}

/* Another thread is closing it, or has closed it. */
static vyc_status await_close(vyc_context *context, int64_t timeout_ns) {
  vyc_pace pace = vyc__pace_begin(timeout_ns, 0);
  while (!atomic_load(&context->gone)) {
    const vyc_status status = vyc__pace(context, &pace);
    if (status == VYC_NOT_READY)
      return vyc__fail(
          VYC_E_TIMEOUT, "close",
          "another thread is closing device %d and has not finished in time: call close again to "
          "wait longer",
          context->caps.ordinal);
  }
  return VYC_OK;
}

vyc_status vyc_context_close_for(vyc_context *context, int64_t timeout_ns) {
  VYC_REQUIRE(context != NULL);
  if (vyc__is_forked(context)) {
    atomic_store(&context->closed, true);
    atomic_store(&context->gone, true);
    return VYC_OK;
  }
  if (vyc__watch_is_mine(context))
    return vyc__fail(VYC_E_INVALID, "close",
                     "the call of a notice cannot close its context: let another thread close it");
  vyc__holds_reap(NULL);
  if (atomic_exchange(&context->closed, true)) return await_close(context, timeout_ns);
  return close_now(context, timeout_ns);
}

vyc_status vyc_context_close(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  return vyc_context_close_for(context, atomic_load(&context->patience_ns));
}

static void free_records(vyc_context *context) {
  vyc__watch_end(context);
  vyc__memory_end(context);
  pthread_mutex_destroy(&context->children_lock);
  pthread_mutex_destroy(&context->slots_lock);
  vyc__kernels_end(context);
  vyc__far_parts_free(&context->far_slots);
  vyc__counters_free(&context->counters);
  vyc__history_free(&context->history);
}

void vyc__context_end(vyc_context *context) {
  vyc_context_close(context);
  /* In a forked child a lock may be held forever, and a list may be half changed. */
  if (!vyc__is_forked(context)) free_records(context);
  vyc__reports_free(context);
  vyc__events_free(context);
  vyc__names_free(&context->history);
  vyc_driver_release(context->driver);
  free(context);
}

void vyc_context_release(vyc_context *context) {
  if (context == NULL) return;
  vyc__holds_reap(context); /* or they would keep it open */
  vyc__context_release(context);
}
