/* Rows of a bundle by their names, and the names that a message about an unknown one lists. */
#include <stdio.h>
#include <string.h>

#include "room.h"

/* Every row with a name begins with it. */
static const char *name_of(const vyc_bundle *bundle, uint32_t kind, uint32_t row,
                           size_t row_bytes) {
  vyc_disk_text text;
  memcpy(&text, vyc__bundle_row(bundle, kind, row, row_bytes), sizeof text);
  return vyc__bundle_text(bundle, text);
}

static vyc_status fail_unknown(const vyc_bundle *bundle, const char *name, const vyc_names *names) {
  char text[256] = "none"; /* as many names as fit */
  size_t used = 0;
  for (uint32_t i = 0; i < names->range.count && used < sizeof text; i++) {
    const uint32_t row = names->range.first + i;
    if (names->is_listed != NULL && !names->is_listed(bundle, row)) continue;
    const int written = snprintf(text + used, sizeof text - used, "%s%s", used == 0 ? "" : ", ",
                                 name_of(bundle, names->kind, row, names->row_bytes));
    used += written > 0 ? (size_t)written : 0;
  }
  return vyc__fail(VYC_E_INVALID, "bundle", "there is no %s %.200s; there are: %s", names->what,
                   name, text);
}

vyc_status vyc__bundle_find(const vyc_bundle *bundle, uint32_t *index_out, const char *name,
                            const vyc_names *names) {
  for (uint32_t i = 0; i < names->range.count; i++) {
    if (strcmp(name_of(bundle, names->kind, names->range.first + i, names->row_bytes), name) != 0)
      continue;
    *index_out = i;
    return VYC_OK;
  }
  return fail_unknown(bundle, name, names);
}

/* ---- kernels by name ------------------------------------------------------------------------- */

static const vyc_disk_kernel *kernel_at(const vyc_bundle *bundle, uint32_t row) {
  return vyc__bundle_row(bundle, VYC_SECTION_KERNELS, row, sizeof(vyc_disk_kernel));
}

static bool is_worker(const vyc_bundle *bundle, uint32_t row) {
  return (kernel_at(bundle, row)->flags & VYC_KERNEL_WORKER) != 0;
}

/* A worker's last parameter names the kernel that clears for it. */
static bool clears_for_worker(const vyc_bundle *bundle, uint32_t row) {
  const char *name = vyc__bundle_text(bundle, kernel_at(bundle, row)->name);
  for (uint32_t i = 0; i < bundle->tables[VYC_SECTION_KERNELS].count; i++) {
    const vyc_disk_range range = kernel_at(bundle, i)->parameters;
    if (!is_worker(bundle, i) || range.count == 0) continue;
    if (strcmp(name_of(bundle, VYC_SECTION_PARAMETERS, range.first + range.count - 1,
                       sizeof(vyc_disk_parameter)),
               name) == 0)
      return true;
  }
  return false;
}

/* Whether it was bundled for itself, and not added for others. */
static bool is_own(const vyc_bundle *bundle, uint32_t row) {
  return (kernel_at(bundle, row)->flags & (VYC_KERNEL_ROWS | VYC_KERNEL_CLEARS)) == 0 &&
         !clears_for_worker(bundle, row);
}

static bool is_own_kernel(const vyc_bundle *bundle, uint32_t row) {
  return is_own(bundle, row) && !is_worker(bundle, row);
}

static vyc_status find(const vyc_bundle *bundle, uint32_t *index_out, const char *name,
                       const char *what,
                       bool (*is_listed)(const vyc_bundle *bundle, uint32_t row)) {
  const vyc_disk_range all = {0, (uint32_t)bundle->tables[VYC_SECTION_KERNELS].count};
  const vyc_names names = {what, VYC_SECTION_KERNELS, sizeof(vyc_disk_kernel), all, is_listed};
  return vyc__bundle_find(bundle, index_out, name, &names);
}

vyc_status vyc__bundle_find_kernel(const vyc_bundle *bundle, uint32_t *index_out,
                                   const char *name) {
  return find(bundle, index_out, name, "kernel", is_own_kernel);
}

vyc_status vyc__bundle_find_worker(const vyc_bundle *bundle, uint32_t *index_out,
                                   const char *name) {
  return find(bundle, index_out, name, "worker", is_worker);
}

vyc_status vyc_bundle_kernel_find(vyc_bundle *bundle, uint32_t *index_out, const char *name) {
  VYC_REQUIRE(bundle != NULL && index_out != NULL && name != NULL);
  return find(bundle, index_out, name, "kernel", is_own);
}
