/* Plans: creation, the checks of a run, and the three ways of running one with host arguments
 * (run, submit, ticket). Everything that a call could look up is laid out here once. */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ------------------------------------------------------------------------------- */

static void plan_destroy(vyc_child *child) {
  vyc_plan *plan = (vyc_plan *)child;
  vyc_context *context = child->context;
  for (vyc_lane *lane = atomic_load(&plan->lanes); lane != NULL; lane = lane->next)
    vyc__lane_destroy(lane);
  for (uint32_t slot = 0; slot < VYC_STREAM_SLOTS; slot++) {
    vyc_exec *exec = atomic_load(&plan->execs[slot]);
    if (exec != NULL) vyc__exec_destroy(exec, context->driver);
  }
  if (plan->report_block != NULL) {
    atomic_fetch_sub(&context->report_plans, 1);
    vyc__pool_give(context, &context->pinned_pool, plan->report_block, 0);
    plan->report_block = NULL;
  }
}

static void free_memory(vyc_plan *plan) {
  vyc_lane *lane = atomic_load(&plan->lanes);
  while (lane != NULL) {
    vyc_lane *next = lane->next;
    free(lane);
    lane = next;
  }
  for (uint32_t slot = 0; slot < VYC_STREAM_SLOTS; slot++) free(atomic_load(&plan->execs[slot]));
  free(plan->parameters);
  free(plan->bindings);
  free(plan);
}

static void plan_finish(vyc_child *child) {
  vyc_plan *plan = (vyc_plan *)child;
  vyc_module *module = plan->module;
  free_memory(plan);
  vyc_module_release(module);
}

static vyc_status check_desc(const vyc_plan_desc *desc) {
  VYC_REQUIRE(desc != NULL && desc->struct_size >= sizeof *desc && desc->entry != NULL);
  VYC_REQUIRE(desc->parameter_bytes <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE(desc->parameter_count <= VYC_MAX_PARAMETER_BYTES / 4);
  VYC_REQUIRE(desc->binding_count <= VYC_MAX_BINDINGS);
  VYC_REQUIRE(desc->parameters != NULL || desc->parameter_count == 0);
  VYC_REQUIRE(desc->bindings != NULL || desc->binding_count == 0);
  for (uint32_t i = 0; i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    VYC_REQUIRE(p->kind >= VYC_PARAMETER_POINTER && p->kind <= VYC_PARAMETER_REPORT);
    VYC_REQUIRE(p->size >= 1 && p->size <= 8 && p->offset <= desc->parameter_bytes);
    VYC_REQUIRE(p->size <= desc->parameter_bytes - p->offset);
    const bool scalar = p->kind == VYC_PARAMETER_SCALAR, report = p->kind == VYC_PARAMETER_REPORT;
    VYC_REQUIRE(report || p->index < (scalar ? desc->scalar_count : desc->binding_count));
  }
  for (uint32_t i = 0; i < desc->binding_count; i++) {
    const vyc_binding *b = &desc->bindings[i];
    VYC_REQUIRE(b->role >= VYC_ROLE_IN && b->role <= VYC_ROLE_OUT);
    VYC_REQUIRE(b->element_bytes >= 1 && b->element_bytes <= 16);
  }
  return VYC_OK;
}

static vyc_status copy_desc(vyc_plan *plan, const vyc_plan_desc *desc) {
  const size_t parameters = desc->parameter_count * sizeof *plan->parameters;
  const size_t bindings = desc->binding_count * sizeof *plan->bindings;
  plan->parameters = malloc(parameters + 1);
  plan->bindings = malloc(bindings + 1);
  if (plan->parameters == NULL || plan->bindings == NULL)
    return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  if (parameters > 0) memcpy(plan->parameters, desc->parameters, parameters);
  if (bindings > 0) memcpy(plan->bindings, desc->bindings, bindings);
  memcpy(plan->block, desc->block, sizeof plan->block);
  plan->dynamic_shared_bytes = desc->dynamic_shared_bytes;
  plan->parameter_bytes = desc->parameter_bytes;
  plan->parameter_count = desc->parameter_count;
  plan->binding_count = desc->binding_count;
  plan->scalar_count = desc->scalar_count;
  plan->tag = desc->tag;
  for (uint32_t i = 0; i < desc->parameter_count; i++)
    if (desc->parameters[i].kind == VYC_PARAMETER_REPORT) plan->has_report = true;
  return VYC_OK;
}

static vyc_status prepare(vyc_plan *plan, vyc_context *context, const char *entry) {
  VYC_CU_RESULT;
  VYC_TRY(vyc__intern(context, &plan->entry, entry));
  VYC_TRY(VYC_CU(context, cuModuleGetFunction, &plan->function, plan->module->handle, entry));
  if (plan->dynamic_shared_bytes > 0)
    VYC_TRY(VYC_CU(context, cuFuncSetAttribute, plan->function,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   (int)plan->dynamic_shared_bytes));
  if (!plan->has_report) return VYC_OK;
  VYC_TRY(vyc__pool_take(context, &context->pinned_pool, &plan->report_block, sizeof(uint64_t)));
  *vyc__report_cell(plan->report_block) = VYC_REPORT_NONE;
  atomic_fetch_add(&context->report_plans, 1);
  return VYC_OK;
}

vyc_status vyc_plan_create(vyc_plan **plan_out, vyc_module *module, const vyc_plan_desc *desc) {
  VYC_REQUIRE(plan_out != NULL && module != NULL);
  *plan_out = NULL;
  VYC_TRY(check_desc(desc));
  vyc_context *context = module->child.context;
  vyc_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  plan->module = module;
  vyc_scope scope;
  vyc_status status = copy_desc(plan, desc);
  if (status == VYC_OK) status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = prepare(plan, context, desc->entry);
    vyc__leave(context, &scope);
  }
  if (status != VYC_OK) {
    free_memory(plan);
    return status;
  }
  atomic_fetch_add(&module->child.references, 1);
  vyc__child_add(&plan->child, context, plan_destroy, plan_finish);
  *plan_out = plan;
  return VYC_OK;
}

bool vyc__is_plan(const vyc_child *child) { return child->destroy == plan_destroy; }

static void plan_retain(vyc_plan *plan) {
  atomic_fetch_add_explicit(&plan->child.references, 1, memory_order_relaxed);
}

void vyc_plan_release(vyc_plan *plan) {
  if (plan != NULL) vyc__child_release(&plan->child);
}

static vyc_status attribute(vyc_plan *plan, int32_t *value_out, CUfunction_attribute which) {
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  return VYC_CU(context, cuFuncGetAttribute, value_out, which, plan->function);
}

static vyc_status read_function(vyc_plan *plan, vyc_function_info *info) {
  vyc_context *context = plan->child.context;
  VYC_CU_RESULT;
  VYC_TRY(attribute(plan, &info->max_threads_per_block,
                    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  VYC_TRY(attribute(plan, &info->registers, CU_FUNC_ATTRIBUTE_NUM_REGS));
  VYC_TRY(attribute(plan, &info->static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  VYC_TRY(attribute(plan, &info->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  VYC_TRY(attribute(plan, &info->constant_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  VYC_TRY(attribute(plan, &info->ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION));
  VYC_TRY(attribute(plan, &info->binary_version, CU_FUNC_ATTRIBUTE_BINARY_VERSION));
  const uint32_t threads = plan->block[0] * plan->block[1] * plan->block[2];
  return VYC_CU(context, cuOccupancyMaxActiveBlocksPerMultiprocessor, &info->resident_blocks,
                plan->function, (int)threads, plan->dynamic_shared_bytes);
}

vyc_status vyc_plan_function(vyc_plan *plan, vyc_function_info *info_out) {
  VYC_REQUIRE(plan != NULL && info_out != NULL && info_out->struct_size >= sizeof *info_out);
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  const vyc_status status = read_function(plan, info_out);
  vyc__leave(plan->child.context, &scope);
  return status;
}

/* ---- a run's parameter block ----------------------------------------------------------------- */

uint64_t *vyc__report_cell(const vyc_block *block) {
  return (uint64_t *)(uintptr_t)block->address;
}

void vyc__block_write(const vyc_plan *plan, uint8_t *block, const uint64_t *addresses,
                      const vyc_run *run, uint64_t report) {
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const vyc_parameter *p = &plan->parameters[i];
    uint64_t value = report;
    if (p->kind == VYC_PARAMETER_POINTER) value = addresses[p->index];
    if (p->kind == VYC_PARAMETER_SCALAR) value = run->scalars[p->index];
    if (p->kind == VYC_PARAMETER_SIZE) value = run->arguments[p->index].count;
    memcpy(block + p->offset, &value, p->size); /* little-endian host and device */
  }
}

static vyc_status check_argument(const vyc_plan *plan, uint32_t i, const vyc_argument *argument) {
  const vyc_binding *binding = &plan->bindings[i];
  if (argument->kind == VYC_ARGUMENT_BUFFER) {
    const vyc_buffer *buffer = argument->buffer;
    if (buffer == NULL || buffer->child.context != plan->child.context)
      return vyc__fail(VYC_E_INVALID, "run", "argument %u is a buffer of another device", i);
    uint64_t bytes = 0;
    if (vyc__mul_overflows(argument->count, binding->element_bytes, &bytes) ||
        argument->offset > buffer->bytes || bytes > buffer->bytes - argument->offset)
      return vyc__fail(VYC_E_INVALID, "run",
                       "argument %u: %" PRIu64 " elements of %u bytes from byte %" PRIu64
                       " do not fit a buffer of %" PRIu64 " bytes",
                       i, argument->count, binding->element_bytes, argument->offset,
                       buffer->bytes);
    return VYC_OK;
  }
  const bool reads = binding->role != VYC_ROLE_OUT, writes = binding->role != VYC_ROLE_IN;
  if (argument->kind != VYC_ARGUMENT_HOST && argument->kind != VYC_ARGUMENT_PINNED)
    return vyc__fail(VYC_E_INVALID, "run", "argument %u has the unknown kind %u", i,
                     argument->kind);
  if (argument->count > 0 &&
      ((reads && argument->data == NULL) || (writes && argument->result == NULL)))
    return vyc__fail(VYC_E_INVALID, "run", "argument %u has no memory", i);
  return VYC_OK;
}

vyc_status vyc__run_check(const vyc_plan *plan, const vyc_run *run) {
  VYC_REQUIRE(run != NULL && run->struct_size >= sizeof *run);
  if (VYC_UNLIKELY(run->argument_count != plan->binding_count ||
                   run->scalar_count != plan->scalar_count))
    return vyc__fail(VYC_E_INVALID, "run",
                     "%u buffer and %u scalar arguments for a kernel that takes %u and %u",
                     run->argument_count, run->scalar_count, plan->binding_count,
                     plan->scalar_count);
  for (uint32_t i = 0; i < run->argument_count; i++)
    VYC_TRY(check_argument(plan, i, &run->arguments[i]));
  return VYC_OK;
}

/* ---- run and submit -------------------------------------------------------------------------- */

static vyc_status submit(vyc_plan *plan, vyc_lane **lane_out, const vyc_run *run) {
  VYC_TRY(vyc__run_check(plan, run));
  VYC_TRY(vyc__lane_take(plan, lane_out));
  return vyc__lane_submit(*lane_out, run);
}

/* The wait of vyc_plan_run ended early: the lane flies on, owned by a ticket or by nobody. */
static vyc_status leave_in_flight(vyc_lane *lane, vyc_ticket **ticket_out) {
  vyc_ticket *ticket = NULL;
  VYC_TRY(vyc__ticket_make(lane, &ticket));
  atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
  if (ticket_out != NULL)
    *ticket_out = ticket;
  else
    vyc_ticket_release(ticket);
  return vyc__fail(VYC_E_TIMEOUT, "run", "kernel %s has not finished in the time allowed",
                   lane->plan->entry);
}

vyc_status vyc_plan_run(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL);
  if (ticket_out != NULL) *ticket_out = NULL;
  vyc_context *context = plan->child.context;
  vyc_scope scope;
  vyc_lane *lane = NULL;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_timing *timing = run == NULL ? NULL : run->timing_out;
  const uint64_t begin = timing == NULL ? 0 : vyc__now_ns();
  vyc_status status = submit(plan, &lane, run);
  if (status == VYC_OK) {
    const uint64_t submitted = timing == NULL ? 0 : vyc__now_ns();
    status = vyc__lane_wait(lane, run->timeout_ns);
    status = status == VYC_NOT_READY ? leave_in_flight(lane, ticket_out)
                                     : vyc__lane_collect(lane, status, timing);
    if (timing != NULL) {
      const uint64_t end = vyc__now_ns();
      timing->wall_ns = end - begin;
      timing->enqueue_ns = submitted - begin;
      timing->wait_ns = end - submitted;
    }
  }
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_plan_submit(vyc_plan *plan, vyc_ticket **ticket_out, const vyc_run *run) {
  VYC_REQUIRE(plan != NULL && ticket_out != NULL);
  *ticket_out = NULL;
  vyc_context *context = plan->child.context;
  vyc_scope scope;
  vyc_lane *lane = NULL;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = submit(plan, &lane, run);
  if (status == VYC_OK) {
    status = vyc__ticket_make(lane, ticket_out);
    atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
  }
  vyc__leave(context, &scope);
  return status;
}

/* ---- tickets --------------------------------------------------------------------------------- */

vyc_status vyc__ticket_make(vyc_lane *lane, vyc_ticket **ticket_out) {
  vyc_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) return vyc__fail(VYC_E_MEMORY, "submit", "out of host memory");
  atomic_init(&ticket->references, 2);
  ticket->lane = lane;
  ticket->plan = lane->plan;
  plan_retain(ticket->plan);
  lane->ticket = ticket;
  *ticket_out = ticket;
  return VYC_OK;
}

static vyc_status outcome(vyc_ticket *ticket) {
  const vyc_status status = (vyc_status)ticket->error.status;
  if (status != VYC_OK) vyc__error_restore(&ticket->error);
  return status;
}

vyc_status vyc_ticket_wait(vyc_ticket *ticket, int64_t timeout_ns) {
  VYC_REQUIRE(ticket != NULL);
  if (atomic_load_explicit(&ticket->done, memory_order_acquire)) return outcome(ticket);
  vyc_context *context = ticket->plan->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_NOT_READY;
  const uint64_t begin = vyc__now_ns();
  while (!atomic_load_explicit(&ticket->done, memory_order_acquire)) {
    vyc_lane *lane = ticket->lane;
    int expected = LANE_FLIGHT;
    if (atomic_compare_exchange_strong(&lane->state, &expected, LANE_CLAIMED)) {
      if (lane->ticket != ticket) { /* reused meanwhile: this ticket is done */
        atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
        continue;
      }
      status = vyc__lane_wait(lane, timeout_ns);
      if (status != VYC_NOT_READY) {
        vyc__lane_collect(lane, status, NULL);
        continue;
      }
      atomic_store_explicit(&lane->state, LANE_FLIGHT, memory_order_release);
    } else {
      vyc__sleep_us(20); /* another thread waits for or collects it */
    }
    if (timeout_ns >= 0 && vyc__now_ns() - begin >= (uint64_t)timeout_ns) break;
  }
  status = atomic_load_explicit(&ticket->done, memory_order_acquire) ? outcome(ticket)
                                                                    : VYC_NOT_READY;
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_ticket_query(vyc_ticket *ticket) { return vyc_ticket_wait(ticket, 0); }

static void ticket_unref(vyc_ticket *ticket) {
  if (atomic_fetch_sub_explicit(&ticket->references, 1, memory_order_acq_rel) == 1) free(ticket);
}

void vyc__ticket_settle(vyc_lane *lane, vyc_status status) {
  vyc_ticket *ticket = lane->ticket;
  if (ticket == NULL) return;
  lane->ticket = NULL;
  if (status != VYC_OK) vyc__error_save(&ticket->error);
  ticket->error.status = (int32_t)status;
  atomic_store_explicit(&ticket->done, true, memory_order_release);
  ticket_unref(ticket);
}

/* Nobody may write to the result memory once this returns: the lane is claimed to say so. */
static void abandon(vyc_ticket *ticket) {
  while (!atomic_load_explicit(&ticket->done, memory_order_acquire)) {
    int expected = LANE_FLIGHT;
    if (atomic_compare_exchange_strong(&ticket->lane->state, &expected, LANE_CLAIMED)) {
      if (ticket->lane->ticket == ticket) ticket->abandoned = true;
      atomic_store_explicit(&ticket->lane->state, LANE_FLIGHT, memory_order_release);
      return;
    }
    if (expected == LANE_DEAD) return;
    vyc__sleep_us(20);
  }
}

void vyc_ticket_release(vyc_ticket *ticket) {
  if (ticket == NULL) return;
  vyc_plan *plan = ticket->plan;
  abandon(ticket);
  ticket_unref(ticket);
  vyc_plan_release(plan);
}
