/* The scene's other device, the group of both, and what may be said of it. */
#include "scene.h"

#define MOST_BYTES UINT64_C(2048) /* of an all-reduce in one shot */
#define PATIENCE_NS INT64_C(2000000000)

vyc_context *scene_context(const scene *s, uint32_t device) {
  return device == 0 ? s->context : s->devices.context;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void make_buffer(scene *s, scene_buffer *buffer, const char *name) {
  MUST(vyc_buffer_alloc(&buffer->handle, s->devices.context, ORDER_BUFFER_BYTES));
  MUST(vyc_buffer_address(buffer->handle, &buffer->address));
  buffer->number = order_buffer_add(&s->order, name, buffer->address, false);
}

static void warm_other(scene *s) {
  scene_devices *d = &s->devices;
  scene_run run;
  scene_fill_run(&run, NULL, &d->x, 0, &d->there, 0);
  for (int i = 0; i < 3; i++) MUST(vyc_prepared_launch(d->prepared, &run.run));
  MUST(vyc_copy(d->there.handle, 0, s->hot.handle, 0, 8));
  MUST(vyc_copy(s->out.handle, 0, d->there.handle, 0, 8));
  MUST(vyc_context_synchronize(d->context));
  model_write(d->there.address, 0);
  model_write(d->x.address, 0);
}

static void make_result(scene *s, uint32_t rank, uint32_t thread) {
  scene_devices *d = &s->devices;
  MUST(vyc_buffer_alloc(&d->out[rank][thread], scene_context(s, rank), ORDER_BUFFER_BYTES));
  MUST(vyc_buffer_address(d->out[rank][thread], &d->results[rank][thread]));
}

static void make_rank(scene *s, uint32_t rank) {
  static vyc_parameter parameters[8];
  static vyc_binding bindings[7];
  scene_devices *d = &s->devices;
  const uint64_t element = SCENE_ADDS(rank);
  for (uint32_t i = 0; i < 7; i++) {
    parameters[i] = (vyc_parameter){VYC_PARAMETER_POINTER, i, 8 * i, 8, {0}};
    bindings[i] = (vyc_binding){VYC_ROLE_INOUT, 0, 8, 0};
  }
  parameters[7] = (vyc_parameter){VYC_PARAMETER_SCALAR, 0, 56, 4, {0}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {256, 1, 1},
                                  .parameter_bytes = 60,
                                  .parameter_count = 8,
                                  .binding_count = 7,
                                  .scalar_count = 1,
                                  .entry = MODEL_REDUCES,
                                  .parameters = parameters,
                                  .bindings = bindings};
  vyc_context *context = scene_context(s, rank);
  MUST(vyc_context_set_patience(context, PATIENCE_NS));
  MUST(vyc_module_load(&d->modules[rank], NULL, 0, context, "model", sizeof "model"));
  MUST(vyc_prepared_create(&d->reducing[rank], d->modules[rank], &desc));
  MUST(vyc_buffer_alloc(&d->in[rank], context, ORDER_BUFFER_BYTES));
  MUST(vyc_copy_in(d->in[rank], 0, &element, sizeof element));
  for (uint32_t thread = 0; thread < EXPLORER_CALLERS; thread++) make_result(s, rank, thread);
}

void scene_make_devices(scene *s) {
  scene_devices *d = &s->devices;
  vyc_worker_release(s->worker); /* beside one collectives are refused */
  s->worker = NULL;
  MUST(vyc_context_open(&d->context, s->driver, 1));
  MUST(vyc_bundled_kernel_load(&d->kernel, NULL, 0, d->context, s->bundle, "put", 0));
  MUST(vyc_bundled_kernel_prepared(d->kernel, &d->prepared));
  make_buffer(s, &d->x, "x of the other device");
  make_buffer(s, &d->there, "there");
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) make_rank(s, rank);
  d->uses[0] = SCENE_FIRST | SCENE_OTHER;
  warm_other(s);
}

vyc_collective scene_all_reduce(const scene *s, uint32_t rank, uint32_t thread) {
  return (vyc_collective){.struct_size = sizeof(vyc_collective),
                          .kind = VYC_ALL_REDUCE,
                          .type = VYC_ELEMENT_U64,
                          .op = VYC_COMBINE_ADD,
                          .count = 1,
                          .in = s->devices.in[rank],
                          .out = s->devices.out[rank][thread]};
}

void scene_make_ranks(scene *s) {
  scene_devices *d = &s->devices;
  uint8_t id[VYC_COMMUNICATOR_ID_BYTES];
  if (!d->has_ranks) return;
  MUST(vyc_nccl_unique_id(id));
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    MUST(vyc_communicator_create(&d->ranks[rank], scene_context(s, rank), id, (int32_t)rank,
                                 MODEL_DEVICES, -1));
  MUST(vyc_one_shot_open(d->ranks, MODEL_DEVICES, MOST_BYTES));
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) {
    MUST(vyc_one_shot_add(d->ranks[rank], VYC_ELEMENT_U64, VYC_COMBINE_ADD, d->reducing[rank]));
    MUST(vyc_one_shot_limit(d->ranks[rank], MOST_BYTES));
  }
  for (int i = 0; i < 2; i++)
    for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) {
      const vyc_collective sum = scene_all_reduce(s, rank, 0);
      MUST(vyc_communicator_run(d->ranks[rank], &sum));
    }
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    MUST(vyc_context_synchronize(scene_context(s, rank)));
}

void scene_expect_leaving(void) { the_scene()->devices.is_left = true; }

/* ---- what may be said ------------------------------------------------------------------------ */

bool scene_is_closing(const scene *s, uint32_t devices) {
  return ((devices & SCENE_FIRST) != 0 && s->closing) ||
         ((devices & SCENE_OTHER) != 0 && s->devices.closing);
}

bool scene_is_leaving(const scene *s, uint32_t rank) {
  return s->devices.leaving[rank] || scene_is_closing(s, 1u << rank);
}

/* A rank may lack elements of one that leaves: of a call that this had no part in, or of one that
 * this ended without its part. */
static bool may_lack(const scene *s, uint32_t rank) {
  const uint32_t other = 1 - rank;
  const scene_devices *d = &s->devices;
  if (!scene_is_leaving(s, other)) return false;
  return d->is_refused_late || d->launching[rank] > 0 ||
         model_reduces(rank) != model_reduces(other);
}

bool scene_may_be_broken(const scene *s, uint32_t devices) {
  if (s->devices.aborted) return true;
  return ((devices & SCENE_FIRST) != 0 && may_lack(s, 0)) ||
         ((devices & SCENE_OTHER) != 0 && may_lack(s, 1));
}

static void says_why(void) {
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  if (strstr(error.message, "the communicator was ended") != NULL)
    explorer_fail("a call was refused without a reason");
}

bool scene_may_refuse(const scene *s, uint32_t rank, vyc_status status) {
  const bool is_left = scene_is_leaving(s, 0) || scene_is_leaving(s, 1);
  if (status == VYC_E_COMMUNICATION) says_why();
  if (status == VYC_E_COMMUNICATION) return is_left || s->devices.aborted;
  if (status == VYC_E_INVALID) return scene_is_leaving(s, rank);
  return status == VYC_E_UNAVAILABLE && scene_is_closing(s, 1u << rank);
}

bool scene_refuses(void) {
  scene *s = the_scene();
  const uint64_t bit = UINT64_C(1) << s->operation[explorer->current];
  const bool refuses = (s->devices.refused & bit) != 0;
  s->devices.refused &= ~bit;
  s->launches += refuses; /* it is counted with those that were given */
  return refuses;
}

/* A wait that ended well: then all that it waited for has what it needs, unless the rank has left
 * meanwhile, of which nothing is said any more. */
static void check_result(const scene *s, uint32_t rank, uint32_t operation, uint32_t thread) {
  const uint64_t number = model_reduce_of(rank, operation);
  const uint64_t found = model_read(s->devices.results[rank][thread]);
  if (number == 0 || scene_is_leaving(s, rank)) return;
  if (number > model_reduces(1 - rank))
    explorer_fail("a wait for an all-reduce of rank %u which the other rank has no part in ended "
                  "well",
                  rank);
  if (found != SCENE_ADDS(0) + SCENE_ADDS(1))
    explorer_fail("an all-reduce of rank %u has the result %lu", rank, (unsigned long)found);
}

void scene_await_rank(uint32_t rank, uint32_t operation, uint32_t thread) {
  scene *s = the_scene();
  const uint32_t number =
      scene_enter((order_operation){.name = "wait for a rank", .stream = ORDER_NOWHERE}, BY_ITSELF,
                  SCENE_ANY_KERNELS);
  s->devices.uses[number] = (uint8_t)(1u << rank);
  const vyc_status status = vyc_context_synchronize(scene_context(s, rank));
  if (status == VYC_OK && operation != 0) check_result(s, rank, operation, thread);
  scene_leave(number, status);
}

/* ---- the judgement --------------------------------------------------------------------------- */

static bool is_closed(const scene *s, uint32_t device) {
  return device == 0 ? s->closed : s->devices.closed;
}

/* The second rank leaves first; the other one is told if that lacks its elements, and works on as
 * soon as it has left, too. */
static void end_group(scene *s) {
  scene_devices *d = &s->devices;
  for (uint32_t rank = MODEL_DEVICES; d->has_ranks && rank-- > 0;) {
    d->leaving[rank] = true;
    vyc_communicator_close(d->ranks[rank]);
    if (rank == 1 && !is_closed(s, 0)) scene_await_rank(0, 0, 0);
  }
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) {
    if (is_closed(s, rank)) continue;
    const vyc_status status = vyc_context_synchronize(scene_context(s, rank));
    if (status != VYC_OK && status != VYC_E_ASSERT)
      explorer_fail("a wait for device %u, whose group has ended, gave %d", rank, (int)status);
    MUST(vyc_context_trim(scene_context(s, rank)));
  }
}

static void copy_there_out(scene *s) {
  const uint32_t number =
      scene_enter((order_operation){.name = "copy out of the other device",
                                    .stream = STREAM_OTHER,
                                    .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_BLOCKS,
                                    .reads = scene_set(&s->devices.there)},
                  BY_ITSELF, 0);
  uint64_t value = UINT64_MAX;
  s->devices.uses[number] = SCENE_OTHER;
  const vyc_status status = vyc_copy_out(s->devices.there.handle, 0, &value, sizeof value);
  if (status == VYC_OK) order_check_read(&s->order, number, s->devices.there.number, value);
  scene_leave(number, status);
}

void scene_judge_devices(scene *s) {
  scene_devices *d = &s->devices;
  if (!s->closed && model_reduces(0) <= model_reduces(1))
    scene_await_rank(0, 0, 0); /* so that what only the other one has been given comes late */
  end_group(s);
  if (!d->closed) copy_there_out(s);
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) {
    vyc_communicator_release(d->ranks[rank]);
    vyc_prepared_release(d->reducing[rank]);
    vyc_module_release(d->modules[rank]);
    vyc_buffer_release(d->in[rank]);
    for (uint32_t i = 0; i < EXPLORER_CALLERS; i++) vyc_buffer_release(d->out[rank][i]);
  }
  vyc_prepared_release(d->prepared);
  vyc_bundled_kernel_release(d->kernel);
  scene_buffer_end(&d->x);
  scene_buffer_end(&d->there);
  if (!d->closed) MUST(vyc_context_close(d->context));
  vyc_context_release(d->context);
  d->context = NULL;
}
