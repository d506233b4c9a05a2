/* Notices of the end of work, in place of waits for it.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_NOTICE_H
#define VYRE_CUDA_NOTICE_H

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- notices: the end of work, without a wait ----------------------------------------------- */

/* How the end is reported: by an eventfd, a call, or both. One thread of the library for each
 * context watches all work that somebody has asked about, and exists only while there is some. It
 * makes the calls, one after the other, without a lock held, and with all signals blocked. A call
 * may use the library, also for the next notice, but should be short, and must not close the
 * context (VYC_E_INVALID); its thread's error record has the failure of a `status`. Each notice is
 * given once; if the context is closed first, the close gives it, with VYC_E_UNAVAILABLE. The last
 * reference to a context is released later if a notice is due. */
typedef struct vyc_notice {
  uint32_t struct_size;
  int32_t fd; /* an eventfd(2), open until then, to which 1 is added; -1: none */
  void (*call)(void *user, vyc_status status); /* or NULL */
  void *user;
} vyc_notice;

/* Report the end of the run: `status` is that of vyc_ticket_query, which collects the results. The
 * ticket may be released before; that abandons the run, but its end is reported. */
VYC_API vyc_status vyc_ticket_notify(vyc_ticket *ticket, const vyc_notice *notice);
/* Report that the event, which may be released at once, has been reached. With a call, this is a
 * wait for the event: `status` may be VYC_E_ASSERT as for vyc_event_synchronize. With an eventfd
 * alone, failed checks are left to the caller's wait. */
VYC_API vyc_status vyc_event_notify(vyc_event *event, const vyc_notice *notice);
/* The same for the work that the stream has been given so far. */
VYC_API vyc_status vyc_stream_notify(vyc_stream *stream, const vyc_notice *notice);

#ifdef __cplusplus
}
#endif
#endif
