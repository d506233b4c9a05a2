/* Bundles: compiled programs in a file.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_BUNDLE_H
#define VYRE_CUDA_BUNDLE_H

#include "worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- bundles: compiled programs in a file --------------------------------------------------- */

/* The newest format that this library reads; it reads all before it, too. `vc.bundle` writes the
 * oldest format that has what the bundle needs. */
#define VYC_BUNDLE_FORMAT 7u

typedef struct vyc_bundle vyc_bundle;
typedef struct vyc_bundled_kernel vyc_bundled_kernel;

/* Read and check a bundle: the file `path`, or the `bytes` at `data`, which are copied; the other
 * of the two is NULL. Needs no driver. Everything in it is checked except the device code itself,
 * which runs with the rights of the process; so trust a bundle as you would trust a library.
 * VYC_E_FILE: the file cannot be read. VYC_E_FORMAT: not a bundle, truncated, damaged (the digest
 * differs) or inconsistent. VYC_E_VERSION: a newer format. VYC_E_MEMORY. */
VYC_API vyc_status vyc_bundle_open(vyc_bundle **bundle_out, const char *path, const void *data,
                                   size_t bytes);
/* Objects loaded from it hold their own references. */
VYC_API void vyc_bundle_release(vyc_bundle *bundle);

typedef struct vyc_bundle_info {
  uint32_t struct_size;
  uint32_t format_version;
  uint32_t producer; /* vyc_version of who wrote it */
  uint32_t kernel_count;
  uint32_t graph_count;
  uint32_t reserved;
  uint64_t bytes;
  uint8_t digest[32]; /* BLAKE2b-256 of the file with the digest as zeros */
} vyc_bundle_info;

/* The contents of the file's header. */
VYC_API vyc_status vyc_bundle_info_get(vyc_bundle *bundle, vyc_bundle_info *info_out);

enum { /* vyc_bundle_parameter.role, beside VYC_ROLE_IN, _INOUT and _OUT */
       VYC_ROLE_SCALAR = 4
};

enum { /* types of elements and scalars; a bool is a byte of 0 or 1, bf16 the upper half of f32 */
       VYC_TYPE_BOOL = 1,
       VYC_TYPE_U8 = 2,
       VYC_TYPE_I8 = 3,
       VYC_TYPE_U16 = 4,
       VYC_TYPE_I16 = 5,
       VYC_TYPE_U32 = 6,
       VYC_TYPE_I32 = 7,
       VYC_TYPE_U64 = 8,
       VYC_TYPE_I64 = 9,
       VYC_TYPE_F16 = 10,
       VYC_TYPE_BF16 = 11,
       VYC_TYPE_F32 = 12,
       VYC_TYPE_F64 = 13
};

enum { /* vyc_bundle_kernel.flags */
       VYC_KERNEL_WHOLE_PROGRAM = 1u, /* `program` has the body, not the signature alone */
       VYC_KERNEL_WORKER = 2u, /* the entry of a worker: see vyc_bundled_worker_load */
       /* The entry for many launches, as one, of the kernels whose names its scalars have: see
        * vyc_prepared_launch_many and, for several kernels, vyc_graph_add_tables. Behind these it
        * may have arrays, VYC_ROLE_IN or VYC_ROLE_INOUT, as in vyc_graph_add_tables_with. */
       VYC_KERNEL_ROWS = 4u,
       VYC_KERNEL_CLEARS = 8u /* vyc_rows.clearing for kernels of the bundle */
};

/* Texts and bytes that these structs point to live as long as the bundle. */
typedef struct vyc_bundle_kernel {
  uint32_t struct_size;
  uint32_t flags; /* VYC_KERNEL_... */
  const char *name; /* of the program; unique among the kernels of the bundle */
  const char *precision;
  const char *bounds;
  uint32_t block[3]; /* threads of a block */
  uint32_t index_bits; /* n: at most 2^n - 1 elements per buffer, 2^n threads per axis; 31, 32, 63
                          or 64, of which 31 and 63 mean that ids and sizes are signed */
  uint32_t axes; /* for which the work is known; 0: each call brings a grid */
  uint32_t parameter_count;
  uint32_t buffer_count;
  uint32_t scalar_count;
  uint32_t variant_count;
  uint32_t known_count; /* values that it was compiled for, see vyc_bundle_known_get */
  const void *program; /* wire bytes for vc.Program.from_bytes */
  uint64_t program_bytes;
  uint8_t fingerprint[32]; /* vc.Program.fingerprint of the whole program */
  double max_ulp; /* what it was compiled with; 0: left to the precision */
} vyc_bundle_kernel;

/* Kernel `index`, in the order of their names. VYC_E_INVALID after the last. */
VYC_API vyc_status vyc_bundle_kernel_get(vyc_bundle *bundle, vyc_bundle_kernel *kernel_out,
                                         uint32_t index);
/* The number of a kernel. VYC_E_INVALID: none has this name; the message lists those that exist,
 * without those that were added for others, such as VYC_KERNEL_ROWS. */
VYC_API vyc_status vyc_bundle_kernel_find(vyc_bundle *bundle, uint32_t *index_out,
                                          const char *name);

typedef struct vyc_bundle_parameter {
  uint32_t struct_size;
  uint32_t role; /* VYC_ROLE_... */
  const char *name;
  uint32_t type; /* VYC_TYPE_... */
  uint32_t element_bytes;
  uint32_t slot; /* its number among the buffers (vyc_run.arguments) or among the scalars */
  uint32_t is_sized; /* 1: the size of an out follows from the other arguments, such as its
                        extents; so do the size that an in or inout must have, and the value of an
                        extent */
} vyc_bundle_parameter;

/* Parameter `index`, in declared order, of a kernel. The extents of buffers that are declared with
 * several axes follow, axis by axis: scalars with names such as "x.0", which each call passes.
 * VYC_E_INVALID: no such kernel or parameter. */
VYC_API vyc_status vyc_bundle_parameter_get(vyc_bundle *bundle, vyc_bundle_parameter *parameter_out,
                                            uint32_t kernel, uint32_t index);

/* Value `index` that a kernel was compiled for: every run of it must have this one. The name is
 * borrowed from the bundle. VYC_E_INVALID: no such kernel or value. */
VYC_API vyc_status vyc_bundle_known_get(vyc_bundle *bundle, vyc_known *known_out, uint32_t kernel,
                                        uint32_t index);

/* The code of a kernel for one GPU generation, in ascending order. */
typedef struct vyc_bundle_variant {
  uint32_t struct_size;
  uint32_t sm; /* 90: sm_90; PTX also runs on what is newer */
  uint32_t ptx_version; /* major * 10 + minor */
  uint32_t is_cooperative;
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  uint32_t entry_count; /* rows of `entries` */
  uint32_t site_count;
  const char *entry; /* name of the function */
  const vyc_parameter *entries; /* as in vyc_prepared_desc.parameters */
  const vyc_binding *bindings; /* as in vyc_prepared_desc.bindings, one per buffer */
  const char *ptx; /* NUL-terminated */
  uint64_t ptx_bytes; /* with the NUL */
  const void *cubin; /* NULL: there is PTX alone */
  uint64_t cubin_bytes;
  uint32_t shared_bytes; /* of a block, dynamic_shared_bytes among them */
  uint32_t prints; /* see VYC_PREPARED_PRINTS */
} vyc_bundle_variant;

/* Variant `index` of a kernel. VYC_E_INVALID: no such kernel or variant. */
VYC_API vyc_status vyc_bundle_variant_get(vyc_bundle *bundle, vyc_bundle_variant *variant_out,
                                          uint32_t kernel, uint32_t index);

enum { /* vyc_site.kind */
       VYC_SITE_ASSERT = 1, /* an assertion of the program */
       VYC_SITE_BOUNDS = 2 /* a check of an index */
};

/* A place of a program whose failure is reported by its number. */
typedef struct vyc_site {
  uint32_t struct_size;
  uint32_t kind; /* VYC_SITE_... */
  const char *message;
  const char *buffer; /* of a bounds check, else "" */
  const char *file; /* "": not known */
  uint32_t line;
  uint32_t statement; /* its number in the program, in pre-order from 0 */
} vyc_site;

/* Site `index` of a variant. VYC_E_INVALID: no such kernel, variant or site. */
VYC_API vyc_status vyc_bundle_site_get(vyc_bundle *bundle, vyc_site *site_out, uint32_t kernel,
                                       uint32_t variant, uint32_t index);

/* Write the extents of a call that follow from the other arguments, those of is_sized parameters,
 * into `scalars`, which has the bits of each scalar and the other extents. `counts` has the number
 * of elements of every in and inout. With these extents the outs have their declared shapes.
 * VYC_E_INVALID: an extent that is negative or too large; the message has the number. */
VYC_API vyc_status vyc_bundle_extents(vyc_bundle *bundle, uint64_t *scalars, uint32_t kernel,
                                      const uint64_t *counts);

/* The sizes of the outs and the grid of a call, computed as in Python. `counts` has the number of
 * elements of every buffer: given for in and inout, and for an out that is not is_sized; written
 * for the sized outs. `grid_out`, unless NULL, is the number of blocks, all 0 if there is nothing
 * to do. `scalars` has the bits of each scalar and extent. VYC_E_INVALID: a size or grid that is
 * negative or too large, an argument or extent that is not as declared, or grid_out for a kernel
 * whose calls provide the grid; the message has the numbers. */
VYC_API vyc_status vyc_bundle_shape(vyc_bundle *bundle, uint64_t *counts, uint32_t grid_out[3],
                                    uint32_t kernel, const uint64_t *scalars);

/* A kernel of a bundle, loaded on a device: the cubin for its GPU generation, or else the PTX of
 * the newest generation that it supports, which the driver compiles (its messages go to log_out, as
 * for vyc_module_load). If the driver refuses a cubin or PTX, the next one is tried. `tag` is
 * returned in vyc_error.tag. The kernel holds the bundle and the context. VYC_E_INVALID: no kernel
 * of this name. VYC_E_UNSUPPORTED: the bundle has no code that this device can run, or its entry
 * for many launches was made for another kernel or GPU generation; or the name is that of a worker,
 * or of an entry for many launches, which is loaded with its kernels. VYC_E_COMPILE: the driver
 * refused everything. */
VYC_API vyc_status vyc_bundled_kernel_load(vyc_bundled_kernel **kernel_out, char *log_out,
                                           size_t log_bytes, vyc_context *context,
                                           vyc_bundle *bundle, const char *name, uint64_t tag);
/* As vyc_prepared_release, also for the kernels that were loaded with it. */
VYC_API void vyc_bundled_kernel_release(vyc_bundled_kernel *kernel);

typedef struct vyc_bundled_kernel_info {
  uint32_t struct_size;
  uint32_t kernel; /* its number in the bundle */
  uint32_t variant; /* which was loaded */
  uint32_t is_cubin; /* 1: machine code; 0: PTX that the driver compiled */
  uint32_t has_many; /* 1: with its entry for many launches, see vyc_bundled_kernel_launch_many */
  uint32_t reserved;
} vyc_bundled_kernel_info;

/* Works in every state of the context. */
VYC_API vyc_status vyc_bundled_kernel_info_get(vyc_bundled_kernel *kernel,
                                               vyc_bundled_kernel_info *info_out);
/* The prepared kernel, for vyc_call_create, vyc_graph_add_launch and vyc_prepared_function: an
 * additional reference, to be released with vyc_prepared_release. A prepared kernel does not know
 * its work, and a grid of zeros launches nothing: complete its runs with
 * vyc_bundled_kernel_resolve. */
VYC_API vyc_status vyc_bundled_kernel_prepared(vyc_bundled_kernel *kernel,
                                               vyc_prepared **prepared_out);
/* Complete a run: a grid of zeros becomes the grid of the work. VYC_E_INVALID: a wrong number of
 * arguments or scalars, a wrong count of a sized out, or as for vyc_bundle_shape. */
VYC_API vyc_status vyc_bundled_kernel_resolve(vyc_bundled_kernel *kernel, vyc_run *run);
/* vyc_prepared_run with a copy of the run that is completed as by vyc_bundled_kernel_resolve. */
VYC_API vyc_status vyc_bundled_kernel_run(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                          const vyc_run *run);
/* vyc_prepared_submit, likewise. */
VYC_API vyc_status vyc_bundled_kernel_submit(vyc_bundled_kernel *kernel, vyc_ticket **ticket_out,
                                             const vyc_run *run);
/* vyc_prepared_launch, likewise. */
VYC_API vyc_status vyc_bundled_kernel_launch(vyc_bundled_kernel *kernel, const vyc_run *run);
/* vyc_prepared_launch_many with the kernel's entry for many launches, if the bundle has it
 * (`many=` of vc.bundle); else the rows are launched one after the other. Every row is completed
 * as by vyc_bundled_kernel_resolve; `grids` may be NULL: by the kernel's work. If `clearing` and
 * `many_clearing` are NULL, they are those of the bundle. VYC_E_INVALID: as
 * vyc_prepared_launch_many and vyc_bundled_kernel_resolve; the message has the number of the row.
 */
VYC_API vyc_status vyc_bundled_kernel_launch_many(vyc_bundled_kernel *kernel, const vyc_rows *rows);
/* The entry for many launches of the kernel, the kernel that clears outs before them and its entry,
 * for vyc_prepared_launch_many and vyc_graph_add_rows: additional references, or NULL for what the
 * bundle does not have. Each of the three pointers may be NULL. */
VYC_API vyc_status vyc_bundled_kernel_many(vyc_bundled_kernel *kernel, vyc_prepared **many_out,
                                           vyc_prepared **clearing_out,
                                           vyc_prepared **many_clearing_out);
/* The check that a VYC_E_ASSERT with this kernel's tag reports, from vyc_error.report.
 * VYC_E_INVALID: the kernel has no such site. */
VYC_API vyc_status vyc_bundled_kernel_site(vyc_bundled_kernel *kernel, vyc_site *site_out,
                                           uint64_t report);

/* The worker `name` of a bundle on a device. Its kernels are loaded too, and written to
 * `kernels_out`, by their numbers in the worker, which is the order that vc.bundle was given; they
 * complete the runs of vyc_worker_run (vyc_bundled_kernel_resolve), and each is to be released.
 * `desc` has what vyc_worker_create takes, except for kernels and `clearing`, which are ignored.
 * VYC_E_INVALID: no worker of this name, or it does not have `kernel_count` kernels.
 * VYC_E_UNSUPPORTED: another version wrote it, whose workers take other calls. Else as
 * vyc_bundled_kernel_load and vyc_worker_create. */
VYC_API vyc_status vyc_bundled_worker_load(vyc_worker **worker_out,
                                           vyc_bundled_kernel **kernels_out, uint32_t kernel_count,
                                           vyc_context *context, vyc_bundle *bundle,
                                           const char *name, const vyc_worker_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
