/* The model's kernels that all-reduce in one shot, as distributed/one_shot_program.py describes
 * them, with one word for an element: one writes it into the inboxes of all ranks, and waits for
 * those of the others in its own, until the host ends it. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

#define WORD_CUT 2u /* in the word by which the host ends it: it lacked elements */

static void pointer_of(uint64_t *address, void *const *parameters, uint32_t i) {
  memcpy(address, parameters[i], sizeof *address);
}

model_reduce *reduce_of(void **parameters) {
  model_reduce *reduce = take(sizeof *reduce);
  uint32_t i = 0;
  pointer_of(&reduce->in, parameters, i++);
  pointer_of(&reduce->out, parameters, i++);
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    pointer_of(&reduce->inboxes[rank], parameters, i++);
  pointer_of(&reduce->own, parameters, i++);
  pointer_of(&reduce->epochs, parameters, i++);
  pointer_of(&reduce->word, parameters, i++);
  memcpy(&reduce->rank, parameters[i], sizeof reduce->rank);
  return reduce;
}

void reduce_given(model_kernel *kernel) {
  model_reduce *reduce = memcpy(take(sizeof *reduce), kernel->reduce, sizeof *reduce);
  const uint32_t operation = the_model->hooks.operation();
  reduce->number = ++the_model->reduces[reduce->rank];
  the_model->reduce_of[reduce->rank][operation] = reduce->number;
  kernel->reduce = reduce;
}

uint64_t model_reduces(uint32_t rank) { return the_model->reduces[rank]; }
uint64_t model_reduce_of(uint32_t rank, uint32_t operation) {
  return the_model->reduce_of[rank][operation];
}

/* ---- its steps ------------------------------------------------------------------------------- */

static void check(uint64_t address, uint64_t bytes, uint32_t device) {
  model_check_memory(address, bytes, "an all-reduce");
  const memory *found = memory_at(address);
  if (!found->pinned && found->device != device && !the_model->reaches[device][found->device])
    explorer_fail("an all-reduce of device %u has no access to memory of device %u", device,
                  found->device);
}

static uint32_t read_word(uint64_t address, uint32_t device) {
  uint32_t word;
  check(address, sizeof word, device);
  memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
  return word;
}

static void write_word(uint64_t address, uint32_t word, uint32_t device) {
  check(address, sizeof word, device);
  memcpy((void *)(uintptr_t)address, &word, sizeof word);
}

/* In either half of an inbox is a word of each rank. */
static uint64_t place_of(uint64_t inbox, uint32_t epoch, uint32_t rank) {
  return inbox + ((uint64_t)(epoch & 1) * MODEL_DEVICES + rank) * sizeof(uint64_t);
}

static bool is_complete(const model_reduce *reduce) {
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    if (model_read(place_of(reduce->own, reduce->epoch, rank)) >> 32 != reduce->epoch) return false;
  return true;
}

bool reduce_can_go_on(const model_reduce *reduce, uint32_t device) {
  return !reduce->has_sent || is_complete(reduce) || read_word(reduce->word, device) != 0;
}

static void send(model_reduce *reduce, uint32_t device) {
  check(reduce->in, sizeof(uint64_t), device);
  reduce->epoch = read_word(reduce->epochs, device) + 1;
  const uint64_t word = (uint64_t)reduce->epoch << 32 | (uint32_t)model_read(reduce->in);
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++) {
    const uint64_t place = place_of(reduce->inboxes[rank], reduce->epoch, reduce->rank);
    check(place, sizeof word, device);
    model_write(place, word);
  }
  reduce->has_sent = true;
}

static void combine(const model_reduce *reduce, uint32_t device) {
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < MODEL_DEVICES; rank++)
    sum += (uint32_t)model_read(place_of(reduce->own, reduce->epoch, rank));
  check(reduce->out, sizeof sum, device);
  model_write(reduce->out, sum);
}

bool reduce_step(model_reduce *reduce, uint32_t device) {
  if (!reduce->has_sent) {
    send(reduce, device);
    return false;
  }
  check(reduce->own, 2 * MODEL_DEVICES * sizeof(uint64_t), device);
  if (is_complete(reduce))
    combine(reduce, device);
  else
    write_word(reduce->word, WORD_CUT, device);
  write_word(reduce->epochs, reduce->epoch, device);
  return true;
}

bool reduce_touches(const model_reduce *reduce, const memory *where) {
  const uint64_t touched[] = {reduce->in,  reduce->out,    reduce->inboxes[0], reduce->inboxes[1],
                              reduce->own, reduce->epochs, reduce->word};
  for (uint32_t i = 0; i < sizeof touched / sizeof touched[0]; i++)
    if (touched[i] - where->address < where->bytes) return true;
  return false;
}
