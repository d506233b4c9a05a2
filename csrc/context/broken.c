/* Work that was ended from outside, by a communicator: its results are unspecified, and waits say
 * so until the last communicator is gone. */
#include <stdlib.h>

#include "room.h"

/* Reasons are kept until the context ends, because waits read them without a lock. */
struct vyc_reason {
  struct vyc_reason *next;
  char text[];
};

vyc_status vyc__context_break(vyc_context *context, const char *message) {
  const size_t bytes = strlen(message) + 1;
  vyc_reason *reason = malloc(sizeof *reason + bytes);
  if (reason == NULL) return vyc__fail(VYC_E_MEMORY, "communicator", "out of host memory");
  memcpy(reason->text, message, bytes);
  pthread_mutex_lock(&context->children_lock);
  if (atomic_load(&context->communicators) == 0) { /* closed meanwhile: nothing would undo it */
    pthread_mutex_unlock(&context->children_lock);
    free(reason);
    return VYC_OK;
  }
  reason->next = context->reasons;
  context->reasons = reason;
  vyc_reason *none = NULL;
  if (atomic_compare_exchange_strong(&context->broken, &none, reason))
    atomic_fetch_add(&context->report_count, 1); /* for good, so that waits look */
  pthread_mutex_unlock(&context->children_lock);
  vyc__log(context, VYC_LOG_WARNING, "%s", message);
  return VYC_OK;
}

vyc_status vyc__context_fail_broken(vyc_context *context, const char *operation) {
  const vyc_reason *reason = atomic_load(&context->broken);
  return vyc__fail(VYC_E_COMMUNICATION, operation, "%s",
                   reason != NULL ? reason->text : "the communicator was ended");
}

void vyc__communicator_begin(vyc_context *context) { atomic_fetch_add(&context->communicators, 1); }

void vyc__communicator_end(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  if (atomic_fetch_sub(&context->communicators, 1) == 1) atomic_store(&context->broken, NULL);
  pthread_mutex_unlock(&context->children_lock);
}

void vyc__reasons_free(vyc_context *context) {
  vyc_reason *reason = context->reasons;
  while (reason != NULL) {
    vyc_reason *next = reason->next;
    free(reason);
    reason = next;
  }
}
