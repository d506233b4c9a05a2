/* Fuzzing of the loader of bundles: whatever the bytes, vyc_bundle_open accepts or refuses them,
 * and everything in an accepted bundle can be read and worked out.
 *
 * With libFuzzer where that is available (clang), else it changes the given bundles by itself:
 *   fuzz_bundle BUNDLE... [-runs=N] [-seed=N]
 *   fuzz_bundle -kept FILE...                   files that once were findings, as they are
 * Build it with the address and undefined-behavior sanitizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle_fuzz.h"

/* In memory of exactly their size, so that a read behind them is seen. */
static uint8_t *exactly(const uint8_t *data, size_t bytes) {
  uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  return copy;
}

#ifdef VYC_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  uint8_t *copy = exactly(data, bytes);
  fuzz_read(copy, bytes);
  free(copy);
  return 0;
}
#else
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

static int refuse(const char *path) {
  fprintf(stderr, "%s is no bundle that can be read\n", path);
  return 1;
}

static uint64_t run_one(const uint8_t *seed, size_t bytes, uint8_t *room) {
  memcpy(room, seed, bytes);
  bytes = fuzz_change(room, bytes);
  uint8_t *exact = exactly(room, bytes);
  if (fuzz_draw(16) != 0) fuzz_seal(exact, bytes);
  const int accepted = fuzz_read(exact, bytes);
  free(exact);
  return (uint64_t)accepted;
}

/* As they are, and with length and digest made right. */
static int run_kept(int count, char **paths) {
  int accepted = 0;
  for (int i = 0; i < count; i++) {
    size_t bytes = 0;
    uint8_t *data = read_file(paths[i], &bytes);
    if (data == NULL) return refuse(paths[i]);
    uint8_t *exact = exactly(data, bytes);
    fuzz_read(exact, bytes);
    fuzz_seal(exact, bytes);
    accepted += fuzz_read(exact, bytes);
    free(exact);
    free(data);
  }
  printf("%d files, %d accepted\n", count, accepted);
  return accepted > 0 ? 0 : 1; /* the example is among them */
}

static uint64_t option(const char *argument, const char *name, uint64_t otherwise) {
  const size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 ? strtoull(argument + length, NULL, 0) : otherwise;
}

int main(int argc, char **argv) {
  uint64_t runs = 100000, seed = 1, accepted = 0;
  if (argc > 1 && strcmp(argv[1], "-kept") == 0) return run_kept(argc - 2, argv + 2);
  for (int i = 1; i < argc; i++) {
    runs = option(argv[i], "-runs=", runs);
    seed = option(argv[i], "-seed=", seed);
  }
  for (int i = 1; i < argc; i++) {
    size_t bytes = 0;
    if (argv[i][0] == '-') continue;
    uint8_t *data = read_file(argv[i], &bytes);
    uint8_t *room = malloc(bytes + 1);
    if (data == NULL || room == NULL || !fuzz_read(data, bytes)) return refuse(argv[i]);
    fuzz_seed(seed);
    for (uint64_t run = 0; run < runs; run++) accepted += run_one(data, bytes, room);
    free(data);
    free(room);
  }
  printf("%llu runs a bundle from seed %llu, %llu accepted, sum %llu\n", (unsigned long long)runs,
         (unsigned long long)seed, (unsigned long long)accepted, (unsigned long long)fuzz_sum);
  return 0;
}
#endif
