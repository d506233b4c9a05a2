/* The foundation of every room: the driver, errors, and what does not know about contexts. */
#ifndef VYC_BASE_ROOM_H
#define VYC_BASE_ROOM_H

#include "bits.h"
#include "capture_mode.h"
#include "claim.h"
#include "clock.h"
#include "digest.h"
#include "driver.h"
#include "fork.h"
#include "slots.h"
#include "status.h"
#include "thread_number.h"

#endif
