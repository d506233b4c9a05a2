/* The memory of a context, from its opening to its close. */
#include "room.h"

void vyc__memory_begin(vyc_context *context) {
  vyc__pool_init(vyc__device_pool(context), false);
  vyc__pool_init(vyc__pinned_pool(context), true);
}

bool vyc__memory_is_giving(vyc_context *context) {
  return vyc__pool_is_giving(vyc__device_pool(context)) ||
         vyc__pool_is_giving(vyc__pinned_pool(context));
}

void vyc__memory_forget(vyc_context *context) {
  vyc__pool_close(context, vyc__device_pool(context));
  vyc__pool_close(context, vyc__pinned_pool(context));
}

void vyc__memory_close(vyc_context *context) {
  vyc__small_copies_close(context);
  vyc__gather_close(context);
  vyc__memory_forget(context);
}

void vyc__memory_end(vyc_context *context) {
  vyc__pool_destroy(vyc__device_pool(context));
  vyc__pool_destroy(vyc__pinned_pool(context));
  vyc__peers_end(context);
}
