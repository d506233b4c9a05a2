/* Plans: everything that a call could look up is laid out here once. */
#include "room.h"

#include <stdlib.h>
#include <string.h>

/* Structs that come in arrays cannot grow. */
_Static_assert(sizeof(vyc_parameter) == 24, "part of the ABI");
_Static_assert(sizeof(vyc_binding) == 16, "part of the ABI");
_Static_assert(sizeof(vyc_argument) == 64, "part of the ABI");

/* ---- what is there for each stream ----------------------------------------------------------- */

vyc_on_stream *vyc__on_stream_make(vyc_plan *plan, uint32_t slot) {
  if (VYC_LIKELY(slot < VYC_NEAR_SLOTS)) return &plan->near[slot];
  vyc_on_stream *at = vyc__far_entry_make(&plan->far, slot, sizeof *at);
  if (at == NULL) vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
  return at;
}

void vyc__on_each_stream(vyc_plan *plan,
                         void (*visit)(vyc_plan *plan, vyc_on_stream *at, uint32_t slot)) {
  for (uint32_t slot = 0; slot < VYC_NEAR_SLOTS; slot++) visit(plan, &plan->near[slot], slot);
  for (uint32_t part = 0; part < VYC_FAR_PARTS; part++) {
    vyc_on_stream *all = atomic_load_explicit(&plan->far.parts[part], memory_order_acquire);
    for (uint32_t i = 0; all != NULL && i < vyc__far_room(part); i++)
      visit(plan, &all[i], vyc__far_first(part) + i);
  }
}

static void exec_destroy(vyc_plan *plan, vyc_on_stream *at, uint32_t slot) {
  vyc_exec *exec = atomic_load(&at->exec);
  (void)slot;
  if (exec != NULL) vyc__exec_destroy(exec, plan->child.context);
}

static void exec_free(vyc_plan *plan, vyc_on_stream *at, uint32_t slot) {
  (void)plan;
  (void)slot;
  free(atomic_load(&at->exec));
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool lanes_destroy(vyc_plan *plan) {
  return plan->child.context->above->lanes_destroy(plan);
}

/* With a lane whose run never ended it leaks, and its module: that is still work. */
static void plan_destroy(vyc_child *child) {
  vyc_plan *plan = (vyc_plan *)child;
  child->has_leaked = !lanes_destroy(plan);
  vyc__on_each_stream(plan, exec_destroy);
  vyc__plan_reports_end(plan);
  vyc__barriers_release(plan);
}

static void free_memory(vyc_plan *plan) {
  vyc__on_each_stream(plan, exec_free);
  vyc__far_parts_free(&plan->far);
  vyc__spares_free(plan);
  if (plan->parameters != plan->few_parameters) free(plan->parameters);
  if (plan->bindings != plan->few_bindings) free(plan->bindings);
  free(plan);
}

/* What looks for abandoned work goes on looking at the lanes. */
static void plan_finish(vyc_child *child) {
  vyc_plan *plan = (vyc_plan *)child;
  if (atomic_load(&child->context->abandoned)) return;
  vyc_module *module = plan->module;
  vyc__name_release(&child->context->history, plan->called);
  child->context->above->lanes_free(plan);
  free_memory(plan);
  vyc_module_release(module);
}

static void plan_reap(vyc_child *child) {
  if (lanes_destroy((vyc_plan *)child)) plan_finish(child);
}

static bool is_claimed(const vyc_on_stream *at) {
  const vyc_exec *exec = atomic_load(&at->exec);
  return exec != NULL && vyc__claim_is_taken(&exec->claim);
}

/* Some thread is launching it. */
static bool plan_is_claimed(const vyc_child *child) {
  const vyc_plan *plan = (const vyc_plan *)child;
  bool claimed = false;
  for (uint32_t slot = 0; slot < VYC_NEAR_SLOTS; slot++) claimed |= is_claimed(&plan->near[slot]);
  for (uint32_t part = 0; part < VYC_FAR_PARTS; part++) {
    const vyc_on_stream *all = atomic_load_explicit(&plan->far.parts[part], memory_order_acquire);
    for (uint32_t i = 0; all != NULL && i < vyc__far_room(part); i++)
      claimed |= is_claimed(&all[i]);
  }
  return claimed;
}

const vyc_child_kind vyc__plan_kind = {.destroy = plan_destroy,
                                       .finish = plan_finish,
                                       .is_claimed = plan_is_claimed,
                                       .reap = plan_reap};

/* ---- creation ------------------------------------------------------------------------------- */

static vyc_status check_parameter(const vyc_plan_desc *desc, const vyc_parameter *p) {
  const bool scalar = p->kind == VYC_PARAMETER_SCALAR;
  const bool hidden = p->kind == VYC_PARAMETER_REPORT || p->kind == VYC_PARAMETER_GRID_BARRIER;
  const bool address = p->kind == VYC_PARAMETER_POINTER || hidden;
  VYC_REQUIRE_IN("vyc_plan_create",
                 p->kind >= VYC_PARAMETER_POINTER && p->kind <= VYC_PARAMETER_GRID_BARRIER);
  VYC_REQUIRE_IN("vyc_plan_create", p->size >= 1 && p->size <= 8 && (p->size == 8 || !address));
  VYC_REQUIRE_IN("vyc_plan_create", p->offset <= desc->parameter_bytes);
  VYC_REQUIRE_IN("vyc_plan_create", p->size <= desc->parameter_bytes - p->offset);
  VYC_REQUIRE_IN("vyc_plan_create",
                 hidden || p->index < (scalar ? desc->scalar_count : desc->binding_count));
  return VYC_OK;
}

static vyc_status check_block(const uint32_t block[3]) {
  const uint64_t plane = (uint64_t)block[0] * block[1];
  VYC_REQUIRE_IN("vyc_plan_create", block[0] >= 1 && block[1] >= 1 && block[2] >= 1);
  VYC_REQUIRE_IN("vyc_plan_create", plane <= INT32_MAX && plane * block[2] <= INT32_MAX);
  return VYC_OK;
}

/* A caller of an earlier version has a shorter struct. */
#define DESC_BYTES_FIRST offsetof(vyc_plan_desc, name)

static const char *name_of(const vyc_plan_desc *desc) {
  const bool has_name = desc->struct_size >= offsetof(vyc_plan_desc, labels);
  return !has_name || desc->name == NULL ? desc->entry : desc->name;
}

vyc_status vyc__plan_check(const vyc_plan_desc *desc) {
  VYC_REQUIRE_IN("vyc_plan_create",
                 desc != NULL && desc->struct_size >= DESC_BYTES_FIRST && desc->entry != NULL);
  VYC_REQUIRE_IN("vyc_plan_create", desc->dynamic_shared_bytes <= INT32_MAX);
  VYC_REQUIRE_IN("vyc_plan_create", desc->parameter_bytes <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_plan_create", desc->parameter_count <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_plan_create", desc->binding_count <= VYC_MAX_BINDINGS);
  VYC_REQUIRE_IN("vyc_plan_create", desc->scalar_count <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_plan_create", desc->parameters != NULL || desc->parameter_count == 0);
  VYC_REQUIRE_IN("vyc_plan_create", desc->bindings != NULL || desc->binding_count == 0);
  VYC_TRY(check_block(desc->block));
  for (uint32_t i = 0; i < desc->parameter_count; i++)
    VYC_TRY(check_parameter(desc, &desc->parameters[i]));
  for (uint32_t i = 0; i < desc->binding_count; i++) {
    const vyc_binding *b = &desc->bindings[i];
    VYC_REQUIRE_IN("vyc_plan_create", b->role >= VYC_ROLE_IN && b->role <= VYC_ROLE_OUT);
    VYC_REQUIRE_IN("vyc_plan_create", b->element_bytes >= 1 && b->element_bytes <= 16);
  }
  return vyc__labels_check(desc);
}

static vyc_status copy_desc(vyc_plan *plan, const vyc_plan_desc *desc) {
  const size_t parameters = desc->parameter_count * sizeof *plan->parameters;
  const size_t bindings = desc->binding_count * sizeof *plan->bindings;
  const bool few_parameters = parameters <= sizeof plan->few_parameters;
  const bool few_bindings = bindings <= sizeof plan->few_bindings;
  plan->parameters = few_parameters ? plan->few_parameters : malloc(parameters);
  plan->bindings = few_bindings ? plan->few_bindings : malloc(bindings);
  if (plan->parameters == NULL || plan->bindings == NULL)
    return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  for (uint32_t i = 0; i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    plan->parameters[i] = (vyc_place_in_block){(uint16_t)p->offset, (uint16_t)p->index,
                                               (uint8_t)p->kind, (uint8_t)p->size};
  }
  if (bindings > 0) memcpy(plan->bindings, desc->bindings, bindings);
  memcpy(plan->block, desc->block, sizeof plan->block);
  plan->dynamic_shared_bytes = desc->dynamic_shared_bytes;
  plan->parameter_bytes = desc->parameter_bytes;
  plan->block_bytes =
      desc->parameter_bytes < VYC_NOTED_BYTES ? VYC_NOTED_BYTES : desc->parameter_bytes;
  plan->parameter_count = desc->parameter_count;
  plan->binding_count = desc->binding_count;
  plan->scalar_count = desc->scalar_count;
  plan->tag = desc->tag;
  plan->cooperative = (desc->flags & VYC_PLAN_COOPERATIVE) != 0;
  plan->may_overlap = (desc->flags & VYC_PLAN_MAY_OVERLAP) != 0;
  for (uint32_t i = 0; i < desc->binding_count && !plan->may_overlap; i++)
    if (desc->bindings[i].role != VYC_ROLE_IN) plan->written[plan->written_count++] = (uint8_t)i;
  for (uint32_t i = 0; i < desc->parameter_count; i++)
    if (desc->parameters[i].kind == VYC_PARAMETER_REPORT)
      plan->has_report = true;
    else if (desc->parameters[i].kind == VYC_PARAMETER_GRID_BARRIER)
      plan->has_barrier = true;
  plan->relaunches = !plan->cooperative && !plan->has_barrier &&
                     plan->module->child.context->driver->version >= 13000;
  return VYC_OK;
}

/* Plans of one function share this limit, so it only rises. */
static vyc_status allow_shared(const vyc_plan *plan, vyc_context *context) {
  const CUfunction_attribute limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  const int wanted = (int)plan->dynamic_shared_bytes;
  int allowed = 0;
  VYC_CU_RESULT;
  if (wanted == 0) return VYC_OK;
  VYC_TRY(VYC_CU(context, cuFuncGetAttribute, &allowed, limit, plan->function));
  if (wanted <= allowed) return VYC_OK;
  return VYC_CU(context, cuFuncSetAttribute, plan->function, limit, wanted);
}

static vyc_status prepare(vyc_plan *plan, vyc_context *context, const vyc_plan_desc *desc) {
  VYC_CU_RESULT;
  VYC_TRY(vyc__name_make(&plan->called, name_of(desc), desc));
  plan->noted = vyc__noted_as(plan->called);
  plan->name = plan->called->text;
  VYC_TRY(VYC_CU(context, cuModuleGetFunction, &plan->function, plan->module->handle, desc->entry));
  VYC_TRY(allow_shared(plan, context));
  return plan->cooperative ? vyc__cooperative_prepare(plan, context) : VYC_OK;
}

vyc_status vyc_plan_create(vyc_plan **plan_out, vyc_module *module, const vyc_plan_desc *desc) {
  VYC_REQUIRE(plan_out != NULL && module != NULL);
  *plan_out = NULL;
  VYC_TRY(vyc__plan_check(desc));
  vyc_context *context = module->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_plan *plan = calloc(1, sizeof *plan);
  vyc_status status = VYC_OK;
  if (plan == NULL) {
    status = vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
    goto leave;
  }
  plan->module = module;
  status = copy_desc(plan, desc);
  if (status == VYC_OK) status = prepare(plan, context, desc);
  if (status == VYC_OK) {
    vyc__child_retain(&module->child);
    vyc__child_add(&plan->child, context, &vyc__plan_kind);
    *plan_out = plan;
  } else {
    vyc__name_release(&context->history, plan->called);
    free_memory(plan);
  }
leave:
  vyc__leave(context, &scope);
  return status;
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
  VYC_TRY(attribute(plan, &info->max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
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
  VYC_REQUIRE(plan != NULL && info_out != NULL);
  VYC_REQUIRE(info_out->struct_size >= sizeof(uint32_t));
  vyc_function_info info = {0};
  vyc_scope scope;
  VYC_TRY(vyc__enter(plan->child.context, &scope));
  const vyc_status status = read_function(plan, &info);
  vyc__leave(plan->child.context, &scope);
  if (status == VYC_OK) vyc__struct_out(info_out, &info, sizeof info);
  return status;
}
