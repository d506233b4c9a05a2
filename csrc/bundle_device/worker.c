/* Workers of bundles: their entry, and the kernels that its parameters name. */
#include <string.h>

#include "room.h"
#include "worker/room.h"

/* As in codegen/emit/resident.py: the entries that read the slots of this version. */
#define ENTRY "vyre_worker_2"
#define MOST (VYC_WORKER_MOST_KERNELS + 1u) /* with the kernel that clears */

static vyc_status load_kernels(vyc_bundled_kernel **kernels_out, const vyc_bundled_kernel *entry,
                               vyc_context *context, vyc_bundle *bundle) {
  for (uint32_t i = 0; i < vyc__bundled_parameters(entry); i++) {
    const char *name = vyc__bundled_parameter(entry, i);
    VYC_TRY(vyc_bundled_kernel_load(&kernels_out[i], NULL, 0, context, bundle, name, 0));
    /* The entry reads parameters where the kernel of the same variant has them. */
    if (vyc__bundled_variant(kernels_out[i]) != vyc__bundled_variant(entry))
      return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                       "kernel %s was loaded for another GPU generation than its worker: bundle "
                       "both for this one",
                       name);
  }
  return VYC_OK;
}

static vyc_status create(vyc_worker **worker_out, vyc_bundled_kernel *const *kernels,
                         const vyc_bundled_kernel *entry, const vyc_worker_desc *desc) {
  vyc_prepared *prepared[MOST];
  vyc_worker_desc completed = *desc;
  completed.struct_size = sizeof completed;
  completed.kernel_count = vyc__bundled_parameters(entry) - 1;
  for (uint32_t i = 0; i <= completed.kernel_count; i++)
    prepared[i] = vyc__bundled_borrow(kernels[i]);
  completed.kernels = prepared;
  completed.clearing = prepared[completed.kernel_count];
  return vyc_worker_create(worker_out, vyc__bundled_borrow(entry), &completed);
}

static vyc_status load(vyc_worker **worker_out, vyc_bundled_kernel **kernels_out,
                       uint32_t kernel_count, const vyc_bundled_kernel *entry, vyc_context *context,
                       vyc_bundle *bundle, const char *name, const vyc_worker_desc *desc) {
  vyc_bundled_kernel *kernels[MOST] = {NULL};
  const uint32_t count = vyc__bundled_parameters(entry);
  if (count < 2 || count > MOST)
    return vyc__fail(VYC_E_FORMAT, "worker", "worker %s names %u kernels; it must name 2 to %u",
                     name, count, MOST);
  if (count - 1 != kernel_count)
    return vyc__fail(VYC_E_INVALID, "worker",
                     "worker %s has %u kernel%s, not %u: give room for each", name, count - 1,
                     VYC_S(count - 1), kernel_count);
  if (strcmp(vyc__bundled_code_entry(entry), ENTRY) != 0)
    return vyc__fail(VYC_E_UNSUPPORTED, "worker",
                     "worker %s was written by another version, whose workers take other calls: "
                     "write the bundle again",
                     name);
  vyc_status status = load_kernels(kernels, entry, context, bundle);
  if (status == VYC_OK) status = create(worker_out, kernels, entry, desc);
  vyc_bundled_kernel_release(kernels[kernel_count]);
  for (uint32_t i = 0; i < kernel_count; i++) {
    if (status == VYC_OK)
      kernels_out[i] = kernels[i];
    else
      vyc_bundled_kernel_release(kernels[i]);
  }
  return status;
}

vyc_status vyc_bundled_worker_load(vyc_worker **worker_out, vyc_bundled_kernel **kernels_out,
                                   uint32_t kernel_count, vyc_context *context, vyc_bundle *bundle,
                                   const char *name, const vyc_worker_desc *desc) {
  VYC_REQUIRE(worker_out != NULL && kernels_out != NULL);
  *worker_out = NULL;
  for (uint32_t i = 0; i < kernel_count; i++) kernels_out[i] = NULL;
  VYC_REQUIRE(context != NULL && bundle != NULL && name != NULL);
  VYC_REQUIRE(desc != NULL && desc->struct_size >= sizeof *desc);
  vyc_bundled_kernel *entry = NULL;
  VYC_TRY(vyc__bundled_entry_load(&entry, context, bundle, name));
  const vyc_status status =
      load(worker_out, kernels_out, kernel_count, entry, context, bundle, name, desc);
  vyc_bundled_kernel_release(entry);
  return status;
}
