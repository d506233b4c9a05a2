/* Launches on device memory; nothing here waits for them. */
#ifndef VYC_LAUNCH_ROOM_H
#define VYC_LAUNCH_ROOM_H

#include "kernel/room.h"

/* vyc__run_check for a run whose arguments are all buffers. */
vyc_status vyc__launch_check(const vyc_prepared *prepared, const vyc_run *run);
/* All launches: those counted, and those of bound calls that are not counted yet. */
uint64_t vyc__kernel_launches(vyc_context *context);

#endif
