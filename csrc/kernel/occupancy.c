/* How many blocks of a kernel fit on a multiprocessor, by the driver's own calculator. */
#include "room.h"

static vyc_status largest(vyc_module *module, int *threads_out, const char *name,
                          uint32_t dynamic_shared_bytes, uint32_t limit) {
  vyc_context *context = module->child.context;
  CUfunction function = NULL;
  int grid = 0;
  VYC_CU_RESULT;
  VYC_TRY(vyc__module_function(module, &function, name));
  return VYC_CU(context, cuOccupancyMaxPotentialBlockSize, &grid, threads_out, function, NULL,
                dynamic_shared_bytes, (int)limit);
}

vyc_status vyc_module_block_size(vyc_module *module, uint32_t *threads_out, const char *name,
                                 uint32_t dynamic_shared_bytes, uint32_t limit) {
  VYC_REQUIRE(module != NULL && threads_out != NULL && name != NULL && limit <= INT32_MAX);
  int threads = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter(module->child.context, &scope));
  const vyc_status status = largest(module, &threads, name, dynamic_shared_bytes, limit);
  vyc__leave(module->child.context, &scope);
  *threads_out = (uint32_t)threads;
  return status;
}

static vyc_status count(vyc_module *module, int *blocks_out, const char *name, uint32_t threads,
                        uint32_t dynamic_shared_bytes) {
  vyc_context *context = module->child.context;
  CUfunction function = NULL;
  VYC_CU_RESULT;
  VYC_TRY(vyc__module_function(module, &function, name));
  return VYC_CU(context, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks_out, function,
                (int)threads, dynamic_shared_bytes);
}

vyc_status vyc_module_resident_blocks(vyc_module *module, uint32_t *blocks_out, const char *name,
                                      uint32_t threads, uint32_t dynamic_shared_bytes) {
  VYC_REQUIRE(module != NULL && blocks_out != NULL && name != NULL);
  VYC_REQUIRE(threads >= 1 && threads <= INT32_MAX);
  int blocks = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter(module->child.context, &scope));
  const vyc_status status = count(module, &blocks, name, threads, dynamic_shared_bytes);
  vyc__leave(module->child.context, &scope);
  *blocks_out = (uint32_t)blocks;
  return status;
}
