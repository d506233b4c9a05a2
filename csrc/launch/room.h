/* Launches on device memory, which nobody waits for here. */
#ifndef VYC_LAUNCH_ROOM_H
#define VYC_LAUNCH_ROOM_H

#include "kernel/room.h"

/* vyc__run_check of a run whose arguments are all buffers. */
vyc_status vyc__launch_check(const vyc_prepared *prepared, const vyc_run *run);
/* Launches that bound calls have made and not counted yet. */
uint64_t vyc__call_launches(vyc_context *context);

#endif
