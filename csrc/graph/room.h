/* Recorded graphs. */
#ifndef VYC_GRAPH_ROOM_H
#define VYC_GRAPH_ROOM_H

#include "launch/room.h"

/* Loops that end on the device, for `what`, and replays on streams that somebody captures: VYC_OK,
 * or VYC_E_UNSUPPORTED. */
vyc_status vyc__loops_supported(const vyc_context *context, const char *what);
vyc_status vyc__captures_supported(const vyc_context *context);
/* vyc_graph_launch with changes that were made of `version`: *stale_out, and nothing launched, when
 * the version is another one by the time that the graph is claimed. */
vyc_status vyc__graph_launch_if(vyc_graph *graph, const vyc_graph_change *changes, uint32_t count,
                                vyc_stream *stream, const _Atomic uint32_t *version,
                                uint32_t wanted, bool *stale_out);

#endif
