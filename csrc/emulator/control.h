/* How tests steer the emulator: exported beside the driver functions. csrc proper calls only
 * vyre_emulator_unspecified and vyre_emulator_temporary_like.
 *
 * All functions are thread-safe and act on the whole process. Each returns 0, or -1 for a key or
 * call name that does not exist. */
#ifndef VYRE_EMULATOR_CONTROL_H
#define VYRE_EMULATOR_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of vyre_emulator_set:
 *   "stream_mode"   0 eager: work runs inside the enqueuing call; 1 threaded: one thread a stream
 *                   (default); 2 lazy: nothing runs until a thread waits on or queries the stream
 *   "memory_limit"  bytes that cuMemAlloc hands out before CUDA_ERROR_OUT_OF_MEMORY
 *   "host_limit"    the same for cuMemHostAlloc
 *   "quarantine_bytes" bytes of freed memory that stay poisoned and are not given out again yet
 *   "delay_us"      microseconds that every stream operation waits before it runs
 *   "held"          1: no stream operation begins until this is 0 again
 *   "driver_version" what cuDriverGetVersion answers and which functions and PTX versions exist
 *   "device_count"  0 to 8; at first VYRE_CUDA_EMULATOR_DEVICES, or 1
 *   "peer_access"   0: no device can be given access to the memory of another one
 *   "queue_depth"   n: launches of kernels and graphs wait while their stream has so much work; 0:
 *                   they never wait
 *   "refuse_line"   n: PTX is refused with a log that names this line, as ptxas words it; 0: none
 *   "lost"          1: every later call fails as after a sticky fault (CUDA_ERROR_LAUNCH_FAILED),
 * on all devices */
int vyre_emulator_set(const char *key, int64_t value);

/* The n-th call (1 = next) of a driver function fails with `result`; `repeat` != 0: all later ones
 * too. The call has no effect when it fails. */
int vyre_emulator_fail(const char *function, uint64_t nth, int32_t result, int32_t repeat);

/* Faults, limits and modes back to their defaults. Live objects stay. */
int vyre_emulator_reset(void);

/* Keys of vyre_emulator_count: live objects "allocations", "bytes", "pinned", "pinned_bytes",
 * "modules", "streams", "events", "graphs", "execs", "links", "user_objects", "contexts" (objects
 * that died with their context without being released stay counted: they were leaked); and since
 * the process began "instructions" (PTX instructions executed by threads), "launches", "calls" (of
 * all driver functions), or a driver function's own name (calls of it). */
int vyre_emulator_count(const char *key, uint64_t *value);

/* The name of driver function `index`, NULL past the last: the names that vyre_emulator_fail and
 * vyre_emulator_count know. */
const char *vyre_emulator_function(uint64_t index);

/* What lost a device: kernel, thread, instruction and address of the first fault, "" when all
 * devices are well. NUL-terminated, cut to `size` bytes. */
int vyre_emulator_fault_message(char *buffer, uint64_t size);

/* A data race: two accesses of one element, [0] before [1] in the order in which they ran. */
struct vyre_emulator_race_info {
  uint64_t address; /* of the element; with `shared` from the start of the block's shared memory */
  uint32_t bytes; /* of the element */
  uint32_t shared;
  uint32_t line[2]; /* in the PTX text */
  uint32_t block[2][3], thread[2][3];
  uint64_t symbol_address; /* with `shared`: where the array begins that holds the element */
  char symbol[128]; /* its name in the text, cut; "" for dynamic shared memory */
};

/* The race of this number, which the launch left as the index in its report (see races/races.h),
 * and the first `size` bytes of the launch's parameters. -1: no such race; the last 1024 are kept.
 */
int vyre_emulator_race(uint64_t number, struct vyre_emulator_race_info *info, uint8_t *parameters,
                       uint64_t size);

#define VYRE_EMULATOR_PARAMETER 0x80000000u

/* An element of a result that no thread of its launch wrote, or of a temporary array that nothing
 * wrote. */
struct vyre_emulator_unwritten_info {
  uint32_t binding; /* VYRE_EMULATOR_PARAMETER: of a temporary, and the rest is the parameter */
  uint32_t line; /* in the PTX text, of the instruction that reads it; 0: the run returns it */
  uint64_t offset; /* of its first byte in the result */
  uint64_t bytes; /* that are not written, of a result that is returned */
  uint32_t block[3], thread[3]; /* that reads it */
};

/* The finding of this number, which the launch left as the index in its report (see
 * unwritten/unwritten.h). -1: no such finding; the last 1024 are kept. */
int vyre_emulator_unwritten(uint64_t number, struct vyre_emulator_unwritten_info *info);

/* Called by csrc: the next launch with this report returns these bytes as a result, and has
 * not written them before. */
int vyre_emulator_unspecified(uint64_t report, uint32_t binding, uint64_t address, uint64_t bytes);

/* These bytes belong to a graph alone: each fill of all of them with 0xA5 begins a replay, from
 * which on they are not written. `bytes` 0: no longer. */
int vyre_emulator_temporary(uint64_t address, uint64_t bytes);
/* Called by csrc: the bytes at `address` are like those at `of`, if these belong to a graph alone;
 * `of` 0: no longer. */
void vyre_emulator_temporary_like(uint64_t of, uint64_t address);

#ifdef __cplusplus
}
#endif
#endif
