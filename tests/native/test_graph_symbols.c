/* Symbols of recorded graphs: values that launches set by number, for one launch or for all. */
#include <pthread.h>
#include <stdbool.h>

#include "graph_test.h"

#define THREADS 4

static uint32_t add_symbol(vyc_graph *graph, uint32_t kind, const char *name,
                           const vyc_graph_use *uses, uint32_t count) {
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = kind,
                                   .name = name,
                                   .element_bytes = 4,
                                   .use_count = count,
                                   .uses = uses};
  uint32_t number = 99;
  OK(vyc_graph_add_symbol(graph, &number, &symbol));
  return number;
}

static vyc_status try_symbol(vyc_graph *graph, const vyc_graph_symbol *symbol) {
  uint32_t number = 0;
  return vyc_graph_add_symbol(graph, &number, symbol);
}

static vyc_symbol_value scalar(uint32_t symbol, float value) {
  return (vyc_symbol_value){.symbol = symbol, .bits = bits(value)};
}

static vyc_symbol_value array(uint32_t symbol, vyc_buffer *buffer) {
  return (vyc_symbol_value){.symbol = symbol, .buffer = buffer, .count = N};
}

/* y = a * x; z = a * y; w filled with v; u copied from s. */
typedef struct scene {
  vyc_graph *graph;
  vyc_buffer *x, *y, *z, *w, *u, *s;
  uint32_t a, v, from, in;
} scene;

static scene make(const place *p, bool finished) {
  scene made = {.graph = new_graph(p->context)};
  vyc_buffer **buffers[] = {&made.x, &made.y, &made.z, &made.w, &made.u, &made.s};
  for (uint32_t i = 0; i < 6; i++)
    *buffers[i] = filled(p->context, i == 0 ? 1.0f : i == 5 ? 7.0f : 0.0f);
  const uint32_t first = add(made.graph, p->prepared, made.x, made.y, 2.0f);
  const uint32_t second = add(made.graph, p->prepared, made.y, made.z, 2.0f);
  const vyc_graph_transfer fill = fill_of(made.w, 3.0f), copy = copy_of(made.u, made.s);
  const vyc_graph_use scalars[] = {{first, 0}, {second, 0}};
  const vyc_graph_use value = {add_transfer(made.graph, &fill), 0};
  const vyc_graph_use source = {add_transfer(made.graph, &copy), 0};
  const vyc_graph_use input = {first, 0};
  if (finished) OK(vyc_graph_finish(made.graph));
  made.a = add_symbol(made.graph, VYC_SYMBOL_SCALAR, "a", scalars, 2);
  made.v = add_symbol(made.graph, VYC_SYMBOL_SCALAR, "v", &value, 1);
  made.from = add_symbol(made.graph, VYC_SYMBOL_ARRAY, "from", &source, 1);
  made.in = add_symbol(made.graph, VYC_SYMBOL_ARRAY, "in", &input, 1);
  if (!finished) OK(vyc_graph_finish(made.graph));
  return made;
}

static void end(scene *s) {
  vyc_graph_release(s->graph);
  vyc_buffer *buffers[] = {s->x, s->y, s->z, s->w, s->u, s->s};
  for (uint32_t i = 0; i < 6; i++) vyc_buffer_release(buffers[i]);
}

static void verify_all(const scene *s, float x, float a, float v, float from) {
  CHECK(first_of(s->y) == a * x && first_of(s->z) == a * a * x);
  CHECK(first_of(s->w) == v && first_of(s->u) == from);
}

static void values_hold_for_one_launch_or_for_all(const place *p, bool finished) {
  scene s = make(p, finished);
  uint32_t found = 99;
  OK(vyc_graph_find_symbol(s.graph, &found, "v"));
  CHECK(found == s.v && vyc_graph_find_symbol(s.graph, &found, "w") == VYC_E_INVALID);
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  verify_all(&s, 1, 2, 3, 7);
  const vyc_symbol_value all[] = {scalar(s.v, 9), array(s.in, s.s), scalar(s.a, 5),
                                  array(s.from, s.x)};
  OK(vyc_graph_launch_with(s.graph, all, 4, NULL, 0));
  verify_all(&s, 7, 5, 9, 1);
  OK(vyc_graph_launch_with(s.graph, all, 1, NULL, 0));
  verify_all(&s, 1, 2, 9, 7);
  OK(vyc_graph_launch_with(s.graph, NULL, 0, NULL, 0));
  verify_all(&s, 1, 2, 3, 7);
  const vyc_symbol_value kept[] = {scalar(s.a, 4), array(s.in, s.s)};
  OK(vyc_graph_set(s.graph, kept, 2));
  OK(vyc_graph_launch_with(s.graph, &all[3], 1, NULL, 0));
  verify_all(&s, 7, 4, 3, 1);
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  verify_all(&s, 7, 4, 3, 7);
  end(&s);
}

static void an_unchanged_value_makes_no_driver_calls(const place *p) {
  scene s = make(p, true);
  const vyc_symbol_value value = scalar(s.a, 5);
  OK(vyc_graph_launch_with(s.graph, &value, 1, NULL, 0));
  const uint64_t set = count_of("cuGraphExecKernelNodeSetParams");
  const uint64_t made = count_of("cuGraphInstantiateWithFlags");
  for (int i = 0; i < 3; i++) OK(vyc_graph_launch_with(s.graph, &value, 1, NULL, 0));
  CHECK(count_of("cuGraphExecKernelNodeSetParams") == set);
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  CHECK(count_of("cuGraphExecKernelNodeSetParams") == set + 2);
  CHECK(count_of("cuGraphInstantiateWithFlags") == made);
  verify_all(&s, 1, 2, 3, 7);
  end(&s);
}

static void wrong_values_launch_nothing(const place *p) {
  scene s = make(p, true);
  vyc_buffer *small = new_buffer(p->context, 8);
  const vyc_symbol_value twice[] = {scalar(s.a, 5), scalar(s.a, 6)};
  const vyc_symbol_value no_buffer = scalar(s.in, 1), no_scalar = array(s.a, s.x);
  const vyc_symbol_value unknown = scalar(9, 1), beyond = array(s.from, small);
  vyc_symbol_value fewer = array(s.in, s.s), fewer_bytes = array(s.from, s.x),
                   written = array(s.in, s.y);
  fewer.count = fewer_bytes.count = N - 1;
  const struct {
    const vyc_symbol_value *values;
    uint32_t count;
  } wrong[] = {{twice, 2},   {&no_buffer, 1}, {&no_scalar, 1},   {&unknown, 1},
               {&beyond, 1}, {&fewer, 1},     {&fewer_bytes, 1}, {&written, 1}};
  for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK(vyc_graph_launch_with(s.graph, wrong[i].values, wrong[i].count, NULL, 0) ==
          VYC_E_INVALID);
    CHECK(vyc_graph_set(s.graph, wrong[i].values, wrong[i].count) == VYC_E_INVALID);
  }
  CHECK(first_of(s.y) == 0);
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  verify_all(&s, 1, 2, 3, 7);
  vyc_buffer_release(small);
  end(&s);
}

static void wrong_symbols_are_refused(const place *p) {
  scene s = make(p, true);
  const vyc_graph_use used = {0, 0}, no_step = {4, 0}, no_scalar = {0, 1}, no_array = {0, 2};
  const vyc_graph_use out = {1, 1}, fill = {2, 0}, backwards[] = {{1, 1}, {0, 1}};
  const vyc_graph_symbol good = {.struct_size = sizeof good,
                                 .kind = VYC_SYMBOL_ARRAY,
                                 .name = "b",
                                 .element_bytes = 4,
                                 .use_count = 1,
                                 .uses = &out};
  const vyc_graph_use *uses[] = {&used, &no_step, &no_array, &fill, backwards};
  for (uint32_t i = 0; i < 5; i++) {
    vyc_graph_symbol symbol = good;
    symbol.uses = uses[i];
    symbol.use_count = i == 4 ? 2 : 1;
    CHECK(try_symbol(s.graph, &symbol) == VYC_E_INVALID);
  }
  vyc_graph_symbol symbol = good;
  symbol.name = "a";
  CHECK(try_symbol(s.graph, &symbol) == VYC_E_INVALID);
  symbol = good;
  symbol.element_bytes = 8;
  CHECK(try_symbol(s.graph, &symbol) == VYC_E_INVALID);
  symbol = good;
  symbol.kind = VYC_SYMBOL_SCALAR;
  symbol.uses = &no_scalar;
  CHECK(try_symbol(s.graph, &symbol) == VYC_E_INVALID);
  OK(try_symbol(s.graph, &good));
  CHECK(try_symbol(s.graph, &good) == VYC_E_INVALID);
  end(&s);
}

static void every_failure_leaves_the_graph_usable(const place *p) {
  static const char *const CALLS[] = {"cuGraphExecKernelNodeSetParams",
                                      "cuGraphExecMemsetNodeSetParams",
                                      "cuGraphExecMemcpyNodeSetParams", "cuGraphLaunch"};
  scene s = make(p, true);
  const vyc_symbol_value all[] = {scalar(s.a, 5), scalar(s.v, 9), array(s.from, s.x)};
  for (uint32_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
    OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
    CHECK(emulator_fail(CALLS[i], 1, 999, 0) == 0);
    CHECK(vyc_graph_launch_with(s.graph, all, 3, NULL, 0) == VYC_E_DRIVER);
    verify_all(&s, 1, 2, 3, 7);
    OK(vyc_graph_launch_with(s.graph, all, 3, NULL, 0));
    verify_all(&s, 1, 5, 9, 1);
  }
  end(&s);
}

typedef struct replayer {
  const scene *s;
  vyc_buffer *out;
  uint32_t to;
  float a;
} replayer;

static void *replay(void *given) {
  const replayer *r = given;
  for (int i = 0; i < 50; i++) {
    const vyc_symbol_value values[] = {scalar(r->s->a, r->a), array(r->to, r->out)};
    OK(vyc_graph_launch_with(r->s->graph, values, 2, NULL, 0));
    CHECK(first_of(r->out) == r->a * r->a);
  }
  return NULL;
}

static void threads_have_their_own_values(const place *p) {
  scene s = make(p, true);
  const vyc_graph_use out = {1, 1};
  const uint32_t to = add_symbol(s.graph, VYC_SYMBOL_ARRAY, "to", &out, 1);
  pthread_t threads[THREADS];
  replayer r[THREADS];
  for (int i = 0; i < THREADS; i++) {
    r[i] = (replayer){&s, new_buffer(p->context, BYTES), to, (float)(i + 2)};
    CHECK(pthread_create(&threads[i], NULL, replay, &r[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    vyc_buffer_release(r[i].out);
  }
  end(&s);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  const place p = open_place();
  values_hold_for_one_launch_or_for_all(&p, true);
  values_hold_for_one_launch_or_for_all(&p, false);
  an_unchanged_value_makes_no_driver_calls(&p);
  wrong_values_launch_nothing(&p);
  wrong_symbols_are_refused(&p);
  every_failure_leaves_the_graph_usable(&p);
  threads_have_their_own_values(&p);
  close_place(&p);
  puts("graph symbols: passed");
  return 0;
}
