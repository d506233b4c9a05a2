/* Modules, and kernels prepared for dispatch.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_KERNEL_H
#define VYRE_CUDA_KERNEL_H

#include <string.h>

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- modules -------------------------------------------------------------------------------- */

/* Load PTX text (NUL-terminated; `bytes` includes the NUL), a cubin or a fat binary. The image is
 * not kept. The driver's compiler writes its messages to `log_out` (NUL-terminated, at most
 * log_bytes; NULL: no log). VYC_E_INVALID: text without a NUL. VYC_E_COMPILE: the image was
 * refused. */
VYC_API vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes,
                                   vyc_context *context, const void *image, size_t bytes);
/* Prepared kernels hold their module. The last reference waits for running kernels, up to the
 * context's time limit; then the code is leaked. */
VYC_API void vyc_module_release(vyc_module *module);
/* The position of parameter `index` of a kernel in its parameter block, according to the driver; 0
 * bytes after the last. VYC_E_INVALID: no such kernel. VYC_E_UNSUPPORTED: the kernel exists, but
 * the driver (older than CUDA 12.4) cannot say. */
VYC_API vyc_status vyc_module_parameter(vyc_module *module, uint32_t *offset_out,
                                        uint32_t *bytes_out, const char *name, uint32_t index);
/* Compile PTX text (NUL-terminated; `bytes` includes the NUL) to an image for this device. The
 * caller owns *image_out: free(3). The log and statuses as for vyc_module_load. */
VYC_API vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out,
                                   size_t log_bytes, vyc_context *context, const void *ptx,
                                   size_t bytes);

/* The number of threads in a block with which most threads are resident, at most `limit` (0: the
 * device's limit), according to the driver. VYC_E_INVALID: no such kernel. */
VYC_API vyc_status vyc_module_block_size(vyc_module *module, uint32_t *threads_out,
                                         const char *name, uint32_t dynamic_shared_bytes,
                                         uint32_t limit);
/* The number of blocks of `threads` threads that are resident on a multiprocessor at the same time,
 * according to the driver; 0 if not even one fits. VYC_E_INVALID: no such kernel. */
VYC_API vyc_status vyc_module_resident_blocks(vyc_module *module, uint32_t *blocks_out,
                                              const char *name, uint32_t threads,
                                              uint32_t dynamic_shared_bytes);

typedef struct vyc_function_info {
  uint32_t struct_size;
  int32_t max_threads_per_block;
  int32_t registers; /* per thread */
  int32_t static_shared_bytes;
  int32_t local_bytes; /* per thread; spills live here */
  int32_t constant_bytes;
  int32_t ptx_version;
  int32_t binary_version;
  int32_t resident_blocks; /* per multiprocessor, at the prepared kernel's block and shared bytes */
  uint32_t reserved;
} vyc_function_info;

/* ---- kernels prepared for dispatch ---------------------------------------------------------- */

enum { /* vyc_parameter.kind: what goes into the kernel's parameter block */
       VYC_PARAMETER_POINTER = 1, /* address of binding `index` */
       VYC_PARAMETER_SCALAR = 2, /* scalar `index` */
       VYC_PARAMETER_SIZE = 3, /* element count of binding `index` */
       VYC_PARAMETER_REPORT = 4, /* address of the record of failed checks: four u64 (key, index,
                                    lock, reserved), the key preset to all ones, the others to 0 */
       VYC_PARAMETER_GRID_BARRIER =
           5 /* address of two u32 of device memory, 0 before the first launch */
};

typedef struct vyc_parameter {
  uint32_t kind;
  uint32_t index;
  uint32_t offset; /* bytes into the parameter block */
  uint32_t size; /* bytes */
  uint32_t reserved[2];
} vyc_parameter;

enum { /* vyc_binding.role */
       VYC_ROLE_IN = 1,
       VYC_ROLE_INOUT = 2,
       VYC_ROLE_OUT = 3
};

enum { /* vyc_binding.flags */
       VYC_BINDING_STREAMING =
           1u, /* each element is accessed about once, word by word: suited to zero-copy */
       /* An out whose elements are all written by launches that are large enough; before other
        * launches it is cleared. Unless one of the next two flags is set, a launch is large enough
        * if grid.x * block.x * n >= count, for the number n in the bits from
        * VYC_BINDING_ELEMENTS_SHIFT on; n = 0 means 1. */
       VYC_BINDING_COVERED = 2u,
       /* Loops over the grid write it: a launch is large enough if grid.x * block.x * n < 2^31, for
        * the same n, which can be 0. */
       VYC_BINDING_LOOPS = 4u,
       /* It has several axes. The numbers in bits 4 to 7, 8 to 11 and 12 to 15 are for x, y and z
        * of the launch, and for the last axis of the out, the one before, and the one before that:
        * a launch is large enough if its threads on each of these axes, times that number, are at
        * least the extent; 0 means that there is no condition. With VYC_BINDING_LOOPS, also
        * grid.x * block.x < 2^31. The bits from VYC_BINDING_ELEMENTS_SHIFT on are the position of
        * the last extent among the scalars; the others precede it. */
       VYC_BINDING_AXES = 8u,
       VYC_BINDING_ELEMENTS_SHIFT = 16u, /* the bits from here on, below VYC_BINDING_UNSPECIFIED */
       /* An out whose contents are unspecified where the kernel does not write: it is not cleared,
        * so a buffer keeps there what it holds. A run with host memory shows there what earlier
        * runs of this process left, or bytes of 0xA5; on the emulator always these. */
       VYC_BINDING_UNSPECIFIED = 0x40000000u
};

typedef struct vyc_binding {
  uint32_t role;
  uint32_t flags;
  uint32_t element_bytes;
  uint32_t sectors; /* the most sectors of 32 bytes that 32 consecutive threads access, either only
                     * loading or only storing, and without atomics; 0: unknown */
} vyc_binding;

enum { /* vyc_prepared_desc.flags */
       VYC_PREPARED_COOPERATIVE =
           1u, /* has grid barriers: all blocks must be resident, or VYC_E_UNSUPPORTED */
       VYC_PREPARED_MAY_OVERLAP = 2u, /* buffers that are written may share bytes with others */
       VYC_PREPARED_PRINTS = 4u /* the kernel calls vprintf: what it printed is shown by the end of
                                   a run, and by waits */
};

/* The name of an argument in messages about launches. */
typedef struct vyc_label {
  const char *name; /* NULL: nothing */
  uint32_t type; /* VYC_TYPE_... of the elements, or of the scalar; 0: not known */
  uint32_t reserved;
} vyc_label;

/* A value that the code was compiled for. */
typedef struct vyc_known {
  uint32_t kind; /* VYC_PARAMETER_SCALAR, or VYC_PARAMETER_SIZE: elements of a buffer */
  uint32_t index; /* as in vyc_parameter */
  uint32_t type; /* VYC_TYPE_... of a scalar; 0: not known, shown as a number */
  uint32_t reserved;
  uint64_t value; /* the bits of the scalar, or the number of elements */
  const char *name; /* in messages, such as "w" or "x.size" */
} vyc_known;

typedef struct vyc_prepared_desc {
  uint32_t struct_size;
  uint32_t block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t parameter_count;
  uint32_t binding_count;
  uint32_t scalar_count;
  uint32_t flags; /* VYC_PREPARED_... */
  const char *entry;
  const vyc_parameter *parameters;
  const vyc_binding *bindings;
  uint64_t tag; /* returned in vyc_error.tag */
  const char *name; /* the kernel's name in messages; NULL: `entry` */
  const vyc_label *labels; /* one for each binding, then one for each scalar; NULL: by position, as
                            * numbers */
  const vyc_known *known; /* each run must have these values, or it is refused with VYC_E_INVALID
                           * and a message that has both; NULL: there are none */
  uint32_t known_count;
  uint32_t several_elements; /* threads of `entry` whose work one thread of `several` does */
  /* Another entry of the module, with the same parameters and the same block, whose thread i of
   * block b does what the threads i + k * block.x, for k from 0, do in the b-th group of
   * several_elements blocks of `entry`. It is launched where a run has VYC_RUN_GRID_OF_WORK, at
   * least several_from and at most 2^30 threads along x, and no others. NULL: there is none */
  const char *several;
  uint64_t several_from;
} vyc_prepared_desc;

/* Look up the function and prepare its calls. `desc` and everything that it points to are copied;
 * the prepared kernel keeps the module. VYC_E_INVALID: the module has no such function, or a field
 * of `desc` is wrong. VYC_E_UNSUPPORTED: a cooperative kernel on a device without cooperative
 * launches. */
VYC_API vyc_status vyc_prepared_create(vyc_prepared **prepared_out, vyc_module *module,
                                       const vyc_prepared_desc *desc);
/* Give a prepared kernel without one the entry vyc_prepared_desc.several, of any module of the
 * context, which the prepared kernel keeps; so it can be compiled when it is first needed. It is
 * for runs and launches that begin after this; calls and steps of graphs keep what they are
 * launched with until they get another grid. VYC_E_INVALID: it already has one, or the module has
 * no such function. */
VYC_API vyc_status vyc_prepared_add_several(vyc_prepared *prepared, vyc_module *module,
                                            const char *entry, uint32_t elements, uint64_t from);
/* The last reference waits for runs in flight, up to the context's time limit; a run that has not
 * ended by then is leaked, with everything that it uses. Tickets and calls hold a reference. */
VYC_API void vyc_prepared_release(vyc_prepared *prepared);
/* What the driver knows about the kernel. */
VYC_API vyc_status vyc_prepared_function(vyc_prepared *prepared, vyc_function_info *info_out);

enum { /* vyc_argument.kind */
       VYC_ARGUMENT_HOST = 1, /* pageable memory: staged */
       VYC_ARGUMENT_PINNED = 2, /* page-locked memory: used in place */
       VYC_ARGUMENT_BUFFER = 3 /* device memory */
};

typedef struct vyc_argument {
  uint32_t kind;
  uint32_t reserved0;
  uint64_t count; /* elements */
  const void *data; /* HOST, PINNED: input; NULL for an out; PINNED: aligned to the element */
  void *result; /* HOST, PINNED: where the output goes; NULL for an in; PINNED: aligned, too */
  vyc_buffer *buffer; /* BUFFER */
  uint64_t offset; /* BUFFER: bytes; elements are aligned there */
  vyc_pinned *pinned; /* PINNED: held until the run has ended; NULL: the caller keeps the memory */
  uint64_t reserved1;
} vyc_argument;

typedef struct vyc_timing {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t wall_ns;
  uint64_t enqueue_ns; /* staging and launch */
  uint64_t wait_ns;
  uint64_t device_ns; /* between events right around the kernel */
} vyc_timing;

/* Count work that the host timed itself, for example with vyc_graph_launch_between, as a timed
 * call. */
VYC_API vyc_status vyc_context_count_timing(vyc_context *context, const vyc_timing *timing);

enum { /* vyc_run.flags */
       VYC_RUN_GRID_OF_WORK = 1u /* the grid is what the kernel's work needs: it may be launched as
                                    fewer blocks that do the same (vyc_prepared_desc.several) */
};

typedef struct vyc_run {
  uint32_t struct_size;
  uint32_t grid[3];
  uint32_t argument_count;
  uint32_t scalar_count;
  const vyc_argument *arguments; /* one per binding, in order */
  const uint64_t *scalars; /* the bits of each scalar, in order */
  vyc_stream *stream; /* NULL: the context's own order */
  int64_t timeout_ns; /* of a run's wait: 0 does not wait, negative: no limit; launches ignore it */
  vyc_timing *timing_out; /* or NULL */
  uint32_t
      iterations; /* of the kernel, each on what the previous one left; 0 means 1. Host runs only */
  uint32_t origin; /* the place of the launch, from vyc_origin_add; 0: none */
  /* NULL, or a number for each argument. Where the number of an input in host memory is not 0 and
   * the same as in an earlier run of the kernel, its bytes must be those of that run; they are then
   * not copied to the device again if they are still there. Host runs only */
  const uint64_t *contents;
  uint32_t flags; /* VYC_RUN_... */
  uint32_t reserved;
} vyc_run;

/* The bits of a float for vyc_run.scalars; those of an integer are its value, cast. */
static inline uint64_t vyc_bits_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
/* The bits of a double for vyc_run.scalars. */
static inline uint64_t vyc_bits_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* VYC_E_INVALID, with the message, for a run that vyc_prepared_run would refuse for its arguments.
 * Starts nothing, and works in every state of the context. VYC_E_UNSUPPORTED: a cooperative kernel
 * with more blocks than the device holds at once. */
VYC_API vyc_status vyc_prepared_check(vyc_prepared *prepared, const vyc_run *run);
/* Host or mixed arguments in, results out: stage, launch, wait, collect. With only host arguments
 * and no stream it may overlap other work; otherwise it runs in the order of its stream. A buffer
 * that is written may not share bytes with another argument. A grid of 0 launches nothing, and outs
 * are zero. VYC_E_TIMEOUT: the run continues, and *ticket_out, otherwise NULL, owns it; if
 * ticket_out is NULL, the run is abandoned. If *ticket_out is NULL even so, 64 runs of the prepared
 * kernel were in flight and this one was not started. VYC_E_ASSERT: a check failed, and no result
 * was written. After another failure while waiting, the results are lost. PINNED memory belongs to
 * the run until the run has ended. VYC_E_INVALID and VYC_E_UNSUPPORTED as for vyc_prepared_check;
 * VYC_E_INVALID also: the stream is being captured. */
VYC_API vyc_status vyc_prepared_run(vyc_prepared *prepared, vyc_ticket **ticket_out,
                                    const vyc_run *run);
/* vyc_prepared_run without the wait; timing_out is ignored. Inputs may change when it returns,
 * except PINNED ones. Result memory must live until the ticket is finished or released. It waits
 * only if 64 runs of the prepared kernel are in flight, for at most timeout_ns; then VYC_E_TIMEOUT,
 * and nothing was started. */
VYC_API vyc_status vyc_prepared_submit(vyc_prepared *prepared, vyc_ticket **ticket_out,
                                       const vyc_run *run);
/* VYC_OK: finished, and the results are in place. VYC_NOT_READY: not yet. Otherwise the status with
 * which the run failed, at every call. A finished ticket works in every state of the context. */
VYC_API vyc_status vyc_ticket_query(vyc_ticket *ticket);
/* The same after waiting at most timeout_ns; negative: no limit. Several threads may wait for one
 * ticket. */
VYC_API vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns);
/* The times of a finished run of vyc_prepared_run with timing_out whose wait ended early.
 * VYC_NOT_READY: not finished yet. VYC_E_INVALID: the run had no timing_out. */
VYC_API vyc_status vyc_ticket_timing(vyc_ticket *ticket, vyc_timing *timing_out);
/* An unfinished run is abandoned: it continues, but nothing more is written to its HOST results.
 * The kernel still uses PINNED memory and buffers. */
VYC_API void vyc_ticket_release(vyc_ticket *ticket);

/* Asynchronous launch on buffers, in the order of its stream; timeout_ns and timing_out are
 * ignored. The buffers may be released at once. Errors in the kernel are reported by the next wait.
 * VYC_E_INVALID and VYC_E_UNSUPPORTED as for vyc_prepared_check, and VYC_E_INVALID for an argument
 * that is not a buffer. */
VYC_API vyc_status vyc_prepared_launch(vyc_prepared *prepared, const vyc_run *run);

/* Launches of one kernel that do not depend on each other. */
typedef struct vyc_rows {
  uint32_t struct_size;
  uint32_t count; /* of launches */
  uint32_t argument_count; /* of each */
  uint32_t scalar_count; /* of each */
  const vyc_argument *arguments; /* of the first launch, then of the second, and so on */
  const uint64_t *scalars; /* likewise */
  const uint32_t *grids; /* likewise: three for each launch; with a 0 among them it has no blocks */
  vyc_stream *stream; /* NULL: the context's own order */
  uint32_t origin; /* as in vyc_run */
  uint32_t flags; /* VYC_RUN_..., of all */
  /* NULL, or a kernel and its entry for many launches, by which outs that must be cleared are
   * cleared where they are many: one launch instead of a memset each. It writes 0 to its one
   * binding, of elements of 4 bytes, with a thread for each element along x, and has no scalars. */
  vyc_prepared *clearing, *many_clearing;
} vyc_rows;

/* The same as vyc_prepared_launch for each row, in one launch. `many` is another entry of the same
 * kernel, with the same block, whose blocks find the row that they are of in a table in device
 * memory. Its binding is the table (VYC_ROLE_IN, of 16 bytes), and its five scalars, of 32 bits,
 * are the number of rows, the blocks of each row if all have the same number, else 0, a scale, a
 * shift, and 1 if all blocks are along x, else 0. The table has, for each launch with blocks, four
 * u32 (the number of its first block, and its grid) and the parameter block of `prepared`, without
 * hidden addresses, rounded up to 16 bytes. Blocks are numbered along x. If all rows have as many,
 * block * scale >> shift is the row; else the table ends with two u32 for each group of 2^shift
 * blocks: the rows of the first and the last block of the group. If `many` has `several` (see
 * vyc_prepared_desc), and the rows have VYC_RUN_GRID_OF_WORK and enough blocks, that is launched,
 * and what is said of grids and blocks above is about several_elements times fewer blocks along x.
 * If `many` is NULL, for kernels with checks or grid barriers, and while the stream is being
 * captured, the rows are launched one after the other. VYC_E_INVALID, before anything is launched:
 * a row that vyc_prepared_launch would refuse, or two rows that share memory that one of them
 * writes; the message has their numbers, from 0. After another failure some rows may have been
 * launched. */
VYC_API vyc_status vyc_prepared_launch_many(vyc_prepared *prepared, vyc_prepared *many,
                                            const vyc_rows *rows);

/* A launch with bound arguments, in its own graph. The call holds the prepared kernel, the stream
 * and the buffers. vyc_call_run launches it as vyc_prepared_launch would; vyc_call_set binds other
 * arguments, all at once and between launches, on the same stream. */
VYC_API vyc_status vyc_call_create(vyc_call **call_out, vyc_prepared *prepared, const vyc_run *run);
/* Bind other arguments for the next launches. VYC_E_INVALID: another stream, or as for
 * vyc_prepared_launch; then the previous arguments stay bound. */
VYC_API vyc_status vyc_call_set(vyc_call *call, const vyc_run *run);
/* Launch; errors in the kernel are reported by the next wait. */
VYC_API vyc_status vyc_call_run(vyc_call *call);
/* The same, from an origin of vyc_origin_add. */
VYC_API vyc_status vyc_call_run_at(vyc_call *call, uint32_t origin);
/* vyc_call_set and vyc_call_run in one. If the launch fails, the arguments are bound all the same.
 * If the same few sets of arguments recur, a call for each is faster, because nothing is patched
 * then. */
VYC_API vyc_status vyc_call_set_run(vyc_call *call, const vyc_run *run);
/* May be called with launches in flight. */
VYC_API void vyc_call_release(vyc_call *call);

#ifdef __cplusplus
}
#endif
#endif
