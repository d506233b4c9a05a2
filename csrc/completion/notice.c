/* The functions by which callers ask to be told of an end. */
#include "submission/room.h"
#include "watch.h"

static vyc_status read_notice(vyc_watched *watched_out, const vyc_notice *notice) {
  VYC_REQUIRE_IN("notify", notice != NULL && notice->struct_size >= sizeof *notice);
  VYC_REQUIRE_IN("notify", notice->fd >= 0 || notice->call != NULL);
  *watched_out = (vyc_watched){.fd = notice->fd, .call = notice->call, .user = notice->user};
  return VYC_OK;
}

vyc_status vyc_ticket_notify(vyc_ticket *ticket, const vyc_notice *notice) {
  VYC_REQUIRE(ticket != NULL);
  vyc_watched watched;
  VYC_TRY(read_notice(&watched, notice));
  vyc_context *context = vyc__ticket_context(ticket);
  vyc_scope scope;
  VYC_TRY(vyc__enter_as_found(context, &scope));
  watched.ticket = ticket;
  vyc__ticket_hold(ticket);
  const vyc_status status = vyc__watch_add(context, &watched);
  if (status != VYC_OK) vyc__ticket_let_go(ticket);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_event_notify(vyc_event *event, const vyc_notice *notice) {
  VYC_REQUIRE(event != NULL);
  vyc_watched watched;
  VYC_TRY(read_notice(&watched, notice));
  vyc_context *context = event->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter_as_found(context, &scope));
  watched.event = event;
  vyc__child_retain(&event->child);
  const vyc_status status = vyc__watch_add(context, &watched);
  if (status != VYC_OK) vyc__child_drop_shared(&event->child); /* the caller has the last */
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_stream_notify(vyc_stream *stream, const vyc_notice *notice) {
  VYC_REQUIRE(stream != NULL);
  vyc_watched watched;
  vyc_event *event = NULL;
  VYC_TRY(read_notice(&watched, notice));
  VYC_TRY(vyc_stream_record(stream, &event));
  const vyc_status status = vyc_event_notify(event, notice);
  vyc_event_release(event);
  return status;
}
