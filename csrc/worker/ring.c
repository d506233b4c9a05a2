/* The ring: slots that the host fills and the device polls, and answers the other way.
 *
 * A slot is words of 8 bytes, each with four bytes of the call and the call's number above them.
 * Each is stored whole, the first one last and with release. The device takes a slot when all words
 * that the call uses have its number; it acquires the first, so it then finds all that the host had
 * written before. A slot is used again when its last call has been answered. A word that no call
 * has written for 2^32 calls would have a right number by accident: so every 2^31 calls, all words
 * of each slot are written once. */
#include <string.h>

#include "worker.h"

#define MASK (WORKER_SLOTS - 1)
#define SLOTS_BYTES ((uint64_t)WORKER_SLOTS * WORKER_SLOT_WORDS * 8)
#define ANSWERS_BYTES ((uint64_t)WORKER_SLOTS * WORKER_ANSWER_WORDS * 4)

static uint64_t base_of(const vyc_worker *worker) { return worker->memory->address; }

static _Atomic uint64_t *slot_of(const vyc_worker *worker, uint32_t number) {
  return (_Atomic uint64_t *)(uintptr_t)base_of(worker) +
         (size_t)(number & MASK) * WORKER_SLOT_WORDS;
}

static _Atomic uint32_t *answer_of(const vyc_worker *worker, uint32_t number) {
  return (_Atomic uint32_t *)(uintptr_t)(base_of(worker) + SLOTS_BYTES) +
         (size_t)(number & MASK) * WORKER_ANSWER_WORDS;
}

/* Written once by each launch that ends: its number above that of the call after its last one. */
static _Atomic uint64_t *end_of(const vyc_worker *worker) {
  return (_Atomic uint64_t *)(uintptr_t)(base_of(worker) + SLOTS_BYTES + ANSWERS_BYTES);
}

void vyc__ring_begin(vyc_worker *worker, uint32_t first) {
  worker->next = worker->from = first;
  atomic_store(end_of(worker), 0);
  for (uint32_t i = 0; i < WORKER_SLOTS; i++) {
    const uint32_t number = first + i;
    atomic_store(answer_of(worker, number), number - WORKER_SLOTS);
    for (uint32_t word = 0; word < WORKER_SLOT_WORDS; word++)
      atomic_store(slot_of(worker, number) + word, (uint64_t)(number - WORKER_SLOTS) << 32);
  }
}

bool vyc__ring_is_answered(const vyc_worker *worker, uint32_t number) {
  const uint32_t answer = atomic_load_explicit(answer_of(worker, number), memory_order_acquire);
  return (int32_t)(answer - number) >= 0;
}

bool vyc__ring_has_room(const vyc_worker *worker, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!vyc__ring_is_answered(worker, worker->next + i - WORKER_SLOTS)) return false;
  return true;
}

/* Whether all words of the slot are to be written, the unused ones as 0. */
static bool is_refreshed(uint32_t number) { return (number & 0x7fffffffu) < WORKER_SLOTS; }

uint32_t vyc__ring_put(vyc_worker *worker, uint32_t kernel, const uint32_t grid[3],
                       const uint8_t *block, uint32_t bytes) {
  uint32_t content[WORKER_SLOT_WORDS] = {0};
  const uint32_t number = worker->next++;
  const bool fits = bytes <= WORKER_SLOT_BYTES;
  const uint32_t words = WORKER_HEADER_WORDS + (fits ? (bytes + 3) / 4 : 0);
  content[0] = words | kernel << 8;
  content[1] = grid[0];
  content[2] = grid[1] | grid[2] << 16; /* at most 65,535 each */
  if (fits)
    memcpy(content + WORKER_HEADER_WORDS, block, bytes);
  else
    memcpy((uint8_t *)(uintptr_t)worker->more->address +
               (size_t)(number & MASK) * WORKER_MORE_BYTES,
           block, bytes);
  _Atomic uint64_t *slot = slot_of(worker, number);
  const uint32_t last = is_refreshed(number) ? WORKER_SLOT_WORDS : words;
  for (uint32_t i = last - 1; i > 0; i--)
    atomic_store_explicit(slot + i, (uint64_t)number << 32 | content[i], memory_order_relaxed);
  atomic_store_explicit(slot, (uint64_t)number << 32 | content[0], memory_order_release);
  return number;
}

void vyc__ring_take_back(vyc_worker *worker, uint32_t before) {
  while (worker->next != before) {
    worker->next--;
    atomic_store_explicit(slot_of(worker, worker->next),
                          (uint64_t)(worker->next - WORKER_SLOTS) << 32, memory_order_release);
  }
}

bool vyc__worker_is_running(const vyc_worker *worker) {
  const uint32_t launch = atomic_load_explicit(&worker->launch, memory_order_acquire);
  const uint64_t end = atomic_load_explicit(end_of(worker), memory_order_acquire);
  return launch != 0 && (uint32_t)(end >> 32) != launch;
}

static vyc_status launch_it(vyc_worker *worker) {
  vyc_context *context = worker->child.context;
  const uint32_t before = atomic_load_explicit(&worker->launch, memory_order_relaxed);
  uint32_t first = before == 0 ? worker->from : (uint32_t)atomic_load(end_of(worker));
  uint32_t mask = MASK, launch = before + 1 == 0 ? 1 : before + 1, reserved = 0;
  uint64_t slots = base_of(worker), answers = slots + SLOTS_BYTES, end = answers + ANSWERS_BYTES;
  uint64_t more = worker->more == NULL ? slots : worker->more->address;
  void *parameters[] = {&slots,    &answers,         &more,           &end, &first, &mask, &launch,
                        &reserved, &worker->idle_ns, &worker->busy_ns};
  const vyc_prepared *entry = worker->entry;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const CUresult result = context->driver->cuLaunchKernel(
      entry->function, 1, 1, 1, entry->block[0], entry->block[1], entry->block[2],
      entry->dynamic_shared_bytes, worker->stream, parameters, NULL);
  vyc__capture_restore(context->driver, mode);
  if (VYC_UNLIKELY(result != CUDA_SUCCESS))
    return vyc__driver_failed(context, result, "cuLaunchKernel");
  atomic_store_explicit(&worker->launch, launch, memory_order_release);
  atomic_fetch_add_explicit(&worker->launch_count, 1, memory_order_relaxed);
  return VYC_OK;
}

vyc_status vyc__ring_go_on(vyc_worker *worker) {
  if (vyc__worker_is_running(worker) || vyc__worker_is_paused(worker)) return VYC_OK;
  return launch_it(worker);
}

vyc_status vyc__worker_ask(const vyc_worker *worker) {
  vyc_context *context = worker->child.context;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status =
      vyc__ready(context, context->driver->cuStreamQuery(worker->stream), "cuStreamQuery");
  vyc__capture_restore(context->driver, mode);
  return status == VYC_OK ? VYC_NOT_READY : status;
}
