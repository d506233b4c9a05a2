/* Notices: an operation begins when it asks, and ends on the thread that tells it. */
#include "operations.h"
#include "scene.h"

#define FILES 1000 /* an eventfd is this and the number of the operation */

static uint32_t enter(const char *name, uint32_t stream, uint32_t kernels) {
  return scene_enter((order_operation){.name = name, .stream = stream, .flags = ORDER_BLOCKS},
                     BY_ITSELF, kernels);
}

/* Once for each operation. */
static void tell(uint32_t number, vyc_status status) {
  scene *s = the_scene();
  if ((s->noticed >> number & 1) != 0)
    explorer_fail("%s (%u) is told twice", s->order.list[number].name, number);
  s->noticed |= UINT64_C(1) << number;
  scene_take_over(number);
  scene_leave(number, status);
}

static void told(void *user, vyc_status status) {
  tell(((const scene_notice *)user)->operation, status);
}

/* The result stands there before the notice is given. */
static void told_with_result(void *user, vyc_status status) {
  scene_notice *notice = user;
  if (status == VYC_OK && notice->result != notice->operation)
    explorer_fail("a notice of run %u comes with the result %lu", notice->operation,
                  (unsigned long)notice->result);
  vyc_ticket_release(notice->ticket);
  tell(notice->operation, status);
}

/* Whose run was abandoned: it says only that it is over. */
static void told_of_dropped(void *user, vyc_status status) {
  (void)status;
  tell(((const scene_notice *)user)->operation, VYC_OK);
}

/* A close gives the notice as well, and nobody learns which it was. */
static void wrote(int file) {
  tell((uint32_t)(file - FILES), the_scene()->closing ? VYC_E_UNAVAILABLE : VYC_OK);
}

/* The operation goes on if the notice is to come; it may have come already. */
static void asked(uint32_t number, vyc_status status) {
  scene *s = the_scene();
  if (status == VYC_OK) {
    s->awaited |= UINT64_C(1) << number;
    scene_hand_over(number);
  } else {
    scene_leave(number, status);
  }
}

static vyc_notice notice_by(void (*call)(void *, vyc_status), scene_notice *notice) {
  return (vyc_notice){.struct_size = sizeof(vyc_notice), .fd = -1, .call = call, .user = notice};
}

void operate_notice_of_stream(uint32_t thread) {
  scene *s = the_scene();
  scene_notice *mine = &s->notices[thread];
  mine->operation = enter("notice of stream one", STREAM_ONE, 0);
  const vyc_notice notice = notice_by(told, mine);
  asked(mine->operation, vyc_stream_notify(s->one, &notice));
}

/* Which is released at once. */
void operate_notice_of_event(uint32_t thread) {
  scene *s = the_scene();
  vyc_event *event = NULL;
  (void)thread;
  explorer->wrote = wrote;
  const uint32_t number = enter("notice of an event", STREAM_ONE, 0);
  const vyc_notice notice = {.struct_size = sizeof notice, .fd = FILES + (int)number};
  vyc_status status = vyc_stream_record(s->one, &event);
  if (status == VYC_OK) status = vyc_event_notify(event, &notice);
  vyc_event_release(event);
  asked(number, status);
}

static vyc_status submit(scene_notice *mine, uint32_t number, uint64_t *result) {
  const scene *s = the_scene();
  scene_run run;
  mine->operation = number;
  mine->ticket = NULL;
  *result = UINT64_MAX;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &mine->in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = result};
  return vyc_prepared_submit(s->prepared, &mine->ticket, &run.run);
}

void operate_notice_of_ticket(uint32_t thread) {
  scene_notice *mine = &the_scene()->notices[thread];
  const uint32_t number = enter("notice of a run", ORDER_NOWHERE, 1);
  const vyc_notice notice = notice_by(told_with_result, mine);
  vyc_status status = submit(mine, number, &mine->result);
  vyc_ticket *ticket = mine->ticket; /* a notice releases it, and may come at once */
  if (status == VYC_OK) {
    status = vyc_ticket_notify(ticket, &notice);
    if (status != VYC_OK) vyc_ticket_release(ticket);
  }
  asked(number, status);
}

/* Nothing is written to the result once the ticket is released. */
void operate_notice_of_dropped_ticket(uint32_t thread) {
  scene *s = the_scene();
  scene_notice *mine = &s->notices[thread];
  const uint32_t number = enter("notice of a run that is dropped", ORDER_NOWHERE, 1);
  const vyc_notice notice = notice_by(told_of_dropped, mine);
  vyc_status status = submit(mine, number, &s->dropped[thread]);
  if (status == VYC_OK) status = vyc_ticket_notify(mine->ticket, &notice);
  vyc_ticket_release(mine->ticket);
  s->dropped[thread] = SCENE_DROPPED;
  asked(number, status);
}
