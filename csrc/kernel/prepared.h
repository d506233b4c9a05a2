/* A prepared kernel, immutable after creation: a function, its block, and the template of its
 * parameter block; and what it has for each stream on which it is launched. */
#ifndef VYC_KERNEL_PREPARED_H
#define VYC_KERNEL_PREPARED_H

#include <string.h>

#include "launch_graph.h"

#define VYC_MAX_PARAMETER_BYTES 32764u /* from PTX 8.1 on; the driver checks the lower limit */
#define VYC_MAX_BINDINGS 256

struct vyc_module {
  vyc_child child;
  CUmodule handle;
};

/* A parameter block for a launch without a graph. The prepared kernel keeps as many as there were
 * such launches at the same time. */
typedef struct vyc_spare {
  struct vyc_spare *next; /* of the prepared kernel; set once */
  _Atomic bool taken;
  uint8_t *block;
  void *pointers[];
} vyc_spare;

typedef struct vyc_submission vyc_submission; /* see submission/ */

/* A vyc_parameter in a third of the size. */
typedef struct vyc_block_parameter {
  uint16_t offset, index;
  uint8_t kind, size;
} vyc_block_parameter;
_Static_assert(VYC_MAX_PARAMETER_BYTES <= UINT16_MAX, "offsets and scalars fit");

/* A vyc_known; the names follow the last one. */
typedef struct vyc_known_value {
  uint64_t value;
  uint64_t mask; /* the bits that the kernel takes */
  const char *name;
  uint32_t index;
  uint8_t kind, type;
} vyc_known_value;

/* Where launches of a prepared kernel on one stream, or in one graph, report. */
typedef struct vyc_report_block {
  vyc_report report; /* first */
  vyc_block *block;
  struct vyc_report_block *next; /* of a graph */
} vyc_report_block;

/* What a prepared kernel has for launches on one stream. */
typedef struct vyc_on_stream {
  _Atomic(vyc_launch_graph *) launch_graph;
  _Atomic(vyc_report_block *) report;
  _Atomic(vyc_block *) barrier; /* grid barrier state */
} vyc_on_stream;

struct vyc_prepared {
  vyc_child child;
  /* What every launch reads is kept together. */
  const vyc_name *noted; /* see vyc__noted_as */
  uint32_t parameter_count, binding_count, scalar_count;
  uint32_t block[3];
  uint64_t plain_scalars; /* scalar_count; UINT64_MAX if there are known values, which no run has,
                             so that one comparison finds both a wrong count and that there is more
                             to compare */
  bool relaunches; /* a launch only has to launch its graph; drivers from CUDA 13 on need no current
                      context for that (observed) */
  bool may_overlap; /* written arguments may share bytes with others */
  bool has_report;
  bool prints;
  bool cooperative;
  bool has_barrier; /* the kernel takes the state of a grid barrier */
  vyc_block_parameter *parameters; /* few_parameters, if they fit there */
  vyc_binding *bindings; /* likewise */
  uint32_t written_count; /* bindings that must not overlap others */
  vyc_block_parameter few_parameters[12];
  vyc_binding few_bindings[5];
  uint8_t written[VYC_MAX_BINDINGS]; /* their numbers */
  /* The rest. */
  vyc_module *module;
  CUfunction function;
  _Atomic(CUfunction) several; /* or NULL; the two that follow were written before it */
  uint64_t several_from;
  uint32_t several_elements;
  _Atomic(vyc_module *) several_module; /* where `several` was added later, else NULL */
  vyc_name *called;
  const char *name; /* in messages: that of `called` */
  vyc_known_value *known;
  uint32_t known_count;
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t block_bytes; /* of memory for a parameter block, including what the launch log copies */
  uint64_t tag;
  vyc_claim pairing; /* for a thread that clears the barrier state and then launches */
  uint64_t most_blocks; /* resident at once, when cooperative */
  _Atomic(vyc_block *) captured; /* grid barrier state of captured launches, one each */
  _Atomic(vyc_submission *) submissions;
  _Atomic uint32_t submission_count;
  _Atomic uint64_t mean_wait_ns;
  vyc_on_stream near[VYC_NEAR_SLOTS];
  vyc_far far; /* of vyc_on_stream */
  _Atomic(vyc_spare *) spares; /* newest first */
};

/* ---- prepared.c ---- */

extern __attribute__((visibility("hidden"))) const vyc_child_kind vyc__prepared_kind;
/* What the prepared kernel has for the stream of a slot; NULL: nothing yet. */
static inline vyc_on_stream *vyc__on_stream(vyc_prepared *prepared, uint32_t slot) {
  return VYC_LIKELY(slot < VYC_NEAR_SLOTS)
             ? &prepared->near[slot]
             : vyc__far_entry(&prepared->far, slot, sizeof(vyc_on_stream));
}
/* The same, created if needed; NULL: out of host memory, which is recorded. */
vyc_on_stream *vyc__on_stream_make(vyc_prepared *prepared, uint32_t slot);
/* Visit every stream for which the prepared kernel has something, and possibly others. */
void vyc__on_each_stream(vyc_prepared *prepared,
                         void (*visit)(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot));
/* What vyc_prepared_create requires of a description on any device. */
vyc_status vyc__prepared_check(const vyc_prepared_desc *desc);

/* ---- known.c ---- */

/* What vyc_prepared_create requires of the known values of a description. */
vyc_status vyc__known_check(const vyc_prepared_desc *desc);
/* Copy them; `known` is freed with free. */
vyc_status vyc__known_copy(vyc_prepared *prepared, const vyc_prepared_desc *desc);
/* Whether the run, whose argument and scalar counts have been checked, has all of them. */
vyc_status vyc__known_compare(const vyc_prepared *prepared, const vyc_run *run);
/* Whether a prepared kernel with known values accepts the run; no failure is recorded. */
__attribute__((cold, noinline)) bool vyc__known_agrees(const vyc_prepared *prepared,
                                                       const vyc_run *run);

/* ---- parameters.c ---- */

/* Device addresses that come from no argument; 0 if the kernel takes none. */
typedef struct vyc_hidden {
  uint64_t report, barrier;
} vyc_hidden;
/* Write the parameter block: `addresses` has one entry per binding. */
void vyc__block_write(const vyc_prepared *prepared, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, const vyc_hidden *hidden);
/* The same for a run whose arguments are all buffers, into a block that was written before or is
 * zero. True: the block has changed. */
bool vyc__block_write_buffers(const vyc_prepared *prepared, uint8_t *block, const vyc_run *run,
                              const vyc_hidden *hidden);
/* Pointers to each parameter in a block, as the driver takes them. */
void vyc__block_pointers(const vyc_prepared *prepared, void **pointers, uint8_t *block);
/* A block for the caller alone until it is given back. NULL: out of host memory, which is recorded.
 */
vyc_spare *vyc__spare_take(vyc_prepared *prepared);
void vyc__spare_give(vyc_spare *spare);
/* To be called when the prepared kernel is not launched any more. */
void vyc__spares_free(vyc_prepared *prepared);

/* ---- module.c ---- */

/* VYC_E_INVALID: the module has none of this name. */
vyc_status vyc__module_function(vyc_module *module, CUfunction *function_out, const char *name);
vyc_status vyc__parameters_supported(const vyc_context *context);

/* ---- cooperative.c ---- */

#define VYC_BARRIER_BYTES 8u /* the state of a grid barrier: two words */

vyc_status vyc__cooperative_supported(const vyc_context *context, const char *what);
vyc_status vyc__cooperative_prepare(vyc_prepared *prepared, vyc_context *context);
vyc_status vyc__cooperative_check(const vyc_prepared *prepared, const uint32_t grid[3]);
/* Create the state if there is none, and clear it on the stream. */
vyc_status vyc__barrier_ready(vyc_context *context, vyc_block **block, CUstream stream);
/* The state for launches on one stream; address 0 if the prepared kernel needs none. */
vyc_status vyc__barrier_of(vyc_prepared *prepared, uint64_t *address_out,
                           const vyc_launch_stream *on);
/* To be called before each launch that uses the state; does nothing for address 0. */
vyc_status vyc__barrier_clear(vyc_context *context, uint64_t address, CUstream stream);
void vyc__barriers_release(vyc_prepared *prepared);
/* To be called around clearing the state and the launch that needs it cleared; they do nothing for
 * other prepared kernels. */
void vyc__cooperative_begin(vyc_prepared *prepared);
void vyc__cooperative_end(vyc_prepared *prepared);

/* ---- report_block.c ---- */

/* Creates a preset record in memory of its own; vyc__report_free undoes this. */
vyc_status vyc__report_block_make(vyc_report_block **block_out, vyc_prepared *prepared);
/* Where launches on the stream of a slot report; address 0 if the prepared kernel reports nothing.
 */
vyc_status vyc__report_of(vyc_prepared *prepared, uint64_t *address_out, uint32_t slot);
/* To be called when there are no more launches. */
void vyc__prepared_reports_end(vyc_prepared *prepared);

#endif
