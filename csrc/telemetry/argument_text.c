/* What a launch was called with, as text: the start of its parameter block, read by the labels that
 * the kernel's name keeps. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "room.h"

struct vyc_shown {
  const char *name; /* empty: none */
  uint32_t index; /* among the bindings or the scalars */
  bool is_pointer;
  bool is_noted; /* it is in the noted part of the block; the fields below are set then */
  uint8_t type; /* VYC_TYPE_...; 0: not known */
  uint8_t offset, size;
  uint8_t count_offset, count_size; /* of an array: where its number of elements is noted; size 0:
                                       nowhere */
};

static const char *const TYPES[] = {
    [VYC_TYPE_BOOL] = "bool",     [VYC_TYPE_U8] = "uint8",    [VYC_TYPE_I8] = "int8",
    [VYC_TYPE_U16] = "uint16",    [VYC_TYPE_I16] = "int16",   [VYC_TYPE_U32] = "uint32",
    [VYC_TYPE_I32] = "int32",     [VYC_TYPE_U64] = "uint64",  [VYC_TYPE_I64] = "int64",
    [VYC_TYPE_F16] = "float16",   [VYC_TYPE_F32] = "float32", [VYC_TYPE_F64] = "float64",
    [VYC_TYPE_BF16] = "bfloat16",
};

/* ---- labels ---------------------------------------------------------------------------------- */

static bool is_argument(const vyc_parameter *p) {
  return p->kind == VYC_PARAMETER_POINTER || p->kind == VYC_PARAMETER_SCALAR;
}

static bool is_noted(const vyc_parameter *p) { return p->offset + p->size <= VYC_NOTED_BYTES; }

/* A caller of an earlier version has a shorter struct. */
static bool has_labels(const vyc_prepared_desc *desc) {
  return desc->struct_size >= offsetof(vyc_prepared_desc, known) && desc->labels != NULL;
}

static const vyc_label *label_of(const vyc_prepared_desc *desc, const vyc_parameter *p) {
  if (!has_labels(desc)) return NULL;
  return &desc->labels[p->index + (p->kind == VYC_PARAMETER_SCALAR ? desc->binding_count : 0)];
}

static const char *label_name(const vyc_prepared_desc *desc, const vyc_parameter *p) {
  const vyc_label *label = label_of(desc, p);
  return label == NULL || label->name == NULL ? "" : label->name;
}

static void fill(vyc_shown *shown, const vyc_prepared_desc *desc, const vyc_parameter *p) {
  const vyc_label *label = label_of(desc, p);
  *shown = (vyc_shown){.index = p->index, .is_pointer = p->kind == VYC_PARAMETER_POINTER};
  if (!is_noted(p)) return;
  shown->is_noted = true;
  shown->type = label == NULL ? 0 : (uint8_t)label->type;
  shown->offset = (uint8_t)p->offset;
  shown->size = (uint8_t)p->size;
  for (uint32_t i = 0; shown->is_pointer && i < desc->parameter_count; i++) {
    const vyc_parameter *size = &desc->parameters[i];
    if (size->kind != VYC_PARAMETER_SIZE || size->index != p->index || !is_noted(size)) continue;
    shown->count_offset = (uint8_t)size->offset;
    shown->count_size = (uint8_t)size->size;
  }
}

vyc_status vyc__labels_check(const vyc_prepared_desc *desc) {
  if (!has_labels(desc)) return VYC_OK;
  for (uint32_t i = 0; i < desc->binding_count + desc->scalar_count; i++)
    VYC_REQUIRE_IN("vyc_prepared_create", desc->labels[i].type <= VYC_TYPE_F64);
  return VYC_OK;
}

vyc_status vyc__labels_make(vyc_shown **shown_out, uint32_t *count_out, bool *more_out,
                            const vyc_prepared_desc *desc) {
  uint32_t count = 0;
  size_t bytes = 0;
  *more_out = false;
  for (uint32_t i = 0; i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    if (!is_argument(p)) continue;
    *more_out |= !is_noted(p);
    count++;
    bytes += strlen(label_name(desc, p)) + 1;
  }
  vyc_shown *shown = malloc(count * sizeof *shown + bytes + 1);
  if (shown == NULL) return vyc__fail(VYC_E_MEMORY, "name", "out of host memory");
  char *text = (char *)(shown + count);
  *shown_out = shown;
  *count_out = count;
  for (uint32_t i = 0; i < desc->parameter_count; i++) {
    const vyc_parameter *p = &desc->parameters[i];
    if (!is_argument(p)) continue;
    const size_t length = strlen(label_name(desc, p)) + 1;
    fill(shown, desc, p);
    shown->name = memcpy(text, label_name(desc, p), length);
    text += length;
    shown++;
  }
  return VYC_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct line {
  char *text;
  size_t bytes, used;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(l->text + l->used, l->bytes - l->used, format, arguments);
  va_end(arguments);
  if (length > 0) l->used += (size_t)length;
  if (l->used >= l->bytes) l->used = l->bytes - 1;
}

static uint64_t bits_at(const uint64_t *words, uint32_t offset, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, (const uint8_t *)words + offset, size); /* little-endian */
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float half_of(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, rest = bits & 0x3ffu;
  if (exponent == 31u) return float_of(sign | 0x7f800000u | rest << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112u) << 23 | rest << 13);
  const float small = (float)rest / 16777216.0f; /* 2^-24 each */
  return sign != 0 ? -small : small;
}

/* With as few of `most` digits as tell it from its neighbors. */
static void add_float(line *l, double value, int most, bool is_double) {
  char text[40];
  int digits = 0;
  do {
    snprintf(text, sizeof text, "%.*e", digits, value);
  } while (!(is_double ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value) &&
           ++digits < most);
  const char *exponent = strchr(text, 'e');
  const long power = exponent == NULL ? 0 : strtol(exponent + 1, NULL, 10);
  if (exponent == NULL || power < -4 || power > 6) /* nan and inf have none */
    add(l, "%s", text);
  else
    add(l, "%.*f", digits > power ? digits - (int)power : 1, value);
}

static int64_t signed_of(uint64_t bits, uint32_t size) {
  const uint32_t unused = 64u - 8u * size;
  return (int64_t)(bits << unused) >> unused;
}

static void add_scalar(line *l, uint32_t type, uint32_t size, uint64_t bits) {
  switch (type) {
  case VYC_TYPE_BOOL: add(l, "%s", bits != 0 ? "True" : "False"); break;
  case VYC_TYPE_U8:
  case VYC_TYPE_U16:
  case VYC_TYPE_U32:
  case VYC_TYPE_U64: add(l, "%" PRIu64, bits); break;
  case VYC_TYPE_I8:
  case VYC_TYPE_I16:
  case VYC_TYPE_I32:
  case VYC_TYPE_I64: add(l, "%" PRId64, signed_of(bits, size)); break;
  case VYC_TYPE_F16: add_float(l, (double)half_of((uint32_t)bits), 5, false); break;
  case VYC_TYPE_BF16: add_float(l, (double)float_of((uint32_t)bits << 16), 4, false); break;
  case VYC_TYPE_F32: add_float(l, (double)float_of((uint32_t)bits), 9, false); break;
  case VYC_TYPE_F64: {
    double value;
    memcpy(&value, &bits, sizeof value);
    add_float(l, value, 17, true);
    break;
  }
  default: add(l, "0x%" PRIx64, bits); break;
  }
}

static void add_array(line *l, const vyc_shown *shown, const uint64_t *words) {
  const uint64_t address = bits_at(words, shown->offset, shown->size);
  if (shown->type != 0) add(l, "%s", TYPES[shown->type]);
  if (shown->type != 0 && shown->count_size != 0)
    add(l, "[%" PRIu64 "]", bits_at(words, shown->count_offset, shown->count_size));
  add(l, "%s0x%" PRIx64, shown->type != 0 ? " at " : "", address);
}

void vyc__labels_text(char *to, size_t bytes, const vyc_name *name, const uint64_t *words) {
  line l = {to, bytes, 0};
  to[0] = '\0';
  for (uint32_t i = 0; i < name->shown_count; i++) {
    const vyc_shown *shown = &name->shown[i];
    if (!shown->is_noted) continue;
    add(&l, "%s%s%s", l.used == 0 ? " with " : ", ", shown->name,
        shown->name[0] == '\0' ? "" : "=");
    if (shown->is_pointer)
      add_array(&l, shown, words);
    else
      add_scalar(&l, shown->type, shown->size, bits_at(words, shown->offset, shown->size));
  }
  if (name->more) add(&l, "%s", l.used == 0 ? "" : ", ...");
}

vyc_array_text vyc__array_text(const vyc_name *name, uint32_t binding) {
  vyc_array_text made;
  line l = {made.text, sizeof made.text, 0};
  for (uint32_t i = 0; i < name->shown_count; i++) {
    const vyc_shown *shown = &name->shown[i];
    if (!shown->is_pointer || shown->index != binding || shown->name[0] == '\0') continue;
    add(&l, "`%s`", shown->name);
    return made;
  }
  add(&l, "array %" PRIu32, binding);
  return made;
}

void vyc__scalar_text(char *to, size_t bytes, uint32_t type, uint32_t size, uint64_t bits) {
  line l = {to, bytes, 0};
  add_scalar(&l, type, size, bits);
}
