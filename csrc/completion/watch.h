/* What the functions of notices need of the watch. */
#ifndef VYC_WATCH_H
#define VYC_WATCH_H

#include "room.h"

/* Something whose end somebody wants to know: a ticket or an event, which it holds. */
struct vyc_watched {
  vyc_watched *next;
  vyc_ticket *ticket; /* or NULL */
  vyc_event *event;   /* or NULL */
  int32_t fd;
  void (*call)(void *user, vyc_status status);
  void *user;
};

/* Watch for it from now on, on the context's thread, which is started if there is none. The caller
 * has entered the context. On failure nothing has changed. */
vyc_status vyc__watch_add(vyc_context *context, const vyc_watched *watched);

#endif
