/* Contexts that their host takes part in: with a CUcontext or memory of its own, or listening. */
#include "host.h"

#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

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

const vyc_allocator *vyc__pool_allocator(const vyc_context *context, const vyc_pool *pool) {
  return pool->pinned ? &context->host.pinned : &context->host.device;
}

bool vyc__host_alloc(const vyc_allocator *allocator, uint64_t *address_out, uint64_t bytes) {
  *address_out = 0;
  return allocator->alloc(allocator->user, address_out, bytes) == 0 && *address_out != 0;
}

/* The record of the thread stays: a message is no failure of the call at hand. */
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
  context->host.log(context->host.log_user, level, text);
  vyc__record_shut(keepers);
  vyc__error_restore(&record);
}
