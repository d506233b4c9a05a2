/* Whether arrays share memory as they did when steps were merged, as a comparison of each with each
 * says it; and for thousands of them, which such a comparison would take seconds for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* of which the library is not free */
#include "bundle_device/room.h"
#pragma GCC diagnostic pop

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define MEMORIES 4u /* of which the first two are arrays of the graph */
#define MEMORY_BYTES UINT64_C(64)
#define SEVERAL 6u
#define MANY 20000u
#define SEEDS 50000u

static uint64_t state = 1;
static uint32_t below(uint32_t limit) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33) % limit;
}

/* A graph whose steps are one copy of many arrays, which is enough to say where they are. */
typedef struct graph {
  vyc_bundle bundle;
  vyc_disk_graph row;
  vyc_disk_graph_step steps[1];
  vyc_disk_condition *conditions;
  vyc_disk_symbol *symbols;
  vyc_bundle_value *values;
  vyc_buffer *buffers, *arrays[2];
  vyc_buffer own[2];
  vyc_meaning *meanings;
  vyc_replay replay;
} graph;

static void begin(graph *g, uint32_t conditions, uint32_t values) {
  memset(g, 0, sizeof *g);
  g->conditions = calloc(conditions + 1u, sizeof *g->conditions);
  g->symbols = calloc(conditions + 1u, sizeof *g->symbols);
  g->values = calloc(values + 1u, sizeof *g->values);
  g->buffers = calloc(conditions + 1u, sizeof *g->buffers);
  g->meanings = calloc(conditions + 1u, sizeof *g->meanings);
  CHECK(g->conditions && g->symbols && g->values && g->buffers && g->meanings);
  g->bundle.tables[VYC_SECTION_GRAPH_SYMBOLS].rows = g->symbols;
  g->bundle.tables[VYC_SECTION_GRAPH_STEPS].rows = g->steps;
  g->bundle.tables[VYC_SECTION_GRAPH_VALUES].rows = g->values;
  g->row.arrays.count = 2;
  g->row.symbols.count = conditions;
  g->row.steps.count = 1;
  g->steps[0] = (vyc_disk_graph_step){
      .kind = VYC_STEP_COPY, .type = VYC_TYPE_U8, .values = {.count = values}};
  for (uint32_t i = 0; i < 2; i++) {
    g->own[i].address = 10000 + 1000 * i;
    g->arrays[i] = &g->own[i];
  }
  g->replay = (vyc_replay){.bundle = &g->bundle,
                           .row = &g->row,
                           .arrays = g->arrays,
                           .forms = {{0}, {.begin = 0, .end = 1}},
                           .form_count = 2,
                           .conditions = g->conditions,
                           .condition_count = conditions};
}

static void set(graph *g, uint32_t i, uint32_t memory, uint64_t then, uint64_t bytes,
                uint64_t now) {
  g->conditions[i] =
      (vyc_disk_condition){.symbol = i, .memory = memory, .value = then, .count = bytes};
  g->symbols[i] = (vyc_disk_symbol){.kind = VYC_SYMBOL_ARRAY, .type = VYC_TYPE_U8};
  g->buffers[i].address = now / 2; /* and an offset */
  g->meanings[i].value =
      (vyc_symbol_value){.buffer = &g->buffers[i], .offset = now - now / 2, .count = bytes};
}

static void end(graph *g) {
  free(g->replay.clusters);
  free(g->replay.cluster_of);
  free(g->replay.fixed);
  free(g->conditions);
  free(g->symbols);
  free(g->values);
  free(g->buffers);
  free(g->meanings);
}

/* ---- each with each -------------------------------------------------------------------------- */

typedef struct array {
  uint32_t memory;
  uint64_t then, bytes, now;
} array;

static bool meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

static bool share_alike(const array *a, const array *b) {
  if (a->memory == b->memory && meet(a->then, a->bytes, b->then, b->bytes))
    return a->now - b->now == a->then - b->then;
  return !meet(a->now, a->bytes, b->now, b->bytes);
}

static bool is_reachable(const graph *g, uint32_t memory) {
  for (uint32_t i = 0; i < g->replay.condition_count; i++)
    if (g->conditions[i].memory == memory) return true;
  return false;
}

static bool compare_all(const graph *g) {
  array all[2 * SEVERAL];
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->steps[0].values.count; i++) {
    const vyc_bundle_value *v = &g->values[i];
    if (is_reachable(g, v->index))
      all[count++] = (array){v->index, v->value, v->count, g->own[v->index].address + v->value};
  }
  for (uint32_t i = 0; i < g->replay.condition_count; i++) {
    const vyc_disk_condition *c = &g->conditions[i];
    const array one = {c->memory, c->value, c->count,
                       g->buffers[i].address + g->meanings[i].value.offset};
    for (uint32_t k = 0; k < count; k++)
      if (!share_alike(&one, &all[k])) return false;
    all[count++] = one;
  }
  return true;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Some moved by what another one has moved by, so that both answers come up. */
static void test_random(uint32_t *alike) {
  graph g;
  const uint32_t conditions = 1 + below(SEVERAL - 1), values = below(SEVERAL);
  uint64_t moved[MEMORIES];
  begin(&g, conditions, values);
  for (uint32_t i = 0; i < MEMORIES; i++)
    moved[i] = i < 2 && below(4) != 0 ? g.own[i].address : 20000 + 40 * below(6);
  for (uint32_t i = 0; i < values; i++)
    g.values[i] = (vyc_bundle_value){VYC_VALUE_SPAN, below(2), 8 * below(8), 8 * below(3)};
  for (uint32_t i = 0; i < conditions; i++) {
    const uint32_t memory = below(MEMORIES);
    const uint64_t then = 8 * below(8), bytes = 8 * below(3);
    const bool strays = below(8) == 0;
    set(&g, i, memory, then, bytes, strays ? 20000 + 8 * below(40) : moved[memory] + then);
  }
  CHECK(vyc__replay_find_clusters(&g.replay) == VYC_OK);
  const bool expected = compare_all(&g);
  CHECK(vyc__replay_shares_alike(&g.replay, g.meanings) == expected);
  *alike += expected;
  end(&g);
}

/* All apart, in some order, and then the last one over another. */
static void test_many(void) {
  graph g;
  begin(&g, MANY, 0);
  for (uint32_t i = 0; i < MANY; i++)
    set(&g, i, 2, 8 * i, 8, 1000000 + 8 * (i * UINT64_C(7919) % MANY));
  CHECK(vyc__replay_find_clusters(&g.replay) == VYC_OK);
  for (uint32_t i = 0; i < 20; i++) CHECK(vyc__replay_shares_alike(&g.replay, g.meanings));
  g.meanings[MANY - 1].value = g.meanings[0].value;
  CHECK(!vyc__replay_shares_alike(&g.replay, g.meanings));
  end(&g);
}

int main(void) {
  uint32_t alike = 0;
  for (uint32_t i = 0; i < SEEDS; i++) test_random(&alike);
  CHECK(alike > SEEDS / 10 && alike < SEEDS - SEEDS / 10);
  test_many();
  puts("sharing: ok");
  return 0;
}
