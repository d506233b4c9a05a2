/* Recorded graphs. */
#ifndef VYC_GRAPH_ROOM_H
#define VYC_GRAPH_ROOM_H

#include "collective/room.h"
#include "launch/room.h"

/* Whether the driver supports loops that end on the device, for `what`, and replays on streams that
 * others capture: VYC_OK or VYC_E_UNSUPPORTED. */
vyc_status vyc__loops_supported(const vyc_context *context, const char *what);
vyc_status vyc__captures_supported(const vyc_context *context);
/* vyc_graph_launch with changes that were made for `version`; if the graph has another version once
 * it is claimed, nothing is launched and *stale_out is true. */
vyc_status vyc__graph_launch_if(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                vyc_stream *stream, const _Atomic uint32_t *version,
                                uint32_t wanted, bool *stale_out);
/* vyc_graph_launch_with, likewise. */
vyc_status vyc__graph_launch_with_if(vyc_graph *graph, const vyc_symbol_value *values,
                                     uint32_t count, vyc_stream *stream,
                                     const _Atomic uint32_t *version, uint32_t wanted,
                                     bool *stale_out);

#endif
