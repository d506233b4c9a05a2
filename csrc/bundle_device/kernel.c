/* Kernels of bundles on a device: which code is loaded, and runs whose grid the library computes.
 *
 * A kernel is a prepared kernel and the rows of its bundle; it is immutable, so threads share it
 * freely. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "room.h"

/* ---- which code ----------------------------------------------------------------------------- */

/* Machine code also runs on later minor generations, but not on both discrete GPUs and those of a
 * system on a chip (CUDA C++ programming guide, binary compatibility). */
static bool is_on_chip(uint32_t sm) { return sm == 72 || sm == 87 || sm == 101 || sm == 110; }

static bool runs_cubin(uint32_t sm, uint32_t device_sm) {
  if (sm == device_sm) return true;
  return sm / 10 == device_sm / 10 && sm < device_sm && !is_on_chip(sm) && !is_on_chip(device_sm);
}

static uint32_t sm_of(const vyc_context *context) {
  return (uint32_t)(context->caps.compute_capability_major * 10 +
                    context->caps.compute_capability_minor);
}

static const vyc_disk_variant *variant_at(const vyc_bundled_kernel *kernel, uint32_t index) {
  return vyc__bundle_row(kernel->bundle, VYC_SECTION_VARIANTS, kernel->row->variants.first + index,
                         sizeof(vyc_disk_variant));
}

static vyc_status fail_target(const vyc_bundled_kernel *kernel, uint32_t device_sm) {
  const uint32_t oldest = variant_at(kernel, 0)->sm;
  char capability[16];
  snprintf(capability, sizeof capability, "sm_%u", oldest);
  return vyc__fail(
      VYC_E_UNSUPPORTED, capability,
      "kernel %s of the bundle is for sm_%u and newer; the device is sm_%u: bundle it for "
      "that, too",
      vyc__bundle_text(kernel->bundle, kernel->row->name), oldest, device_sm);
}

/* Of the parameters, by their slots. */
static void label(const vyc_bundled_kernel *kernel, vyc_label *labels) {
  for (uint32_t i = 0; i < kernel->row->parameters.count; i++) {
    const vyc_disk_parameter *p = vyc__bundle_row(kernel->bundle, VYC_SECTION_PARAMETERS,
                                                  kernel->row->parameters.first + i, sizeof *p);
    const uint32_t before = p->role == VYC_ROLE_SCALAR ? kernel->buffers : 0;
    labels[before + p->slot] =
        (vyc_label){.name = vyc__bundle_text(kernel->bundle, p->name), .type = p->type};
  }
}

/* Labels, followed by known values: at most one for each parameter. */
static vyc_status describe(const vyc_bundled_kernel *kernel, vyc_label **labels_out,
                           vyc_known **known_out, uint32_t *known_count_out) {
  const size_t count = kernel->row->parameters.count;
  const vyc_disk_range known = vyc__bundle_known(kernel->bundle, kernel->info.kernel);
  *labels_out = calloc(count + 1, sizeof **labels_out + sizeof **known_out);
  if (*labels_out == NULL) return vyc__fail(VYC_E_MEMORY, "kernel", "out of host memory");
  *known_out = (vyc_known *)(void *)(*labels_out + count + 1);
  *known_count_out = known.count;
  label(kernel, *labels_out);
  for (uint32_t i = 0; i < known.count; i++)
    (*known_out)[i] = vyc__bundle_known_at(kernel->bundle, kernel->row, known.first + i);
  return VYC_OK;
}

static vyc_status prepared_of(vyc_bundled_kernel *kernel, vyc_module *module,
                              const vyc_disk_variant *v, uint64_t tag) {
  if ((kernel->row->flags & VYC_KERNEL_ROWS) != 0)
    return vyc__rows_entry_prepare(kernel, module, v, tag);
  vyc_label *labels = NULL;
  vyc_known *known = NULL;
  uint32_t known_count = 0;
  VYC_TRY(describe(kernel, &labels, &known, &known_count));
  const vyc_prepared_desc desc = {
      .struct_size = sizeof desc,
      .block = {kernel->row->block[0], kernel->row->block[1], kernel->row->block[2]},
      .dynamic_shared_bytes = v->dynamic_shared_bytes,
      .parameter_bytes = v->parameter_bytes,
      .parameter_count = v->entries.count,
      .binding_count = kernel->buffers,
      .scalar_count = kernel->scalars,
      .flags = v->flags,
      .entry = vyc__bundle_text(kernel->bundle, v->entry),
      .parameters = vyc__bundle_row(kernel->bundle, VYC_SECTION_ENTRIES, v->entries.first,
                                    sizeof(vyc_parameter)),
      .bindings = vyc__bundle_row(kernel->bundle, VYC_SECTION_BINDINGS, v->bindings.first,
                                  sizeof(vyc_binding)),
      .tag = tag,
      .name = vyc__bundle_text(kernel->bundle, kernel->row->name),
      .labels = labels,
      .known = known,
      .known_count = known_count,
  };
  const vyc_status status = vyc_prepared_create(&kernel->prepared, module, &desc);
  free(labels);
  return status;
}

static vyc_status load_image(vyc_bundled_kernel *kernel, vyc_compiler_log log, vyc_context *context,
                             uint32_t variant, bool cubin, uint64_t tag) {
  const vyc_disk_variant *v = variant_at(kernel, variant);
  const vyc_disk_data image = cubin ? v->cubin : v->ptx;
  vyc_module *module = NULL;
  VYC_TRY(vyc_module_load(&module, log.text, log.bytes, context,
                          vyc__bundle_data(kernel->bundle, image), (size_t)image.bytes));
  const vyc_status status = prepared_of(kernel, module, v, tag);
  vyc_module_release(module);
  kernel->info.variant = variant;
  kernel->info.is_cubin = cubin;
  return status;
}

static void log_refusal(const vyc_bundled_kernel *kernel, vyc_context *context,
                        const vyc_disk_variant *v, bool cubin) {
  vyc_error error;
  vyc__error_save(&error);
  vyc__log(context, VYC_LOG_INFO, "kernel %s: the %s for sm_%u is skipped: %.400s",
           vyc__bundle_text(kernel->bundle, kernel->row->name), cubin ? "cubin" : "PTX", v->sm,
           error.message);
}

/* From the newest that the device supports downwards; the first refusal is reported. */
static vyc_status load_best(vyc_bundled_kernel *kernel, vyc_compiler_log log, vyc_context *context,
                            uint64_t tag) {
  const uint32_t device_sm = sm_of(context);
  vyc_error first = {0};
  bool refused = false;
  for (uint32_t i = kernel->row->variants.count; i-- > 0;) {
    const vyc_disk_variant *v = variant_at(kernel, i);
    if (v->sm > device_sm) continue;
    for (int cubin = 1; cubin >= 0; cubin--) {
      if (cubin && (v->cubin.bytes == 0 || !runs_cubin(v->sm, device_sm))) continue;
      const vyc_status status = load_image(kernel, log, context, i, cubin, tag);
      if (status != VYC_E_COMPILE) return status;
      log_refusal(kernel, context, v, cubin);
      if (!refused) vyc__error_save(&first);
      refused = true;
    }
  }
  if (!refused) return fail_target(kernel, device_sm);
  vyc__error_restore(&first);
  return VYC_E_COMPILE;
}

vyc_status vyc__bundled_load(vyc_bundled_kernel **kernel_out, vyc_compiler_log log,
                             vyc_context *context, vyc_bundle *bundle, uint32_t index,
                             uint64_t tag) {
  vyc_bundled_kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel == NULL) return vyc__fail(VYC_E_MEMORY, "kernel", "out of host memory");
  kernel->bundle = vyc__bundle_retain(bundle);
  kernel->row = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof *kernel->row);
  kernel->parameters = vyc__bundle_row(bundle, VYC_SECTION_PARAMETERS,
                                       kernel->row->parameters.first, sizeof *kernel->parameters);
  kernel->buffers = vyc__bundle_buffers(bundle, kernel->row);
  kernel->scalars = kernel->row->parameters.count - kernel->buffers;
  kernel->info = (vyc_bundled_kernel_info){.struct_size = sizeof kernel->info, .kernel = index};
  const vyc_status status = load_best(kernel, log, context, tag);
  if (status == VYC_OK)
    *kernel_out = kernel;
  else
    vyc_bundled_kernel_release(kernel);
  return status;
}

static bool is_worker(const vyc_bundle *bundle, uint32_t index) {
  const vyc_disk_kernel *row = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof *row);
  return (row->flags & VYC_KERNEL_WORKER) != 0;
}

vyc_status vyc_bundled_kernel_load(vyc_bundled_kernel **kernel_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, vyc_bundle *bundle, const char *name,
                                   uint64_t tag) {
  VYC_REQUIRE(kernel_out != NULL);
  *kernel_out = NULL;
  VYC_REQUIRE(context != NULL && bundle != NULL && name != NULL);
  uint32_t index = 0;
  VYC_TRY(vyc__check_usable(context));
  VYC_TRY(vyc__bundle_find_kernel(bundle, &index, name));
  if (is_worker(bundle, index))
    return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                     "%s is a worker, not a kernel: load it with vyc_bundled_worker_load", name);
  if (vyc__bundle_is_entry(bundle, index))
    return vyc__fail(VYC_E_UNSUPPORTED, "kernel",
                     "%s is the entry for many launches of other kernels: load those", name);
  const vyc_compiler_log log = {log_out, log_bytes};
  VYC_TRY(vyc__bundled_load(kernel_out, log, context, bundle, index, tag));
  const vyc_status status = vyc__bundled_load_many(*kernel_out, context);
  if (status == VYC_OK) return VYC_OK;
  vyc_bundled_kernel_release(*kernel_out);
  *kernel_out = NULL;
  return status;
}

vyc_status vyc__bundled_entry_load(vyc_bundled_kernel **entry_out, vyc_context *context,
                                   vyc_bundle *bundle, const char *name) {
  uint32_t index = 0;
  VYC_TRY(vyc__check_usable(context));
  VYC_TRY(vyc__bundle_find_worker(bundle, &index, name));
  if (!is_worker(bundle, index))
    return vyc__fail(VYC_E_INVALID, "worker",
                     "%s is a kernel, not a worker: load it with vyc_bundled_kernel_load", name);
  return vyc__bundled_load(entry_out, (vyc_compiler_log){NULL, 0}, context, bundle, index, 0);
}

uint32_t vyc__bundled_variant(const vyc_bundled_kernel *kernel) { return kernel->info.variant; }

uint32_t vyc__bundled_parameters(const vyc_bundled_kernel *kernel) {
  return kernel->row->parameters.count;
}

const char *vyc__bundled_parameter(const vyc_bundled_kernel *kernel, uint32_t index) {
  return vyc__bundle_text(kernel->bundle, kernel->parameters[index].name);
}

const char *vyc__bundled_code_entry(const vyc_bundled_kernel *kernel) {
  return vyc__bundle_text(kernel->bundle, variant_at(kernel, kernel->info.variant)->entry);
}

vyc_prepared *vyc__bundled_borrow(const vyc_bundled_kernel *kernel) { return kernel->prepared; }

void vyc_bundled_kernel_release(vyc_bundled_kernel *kernel) {
  if (kernel == NULL) return;
  vyc_error failure; /* a release may wait; it must not replace the reason of a failed load */
  vyc__error_save(&failure);
  vyc_prepared_release(kernel->prepared);
  vyc_prepared_release(kernel->many);
  vyc_prepared_release(kernel->clearing);
  vyc_prepared_release(kernel->many_clearing);
  vyc_bundle_release(kernel->bundle);
  free(kernel);
  vyc__error_restore(&failure);
}

vyc_status vyc_bundled_kernel_info_get(vyc_bundled_kernel *kernel,
                                       vyc_bundled_kernel_info *info_out) {
  VYC_REQUIRE(kernel != NULL && info_out != NULL);
  VYC_REQUIRE(info_out->struct_size >= sizeof(uint32_t));
  vyc__struct_out(info_out, &kernel->info, sizeof kernel->info);
  return VYC_OK;
}

vyc_status vyc_bundled_kernel_prepared(vyc_bundled_kernel *kernel, vyc_prepared **prepared_out) {
  VYC_REQUIRE(kernel != NULL && prepared_out != NULL);
  vyc__child_retain(&kernel->prepared->child);
  *prepared_out = kernel->prepared;
  return VYC_OK;
}

vyc_status vyc_bundled_kernel_site(vyc_bundled_kernel *kernel, vyc_site *site_out,
                                   uint64_t report) {
  VYC_REQUIRE(kernel != NULL);
  return vyc_bundle_site_get(kernel->bundle, site_out, kernel->info.kernel, kernel->info.variant,
                             (uint32_t)(report & 0xFFFFFu));
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* The arguments have the sizes that the kernel declares. */
vyc_status vyc__bundled_resolve(const vyc_bundled_kernel *kernel, uint32_t grid[3],
                                const vyc_run *run) {
  uint64_t counts[VYC_MOST_PARAMETERS];
  const uint32_t parameter_count = kernel->row->parameters.count;
  if (run->argument_count != kernel->buffers || run->scalar_count != kernel->scalars)
    return vyc__fail(VYC_E_INVALID, vyc__bundle_text(kernel->bundle, kernel->row->name),
                     "kernel %s takes %u array%s and %u scalar%s, not %u and %u",
                     vyc__bundle_text(kernel->bundle, kernel->row->name), kernel->buffers,
                     VYC_S(kernel->buffers), kernel->scalars, VYC_S(kernel->scalars),
                     run->argument_count, run->scalar_count);
  VYC_REQUIRE_IN("run", run->arguments != NULL || kernel->buffers == 0);
  VYC_REQUIRE_IN("run", run->scalars != NULL || kernel->scalars == 0);
  for (uint32_t i = 0; i < parameter_count; i++) {
    const vyc_disk_parameter *p = &kernel->parameters[i];
    counts[i] = p->role == VYC_ROLE_SCALAR ? 0 : run->arguments[p->slot].count;
  }
  VYC_TRY(vyc__bundle_sizes(kernel->bundle, counts, kernel->row, run->scalars));
  for (uint32_t i = 0; i < parameter_count; i++) {
    const vyc_disk_parameter *p = &kernel->parameters[i];
    if (p->role == VYC_ROLE_OUT && counts[i] != run->arguments[p->slot].count)
      return vyc__fail(VYC_E_INVALID, vyc__bundle_text(kernel->bundle, kernel->row->name),
                       "out %s has %" PRIu64 " element%s, not %" PRIu64,
                       vyc__bundle_text(kernel->bundle, p->name), run->arguments[p->slot].count,
                       VYC_S(run->arguments[p->slot].count), counts[i]);
  }
  if (run->grid[0] != 0 || run->grid[1] != 0 || run->grid[2] != 0) {
    memcpy(grid, run->grid, sizeof run->grid);
    return vyc__bundle_check_grid(kernel->bundle, kernel->row, grid);
  }
  return vyc__bundle_grid(kernel->bundle, grid, kernel->row, counts, run->scalars);
}

vyc_status vyc_bundled_kernel_resolve(vyc_bundled_kernel *kernel, vyc_run *run) {
  VYC_REQUIRE(kernel != NULL);
  VYC_TRY(vyc__run_check_size(run));
  return vyc__bundled_resolve(kernel, run->grid, run);
}

/* A caller of an earlier version has a shorter struct, and the copy keeps its struct_size. */
static vyc_status complete(const vyc_bundled_kernel *kernel, vyc_run *to, const vyc_run *run) {
  VYC_REQUIRE_IN("run", kernel != NULL);
  VYC_TRY(vyc__run_check_size(run));
  const size_t bytes = run->struct_size < sizeof *to ? run->struct_size : sizeof *to;
  memset(to, 0, sizeof *to);
  memcpy(to, run, bytes);
  return vyc__bundled_resolve(kernel, to->grid, run);
}

vyc_status vyc_bundled_kernel_run(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                  const vyc_run *run) {
  vyc_run completed;
  if (ticket_out != NULL) *ticket_out = NULL;
  VYC_TRY(complete(kernel, &completed, run));
  return vyc_prepared_run(kernel->prepared, ticket_out, &completed);
}

vyc_status vyc_bundled_kernel_submit(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                     const vyc_run *run) {
  vyc_run completed;
  if (ticket_out != NULL) *ticket_out = NULL;
  VYC_TRY(complete(kernel, &completed, run));
  return vyc_prepared_submit(kernel->prepared, ticket_out, &completed);
}

vyc_status vyc_bundled_kernel_launch(vyc_bundled_kernel *kernel, const vyc_run *run) {
  vyc_run completed;
  VYC_TRY(complete(kernel, &completed, run));
  return vyc_prepared_launch(kernel->prepared, &completed);
}
