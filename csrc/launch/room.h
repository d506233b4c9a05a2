/* Launches on device memory, which nobody waits for here. */
#ifndef VYC_LAUNCH_ROOM_H
#define VYC_LAUNCH_ROOM_H

#include "kernel/room.h"

/* vyc__run_check of a run whose arguments are all buffers. */
vyc_status vyc__launch_check(const vyc_prepared *prepared, const vyc_run *run);
/* All that have been counted, and those that bound calls have made and not counted yet. */
uint64_t vyc__kernel_launches(vyc_context *context);

#endif
