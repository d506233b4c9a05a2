/* The checks of a run, and its reading from callers of an earlier version. */
#ifndef VYC_KERNEL_RUN_CHECK_H
#define VYC_KERNEL_RUN_CHECK_H

#include "prepared.h"

/* All checks that do not depend on how the run is made. */
vyc_status vyc__run_check(const vyc_prepared *prepared, const vyc_run *run);
/* With more written bindings than this, ranges are sorted instead of compared one by one. */
#define VYC_FEW_WRITTEN 8u
/* Whether each written binding overlaps no other, from where each begins and ends. */
bool vyc__ranges_apart(const vyc_prepared *prepared, const uint64_t *begins, const uint64_t *ends);
/* A caller of an earlier version has a shorter struct. */
#define VYC_RUN_BYTES_FIRST offsetof(vyc_run, iterations)
static inline uint32_t vyc__origin_of(const vyc_run *run) {
  return run->struct_size < offsetof(vyc_run, contents) ? 0 : run->origin;
}
static inline const uint64_t *vyc__contents_of(const vyc_run *run) {
  return run->struct_size < offsetof(vyc_run, flags) ? NULL : run->contents;
}
static inline uint32_t vyc__run_flags_of(const vyc_run *run) {
  return run->struct_size < sizeof *run ? 0 : run->flags;
}
__attribute__((cold)) vyc_status vyc__run_fail_size(const vyc_run *run);
/* The run is not NULL, and its caller has set its size. */
static inline vyc_status vyc__run_check_size(const vyc_run *run) {
  return VYC_LIKELY(run != NULL && run->struct_size >= VYC_RUN_BYTES_FIRST)
             ? VYC_OK
             : vyc__run_fail_size(run);
}
static inline uint32_t vyc__iterations(const vyc_run *run) {
  const bool has_them = run->struct_size >= offsetof(vyc_run, origin);
  return !has_them || run->iterations == 0 ? 1 : run->iterations;
}
static inline bool vyc__grid_is_empty(const uint32_t grid[3]) {
  return grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}
/* Whether the run has the scalars that `vyc__launch_fills` reads. */
bool vyc__extents_are_scalars(const vyc_prepared_desc *desc, const vyc_binding *binding);
/* Whether the launch, whose grid is not empty, writes every element of a covered out. */
bool vyc__launch_fills(const vyc_prepared *prepared, uint32_t binding, const vyc_run *run);
/* Whether the number of blocks alone shows if a launch fills the out. */
static inline bool vyc__goes_by_blocks(const vyc_binding *b) {
  return b->role == VYC_ROLE_OUT && (b->flags & ~VYC_BINDING_STREAMING) == VYC_BINDING_COVERED;
}
/* Whether the blocks have a thread for each of `count` elements. */
static inline bool vyc__blocks_reach(const vyc_prepared *prepared, const uint32_t grid[3],
                                     uint64_t count) {
  const uint64_t threads = (uint64_t)grid[0] * prepared->block[0];
  return threads >= count && ((grid[1] != 0 && grid[2] != 0) || count == 0);
}
/* Whether it may leave elements of an out unwritten. */
static inline bool vyc__leaves_gaps(const vyc_prepared *prepared, uint32_t binding,
                                    const vyc_run *run) {
  const vyc_binding *b = &prepared->bindings[binding];
  if (b->role != VYC_ROLE_OUT) return false;
  if ((b->flags & VYC_BINDING_COVERED) == 0 || vyc__grid_is_empty(run->grid)) return true;
  if (b->flags >= VYC_BINDING_LOOPS) return !vyc__launch_fills(prepared, binding, run);
  return !vyc__blocks_reach(prepared, run->grid, run->arguments[binding].count);
}
/* Whether what it may leave unwritten of a buffer must be 0. */
static inline bool vyc__needs_clear(const vyc_prepared *prepared, uint32_t binding,
                                    const vyc_run *run) {
  return vyc__leaves_gaps(prepared, binding, run) &&
         (prepared->bindings[binding].flags & VYC_BINDING_UNSPECIFIED) == 0;
}
static inline bool vyc__is_host(const vyc_argument *argument) {
  return argument->kind != VYC_ARGUMENT_BUFFER;
}

#endif
