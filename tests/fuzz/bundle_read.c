/* Everything in an accepted bundle can be read and worked out. */
#include <stdlib.h>
#include <string.h>

#include "bundle_fuzz.h"

uint64_t fuzz_sum;

static void read_bytes(const void *data, uint64_t bytes) {
  for (uint64_t i = 0; data != NULL && i < bytes; i++) fuzz_sum += ((const uint8_t *)data)[i];
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
    fuzz_sum += vyc_bundle_shape(bundle, counts, grid, kernel, scalars) == VYC_OK;
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
  for (uint32_t i = 0; i < g.condition_count; i++) {
    vyc_bundle_condition condition = {.struct_size = sizeof condition};
    if (vyc_bundle_condition_get(bundle, &condition, index, i) != VYC_OK) abort();
    fuzz_sum += condition.value + condition.count + condition.memory;
    if (condition.symbol >= g.symbol_count) abort();
  }
}

int fuzz_read(const uint8_t *data, size_t bytes) {
  vyc_bundle *bundle = NULL;
  if (vyc_bundle_open(&bundle, NULL, data, bytes) != VYC_OK) return 0;
  vyc_bundle_info info = {.struct_size = sizeof info};
  if (vyc_bundle_info_get(bundle, &info) != VYC_OK) abort();
  for (uint32_t i = 0; i < info.kernel_count; i++) read_kernel(bundle, i);
  for (uint32_t i = 0; i < info.graph_count; i++) read_graph(bundle, i);
  vyc_bundle_release(bundle);
  return 1;
}
