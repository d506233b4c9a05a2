/* What is counted and written down of what a context does. */
#ifndef VYC_TELEMETRY_ROOM_H
#define VYC_TELEMETRY_ROOM_H

#include "counters.h"
#include "launch_log.h"

#endif
