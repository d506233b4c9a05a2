/* Work in the queues of the streams: giving it, and running what can run. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

/* As a thread of a kernel leaves it: the key, by which the least wins, and the index. */
static void write_report(const model_kernel *kernel) {
  model_check_memory(kernel->report, 16, "a report");
  if (model_read(kernel->report) < kernel->operation) return;
  model_write(kernel->report + 8, kernel->operation);
  model_write(kernel->report, kernel->operation);
}

/* The table is still what it was for the launch. */
static void check_row(const model_kernel *kernel) {
  const uint64_t in = kernel->placed != 0 ? 1 : kernel->in;
  model_check_memory(kernel->row, MODEL_ROW_BYTES, "a kernel");
  if (model_read(kernel->row + 16) != in || model_read(kernel->row + 24) != kernel->out ||
      model_read(kernel->row + 32) != kernel->value)
    explorer_fail("a row at %#lx is not the one that was launched", (unsigned long)kernel->row);
}

static void run_node(const work *w, node *n) {
  if (n->kernel.is_collective && the_model->plant == MODEL_LOSES_COLLECTIVE) return;
  switch (n->kind) {
  case WORK_KERNEL:
    if (n->kernel.row != 0) check_row(&n->kernel);
    for (uint32_t i = 0; i < n->kernel.count; i++) {
      model_check_memory(n->kernel.in, 8, "a kernel");
      model_check_memory(n->kernel.out, 8, "a kernel");
    }
    if (n->kernel.cell != 0) model_check_memory(n->kernel.cell, 8, "a cell");
    the_model->hooks.runs(&n->kernel);
    if (n->kernel.report != 0) write_report(&n->kernel);
    break;
  case WORK_COPY:
    if (memory_at(n->to) != NULL) model_check_memory(n->to, n->bytes, "a copy");
    if (w->copied == NULL && memory_at(n->from) != NULL)
      model_check_memory(n->from, n->bytes, "a copy");
    if (n->kernel.out != 0) the_model->hooks.writes(&n->kernel);
    memmove((void *)(uintptr_t)n->to,
            w->copied != NULL ? w->copied : (const void *)(uintptr_t)n->from, n->bytes);
    break;
  case WORK_FILL:
    model_check_memory(n->to, n->bytes, "a fill");
    if (n->kernel.out != 0) the_model->hooks.writes(&n->kernel);
    for (uint64_t i = 0; i < n->bytes; i += n->width)
      memcpy((void *)(uintptr_t)(n->to + i), &n->value, n->width);
    break;
  case WORK_SET:
    model_check_memory(n->to, 4, "a memory operation");
    memcpy((void *)(uintptr_t)n->to, &n->value, 4);
    break;
  default: break;
  }
}

/* NULL: the next of its nodes is no such kernel. */
static model_reduce *reduce_in(const work *w) {
  return w->ran < w->node_count ? w->nodes[w->ran].kernel.reduce : NULL;
}

static bool can_run(const work *w, uint32_t device) {
  const model_reduce *reduce = reduce_in(w);
  if (reduce != NULL && !reduce_can_go_on(reduce, device)) return false;
  if (w->kind == WORK_RESIDENT) return resident_can_go_on(w);
  if (w->kind == WORK_WAIT_VALUE) return value_is_reached(&w->nodes[0]);
  return w->behind == NULL || w->behind->done;
}

/* A worker without calls: it goes on when nothing else can, and then ends. */
static bool is_idle(const work *w) { return w->kind == WORK_RESIDENT && !resident_is_called(w); }

/* True: that was the last of its nodes. Between them other streams may come on. */
static bool run_next_node(work *w) {
  if (w->ran < w->node_count) run_node(w, &w->nodes[w->ran++]);
  return w->ran == w->node_count;
}

static void run_first(stream *s) {
  work *w = s->first;
  model_reduce *reduce = reduce_in(w);
  if (reduce != NULL && !reduce_step(reduce, s->device)) return;
  if (w->kind == WORK_RESIDENT && !resident_step(w)) return;
  if (reduce != NULL && ++w->ran < w->node_count) return;
  if (w->kind == WORK_GRAPH && reduce == NULL && !run_next_node(w)) return;
  for (; w->ran < w->node_count; w->ran++) run_node(w, &w->nodes[w->ran]);
  w->done = true;
  s->first = w->next;
  if (s->first == NULL) s->end = &s->first;
}

/* The stream whose first piece of work must run for that of `s` to come on. */
static stream *runnable_for(stream *s) {
  for (uint32_t depth = 0; depth < MODEL_STREAMS && s != NULL && s->first != NULL; depth++) {
    if (can_run(s->first, s->device)) return is_idle(s->first) ? NULL : s;
    const work *w = s->first;
    stream *other = NULL;
    for (uint32_t i = 0; i < the_model->stream_count; i++)
      for (const work *x = the_model->streams[i]->first; x != NULL; x = x->next)
        if (x == w->behind) other = the_model->streams[i];
    s = other;
  }
  return NULL;
}

static stream *oldest_of(bool newest, bool idle) {
  stream *found = NULL;
  for (uint32_t i = 0; i < the_model->stream_count; i++) {
    stream *s = the_model->streams[i];
    if (s->first == NULL || !can_run(s->first, s->device) || is_idle(s->first) != idle) continue;
    if (found == NULL || (s->first->serial < found->first->serial) != newest) found = s;
  }
  return found;
}

static stream *oldest(bool newest) {
  stream *found = oldest_of(newest, false);
  return found != NULL ? found : oldest_of(newest, true);
}

bool model_has_work(void) { return the_model != NULL && oldest(false) != NULL; }

/* What takes no time, once its turn has come. */
static stream *with_marker(void) {
  for (uint32_t i = 0; i < the_model->stream_count; i++) {
    const work *w = the_model->streams[i]->first;
    if (w != NULL &&
        (w->kind == WORK_RECORD || w->kind == WORK_WAIT || w->kind == WORK_WAIT_VALUE) &&
        can_run(w, the_model->streams[i]->device))
      return the_model->streams[i];
  }
  return NULL;
}

bool model_step(bool is_waited_for) {
  stream *s = NULL;
  if (the_model == NULL) return false;
  if (is_waited_for && the_model->wanted != NULL) s = runnable_for(the_model->wanted);
  if (s == NULL) s = oldest(false);
  if (s == NULL) return false;
  run_first(s);
  while ((s = with_marker()) != NULL) run_first(s);
  return true;
}

void model_drain(void) {
  for (stream *s = oldest(true); s != NULL; s = oldest(true)) run_first(s);
}

stream *stream_of(CUstream handle, const char *function) {
  if ((uintptr_t)handle < 16) explorer_fail("%s on a default stream", function);
  stream *s = (stream *)(void *)handle;
  if (!s->live) explorer_fail("%s on stream %u, which was destroyed", function, s->number);
  return s;
}

/* Work of a context is given while that is current, all but graphs, which know theirs, and waits
 * for what another one does. */
static void check_current(const stream *s, uint32_t kind) {
  if (!s->foreign && kind != WORK_WAIT && kind != WORK_GRAPH &&
      the_model->current[explorer->current] != CONTEXT(s->device))
    explorer_fail("work is given to stream %u of device %u in another context", s->number,
                  s->device);
}

work *give(stream *s, uint32_t kind) {
  check_current(s, kind);
  the_model->giving = s->device;
  work *w = take(sizeof *w);
  w->kind = kind;
  w->serial = ++the_model->serial;
  *s->end = w;
  s->end = &w->next;
  return w;
}

static void forget_work(void) {
  for (uint32_t i = 0; i < the_model->stream_count; i++) {
    stream *s = the_model->streams[i];
    for (work *w = s->first; w != NULL; w = w->next) w->done = true;
    s->first = NULL;
    s->end = &s->first;
  }
}

void fault(void) {
  the_model->faulted = true;
  forget_work();
}

CUresult given(void) {
  if (the_model->faulted) {
    forget_work();
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  while (the_model->eager && model_step(false)) explorer_device_steps();
  return CUDA_SUCCESS;
}

void kernel_given(model_kernel *kernel, uint32_t number, uint32_t of_graph) {
  kernel->operation = the_model->hooks.operation();
  kernel->device = the_model->giving;
  kernel->number = number;
  kernel->of_graph = of_graph;
  the_model->hooks.given(kernel);
}

/* What memory of the device will have once all copies that were given have been made. */
static const uint8_t *copied_to(uint64_t address) {
  const work *last = NULL;
  for (uint32_t i = 0; i < the_model->stream_count; i++)
    for (const work *w = the_model->streams[i]->first; w != NULL; w = w->next)
      if (w->kind == WORK_COPY && w->nodes[0].to == address &&
          (last == NULL || w->serial > last->serial))
        last = w;
  return (const uint8_t *)(uintptr_t)(last == NULL ? address : last->nodes[0].from);
}

uint32_t rows_of(node *nodes, const model_kernel *table_kernel, uint32_t room) {
  const model_kernel whole = *table_kernel;
  const uint8_t *table = copied_to(whole.row);
  if (whole.count > room) explorer_fail("a table of %u rows", whole.count);
  for (uint32_t i = 0; i < whole.count; i++) {
    const uint8_t *row = table + (size_t)i * MODEL_ROW_BYTES;
    model_kernel kernel = {
        .module = whole.module, .row = whole.row + (uint64_t)i * MODEL_ROW_BYTES, .count = 1};
    memcpy(&kernel.in, row + 16, 8);
    if (kernel.in == 1) kernel.in = kernel.placed = whole.placed;
    memcpy(&kernel.out, row + 24, 8);
    memcpy(&kernel.value, row + 32, 8);
    kernel.has_value = true;
    nodes[i] = (node){.kind = WORK_KERNEL, .kernel = kernel};
  }
  return whole.count;
}

void rows_given(work *w) {
  w->node_count = rows_of(w->nodes, &w->nodes[0].kernel, MODEL_NODES);
  for (uint32_t i = 0; i < w->node_count; i++)
    kernel_given(&w->nodes[i].kernel, i, i == 0); /* all of them are one launch */
}

/* Numbers that operations give are small, so a scalar that is an address is read there. */
static void find_cell(model_kernel *kernel) {
  kernel->has_value = kernel->value >> 32 == 0;
  if (kernel->has_value) return;
  kernel->cell = kernel->value;
  kernel->value = 0;
}

static void take_parameters(model_kernel *kernel, uint64_t handle, void **parameters) {
  memcpy(&kernel->in, parameters[0], 8);
  memcpy(&kernel->out, parameters[1], 8);
  memcpy(&kernel->value, parameters[2], 8);
  find_cell(kernel);
  if ((handle & MERGED) != 0) {
    memcpy(&kernel->cell, parameters[3], 8);
    return;
  }
  memcpy(&kernel->count, parameters[3], 4);
  if ((handle & ASSERTING) != 0) memcpy(&kernel->report, parameters[4], 8);
}

model_kernel kernel_of(const void *function, void **parameters) {
  const uint64_t handle = (uint64_t)(uintptr_t)function;
  const uint64_t kinds = ASSERTING | ROWS | PLACES | MERGED | CELLS | REDUCES;
  model_kernel kernel = {.module = (const void *)(uintptr_t)(handle & ~kinds), .count = 1};
  if ((handle & REDUCES) != 0) {
    kernel.reduce = reduce_of(parameters);
  } else if ((handle & ROWS) != 0) { /* their number is the count until they are given */
    memcpy(&kernel.row, parameters[0], 8);
    memcpy(&kernel.count, parameters[1], 4);
    if ((handle & PLACES) != 0) memcpy(&kernel.placed, parameters[6], 8);
  } else if ((handle & CELLS) != 0) {
    kernel.has_value = kernel.writes_cell = true;
    memcpy(&kernel.value, parameters[0], 8);
    memcpy(&kernel.out, parameters[1], 8);
    kernel.in = kernel.out;
  } else {
    take_parameters(&kernel, handle, parameters);
  }
  return kernel;
}
