/* Runs with host arguments: what lower rooms have done to them; see vyc_above. */
#ifndef VYC_SUBMISSION_ROOM_H
#define VYC_SUBMISSION_ROOM_H

#include "context/room.h"

/* What submissions have for arguments and results of their runs goes to the pools, where no run is
 * in flight, prepared or still to be collected. */
void vyc__submissions_empty(vyc_context *context);
/* Nobody else uses the prepared kernel. False: some run never ended, and what it uses has leaked.
 */
bool vyc__submissions_destroy(vyc_prepared *prepared);
void vyc__submissions_free(vyc_prepared *prepared);

#endif
