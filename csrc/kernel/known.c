/* Known values: the code of a kernel was compiled for them, so every run must have them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "room.h"

/* A caller of an earlier version has a shorter struct. */
static uint32_t count_of(const vyc_prepared_desc *desc) {
  return desc->struct_size < offsetof(vyc_prepared_desc, several_elements) ? 0 : desc->known_count;
}

static vyc_status check_one(const vyc_prepared_desc *desc, const vyc_known *known) {
  const bool scalar = known->kind == VYC_PARAMETER_SCALAR;
  VYC_REQUIRE_IN("vyc_prepared_create", scalar || known->kind == VYC_PARAMETER_SIZE);
  VYC_REQUIRE_IN("vyc_prepared_create",
                 known->index < (scalar ? desc->scalar_count : desc->binding_count));
  VYC_REQUIRE_IN("vyc_prepared_create", known->type <= VYC_TYPE_F64 && known->name != NULL);
  return VYC_OK;
}

vyc_status vyc__known_check(const vyc_prepared_desc *desc) {
  const uint32_t count = count_of(desc);
  VYC_REQUIRE_IN("vyc_prepared_create", count == 0 || desc->known != NULL);
  VYC_REQUIRE_IN("vyc_prepared_create", count <= desc->scalar_count + desc->binding_count);
  for (uint32_t i = 0; i < count; i++) VYC_TRY(check_one(desc, &desc->known[i]));
  return VYC_OK;
}

/* Bits of a scalar beyond its size do not reach the kernel. An extent that the code does not use
 * has no place in the parameter block; all of its bits are compared. */
static uint64_t mask_of(const vyc_prepared_desc *desc, const vyc_known *known) {
  for (uint32_t i = 0; known->kind == VYC_PARAMETER_SCALAR && i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    if (p->kind == VYC_PARAMETER_SCALAR && p->index == known->index)
      return UINT64_MAX >> (64 - 8 * p->size);
  }
  return UINT64_MAX;
}

vyc_status vyc__known_copy(vyc_prepared *prepared, const vyc_prepared_desc *desc) {
  const uint32_t count = count_of(desc);
  size_t names = 0;
  if (count == 0) return VYC_OK;
  for (uint32_t i = 0; i < count; i++) names += strlen(desc->known[i].name) + 1;
  prepared->known = malloc(count * sizeof *prepared->known + names);
  if (prepared->known == NULL)
    return vyc__fail(VYC_E_MEMORY, "vyc_prepared_create", "out of host memory");
  char *name = (char *)(prepared->known + count);
  for (uint32_t i = 0; i < count; i++) {
    const vyc_known *known = &desc->known[i];
    const size_t bytes = strlen(known->name) + 1;
    const uint64_t mask = mask_of(desc, known);
    prepared->known[i] = (vyc_known_value){.value = known->value & mask,
                                           .mask = mask,
                                           .name = memcpy(name, known->name, bytes),
                                           .index = known->index,
                                           .kind = (uint8_t)known->kind,
                                           .type = (uint8_t)known->type};
    name += bytes;
  }
  prepared->known_count = count;
  prepared->plain_scalars = UINT64_MAX;
  return VYC_OK;
}

static uint64_t given(const vyc_known_value *known, const vyc_run *run) {
  const bool scalar = known->kind == VYC_PARAMETER_SCALAR;
  return (scalar ? run->scalars[known->index] : run->arguments[known->index].count) & known->mask;
}

/* Different values may print the same, as two NaNs do: then their bits are shown. */
static vyc_status fail(const vyc_prepared *prepared, const vyc_known_value *known, uint64_t value) {
  const uint32_t type = known->kind == VYC_PARAMETER_SIZE ? VYC_TYPE_U64 : known->type;
  const uint32_t size = (uint32_t)__builtin_popcountll(known->mask) / 8;
  char is[40], was[40];
  vyc__scalar_text(is, sizeof is, type, size, value);
  vyc__scalar_text(was, sizeof was, type, size, known->value);
  if (strcmp(is, was) == 0) {
    vyc__scalar_text(is, sizeof is, 0, size, value);
    vyc__scalar_text(was, sizeof was, 0, size, known->value);
  }
  return vyc__fail(VYC_E_INVALID, "run", "kernel %s: %s is %s, but the kernel was compiled for %s",
                   prepared->name, known->name, is, was);
}

vyc_status vyc__known_compare(const vyc_prepared *prepared, const vyc_run *run) {
  for (uint32_t i = 0; i < prepared->known_count; i++) {
    const vyc_known_value *known = &prepared->known[i];
    const uint64_t value = given(known, run);
    if (value != known->value) return fail(prepared, known, value);
  }
  return VYC_OK;
}

bool vyc__known_agrees(const vyc_prepared *prepared, const vyc_run *run) {
  if (run->argument_count != prepared->binding_count ||
      run->scalar_count != prepared->scalar_count ||
      (run->arguments == NULL && run->argument_count > 0) ||
      (run->scalars == NULL && run->scalar_count > 0))
    return false;
  for (uint32_t i = 0; i < prepared->known_count; i++)
    if (given(&prepared->known[i], run) != prepared->known[i].value) return false;
  return true;
}
