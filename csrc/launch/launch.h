/* What launches and bound calls share. */
#ifndef VYC_LAUNCH_LAUNCH_H
#define VYC_LAUNCH_LAUNCH_H

#include "room.h"

/* The buffers in order and cleared where the kernel may leave them unwritten, */
vyc_status vyc__launch_prepare(const vyc_plan *plan, const vyc_run *run, const vyc_place *place);
/* the hidden arguments of launches in one place, */
vyc_status vyc__launch_hidden(vyc_plan *plan, vyc_hidden *hidden_out, const vyc_place *place);
/* and a launch that goes into a capture of somebody else. */
vyc_status vyc__launch_captured(vyc_plan *plan, const vyc_run *run, const vyc_place *place);

#endif
