/* Loading and linking device code. All kernels of a module are loaded with it, so that no first
 * launch has to; the driver's compiler log is written to the caller's buffer. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

/* The driver waits for running kernels before it unloads; a kernel that never ends keeps its code.
 */
static void module_destroy(vyc_child *child) {
  vyc_module *module = (vyc_module *)child;
  vyc_context *context = child->context;
  vyc__workers_pause(context);
  child->has_leaked = !vyc__await_end(context);
  if (!child->has_leaked) context->driver->cuModuleUnload(module->handle);
  vyc__workers_resume(context);
}

static void module_reap(vyc_child *child) {
  child->context->driver->cuModuleUnload(((vyc_module *)child)->handle);
  free(child);
}

static const vyc_child_kind module_kind = {.destroy = module_destroy, .reap = module_reap};

/* JIT results that mean that the image was refused, and not that the device has failed. */
static bool is_refusal(CUresult result) {
  return result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
         result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
         result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
         result == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

static vyc_status refused(vyc_context *context, CUresult result, const char *operation,
                          const char *log) {
  if (!is_refusal(result)) return vyc__driver_failed(context, result, operation);
  const char *name = vyc__driver_result_name(context->driver, result);
  const bool has_log = log != NULL && log[0] != '\0';
  return vyc__fail_driver(VYC_E_COMPILE, operation, (int32_t)result, name,
                          "the driver refused the kernel: %s%s%.400s", name, has_log ? "\n" : "",
                          has_log ? log : "");
}

/* The driver reads text up to its NUL; ELF images and fat binaries know their own size. */
static vyc_status check_image(const void *image, size_t bytes) {
  VYC_REQUIRE_IN("module", image != NULL && bytes > 0);
  if (bytes >= 4 && (memcmp(image,
                            "\x7f"
                            "ELF",
                            4) == 0 ||
                     memcmp(image, "\x50\xed\x55\xba", 4) == 0))
    return VYC_OK;
  if (memchr(image, 0, bytes) != NULL) return VYC_OK;
  return vyc__fail(VYC_E_INVALID, "module", "the PTX text of %zu bytes has no NUL at its end",
                   bytes);
}

static vyc_status load(vyc_module **module_out, char *log_out, size_t log_bytes,
                       vyc_context *context, const void *image) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log_out, (void *)(uintptr_t)log_bytes};
  const unsigned option_count = log_bytes > 0 ? 2u : 0u;
  vyc_module *module = calloc(1, sizeof *module);
  if (module == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const uint64_t begin_ns = vyc__now_ns();
  vyc__workers_pause(context);
  const CUresult result =
      context->driver->cuModuleLoadDataEx(&module->handle, image, option_count, options, values);
  vyc__workers_resume(context);
  vyc__capture_restore(context->driver, mode);
  vyc__count(&context->counters, module_loads, 1);
  vyc__count(&context->counters, module_load_ns_total, vyc__now_ns() - begin_ns);
  if (result != CUDA_SUCCESS) {
    free(module);
    return refused(context, result, "cuModuleLoadDataEx", log_out);
  }
  vyc__child_add(&module->child, context, &module_kind);
  *module_out = module;
  return VYC_OK;
}

/* A log that is not wanted has 0 bytes; one longer than the driver can count is truncated. */
static size_t begin_log(char *log_out, size_t log_bytes) {
  if (log_out == NULL || log_bytes == 0) return 0;
  log_out[0] = '\0';
  return log_bytes > UINT32_MAX ? UINT32_MAX : log_bytes;
}

vyc_status vyc_module_load(vyc_module **module_out, char *log_out, size_t log_bytes,
                           vyc_context *context, const void *image, size_t bytes) {
  VYC_REQUIRE(module_out != NULL && context != NULL);
  *module_out = NULL;
  log_bytes = begin_log(log_out, log_bytes);
  VYC_TRY(check_image(image, bytes));
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = load(module_out, log_out, log_bytes, context, image);
  vyc__leave(context, &scope);
  return status;
}

void vyc_module_release(vyc_module *module) {
  if (module != NULL) vyc__child_release(&module->child);
}

vyc_status vyc__parameters_supported(const vyc_context *context) {
  if (context->driver->cuFuncGetParamInfo != NULL) return VYC_OK;
  return vyc__fail(
      VYC_E_UNSUPPORTED, "cuFuncGetParamInfo",
      "this driver does not report the parameters of kernels; drivers for CUDA 12.4 do");
}

vyc_status vyc__module_function(vyc_module *module, CUfunction *function_out, const char *name) {
  vyc_context *context = module->child.context;
  const CUresult result = context->driver->cuModuleGetFunction(function_out, module->handle, name);
  if (result == CUDA_SUCCESS) return VYC_OK;
  if (result == CUDA_ERROR_NOT_FOUND)
    return vyc__fail(VYC_E_INVALID, "module", "the module has no kernel %s", name);
  return vyc__driver_failed(context, result, "cuModuleGetFunction");
}

static vyc_status read_parameter(vyc_module *module, uint32_t *offset_out, uint32_t *bytes_out,
                                 const char *name, uint32_t index) {
  vyc_context *context = module->child.context;
  const vyc_driver *driver = context->driver;
  CUfunction function = NULL;
  size_t offset = 0, bytes = 0;
  VYC_TRY(vyc__module_function(module, &function, name));
  VYC_TRY(vyc__parameters_supported(context));
  const CUresult result = driver->cuFuncGetParamInfo(function, index, &offset, &bytes);
  if (result == CUDA_ERROR_INVALID_VALUE) return VYC_OK; /* past the last */
  if (result != CUDA_SUCCESS) return vyc__driver_failed(context, result, "cuFuncGetParamInfo");
  *offset_out = (uint32_t)offset;
  *bytes_out = (uint32_t)bytes;
  return VYC_OK;
}

vyc_status vyc_module_parameter(vyc_module *module, uint32_t *offset_out, uint32_t *bytes_out,
                                const char *name, uint32_t index) {
  VYC_REQUIRE(module != NULL && offset_out != NULL && bytes_out != NULL && name != NULL);
  *offset_out = 0;
  *bytes_out = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter(module->child.context, &scope));
  const vyc_status status = read_parameter(module, offset_out, bytes_out, name, index);
  vyc__leave(module->child.context, &scope);
  return status;
}

static vyc_status link_image(vyc_context *context, void **image_out, size_t *bytes_out,
                             char *log_out, size_t log_bytes, const void *ptx, size_t bytes) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log_out, (void *)(uintptr_t)log_bytes};
  const unsigned option_count = log_bytes > 0 ? 2u : 0u;
  VYC_CU_RESULT;
  CUlinkState link = NULL;
  void *image = NULL;
  size_t size = 0;
  VYC_TRY(VYC_CU(context, cuLinkCreate, option_count, options, values, &link));
  vyc_status status = VYC_OK;
  const char *operation = "cuLinkAddData";
  CUresult result = context->driver->cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx,
                                                   bytes, "kernel", 0, NULL, NULL);
  if (result == CUDA_SUCCESS) {
    operation = "cuLinkComplete";
    result = context->driver->cuLinkComplete(link, &image, &size);
  }
  if (result != CUDA_SUCCESS) {
    status = refused(context, result, operation, log_out);
  } else {
    *image_out = malloc(size); /* the linker's copy goes with the link state */
    if (*image_out == NULL) {
      status = vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
    } else {
      memcpy(*image_out, image, size);
      *bytes_out = size;
    }
  }
  context->driver->cuLinkDestroy(link);
  return status;
}

vyc_status vyc_module_link(void **image_out, size_t *bytes_out, char *log_out, size_t log_bytes,
                           vyc_context *context, const void *ptx, size_t bytes) {
  VYC_REQUIRE(image_out != NULL && bytes_out != NULL && context != NULL);
  *image_out = NULL;
  *bytes_out = 0;
  log_bytes = begin_log(log_out, log_bytes);
  VYC_TRY(check_image(ptx, bytes));
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const uint64_t begin_ns = vyc__now_ns();
  const vyc_status status =
      link_image(context, image_out, bytes_out, log_out, log_bytes, ptx, bytes);
  vyc__count(&context->counters, module_links, 1);
  vyc__count(&context->counters, module_load_ns_total, vyc__now_ns() - begin_ns);
  vyc__leave(context, &scope);
  return status;
}
