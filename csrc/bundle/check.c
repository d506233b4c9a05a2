/* Whether bytes are a bundle: header, digest, sections, texts, and every row of the tables.
 *
 * Nothing is read before it is known to be inside the file. Ranges follow each other, so every row
 * is read once, and a hostile file costs no more than its length. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "check.h"

#define MOST_TEXT 4096u

vyc_status vyc__bundle_wrong(const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return vyc__fail(VYC_E_FORMAT, "bundle", "%s", text);
}

/* ---- header and sections -------------------------------------------------------------------- */

static bool is_intact(const vyc_bundle *bundle, const vyc_disk_header *header) {
  const size_t at = offsetof(vyc_disk_header, digest);
  static const uint8_t zeros[VYC_DIGEST_BYTES];
  uint8_t found[VYC_DIGEST_BYTES];
  vyc_digest digest;
  vyc__digest_begin(&digest);
  vyc__digest_add(&digest, bundle->bytes, at);
  vyc__digest_add(&digest, zeros, sizeof zeros);
  vyc__digest_add(&digest, bundle->bytes + sizeof *header, (size_t)bundle->size - sizeof *header);
  vyc__digest_end(&digest, found);
  return memcmp(found, header->digest, sizeof found) == 0;
}

static vyc_status check_header(const vyc_bundle *bundle, vyc_disk_header *header) {
  VYC_DEMAND(bundle->size >= sizeof *header, "truncated header: %" PRIu64 " byte%s", bundle->size,
             VYC_S(bundle->size));
  memcpy(header, bundle->bytes, sizeof *header);
  VYC_DEMAND(memcmp(header->magic, VYC_BUNDLE_MAGIC, sizeof header->magic) == 0,
             "not a bundle: the first bytes are wrong");
  if (header->format_version > VYC_BUNDLE_FORMAT)
    return vyc__fail(VYC_E_VERSION, "bundle",
                     "the bundle has format %u, written by version %u.%u.%u; this library reads up "
                     "to format %u: "
                     "update the library, or write the bundle with this version",
                     header->format_version, header->producer / 10000, header->producer / 100 % 100,
                     header->producer % 100, VYC_BUNDLE_FORMAT);
  VYC_DEMAND(header->format_version > 0, "the format is 0; the first one is 1");
  VYC_DEMAND(header->header_bytes == sizeof *header,
             "the header says that it has %u bytes, not %zu", header->header_bytes, sizeof *header);
  VYC_DEMAND(header->file_bytes == bundle->size,
             "the bundle should have %" PRIu64 " bytes and has %" PRIu64 ": truncated or extended",
             header->file_bytes, bundle->size);
  VYC_DEMAND(header->section_count <= (bundle->size - sizeof *header) / sizeof(vyc_disk_section),
             "the file is too small for its %u sections", header->section_count);
  VYC_DEMAND(is_intact(bundle, header),
             "the digest differs: the bundle is damaged, so write it again");
  return VYC_OK;
}

static const uint32_t row_bytes[VYC_SECTION_KINDS] = {
    [VYC_SECTION_STRINGS] = 1,
    [VYC_SECTION_KERNELS] = sizeof(vyc_disk_kernel),
    [VYC_SECTION_PARAMETERS] = sizeof(vyc_disk_parameter),
    [VYC_SECTION_SIZES] = sizeof(vyc_disk_size),
    [VYC_SECTION_STEPS] = sizeof(vyc_disk_step),
    [VYC_SECTION_VARIANTS] = sizeof(vyc_disk_variant),
    [VYC_SECTION_ENTRIES] = sizeof(vyc_parameter),
    [VYC_SECTION_BINDINGS] = sizeof(vyc_binding),
    [VYC_SECTION_SITES] = sizeof(vyc_disk_site),
    [VYC_SECTION_DATA] = 1,
    [VYC_SECTION_GRAPHS] = sizeof(vyc_disk_graph),
    [VYC_SECTION_GRAPH_ARRAYS] = sizeof(vyc_disk_array),
    [VYC_SECTION_GRAPH_SYMBOLS] = sizeof(vyc_disk_symbol),
    [VYC_SECTION_GRAPH_STEPS] = sizeof(vyc_disk_graph_step),
    [VYC_SECTION_GRAPH_VALUES] = sizeof(vyc_bundle_value),
    [VYC_SECTION_KNOWN] = sizeof(vyc_disk_known),
    [VYC_SECTION_CONDITIONS] = sizeof(vyc_disk_condition),
};

static vyc_status check_sections(vyc_bundle *bundle, uint32_t count) {
  uint64_t end = sizeof(vyc_disk_header) + (uint64_t)count * sizeof(vyc_disk_section);
  for (uint32_t kind = 0; kind < VYC_SECTION_KINDS; kind++)
    bundle->tables[kind] = (vyc_table){bundle->bytes, 0};
  for (uint32_t i = 0; i < count; i++) {
    vyc_disk_section section;
    memcpy(&section, bundle->bytes + sizeof(vyc_disk_header) + (size_t)i * sizeof section,
           sizeof section);
    VYC_DEMAND(section.offset % 8 == 0 && section.offset >= end && section.offset <= bundle->size &&
                   section.bytes <= bundle->size - section.offset,
               "section %u does not lie in the file, behind the one before it", i);
    end = section.offset + section.bytes;
    if (section.kind >= VYC_SECTION_KINDS || section.kind == 0) continue;
    vyc_table *table = &bundle->tables[section.kind];
    VYC_DEMAND(
        section.row_bytes == row_bytes[section.kind] && section.bytes % section.row_bytes == 0,
        "section %u: rows of kind %u have %u bytes, not %u, and there is a whole number of them", i,
        section.kind, row_bytes[section.kind], section.row_bytes);
    VYC_DEMAND(table->rows == bundle->bytes, "section %u has the kind of an earlier one", i);
    *table = (vyc_table){bundle->bytes + section.offset, section.bytes / section.row_bytes};
  }
  return VYC_OK;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static vyc_status check_strings(const vyc_bundle *bundle) {
  const vyc_table *strings = &bundle->tables[VYC_SECTION_STRINGS];
  const uint8_t *text = strings->rows;
  for (uint64_t at = 0; at < strings->count;) {
    const uint32_t bytes = vyc__utf8_bytes(text + at, strings->count - at);
    VYC_DEMAND(bytes != 0, "byte %" PRIu64 " of the texts is not UTF-8", at);
    at += bytes;
  }
  return VYC_OK;
}

bool vyc__bundle_is_text(const vyc_bundle *bundle, vyc_disk_text text) {
  const vyc_table *strings = &bundle->tables[VYC_SECTION_STRINGS];
  if (text.length > MOST_TEXT || (uint64_t)text.offset + text.length >= strings->count)
    return false;
  const uint8_t *at = (const uint8_t *)strings->rows + text.offset;
  return (at[0] & 0xC0) != 0x80 && memchr(at, 0, text.length + 1) == at + text.length;
}

/* ---- ranges --------------------------------------------------------------------------------- */

bool vyc__bundle_take(const vyc_bundle *bundle, vyc_cursors *cursors, uint32_t kind,
                      vyc_disk_range range) {
  uint64_t *next = &cursors->next[kind];
  if (range.first != *next || range.count > bundle->tables[kind].count - *next) return false;
  *next += range.count;
  return true;
}

bool vyc__bundle_take_data(const vyc_bundle *bundle, vyc_cursors *cursors, vyc_disk_data data) {
  uint64_t *next = &cursors->next[VYC_SECTION_DATA];
  const uint64_t all = bundle->tables[VYC_SECTION_DATA].count;
  if (data.bytes == 0) return data.offset == 0;
  if (data.offset < *next || data.offset > all || data.bytes > all - data.offset) return false;
  *next = data.offset + data.bytes;
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

vyc_status vyc__bundle_check(vyc_bundle *bundle) {
  vyc_disk_header header;
  vyc_cursors cursors = {{0}};
  VYC_TRY(check_header(bundle, &header));
  VYC_TRY(check_sections(bundle, header.section_count));
  VYC_TRY(check_strings(bundle));
  VYC_TRY(vyc__bundle_kernels_check(bundle, &cursors));
  VYC_TRY(vyc__bundle_graphs_check(bundle, &cursors));
  for (uint32_t kind = VYC_SECTION_PARAMETERS; kind < VYC_SECTION_KINDS; kind++)
    VYC_DEMAND(kind == VYC_SECTION_DATA || kind == VYC_SECTION_GRAPHS ||
                   cursors.next[kind] == bundle->tables[kind].count,
               "section %u has rows that nothing uses", kind);
  return VYC_OK;
}
