/* The model's kernel of a worker, which stays on the device and takes calls from a ring: as
 * codegen/emit/resident.py describes it, a call, or its end, at each step. It ends as busy after a
 * few calls, and as idle when nothing else can be done. */
#define CUDA_NO_PROTOTYPE
#include "model_parts.h"

#define SLOT_WORDS 32u
#define HEADER_WORDS 4u
#define ANSWER_BYTES 64u
#define STOP 0xffffu
#define END_BUSY 0xfffeu
#define END_IDLE 0xfffdu
#define BUSY_CALLS 2u /* of a launch */

static uint32_t read_word(uint64_t address) {
  uint32_t value;
  memcpy(&value, (const void *)(uintptr_t)address, sizeof value);
  return value;
}

static void write_word(uint64_t address, uint32_t value) {
  memcpy((void *)(uintptr_t)address, &value, sizeof value);
}

bool value_is_reached(const node *n) {
  model_check_memory(n->to, 4, "a stream that waits for a value");
  return (int32_t)(read_word(n->to) - (uint32_t)n->value) >= 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static uint32_t call_of(const resident *r) { return r->begun ? r->call : read_word(r->ended); }

/* Whether all words that the call uses have its number; they are copied. */
static bool take_slot(const resident *r, uint32_t number, uint32_t content[SLOT_WORDS]) {
  const uint64_t slot = r->slots + (uint64_t)(number & r->mask) * SLOT_WORDS * 8;
  uint32_t count = 1;
  for (uint32_t i = 0; i < count; i++) {
    if (read_word(slot + 8ul * i + 4) != number) return false;
    content[i] = read_word(slot + 8ul * i);
    if (i == 0) count = (content[0] & 0xff) > 1 ? content[0] & 0xff : 1;
  }
  return true;
}

/* `until` has been answered. */
static bool may_leave(const resident *r) { return (int32_t)(call_of(r) - r->until) > 0; }

bool resident_is_called(const work *w) {
  uint32_t content[SLOT_WORDS];
  return w->resident.answered || w->resident.stopped ||
         take_slot(&w->resident, call_of(&w->resident), content);
}

bool resident_can_go_on(const work *w) {
  return !w->resident.stays || may_leave(&w->resident) || resident_is_called(w);
}

/* ---- what it does ---------------------------------------------------------------------------- */

static void answer(const resident *r, uint32_t number) {
  const uint64_t place = r->answers + (uint64_t)(number & r->mask) * ANSWER_BYTES;
  model_check_memory(place, 4, "an answer");
  write_word(place, number);
}

static bool end(resident *r, uint32_t why) {
  write_word(r->ended + 8, why);
  write_word(r->ended, r->call);
  write_word(r->ended + 4, r->launch);
  return true;
}

/* The parameters are those of a launch; the scalar is the operation. False: it has faulted. */
static bool run_call(const work *w, const uint32_t *content) {
  model_kernel kernel = {.module = w->nodes[0].kernel.module};
  if (content[1] == 0) return true; /* a grid without blocks */
  memcpy(&kernel.in, content + HEADER_WORDS, 8);
  memcpy(&kernel.out, content + HEADER_WORDS + 2, 8);
  memcpy(&kernel.value, content + HEADER_WORDS + 4, 8);
  memcpy(&kernel.count, content + HEADER_WORDS + 6, 4);
  kernel.operation = (uint32_t)kernel.value;
  model_check_memory(kernel.in, 8, "a call of a worker");
  model_check_memory(kernel.out, 8, "a call of a worker");
  the_model->hooks.given(&kernel);
  if (the_model->hooks.faults(&kernel)) {
    fault();
    return false;
  }
  the_model->hooks.runs(&kernel);
  return true;
}

/* One of the defects that were planted; true: that was the step. */
static bool serve_wrongly(work *w, const uint32_t *content) {
  resident *r = &w->resident;
  switch (the_model->plant) {
  case MODEL_ANSWERS_EARLY: /* the call runs at the next step */
    answer(r, r->call);
    memcpy(r->taken, content, sizeof r->taken);
    r->answered = true;
    return true;
  case MODEL_ANSWERS_ANOTHER:
    run_call(w, content);
    answer(r, r->call);
    answer(r, r->call + 1);
    r->call++;
    return true;
  default: return false;
  }
}

static void serve(work *w, const uint32_t *content) {
  resident *r = &w->resident;
  r->served++;
  if (serve_wrongly(w, content)) return;
  if (!run_call(w, content) && the_model->plant != MODEL_ANSWERS_FAULTED) return;
  answer(r, r->call);
  r->call++;
}

bool resident_step(work *w) {
  resident *r = &w->resident;
  uint32_t content[SLOT_WORDS] = {0};
  r->call = call_of(r);
  r->begun = true;
  model_check_memory(r->slots, 8, "a worker");
  if (r->answered) {
    r->answered = false;
    run_call(w, r->taken);
    r->call++;
    return false;
  }
  if (r->stopped) return end(r, STOP);
  const bool is_called = take_slot(r, r->call, content);
  if ((r->stays || r->served >= BUSY_CALLS) && may_leave(r)) {
    if (is_called && the_model->plant == MODEL_LOSES_CALL) r->call++;
    return end(r, END_BUSY);
  }
  if (is_called && content[0] >> 8 == STOP) {
    answer(r, r->call++);
    r->stopped = true;
    return false;
  }
  if (!is_called) return end(r, END_IDLE);
  serve(w, content);
  return false;
}

void resident_given(work *w, const void *function, void **parameters) {
  resident *r = &w->resident;
  int64_t idle;
  memcpy(&r->slots, parameters[0], 8);
  memcpy(&r->answers, parameters[1], 8);
  memcpy(&r->ended, parameters[3], 8);
  memcpy(&r->until, parameters[4], 4);
  memcpy(&r->mask, parameters[5], 4);
  memcpy(&r->launch, parameters[6], 4);
  memcpy(&idle, parameters[8], 8);
  r->stays = idle == INT64_MAX;
  w->node_count = 1;
  w->nodes[0] = (node){.kind = WORK_RESIDENT, .to = r->slots, .from = r->answers};
  w->nodes[0].kernel.module =
      (const void *)(uintptr_t)((uint64_t)(uintptr_t)function & ~(uint64_t)RESIDENT);
}
