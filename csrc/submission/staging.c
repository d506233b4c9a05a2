/* Where the arguments of a host run are while it runs.
 *
 * Bindings of which little is accessed, or each element once, are read and written by the kernel in
 * the submission's mapped slab (zero-copy); others are copied to and from the submission's device
 * slab. So is all large pageable memory: in chunks, and back when the run is collected. Only
 * bindings in host memory are staged; buffers and page-locked arrays are used in place. */
#include <string.h>

#include "submission.h"

/* ---- slabs ---------------------------------------------------------------------------------- */

/* Whether all warps of a run together access at most this many sectors. */
static bool accesses_few(const vyc_prepared *prepared, uint32_t sectors, const vyc_run *run,
                         uint64_t most) {
  const uint64_t threads = (uint64_t)prepared->block[0] * prepared->block[1] * prepared->block[2];
  uint64_t all = (threads + 31) / 32 * sectors;
  for (int axis = 0; axis < 3; axis++) {
    if (all > most) return false; /* so that no product overflows */
    all *= run->grid[axis];
  }
  return all <= most;
}

static uint64_t bytes_of(const vyc_prepared *prepared, uint32_t i, const vyc_run *run) {
  return run->arguments[i].count * prepared->bindings[i].element_bytes;
}

/* A binding that the kernel uses in mapped memory: each element is accessed about once in the whole
 * run, or little of it at all. */
static bool is_mapped(const vyc_prepared *prepared, uint32_t i, const vyc_run *run,
                      uint64_t bytes) {
  const vyc_binding *b = &prepared->bindings[i];
  if (vyc__iterations(run) != 1) return false;
  if ((b->flags & VYC_BINDING_STREAMING) != 0) return true;
  if (b->sectors == 0) return false;
  return accesses_few(prepared, b->sectors, run,
                      b->role == VYC_ROLE_IN ? VYC_MAPPED_LOADS(bytes) : VYC_MAPPED_STORES);
}

/* A large binding stays in host memory only if it is an input of which little is read. */
static bool is_large(const vyc_submission *submission, uint32_t i, const vyc_run *run,
                     uint64_t bytes) {
  const vyc_binding *b = &submission->prepared->bindings[i];
  if (run->arguments[i].kind != VYC_ARGUMENT_HOST || submission->cramped) return false;
  if (b->role != VYC_ROLE_IN || (b->flags & VYC_BINDING_STREAMING) != 0) return true;
  return !is_mapped(submission->prepared, i, run, bytes);
}

static uint8_t way_of(const vyc_submission *submission, uint32_t i, const vyc_run *run,
                      uint64_t bytes) {
  if (VYC_UNLIKELY(bytes >= VYC_LARGE_BYTES) && is_large(submission, i, run, bytes))
    return WAY_LARGE;
  return is_mapped(submission->prepared, i, run, bytes) ? WAY_MAPPED : WAY_COPIED;
}

static vyc_status ensure(vyc_context *context, vyc_pool *pool, vyc_block **block, uint64_t bytes) {
  if (VYC_LIKELY(*block != NULL && (*block)->bytes >= bytes)) return VYC_OK;
  vyc__count(&context->counters, transient_allocation_bytes_requested, bytes);
  if (*block != NULL) vyc__pool_give(context, pool, *block, 0);
  *block = NULL;
  return vyc__pool_take(context, pool, block, bytes);
}

static bool has_unspecified(const vyc_prepared *prepared) {
  for (uint32_t i = 0; i < prepared->binding_count; i++)
    if ((prepared->bindings[i].flags & VYC_BINDING_UNSPECIFIED) != 0) return true;
  return false;
}

/* The driver does not promise that new memory is free of what others had in it, and unspecified
 * contents are shown: so all of it is written once. An earlier owner may still use a recycled block
 * on the main stream: the run is ordered after that. */
static vyc_status begin_slab(vyc_submission *submission, CUstream stream) {
  vyc_context *context = submission->prepared->child.context;
  const vyc_block *slab = submission->device;
  if (slab->recycled) VYC_TRY(vyc__stream_after_main(context, stream));
  if (!has_unspecified(submission->prepared)) return VYC_OK;
  return vyc__fill_bytes(context, slab->address, VYC_UNSPECIFIED_BYTE, slab->bytes, stream);
}

static vyc_status ensure_device(vyc_submission *submission, CUstream stream, uint64_t bytes) {
  vyc_context *context = submission->prepared->child.context;
  if (VYC_LIKELY(submission->device != NULL && submission->device->bytes >= bytes)) return VYC_OK;
  submission->keeps = false;
  VYC_TRY(ensure(context, vyc__device_pool(context), &submission->device, bytes));
  const vyc_status status = begin_slab(submission, stream);
  if (status == VYC_OK) return VYC_OK;
  vyc__pool_give(context, vyc__device_pool(context), submission->device, 0);
  submission->device = NULL;
  return status;
}

/* What a run needs of each slab, with every staged binding aligned. */
typedef struct rooms {
  uint64_t pinned, device;
} rooms;

/* In the device slab; a large result needs no page-locked room. */
static void add_copied(vyc_submission *submission, uint32_t i, const vyc_argument *argument,
                       uint64_t room, rooms *needs) {
  const bool large = submission->ways[i] == WAY_LARGE,
             in = submission->prepared->bindings[i].role == VYC_ROLE_IN;
  const bool out = submission->prepared->bindings[i].role == VYC_ROLE_OUT;
  if (argument->kind == VYC_ARGUMENT_HOST && !(large && out)) needs->pinned += room;
  needs->device += room;
  submission->has_large |= large;
  submission->copies_out |= !large && !in && room > 0;
}

/* Also chooses the way of each binding. */
static vyc_status rooms_of(vyc_submission *submission, const vyc_run *run, rooms *needs) {
  const vyc_prepared *prepared = submission->prepared;
  const uint32_t count = prepared->binding_count;
  submission->copies_out = submission->has_large = false;
  for (uint32_t i = 0; i < count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (!vyc__is_host(argument)) continue;
    uint64_t bytes = 0;
    if (vyc__mul_overflows(argument->count, prepared->bindings[i].element_bytes, &bytes) ||
        bytes > UINT64_MAX / 1024)
      return vyc__fail(VYC_E_INVALID, "run", "argument %u has too many elements", i);
    const uint64_t room = vyc__align_up(bytes, VYC_ALIGN);
    const uint8_t way = way_of(submission, i, run, bytes);
    submission->ways[i] = way;
    if (VYC_UNLIKELY(way != WAY_MAPPED))
      add_copied(submission, i, argument, room, needs);
    else if (argument->kind == VYC_ARGUMENT_HOST)
      needs->pinned += room;
  }
  return VYC_OK;
}

/* No slab where nothing is staged. */
static vyc_status reserve(vyc_submission *submission, const vyc_run *run, CUstream stream) {
  vyc_context *context = submission->prepared->child.context;
  rooms needs = {0, 0};
  VYC_TRY(rooms_of(submission, run, &needs));
  if (needs.pinned > 0)
    VYC_TRY(ensure(context, vyc__pinned_pool(context), &submission->pinned, needs.pinned));
  return needs.device == 0 ? VYC_OK : ensure_device(submission, stream, needs.device);
}

/* Arrays for which the device has no room are used in host memory, as far as possible. */
static vyc_status reserve_cramped(vyc_submission *submission, const vyc_run *run, CUstream stream) {
  submission->cramped = true;
  return reserve(submission, run, stream);
}

vyc_status vyc__stage_reserve(vyc_submission *submission, const vyc_run *run, CUstream stream) {
  submission->cramped = false;
  const vyc_status status = reserve(submission, run, stream);
  if (VYC_LIKELY(status != VYC_E_MEMORY || !submission->has_large)) return status;
  return reserve_cramped(submission, run, stream);
}

/* ---- staging -------------------------------------------------------------------------------- */

typedef struct staging {
  uint64_t pinned, device; /* next free address in each slab */
  CUstream stream;
  uint64_t staged, read, written, results; /* bytes, for the counters */
  const uint64_t *contents; /* of the run */
  bool kept; /* submission->contents describes the device slab */
} staging;

static void count(vyc_context *context, const staging *stage) {
  const vyc_addend addends[] = {{VYC_ROW_host_dispatches, 1},
                                {VYC_ROW_staged_in_bytes, stage->staged},
                                {VYC_ROW_mapped_read_bytes, stage->read},
                                {VYC_ROW_mapped_write_bytes, stage->written},
                                {VYC_ROW_readback_bytes, stage->results}};
  vyc__count_rows(&context->counters, addends, sizeof addends / sizeof addends[0]);
}

static staging begin(const vyc_submission *submission, CUstream stream) {
  return (staging){.pinned = submission->pinned == NULL ? 0 : submission->pinned->address,
                   .device = submission->device == NULL ? 0 : submission->device->address,
                   .stream = stream};
}

/* Whether the device slab still has the bytes of an input from the previous run of the submission.
 * Nothing else writes to the slab, and a kernel does not write to an input; a binding at another
 * position than in that run overlaps other data. */
static bool is_there(const vyc_submission *submission, uint32_t i, const staging *stage,
                     uint64_t address) {
  return stage->kept && stage->contents[i] != 0 && stage->contents[i] == submission->contents[i] &&
         address == submission->addresses[i];
}

/* The run is staged: note what it leaves in the device slab. */
static void keep(vyc_submission *submission, const uint64_t *contents) {
  for (uint32_t i = 0; i < submission->prepared->binding_count; i++) {
    const bool stays =
        submission->prepared->bindings[i].role == VYC_ROLE_IN && submission->ways[i] == WAY_COPIED;
    submission->contents[i] = stays ? contents[i] : 0;
  }
  submission->keeps = true;
}

static void add_result(vyc_submission *submission, vyc_result result) {
  if (result.to == result.from || result.bytes == 0) return;
  submission->results[submission->result_count++] = result;
}

static uint8_t *pinned_side(staging *stage, uint64_t bytes) {
  uint8_t *room = (uint8_t *)(uintptr_t)stage->pinned;
  stage->pinned += vyc__align_up(bytes, VYC_ALIGN);
  return room;
}

/* The host memory of this binding, at its address for the kernel or the copy engine. */
static uint8_t *host_side(const vyc_prepared *prepared, uint32_t i, const vyc_argument *argument,
                          staging *stage, uint64_t bytes) {
  if (argument->kind == VYC_ARGUMENT_PINNED)
    return prepared->bindings[i].role == VYC_ROLE_IN ? (uint8_t *)(uintptr_t)argument->data
                                                     : argument->result;
  return pinned_side(stage, bytes);
}

static uint64_t device_side(staging *stage, uint64_t bytes) {
  const uint64_t room = stage->device;
  stage->device += vyc__align_up(bytes, VYC_ALIGN);
  return room;
}

static uint8_t byte_of_gaps(const vyc_prepared *prepared, uint32_t i) {
  const bool unspecified = (prepared->bindings[i].flags & VYC_BINDING_UNSPECIFIED) != 0;
  return unspecified ? VYC_UNSPECIFIED_BYTE : 0;
}

/* The emulator can check who reads or returns unspecified contents of a kernel's only launch. */
static void announce_gaps(const vyc_submission *submission, uint32_t i, const vyc_run *run,
                          uint64_t address, uint64_t bytes) {
  const vyc_prepared *prepared = submission->prepared;
  const vyc_driver *driver = prepared->child.context->driver;
  if (driver->unspecified == NULL || byte_of_gaps(prepared, i) == 0) return;
  if (prepared->has_report && vyc__iterations(run) == 1)
    driver->unspecified(submission->cell->address, i, address, bytes);
}

/* Fill what the kernel may leave unwritten of an out in the device slab. On a GPU, unspecified
 * contents may be those of an earlier run; the emulator has the interpreter's in every run. */
static vyc_status fill_gaps(const vyc_submission *submission, uint32_t i, const vyc_run *run,
                            uint64_t address, uint64_t bytes, CUstream stream) {
  vyc_context *context = submission->prepared->child.context;
  const uint8_t byte = byte_of_gaps(submission->prepared, i);
  if (byte != 0 && !context->driver->is_emulator) return VYC_OK;
  announce_gaps(submission, i, run, address, bytes);
  return vyc__fill_bytes(context, address, byte, bytes, stream);
}

/* In the device slab; where it is an input, with page-locked room on the way. */
static vyc_status stage_large(vyc_submission *submission, uint32_t i, const vyc_run *run,
                              staging *stage, uint64_t *address_out) {
  const vyc_prepared *prepared = submission->prepared;
  vyc_context *context = prepared->child.context;
  const vyc_argument *argument = &run->arguments[i];
  const uint32_t role = prepared->bindings[i].role;
  const uint64_t bytes = bytes_of(prepared, i, run), address = device_side(stage, bytes);
  *address_out = address;
  if (role != VYC_ROLE_OUT) {
    stage->staged += bytes;
    VYC_TRY(vyc__chunks_in(context, address, pinned_side(stage, bytes), argument->data, bytes,
                           stage->stream));
  }
  if (role == VYC_ROLE_IN) return VYC_OK;
  stage->results += bytes;
  add_result(submission, (vyc_result){argument->result, NULL, address, bytes});
  return vyc__leaves_gaps(prepared, i, run)
             ? fill_gaps(submission, i, run, address, bytes, stage->stream)
             : VYC_OK;
}

static vyc_status stage_host(vyc_submission *submission, uint32_t i, const vyc_run *run,
                             staging *stage, uint64_t *address_out) {
  const vyc_prepared *prepared = submission->prepared;
  vyc_context *context = prepared->child.context;
  const vyc_argument *argument = &run->arguments[i];
  const uint32_t role = prepared->bindings[i].role;
  const uint64_t bytes = bytes_of(prepared, i, run);
  const bool gaps = vyc__leaves_gaps(prepared, i, run);
  uint8_t *host = host_side(prepared, i, argument, stage, bytes);

  if (role != VYC_ROLE_OUT && host != argument->data && bytes > 0) {
    vyc__host_copy(host, argument->data, bytes);
    stage->staged += bytes;
  }
  if (role != VYC_ROLE_IN) stage->results += bytes;
  if (submission->ways[i] == WAY_MAPPED) {
    if (role != VYC_ROLE_OUT) stage->read += bytes;
    if (role != VYC_ROLE_IN) stage->written += bytes;
    /* Page-locked memory that was freed is never shown. */
    *address_out = (uint64_t)(uintptr_t)host;
    if (gaps && bytes > 0) {
      memset(host, byte_of_gaps(prepared, i), bytes);
      announce_gaps(submission, i, run, *address_out, bytes);
    }
  } else {
    const uint64_t address = device_side(stage, bytes);
    const bool there =
        stage->contents != NULL && role == VYC_ROLE_IN && is_there(submission, i, stage, address);
    *address_out = address;
    if (bytes > 0 && role != VYC_ROLE_OUT && !there)
      VYC_TRY(vyc__copy_up(context, address, host, bytes, stage->stream));
    if (bytes > 0 && gaps) VYC_TRY(fill_gaps(submission, i, run, address, bytes, stage->stream));
  }
  if (role != VYC_ROLE_IN) add_result(submission, (vyc_result){argument->result, host, 0, bytes});
  return VYC_OK;
}

static vyc_status use_buffer(const vyc_prepared *prepared, uint32_t i, const vyc_run *run,
                             CUstream stream, uint32_t slot, uint64_t *address_out) {
  const vyc_argument *argument = &run->arguments[i];
  vyc_context *context = prepared->child.context;
  VYC_TRY(vyc__buffer_use(argument->buffer, stream, slot));
  *address_out = argument->buffer->address + argument->offset;
  const uint64_t bytes = bytes_of(prepared, i, run);
  if (bytes > 0 && vyc__needs_clear(prepared, i, run))
    return vyc__clear(context, *address_out, bytes, stream);
  return VYC_OK;
}

vyc_status vyc__stage_in(vyc_submission *submission, const vyc_run *run, CUstream stream,
                         uint32_t slot) {
  staging stage = begin(submission, stream);
  uint64_t *addresses_out = submission->addresses;
  stage.contents = vyc__contents_of(run);
  stage.kept = submission->keeps;
  submission->keeps = false;
  for (uint32_t i = 0; i < submission->prepared->binding_count; i++) {
    if (!vyc__is_host(&run->arguments[i]))
      VYC_TRY(use_buffer(submission->prepared, i, run, stream, slot, &addresses_out[i]));
    else if (VYC_LIKELY(submission->ways[i] != WAY_LARGE))
      VYC_TRY(stage_host(submission, i, run, &stage, &addresses_out[i]));
    else
      VYC_TRY(stage_large(submission, i, run, &stage, &addresses_out[i]));
  }
  count(submission->prepared->child.context, &stage);
  if (VYC_UNLIKELY(stage.contents != NULL)) keep(submission, stage.contents);
  return VYC_OK;
}

vyc_status vyc__stage_out(vyc_submission *submission, const vyc_run *run, CUstream stream) {
  const vyc_prepared *prepared = submission->prepared;
  vyc_context *context = prepared->child.context;
  staging stage = begin(submission, stream);
  for (uint32_t i = 0; i < prepared->binding_count; i++) {
    const vyc_argument *argument = &run->arguments[i];
    if (!vyc__is_host(argument)) continue;
    const uint32_t role = prepared->bindings[i].role;
    const uint64_t bytes = bytes_of(prepared, i, run);
    if (submission->ways[i] == WAY_LARGE && role == VYC_ROLE_OUT) continue;
    uint8_t *host = host_side(prepared, i, argument, &stage, bytes);
    if (submission->ways[i] != WAY_COPIED || role == VYC_ROLE_IN || bytes == 0) continue;
    VYC_TRY(vyc__copy_back(context, host, submission->addresses[i], bytes, stage.stream));
  }
  return VYC_OK;
}
