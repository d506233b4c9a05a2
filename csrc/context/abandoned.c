/* Contexts that a close has given up: their work may still run, and the driver waits for it where
 * it waits for all work of the device. */
#include "room.h"

static _Atomic(vyc_context *) abandoned_contexts;
/* Closed while the work of an abandoned one ran: kept reachable, so that tools do not report an
 * intended leak. */
static _Atomic(vyc_context *) left_contexts;

static void keep(_Atomic(vyc_context *) *list, vyc_context *context) {
  context->next_abandoned = atomic_load(list);
  while (!atomic_compare_exchange_weak(list, &context->next_abandoned, context)) {
  }
}

void vyc__abandoned_keep(vyc_context *context) { keep(&abandoned_contexts, context); }

void vyc__left_keep(vyc_context *context) { keep(&left_contexts, context); }

/* Each is looked at once, because a close has already waited for it in vain. */
bool vyc__is_alone(vyc_context *context) {
  for (vyc_context *other = atomic_load_explicit(&abandoned_contexts, memory_order_acquire);
       other != NULL; other = other->next_abandoned)
    if (other->driver->library == context->driver->library && other->device == context->device &&
        !vyc__is_forked(other) && vyc__work_look(other) == VYC_NOT_READY)
      return false;
  return true;
}
