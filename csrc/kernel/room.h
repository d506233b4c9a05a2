/* Kernels that are prepared for dispatch. */
#ifndef VYC_KERNEL_ROOM_H
#define VYC_KERNEL_ROOM_H

#include "crowd.h"
#include "form.h"
#include "launch_graph.h"
#include "prepared.h"
#include "run_check.h"

#endif
