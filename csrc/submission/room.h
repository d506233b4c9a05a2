/* Runs with host arguments: the functions that lower rooms call through vyc_above; tickets. */
#ifndef VYC_SUBMISSION_ROOM_H
#define VYC_SUBMISSION_ROOM_H

#include "context/room.h"
#include "ticket.h"

/* Return the memory for arguments and results to the pools, of submissions without a run that is in
 * flight, being prepared, or still to be collected. */
void vyc__submissions_empty(vyc_context *context);
/* No one else uses the prepared kernel. False: a run never ended, and what it uses has leaked. */
bool vyc__submissions_destroy(vyc_prepared *prepared);
void vyc__submissions_free(vyc_prepared *prepared);

/* A holder of a ticket beside the caller, who does not abandon the run when it lets go. */
void vyc__ticket_hold(vyc_ticket *ticket);
void vyc__ticket_let_go(vyc_ticket *ticket);
vyc_context *vyc__ticket_context(const vyc_ticket *ticket);

#endif
