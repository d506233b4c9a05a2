/* Prepared kernels: everything that a call would have to look up is prepared here once. */
#include "room.h"

#include <stdlib.h>
#include <string.h>

/* Structs that come in arrays cannot grow. */
_Static_assert(sizeof(vyc_parameter) == 24, "part of the ABI");
_Static_assert(sizeof(vyc_binding) == 16, "part of the ABI");
_Static_assert(sizeof(vyc_argument) == 64, "part of the ABI");
_Static_assert(sizeof(vyc_known) == 32, "part of the ABI");

/* ---- what is there for each stream ----------------------------------------------------------- */

vyc_on_stream *vyc__on_stream_make(vyc_prepared *prepared, uint32_t slot) {
  if (VYC_LIKELY(slot < VYC_NEAR_SLOTS)) return &prepared->near[slot];
  vyc_on_stream *at = vyc__far_entry_make(&prepared->far, slot, sizeof *at);
  if (at == NULL) vyc__fail(VYC_E_MEMORY, "launch", "out of host memory");
  return at;
}

void vyc__on_each_stream(vyc_prepared *prepared,
                         void (*visit)(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot)) {
  for (uint32_t slot = 0; slot < VYC_NEAR_SLOTS; slot++)
    visit(prepared, &prepared->near[slot], slot);
  for (uint32_t part = 0; part < VYC_FAR_PARTS; part++) {
    vyc_on_stream *all = atomic_load_explicit(&prepared->far.parts[part], memory_order_acquire);
    for (uint32_t i = 0; all != NULL && i < vyc__far_room(part); i++)
      visit(prepared, &all[i], vyc__far_first(part) + i);
  }
}

static void launch_graph_destroy(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot) {
  vyc_launch_graph *launch_graph = atomic_load(&at->launch_graph);
  (void)slot;
  if (launch_graph != NULL) vyc__launch_graph_destroy(launch_graph, prepared->child.context);
}

static void launch_graph_free(vyc_prepared *prepared, vyc_on_stream *at, uint32_t slot) {
  (void)prepared;
  (void)slot;
  free(atomic_load(&at->launch_graph));
}

/* ---- ends ------------------------------------------------------------------------------------ */

static bool submissions_destroy(vyc_prepared *prepared) {
  return prepared->child.context->above->submissions_destroy(prepared);
}

/* If the run of a submission never ended, the prepared kernel and its module leak: they are still
 * in use. */
static void prepared_destroy(vyc_child *child) {
  vyc_prepared *prepared = (vyc_prepared *)child;
  child->has_leaked = !submissions_destroy(prepared);
  vyc__on_each_stream(prepared, launch_graph_destroy);
  vyc__prepared_reports_end(prepared);
  vyc__barriers_release(prepared);
}

static void free_memory(vyc_prepared *prepared) {
  vyc__on_each_stream(prepared, launch_graph_free);
  vyc__far_parts_free(&prepared->far);
  vyc__spares_free(prepared);
  if (prepared->parameters != prepared->few_parameters) free(prepared->parameters);
  if (prepared->bindings != prepared->few_bindings) free(prepared->bindings);
  free(prepared->known);
  free(prepared);
}

/* The search for abandoned work still reads the submissions. */
static void prepared_finish(vyc_child *child) {
  vyc_prepared *prepared = (vyc_prepared *)child;
  if (atomic_load(&child->context->abandoned)) {
    vyc__child_leak(child);
    return;
  }
  vyc_module *module = prepared->module, *other = atomic_load(&prepared->several_module);
  vyc__name_release(&child->context->history, prepared->called);
  child->context->above->submissions_free(prepared);
  free_memory(prepared);
  vyc_module_release(other);
  vyc_module_release(module);
}

static void prepared_reap(vyc_child *child) {
  if (submissions_destroy((vyc_prepared *)child)) prepared_finish(child);
}

static bool is_claimed(const vyc_on_stream *at) {
  const vyc_launch_graph *launch_graph = atomic_load(&at->launch_graph);
  return launch_graph != NULL && vyc__claim_is_taken(&launch_graph->claim);
}

/* A thread is launching it. */
static bool prepared_is_claimed(const vyc_child *child) {
  const vyc_prepared *prepared = (const vyc_prepared *)child;
  bool claimed = false;
  for (uint32_t slot = 0; slot < VYC_NEAR_SLOTS; slot++)
    claimed |= is_claimed(&prepared->near[slot]);
  for (uint32_t part = 0; part < VYC_FAR_PARTS; part++) {
    const vyc_on_stream *all =
        atomic_load_explicit(&prepared->far.parts[part], memory_order_acquire);
    for (uint32_t i = 0; all != NULL && i < vyc__far_room(part); i++)
      claimed |= is_claimed(&all[i]);
  }
  return claimed;
}

const vyc_child_kind vyc__prepared_kind = {.destroy = prepared_destroy,
                                           .finish = prepared_finish,
                                           .is_claimed = prepared_is_claimed,
                                           .reap = prepared_reap};

/* ---- creation ------------------------------------------------------------------------------- */

static vyc_status check_parameter(const vyc_prepared_desc *desc, const vyc_parameter *p) {
  const bool scalar = p->kind == VYC_PARAMETER_SCALAR;
  const bool hidden = p->kind == VYC_PARAMETER_REPORT || p->kind == VYC_PARAMETER_GRID_BARRIER;
  const bool address = p->kind == VYC_PARAMETER_POINTER || hidden;
  VYC_REQUIRE_IN("vyc_prepared_create",
                 p->kind >= VYC_PARAMETER_POINTER && p->kind <= VYC_PARAMETER_GRID_BARRIER);
  VYC_REQUIRE_IN("vyc_prepared_create", p->size >= 1 && p->size <= 8 && (p->size == 8 || !address));
  VYC_REQUIRE_IN("vyc_prepared_create", p->offset <= desc->parameter_bytes);
  VYC_REQUIRE_IN("vyc_prepared_create", p->size <= desc->parameter_bytes - p->offset);
  VYC_REQUIRE_IN("vyc_prepared_create",
                 hidden || p->index < (scalar ? desc->scalar_count : desc->binding_count));
  return VYC_OK;
}

static vyc_status check_block(const uint32_t block[3]) {
  const uint64_t plane = (uint64_t)block[0] * block[1];
  VYC_REQUIRE_IN("vyc_prepared_create", block[0] >= 1 && block[1] >= 1 && block[2] >= 1);
  VYC_REQUIRE_IN("vyc_prepared_create", plane <= INT32_MAX && plane * block[2] <= INT32_MAX);
  return VYC_OK;
}

/* A caller of an earlier version has a shorter struct. */
#define DESC_BYTES_FIRST offsetof(vyc_prepared_desc, name)

static const char *name_of(const vyc_prepared_desc *desc) {
  const bool has_name = desc->struct_size >= offsetof(vyc_prepared_desc, labels);
  return !has_name || desc->name == NULL ? desc->entry : desc->name;
}

static bool has_several(const vyc_prepared_desc *desc) {
  return desc->struct_size >= sizeof *desc && desc->several != NULL;
}

static bool is_several(uint32_t elements) { return elements >= 2 && elements <= VYC_SEVERAL_MOST; }

static vyc_status check_several(const vyc_prepared_desc *desc) {
  if (!has_several(desc)) return VYC_OK;
  VYC_REQUIRE_IN("vyc_prepared_create", is_several(desc->several_elements));
  VYC_REQUIRE_IN("vyc_prepared_create", desc->block[1] == 1 && desc->block[2] == 1);
  VYC_REQUIRE_IN("vyc_prepared_create", (desc->flags & VYC_PREPARED_COOPERATIVE) == 0);
  return VYC_OK;
}

vyc_status vyc__prepared_check(const vyc_prepared_desc *desc) {
  VYC_REQUIRE_IN("vyc_prepared_create",
                 desc != NULL && desc->struct_size >= DESC_BYTES_FIRST && desc->entry != NULL);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->dynamic_shared_bytes <= INT32_MAX);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->parameter_bytes <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->parameter_count <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->binding_count <= VYC_MAX_BINDINGS);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->scalar_count <= VYC_MAX_PARAMETER_BYTES);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->parameters != NULL || desc->parameter_count == 0);
  VYC_REQUIRE_IN("vyc_prepared_create", desc->bindings != NULL || desc->binding_count == 0);
  VYC_TRY(check_block(desc->block));
  for (uint32_t i = 0; i < desc->parameter_count; i++)
    VYC_TRY(check_parameter(desc, &desc->parameters[i]));
  for (uint32_t i = 0; i < desc->binding_count; i++) {
    const vyc_binding *b = &desc->bindings[i];
    VYC_REQUIRE_IN("vyc_prepared_create", b->role >= VYC_ROLE_IN && b->role <= VYC_ROLE_OUT);
    VYC_REQUIRE_IN("vyc_prepared_create", b->element_bytes >= 1 && b->element_bytes <= 16);
    VYC_REQUIRE_IN("vyc_prepared_create", vyc__extents_are_scalars(desc, b));
  }
  VYC_TRY(check_several(desc));
  VYC_TRY(vyc__known_check(desc));
  return vyc__labels_check(desc);
}

static vyc_status copy_desc(vyc_prepared *prepared, const vyc_prepared_desc *desc) {
  const size_t parameters = desc->parameter_count * sizeof *prepared->parameters;
  const size_t bindings = desc->binding_count * sizeof *prepared->bindings;
  const bool few_parameters = parameters <= sizeof prepared->few_parameters;
  const bool few_bindings = bindings <= sizeof prepared->few_bindings;
  prepared->parameters = few_parameters ? prepared->few_parameters : malloc(parameters);
  prepared->bindings = few_bindings ? prepared->few_bindings : malloc(bindings);
  if (prepared->parameters == NULL || prepared->bindings == NULL)
    return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  for (uint32_t i = 0; i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    prepared->parameters[i] = (vyc_block_parameter){(uint16_t)p->offset, (uint16_t)p->index,
                                                    (uint8_t)p->kind, (uint8_t)p->size};
  }
  if (bindings > 0) memcpy(prepared->bindings, desc->bindings, bindings);
  memcpy(prepared->block, desc->block, sizeof prepared->block);
  prepared->dynamic_shared_bytes = desc->dynamic_shared_bytes;
  prepared->parameter_bytes = desc->parameter_bytes;
  prepared->block_bytes =
      desc->parameter_bytes < VYC_NOTED_BYTES ? VYC_NOTED_BYTES : desc->parameter_bytes;
  prepared->parameter_count = desc->parameter_count;
  prepared->binding_count = desc->binding_count;
  prepared->scalar_count = desc->scalar_count;
  prepared->plain_scalars = desc->scalar_count;
  prepared->tag = desc->tag;
  prepared->cooperative = (desc->flags & VYC_PREPARED_COOPERATIVE) != 0;
  prepared->prints = (desc->flags & VYC_PREPARED_PRINTS) != 0;
  prepared->may_overlap = (desc->flags & VYC_PREPARED_MAY_OVERLAP) != 0;
  for (uint32_t i = 0; i < desc->binding_count && !prepared->may_overlap; i++)
    if (desc->bindings[i].role != VYC_ROLE_IN)
      prepared->written[prepared->written_count++] = (uint8_t)i;
  for (uint32_t i = 0; i < desc->parameter_count; i++)
    if (desc->parameters[i].kind == VYC_PARAMETER_REPORT)
      prepared->has_report = true;
    else if (desc->parameters[i].kind == VYC_PARAMETER_GRID_BARRIER)
      prepared->has_barrier = true;
  prepared->relaunches = !prepared->cooperative && !prepared->has_barrier &&
                         prepared->module->child.context->driver->version >= 13000;
  return vyc__known_copy(prepared, desc);
}

/* Prepared kernels of one function share this limit, so it only rises. */
static vyc_status allow_shared(const vyc_prepared *prepared, vyc_context *context) {
  const CUfunction_attribute limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  const int wanted = (int)prepared->dynamic_shared_bytes;
  int allowed = 0;
  VYC_CU_RESULT;
  if (wanted == 0) return VYC_OK;
  VYC_TRY(VYC_CU(context, cuFuncGetAttribute, &allowed, limit, prepared->function));
  if (wanted <= allowed) return VYC_OK;
  return VYC_CU(context, cuFuncSetAttribute, prepared->function, limit, wanted);
}

static void set_several(vyc_prepared *prepared, CUfunction several, uint32_t elements,
                        uint64_t from) {
  prepared->several_elements = elements;
  prepared->several_from = from;
  atomic_store_explicit(&prepared->several, several, memory_order_release);
}

static vyc_status prepare(vyc_prepared *prepared, vyc_context *context,
                          const vyc_prepared_desc *desc) {
  VYC_TRY(vyc__name_make(&prepared->called, name_of(desc), desc));
  prepared->noted = vyc__noted_as(prepared->called);
  prepared->name = prepared->called->text;
  VYC_TRY(vyc__module_function(prepared->module, &prepared->function, desc->entry));
  if (has_several(desc)) {
    CUfunction several;
    VYC_TRY(vyc__module_function(prepared->module, &several, desc->several));
    set_several(prepared, several, desc->several_elements, desc->several_from);
  }
  VYC_TRY(allow_shared(prepared, context));
  if (prepared->prints) atomic_store(&context->prints, true);
  return prepared->cooperative ? vyc__cooperative_prepare(prepared, context) : VYC_OK;
}

vyc_status vyc_prepared_create(vyc_prepared **prepared_out, vyc_module *module,
                               const vyc_prepared_desc *desc) {
  VYC_REQUIRE(prepared_out != NULL && module != NULL);
  *prepared_out = NULL;
  VYC_TRY(vyc__prepared_check(desc));
  vyc_context *context = module->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_prepared *prepared = calloc(1, sizeof *prepared);
  vyc_status status = VYC_OK;
  if (prepared == NULL) {
    status = vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
    goto leave;
  }
  prepared->module = module;
  status = copy_desc(prepared, desc);
  vyc__workers_pause(context); /* the driver may load the function only now */
  if (status == VYC_OK) status = prepare(prepared, context, desc);
  vyc__workers_resume(context);
  if (status == VYC_OK) {
    vyc__child_retain(&module->child);
    vyc__child_add(&prepared->child, context, &vyc__prepared_kind);
    *prepared_out = prepared;
  } else {
    vyc__name_release(&context->history, prepared->called);
    free_memory(prepared);
  }
leave:
  vyc__leave(context, &scope);
  return status;
}

void vyc_prepared_release(vyc_prepared *prepared) {
  if (prepared != NULL) vyc__child_release(&prepared->child);
}

static vyc_status add_several(vyc_prepared *prepared, vyc_module *module, const char *entry,
                              uint32_t elements, uint64_t from) {
  CUfunction several;
  vyc_module *none = NULL;
  VYC_TRY(vyc__module_function(module, &several, entry));
  if (atomic_load(&prepared->several) != NULL ||
      !atomic_compare_exchange_strong(&prepared->several_module, &none, module))
    return vyc__fail(VYC_E_INVALID, "vyc_prepared_add_several",
                     "%s already has an entry for several elements a thread", prepared->name);
  vyc__child_retain(&module->child);
  set_several(prepared, several, elements, from);
  return VYC_OK;
}

vyc_status vyc_prepared_add_several(vyc_prepared *prepared, vyc_module *module, const char *entry,
                                    uint32_t elements, uint64_t from) {
  VYC_REQUIRE(prepared != NULL && module != NULL && entry != NULL && is_several(elements));
  VYC_REQUIRE(module->child.context == prepared->child.context);
  VYC_REQUIRE(prepared->block[1] == 1 && prepared->block[2] == 1 && !prepared->cooperative);
  vyc_scope scope;
  VYC_TRY(vyc__enter(prepared->child.context, &scope));
  const vyc_status status = add_several(prepared, module, entry, elements, from);
  vyc__leave(prepared->child.context, &scope);
  return status;
}

static vyc_status attribute(vyc_prepared *prepared, int32_t *value_out,
                            CUfunction_attribute which) {
  vyc_context *context = prepared->child.context;
  VYC_CU_RESULT;
  return VYC_CU(context, cuFuncGetAttribute, value_out, which, prepared->function);
}

static vyc_status read_function(vyc_prepared *prepared, vyc_function_info *info) {
  vyc_context *context = prepared->child.context;
  VYC_CU_RESULT;
  VYC_TRY(
      attribute(prepared, &info->max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  VYC_TRY(attribute(prepared, &info->registers, CU_FUNC_ATTRIBUTE_NUM_REGS));
  VYC_TRY(attribute(prepared, &info->static_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  VYC_TRY(attribute(prepared, &info->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  VYC_TRY(attribute(prepared, &info->constant_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  VYC_TRY(attribute(prepared, &info->ptx_version, CU_FUNC_ATTRIBUTE_PTX_VERSION));
  VYC_TRY(attribute(prepared, &info->binary_version, CU_FUNC_ATTRIBUTE_BINARY_VERSION));
  const uint32_t threads = prepared->block[0] * prepared->block[1] * prepared->block[2];
  return VYC_CU(context, cuOccupancyMaxActiveBlocksPerMultiprocessor, &info->resident_blocks,
                prepared->function, (int)threads, prepared->dynamic_shared_bytes);
}

vyc_status vyc_prepared_function(vyc_prepared *prepared, vyc_function_info *info_out) {
  VYC_REQUIRE(prepared != NULL && info_out != NULL);
  VYC_REQUIRE(info_out->struct_size >= sizeof(uint32_t));
  vyc_function_info info = {0};
  vyc_scope scope;
  VYC_TRY(vyc__enter(prepared->child.context, &scope));
  const vyc_status status = read_function(prepared, &info);
  vyc__leave(prepared->child.context, &scope);
  if (status == VYC_OK) vyc__struct_out(info_out, &info, sizeof info);
  return status;
}
