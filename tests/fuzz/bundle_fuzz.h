/* What the fuzzers of bundles share. */
#ifndef BUNDLE_FUZZ_H
#define BUNDLE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "bundle/format.h"

/* ---- bundle_read.c ---- */

/* Of what was read, so that reading is not left out. */
extern uint64_t fuzz_sum;
/* 1: a bundle, of which everything was read; 0: refused. Anything else aborts. */
int fuzz_read(const uint8_t *data, size_t bytes);

/* ---- bundle_change.c ---- */

void fuzz_seed(uint64_t seed);
uint64_t fuzz_draw(uint64_t below);
/* Change some words and perhaps the length, to no more bytes than there are. */
size_t fuzz_change(uint8_t *data, size_t bytes);
/* Make length and digest right: the loader looks at nothing else before. */
void fuzz_seal(uint8_t *data, size_t bytes);

#endif
