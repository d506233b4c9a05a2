/* Contexts that their host takes part in: with a CUcontext or memory of its own, or listening. */
#include "room.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static vyc_status check_allocator(const vyc_allocator *allocator) {
  VYC_REQUIRE_IN("vyc_context_open_with", (allocator->alloc == NULL) == (allocator->free == NULL));
  return VYC_OK;
}

vyc_status vyc__host_read(vyc_host *host_out, uint64_t *handle_out,
                          const vyc_context_options *options) {
  vyc_context_options known = {.struct_size = sizeof known};
  *host_out = (vyc_host){0};
  *handle_out = 0;
  if (options == NULL) return VYC_OK;
  VYC_REQUIRE_IN("vyc_context_open_with", options->struct_size >= sizeof(uint32_t));
  const size_t bytes = options->struct_size < sizeof known ? options->struct_size : sizeof known;
  memcpy(&known, options, bytes);
  VYC_REQUIRE_IN("vyc_context_open_with", known.flags == 0);
  VYC_TRY(check_allocator(&known.device_memory));
  VYC_TRY(check_allocator(&known.pinned_memory));
  *handle_out = known.handle;
  host_out->owns_context = known.handle != 0;
  host_out->device = known.device_memory;
  host_out->pinned = known.pinned_memory;
  host_out->log = known.log;
  host_out->log_user = known.log_user;
  return VYC_OK;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Around a function of the host's. Compiled with -fexceptions, its cleanup also runs where an
 * exception of C++, or the end of the thread, comes through: what the library holds meanwhile
 * (entries, claims, a current context) would stay as it is, and waits for it never end. */
typedef struct boundary_state {
  bool has_returned;
} boundary_state;

static void end(const boundary_state *state) {
  if (VYC_LIKELY(state->has_returned)) return;
  fputs("libvyre_cuda: an exception or the end of its thread left a callback of the host\n",
        stderr);
  abort();
}

#define boundary __attribute__((cleanup(end))) boundary_state

static boundary_state begin(void) { return (boundary_state){false}; }

bool vyc__host_alloc(const vyc_allocator *allocator, uint64_t *address_out, uint64_t bytes) {
  *address_out = 0;
  boundary inside = begin();
  const int32_t result = allocator->alloc(allocator->user, address_out, bytes);
  inside.has_returned = true;
  return result == 0 && *address_out != 0;
}

void vyc__host_free(const vyc_allocator *allocator, uint64_t address) {
  boundary inside = begin();
  allocator->free(allocator->user, address);
  inside.has_returned = true;
}

void vyc__host_drop(void (*drop)(void *owner), void *owner) {
  boundary inside = begin();
  drop(owner);
  inside.has_returned = true;
}

void vyc__host_notice(void (*call)(void *user, vyc_status status), void *user, vyc_status status) {
  boundary inside = begin();
  call(user, status);
  inside.has_returned = true;
}

/* The record of the thread stays: a message is not a failure of the call at hand. */
void vyc__log(vyc_context *context, int32_t level, const char *format, ...) {
  if (context->host.log == NULL) return;
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  vyc_error record;
  vyc__error_save(&record);
  const uint32_t keepers = vyc__record_open();
  boundary inside = begin();
  context->host.log(context->host.log_user, level, text);
  inside.has_returned = true;
  vyc__record_shut(keepers);
  vyc__error_restore(&record);
}
