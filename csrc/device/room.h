/* Opening and closing a context. */
#ifndef VYC_DEVICE_ROOM_H
#define VYC_DEVICE_ROOM_H

#include "completion/room.h"
#include "kernel/room.h"
#include "launch/room.h"
#include "submission/room.h"
#include "worker/room.h"

/* vyc_above.end: close it, and free what it has. */
void vyc__context_end(vyc_context *context);

#endif
