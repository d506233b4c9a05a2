/* Buffers, page-locked memory and copies.
 * Part of vyre_cuda.h, whose head has the rules for all functions. */
#ifndef VYRE_CUDA_MEMORY_H
#define VYRE_CUDA_MEMORY_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory --------------------------------------------------------------------------------- */

/* Device memory from the context's pool; the contents are unspecified, and `bytes` may be 0.
 * VYC_E_MEMORY: the message states the requested, live, idle and free bytes. */
VYC_API vyc_status vyc_buffer_alloc(vyc_buffer **buffer_out, vyc_context *context, uint64_t bytes);
/* Add a reference for another library that receives the address and must release it: the memory
 * stays valid until then, even after the context is closed. */
VYC_API vyc_status vyc_buffer_export(vyc_buffer *buffer);
/* May be called with work on the buffer in flight: the block is reused after that work. */
VYC_API void vyc_buffer_release(vyc_buffer *buffer);
/* vyc_buffer_alloc for callers that hold a lock of their own, like an interpreter's: it makes no
 * driver call and takes no lock. VYC_NOT_READY: this was not possible, and nothing was done; use
 * vyc_buffer_alloc. Buffers that a thread releases with vyc_buffer_try_release serve its next
 * allocations. */
VYC_API vyc_status vyc_buffer_try_alloc(vyc_buffer **buffer_out, vyc_context *context,
                                        uint64_t bytes);
/* vyc_buffer_release for such callers. VYC_NOT_READY: the caller still has the reference; use
 * vyc_buffer_release. */
VYC_API vyc_status vyc_buffer_try_release(vyc_buffer *buffer);
/* The CUdeviceptr, for other libraries; this library does not know about their work. */
VYC_API vyc_status vyc_buffer_address(vyc_buffer *buffer, uint64_t *address_out);
/* Wait for the work for which a copy of the buffer would wait, for at most timeout_ns, then
 * VYC_NOT_READY; negative: no limit. `host`: 1 for a copy from or to host memory, 0 for a fill or a
 * copy to another buffer. Failed checks are left to the copy. */
VYC_API vyc_status vyc_buffer_synchronize_for(vyc_buffer *buffer, uint32_t host,
                                              int64_t timeout_ns);
/* Work submitted to the stream (NULL: in call order) from now on waits for all work on the buffer.
 * If the stream is being captured, it cannot wait, so the caller waits instead. */
VYC_API vyc_status vyc_buffer_order(vyc_buffer *buffer, vyc_stream *stream);

enum { /* vyc_foreign_memory.flags */
       VYC_FOREIGN_READ_ONLY = 1u /* nothing here may write to it: VYC_E_INVALID */
};

typedef struct vyc_foreign_memory {
  uint32_t struct_size;
  uint32_t flags; /* VYC_FOREIGN_... */
  uint64_t address;
  uint64_t bytes; /* may be 0; the address is not looked at then */
  vyc_stream *source;
  void (*drop)(void *owner);
  void *owner;
} vyc_foreign_memory;

/* Device memory of another library as a buffer. Each use runs after earlier work on `source`, the
 * stream on which its owner works, and later work on that stream waits for the use; NULL: no order.
 * `drop`, unless NULL, is called once with `owner` after the last reference is gone, by any thread
 * and in any state of the context, but never if this function fails. VYC_E_INVALID: not memory of
 * this device. */
VYC_API vyc_status vyc_buffer_adopt(vyc_buffer **buffer_out, vyc_context *context,
                                    const vyc_foreign_memory *memory);
/* The memory of `of`, a buffer of another context, as a buffer of this one, which holds it: kernels
 * of this context can take it. Each use runs after the work that the other context has been given
 * on the memory, and the other context's later work on it after the use. VYC_E_INVALID: this
 * context was not given access by vyc_context_enable_peer. */
VYC_API vyc_status vyc_buffer_adopt_peer(vyc_buffer **buffer_out, vyc_context *context,
                                         vyc_buffer *of);
/* 1 if it was adopted as read-only. */
VYC_API vyc_status vyc_buffer_is_read_only(vyc_buffer *buffer, uint32_t *read_only_out);

/* Copies and fills run in call order, after all work on their buffers on any stream. Ranges are in
 * bytes; one that does not fit in its buffer is VYC_E_INVALID, as is a write to read-only memory.
 *
 * Copy to a buffer. `data` has been read when it returns, and may be NULL if `bytes` is 0. */
VYC_API vyc_status vyc_copy_in(vyc_buffer *to, uint64_t offset, const void *data, uint64_t bytes);
/* Copy from a buffer. The bytes have arrived when it returns, also with VYC_E_ASSERT, which is as
 * for vyc_context_synchronize; `data_out` is not used after that, and may be NULL if `bytes` is 0.
 */
VYC_API vyc_status vyc_copy_out(vyc_buffer *from, uint64_t offset, void *data_out, uint64_t bytes);
/* The most bytes for vyc_copy_try_in and vyc_copy_try_out. */
enum { VYC_TRY_BYTES = 16384 };
/* vyc_copy_in for callers that hold a lock of their own: it takes no lock, and waits at most
 * timeout_ns, which must not be negative, for work on other streams. VYC_NOT_READY: this was not
 * possible, and nothing was copied; use vyc_copy_in. */
VYC_API vyc_status vyc_copy_try_in(vyc_buffer *to, uint64_t offset, const void *data,
                                   uint64_t bytes, int64_t timeout_ns);
/* vyc_copy_out for such callers; it waits at most timeout_ns, which must not be negative, for work
 * on other streams, and as long for the bytes. VYC_NOT_READY: this was not possible, and data_out
 * was not written; use vyc_copy_out. */
VYC_API vyc_status vyc_copy_try_out(vyc_buffer *from, uint64_t offset, void *data_out,
                                    uint64_t bytes, int64_t timeout_ns);
/* Copy between buffers, without a wait; both may be released at once. Ranges of one context may
 * overlap. The buffers may also be of two contexts of one driver: then the copy is ordered with the
 * work of both on their buffers, runs in call order of `to`'s, and goes from memory to memory where
 * the devices can reach each other's, else by way of the host, which is the driver's choice; the
 * ranges may not overlap. VYC_E_INVALID: the buffers belong to two drivers. */
VYC_API vyc_status vyc_copy(vyc_buffer *to, uint64_t to_offset, vyc_buffer *from,
                            uint64_t from_offset, uint64_t bytes);
/* Set the bytes to 0, without a wait. */
VYC_API vyc_status vyc_fill_zero(vyc_buffer *to, uint64_t offset, uint64_t bytes);
/* Fill with elements of element_bytes (1, 2 or 4), each the low bytes of `value`, without a wait.
 * `offset` and `bytes` are multiples of element_bytes. */
VYC_API vyc_status vyc_fill(vyc_buffer *to, uint64_t offset, uint32_t value, uint32_t element_bytes,
                            uint64_t bytes);

/* Copies and fills in the order of a stream, as a launch there, and without a wait. Everything must
 * belong to one context, ranges are checked, and everything may be released at once. VYC_E_INVALID
 * also: the stream is being captured.
 *
 * Copy from page-locked memory to a buffer. The memory must not change until the stream has done
 * the copy (vyc_stream_synchronize, an event). */
VYC_API vyc_status vyc_stream_copy_in(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset,
                                      vyc_pinned *from, uint64_t from_offset, uint64_t bytes);
/* Copy from a buffer to page-locked memory, which has the bytes when the stream has done the copy.
 */
VYC_API vyc_status vyc_stream_copy_out(vyc_stream *stream, vyc_pinned *to, uint64_t to_offset,
                                       vyc_buffer *from, uint64_t from_offset, uint64_t bytes);
/* Copy between buffers; the ranges may not overlap. */
VYC_API vyc_status vyc_stream_copy(vyc_stream *stream, vyc_buffer *to, uint64_t to_offset,
                                   vyc_buffer *from, uint64_t from_offset, uint64_t bytes);
/* Fill as vyc_fill does. */
VYC_API vyc_status vyc_stream_fill(vyc_stream *stream, vyc_buffer *to, uint64_t offset,
                                   uint32_t value, uint32_t element_bytes, uint64_t bytes);

typedef struct vyc_transfer {
  vyc_buffer *buffer;
  uint64_t offset, bytes;
  const void *data; /* upload: from here */
  void *result; /* download: to here */
  vyc_pinned *pinned; /* whose memory that is: used in place where it is large; NULL: pageable */
  uint64_t reserved;
} vyc_transfer;

/* Many copies to buffers of the context with at most one wait for all, in call order. Everything is
 * checked before anything is copied; empty items are skipped. An upload copies its items in order,
 * so later bytes win; it returns when all data has been read, and, if other libraries know the
 * memory, has arrived. Neighboring ranges of a buffer are merged: for an upload consecutive items,
 * for a download any. The results of a download have arrived when it returns (VYC_E_ASSERT as for
 * vyc_copy_out). */
VYC_API vyc_status vyc_upload(vyc_context *context, const vyc_transfer *items, uint32_t count);
/* The same from the buffer to the `result` of each item. */
VYC_API vyc_status vyc_download(vyc_context *context, const vyc_transfer *items, uint32_t count);

/* Page-locked host memory that the device can read and write at its host address, from a pool like
 * that of device memory; the contents are unspecified, and bytes may be 0. After its release it is
 * reused after the work that is known to use it; a run knows by vyc_argument.pinned. Unlike
 * everything else it outlives a close: the memory, and with it the primary context, stay until it
 * is released. */
VYC_API vyc_status vyc_pinned_alloc(vyc_pinned **pinned_out, vyc_context *context, uint64_t bytes);
/* vyc_pinned_alloc for callers that can use ordinary memory instead: before it fails with
 * VYC_E_MEMORY, it does not take from prepared kernels what they keep for the host arrays of their
 * calls. */
VYC_API vyc_status vyc_pinned_try_alloc(vyc_pinned **pinned_out, vyc_context *context,
                                        uint64_t bytes);
/* Page-lock the caller's memory, which must stay valid until the release; the release waits for
 * work that is known to use it, and a close unlocks it. VYC_E_INVALID: it overlaps memory that is
 * already page-locked. VYC_E_UNSUPPORTED: the device would see it at another address. */
VYC_API vyc_status vyc_pinned_register(vyc_pinned **pinned_out, vyc_context *context, void *data,
                                       uint64_t bytes);
/* May be called with work on the memory in flight, and after a close; views of the memory become
 * invalid. */
VYC_API void vyc_pinned_release(vyc_pinned *pinned);
/* The address, which is the same on the host and the device, and valid until the release. Works in
 * every state of the context except in a forked child. */
VYC_API vyc_status vyc_pinned_data(vyc_pinned *pinned, void **data_out);

#ifdef __cplusplus
}
#endif
#endif
