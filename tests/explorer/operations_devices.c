/* What two devices have with each other: copies, all-reduces in one shot, and the end of either. */
#include "operations.h"
#include "scene.h"

static uint32_t enter(order_operation operation, uint32_t devices, uint32_t kernels) {
  const uint32_t number = scene_enter(operation, BY_ITSELF, kernels);
  the_scene()->devices.uses[number] = (uint8_t)devices;
  return number;
}

/* ---- the other device ------------------------------------------------------------------------ */

void operate_other_launch(uint32_t thread) {
  scene_devices *d = &the_scene()->devices;
  scene_run run;
  (void)thread;
  const uint32_t number = enter((order_operation){.name = "launch on the other device",
                                                  .stream = STREAM_OTHER,
                                                  .reads = scene_set(&d->x),
                                                  .writes = scene_set(&d->there),
                                                  .in = d->x.address,
                                                  .out = d->there.address},
                                SCENE_OTHER, 1);
  scene_fill_run(&run, NULL, &d->x, 0, &d->there, number);
  scene_leave(number, vyc_prepared_launch(d->prepared, &run.run));
}

static void copy_across(const char *name, const scene_buffer *to, uint32_t to_stream,
                        const scene_buffer *from, uint32_t from_stream) {
  const uint32_t number =
      enter((order_operation){.name = name,
                              .stream = to_stream,
                              .other = from_stream,
                              .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_IS_ON_OTHER,
                              .reads = scene_set(from),
                              .writes = scene_set(to),
                              .in = from->address,
                              .out = to->address},
            SCENE_FIRST | SCENE_OTHER, 1);
  scene_leave(number, vyc_copy(to->handle, 0, from->handle, 0, 8));
}

void operate_other_copy(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  copy_across("copy to the other device", &s->devices.there, STREAM_OTHER, &s->hot, STREAM_CALLS);
}

void operate_other_copy_back(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  copy_across("copy from the other device", &s->out, STREAM_CALLS, &s->devices.there, STREAM_OTHER);
}

void operate_other_wait(uint32_t thread) {
  (void)thread;
  const uint32_t number = enter((order_operation){.name = "wait for the other device",
                                                  .stream = ORDER_NOWHERE,
                                                  .other = STREAM_OTHER,
                                                  .flags = ORDER_WAITS_OTHER | ORDER_BLOCKS},
                                SCENE_OTHER, 0);
  scene_leave(number, vyc_context_synchronize(the_scene()->devices.context));
}

void operate_other_close(uint32_t thread) {
  scene_devices *d = &the_scene()->devices;
  (void)thread;
  const uint32_t number =
      enter((order_operation){.name = "close of the other device", .stream = ORDER_NOWHERE},
            SCENE_OTHER, SCENE_ANY_KERNELS);
  d->closing = true;
  scene_leave(number, vyc_context_close(d->context));
  d->closed = true;
}

/* ---- all-reduces in one shot ----------------------------------------------------------------- */

static uint32_t enter_reduce(const char *name) {
  return enter((order_operation){.name = name, .stream = ORDER_NOWHERE}, SCENE_FIRST | SCENE_OTHER,
               SCENE_ANY_KERNELS);
}

static void reduce(uint32_t rank, uint32_t thread) {
  scene *s = the_scene();
  const vyc_collective sum = scene_all_reduce(s, rank, thread);
  s->devices.launching[rank]++;
  const vyc_status status = vyc_communicator_run(s->devices.ranks[rank], &sum);
  s->devices.launching[rank]--;
  if (status != VYC_OK && !scene_may_refuse(s, rank, status)) scene_ok(status, "an all-reduce");
}

/* Waits for all that can end: not for what a rank has that the other one has not, unless that is
 * told of it. */
static void await_ranks(uint32_t operation, uint32_t thread) {
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    if (model_reduces(rank) <= model_reduces(1 - rank)) scene_await_rank(rank, operation, thread);
}

static void reduce_often(const char *name, uint32_t thread, uint32_t times) {
  const uint32_t number = enter_reduce(name);
  for (uint32_t i = 0; i < times; i++)
    for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) reduce(rank, thread);
  scene_leave(number, VYC_OK);
  await_ranks(number, thread);
}

void operate_ranks_reduce(uint32_t thread) { reduce_often("an all-reduce", thread, 1); }

/* As many as have gone twice through the halves of an inbox. */
void operate_ranks_thrice(uint32_t thread) { reduce_often("three all-reduces", thread, 3); }

void operate_ranks_together(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t number = enter_reduce("an all-reduce of both");
  const vyc_collective sums[] = {scene_all_reduce(s, 0, thread), scene_all_reduce(s, 1, thread)};
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) s->devices.launching[rank]++;
  const vyc_status status = vyc_collectives_run(s->devices.ranks, sums, MODEL_DEVICES);
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) s->devices.launching[rank]--;
  if (status != VYC_OK && !scene_may_refuse(s, 0, status) && !scene_may_refuse(s, 1, status))
    scene_ok(status, "an all-reduce of both");
  scene_leave(number, VYC_OK);
  await_ranks(number, thread);
}

/* If the other rank is to leave, that has no part in it, and it ends then. */
void operate_ranks_first(uint32_t thread) {
  const uint32_t number = enter_reduce("an all-reduce of the first rank");
  const bool is_left = the_scene()->devices.is_left;
  reduce(0, thread);
  if (!is_left) reduce(1, thread);
  scene_leave(number, VYC_OK);
  if (is_left)
    scene_await_rank(0, number, thread);
  else
    await_ranks(number, thread);
}

/* The driver refuses the first, which is given again. */
void operate_ranks_refused(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t number = enter_reduce("an all-reduce that is refused");
  const vyc_collective sum = scene_all_reduce(s, 0, thread);
  s->devices.refused |= UINT64_C(1) << number;
  s->devices.launching[0]++;
  const vyc_status status = vyc_communicator_run(s->devices.ranks[0], &sum);
  s->devices.launching[0]--;
  s->devices.refused &= ~(UINT64_C(1) << number);
  s->devices.is_refused_late |= scene_is_leaving(s, 1);
  if (status != VYC_E_DRIVER && !scene_may_refuse(s, 0, status))
    explorer_fail("an all-reduce that the driver refuses gave %d", (int)status);
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) reduce(rank, thread);
  scene_leave(number, VYC_OK);
  await_ranks(number, thread);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What it gave back may be freed. */
static void close_rank(uint32_t rank) {
  scene *s = the_scene();
  const uint32_t number =
      enter((order_operation){.name = "close of a rank", .stream = ORDER_NOWHERE}, 1u << rank,
            SCENE_ANY_KERNELS);
  s->devices.leaving[rank] = true;
  vyc_communicator_close(s->devices.ranks[rank]);
  scene_leave(number, vyc_context_trim(scene_context(s, rank)));
}

void operate_ranks_close_first(uint32_t thread) {
  (void)thread;
  close_rank(0);
}

void operate_ranks_close_second(uint32_t thread) {
  (void)thread;
  close_rank(1);
}

static void abort_rank(uint32_t rank) {
  scene *s = the_scene();
  const uint32_t number =
      enter((order_operation){.name = "abort of a rank", .stream = ORDER_NOWHERE}, 1u << rank,
            SCENE_ANY_KERNELS);
  s->devices.aborted = true;
  scene_leave(number, vyc_communicator_abort(s->devices.ranks[rank], "it is to end"));
}

void operate_ranks_abort(uint32_t thread) {
  (void)thread;
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) abort_rank(rank);
}

/* The other one is told when this leaves. */
void operate_ranks_abort_first(uint32_t thread) {
  abort_rank(0);
  scene_await_rank(0, 0, thread);
  close_rank(0);
}

void operate_ranks_watch(uint32_t thread) {
  vyc_communicator_state state = {.struct_size = sizeof state};
  (void)thread;
  const uint32_t number =
      enter((order_operation){.name = "look at a rank", .stream = ORDER_NOWHERE}, SCENE_FIRST,
            SCENE_ANY_KERNELS);
  const vyc_status status = vyc_communicator_watch(the_scene()->devices.ranks[0], &state);
  if (status == VYC_OK && state.error != 0)
    explorer_fail("NCCL is said to have error %d", state.error);
  scene_leave(number, status);
}
