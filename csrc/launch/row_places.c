/* Arrays that rows have from the launch of their entry, so that another launch can have others. The
 * table has the number of the place where a row's own array would have its address: there is no
 * memory at such addresses. */
#include "rows.h"

static vyc_status fail_place(uint32_t row, uint32_t argument, const char *why) {
  return vyc__fail(VYC_E_INVALID, "graph", "argument %u of row %u: %s", argument, row, why);
}

static bool is_same(const vyc_argument *a, const vyc_argument *b) {
  return a->kind == b->kind && a->buffer == b->buffer && a->offset == b->offset &&
         a->count == b->count;
}

static vyc_status find(vyc_argument *arguments, const vyc_prepared *entry, const vyc_many *many,
                       uint32_t row, uint32_t i) {
  const uint32_t place = vyc__place_of(many, row, i);
  const vyc_run run = vyc__row_run(many, row);
  const vyc_argument *argument = &run.arguments[i];
  const vyc_binding *binding = &many->prepared->bindings[i];
  if (place >= entry->binding_count) return fail_place(row, i, "the entry has no such place");
  const vyc_binding *there = &entry->bindings[place];
  if (many->prepared->may_overlap || entry->may_overlap)
    return fail_place(row, i, "it has a place, and the kernel's arrays may share memory");
  if (there->element_bytes != binding->element_bytes)
    return fail_place(row, i, "the elements of its place have another size");
  if (binding->role != VYC_ROLE_IN && there->role != VYC_ROLE_INOUT)
    return fail_place(row, i, "it is written, and its place is only read");
  if (many->clears && argument->count != 0 && vyc__needs_clear(many->prepared, i, &run))
    return fail_place(row, i, "it has a place and would have to be cleared");
  if (arguments[place].buffer != NULL && !is_same(&arguments[place], argument))
    return fail_place(row, i, "its place is that of another array, too");
  arguments[place] = *argument;
  return VYC_OK;
}

vyc_status vyc__row_places_find(vyc_argument *arguments_out, const vyc_prepared *entry,
                                const vyc_many *many, uint32_t count) {
  if (entry->binding_count > 1 + VYC_MOST_PLACES)
    return vyc__fail(VYC_E_INVALID, "graph", "the entry for many launches has more than %u places",
                     VYC_MOST_PLACES);
  for (; count > 0; count--, many++)
    for (uint32_t row = 0; many->places != NULL && row < many->rows->count; row++)
      for (uint32_t i = 0; i < many->rows->argument_count; i++)
        if (vyc__place_of(many, row, i) != 0) VYC_TRY(find(arguments_out, entry, many, row, i));
  for (uint32_t place = 1; place < entry->binding_count; place++)
    if (arguments_out[place].buffer == NULL)
      return vyc__fail(VYC_E_INVALID, "graph",
                       "no row has an array in place %u of the entry for many launches", place);
  return VYC_OK;
}

void vyc__row_places_put(const vyc_many *many) {
  const size_t count = (size_t)many->rows->count * many->rows->argument_count;
  for (size_t i = 0; many->places != NULL && i < count; i++)
    if (many->places[i] != 0) many->arrays[i].begin = many->places[i];
}
