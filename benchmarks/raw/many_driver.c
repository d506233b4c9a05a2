/* Many launches as one from C, by the public functions of libvyre_cuda: the saxpy of a bundle on
 * rows of large arrays, and on rows with arrays of their own.
 *
 *   many_driver DRIVER BUNDLE ROWS ELEMENTS ROUNDS
 *
 * Prints a JSON line for each form: the medians of the nanoseconds until the call returns and until
 * the device has done the work. The forms take turns. Results are compared first. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

enum { WARM = 2, FORMS = 4 };

typedef struct rows {
  const char *name;
  vyc_argument *arguments; /* x, y and out of each row */
  uint64_t *scalars;
  uint32_t *grids;
  vyc_rows many;
} rows;

static vyc_context *context;
static vyc_bundled_kernel *kernel;
static vyc_prepared *prepared, *entry;
static vyc_stream *stream;
static uint32_t count, elements;
static const float FACTOR = 2.5f;

static void open_kernel(const char *driver_path, const char *bundle_path) {
  vyc_driver *driver;
  vyc_bundle *bundle;
  vyc_caps caps = {.struct_size = sizeof caps};
  VYC(driver_open(&driver, driver_path));
  VYC(context_open(&context, driver, 0));
  VYC(context_caps(context, &caps));
  printf("{\"device\": \"%s\"}\n", caps.name);
  VYC(stream_create(&stream, context));
  VYC(bundle_open(&bundle, bundle_path, NULL, 0));
  VYC(bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  VYC(bundled_kernel_prepared(kernel, &prepared));
  VYC(bundled_kernel_many(kernel, &entry, NULL, NULL));
  if (entry == NULL) raw_fail("the bundle has no entry for many launches");
  vyc_bundle_release(bundle);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t drawn;
static uint32_t draw(void) { return drawn = drawn * 1664525u + 1013904223u; }

static float value(uint32_t row, uint32_t array, uint32_t i) {
  return (float)((row * 31u + array * 17u + i * 7u) % 1000u) / 8.0f;
}

static void fill_inputs(const rows *r, float *room) {
  for (uint32_t row = 0; row < count; row++)
    for (uint32_t array = 0; array < 2; array++) {
      const vyc_argument *to = &r->arguments[row * 3 + array];
      for (uint32_t i = 0; i < elements; i++) room[i] = value(row, array, i);
      VYC(copy_in(to->buffer, to->offset, room, elements * sizeof *room));
    }
}

/* Rows of the same arrays follow each other; arrays of their own are in another order than rows. */
static void place(rows *r, bool own) {
  const uint64_t bytes = elements * sizeof(float);
  vyc_buffer *whole[3] = {NULL};
  for (uint32_t array = 0; array < 3 && !own; array++)
    VYC(buffer_alloc(&whole[array], context, count * bytes));
  for (uint32_t i = 0; i < count * 3; i++) {
    vyc_argument *to = &r->arguments[i];
    *to = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = elements, .buffer = whole[i % 3]};
    if (own) VYC(buffer_alloc(&to->buffer, context, bytes));
    if (!own) to->offset = i / 3 * bytes;
  }
  for (uint32_t row = count; own && row > 1; row--) {
    const uint32_t other = draw() % row;
    vyc_argument kept[3];
    memcpy(kept, &r->arguments[other * 3], sizeof kept);
    memcpy(&r->arguments[other * 3], &r->arguments[(row - 1) * 3], sizeof kept);
    memcpy(&r->arguments[(row - 1) * 3], kept, sizeof kept);
  }
}

static vyc_run run_of(const rows *r, uint32_t row) {
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .argument_count = 3,
                   .scalar_count = 1,
                   .arguments = &r->arguments[row * 3],
                   .scalars = &r->scalars[row],
                   .stream = stream,
                   .timeout_ns = -1};
}

static void make(rows *r, const char *name, bool own) {
  r->name = name;
  r->arguments = raw_alloc(count * 3 * sizeof *r->arguments);
  r->scalars = raw_alloc(count * sizeof *r->scalars);
  r->grids = raw_alloc(count * 3 * sizeof *r->grids);
  float *room = raw_alloc(elements * sizeof *room);
  place(r, own);
  fill_inputs(r, room);
  free(room);
  uint32_t flags = 0;
  for (uint32_t row = 0; row < count; row++) {
    r->scalars[row] = vyc_bits_f32(FACTOR);
    vyc_run run = run_of(r, row);
    VYC(bundled_kernel_resolve(kernel, &run));
    memcpy(&r->grids[row * 3], run.grid, sizeof run.grid);
    flags = run.flags;
  }
  r->many = (vyc_rows){.struct_size = sizeof r->many,
                       .count = count,
                       .argument_count = 3,
                       .scalar_count = 1,
                       .arguments = r->arguments,
                       .scalars = r->scalars,
                       .grids = r->grids,
                       .stream = stream,
                       .flags = flags};
}

static void poison(const rows *r) {
  for (uint32_t row = 0; row < count; row++) {
    const vyc_argument *out = &r->arguments[row * 3 + 2];
    VYC(fill(out->buffer, out->offset, RAW_POISON, 1, elements * sizeof(float)));
  }
}

static void verify(const rows *r, const char *form, uint32_t rows_done) {
  float *found = raw_alloc(elements * sizeof *found);
  for (uint32_t row = 0; row < rows_done; row++) {
    const vyc_argument *out = &r->arguments[row * 3 + 2];
    VYC(copy_out(out->buffer, out->offset, found, elements * sizeof *found));
    for (uint32_t i = 0; i < elements; i++) {
      const volatile float product = FACTOR * value(row, 0, i); /* two roundings */
      if (found[i] != product + value(row, 1, i))
        raw_fail("%s, %s: row %u has a wrong result", r->name, form, row);
    }
  }
  free(found);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static void one(const rows *r) {
  vyc_run run = run_of(r, 0);
  memcpy(run.grid, r->grids, sizeof run.grid);
  run.flags = r->many.flags;
  VYC(prepared_launch(prepared, &run));
}

static void many(const rows *r) { VYC(prepared_launch_many(prepared, entry, &r->many)); }

/* The grids are computed. */
static void bundled(const rows *r) {
  vyc_rows rows = r->many;
  rows.grids = NULL;
  VYC(bundled_kernel_launch_many(kernel, &rows));
}

static void loop(const rows *r) {
  vyc_run run = run_of(r, 0);
  run.flags = r->many.flags;
  for (uint32_t row = 0; row < count; row++) {
    run.arguments = &r->arguments[row * 3];
    run.scalars = &r->scalars[row];
    memcpy(run.grid, &r->grids[row * 3], sizeof run.grid);
    VYC(prepared_launch(prepared, &run));
  }
}

static const struct {
  const char *name;
  void (*call)(const rows *r);
  bool is_one;
} FORM[FORMS] = {{"one launch of one row", one, true},
                 {"vyc_prepared_launch_many", many, false},
                 {"vyc_bundled_kernel_launch_many", bundled, false},
                 {"loop of vyc_prepared_launch", loop, false}};

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static double median(uint64_t *values, uint32_t rounds) {
  qsort(values, rounds, sizeof *values, by_value);
  return (double)(values[(rounds - 1) / 2] + values[rounds / 2]) / 2;
}

static void measure(const rows *r, uint32_t rounds) {
  uint64_t *enqueue[FORMS], *whole[FORMS];
  for (uint32_t f = 0; f < FORMS; f++) {
    enqueue[f] = raw_alloc(rounds * sizeof **enqueue);
    whole[f] = raw_alloc(rounds * sizeof **whole);
    poison(r);
    FORM[f].call(r);
    verify(r, FORM[f].name, FORM[f].is_one ? 1 : count);
  }
  for (uint32_t turn = 0; turn < rounds + WARM; turn++)
    for (uint32_t f = 0; f < FORMS; f++) {
      const uint64_t begin = raw_now_ns();
      FORM[f].call(r);
      const uint64_t returned = raw_now_ns();
      VYC(stream_synchronize(stream));
      const uint32_t at = turn < WARM ? 0 : turn - WARM;
      enqueue[f][at] = returned - begin;
      whole[f][at] = raw_now_ns() - begin;
    }
  for (uint32_t f = 0; f < FORMS; f++) {
    printf("{\"rows\": \"%s\", \"form\": \"%s\", \"enqueue_ns\": %.0f, \"whole_ns\": %.0f}\n",
           r->name, FORM[f].name, median(enqueue[f], rounds), median(whole[f], rounds));
    free(enqueue[f]);
    free(whole[f]);
  }
}

int main(int given, char **words) {
  rows same, own;
  if (given != 6) raw_fail("many_driver DRIVER BUNDLE ROWS ELEMENTS ROUNDS");
  count = (uint32_t)strtoul(words[3], NULL, 10);
  elements = (uint32_t)strtoul(words[4], NULL, 10);
  const uint32_t rounds = (uint32_t)strtoul(words[5], NULL, 10);
  if (count == 0 || elements == 0 || rounds == 0) raw_fail("the numbers must not be 0");
  open_kernel(words[1], words[2]);
  make(&same, "same", false);
  make(&own, "own", true);
  measure(&same, rounds);
  measure(&own, rounds);
  vyc_context_close(context);
  return 0;
}
