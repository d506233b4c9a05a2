/* Opening a driver library: dlopen, cuGetProcAddress for every row of the table, cuInit, and the
 * version and number of devices. Handles are counted; the library itself stays loaded. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

#define VYC_DRIVER_LIBRARY "libcuda.so.1"

typedef CUresult (*get_proc_address)(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status);

struct row {
  const char *name;
  int since;
  size_t offset;
};

#define VYC_DRIVER_ROW(name, since) {#name, since, offsetof(struct vyc_driver, name)},
#define VYC_DRIVER_VERSIONED_ROW(name, since, type)                                                \
  {#name, since, offsetof(struct vyc_driver, name)},
static const struct row rows[] = {VYC_DRIVER_TABLE(VYC_DRIVER_ROW)};
static const struct row optional_rows[] = {
    VYC_DRIVER_OPTIONAL_TABLE(VYC_DRIVER_ROW) VYC_DRIVER_VERSIONED_TABLE(VYC_DRIVER_VERSIONED_ROW)};
#undef VYC_DRIVER_VERSIONED_ROW
#undef VYC_DRIVER_ROW

static CUresult find(get_proc_address lookup, vyc_driver *driver, const struct row *row) {
  void *function = NULL;
  CUdriverProcAddressQueryResult query = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result =
      lookup(row->name, &function, row->since, CU_GET_PROC_ADDRESS_DEFAULT, &query);
  memcpy((char *)driver + row->offset, &function, sizeof function);
  return result == CUDA_SUCCESS && function == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

/* The versioned symbol exists since CUDA 12.0, the oldest driver that is supported. */
static vyc_status find_lookup(get_proc_address *lookup_out, void *library, const char *path) {
  *(void **)lookup_out = dlsym(library, "cuGetProcAddress_v2");
  if (*lookup_out != NULL) return VYC_OK;
  return vyc__fail(
      VYC_E_UNAVAILABLE, "cuGetProcAddress",
      "%s is not a CUDA driver of version 12.0 or newer (no cuGetProcAddress_v2): update the "
      "driver, or give the path of libcuda.so.1",
      path);
}

static vyc_status missing(const struct row *row, const char *path, CUresult result) {
  return vyc__fail_driver(VYC_E_UNAVAILABLE, row->name, (int32_t)result, "",
                          "the driver %s has no %s (version %d.%d): update the driver", path,
                          row->name, row->since / 1000, row->since % 1000 / 10);
}

/* The result of a driver that does not have the function, or not yet with this ABI. */
static bool is_too_old(CUresult result) {
  return result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE ||
         result == CUDA_ERROR_NOT_SUPPORTED;
}

static vyc_status load_functions(vyc_driver *driver, const char *path) {
  get_proc_address lookup = NULL;
  VYC_TRY(find_lookup(&lookup, driver->library, path));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const CUresult result = find(lookup, driver, &rows[i]);
    if (result != CUDA_SUCCESS) return missing(&rows[i], path, result);
  }
  for (size_t i = 0; i < sizeof optional_rows / sizeof optional_rows[0]; i++) {
    void *none = NULL;
    const CUresult result = find(lookup, driver, &optional_rows[i]);
    if (result == CUDA_SUCCESS) continue;
    if (!is_too_old(result)) return missing(&optional_rows[i], path, result);
    memcpy((char *)driver + optional_rows[i].offset, &none, sizeof none);
  }
  return VYC_OK;
}

static vyc_status start(vyc_driver *driver, const char *path) {
  CUresult result = driver->cuInit(0);
  if (result != CUDA_SUCCESS) {
    const char *name = vyc__driver_result_name(driver, result);
    const char *what = "the driver %s did not start: %s";
    if (result == CUDA_ERROR_NO_DEVICE) what = "the driver %s has no device (%s)";
    if (result == CUDA_ERROR_NOT_INITIALIZED) /* the result of cuInit in a fork, and only there */
      what = "the driver %s does not start in a fork of a process that has used it (%s): start "
             "this process with the spawn method, or fork before anything opens or lists devices";
    return vyc__fail_driver(VYC_E_UNAVAILABLE, "cuInit", (int32_t)result, name, what, path, name);
  }
  int version = 0;
  result = driver->cuDriverGetVersion(&version);
  if (result == CUDA_SUCCESS) result = driver->cuDeviceGetCount(&driver->device_count);
  if (result != CUDA_SUCCESS) {
    const char *name = vyc__driver_result_name(driver, result);
    return vyc__fail_driver(VYC_E_UNAVAILABLE, "cuDeviceGetCount", (int32_t)result, name,
                            "the driver %s does not answer: %s", path, name);
  }
  if (version < VYC_DRIVER_MINIMUM)
    return vyc__fail(
        VYC_E_UNAVAILABLE, "cuDriverGetVersion",
        "the driver %s supports CUDA %d.%d; 12.0 or newer is needed: update the driver", path,
        version / 1000, version % 1000 / 10);
  driver->version = version;
  driver->is_emulator = dlsym(driver->library, VYC_EMULATOR_MARK) != NULL;
  if (driver->is_emulator) {
    *(void **)&driver->unspecified = dlsym(driver->library, VYC_EMULATOR_UNSPECIFIED);
    *(void **)&driver->temporary_like = dlsym(driver->library, VYC_EMULATOR_TEMPORARY_LIKE);
  }
  return VYC_OK;
}

vyc_status vyc_driver_open(vyc_driver **driver_out, const char *path) {
  VYC_REQUIRE(driver_out != NULL);
  *driver_out = NULL;
  const char *file = path == NULL ? VYC_DRIVER_LIBRARY : path;
  vyc_driver *driver = calloc(1, sizeof *driver);
  if (driver == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  driver->references = 1;
  driver->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  vyc_status status;
  if (driver->library == NULL) {
    const char *reason = dlerror();
    status = vyc__fail(VYC_E_UNAVAILABLE, "dlopen", "no CUDA driver: %s",
                       reason == NULL ? file : reason);
    goto fail;
  }
  status = load_functions(driver, file);
  if (status != VYC_OK) goto fail;
  status = start(driver, file);
  if (status != VYC_OK) goto fail;
  *driver_out = driver;
  return VYC_OK;

fail:
  free(driver);
  return status;
}

vyc_status vyc_driver_started(int32_t *started_out, const char *path) {
  VYC_REQUIRE(started_out != NULL);
  *started_out = 0;
  const char *file = path == NULL ? VYC_DRIVER_LIBRARY : path;
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == NULL) {
    dlerror(); /* so that no later caller finds this one */
    return VYC_OK;
  }
  static const struct row count_row = {"cuDeviceGetCount", 2000,
                                       offsetof(struct vyc_driver, cuDeviceGetCount)};
  struct vyc_driver driver = {0};
  get_proc_address lookup = NULL;
  vyc_status status = find_lookup(&lookup, library, file);
  if (status == VYC_OK) {
    const CUresult result = find(lookup, &driver, &count_row);
    if (result != CUDA_SUCCESS) status = missing(&count_row, file, result);
  }
  if (status == VYC_OK) {
    int count = 0;
    *started_out = driver.cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED;
  }
  dlclose(library);
  return status;
}

vyc_driver *vyc__driver_retain(vyc_driver *driver) {
  __atomic_add_fetch(&driver->references, 1, __ATOMIC_RELAXED);
  return driver;
}

void vyc_driver_release(vyc_driver *driver) {
  if (driver == NULL) return;
  if (__atomic_sub_fetch(&driver->references, 1, __ATOMIC_ACQ_REL) == 0) free(driver);
}

vyc_status vyc_driver_info_get(vyc_driver *driver, vyc_driver_info *info_out) {
  VYC_REQUIRE(driver != NULL && info_out != NULL);
  VYC_REQUIRE(info_out->struct_size >= sizeof(uint32_t));
  const vyc_driver_info info = {.version = driver->version,
                                .device_count = driver->device_count,
                                .is_emulator = driver->is_emulator};
  vyc__struct_out(info_out, &info, sizeof info);
  return VYC_OK;
}

vyc_status vyc_driver_device_name(vyc_driver *driver, char *name_out, size_t name_bytes,
                                  int32_t ordinal) {
  VYC_REQUIRE(driver != NULL && name_out != NULL && name_bytes > 0);
  name_out[0] = '\0';
  if (name_bytes > INT_MAX) name_bytes = INT_MAX;
  CUdevice device = 0;
  CUresult result = driver->cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = driver->cuDeviceGetName(name_out, (int)name_bytes, device);
  if (result == CUDA_SUCCESS) return VYC_OK;
  const char *name = vyc__driver_result_name(driver, result);
  return vyc__fail_driver(VYC_E_UNAVAILABLE, "cuDeviceGetName", (int32_t)result, name,
                          "no device %d: the driver has %d (%s)", ordinal, driver->device_count,
                          name);
}

const char *vyc__driver_result_name(const vyc_driver *driver, CUresult result) {
  const char *name = NULL;
  if (driver->cuGetErrorName == NULL || driver->cuGetErrorName(result, &name) != CUDA_SUCCESS ||
      name == NULL)
    return "an unknown CUresult";
  return name;
}
