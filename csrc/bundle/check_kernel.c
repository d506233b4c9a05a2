/* Whether the kernels of a bundle are valid: their parameters, sizes and work, known values, and
 * what each variant says of its code. */
#include <inttypes.h>

#include "check.h"
#include "expression.h"
#include "kernel/room.h"

#define MOST_KERNELS 65536u

typedef struct reader {
  const vyc_bundle *bundle;
  const vyc_disk_kernel *kernel;
  const char *name; /* of the kernel */
  vyc_cursors *cursors;
  uint32_t buffers, scalars;
  bool known[VYC_MOST_PARAMETERS]; /* by parameter: whether its size is known at this point */
} reader;

static const vyc_disk_parameter *parameter_at(const reader *r, uint32_t index) {
  return vyc__bundle_row(r->bundle, VYC_SECTION_PARAMETERS, r->kernel->parameters.first + index,
                         sizeof(vyc_disk_parameter));
}

static vyc_status check_parameters(reader *r) {
  const uint32_t count = r->kernel->parameters.count;
  VYC_DEMAND(
      count <= VYC_MOST_PARAMETERS &&
          vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_PARAMETERS, r->kernel->parameters),
      "kernel %s: its parameters are not in their section", r->name);
  for (uint32_t i = 0; i < count; i++) {
    const vyc_disk_parameter *p = parameter_at(r, i);
    const bool scalar = p->role == VYC_ROLE_SCALAR;
    VYC_DEMAND(vyc__bundle_is_name(r->bundle, p->name) && p->role >= VYC_ROLE_IN &&
                   p->role <= VYC_ROLE_SCALAR && vyc__type_bytes(p->type) != 0 &&
                   p->slot == (scalar ? r->scalars : r->buffers),
               "kernel %s: parameter %u is invalid", r->name, i);
    for (uint32_t j = 0; j < i; j++)
      VYC_DEMAND(strcmp(vyc__bundle_text(r->bundle, parameter_at(r, j)->name),
                        vyc__bundle_text(r->bundle, p->name)) != 0,
                 "kernel %s: two parameters are named %s", r->name,
                 vyc__bundle_text(r->bundle, p->name));
    *(scalar ? &r->scalars : &r->buffers) += 1;
    r->known[i] = !scalar;
  }
  return VYC_OK;
}

static bool is_width(int32_t width) {
  switch (width) {
  case 8:
  case 16:
  case 32:
  case 64:
  case -8:
  case -16:
  case -32:
  case -64: return true;
  default: return false;
  }
}

/* What a leaf refers to exists and is known at this point. */
static bool is_leaf(const reader *r, const vyc_disk_step *step) {
  switch (step->op) {
  case VYC_LEAF_CONSTANT: return true;
  case VYC_LEAF_SIZE: return step->value < r->kernel->parameters.count && r->known[step->value];
  case VYC_LEAF_SCALAR: return step->value < r->scalars;
  default: return false;
  }
}

static vyc_status check_steps(const reader *r, vyc_disk_range range) {
  VYC_DEMAND(range.count >= 1 && range.count <= VYC_MOST_STEPS &&
                 vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_STEPS, range),
             "kernel %s: the steps from %u are not in their section", r->name, range.first);
  uint32_t depth = 0;
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_step *step =
        vyc__bundle_row(r->bundle, VYC_SECTION_STEPS, range.first + i, sizeof *step);
    const bool leaf = is_leaf(r, step);
    const uint32_t needed = leaf ? 0 : vyc__host_op_operands(step->op);
    VYC_DEMAND(is_width(step->width) && (leaf || needed > 0) && depth >= needed,
               "kernel %s: step %u is invalid", r->name, range.first + i);
    depth = depth - needed + 1;
    VYC_DEMAND(depth <= VYC_MOST_DEPTH, "kernel %s: step %u needs too deep a stack", r->name,
               range.first + i);
  }
  VYC_DEMAND(depth == 1, "kernel %s: the steps from %u leave %u values instead of one", r->name,
             range.first, depth);
  return VYC_OK;
}

/* Sizes are in an order in which each is known before another needs it. */
static vyc_status check_shape(reader *r) {
  const vyc_disk_kernel *k = r->kernel;
  bool declared[VYC_MOST_PARAMETERS] = {false};
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_SIZES, k->sizes),
             "kernel %s: its sizes are not in their section", r->name);
  for (uint32_t i = 0; i < k->sizes.count; i++) {
    const vyc_disk_size *size =
        vyc__bundle_row(r->bundle, VYC_SECTION_SIZES, k->sizes.first + i, sizeof *size);
    VYC_DEMAND(size->parameter < k->parameters.count && !declared[size->parameter],
               "kernel %s: size %u belongs to no parameter, or to one that has a size already",
               r->name, i);
    declared[size->parameter] = true;
    if (parameter_at(r, size->parameter)->role == VYC_ROLE_OUT) r->known[size->parameter] = false;
  }
  for (uint32_t i = 0; i < k->sizes.count; i++) {
    const vyc_disk_size *size =
        vyc__bundle_row(r->bundle, VYC_SECTION_SIZES, k->sizes.first + i, sizeof *size);
    VYC_TRY(check_steps(r, size->steps));
    if (parameter_at(r, size->parameter)->role == VYC_ROLE_OUT) r->known[size->parameter] = true;
  }
  VYC_DEMAND(k->axes <= 3, "kernel %s: its work has %u axes; there can be 3", r->name, k->axes);
  for (uint32_t axis = 0; axis < 3; axis++)
    if (axis < k->axes)
      VYC_TRY(check_steps(r, k->work[axis]));
    else
      VYC_DEMAND(k->work[axis].first == 0 && k->work[axis].count == 0,
                 "kernel %s: it has work on axis %u, beyond its axes", r->name, axis);
  return VYC_OK;
}

static bool fits(const vyc_disk_parameter *p, uint64_t value) {
  const uint32_t bytes = p->role == VYC_ROLE_SCALAR ? vyc__type_bytes(p->type) : 8;
  return value <= UINT64_MAX >> (64 - 8 * bytes);
}

/* The rows of this kernel are those that come next. */
static vyc_status check_known(const reader *r, uint32_t kernel) {
  const vyc_table *table = &r->bundle->tables[VYC_SECTION_KNOWN];
  uint64_t *next = &r->cursors->next[VYC_SECTION_KNOWN];
  const vyc_disk_known *rows = table->rows;
  for (uint32_t least = 0; *next < table->count && rows[*next].kernel == kernel; ++*next) {
    const vyc_disk_known *row = &rows[*next];
    VYC_DEMAND(row->parameter >= least && row->parameter < r->kernel->parameters.count &&
                   vyc__bundle_is_name(r->bundle, row->name) &&
                   fits(parameter_at(r, row->parameter), row->value),
               "kernel %s: invalid known value %" PRIu64, r->name, *next);
    least = row->parameter + 1;
  }
  return VYC_OK;
}

/* ---- variants ------------------------------------------------------------------------------- */

static vyc_status check_bindings(const reader *r, const vyc_disk_variant *v) {
  VYC_DEMAND(v->bindings.count == r->buffers &&
                 vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_BINDINGS, v->bindings),
             "kernel %s, sm_%u: its bindings are not in their section", r->name, v->sm);
  for (uint32_t i = 0; i < r->kernel->parameters.count; i++) {
    const vyc_disk_parameter *p = parameter_at(r, i);
    if (p->role == VYC_ROLE_SCALAR) continue;
    const vyc_binding *b =
        vyc__bundle_row(r->bundle, VYC_SECTION_BINDINGS, v->bindings.first + p->slot, sizeof *b);
    VYC_DEMAND(b->role == p->role && b->element_bytes == vyc__type_bytes(p->type),
               "kernel %s, sm_%u: binding %u is invalid", r->name, v->sm, p->slot);
  }
  return VYC_OK;
}

static vyc_status check_sites(const reader *r, const vyc_disk_variant *v) {
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_SITES, v->sites),
             "kernel %s, sm_%u: its checks are not in their section", r->name, v->sm);
  for (uint32_t i = 0; i < v->sites.count; i++) {
    const vyc_disk_site *site =
        vyc__bundle_row(r->bundle, VYC_SECTION_SITES, v->sites.first + i, sizeof *site);
    VYC_DEMAND(vyc__bundle_is_text(r->bundle, site->message) &&
                   vyc__bundle_is_text(r->bundle, site->buffer) &&
                   vyc__bundle_is_text(r->bundle, site->file) && site->kind >= VYC_SITE_ASSERT &&
                   site->kind <= VYC_SITE_BOUNDS,
               "kernel %s, sm_%u: check %u is invalid", r->name, v->sm, i);
  }
  return VYC_OK;
}

/* The driver reads PTX up to its NUL, and as much machine code as the ELF header says. */
static vyc_status check_images(const reader *r, const vyc_disk_variant *v) {
  VYC_DEMAND(v->ptx.bytes > 0 && vyc__bundle_take_data(r->bundle, r->cursors, v->ptx) &&
                 vyc__bundle_take_data(r->bundle, r->cursors, v->cubin),
             "kernel %s, sm_%u: its code is not in the data", r->name, v->sm);
  const uint8_t *ptx = vyc__bundle_data(r->bundle, v->ptx);
  VYC_DEMAND(memchr(ptx, 0, (size_t)v->ptx.bytes) == ptx + v->ptx.bytes - 1,
             "kernel %s, sm_%u: its PTX does not end with its only NUL", r->name, v->sm);
  const uint8_t *cubin = vyc__bundle_data(r->bundle, v->cubin);
  VYC_DEMAND(cubin == NULL || vyc__is_elf(cubin, v->cubin.bytes),
             "kernel %s, sm_%u: its cubin is truncated, or not an ELF file", r->name, v->sm);
  return VYC_OK;
}

static vyc_status check_variant(const reader *r, const vyc_disk_variant *v) {
  VYC_TRY(check_bindings(r, v));
  VYC_DEMAND(vyc__bundle_is_name(r->bundle, v->entry) &&
                 (v->flags & ~(uint32_t)(VYC_PREPARED_COOPERATIVE | VYC_PREPARED_PRINTS)) == 0,
             "kernel %s, sm_%u: its entry is invalid", r->name, v->sm);
  VYC_DEMAND(vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_ENTRIES, v->entries),
             "kernel %s, sm_%u: its parameter block is invalid", r->name, v->sm);
  const vyc_prepared_desc desc = {
      .struct_size = sizeof desc,
      .block = {r->kernel->block[0], r->kernel->block[1], r->kernel->block[2]},
      .dynamic_shared_bytes = v->dynamic_shared_bytes,
      .parameter_bytes = v->parameter_bytes,
      .parameter_count = v->entries.count,
      .binding_count = r->buffers,
      .scalar_count = r->scalars,
      .entry = "",
      .parameters =
          vyc__bundle_row(r->bundle, VYC_SECTION_ENTRIES, v->entries.first, sizeof(vyc_parameter)),
      .bindings =
          vyc__bundle_row(r->bundle, VYC_SECTION_BINDINGS, v->bindings.first, sizeof(vyc_binding)),
  };
  VYC_DEMAND(vyc__prepared_check(&desc) == VYC_OK,
             "kernel %s, sm_%u: its parameter block is invalid", r->name, v->sm);
  VYC_TRY(check_sites(r, v));
  return check_images(r, v);
}

static vyc_status check_variants(const reader *r) {
  const vyc_disk_range range = r->kernel->variants;
  VYC_DEMAND(range.count >= 1 &&
                 vyc__bundle_take(r->bundle, r->cursors, VYC_SECTION_VARIANTS, range),
             "kernel %s: its variants are missing, or not in their section", r->name);
  uint32_t before = 0;
  for (uint32_t i = 0; i < range.count; i++) {
    const vyc_disk_variant *v =
        vyc__bundle_row(r->bundle, VYC_SECTION_VARIANTS, range.first + i, sizeof *v);
    VYC_DEMAND(v->sm > before, "kernel %s: variants are not in ascending order", r->name);
    before = v->sm;
    VYC_TRY(check_variant(r, v));
  }
  return VYC_OK;
}

static bool is_index_width(uint32_t bits) {
  return bits == 31 || bits == 32 || bits == 63 || bits == 64;
}

static bool is_flags(uint32_t flags) {
  const uint32_t entries = VYC_KERNEL_WORKER | VYC_KERNEL_ROWS;
  const uint32_t all = VYC_KERNEL_WHOLE_PROGRAM | VYC_KERNEL_CLEARS | entries;
  return (flags & ~all) == 0 && (flags & entries) != entries &&
         ((flags & entries) == 0 || (flags & VYC_KERNEL_CLEARS) == 0);
}

/* The entry for many launches has a scalar for each of its kernels, and then arrays. */
static bool is_entry(const reader *r) {
  if ((r->kernel->flags & VYC_KERNEL_ROWS) == 0) return true;
  for (uint32_t i = 0; i < r->kernel->parameters.count; i++) {
    const uint32_t role = parameter_at(r, i)->role;
    if ((role == VYC_ROLE_SCALAR) != (i < r->scalars) || role == VYC_ROLE_OUT) return false;
  }
  return r->scalars >= 1 && r->scalars <= VYC_MOST_OF_ENTRY && r->buffers <= VYC_MOST_ENTRY_ARRAYS;
}

/* It writes an array of 4-byte elements (vyc_rows.clearing). */
static bool is_clearing(const reader *r) {
  if ((r->kernel->flags & VYC_KERNEL_CLEARS) == 0) return true;
  return r->buffers == 1 && r->scalars == 0 && parameter_at(r, 0)->role == VYC_ROLE_OUT &&
         vyc__type_bytes(parameter_at(r, 0)->type) == sizeof(uint32_t);
}

static vyc_status check_kernel(const vyc_bundle *bundle, vyc_cursors *cursors, uint32_t index) {
  reader r = {.bundle = bundle, .cursors = cursors};
  r.kernel = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof *r.kernel);
  VYC_DEMAND(vyc__bundle_is_name(bundle, r.kernel->name), "kernel %u has no name", index);
  r.name = vyc__bundle_text(bundle, r.kernel->name);
  VYC_DEMAND(vyc__bundle_is_text(bundle, r.kernel->precision) &&
                 vyc__bundle_is_text(bundle, r.kernel->bounds) &&
                 is_index_width(r.kernel->index_bits) && is_flags(r.kernel->flags),
             "kernel %s: its options are invalid", r.name);
  VYC_TRY(check_parameters(&r));
  VYC_DEMAND(is_entry(&r) && is_clearing(&r), "kernel %s: invalid as an entry for other kernels",
             r.name);
  VYC_TRY(check_shape(&r));
  VYC_TRY(check_known(&r, index));
  VYC_DEMAND(r.kernel->program.bytes > 0 &&
                 vyc__bundle_take_data(bundle, cursors, r.kernel->program),
             "kernel %s: its program is not in the data", r.name);
  return check_variants(&r);
}

vyc_status vyc__bundle_kernels_check(const vyc_bundle *bundle, vyc_cursors *cursors) {
  const vyc_table *kernels = &bundle->tables[VYC_SECTION_KERNELS];
  VYC_DEMAND(kernels->count <= MOST_KERNELS,
             "there are %" PRIu64 " kernels, and at most %u are possible", kernels->count,
             MOST_KERNELS);
  const char *before = "";
  for (uint32_t i = 0; i < kernels->count; i++) {
    VYC_TRY(check_kernel(bundle, cursors, i));
    const vyc_disk_kernel *kernel = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, i, sizeof *kernel);
    const char *name = vyc__bundle_text(bundle, kernel->name);
    VYC_DEMAND(strcmp(before, name) < 0, "kernel %s: kernels are not in the order of their names",
               name);
    before = name;
  }
  return VYC_OK;
}
