/* Fuzzing of the loader of bundles: whatever the bytes, vyc_bundle_open accepts or refuses them,
 * and everything in an accepted bundle can be read and worked out.
 *
 * With clang: -fsanitize=fuzzer,address -DVYC_LIBFUZZER. Without, it changes the given bundles by
 * itself: fuzz_bundle BUNDLE... [-runs=N] [-seed=N]. Digest and length are made right again after
 * most changes, because nothing else would get past them. Build it with the address and
 * undefined-behavior sanitizers (CONTRIBUTING.md). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle_format.h"

/* ---- one input ------------------------------------------------------------------------------- */

static uint64_t sum; /* of what was read, so that reading is not left out */

static void read_bytes(const void *data, uint64_t bytes) {
  for (uint64_t i = 0; data != NULL && i < bytes; i++) sum += ((const uint8_t *)data)[i];
}

static void read_text(const char *text) { read_bytes(text, strlen(text)); }

static void read_variant(vyc_bundle *bundle, uint32_t kernel, uint32_t index, uint32_t buffers) {
  vyc_bundle_variant v = {.struct_size = sizeof v};
  if (vyc_bundle_variant_get(bundle, &v, kernel, index) != VYC_OK) abort();
  read_text(v.entry);
  read_bytes(v.entries, v.entry_count * sizeof *v.entries);
  read_bytes(v.bindings, buffers * sizeof *v.bindings);
  read_bytes(v.ptx, v.ptx_bytes);
  read_bytes(v.cubin, v.cubin_bytes);
  if (strlen(v.ptx) + 1 != v.ptx_bytes) abort();
  for (uint32_t i = 0; i < v.site_count; i++) {
    vyc_site site = {.struct_size = sizeof site};
    if (vyc_bundle_site_get(bundle, &site, kernel, index, i) != VYC_OK) abort();
    read_text(site.message);
    read_text(site.buffer);
    read_text(site.file);
  }
}

static void read_shape(vyc_bundle *bundle, uint32_t kernel, uint32_t parameters) {
  uint64_t *counts = calloc(parameters + 1, sizeof *counts);
  uint64_t *scalars = calloc(parameters + 1, sizeof *scalars);
  uint32_t grid[3];
  if (counts == NULL || scalars == NULL) abort();
  for (uint64_t i = 0; i < 4; i++) {
    for (uint32_t j = 0; j < parameters; j++) counts[j] = scalars[j] = i == 3 ? UINT64_MAX : i * 99;
    sum += vyc_bundle_shape(bundle, counts, grid, kernel, scalars) == VYC_OK;
  }
  free(counts);
  free(scalars);
}

static void read_kernel(vyc_bundle *bundle, uint32_t index) {
  vyc_bundle_kernel k = {.struct_size = sizeof k};
  uint32_t found = UINT32_MAX;
  if (vyc_bundle_kernel_get(bundle, &k, index) != VYC_OK) abort();
  if (vyc_bundle_kernel_find(bundle, &found, k.name) != VYC_OK || found != index) abort();
  read_text(k.precision);
  read_text(k.bounds);
  read_bytes(k.program, k.program_bytes);
  for (uint32_t i = 0; i < k.parameter_count; i++) {
    vyc_bundle_parameter p = {.struct_size = sizeof p};
    if (vyc_bundle_parameter_get(bundle, &p, index, i) != VYC_OK) abort();
    read_text(p.name);
  }
  for (uint32_t i = 0; i < k.variant_count; i++) read_variant(bundle, index, i, k.buffer_count);
  read_shape(bundle, index, k.parameter_count);
}

static void read_graph(vyc_bundle *bundle, uint32_t index) {
  vyc_bundle_graph g = {.struct_size = sizeof g};
  if (vyc_bundle_graph_get(bundle, &g, index) != VYC_OK) abort();
  for (uint32_t i = 0; i < g.symbol_count; i++) {
    vyc_bundle_symbol symbol = {.struct_size = sizeof symbol};
    if (vyc_bundle_symbol_get(bundle, &symbol, index, i) != VYC_OK) abort();
    read_text(symbol.name);
  }
  for (uint32_t i = 0; i < g.array_count; i++) {
    vyc_bundle_array array = {.struct_size = sizeof array};
    if (vyc_bundle_array_get(bundle, &array, index, i) != VYC_OK) abort();
    if (array.contents != NULL) read_bytes(array.contents, array.bytes);
  }
  for (uint32_t i = 0; i < g.step_count; i++) {
    vyc_bundle_step step = {.struct_size = sizeof step};
    if (vyc_bundle_step_get(bundle, &step, index, i) != VYC_OK) abort();
    read_bytes(step.values, step.value_count * sizeof *step.values);
  }
}

static int read_all(const uint8_t *data, size_t bytes) {
  vyc_bundle *bundle = NULL;
  if (vyc_bundle_open(&bundle, NULL, data, bytes) != VYC_OK) return 0;
  vyc_bundle_info info = {.struct_size = sizeof info};
  if (vyc_bundle_info_get(bundle, &info) != VYC_OK) abort();
  for (uint32_t i = 0; i < info.kernel_count; i++) read_kernel(bundle, i);
  for (uint32_t i = 0; i < info.graph_count; i++) read_graph(bundle, i);
  vyc_bundle_release(bundle);
  return 1;
}

/* Length and digest as they should be. */
static void seal(uint8_t *data, size_t bytes) {
  vyc_disk_header header;
  vyc_digest digest;
  if (bytes < sizeof header) return;
  memcpy(&header, data, sizeof header);
  header.file_bytes = bytes;
  memset(header.digest, 0, sizeof header.digest);
  vyc__digest_begin(&digest);
  vyc__digest_add(&digest, &header, sizeof header);
  vyc__digest_add(&digest, data + sizeof header, bytes - sizeof header);
  vyc__digest_end(&digest, header.digest);
  memcpy(data, &header, sizeof header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  uint8_t *copy =
      malloc(bytes > 0 ? bytes : 1); /* of its very size, so that a read behind it is seen */
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  read_all(copy, bytes);
  seal(copy, bytes);
  read_all(copy, bytes);
  free(copy);
  return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

#ifndef VYC_LIBFUZZER
static uint64_t state;

/* xorshift64*. */
static uint64_t draw(uint64_t below) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * UINT64_C(0x2545F4914F6CDD1D) >> 11) % below;
}

static const uint32_t INTERESTING[] = {0,  1,  2,  3,   4,    5,         7,          8,
                                       16, 32, 64, 255, 4096, 0x7FFFFFF, 0x80000000, UINT32_MAX};

static void change_word(uint8_t *data, size_t bytes) {
  if (bytes < 8) return;
  const size_t at = draw(bytes / 4 - 1) * 4;
  uint32_t word;
  memcpy(&word, data + at, sizeof word);
  switch (draw(5)) {
  case 0: word = INTERESTING[draw(sizeof INTERESTING / sizeof INTERESTING[0])]; break;
  case 1: word += (uint32_t)draw(17) - 8; break;
  case 2: word ^= UINT32_C(1) << draw(32); break;
  case 3: word = (uint32_t)draw(UINT32_MAX); break;
  default: memcpy(&word, data + draw(bytes / 4 - 1) * 4, sizeof word); break;
  }
  memcpy(data + at, &word, sizeof word);
}

/* Cut off, taken out, put in twice, or as it was. */
static size_t change_length(uint8_t *data, size_t bytes) {
  if (bytes < 64 || draw(4) != 0) return bytes;
  const size_t from = draw(bytes), count = draw(bytes - from) + 1, to = draw(bytes - count + 1);
  switch (draw(3)) {
  case 0: return from;
  case 1: memmove(data + from, data + from + count, bytes - from - count); return bytes - count;
  default: memmove(data + to, data + from, count); return bytes;
  }
}

static uint64_t option(const char *argument, const char *name, uint64_t otherwise) {
  const size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 ? strtoull(argument + length, NULL, 0) : otherwise;
}

static uint8_t *read_file(const char *path, size_t *bytes_out) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
  *bytes_out = (size_t)ftell(file);
  rewind(file);
  uint8_t *data = malloc(*bytes_out + 1);
  const int whole = data != NULL && fread(data, 1, *bytes_out, file) == *bytes_out;
  fclose(file);
  return whole ? data : NULL;
}

static uint64_t run_one(const uint8_t *seed, size_t bytes, uint8_t *room) {
  memcpy(room, seed, bytes);
  const uint64_t changes = 1 + draw(4);
  for (uint64_t i = 0; i < changes; i++) change_word(room, bytes);
  bytes = change_length(room, bytes);
  uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
  if (exact == NULL) abort();
  memcpy(exact, room, bytes);
  if (draw(16) != 0) seal(exact, bytes);
  const int accepted = read_all(exact, bytes);
  free(exact);
  return (uint64_t)accepted;
}

int main(int argc, char **argv) {
  uint64_t runs = 100000, seed = 1, accepted = 0;
  for (int i = 1; i < argc; i++) {
    runs = option(argv[i], "-runs=", runs);
    seed = option(argv[i], "-seed=", seed);
  }
  for (int i = 1; i < argc; i++) {
    size_t bytes = 0;
    if (argv[i][0] == '-') continue;
    uint8_t *data = read_file(argv[i], &bytes);
    uint8_t *room = malloc(bytes + 1);
    if (data == NULL || room == NULL || !read_all(data, bytes)) {
      fprintf(stderr, "%s is no bundle that can be read\n", argv[i]);
      return 1;
    }
    state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (uint64_t run = 0; run < runs; run++) accepted += run_one(data, bytes, room);
    free(data);
    free(room);
  }
  printf("%llu runs a bundle from seed %llu, %llu accepted, sum %llu\n", (unsigned long long)runs,
         (unsigned long long)seed, (unsigned long long)accepted, (unsigned long long)sum);
  return 0;
}
#endif
