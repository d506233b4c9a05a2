/* What the driver is given for a run: an entry of the kernel, and its grid. */
#ifndef VYC_KERNEL_FORM_H
#define VYC_KERNEL_FORM_H

#include "run_check.h"

/* Up to here no index of a kernel overflows, whatever its type. */
#define VYC_SEVERAL_MOST (UINT64_C(1) << 30)

/* Whether the run is one that `several` of the prepared kernel takes. */
static inline bool vyc__is_several(const vyc_prepared *prepared, const vyc_run *run) {
  const uint64_t threads = (uint64_t)run->grid[0] * prepared->block[0];
  return (vyc__run_flags_of(run) & VYC_RUN_GRID_OF_WORK) != 0 && run->grid[1] == 1 &&
         run->grid[2] == 1 && threads >= prepared->several_from && threads <= VYC_SEVERAL_MOST;
}

static inline vyc_form vyc__form_of_one(const vyc_prepared *prepared, const vyc_run *run) {
  return (vyc_form){prepared->function, {run->grid[0], run->grid[1], run->grid[2]}};
}

static inline vyc_form vyc__form_of(const vyc_prepared *prepared, const vyc_run *run) {
  vyc_form form = vyc__form_of_one(prepared, run);
  const CUfunction several = atomic_load_explicit(&prepared->several, memory_order_acquire);
  if (VYC_UNLIKELY(several != NULL) && vyc__is_several(prepared, run)) {
    form.function = several;
    form.grid[0] = (run->grid[0] - 1) / prepared->several_elements + 1;
  }
  return form;
}

/* Give the launch graph the form of a run. A launch graph is given either runs or forms. */
static inline void vyc__launch_graph_set_run(vyc_launch_graph *launch_graph,
                                             const vyc_prepared *prepared, const vyc_run *run) {
  const uint32_t *before = launch_graph->run_grid;
  if (VYC_UNLIKELY(before[0] != run->grid[0] || before[1] != run->grid[1] ||
                   before[2] != run->grid[2] || launch_graph->run_flags != vyc__run_flags_of(run)))
    vyc__launch_graph_set_other(launch_graph, prepared, run);
}

#endif
