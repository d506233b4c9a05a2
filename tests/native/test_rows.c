/* Many launches as one, from C: the table, what is refused, and launches of more blocks than one
 * launch can have, which are counted and not run. */
#include "base/driver.h" /* in front of what takes short names */

#include "bench_test.h"

/* An entry that does many launches of `add`, with further parameters and instructions. */
#define OF_ROWS(name, more, behind)                                                                \
  ".visible .entry " name                                                                          \
  "(.param .u64 table, .param .u32 rows, .param .u32 each, .param .u32 scale, .param .u32 shift, " \
  ".param .u32 flat" more                                                                          \
  ")\n{\n.reg .pred %p0; .reg .b32 %r<12>; .reg .b64 %rd<4>;\nmov.u32 %r0, %tid.x;\n"              \
  "setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nmov.u32 %r1, %ctaid.x;\nld.param.u64 %rd0, [table];\n"     \
  "ld.param.u32 %r2, [each];\nsetp.eq.u32 %p0, %r2, 0;\n@%p0 bra $MAP;\n"                          \
  "ld.param.u32 %r4, [scale];\nmul.wide.u32 %rd1, %r1, %r4;\nld.param.u32 %r4, [shift];\n"         \
  "shr.u64 %rd1, %rd1, %r4;\ncvt.u32.u64 %r3, %rd1;\nbra $FOUND;\n$MAP:\n"                         \
  "ld.param.u32 %r4, [rows];\nmad.wide.u32 %rd1, %r4, 32, %rd0;\nld.param.u32 %r4, [shift];\n"     \
  "shr.u32 %r5, %r1, %r4;\nmad.wide.u32 %rd1, %r5, 8, %rd1;\nld.global.u32 %r3, [%rd1];\n"         \
  "ld.global.u32 %r6, [%rd1+4];\n$NEXT:\nsetp.ge.u32 %p0, %r3, %r6;\n@%p0 bra $FOUND;\n"           \
  "add.u32 %r7, %r3, 1;\nmad.wide.u32 %rd2, %r7, 32, %rd0;\nld.global.u32 %r8, [%rd2];\n"          \
  "setp.gt.u32 %p0, %r8, %r1;\n@%p0 bra $FOUND;\nmov.u32 %r3, %r7;\nbra $NEXT;\n$FOUND:\n"         \
  "mad.wide.u32 %rd2, %r3, 32, %rd0;\nld.global.u32 %r8, [%rd2];\nsub.u32 %r9, %r1, %r8;\n"        \
  "ld.global.u64 %rd3, [%rd2+16];\nld.global.u32 %r10, [%rd2+24];\nadd.u32 %r10, %r10, "           \
  "%r9;\n" behind "red.relaxed.gpu.global.add.u32 [%rd3], %r10;\nret;\n}\n"

/* Each block of `add` adds its number in the launch and v to *p; `add_rows` finds its row by
 * looking at one after the other, between the rows that the map names. `add_tables` adds 7 more in
 * rows from `end` on; `add_placed` adds to `array` in rows that have 1 for an address. */
static const char *const TEXT =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry add(.param .u64 p, .param .u32 v)\n{\n.reg .pred %p0; .reg .b32 %r<4>; .reg "
    ".b64 %rd0;\nmov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\n"
    "ld.param.u64 %rd0, [p];\nld.param.u32 %r1, [v];\nmov.u32 %r2, %ctaid.x;\n"
    "add.u32 %r1, %r1, %r2;\nred.relaxed.gpu.global.add.u32 [%rd0], %r1;\nret;\n}\n" OF_ROWS(
        "add_rows", "", "")
        OF_ROWS(
            "add_tables", ", .param .u32 end",
            "ld.param.u32 %r4, [end];\nsetp.ge.u32 %p0, %r3, %r4;\n@%p0 add.u32 %r10, %r10, 7;\n")
            OF_ROWS("add_placed", ", .param .u64 array",
                    "setp.eq.u64 %p0, %rd3, 1;\n@%p0 ld.param.u64 %rd3, [array];\n")
                OF_ROWS("add_two_placed", ", .param .u32 end, .param .u64 array",
                        "setp.eq.u64 %p0, %rd3, 1;\n@%p0 ld.param.u64 %rd3, [array];\n");

enum { MOST_ROWS = 700, BLOCK = 32 };

typedef struct adder {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared, *entry, *of_two, *placed, *placed_of_two;
  vyc_buffer *buffer;
  vyc_argument arguments[MOST_ROWS];
  uint64_t scalars[MOST_ROWS];
  uint32_t grids[MOST_ROWS][3];
  vyc_rows rows;
} adder;

static void prepare_placed(adder *a, vyc_prepared_desc *desc, const vyc_parameter *of_entry) {
  static const vyc_binding bindings[] = {{VYC_ROLE_IN, 0, 16, 0}, {VYC_ROLE_INOUT, 0, 4, 0}};
  vyc_parameter parameters[8];
  memcpy(parameters, of_entry, 7 * sizeof *of_entry);
  parameters[6] = parameters[7] = (vyc_parameter){VYC_PARAMETER_POINTER, 1, 32, 8, {0}};
  desc->parameter_bytes = 40;
  desc->binding_count = 2;
  desc->scalar_count = 5;
  desc->entry = "add_placed";
  desc->parameters = parameters;
  desc->bindings = bindings;
  OK(vyc_prepared_create(&a->placed, a->module, desc));
  parameters[6] = of_entry[6];
  desc->parameter_count = 8;
  desc->scalar_count = 6;
  desc->entry = "add_two_placed";
  OK(vyc_prepared_create(&a->placed_of_two, a->module, desc));
}

static void prepare_both(adder *a) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}},
                                             {VYC_PARAMETER_SCALAR, 0, 8, 4, {0}}};
  static const vyc_parameter of_entry[] = {
      {VYC_PARAMETER_POINTER, 0, 0, 8, {0}}, {VYC_PARAMETER_SCALAR, 0, 8, 4, {0}},
      {VYC_PARAMETER_SCALAR, 1, 12, 4, {0}}, {VYC_PARAMETER_SCALAR, 2, 16, 4, {0}},
      {VYC_PARAMETER_SCALAR, 3, 20, 4, {0}}, {VYC_PARAMETER_SCALAR, 4, 24, 4, {0}},
      {VYC_PARAMETER_SCALAR, 5, 28, 4, {0}}};
  static const vyc_binding inout = {VYC_ROLE_INOUT, 0, 4, 0}, table = {VYC_ROLE_IN, 0, 16, 0};
  vyc_prepared_desc desc = {.struct_size = sizeof desc,
                            .block = {BLOCK, 1, 1},
                            .parameter_bytes = 12,
                            .parameter_count = 2,
                            .binding_count = 1,
                            .scalar_count = 1,
                            .entry = "add",
                            .parameters = parameters,
                            .bindings = &inout};
  OK(vyc_prepared_create(&a->prepared, a->module, &desc));
  desc.parameter_bytes = 28;
  desc.parameter_count = 6;
  desc.scalar_count = 5;
  desc.entry = "add_rows";
  desc.parameters = of_entry;
  desc.bindings = &table;
  OK(vyc_prepared_create(&a->entry, a->module, &desc));
  desc.parameter_bytes = 32;
  desc.parameter_count = 7;
  desc.scalar_count = 6;
  desc.entry = "add_tables";
  OK(vyc_prepared_create(&a->of_two, a->module, &desc));
  prepare_placed(a, &desc, of_entry);
}

static void release_all(adder *a) {
  vyc_prepared_release(a->placed_of_two);
  vyc_prepared_release(a->placed);
  vyc_prepared_release(a->of_two);
  vyc_prepared_release(a->entry);
  vyc_prepared_release(a->prepared);
}

/* Row i adds to word i. */
static void fill(adder *a, uint32_t count, const uint32_t *blocks, uint32_t kinds) {
  for (uint32_t i = 0; i < count; i++) {
    a->arguments[i] = (vyc_argument){
        .kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = a->buffer, .offset = (uint64_t)i * 4};
    a->scalars[i] = 1000 + i;
    a->grids[i][0] = blocks[i % kinds];
    a->grids[i][1] = a->grids[i][2] = 1;
  }
  a->rows = (vyc_rows){.struct_size = sizeof a->rows,
                       .count = count,
                       .argument_count = 1,
                       .scalar_count = 1,
                       .arguments = a->arguments,
                       .scalars = a->scalars,
                       .grids = &a->grids[0][0]};
}

static void every_block_is_of_its_row(adder *a, uint32_t count, const uint32_t *blocks,
                                      uint32_t kinds, vyc_prepared *entry) {
  uint32_t words[MOST_ROWS] = {0};
  fill(a, count, blocks, kinds);
  OK(vyc_copy_in(a->buffer, 0, words, sizeof words));
  for (int turn = 0; turn < 3; turn++) OK(vyc_prepared_launch_many(a->prepared, entry, &a->rows));
  OK(vyc_copy_out(a->buffer, 0, words, sizeof words));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t n = blocks[i % kinds];
    CHECK(words[i] == 3 * (n * (1000 + i) + n * (n - 1) / 2));
  }
}

static void refused(adder *a, const char *words) {
  vyc_error error = {.struct_size = sizeof error};
  CHECK(vyc_prepared_launch_many(a->prepared, a->entry, &a->rows) == VYC_E_INVALID);
  OK(vyc_last_error(&error));
  CHECK(strstr(error.message, words) != NULL);
}

static void what_is_wrong_is_refused(adder *a) {
  static const uint32_t one[] = {1};
  fill(a, 9, one, 1);
  a->arguments[6].offset = 8;
  refused(a, "rows 2 and 6 share memory that one of them writes");
  a->arguments[6].offset = 9;
  refused(a, "row 6: argument 0");
  a->arguments[6].offset = 4 * (uint64_t)MOST_ROWS;
  refused(a, "row 6: argument 0");
  fill(a, 9, one, 1);
  a->rows.scalar_count = 2;
  refused(a, "the kernel takes 1 array and 1 scalar in each row, not 1 and 2");
  fill(a, 9, one, 1);
  vyc_prepared *const entry = a->entry;
  a->entry = a->prepared;
  refused(a, "made for another kernel");
  a->entry = entry;
  fill(a, 0, one, 1);
  OK(vyc_prepared_launch_many(a->prepared, a->entry, &a->rows));
}

/* ---- in a graph -------------------------------------------------------------------------------
 */

static void a_graph_keeps_rows(adder *a, uint32_t count, const uint32_t *blocks, uint32_t kinds) {
  uint32_t words[MOST_ROWS] = {0}, step = 9;
  vyc_graph *graph = NULL;
  vyc_graph_info info = {.struct_size = sizeof info};
  vyc_buffer *const own = a->buffer;
  a->buffer = new_buffer(a->context, 4 * MOST_ROWS);
  fill(a, count, blocks, kinds);
  OK(vyc_copy_in(a->buffer, 0, words, sizeof words));
  OK(vyc_graph_create(&graph, a->context));
  OK(vyc_graph_add_rows(graph, NULL, a->prepared, a->entry, &a->rows));
  OK(vyc_graph_add_rows(graph, &step, a->prepared, a->entry, &a->rows));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_info_get(graph, &info));
  CHECK(step == 1 && info.node_count == 2 && info.edge_count == 1);
  for (int turn = 0; turn < 3; turn++) OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_copy_out(a->buffer, 0, words, sizeof words));
  vyc_buffer_release(a->buffer);
  OK(vyc_graph_launch(graph, NULL, 0, NULL)); /* the graph holds it */
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t n = blocks[i % kinds];
    CHECK(words[i] == 6 * (n * (1000 + i) + n * (n - 1) / 2));
  }
  const vyc_graph_change change = {.step = 0, .run = &(vyc_run){.struct_size = sizeof(vyc_run)}};
  CHECK(vyc_graph_launch(graph, &change, 1, NULL) == VYC_E_INVALID);
  vyc_graph_release(graph);
  a->buffer = own;
}

/* The first rows are those of one kernel, the others those of another. */
static void split(const adder *a, uint32_t first, vyc_rows both[2]) {
  both[0] = both[1] = a->rows;
  both[0].count = first;
  both[1].count -= first;
  both[1].arguments += first;
  both[1].scalars += first;
  both[1].grids += 3 * (size_t)first;
}

static void rows_of_two_kernels_are_one_step(adder *a, uint32_t count, uint32_t first,
                                             const uint32_t *blocks, uint32_t kinds) {
  uint32_t words[MOST_ROWS] = {0}, step = 9;
  vyc_graph *graph = NULL;
  vyc_rows both[2];
  vyc_prepared *const kernels[] = {a->prepared, a->prepared};
  const vyc_rows *const rows[] = {&both[0], &both[1]};
  fill(a, count, blocks, kinds);
  split(a, first, both);
  OK(vyc_copy_in(a->buffer, 0, words, sizeof words));
  OK(vyc_graph_create(&graph, a->context));
  OK(vyc_graph_add_tables(graph, &step, a->of_two, 2, kernels, rows));
  OK(vyc_graph_finish(graph));
  CHECK(step == 0);
  for (int turn = 0; turn < 2; turn++) OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_copy_out(a->buffer, 0, words, sizeof words));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t n = blocks[i % kinds], more = i >= first ? 7 : 0;
    CHECK(words[i] == 2 * (n * (1000 + i + more) + n * (n - 1) / 2));
  }
  vyc_graph_release(graph);
}

static void wrong_tables_add_no_step(adder *a) {
  static const uint32_t one[] = {1}, large[] = {1u << 30};
  vyc_graph *graph = NULL;
  vyc_graph_info info = {.struct_size = sizeof info};
  vyc_error error = {.struct_size = sizeof error};
  vyc_rows both[2];
  vyc_prepared *const kernels[] = {a->prepared, a->prepared};
  const vyc_rows *const rows[] = {&both[0], &both[1]};
  OK(vyc_graph_create(&graph, a->context));
  fill(a, 9, one, 1);
  split(a, 4, both);
  CHECK(vyc_graph_add_tables(graph, NULL, a->entry, 2, kernels, rows) == VYC_E_INVALID);
  CHECK(vyc_graph_add_tables(graph, NULL, a->of_two, 1, kernels, rows) == VYC_E_INVALID);
  CHECK(vyc_graph_add_tables(graph, NULL, a->of_two, 0, kernels, rows) == VYC_E_INVALID);
  CHECK(vyc_graph_add_tables(graph, NULL, a->of_two, 17, kernels, rows) == VYC_E_INVALID);
  a->arguments[6].offset = 8; /* the word of a row of the other kernel */
  CHECK(vyc_graph_add_tables(graph, NULL, a->of_two, 2, kernels, rows) == VYC_E_INVALID);
  OK(vyc_last_error(&error));
  CHECK(strstr(error.message, "rows of several kernels share memory") != NULL);
  fill(a, 4, large, 1);
  split(a, 1, both);
  both[1].count = 1;
  CHECK(vyc_graph_add_tables(graph, NULL, a->of_two, 2, kernels, rows) == VYC_E_UNSUPPORTED);
  OK(vyc_graph_info_get(graph, &info));
  CHECK(info.step_count == 0);
  vyc_graph_release(graph);
}

static void wrong_rows_add_no_step(adder *a) {
  static const uint32_t one[] = {1}, large[] = {1u << 30};
  vyc_graph *graph = NULL;
  vyc_graph_info info = {.struct_size = sizeof info};
  OK(vyc_graph_create(&graph, a->context));
  fill(a, 9, one, 1);
  CHECK(vyc_graph_add_rows(graph, NULL, a->prepared, NULL, &a->rows) == VYC_E_INVALID);
  CHECK(vyc_graph_add_rows(graph, NULL, a->prepared, a->prepared, &a->rows) == VYC_E_INVALID);
  a->arguments[6].offset = 8;
  CHECK(vyc_graph_add_rows(graph, NULL, a->prepared, a->entry, &a->rows) == VYC_E_INVALID);
  fill(a, 2, large, 1);
  CHECK(vyc_graph_add_rows(graph, NULL, a->prepared, a->entry, &a->rows) == VYC_E_UNSUPPORTED);
  fill(a, 0, one, 1);
  OK(vyc_graph_add_rows(graph, NULL, a->prepared, a->entry, &a->rows));
  OK(vyc_graph_info_get(graph, &info));
  CHECK(info.step_count == 0);
  vyc_graph_release(graph);
}

/* ---- arrays with a place -----------------------------------------------------------------------
 */

static const uint32_t ONE_BLOCK[] = {1};

/* Row 3 of 9 has a place. */
static vyc_status add_placed(adder *a, vyc_graph *graph, vyc_prepared *entry, uint8_t place) {
  uint8_t places[9] = {0};
  const uint8_t *const of_rows[] = {places};
  const vyc_rows *const rows[] = {&a->rows};
  places[3] = place;
  return vyc_graph_add_tables_with(graph, NULL, entry, 1, &a->prepared, rows, of_rows);
}

static uint32_t word_of(vyc_buffer *buffer) {
  uint32_t word = 0;
  OK(vyc_copy_out(buffer, 0, &word, sizeof word));
  return word;
}

static vyc_run run_on(const vyc_argument *argument, uint32_t count) {
  return (vyc_run){.struct_size = sizeof(vyc_run), .argument_count = count, .arguments = argument};
}

static void a_launch_has_other_arrays(adder *a) {
  uint32_t words[MOST_ROWS] = {0};
  const uint32_t none = 0;
  const vyc_graph_use use = {0, 1};
  vyc_graph *graph = NULL;
  vyc_buffer *const other = new_buffer(a->context, 4), *third = new_buffer(a->context, 4);
  const vyc_argument argument = {.kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = other};
  const vyc_run run = run_on(&argument, 1);
  const vyc_graph_change change = {.run = &run};
  vyc_symbol_value value = {.count = 1, .buffer = third};
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = VYC_SYMBOL_ARRAY,
                                   .element_bytes = 4,
                                   .use_count = 1,
                                   .uses = &use};
  OK(vyc_copy_in(other, 0, &none, 4));
  OK(vyc_copy_in(third, 0, &none, 4));
  OK(vyc_copy_in(a->buffer, 0, words, sizeof words));
  fill(a, 9, ONE_BLOCK, 1);
  OK(vyc_graph_create(&graph, a->context));
  OK(add_placed(a, graph, a->placed, 1));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_add_symbol(graph, &value.symbol, &symbol));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  OK(vyc_graph_launch_with(graph, &value, 1, NULL, 0));
  OK(vyc_graph_update(graph, &change, 1));
  vyc_buffer_release(third);
  for (int turn = 0; turn < 2; turn++) OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_copy_out(a->buffer, 0, words, sizeof words));
  for (uint32_t i = 0; i < 9; i++) CHECK(words[i] == (i == 3 ? 1 : 5) * (1000 + i));
  CHECK(word_of(other) == 3 * 1003);
  vyc_graph_release(graph);
  vyc_buffer_release(other);
}

static void wrong_arrays_change_nothing(adder *a) {
  vyc_graph *graph = NULL;
  vyc_buffer *const small = new_buffer(a->context, 2), *large = new_buffer(a->context, 8);
  const vyc_argument arguments[] = {{.kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = small},
                                    {.kind = VYC_ARGUMENT_BUFFER, .count = 2, .buffer = large},
                                    {.kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = large}};
  const vyc_run runs[] = {run_on(&arguments[0], 1), run_on(&arguments[1], 1),
                          run_on(&arguments[1], 2), run_on(NULL, 0)};
  const vyc_graph_use table = {0, 0};
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = VYC_SYMBOL_ARRAY,
                                   .element_bytes = 16,
                                   .use_count = 1,
                                   .uses = &table};
  uint32_t number = 0;
  fill(a, 9, ONE_BLOCK, 1);
  OK(vyc_graph_create(&graph, a->context));
  OK(add_placed(a, graph, a->placed, 1));
  OK(vyc_graph_finish(graph));
  for (uint32_t i = 0; i < 4; i++) {
    const vyc_graph_change change = {.run = &runs[i]};
    CHECK(vyc_graph_launch(graph, &change, 1, NULL) == VYC_E_INVALID);
    CHECK(vyc_graph_update(graph, &change, 1) == VYC_E_INVALID);
  }
  CHECK(vyc_graph_add_symbol(graph, &number, &symbol) == VYC_E_INVALID);
  vyc_graph_release(graph);
  vyc_buffer_release(small);
  vyc_buffer_release(large);
}

/* Rows of one kernel or of two; row 3 has word 5 in a place, and may have any but those of the
 * other rows, which run beside it. */
static void arrays_that_rows_have_change_nothing(adder *a, uint32_t kernel_count) {
  uint32_t words[MOST_ROWS] = {0};
  const uint8_t places[9] = {0, 0, 0, 1};
  const uint8_t *const of_rows[] = {places, NULL};
  const vyc_graph_use use = {0, 1};
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = VYC_SYMBOL_ARRAY,
                                   .element_bytes = 4,
                                   .use_count = 1,
                                   .uses = &use};
  vyc_prepared *const kernels[] = {a->prepared, a->prepared};
  vyc_rows both[2];
  const vyc_rows *const rows[] = {&both[0], &both[1]};
  vyc_graph *graph = NULL;
  vyc_symbol_value value = {.count = 1, .buffer = a->buffer};
  OK(vyc_copy_in(a->buffer, 0, words, sizeof words));
  fill(a, 9, ONE_BLOCK, 1);
  for (uint32_t i = 0; i < 9; i++) a->arguments[i].offset = 4 * (8 - (uint64_t)i);
  split(a, kernel_count == 1 ? 9 : 4, both);
  OK(vyc_graph_create(&graph, a->context));
  OK(vyc_graph_add_tables_with(graph, NULL, kernel_count == 1 ? a->placed : a->placed_of_two,
                               kernel_count, kernels, rows, of_rows));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_add_symbol(graph, &value.symbol, &symbol));
  for (uint32_t i = 0; i < 12; i++) {
    const vyc_argument argument = {
        .kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = a->buffer, .offset = 4 * (uint64_t)i};
    const vyc_run run = run_on(&argument, 1);
    const vyc_graph_change change = {.run = &run};
    const vyc_status expected = i < 9 && i != 5 ? VYC_E_INVALID : VYC_OK;
    value.offset = argument.offset;
    CHECK(vyc_graph_launch(graph, &change, 1, NULL) == expected);
    CHECK(vyc_graph_launch_with(graph, &value, 1, NULL, 0) == expected);
    CHECK(vyc_graph_update(graph, &change, 1) == expected);
    CHECK(vyc_graph_set(graph, &value, 1) == expected);
  }
  OK(vyc_copy_out(a->buffer, 0, words, sizeof words));
  for (uint32_t i = 0; i < 12; i++)
    CHECK(words[i] == (i == 5 || i >= 9 ? 2 * 1003 : 8 * (1008 - i)));
  vyc_graph_release(graph);
}

static void wrong_places_add_no_step(adder *a) {
  vyc_graph *graph = NULL;
  vyc_graph_info info = {.struct_size = sizeof info};
  const uint8_t both[9] = {1, 1};
  const uint8_t *const of_rows[] = {both};
  const vyc_rows *const rows[] = {&a->rows};
  fill(a, 9, ONE_BLOCK, 1);
  OK(vyc_graph_create(&graph, a->context));
  CHECK(add_placed(a, graph, a->placed, 0) == VYC_E_INVALID); /* no row has its place */
  CHECK(add_placed(a, graph, a->placed, 2) == VYC_E_INVALID);
  CHECK(add_placed(a, graph, a->entry, 1) == VYC_E_INVALID);
  CHECK(vyc_graph_add_rows(graph, NULL, a->prepared, a->placed, &a->rows) == VYC_E_INVALID);
  CHECK(vyc_graph_add_tables_with(graph, NULL, a->placed, 1, &a->prepared, rows, of_rows) ==
        VYC_E_INVALID); /* two arrays in one place */
  CHECK(vyc_prepared_launch_many(a->prepared, a->placed, &a->rows) == VYC_E_INVALID);
  OK(vyc_graph_info_get(graph, &info));
  CHECK(info.step_count == 0);
  vyc_graph_release(graph);
}

/* ---- more blocks than a launch can have ------------------------------------------------------ */

static uint64_t first_blocks;
static uint32_t launched;

static CUresult CUDAAPI count_launch(CUfunction function, unsigned x, unsigned y, unsigned z,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     CUstream stream, void **parameters, void **extra) {
  (void)function, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters;
  (void)extra;
  if (launched++ == 0) first_blocks = (uint64_t)x * y * z;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI count_graph(CUgraphExec graph, CUstream stream) {
  (void)graph, (void)stream;
  launched++;
  return CUDA_SUCCESS;
}

static void large_launches_are_several(void) {
  static const struct {
    uint32_t count, blocks[2], y; /* of rows in turn; blocks of the first one along y */
    uint32_t launches;
    uint64_t first;
  } cases[] = {
      {3, {1u << 30, 1u << 30}, 1, 3, UINT64_C(1) << 30},
      {3, {1u << 29, 1u << 29}, 1, 1, UINT64_C(3) << 29},
      {2, {INT32_MAX, INT32_MAX}, 1, 2, INT32_MAX},
      {4, {INT32_MAX, 7}, 1, 4, INT32_MAX},
      {4, {INT32_MAX - 7, 7}, 1, 2, INT32_MAX},
      {4, {0, INT32_MAX}, 1, 2, INT32_MAX},
      {3, {1u << 30, 5}, 3, 2, UINT64_C(3) << 30}, /* the first row is too large by itself */
  };
  vyc_driver *driver = NULL;
  adder a = {0};
  OK(vyc_driver_open(&driver, emulator_path));
  OK(vyc_context_open(&a.context, driver, 0));
  OK(vyc_module_load(&a.module, NULL, 0, a.context, TEXT, strlen(TEXT) + 1));
  a.buffer = new_buffer(a.context, 4 * MOST_ROWS);
  ((struct vyc_driver *)driver)->cuLaunchKernel = count_launch;
  ((struct vyc_driver *)driver)->cuGraphLaunch = count_graph;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    prepare_both(&a); /* so that the first launch is no graph */
    fill(&a, cases[i].count, cases[i].blocks, 2);
    a.grids[0][1] = cases[i].y;
    launched = 0;
    OK(vyc_prepared_launch_many(a.prepared, a.entry, &a.rows));
    CHECK(launched == cases[i].launches);
    CHECK(first_blocks == cases[i].first);
    release_all(&a);
  }
  vyc_buffer_release(a.buffer);
  vyc_module_release(a.module);
  vyc_context_release(a.context);
  vyc_driver_release(driver);
}

int main(int argc, char **argv) {
  static const uint32_t same[] = {3}, few[] = {1, 0, 5, 2, 0, 0, 9}, far[] = {1, 1, 200, 1, 1};
  emulator_open(argc, argv);
  large_launches_are_several();
  adder a = {.context = open_context()};
  OK(vyc_module_load(&a.module, NULL, 0, a.context, TEXT, strlen(TEXT) + 1));
  a.buffer = new_buffer(a.context, 4 * MOST_ROWS);
  prepare_both(&a);
  for (uint32_t count = 1; count <= MOST_ROWS; count = count < 5 ? count + 1 : count * 5 - 8) {
    every_block_is_of_its_row(&a, count, same, 1, a.entry);
    every_block_is_of_its_row(&a, count, few, 7, a.entry);
    every_block_is_of_its_row(&a, count, far, 5, a.entry);
    every_block_is_of_its_row(&a, count, few, 7, NULL);
  }
  a_graph_keeps_rows(&a, 600, same, 1);
  a_graph_keeps_rows(&a, 600, few, 7);
  for (uint32_t first = 0; first <= 600; first += 150) {
    rows_of_two_kernels_are_one_step(&a, 600, first, same, 1);
    rows_of_two_kernels_are_one_step(&a, 600, first, few, 7);
  }
  wrong_rows_add_no_step(&a);
  a_launch_has_other_arrays(&a);
  wrong_arrays_change_nothing(&a);
  arrays_that_rows_have_change_nothing(&a, 1);
  arrays_that_rows_have_change_nothing(&a, 2);
  wrong_places_add_no_step(&a);
  wrong_tables_add_no_step(&a);
  what_is_wrong_is_refused(&a);
  release_all(&a);
  vyc_buffer_release(a.buffer);
  vyc_module_release(a.module);
  vyc_context_release(a.context);
  check_nothing_lives();
  return 0;
}
