/* What launches and bound calls share. */
#ifndef VYC_LAUNCH_LAUNCH_H
#define VYC_LAUNCH_LAUNCH_H

#include "room.h"

/* vyc__is_usable for a context that this process is known to have opened. */
static inline bool vyc__is_open(const vyc_context *context) {
  return VYC_LIKELY(!atomic_load(&context->closed) &&
                    !atomic_load_explicit(&context->lost, memory_order_acquire));
}
/* Order the buffers, and clear outs that the kernel may not write completely. */
vyc_status vyc__launch_prepare(const vyc_prepared *prepared, const vyc_run *run,
                               const vyc_launch_stream *on);
/* The hidden arguments of launches in one place. */
vyc_status vyc__launch_hidden(vyc_prepared *prepared, vyc_hidden *hidden_out,
                              const vyc_launch_stream *on);
/* A launch into another library's capture. */
vyc_status vyc__launch_captured(vyc_prepared *prepared, const vyc_run *run,
                                const vyc_launch_stream *on);

#endif
