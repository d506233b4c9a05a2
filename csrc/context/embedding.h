/* What a context has from its host: a CUcontext, memory, a place for messages.
 *
 * Callbacks are made with no lock held, so they may take locks of their own. */
#ifndef VYC_EMBEDDING_H
#define VYC_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

#include "vyre_cuda.h"

typedef struct vyc_host {
  bool owns_context; /* the CUcontext is the host's: neither retained nor released */
  vyc_allocator device, pinned; /* alloc NULL: the driver's */
  void (*log)(void *user, int32_t level, const char *message);
  void *log_user;
} vyc_host;

/* Read the options of a context; NULL: none. */
vyc_status vyc__host_read(vyc_host *host_out, uint64_t *handle_out,
                          const vyc_context_options *options);

/* Functions of the host's are called by these: an exception that comes out of one ends the process.
 * False: out of memory. */
bool vyc__host_alloc(const vyc_allocator *allocator, uint64_t *address_out, uint64_t bytes);

void vyc__host_free(const vyc_allocator *allocator, uint64_t address);
void vyc__host_drop(void (*drop)(void *owner), void *owner);
void vyc__host_notice(void (*call)(void *user, vyc_status status), void *user, vyc_status status);

/* Somebody else has destroyed the CUcontext: no call may be made on what was made in it. */
bool vyc__is_destroyed(vyc_context *context);
vyc_status vyc__fail_destroyed(const vyc_context *context);
/* The same, but the driver is asked only if there is a reason: a host may destroy its own CUcontext
 * at any time, and calls on a primary context that was reset have failed with that. */
bool vyc__was_destroyed(vyc_context *context);

/* Tell the host, if it listens. */
__attribute__((format(printf, 3, 4), cold)) void vyc__log(vyc_context *context, int32_t level,
                                                          const char *format, ...);
#endif
