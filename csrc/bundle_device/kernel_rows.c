/* Many launches of a bundle's kernel as one: its entry, the kernel that clears outs before them,
 * and rows whose grids the library computes. */
#include <stdio.h>
#include <stdlib.h>

#include "room.h"

/* ---- entries --------------------------------------------------------------------------------- */

/* What every entry takes (vyc_prepared_launch_many, vyc_graph_add_tables): the table, then scalars
 * of 32 bits, and then the arrays in places. */
enum { ADDRESS_BYTES = 8, ROW_BYTES = 16, WORDS = VYC_ROW_SCALARS, WORD_BYTES = 4 };
_Static_assert(VYC_MOST_ENTRY_ARRAYS == VYC_MOST_PLACES && VYC_MOST_OF_ENTRY == VYC_MOST_TABLES,
               "what a file may have can be launched");

typedef struct block {
  vyc_parameter parameters[1 + WORDS + VYC_MOST_OF_ENTRY + VYC_MOST_ENTRY_ARRAYS];
  vyc_binding bindings[1 + VYC_MOST_ENTRY_ARRAYS];
  uint32_t parameter_count, binding_count, bytes;
} block;

static void add_array(block *made, uint32_t role, uint32_t element_bytes) {
  const uint32_t offset = (made->bytes + ADDRESS_BYTES - 1) / ADDRESS_BYTES * ADDRESS_BYTES;
  made->parameters[made->parameter_count++] = (vyc_parameter){.kind = VYC_PARAMETER_POINTER,
                                                              .index = made->binding_count,
                                                              .offset = offset,
                                                              .size = ADDRESS_BYTES};
  made->bindings[made->binding_count++] =
      (vyc_binding){.role = role, .element_bytes = element_bytes};
  made->bytes = offset + ADDRESS_BYTES;
}

static void add_words(block *made, uint32_t count) {
  for (uint32_t i = 0; i < count; i++, made->bytes += WORD_BYTES)
    made->parameters[made->parameter_count++] = (vyc_parameter){
        .kind = VYC_PARAMETER_SCALAR, .index = i, .offset = made->bytes, .size = WORD_BYTES};
}

vyc_status vyc__rows_entry_prepare(vyc_bundled_kernel *entry, vyc_module *module,
                                   const vyc_disk_variant *v, uint64_t tag) {
  const uint32_t words = WORDS + entry->scalars - 1;
  block made = {.bytes = 0};
  add_array(&made, VYC_ROLE_IN, ROW_BYTES);
  add_words(&made, words);
  for (uint32_t i = 0; i < entry->buffers; i++) {
    const vyc_disk_parameter *p = &entry->parameters[entry->scalars + i];
    add_array(&made, p->role, vyc__type_bytes(p->type));
  }
  const vyc_prepared_desc desc = {
      .struct_size = sizeof desc,
      .block = {entry->row->block[0], entry->row->block[1], entry->row->block[2]},
      .dynamic_shared_bytes = v->dynamic_shared_bytes,
      .parameter_bytes = made.bytes,
      .parameter_count = made.parameter_count,
      .binding_count = made.binding_count,
      .scalar_count = words,
      .entry = vyc__bundle_text(entry->bundle, v->entry),
      .parameters = made.parameters,
      .bindings = made.bindings,
      .tag = tag,
      .name = vyc__bundle_text(entry->bundle, entry->row->name),
  };
  return vyc_prepared_create(&entry->prepared, module, &desc);
}

static const vyc_disk_kernel *kernel_at(const vyc_bundle *bundle, uint32_t index) {
  return vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof(vyc_disk_kernel));
}

/* The entry reads parameters where a kernel of the same variant has them, and has its block. */
static bool is_entry_of(const vyc_bundled_kernel *entry, const vyc_bundled_kernel *kernel) {
  return entry->info.variant == kernel->info.variant &&
         memcmp(entry->row->block, kernel->row->block, sizeof kernel->row->block) == 0;
}

vyc_status vyc__rows_entry_load(vyc_prepared **entry_out, vyc_context *context, vyc_bundle *bundle,
                                uint32_t index, vyc_bundled_kernel *const *kernels) {
  vyc_bundled_kernel *entry = NULL;
  VYC_TRY(vyc__bundled_load(&entry, (vyc_compiler_log){NULL, 0}, context, bundle, index, 0));
  vyc_status status = VYC_OK;
  for (uint32_t i = 0; i < entry->scalars && status == VYC_OK; i++) {
    const uint32_t member = vyc__bundle_member(bundle, entry->row, i);
    if (member == UINT32_MAX || !is_entry_of(entry, kernels[member]))
      status =
          vyc__fail(VYC_E_UNSUPPORTED, "rows",
                    "%s, which does many launches of %s as one, was made for another kernel "
                    "or GPU generation: bundle them again for this one",
                    vyc__bundle_text(bundle, entry->row->name), vyc__bundled_parameter(entry, i));
  }
  if (status == VYC_OK) status = vyc_bundled_kernel_prepared(entry, entry_out);
  vyc_bundled_kernel_release(entry);
  return status;
}

/* The entry of this kernel alone; UINT32_MAX: there is none. */
static uint32_t entry_of(const vyc_bundle *bundle, uint32_t kernel) {
  const uint64_t count = bundle->tables[VYC_SECTION_KERNELS].count;
  for (uint32_t i = 0; i < count; i++)
    if (vyc__bundle_is_entry(bundle, i) && kernel_at(bundle, i)->parameters.count == 1 &&
        vyc__bundle_member(bundle, kernel_at(bundle, i), 0) == kernel)
      return i;
  return UINT32_MAX;
}

static uint32_t clearing_of(const vyc_bundle *bundle) {
  const uint64_t count = bundle->tables[VYC_SECTION_KERNELS].count;
  for (uint32_t i = 0; i < count; i++)
    if ((kernel_at(bundle, i)->flags & VYC_KERNEL_CLEARS) != 0) return i;
  return UINT32_MAX;
}

/* The entry of a loaded kernel; NULL: the bundle has none. */
static vyc_status load_entry(vyc_prepared **entry_out, vyc_context *context,
                             vyc_bundled_kernel *kernel) {
  const uint32_t index = entry_of(kernel->bundle, kernel->info.kernel);
  if (index == UINT32_MAX) return VYC_OK;
  vyc_bundled_kernel **kernels = calloc(kernel->info.kernel + (size_t)1, sizeof *kernels);
  if (kernels == NULL) return vyc__fail(VYC_E_MEMORY, "kernel", "out of host memory");
  kernels[kernel->info.kernel] = kernel;
  const vyc_status status =
      vyc__rows_entry_load(entry_out, context, kernel->bundle, index, kernels);
  free(kernels);
  return status;
}

vyc_status vyc__rows_clearing_load(vyc_prepared **clearing_out, vyc_prepared **many_clearing_out,
                                   vyc_context *context, vyc_bundle *bundle) {
  const uint32_t index = clearing_of(bundle);
  vyc_bundled_kernel *clearing = NULL;
  if (index == UINT32_MAX || entry_of(bundle, index) == UINT32_MAX) return VYC_OK;
  VYC_TRY(vyc__bundled_load(&clearing, (vyc_compiler_log){NULL, 0}, context, bundle, index, 0));
  vyc_status status = load_entry(many_clearing_out, context, clearing);
  if (status == VYC_OK) status = vyc_bundled_kernel_prepared(clearing, clearing_out);
  vyc_bundled_kernel_release(clearing);
  return status;
}

static bool has_outs(const vyc_bundled_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->row->parameters.count; i++)
    if (kernel->parameters[i].role == VYC_ROLE_OUT) return true;
  return false;
}

vyc_status vyc__bundled_load_many(vyc_bundled_kernel *kernel, vyc_context *context) {
  VYC_TRY(load_entry(&kernel->many, context, kernel));
  kernel->info.has_many = kernel->many != NULL;
  if (kernel->many == NULL || !has_outs(kernel)) return VYC_OK;
  return vyc__rows_clearing_load(&kernel->clearing, &kernel->many_clearing, context,
                                 kernel->bundle);
}

static void give(vyc_prepared **prepared_out, vyc_prepared *prepared) {
  if (prepared_out == NULL) return;
  if (prepared != NULL) vyc__child_retain(&prepared->child);
  *prepared_out = prepared;
}

vyc_status vyc_bundled_kernel_many(vyc_bundled_kernel *kernel, vyc_prepared **many_out,
                                   vyc_prepared **clearing_out, vyc_prepared **many_clearing_out) {
  VYC_REQUIRE(kernel != NULL);
  give(many_out, kernel->many);
  give(clearing_out, kernel->clearing);
  give(many_clearing_out, kernel->many_clearing);
  return VYC_OK;
}

/* ---- launches -------------------------------------------------------------------------------- */

static vyc_status in_row(vyc_status status, uint32_t row) {
  vyc_error error;
  vyc__error_save(&error);
  return vyc__fail(status, error.operation, "row %u: %.400s", row, error.message);
}

/* What is checked and computed of a row follows from how many elements its arrays have. */
static bool goes_by_counts(const vyc_bundled_kernel *kernel) {
  const vyc_disk_range sizes = kernel->row->sizes;
  const vyc_disk_size *size =
      vyc__bundle_row(kernel->bundle, VYC_SECTION_SIZES, sizes.first, sizeof *size);
  for (uint32_t i = 0; i < sizes.count; i++) /* an extent is a scalar */
    if (kernel->parameters[size[i].parameter].role == VYC_ROLE_SCALAR) return false;
  for (uint32_t slot = 0; slot < kernel->scalars; slot++)
    if (vyc__bundle_decides(kernel->bundle, kernel->row, slot)) return false;
  return true;
}

/* Whether a row but the first has the counts of the one before it. */
static inline bool is_alike(const vyc_rows *rows, uint32_t row) {
  const uint32_t across = rows->argument_count;
  const size_t end = ((size_t)row + 1) * across;
  for (size_t i = (size_t)row * across; i < end; i++)
    if (rows->arguments[i].count != rows->arguments[i - across].count) return false;
  return true;
}

static vyc_status complete(const vyc_bundled_kernel *kernel, uint32_t *grids,
                           const vyc_rows *rows) {
  const bool by_counts = rows->grids == NULL && goes_by_counts(kernel);
  vyc_run run = {.struct_size = sizeof run,
                 .argument_count = rows->argument_count,
                 .scalar_count = rows->scalar_count,
                 .arguments = rows->arguments,
                 .scalars = rows->scalars,
                 .timeout_ns = -1};
  for (uint32_t i = 0; i < rows->count; i++) {
    uint32_t *grid = &grids[(size_t)i * 3];
    if (by_counts && i > 0 && is_alike(rows, i)) {
      memcpy(grid, grid - 3, sizeof run.grid);
    } else {
      if (rows->grids != NULL) memcpy(run.grid, &rows->grids[(size_t)i * 3], sizeof run.grid);
      const vyc_status status = vyc__bundled_resolve(kernel, grid, &run);
      if (VYC_UNLIKELY(status != VYC_OK)) return in_row(status, i);
    }
    if (rows->argument_count > 0) run.arguments += rows->argument_count;
    if (rows->scalar_count > 0) run.scalars += rows->scalar_count;
  }
  return VYC_OK;
}

vyc_status vyc_bundled_kernel_launch_many(vyc_bundled_kernel *kernel, const vyc_rows *rows) {
  VYC_REQUIRE_IN("launch", kernel != NULL && rows != NULL);
  VYC_REQUIRE_IN("launch", rows->struct_size >= sizeof *rows);
  if (rows->count == 0) return VYC_OK;
  uint32_t *grids = malloc((size_t)rows->count * 3 * sizeof *grids);
  if (grids == NULL) return vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
  vyc_rows completed = *rows;
  completed.struct_size = sizeof completed;
  completed.grids = grids;
  if (rows->clearing == NULL && rows->many_clearing == NULL) {
    completed.clearing = kernel->clearing;
    completed.many_clearing = kernel->many_clearing;
  }
  vyc_status status = complete(kernel, grids, rows);
  if (status == VYC_OK)
    status = vyc_prepared_launch_many(kernel->prepared, kernel->many, &completed);
  free(grids);
  return status;
}
