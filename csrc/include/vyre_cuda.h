/* vyre_cuda: runs prepared kernels on NVIDIA GPUs through the CUDA driver, or on the emulator
 * through the same calls.
 *
 * A host in short. Every call returns a status; vyc_last_error has the message of a failure.
 *
 *   vyc_driver_open(&driver, NULL);                 libcuda.so.1, or the path of the emulator
 *   vyc_context_open(&context, driver, 0);          a device; _open_with: the host's own CUcontext
 *   vyc_bundle_open(&bundle, "k.vyre", NULL, 0);    kernels compiled by `vyre-cuda bundle`
 *   vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0);
 *   vyc_bundled_kernel_run(kernel, NULL, &run);     host arrays in, host arrays out
 *   vyc_bundled_kernel_release(kernel); ...         in any order
 *
 * Ways to run a kernel, from the quickest to write to the quickest to run:
 *
 *   host arrays     vyc_bundled_kernel_run, vyc_bundled_kernel_submit;
 *                   VYC_ARGUMENT_PINNED memory is used in place
 *   device buffers  vyc_buffer_alloc, vyc_copy_in, vyc_bundled_kernel_launch, vyc_copy_out
 *   bound calls     vyc_bundled_kernel_resolve, vyc_bundled_kernel_prepared, vyc_call_create,
 *                   vyc_call_run
 *   graphs          vyc_graph_create and vyc_graph_add_...; vyc_replay_load for those of a bundle
 *
 * Without a bundle, kernels come from PTX or a cubin: vyc_module_load and vyc_prepared_create, and
 * vyc_prepared_... in place of vyc_bundled_kernel_...
 *
 * What each status means, and what to do:
 *
 *   VYC_E_INVALID        a mistake in the calling code; nothing was done
 *   VYC_E_MEMORY         release something, or call vyc_context_trim, and try again
 *   VYC_E_ASSERT         a check of the program failed: see vyc_bundled_kernel_site,
 *                        vyc_replay_site
 *   VYC_E_TIMEOUT        the work continues; wait again or abandon it
 *   VYC_NOT_READY        not an error: the work has not finished
 *   VYC_E_UNAVAILABLE    there is no driver or device, or this context can no longer be used:
 *                        open another; or the worker is closed or paused
 *   VYC_E_LOST           no context on this device can be used any more in this process
 *   VYC_E_DRIVER         an error of the driver: vyc_error.driver_name
 *   VYC_E_UNSUPPORTED    this device or driver does not support it
 *   VYC_E_COMPILE        the driver refused the code
 *   VYC_E_FILE           the bundle cannot be read
 *   VYC_E_FORMAT         the file is not a valid bundle
 *   VYC_E_VERSION        the bundle has a newer format
 *   VYC_E_COMMUNICATION  release the communicator; results of its work are unspecified
 *   VYC_E_INTERNAL       no function returns it; a vyre::Error without a failure has it
 *
 * Rules for all functions:
 *  - They return vyc_status; on failure the calling thread's error record (vyc_last_error) says
 *    more. Besides the statuses named below, every function returns VYC_E_INVALID for an argument
 *    that is missing or out of range, and every function on a context, or on something made from
 *    it, may return VYC_E_UNAVAILABLE (closed, or a forked child), VYC_E_LOST, VYC_E_MEMORY and
 *    VYC_E_DRIVER.
 *  - Argument order: object, outputs, inputs (a size right after its array), options.
 *  - A pointer must not be NULL unless its function or field says what NULL means; `user` and
 *    `owner` are only passed on.
 *  - Time limits are nanoseconds: 0 looks once and does not wait, and a negative number is no
 *    limit. Functions that refuse negative numbers say so.
 *  - `T **x_out` gives the caller one reference, which vyc_x_release releases; on failure it is
 *    NULL. `const T *` is borrowed for the call. Releasing NULL is allowed. Children hold a counted
 *    reference to their parent, so any order of release is right. A handle of a closed context can
 *    still be released.
 *  - Structs that the caller allocates begin with `struct_size`, which the caller sets to sizeof;
 *    fields are only ever appended, and never more is written than the caller has room for. Enum
 *    values are never reused. Reserved fields are 0.
 *  - Every function may be called from any thread, also on the same object, and also while another
 *    thread closes the context. Releasing is the exception: a thread must not release a reference
 *    that another thread is using. The current CUDA context is left as found.
 *  - "In call order": work without a stream runs as if on one stream. Unless stated otherwise, a
 *    call does not use the caller's host memory after it has returned.
 *  - Callbacks of the caller must return: if a C++ exception or the end of its thread leaves one,
 *    the process is aborted, with a line on stderr. They must not longjmp.
 *  - The library stays in the process once it is loaded; dlclose only releases its handle.
 *  - A forked child may close and release what its parent opened; every other call on it returns
 *    VYC_E_UNAVAILABLE.
 *  - Runs, launches, bound calls, replays, copies and waits use at most 8 KiB of the caller's stack
 *    up to the driver's own function, for any kernel, and touch each page of that; all other calls
 *    use at most 32 KiB. The driver's own use is additional, and so is the thread's error record,
 *    which is thread-local static memory of 6 KiB. */
#ifndef VYRE_CUDA_H
#define VYRE_CUDA_H

/* In the order in which they are read. */
/* clang-format off */
#include "vyre_cuda/status.h"
#include "vyre_cuda/driver.h"
#include "vyre_cuda/context.h"
#include "vyre_cuda/telemetry.h"
#include "vyre_cuda/stream.h"
#include "vyre_cuda/memory.h"
#include "vyre_cuda/collective.h"
#include "vyre_cuda/kernel.h"
#include "vyre_cuda/notice.h"
#include "vyre_cuda/worker.h"
#include "vyre_cuda/graph.h"
#include "vyre_cuda/bundle.h"
#include "vyre_cuda/bundle_graph.h"
/* clang-format on */

#endif
