# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False, cdivision=True
"""What the warm path knows about a kernel: its parameters, and how sizes and grids follow from a call's arguments.

It declines what it does not recognize at a glance (0 or False), and the general path decides and explains. What it
does know agrees with `ir.core.scalars` and `ir.call.geometry`, which the tests check.
"""
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from vyre_cuda._native.call.numbers cimport integer_bits
from vyre_cuda._native.core.c_bundle cimport VYC_ROLE_SCALAR
from vyre_cuda._native.core.c_kernel cimport VYC_ROLE_INOUT, VYC_ROLE_OUT

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr:
        PyTypeObject *typeobj

cdef extern from "bundle/expression.h":
    const int32_t SIZE "VYC_LEAF_SIZE"
    const int32_t SCALAR "VYC_LEAF_SCALAR"
    const int32_t CAST "VYC_HOST_CAST"
    const uint64_t[3] MOST_BLOCKS "vyc__most_blocks"
    uint64_t fit "vyc__host_fit"(uint64_t value, int32_t width) noexcept nogil
    bint wraps "vyc__host_wraps"(int32_t op, uint64_t a, uint64_t b, bint signed) noexcept nogil
    uint64_t combine "vyc__host_combine"(int32_t op, uint64_t a, uint64_t b, bint signed) noexcept nogil


cdef Row row_of(int typenum, int width, uint32_t itemsize):
    """A scalar of this type that is not a parameter of a kernel."""
    cdef Row row = Row(VYC_ROLE_SCALAR, 0, typenum, width, itemsize, 0, 0, -1, 0, 0, NULL)
    if 0 <= typenum < cnp.NPY_NTYPES_LEGACY:
        descr = cnp.PyArray_DescrFromType(typenum)
        row.scalar = <PyObject *>(<PyArray_Descr *>descr).typeobj  # built in, and so never freed
    return row


cdef class Table:
    """The parameters of one kernel in declared order."""

    def __init__(self, tuple rows not None, tuple work not None, tuple block not None, int index_bits,
                 bint simple, tuple extents=()) -> None:
        """`rows`: (role, slot, NumPy type number, width, item size, steps of a declared size, axes, first extent) each;
        `work`: the steps of each axis; `extents`: (parameter, slot, steps) of each declared extent; a step is
        (op, width, value). `index_bits`: those of ids and sizes, without the sign. With `simple` False, the general
        path takes every call.
        """
        cdef int32_t used = 0
        cdef Py_ssize_t i
        self.block = [block[0], block[1], block[2]]
        self.most_elements = <uint64_t>0xFFFFFFFFFFFFFFFF >> (64 - index_bits)
        most_threads = <uint64_t>0xFFFFFFFFFFFFFFFF if index_bits == 64 else <uint64_t>1 << index_bits
        self.most_blocks = [min(MOST_BLOCKS[i], most_threads // block[i]) for i in range(3)]
        self.plain_blocks = self.most_blocks
        self.axes = len(work)
        self.simple = simple and 1 <= len(work) <= 3
        for i in range(len(rows)):
            self.binding_count += rows[i][0] != VYC_ROLE_SCALAR
            self.scalar_count += 1 if rows[i][0] == VYC_ROLE_SCALAR else rows[i][6]
            self.result_count += rows[i][0] in (VYC_ROLE_INOUT, VYC_ROLE_OUT)
        if not self.simple:
            return
        self.rows = <Row *>calloc(len(rows) + 1, sizeof(Row))
        self.steps = <Step *>calloc(steps_of(rows, work, extents) + 1, sizeof(Step))
        self.extents = <Extent *>calloc(len(extents) + 1, sizeof(Extent))
        if self.rows == NULL or self.steps == NULL or self.extents == NULL:
            raise MemoryError
        self.parameter_count = len(rows)
        for i in range(len(rows)):
            used = self.add_row(i, rows[i], used)
        for parameter, slot, steps in extents:
            begin = used
            used = self.add_steps(steps, used)
            self.extents[self.extent_count] = Extent(parameter, slot, begin, used)
            self.extent_count += 1
        for i in range(len(work)):
            self.work[i] = used
            used = self.add_steps(work[i], used)
            self.work[i + 1] = used
            self.work_of[i] = self.leaf_of(self.work[i], used)

    def leave_from(self, uint64_t threads) -> None:
        """Leave launches of so many threads and more along x to the general path, whose grid follows from their work;
        0: those no more."""
        cdef uint64_t fewer = self.most_blocks[0] if threads == 0 else (threads - 1) // self.block[0]
        self.plain_blocks[0] = min(self.most_blocks[0], fewer)

    def __dealloc__(self):
        free(self.rows)
        free(self.steps)
        free(self.extents)

    def add_row(self, Py_ssize_t i, tuple row, int32_t used) -> int:
        role, slot, typenum, width, itemsize, size, axes, extents = row
        self.rows[i] = Row(role, slot, typenum, width, itemsize, used, used, -1, axes, extents, NULL)
        self.shaped |= axes != 0 or (role != VYC_ROLE_OUT and len(size) != 0)
        if role == VYC_ROLE_SCALAR:
            self.rows[i].scalar = row_of(typenum, width, itemsize).scalar
        self.rows[i].end = self.add_steps(size, used)
        self.rows[i].as_of = self.leaf_of(used, self.rows[i].end)
        return self.rows[i].end

    def add_steps(self, tuple steps, int32_t used) -> int:
        cdef uint32_t kept = 0
        for op, width, value in steps:
            self.steps[used] = Step(op, width, value)
            used += 1
            if op < 0:
                kept += 1
            elif op != CAST:
                kept -= 1
            self.depth = max(self.depth, kept)
        return used

    cdef int32_t leaf_of(self, int32_t begin, int32_t end) noexcept:
        """The parameter whose size the steps are, as is usual, with every count that a call may have."""
        cdef const Step *step = &self.steps[begin]
        cdef int32_t value_bits = step.width if step.width > 0 else -step.width - 1
        if end - begin != 1 or step.op != SIZE or (value_bits < 64 and self.most_elements >> value_bits):
            return -1
        return <int32_t>step.value

    cdef bint evaluate(self, uint64_t *value, int32_t begin, int32_t end, uint64_t *counts,
                       const uint64_t *scalars) noexcept nogil:
        """Run steps begin to end, a postfix expression; False if the result is negative or a step wraps."""
        cdef uint64_t *stack = counts + self.parameter_count
        cdef int32_t depth = 0
        cdef int32_t i
        cdef uint64_t whole
        cdef const Step *step
        for i in range(begin, end):
            step = &self.steps[i]
            if step.op < 0:
                stack[depth] = step.value
                if step.op == SIZE:
                    stack[depth] = counts[step.value]
                elif step.op == SCALAR:
                    stack[depth] = scalars[step.value]
                depth += 1
            elif step.op != CAST:
                depth -= 1
                if wraps(step.op, stack[depth - 1], stack[depth], step.width < 0):
                    return False
                stack[depth - 1] = combine(step.op, stack[depth - 1], stack[depth], step.width < 0)
            elif (self.steps[i - 1].width < 0) != (step.width < 0) and <int64_t>stack[depth - 1] < 0:
                return False  # the same 64 bits mean another number there
            whole = stack[depth - 1]
            stack[depth - 1] = fit(whole, step.width)
            if stack[depth - 1] != whole:
                return False
        value[0] = stack[0]
        return self.steps[end - 1].width > 0 or <int64_t>value[0] >= 0

    cdef bint size_of(self, uint64_t *count, uint32_t parameter, uint64_t *counts,
                      const uint64_t *scalars) noexcept nogil:
        """The declared size of an out that has one."""
        cdef const Row *row = &self.rows[parameter]
        if row.as_of >= 0:
            count[0] = counts[row.as_of]
            return count[0] <= self.most_elements
        return self.evaluate(count, row.begin, row.end, counts, scalars) and count[0] <= self.most_elements

    cdef bint as_declared(self, uint64_t *counts, uint64_t *scalars, bint with_outs) noexcept nogil:
        """Whether the arguments have their declared extents and sizes. Extents of outs are written, unless these were
        passed too (`with_outs`); then sizes are left to the caller."""
        cdef const Extent *extent
        cdef const Row *row
        cdef uint64_t value
        cdef int32_t i
        for i in range(self.extent_count):
            extent = &self.extents[i]
            if not self.evaluate(&value, extent.begin, extent.end, counts, scalars) or value > self.most_elements:
                return False
            if self.rows[extent.parameter].role == VYC_ROLE_OUT and not with_outs:
                scalars[extent.slot] = value
            elif scalars[extent.slot] != value:
                return False
        if with_outs:
            return True  # a launch has the sizes of all buffers checked alike
        for i in range(<int32_t>self.parameter_count):
            row = &self.rows[i]
            if row.role == VYC_ROLE_OUT or row.begin == row.end:
                continue
            if not self.size_of(&value, i, counts, scalars) or value != counts[i]:
                return False
        return True

    cdef bint grid_of(self, uint32_t *grid, uint64_t *counts, const uint64_t *scalars) noexcept nogil:
        """The blocks that cover the work; all 0 if an axis has none."""
        cdef uint64_t extent, blocks
        cdef uint32_t axis
        cdef bint empty = False, fits = True
        grid[0] = grid[1] = grid[2] = 1
        for axis in range(self.axes):
            if self.work_of[axis] >= 0:
                extent = counts[self.work_of[axis]]
            elif not self.evaluate(&extent, self.work[axis], self.work[axis + 1], counts, scalars):
                return False
            blocks = extent // self.block[axis]
            blocks += blocks * self.block[axis] != extent
            fits &= blocks <= self.plain_blocks[axis]
            empty |= blocks == 0
            grid[axis] = <uint32_t>blocks
        if empty:
            grid[0] = grid[1] = grid[2] = 0
        return empty or fits

    cdef bint given_grid(self, uint32_t *grid, object value):
        """A grid passed by the caller: an int or a tuple of ints."""
        cdef tuple axes = <tuple>value if PyTuple_CheckExact(value) else (value,)
        cdef uint32_t axis
        cdef uint64_t blocks
        if not 1 <= len(axes) <= 3:
            return False
        grid[0] = grid[1] = grid[2] = 1
        for axis in range(<uint32_t>len(axes)):
            if not integer_bits(&blocks, axes[axis], 64) or blocks == 0 or blocks > self.most_blocks[axis]:
                return False
            grid[axis] = <uint32_t>blocks
        return True

    # ---- for the tests -----------------------------------------------------------------------------------------------

    def scalar(self, uint32_t parameter, value) -> int | None:
        """The bits of a scalar, or None if the general path must decide."""
        cdef uint64_t bits = 0
        return bits if bits_of(&bits, value, &self.rows[parameter]) else None

    def sizes_and_grid(self, list counts not None, list scalars not None) -> tuple[object, object]:
        """What follows from the elements of each parameter and the bits of each scalar: sizes and grid, or None."""
        cdef uint32_t grid[3]
        cdef uint32_t i
        cdef uint64_t *c_scalars = <uint64_t *>calloc(len(scalars) + 1, sizeof(uint64_t))
        cdef uint64_t *c_counts = <uint64_t *>calloc(self.parameter_count + self.depth + 1, sizeof(uint64_t))
        try:
            if c_scalars == NULL or c_counts == NULL:
                raise MemoryError
            for i in range(<uint32_t>len(scalars)):
                c_scalars[i] = scalars[i]
            for i in range(self.parameter_count):
                c_counts[i] = counts[i]
                if self.rows[i].begin != self.rows[i].end and not self.size_of(&c_counts[i], i, c_counts, c_scalars):
                    return None, None
            sizes = [c_counts[i] for i in range(self.parameter_count)]
            return sizes, (grid[0], grid[1], grid[2]) if self.grid_of(grid, c_counts, c_scalars) else None
        finally:
            free(c_scalars)
            free(c_counts)


def steps_of(tuple rows, tuple work, tuple extents) -> int:
    return sum(len(row[5]) for row in rows) + sum(len(axis) for axis in work) + sum(len(row[2]) for row in extents)
