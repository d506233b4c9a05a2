# cython: language_level=3, freethreading_compatible=True
"""Bundles as the C layer reads them, and their kernels on a device."""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from vyre_cuda._native.core.c_driver cimport vyc_prepared
from vyre_cuda._native.core.c_kernel cimport vyc_known
from vyre_cuda._native.core.c_bundle cimport (
    VYC_ROLE_SCALAR,
    vyc_bundle_extents, vyc_bundle_info, vyc_bundle_info_get, vyc_bundle_kernel, vyc_bundle_kernel_get,
    vyc_bundle_known_get, vyc_bundle_open, vyc_bundle_parameter, vyc_bundle_parameter_get, vyc_bundle_release,
    vyc_bundle_shape, vyc_bundle_site_get, vyc_bundle_variant, vyc_bundle_variant_get, vyc_bundled_kernel,
    vyc_bundled_kernel_info, vyc_bundled_kernel_info_get, vyc_bundled_kernel_load, vyc_bundled_kernel_many,
    vyc_bundled_kernel_prepared, vyc_bundled_kernel_release, vyc_site,
)
from vyre_cuda._native.core.c_bundle_graph cimport (
    vyc_bundle_array, vyc_bundle_array_get, vyc_bundle_condition, vyc_bundle_condition_get, vyc_bundle_graph,
    vyc_bundle_graph_get, vyc_bundle_step, vyc_bundle_step_get, vyc_bundle_symbol, vyc_bundle_symbol_get,
)
from vyre_cuda._native.core.context cimport Context
from vyre_cuda._native.call.prepared cimport PreparedKernel
from vyre_cuda._native.core.status cimport check

from vyre_cuda.errors import CompileError, counted


cdef class BundleFile:
    """The checked contents of a bundle."""

    def __init__(self, bytes data not None) -> None:
        cdef const char *begin = data
        cdef size_t n = len(data)
        with nogil:
            check(vyc_bundle_open(&self._h, NULL, begin, n))

    def __dealloc__(self):
        vyc_bundle_release(self._h)

    def info(self) -> dict[str, object]:
        cdef vyc_bundle_info info
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        check(vyc_bundle_info_get(self._h, &info))
        return {
            "format_version": info.format_version,
            "producer": info.producer,
            "kernel_count": info.kernel_count,
            "graph_count": info.graph_count,
            "nbytes": info.bytes,
            "digest": info.digest[:32],
        }

    def kernel(self, uint32_t index) -> dict[str, object]:
        cdef vyc_bundle_kernel row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_kernel_get(self._h, &row, index))
        return {
            "name": row.name.decode(),
            "flags": row.flags,
            "precision": row.precision.decode(),
            "bounds": row.bounds.decode(),
            "block": (row.block[0], row.block[1], row.block[2]),
            "index_bits": row.index_bits,
            "axes": row.axes,
            "parameter_count": row.parameter_count,
            "variant_count": row.variant_count,
            "known": [self.known(index, i) for i in range(row.known_count)],
            "program": (<const char *>row.program)[:row.program_bytes],
            "fingerprint": row.fingerprint[:32],
            "max_ulp": row.max_ulp or None,
        }

    def parameters(self, uint32_t kernel) -> list[tuple[str, int, int, int, bool]]:
        """(name, role, type, slot, is sized) of each parameter, in declared order."""
        cdef vyc_bundle_parameter row
        found = []
        for index in range(self.kernel(kernel)["parameter_count"]):
            memset(&row, 0, sizeof(row))
            row.struct_size = sizeof(row)
            check(vyc_bundle_parameter_get(self._h, &row, kernel, index))
            found.append((row.name.decode(), row.role, row.type, row.slot, row.is_sized != 0))
        return found

    def known(self, uint32_t kernel, uint32_t index) -> tuple[str, int]:
        """(name, bits) of a value that the kernel was compiled for."""
        cdef vyc_known row
        check(vyc_bundle_known_get(self._h, &row, kernel, index))
        return row.name.decode(), row.value

    def variant(self, uint32_t kernel, uint32_t index) -> dict[str, object]:
        cdef vyc_bundle_variant row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_variant_get(self._h, &row, kernel, index))
        buffers = sum(role != VYC_ROLE_SCALAR for _, role, _, _, _ in self.parameters(kernel))
        return {
            "sm": row.sm,
            "ptx_version": row.ptx_version,
            "cooperative": row.is_cooperative != 0,
            "prints": row.prints != 0,
            "shared_bytes": row.shared_bytes,
            "dynamic_shared_bytes": row.dynamic_shared_bytes,
            "parameter_bytes": row.parameter_bytes,
            "entry": row.entry.decode(),
            "entries": [
                (row.entries[i].kind, row.entries[i].index, row.entries[i].offset, row.entries[i].size)
                for i in range(row.entry_count)
            ],
            "bindings": [
                (row.bindings[i].role, row.bindings[i].flags, row.bindings[i].element_bytes, row.bindings[i].sectors)
                for i in range(buffers)
            ],
            "sites": [self.site(kernel, index, i) for i in range(row.site_count)],
            "ptx": row.ptx[:row.ptx_bytes - 1].decode("ascii", "replace"),
            "cubin": b"" if row.cubin == NULL else (<const char *>row.cubin)[:row.cubin_bytes],
        }

    def site(self, uint32_t kernel, uint32_t variant, uint32_t index) -> tuple[int, str, str, str, int, int]:
        """(kind, message, buffer, file, line, statement)."""
        cdef vyc_site row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_site_get(self._h, &row, kernel, variant, index))
        return row.kind, row.message.decode(), row.buffer.decode(), row.file.decode(), row.line, row.statement

    def graph(self, uint32_t index) -> dict[str, object]:
        """name, symbols: (name, kind, type, flags, array, value, count) each; arrays: (bytes, contents); steps: (kind,
        kernel, type, grid, times, values), a value being (kind, index, value, count); conditions: (symbol, memory,
        value, count) each."""
        cdef vyc_bundle_graph row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_graph_get(self._h, &row, index))
        return {
            "name": row.name.decode(),
            "symbols": [self.symbol(index, i) for i in range(row.symbol_count)],
            "arrays": [self.array(index, i) for i in range(row.array_count)],
            "steps": [self.step(index, i) for i in range(row.step_count)],
            "conditions": [self.condition(index, i) for i in range(row.condition_count)],
        }

    def symbol(self, uint32_t graph, uint32_t index) -> tuple:
        cdef vyc_bundle_symbol row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_symbol_get(self._h, &row, graph, index))
        return row.name.decode(), row.kind, row.type, row.flags, row.array, row.value, row.count

    def array(self, uint32_t graph, uint32_t index) -> tuple[int, bytes]:
        cdef vyc_bundle_array row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_array_get(self._h, &row, graph, index))
        return row.bytes, b"" if row.contents == NULL else (<const char *>row.contents)[:row.bytes]

    def step(self, uint32_t graph, uint32_t index) -> tuple:
        cdef vyc_bundle_step row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_step_get(self._h, &row, graph, index))
        values = [
            (row.values[i].kind, row.values[i].index, row.values[i].value, row.values[i].count)
            for i in range(row.value_count)
        ]
        return row.kind, row.kernel, row.type, (row.grid[0], row.grid[1], row.grid[2]), row.times, values

    def condition(self, uint32_t graph, uint32_t index) -> tuple[int, int, int, int]:
        cdef vyc_bundle_condition row
        memset(&row, 0, sizeof(row))
        row.struct_size = sizeof(row)
        check(vyc_bundle_condition_get(self._h, &row, graph, index))
        return row.symbol, row.memory, row.value, row.count

    def extents(self, uint32_t kernel, list counts not None, list scalars not None) -> list[int]:
        """The scalars and extents of a call, with those extents written that follow from the others."""
        cdef uint64_t[256] c_counts
        cdef uint64_t[256] c_scalars
        self.take(c_counts, c_scalars, kernel, counts, scalars)
        check(vyc_bundle_extents(self._h, c_scalars, kernel, c_counts))
        return [c_scalars[i] for i in range(len(scalars))]

    def shape(self, uint32_t kernel, list counts not None, list scalars not None, bint with_grid=True) -> tuple:
        """(counts, grid) of a call whose buffers have these counts, by slot; the counts of sized outs are replaced."""
        cdef uint64_t[256] c_counts
        cdef uint64_t[256] c_scalars
        cdef uint32_t[3] grid = [0, 0, 0]
        self.take(c_counts, c_scalars, kernel, counts, scalars)
        check(vyc_bundle_shape(self._h, c_counts, grid if with_grid else NULL, kernel, c_scalars))
        return [c_counts[i] for i in range(len(counts))], (grid[0], grid[1], grid[2])

    cdef int take(self, uint64_t *c_counts, uint64_t *c_scalars, uint32_t kernel, list counts, list scalars) except -1:
        """Copy the numbers of a call of a kernel, which has 256 parameters at most."""
        cdef Py_ssize_t i
        buffers = sum(role != VYC_ROLE_SCALAR for _, role, _, _, _ in self.parameters(kernel))
        if len(counts) != buffers or len(scalars) != self.kernel(kernel)["parameter_count"] - buffers:
            raise ValueError(
                f"{counted(len(counts), 'element count')} and {counted(len(scalars), 'scalar')} do not match the "
                "kernel's parameters"
            )
        for i in range(len(counts)):
            c_counts[i] = counts[i]
        for i in range(len(scalars)):
            c_scalars[i] = scalars[i]
        return 0

    def load(self, Context context not None, str name not None, uint64_t tag) -> tuple:
        """The prepared kernel of a device, the number of its variant, and whether that is machine code; then its entry
        for many launches as one, the kernel that clears before these, and its entry: each None if the bundle has none.

        CompileError carries the driver's log."""
        cdef vyc_bundled_kernel *kernel = NULL
        cdef vyc_bundled_kernel_info info
        cdef char log[16384]
        cdef bytes encoded = name.encode()
        cdef const char *c_name = encoded
        cdef PreparedKernel prepared
        cdef vyc_prepared *many[3]
        log[0] = 0
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        try:
            with nogil:
                check(vyc_bundled_kernel_load(&kernel, log, sizeof(log), context._h, self._h, c_name, tag))
        except CompileError as error:
            error.log = log.decode("utf-8", "replace")
            raise
        try:
            check(vyc_bundled_kernel_info_get(kernel, &info))
            prepared = PreparedKernel.__new__(PreparedKernel)
            check(vyc_bundled_kernel_prepared(kernel, &prepared._h))
            check(vyc_bundled_kernel_many(kernel, &many[0], &many[1], &many[2]))
        finally:
            with nogil:
                vyc_bundled_kernel_release(kernel)
        prepared.context = context
        row = self.parameters(info.kernel)
        prepared.binding_count = sum(role != VYC_ROLE_SCALAR for _, role, _, _, _ in row)
        prepared.scalar_count = len(row) - prepared.binding_count
        return prepared, info.variant, info.is_cubin != 0, tuple([taken(context, many[i], i != 1) for i in range(3)])


cdef PreparedKernel taken(Context context, vyc_prepared *prepared, bint is_entry):
    """The reference as an object: of an entry for many launches, or of the kernel that clears."""
    cdef PreparedKernel made
    if prepared == NULL:
        return None
    made = PreparedKernel.__new__(PreparedKernel)
    made._h = prepared
    made.context = context
    made.binding_count = 1
    made.scalar_count = 5 if is_entry else 0
    return made
