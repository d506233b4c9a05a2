/* Opening bundles, and reading what is in them. */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening -------------------------------------------------------------------------------- */

static vyc_status file_bytes(FILE *file, const char *path, uint64_t *bytes_out) {
  long end = -1;
  if (fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end < 0 || end == LONG_MAX || fseek(file, 0, SEEK_SET) != 0) /* LONG_MAX: a directory */
    return vyc__fail(VYC_E_FILE, "bundle", "%s cannot be read: it is not a regular file", path);
  *bytes_out = (uint64_t)end;
  return VYC_OK;
}

static vyc_status read_file(vyc_bundle *bundle, const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return vyc__fail(errno == ENOMEM ? VYC_E_MEMORY : VYC_E_FILE, "bundle",
                     "%s cannot be opened: %s", path, strerror(errno));
  vyc_status status = file_bytes(file, path, &bundle->size);
  if (status != VYC_OK) goto close;
  bundle->bytes = malloc(bundle->size > 0 ? (size_t)bundle->size : 1);
  if (bundle->bytes == NULL)
    status = vyc__fail(VYC_E_MEMORY, "bundle", "no host memory for %" PRIu64 " bytes of %s",
                       bundle->size, path);
  else if (fread(bundle->bytes, 1, (size_t)bundle->size, file) != bundle->size)
    status = vyc__fail(VYC_E_FILE, "bundle", "%s cannot be read: %s", path,
                       ferror(file) ? strerror(errno)
                                    : "the file became shorter: load it after it was written");
close:
  fclose(file);
  return status;
}

static vyc_status copy_bytes(vyc_bundle *bundle, const void *data, size_t bytes) {
  VYC_REQUIRE(data != NULL);
  bundle->size = bytes;
  bundle->bytes = malloc(bytes > 0 ? bytes : 1);
  if (bundle->bytes == NULL)
    return vyc__fail(VYC_E_MEMORY, "bundle", "no host memory for a bundle of %zu bytes", bytes);
  if (bytes > 0) memcpy(bundle->bytes, data, bytes);
  return VYC_OK;
}

vyc_status vyc_bundle_open(vyc_bundle **bundle_out, const char *path, const void *data,
                           size_t bytes) {
  VYC_REQUIRE(bundle_out != NULL);
  *bundle_out = NULL;
  VYC_REQUIRE((path == NULL) != (data == NULL));
  vyc_bundle *bundle = calloc(1, sizeof *bundle);
  if (bundle == NULL) return vyc__fail(VYC_E_MEMORY, "bundle", "out of host memory");
  atomic_init(&bundle->references, 1);
  vyc_status status = path != NULL ? read_file(bundle, path) : copy_bytes(bundle, data, bytes);
  if (status == VYC_OK) status = vyc__bundle_check(bundle);
  if (status == VYC_OK)
    *bundle_out = bundle;
  else
    vyc_bundle_release(bundle);
  return status;
}

vyc_bundle *vyc__bundle_retain(vyc_bundle *bundle) {
  atomic_fetch_add_explicit(&bundle->references, 1, memory_order_relaxed);
  return bundle;
}

void vyc_bundle_release(vyc_bundle *bundle) {
  if (bundle == NULL) return;
  if (atomic_fetch_sub_explicit(&bundle->references, 1, memory_order_acq_rel) != 1) return;
  free(bundle->bytes);
  free(bundle);
}

/* ---- reading -------------------------------------------------------------------------------- */

uint32_t vyc__type_bytes(uint32_t type) {
  static const uint8_t bytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return type < sizeof bytes ? bytes[type] : 0;
}

vyc_status vyc__bundle_kernel(const vyc_bundle *bundle, const vyc_disk_kernel **kernel_out,
                              uint32_t index) {
  const uint64_t count = bundle->tables[VYC_SECTION_KERNELS].count;
  if (index >= count)
    return vyc__fail(VYC_E_INVALID, "bundle", "no kernel %u: the bundle has %" PRIu64, index,
                     count);
  *kernel_out = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof **kernel_out);
  return VYC_OK;
}

vyc_status vyc_bundle_info_get(vyc_bundle *bundle, vyc_bundle_info *info_out) {
  VYC_REQUIRE(bundle != NULL && info_out != NULL);
  VYC_REQUIRE(info_out->struct_size >= sizeof(uint32_t));
  vyc_disk_header header;
  memcpy(&header, bundle->bytes, sizeof header);
  vyc_bundle_info info = {
      .format_version = header.format_version,
      .producer = header.producer,
      .kernel_count = (uint32_t)bundle->tables[VYC_SECTION_KERNELS].count,
      .graph_count = (uint32_t)bundle->tables[VYC_SECTION_GRAPHS].count,
      .bytes = bundle->size,
  };
  memcpy(info.digest, header.digest, sizeof info.digest);
  vyc__struct_out(info_out, &info, sizeof info);
  return VYC_OK;
}

uint32_t vyc__bundle_buffers(const vyc_bundle *bundle, const vyc_disk_kernel *kernel) {
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < kernel->parameters.count; i++) {
    const vyc_disk_parameter *p =
        vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first + i, sizeof *p);
    buffers += p->role != VYC_ROLE_SCALAR;
  }
  return buffers;
}

vyc_status vyc_bundle_kernel_get(vyc_bundle *bundle, vyc_bundle_kernel *kernel_out,
                                 uint32_t index) {
  VYC_REQUIRE(bundle != NULL && kernel_out != NULL);
  VYC_REQUIRE(kernel_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_kernel *row = NULL;
  VYC_TRY(vyc__bundle_kernel(bundle, &row, index));
  const uint32_t buffers = vyc__bundle_buffers(bundle, row);
  vyc_bundle_kernel kernel = {
      .flags = row->flags,
      .name = vyc__bundle_text(bundle, row->name),
      .precision = vyc__bundle_text(bundle, row->precision),
      .bounds = vyc__bundle_text(bundle, row->bounds),
      .block = {row->block[0], row->block[1], row->block[2]},
      .index_bits = row->index_bits,
      .axes = row->axes,
      .parameter_count = row->parameters.count,
      .buffer_count = buffers,
      .scalar_count = row->parameters.count - buffers,
      .variant_count = row->variants.count,
      .known_count = vyc__bundle_known(bundle, index).count,
      .program = vyc__bundle_data(bundle, row->program),
      .program_bytes = row->program.bytes,
  };
  memcpy(kernel.fingerprint, row->fingerprint, sizeof kernel.fingerprint);
  memcpy(&kernel.max_ulp, &row->max_ulp, sizeof kernel.max_ulp);
  vyc__struct_out(kernel_out, &kernel, sizeof kernel);
  return VYC_OK;
}

/* Kernels are in the order of their names. */
uint32_t vyc__bundle_member(const vyc_bundle *bundle, const vyc_disk_kernel *entry,
                            uint32_t index) {
  const vyc_disk_parameter *p =
      vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, entry->parameters.first + index, sizeof *p);
  const vyc_disk_kernel *kernels = bundle->tables[VYC_SECTION_KERNELS].rows;
  uint32_t low = 0, high = (uint32_t)bundle->tables[VYC_SECTION_KERNELS].count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const int order =
        strcmp(vyc__bundle_text(bundle, kernels[middle].name), vyc__bundle_text(bundle, p->name));
    if (order == 0)
      return (kernels[middle].flags & (VYC_KERNEL_WORKER | VYC_KERNEL_ROWS)) == 0 ? middle
                                                                                  : UINT32_MAX;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return UINT32_MAX;
}

static bool is_sized(const vyc_bundle *bundle, const vyc_disk_kernel *kernel, uint32_t parameter) {
  for (uint32_t i = 0; i < kernel->sizes.count; i++) {
    const vyc_disk_size *size =
        vyc__bundle_row(bundle, VYC_SECTION_SIZES, kernel->sizes.first + i, sizeof *size);
    if (size->parameter == parameter) return true;
  }
  return false;
}

vyc_status vyc_bundle_parameter_get(vyc_bundle *bundle, vyc_bundle_parameter *parameter_out,
                                    uint32_t kernel, uint32_t index) {
  VYC_REQUIRE(bundle != NULL && parameter_out != NULL);
  VYC_REQUIRE(parameter_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_kernel *row = NULL;
  VYC_TRY(vyc__bundle_kernel(bundle, &row, kernel));
  VYC_REQUIRE(index < row->parameters.count);
  const vyc_disk_parameter *p =
      vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS, row->parameters.first + index, sizeof *p);
  const vyc_bundle_parameter parameter = {
      .role = p->role,
      .name = vyc__bundle_text(bundle, p->name),
      .type = p->type,
      .element_bytes = vyc__type_bytes(p->type),
      .slot = p->slot,
      .is_sized = is_sized(bundle, row, index),
  };
  vyc__struct_out(parameter_out, &parameter, sizeof parameter);
  return VYC_OK;
}

vyc_disk_range vyc__bundle_owned(const vyc_bundle *bundle, uint32_t kind, size_t row_bytes,
                                 size_t owner_at, uint32_t owner) {
  vyc_disk_range range = {0, 0};
  for (uint32_t i = 0; i < bundle->tables[kind].count; i++) {
    uint32_t of;
    memcpy(&of, (const char *)vyc__bundle_row(bundle, kind, i, row_bytes) + owner_at, sizeof of);
    if (of > owner) break;
    if (of < owner)
      range.first = i + 1;
    else
      range.count++;
  }
  return range;
}

vyc_disk_range vyc__bundle_known(const vyc_bundle *bundle, uint32_t kernel) {
  return vyc__bundle_owned(bundle, VYC_SECTION_KNOWN, sizeof(vyc_disk_known),
                           offsetof(vyc_disk_known, kernel), kernel);
}

vyc_known vyc__bundle_known_at(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                               uint32_t row) {
  const vyc_disk_known *known = vyc__bundle_row(bundle, VYC_SECTION_KNOWN, row, sizeof *known);
  const vyc_disk_parameter *p = vyc__bundle_row(
      bundle, VYC_SECTION_PARAMETERS, kernel->parameters.first + known->parameter, sizeof *p);
  const bool scalar = p->role == VYC_ROLE_SCALAR;
  return (vyc_known){.kind = scalar ? VYC_PARAMETER_SCALAR : VYC_PARAMETER_SIZE,
                     .index = p->slot,
                     .type = scalar ? p->type : VYC_TYPE_U64,
                     .value = known->value,
                     .name = vyc__bundle_text(bundle, known->name)};
}

vyc_status vyc_bundle_known_get(vyc_bundle *bundle, vyc_known *known_out, uint32_t kernel,
                                uint32_t index) {
  VYC_REQUIRE(bundle != NULL && known_out != NULL);
  const vyc_disk_kernel *row = NULL;
  VYC_TRY(vyc__bundle_kernel(bundle, &row, kernel));
  const vyc_disk_range range = vyc__bundle_known(bundle, kernel);
  VYC_REQUIRE(index < range.count);
  *known_out = vyc__bundle_known_at(bundle, row, range.first + index);
  return VYC_OK;
}

static vyc_status variant_of(const vyc_bundle *bundle, const vyc_disk_variant **variant_out,
                             uint32_t kernel, uint32_t index) {
  const vyc_disk_kernel *row = NULL;
  VYC_TRY(vyc__bundle_kernel(bundle, &row, kernel));
  VYC_REQUIRE(index < row->variants.count);
  *variant_out = vyc__bundle_row(bundle, VYC_SECTION_VARIANTS, row->variants.first + index,
                                 sizeof **variant_out);
  return VYC_OK;
}

vyc_status vyc_bundle_variant_get(vyc_bundle *bundle, vyc_bundle_variant *variant_out,
                                  uint32_t kernel, uint32_t index) {
  VYC_REQUIRE(bundle != NULL && variant_out != NULL);
  VYC_REQUIRE(variant_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_variant *row = NULL;
  VYC_TRY(variant_of(bundle, &row, kernel, index));
  const vyc_bundle_variant variant = {
      .sm = row->sm,
      .ptx_version = row->ptx_version,
      .is_cooperative = (row->flags & VYC_PREPARED_COOPERATIVE) != 0,
      .prints = (row->flags & VYC_PREPARED_PRINTS) != 0,
      .dynamic_shared_bytes = row->dynamic_shared_bytes,
      .parameter_bytes = row->parameter_bytes,
      .entry_count = row->entries.count,
      .site_count = row->sites.count,
      .entry = vyc__bundle_text(bundle, row->entry),
      .entries =
          vyc__bundle_row(bundle, VYC_SECTION_ENTRIES, row->entries.first, sizeof(vyc_parameter)),
      .bindings =
          vyc__bundle_row(bundle, VYC_SECTION_BINDINGS, row->bindings.first, sizeof(vyc_binding)),
      .ptx = vyc__bundle_data(bundle, row->ptx),
      .ptx_bytes = row->ptx.bytes,
      .cubin = vyc__bundle_data(bundle, row->cubin),
      .cubin_bytes = row->cubin.bytes,
      .shared_bytes = row->shared_bytes,
  };
  vyc__struct_out(variant_out, &variant, sizeof variant);
  return VYC_OK;
}

vyc_status vyc_bundle_site_get(vyc_bundle *bundle, vyc_site *site_out, uint32_t kernel,
                               uint32_t variant, uint32_t index) {
  VYC_REQUIRE(bundle != NULL && site_out != NULL);
  VYC_REQUIRE(site_out->struct_size >= sizeof(uint32_t));
  const vyc_disk_variant *row = NULL;
  VYC_TRY(variant_of(bundle, &row, kernel, variant));
  VYC_REQUIRE(index < row->sites.count);
  const vyc_disk_site *found =
      vyc__bundle_row(bundle, VYC_SECTION_SITES, row->sites.first + index, sizeof *found);
  const vyc_site site = {
      .kind = found->kind,
      .message = vyc__bundle_text(bundle, found->message),
      .buffer = vyc__bundle_text(bundle, found->buffer),
      .file = vyc__bundle_text(bundle, found->file),
      .line = found->line,
      .statement = found->statement,
  };
  vyc__struct_out(site_out, &site, sizeof site);
  return VYC_OK;
}
