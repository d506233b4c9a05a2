/* Opening and closing a context. */
#ifndef VYC_DEVICE_ROOM_H
#define VYC_DEVICE_ROOM_H

#include "plan.h"

/* vyc_above.end: close it, and free what it has. */
void vyc__context_end(vyc_context *context);

#endif
