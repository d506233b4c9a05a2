/* A bundle as it is in a file: little-endian, without padding, every table an array of one row.
 *
 * Ranges of a table (`first`, `count`) follow each other in the order of their owners, without
 * gaps, so a table is read once from front to end. Offsets of `data` count from the beginning of
 * its section. Reserved fields are 0. The writer is src/vyre_cuda/bundles/layout.py;
 * docs/bundles.md describes the format. */
#ifndef VYC_BUNDLE_FORMAT_H
#define VYC_BUNDLE_FORMAT_H

#include "base/digest.h"
#include "vyre_cuda.h"

/* Like that of PNG: a transfer as text damages it. */
#define VYC_BUNDLE_MAGIC                                                                           \
  "\x89VYR"                                                                                        \
  "\r\n\x1a\n"

typedef struct vyc_disk_header {
  uint8_t magic[8];
  uint32_t format_version; /* VYC_BUNDLE_FORMAT */
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint32_t section_count; /* rows of vyc_disk_section, right after the header */
  uint32_t producer;      /* vyc_version of the writer */
  uint64_t reserved[4];
  uint8_t digest[VYC_DIGEST_BYTES]; /* BLAKE2b-256 of the file with 0 in this place */
} vyc_disk_header;

enum { /* vyc_disk_section.kind; unknown kinds are skipped */
       VYC_SECTION_STRINGS = 1, /* UTF-8, each text followed by a NUL */
       VYC_SECTION_KERNELS = 2,
       VYC_SECTION_PARAMETERS = 3,
       VYC_SECTION_SIZES = 4,
       VYC_SECTION_STEPS = 5,
       VYC_SECTION_VARIANTS = 6,
       VYC_SECTION_ENTRIES = 7,  /* vyc_parameter */
       VYC_SECTION_BINDINGS = 8, /* vyc_binding */
       VYC_SECTION_SITES = 9,
       VYC_SECTION_DATA = 10, /* programs, PTX, cubins, contents of arrays */
       VYC_SECTION_GRAPHS = 11,
       VYC_SECTION_GRAPH_ARRAYS = 12,
       VYC_SECTION_GRAPH_SYMBOLS = 13,
       VYC_SECTION_GRAPH_STEPS = 14,
       VYC_SECTION_GRAPH_VALUES = 15, /* vyc_bundle_value */
       VYC_SECTION_KNOWN = 16, /* from format 3 on */
       VYC_SECTION_CONDITIONS = 17 /* from format 6 on */
};
#define VYC_SECTION_KINDS 18u

typedef struct vyc_disk_section {
  uint32_t kind;
  uint32_t row_bytes;
  uint64_t offset; /* from the beginning of the file, a multiple of 8 */
  uint64_t bytes;
  uint64_t reserved;
} vyc_disk_section;

typedef struct vyc_disk_text { /* in the strings */
  uint32_t offset;
  uint32_t length; /* without the NUL */
} vyc_disk_text;

typedef struct vyc_disk_range {
  uint32_t first;
  uint32_t count;
} vyc_disk_range;

typedef struct vyc_disk_data {
  uint64_t offset;
  uint64_t bytes; /* 0: absent */
} vyc_disk_data;

typedef struct vyc_disk_kernel {
  vyc_disk_text name;
  uint8_t fingerprint[32]; /* of the whole program */
  vyc_disk_text precision;
  vyc_disk_text bounds;
  uint32_t block[3];
  uint32_t index_bits; /* of ids and sizes: 32 or 64, without the sign 31 or 63 */
  uint32_t flags;      /* VYC_KERNEL_... */
  uint32_t axes;       /* of the work; 0: unknown, each call provides a grid */
  vyc_disk_range parameters;
  vyc_disk_range sizes; /* in an order in which each needs only those before it */
  vyc_disk_range work[3];
  vyc_disk_range variants;
  vyc_disk_data program; /* wire bytes: the program, or its signature alone */
  uint64_t max_ulp;      /* the bits of an f64; 0: left to the precision */
} vyc_disk_kernel;

typedef struct vyc_disk_parameter {
  vyc_disk_text name;
  uint32_t role; /* vyc_binding.role or VYC_ROLE_SCALAR */
  uint32_t type; /* VYC_TYPE_... */
  uint32_t slot; /* its number among the buffers, or among the scalars */
  uint32_t reserved;
} vyc_disk_parameter;

typedef struct vyc_disk_size { /* of an out; from format 2 on, what an argument must have, and the
                                  value of an extent */
  uint32_t parameter;
  uint32_t reserved;
  vyc_disk_range steps;
} vyc_disk_size;

/* A step of a postfix expression over integers: a leaf that is pushed, or the op, by its code, of
 * what was pushed last. The result has `width` bits, negative: is signed. */

typedef struct vyc_disk_step {
  int32_t op;
  int32_t width;
  uint64_t value; /* the constant, the parameter whose size it is, the slot of the scalar */
} vyc_disk_step;

/* A value that the code was compiled for, in the order of kernels and their parameters. */
typedef struct vyc_disk_known {
  vyc_disk_text name;
  uint32_t kernel;
  uint32_t parameter; /* of the kernel: the scalar or extent, or the buffer whose size it is */
  uint64_t value;
} vyc_disk_known;

/* The code of a kernel for one GPU generation, and its properties there. */
typedef struct vyc_disk_variant {
  vyc_disk_text entry;
  uint32_t sm;          /* 90: sm_90 */
  uint32_t ptx_version; /* major * 10 + minor */
  uint32_t flags;       /* VYC_PREPARED_COOPERATIVE, VYC_PREPARED_PRINTS */
  uint32_t shared_bytes; /* of a block, all of it, and the part asked for at the launch */
  uint32_t dynamic_shared_bytes;
  uint32_t parameter_bytes;
  vyc_disk_range entries;
  vyc_disk_range bindings;
  vyc_disk_range sites;
  vyc_disk_data ptx; /* with its NUL */
  vyc_disk_data cubin;
} vyc_disk_variant;

typedef struct vyc_disk_site {
  vyc_disk_text message;
  vyc_disk_text buffer; /* of a bounds check */
  vyc_disk_text file;
  uint32_t kind; /* VYC_SITE_... */
  uint32_t statement;
  uint32_t line;
  uint32_t reserved;
} vyc_disk_site;

typedef struct vyc_disk_graph {
  vyc_disk_text name;
  vyc_disk_range arrays;
  vyc_disk_range symbols;
  vyc_disk_range steps;
} vyc_disk_graph;

/* See vyc_bundle_condition; in the order of graphs and their symbols. */
typedef struct vyc_disk_condition {
  uint32_t graph;
  uint32_t symbol;
  uint32_t memory;
  uint32_t reserved;
  uint64_t value;
  uint64_t count;
} vyc_disk_condition;

typedef struct vyc_disk_array { /* memory that belongs to the graph */
  uint64_t bytes;
  vyc_disk_data contents; /* all of it; absent: no step reads what none of this replay wrote */
} vyc_disk_array;

typedef struct vyc_disk_symbol {
  vyc_disk_text name;
  uint32_t kind; /* VYC_SYMBOL_... */
  uint32_t type; /* VYC_TYPE_... */
  uint32_t flags; /* VYC_SYMBOL_HAS_DEFAULT, VYC_SYMBOL_WRITTEN */
  uint32_t array; /* of an array with a default: the number among the graph's arrays */
  uint64_t value; /* a scalar's default, or the offset into that array in bytes */
  uint64_t count; /* of an array with a default: elements */
} vyc_disk_symbol;

typedef struct vyc_disk_graph_step {
  uint32_t kind;    /* VYC_STEP_... */
  uint32_t kernel;  /* of a launch; of VYC_STEP_ROWS: the entry */
  uint32_t grid[3]; /* of a launch; zeros: by the kernel's work */
  uint32_t type;    /* of a copy, a fill, until: VYC_TYPE_... */
  vyc_disk_range values;
  uint64_t times; /* of a repeat */
} vyc_disk_graph_step;

_Static_assert(sizeof(vyc_disk_header) == 96, "the format");
_Static_assert(sizeof(vyc_disk_section) == 32, "the format");
_Static_assert(sizeof(vyc_disk_kernel) == 152, "the format");
_Static_assert(sizeof(vyc_disk_parameter) == 24, "the format");
_Static_assert(sizeof(vyc_disk_size) == 16, "the format");
_Static_assert(sizeof(vyc_disk_step) == 16, "the format");
_Static_assert(sizeof(vyc_disk_known) == 24, "the format");
_Static_assert(sizeof(vyc_disk_variant) == 88, "the format");
_Static_assert(sizeof(vyc_disk_site) == 40, "the format");
_Static_assert(sizeof(vyc_disk_graph) == 32, "the format");
_Static_assert(sizeof(vyc_disk_array) == 24, "the format");
_Static_assert(sizeof(vyc_disk_symbol) == 40, "the format");
_Static_assert(sizeof(vyc_disk_graph_step) == 40, "the format");
_Static_assert(sizeof(vyc_disk_condition) == 32, "the format");
_Static_assert(sizeof(vyc_bundle_value) == 24, "the format");
_Static_assert(sizeof(vyc_parameter) == 24 && sizeof(vyc_binding) == 16, "the format");

#endif
