/* What the model of order is told of operations and kernels, and holds against them at once. */
#include "scene.h"

static uint32_t operation_now(void) { return the_scene()->operation[explorer->current]; }

static bool share_buffers(const order_operation *a, const order_operation *b) {
  return ((a->reads | a->writes) & (b->reads | b->writes)) != 0;
}

static bool is_download(const order_operation *o) {
  return (o->flags & ORDER_COPY) != 0 && (o->flags & ORDER_TELLS) != 0;
}

/* Buffers may not know its stream any more: that is gone, or a copy has waited for it, perhaps for
 * earlier work on another buffer. */
static bool is_left_to_downloads(const scene *s, const order_operation *failed) {
  const uint32_t owner = failed->stream - STREAM_SPARE;
  if (owner < EXPLORER_CALLERS && s->spare[owner] == NULL) return true;
  for (uint32_t i = 1; i < s->order.count; i++) {
    const order_operation *o = &s->order.list[i];
    if ((o->flags & ORDER_WAITS_BUFFERS) != 0 && (o->end == 0 || o->end > failed->begin))
      return true;
  }
  return false;
}

/* Also a wait for a buffer, which is one for each stream that has used it. */
static bool waits_for(const scene *s, const order_operation *waiter,
                      const order_operation *failed) {
  const uint32_t stream = failed->stream;
  if ((waiter->flags & ORDER_WAITS_ALL) != 0 || waiter->stream == stream) return true;
  if ((waiter->flags & ORDER_WAITS_BUFFERS) == 0) return false;
  if (is_download(waiter) && is_left_to_downloads(s, failed)) return true;
  for (uint32_t i = 1; i < s->order.count; i++) {
    const order_operation *o = &s->order.list[i];
    if (o->stream == stream && share_buffers(o, waiter)) return true;
  }
  return false;
}

/* The launch must be told of by this wait at the latest. */
static bool must_tell(const order_operation *waiter, const order_operation *failed) {
  if (failed->end == 0 || failed->end > waiter->begin || failed->failed) return false;
  if ((waiter->flags & ORDER_TELLS) == 0) return false;
  if ((waiter->flags & ORDER_WAITS_ALL) != 0) return true;
  return is_download(waiter) ? share_buffers(waiter, failed) : waiter->stream == failed->stream;
}

/* Nobody else is about to say what it has found. */
static bool is_alone(const scene *s, uint32_t number) {
  for (uint32_t i = 1; i < s->order.count; i++)
    if (i != number && s->order.list[i].end == 0) return false;
  return true;
}

/* It ended well: no failed assertion that it waited for is untold. */
static void check_nothing_untold(const scene *s, uint32_t number) {
  const order_operation *waiter = &s->order.list[number];
  if (s->failing == 0 || s->lost || s->closing || !is_alone(s, number)) return;
  for (uint32_t i = 1; i < s->order.count; i++)
    if (((s->failing & ~s->told) >> i & 1) != 0 && must_tell(waiter, &s->order.list[i]))
      explorer_fail("%s (%u) ended well, and does not tell of a launch (%u) that has failed",
                    waiter->name, number, i);
}

/* A failed assertion is told once, after the launch has run, to who waited for its stream. */
static void check_told(const char *what) {
  scene *s = the_scene();
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  const uint64_t number = error.report;
  if (number >= ORDER_MOST || (s->failing >> number & 1) == 0)
    explorer_fail("%s tells of a launch (%lu) that has not failed", what, (unsigned long)number);
  const order_operation *failed = &s->order.list[number];
  const uint32_t now = operation_now();
  if (!s->closing && now != 0 && !waits_for(s, &s->order.list[now], failed))
    explorer_fail("%s tells of a launch (%lu) on a stream that it did not wait for", what,
                  (unsigned long)number);
  if (failed->executed == 0)
    explorer_fail("%s tells of a launch (%lu) that has not run", what, (unsigned long)number);
  if ((s->told >> number & 1) != 0)
    explorer_fail("%s tells of a launch (%lu) again", what, (unsigned long)number);
  s->told |= UINT64_C(1) << number;
}

bool scene_ok(vyc_status status, const char *what) {
  const scene *s = the_scene();
  if (status == VYC_OK) return true;
  if (status == VYC_E_ASSERT) {
    check_told(what);
    return true;
  }
  const uint8_t uses = s->devices.uses[operation_now()];
  const uint32_t devices = uses == 0 ? SCENE_FIRST : uses;
  if (status == VYC_E_UNAVAILABLE && (scene_is_closing(s, devices) || s->worker_closing))
    return false;
  if (status == VYC_E_COMMUNICATION && scene_may_be_broken(s, devices)) return false;
  if (status == VYC_E_LOST && s->lost) return false;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  explorer_fail("%s gave %d: %.300s", what, (int)status, error.message);
}

/* When operations begin and end is an object as well. */
#define ORDER_POINT(text, object)                                                                  \
  do {                                                                                             \
    EXPLORER_SITE(text);                                                                           \
    explorer_point(&explorer_here, __func__, (object), 0);                                         \
  } while (0)

uint32_t scene_enter(order_operation operation, enum binding_of binding, uint32_t kernels) {
  scene *s = the_scene();
  ORDER_POINT("begin", &s->order);
  const uint32_t number = order_begin(&s->order, operation);
  s->operation[explorer->current] = number;
  s->binding[number] = binding;
  s->kernels[number] = kernels;
  s->graph_value[number] = UINT64_MAX;
  return number;
}

void scene_leave(uint32_t operation, vyc_status status) {
  scene *s = the_scene();
  ORDER_POINT("end", &s->order);
  const order_operation *o = &s->order.list[operation];
  const bool is_refused =
      status == VYC_E_INVALID && s->refuses_collectives && (s->collectives >> operation & 1) != 0;
  const bool is_done = !is_refused && scene_ok(status, o->name);
  if (is_done && !s->lost && s->kernels[operation] != SCENE_ANY_KERNELS &&
      o->launched != s->kernels[operation])
    explorer_fail("%s (%u) gave the device %u kernels, not %u", o->name, operation, o->launched,
                  s->kernels[operation]);
  if (status == VYC_OK) check_nothing_untold(s, operation);
  order_end(&s->order, operation, !is_done);
  s->operation[explorer->current] = 0;
}

void scene_hand_over(uint32_t operation) {
  scene *s = the_scene();
  if (s->operation[explorer->current] == operation) s->operation[explorer->current] = 0;
}

void scene_take_over(uint32_t operation) { the_scene()->operation[explorer->current] = operation; }

/* The arguments are those of one binding. */
static void check_arguments(const scene *s, const model_kernel *kernel, uint64_t binder) {
  const order_operation *o = &s->order.list[binder];
  if ((o->in != 0 && o->in != kernel->in) || (o->out != 0 && o->out != kernel->out))
    explorer_fail("%s (%u) is launched with the scalar of %s (%lu), with other buffers",
                  s->order.list[kernel->operation].name, kernel->operation, o->name,
                  (unsigned long)binder);
}

static void graph_kernel_given(scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  if (s->order.list[number].graph == GRAPH_SHARED)
    order_check_register(&s->order, &s->steps, number, kernel->value, "the steps");
  else
    order_check_register(&s->order, &s->symbol, number, kernel->value, "the symbol a");
  if (kernel->number == 0) s->graph_value[number] = kernel->value;
  if (kernel->value != s->graph_value[number])
    explorer_fail("%s (%u) has two values of one symbol: %lu and %lu", s->order.list[number].name,
                  number, (unsigned long)s->graph_value[number], (unsigned long)kernel->value);
}

/* A graph with two forms has memory that others may have had before. */
static uint32_t owner_of(const scene *s, const model_kernel *kernel, uint64_t address) {
  const order_operation *o = &s->order.list[kernel->operation];
  const uint32_t owner = order_owner(&s->order, address);
  const bool is_foreign = s->binding[kernel->operation] == BY_FORMS && owner < ORDER_BUFFERS &&
                          ((o->reads | o->writes) >> owner & 1) == 0;
  return is_foreign ? ORDER_BUFFERS : owner;
}

/* Between the two kernels of a captured replay is such memory, too, which the model of order does
 * not know. */
static void find_owners(const scene *s, model_kernel *kernel) {
  const uint32_t stream = s->order.list[kernel->operation].stream;
  const bool is_captured = stream >= STREAM_CAPTURED && stream != ORDER_NOWHERE;
  const bool is_between = is_captured && kernel->of_graph == 2;
  kernel->in_owner = kernel->in == 0 ? ORDER_BUFFERS : owner_of(s, kernel, kernel->in);
  kernel->out_owner = owner_of(s, kernel, kernel->out);
  if (is_between && kernel->number == 0) kernel->out_owner = ORDER_BUFFERS;
  if (is_between && kernel->number == 1) kernel->in_owner = ORDER_BUFFERS;
}

/* Counters are those of the first device. */
static void device_kernel_given(scene *s, const model_kernel *kernel) {
  s->launches += kernel->device == 0;
  if (kernel->reduce != NULL || kernel->operation == 0) return;
  s->order.list[kernel->operation].launched++;
  if (kernel->value != kernel->operation)
    explorer_fail("%s (%u) is launched with the scalar %lu", s->order.list[kernel->operation].name,
                  kernel->operation, (unsigned long)kernel->value);
  check_arguments(s, kernel, kernel->operation);
}

static void on_given(model_kernel *kernel) {
  scene *s = the_scene();
  const uint32_t number = kernel->operation;
  find_owners(s, kernel);
  if (kernel->count == 0) return; /* a copy from the host */
  if (kernel->reduce != NULL || kernel->device != 0) {
    device_kernel_given(s, kernel);
    return;
  }
  const bool is_launch = kernel->of_graph == 1,
             is_graph = kernel->of_graph > 1 && kernel->number == 0;
  s->launches += is_launch;
  s->graph_launches += is_graph;
  if (s->reset_step != 0 && s->order.list[number].begin > s->reset_step) {
    s->launches_since += is_launch;
    s->graph_launches_since += is_graph;
  }
  if (number == 0 || kernel->gathers) return; /* of the beginning; its operation reads for it */
  order_operation *o = &s->order.list[number];
  o->launched++;
  switch (s->binding[number]) {
  case BY_ITSELF:
    if (kernel->value != number)
      explorer_fail("%s (%u) is launched with the scalar %lu", o->name, number,
                    (unsigned long)kernel->value);
    check_arguments(s, kernel, number);
    break;
  case BY_CALL:
    order_check_register(&s->order, &s->bound, number, kernel->value, "the arguments");
    check_arguments(s, kernel, kernel->value);
    break;
  case BY_GRAPH: graph_kernel_given(s, kernel); break;
  case BY_FORMS: scene_forms_given(s, kernel); break;
  }
}

/* Reads what the kernel before it has left for it alone. */
static bool is_between(const scene *s, const model_kernel *kernel) {
  const enum binding_of binding = s->binding[kernel->operation];
  const uint32_t first = binding == BY_FORMS && kernel->cell != 0;
  return (binding == BY_GRAPH || binding == BY_FORMS) && kernel->number > first;
}

static void on_runs(model_kernel *kernel) {
  scene *s = the_scene();
  const uint32_t number = kernel->operation;
  const uint64_t found = model_read(kernel->in);
  if (kernel->writes_cell) {
    s->order.list[number].executed++;
    model_write(kernel->out, kernel->value);
    return;
  }
  if (kernel->cell != 0) scene_forms_read(s, kernel);
  if ((s->withdrawn >> number & 1) != 0)
    explorer_fail("%s (%u) has run", s->order.list[number].name, number);
  if ((s->kept >> number & 1) != 0 && !s->closing && !s->worker_closing)
    explorer_fail("%s (%u) has run before its end", s->order.list[number].name, number);
  if (number != 0) {
    s->order.list[number].executed++;
    if (s->input[number] != 0 && found != s->input[number])
      explorer_fail("%s (%u) finds the input %lu, not %lu", s->order.list[number].name, number,
                    (unsigned long)found, (unsigned long)s->input[number]);
    if (kernel->in_owner < ORDER_BUFFERS)
      order_check_read(&s->order, number, kernel->in_owner, found);
    if (is_between(s, kernel) && found != number)
      explorer_fail("a replay (%u) finds in its own memory what %lu wrote", number,
                    (unsigned long)found);
    if (kernel->out_owner < ORDER_BUFFERS)
      order_check_write(&s->order, number, kernel->out_owner, model_read(kernel->out));
  }
  model_write(kernel->out, number);
}

static void on_writes(const model_kernel *kernel) {
  const scene *s = the_scene();
  if (kernel->operation != 0 && kernel->out_owner < ORDER_BUFFERS)
    order_check_write(&s->order, kernel->operation, kernel->out_owner, model_read(kernel->out));
}

static bool on_faults(const model_kernel *kernel) {
  scene *s = the_scene();
  const bool faults = (s->faulting >> kernel->operation & 1) != 0;
  s->lost |= faults;
  return faults;
}

model_hooks scene_hooks(void) {
  return (model_hooks){operation_now, on_given, on_runs, on_writes, on_faults, scene_refuses};
}
