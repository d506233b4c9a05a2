/* Workers: the functions that lower rooms call through vyc_above. */
#ifndef VYC_WORKER_ROOM_H
#define VYC_WORKER_ROOM_H

#include "submission/room.h"

#define VYC_WORKER_MOST_KERNELS 64u /* as in codegen/worker.py */

/* Nobody launches a worker of the context: those that run end after the calls that they have. After
 * the context's time limit this returns all the same. The error record is unchanged. */
void vyc__workers_stop(vyc_context *context);
/* Wait for all calls that were submitted. VYC_NOT_READY: not in the time allowed. */
vyc_status vyc__workers_finish(vyc_context *context, int64_t timeout_ns);
/* The same in parts: how far the workers were at some time, which is noted, and a wait for the
 * calls up to there, as often as it takes. NULL: no worker had been made. Waits by several threads
 * are possible, each for what is noted. */
vyc_status vyc__workers_note(vyc_context *context, vyc_worker_note **notes_out);
vyc_status vyc__workers_reach(vyc_context *context, vyc_worker_note *notes, int64_t timeout_ns);
void vyc__workers_forget(vyc_worker_note *notes);
/* Whether there is a worker that is neither closed nor paused. */
bool vyc__workers_may_run(vyc_context *context);

#endif
