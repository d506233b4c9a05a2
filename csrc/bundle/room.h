/* A bundle in memory: its bytes, and where each table is in them.
 *
 * Everything that is reached through these pointers was checked when the bundle was opened. */
#ifndef VYC_BUNDLE_ROOM_H
#define VYC_BUNDLE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/room.h"
#include "format.h"

typedef struct vyc_table {
  const void *rows;
  uint64_t count; /* rows; of strings and data: bytes */
} vyc_table;

struct vyc_bundle {
  _Atomic uint32_t references;
  uint8_t *bytes;
  uint64_t size;
  vyc_table tables[VYC_SECTION_KINDS]; /* by VYC_SECTION_... */
};

/* ---- graph_rows.c ---- */

/* VYC_E_INVALID past the last graph. */
vyc_status vyc__bundle_graph(const vyc_bundle *bundle, const vyc_disk_graph **graph_out,
                             uint32_t index);

/* The conditions of a graph. */
vyc_disk_range vyc__bundle_conditions(const vyc_bundle *bundle, uint32_t graph);

/* ---- bundle.c ---- */

vyc_bundle *vyc__bundle_retain(vyc_bundle *bundle);
/* VYC_E_INVALID past the last kernel. */
vyc_status vyc__bundle_kernel(const vyc_bundle *bundle, const vyc_disk_kernel **kernel_out,
                              uint32_t index);

/* The rows of a table in the order of their owners, whose number is in each row at byte owner_at,
 * that belong to this one. */
vyc_disk_range vyc__bundle_owned(const vyc_bundle *bundle, uint32_t kind, size_t row_bytes,
                                 size_t owner_at, uint32_t owner);
/* The values that the kernel was compiled for. */
vyc_disk_range vyc__bundle_known(const vyc_bundle *bundle, uint32_t kernel);
vyc_known vyc__bundle_known_at(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                               uint32_t row);

/* The kernels of an entry for many launches as one, whose parameters come first, and the arrays
 * that a launch of it has. */
#define VYC_MOST_OF_ENTRY 16u
#define VYC_MOST_ENTRY_ARRAYS 16u
/* The number of the kernel whose name parameter `index` of an entry has; UINT32_MAX: there is no
 * such kernel, or it is an entry itself. */
uint32_t vyc__bundle_member(const vyc_bundle *bundle, const vyc_disk_kernel *entry, uint32_t index);

static inline const void *vyc__bundle_row(const vyc_bundle *bundle, uint32_t kind, uint32_t index,
                                          size_t row_bytes) {
  return (const uint8_t *)bundle->tables[kind].rows + (size_t)index * row_bytes;
}
/* Whether the kernel is an entry for many launches as one. */
static inline bool vyc__bundle_is_entry(const vyc_bundle *bundle, uint32_t index) {
  const vyc_disk_kernel *row = vyc__bundle_row(bundle, VYC_SECTION_KERNELS, index, sizeof *row);
  return (row->flags & VYC_KERNEL_ROWS) != 0;
}

uint32_t vyc__bundle_buffers(const vyc_bundle *bundle, const vyc_disk_kernel *kernel);

static inline const char *vyc__bundle_text(const vyc_bundle *bundle, vyc_disk_text text) {
  return (const char *)bundle->tables[VYC_SECTION_STRINGS].rows + text.offset;
}
static inline const void *vyc__bundle_data(const vyc_bundle *bundle, vyc_disk_data data) {
  if (data.bytes == 0) return NULL;
  return (const uint8_t *)bundle->tables[VYC_SECTION_DATA].rows + data.offset;
}
uint32_t vyc__type_bytes(uint32_t type);

/* ---- names.c ---- */

/* Rows of a table whose rows begin with their names. */
typedef struct vyc_names {
  const char *what; /* a row is, in messages */
  uint32_t kind;
  size_t row_bytes;
  vyc_disk_range range;
  /* Whether messages list the row; NULL: they list all. */
  bool (*is_listed)(const vyc_bundle *bundle, uint32_t row);
} vyc_names;

/* The number in the range of the row with this name. VYC_E_INVALID: there is none; the message
 * lists those that there are. */
vyc_status vyc__bundle_find(const vyc_bundle *bundle, uint32_t *index_out, const char *name,
                            const vyc_names *names);
/* The number of a kernel or worker, which the caller then has to tell apart. In the message for an
 * unknown name are only kernels or only workers, without those that the compiler added for them. */
vyc_status vyc__bundle_find_kernel(const vyc_bundle *bundle, uint32_t *index_out, const char *name);
vyc_status vyc__bundle_find_worker(const vyc_bundle *bundle, uint32_t *index_out, const char *name);

/* ---- geometry.c ---- */

/* The most parameters of a kernel and steps of one expression. */
#define VYC_MOST_PARAMETERS 256u
#define VYC_MOST_STEPS 256u
#define VYC_MOST_DEPTH 32u

/* Counts of the sized outs, by parameter, and the grid unless `grid` is NULL. */
vyc_status vyc__bundle_sizes(const vyc_bundle *bundle, uint64_t *counts_by_parameter,
                             const vyc_disk_kernel *kernel, const uint64_t *scalars);
vyc_status vyc__bundle_grid(const vyc_bundle *bundle, uint32_t grid[3],
                            const vyc_disk_kernel *kernel, const uint64_t *counts_by_parameter,
                            const uint64_t *scalars);
/* Whether the work or a size is made of this scalar. */
bool vyc__bundle_decides(const vyc_bundle *bundle, const vyc_disk_kernel *kernel, uint32_t slot);
/* Whether the kernel's ids can count the threads of a grid from the caller. */
vyc_status vyc__bundle_check_grid(const vyc_bundle *bundle, const vyc_disk_kernel *kernel,
                                  const uint32_t grid[3]);

#endif
