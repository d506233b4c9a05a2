# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""The arguments of a call as the C structs of one run, in memory that the kernel keeps for its calls.

Exact C-contiguous arrays, device arrays and numbers are plain: they go into the structs without conversion. Anything
else makes the frame fail without an error, for a path that checks, converts and explains.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cimport numpy as cnp

from vyre_cuda._native.core.c_bundle cimport VYC_ROLE_SCALAR
from vyre_cuda._native.core.c_kernel cimport (
    VYC_ARGUMENT_BUFFER, VYC_ARGUMENT_HOST, VYC_ARGUMENT_PINNED, VYC_ROLE_IN, VYC_ROLE_INOUT, VYC_ROLE_OUT,
    VYC_RUN_GRID_OF_WORK, vyc_argument,
)
from vyre_cuda._native.core.context cimport Context
from vyre_cuda._native.memory.memory cimport Buffer, Pinned, Span, new_reference, pinned_empty_of, pinned_of
from vyre_cuda._native.call.prepared cimport PreparedKernel
from vyre_cuda._native.trace.origin cimport origin_of
from vyre_cuda._native.call.table cimport Row, Table, bits_of

from vyre_cuda.errors import ResourceError

cnp.import_array()

# Bytes from which a new result is made in page-locked memory, where the kernel writes it itself: fresh pages of
# ordinary memory cost more than the copy.
LARGE_RESULT = 1 << 18
cdef uint64_t LARGE = LARGE_RESULT

# With more results than this, ranges are sorted instead of compared one by one.
cdef enum:
    FEW_RESULTS = 8


cdef bint is_plain(object value, const Row *row):
    """An exact ndarray of the parameter's type, C-contiguous, aligned and in native byte order."""
    return (
        cnp.PyArray_CheckExact(value)
        and cnp.PyArray_TYPE(<cnp.ndarray>value) == row.typenum
        and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>value)
    )


cdef bint fill_span(Frame *frame, vyc_argument *item, Span span, const Row *row, bint hold):
    """`hold`: other threads may run before the frame is used."""
    cdef PyObject *buffer
    if span.typenum != row.typenum:
        return False
    if hold:
        buffer = new_reference(span)
        if buffer == NULL:
            return False
        frame.held[frame.held_count] = buffer
        frame.held_count += 1
    elif span._buffer is None:
        return False
    else:
        buffer = <PyObject *>span._buffer
    item.kind = VYC_ARGUMENT_BUFFER
    item.count = span.count
    item.buffer = (<Buffer>buffer)._h
    item.offset = span.offset
    return True


cdef bint meet(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) noexcept:
    return a_bytes != 0 and b_bytes != 0 and <const char *>a < <const char *>b + b_bytes \
        and <const char *>b < <const char *>a + a_bytes


cdef bint range_of(Range *place, const void *data, uint64_t size, uint32_t parameter) noexcept:
    """Whether there are any bytes; `place` is then their range."""
    place.begin = <uint64_t>data
    place.end = place.begin + size
    place.parameter = parameter
    return data != NULL and size != 0


cdef class Framer(Table):
    """Fills frames for one kernel."""

    def __init__(self, PreparedKernel prepared not None, tuple rows not None, tuple work not None, tuple block not None,
                 int index_bits, bint simple, tuple extents=()) -> None:
        """Rows, work and extents as `Table` takes them."""
        Table.__init__(self, rows, work, block, index_bits, simple, extents)
        self._prepared = prepared

    def __dealloc__(self):
        spares_free(&self._frames)
        spares_free(&self._launches)

    cdef Frame *first_frame(self) except NULL:
        cdef uint32_t ranges = self.result_count * <uint32_t>(sizeof(Range) // sizeof(uint64_t))
        return new_frame(self.binding_count, self.scalar_count, self.parameter_count + self.depth + ranges)

    cdef object prepare(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object out, object grid):
        """Fill the frame; returns the results that the run will have, or None if this call is not plain.

        """
        cdef uint32_t i
        cdef Py_ssize_t position = 0
        cdef const Row *row
        frame.staged = 0
        frame.mixed = False
        for i in range(self.parameter_count):
            row = &self.rows[i]
            if row.role == VYC_ROLE_OUT:
                continue
            if position == n:
                return None
            if row.role == VYC_ROLE_SCALAR:
                if not bits_of(&frame.scalars[row.slot], <object>args[position], row):
                    return None
            elif not self.take(frame, i, <object>args[position]):
                return None
            position += 1
        if position != n:
            return None
        if self.shaped and not self.enter_shapes(frame, args):
            return None
        results = self.results_of(frame, out)
        if results is None:
            return None
        if grid is None:
            if not self.grid_of(frame.run.grid, frame.counts, frame.scalars):
                return None
        elif not self.given_grid(frame.run.grid, grid):
            return None
        frame.run.flags = VYC_RUN_GRID_OF_WORK if grid is None else 0
        frame.run.origin = origin_of(&self._seen)
        return results

    cdef bint take(self, Frame *frame, uint32_t parameter, object value) except -1:
        """An input: an array, or for an in a device array."""
        cdef const Row *row = &self.rows[parameter]
        cdef vyc_argument *item = &frame.items[row.slot]
        cdef Pinned pinned = None
        memset(item, 0, sizeof(vyc_argument))
        if is_plain(value, row):
            item.kind = VYC_ARGUMENT_HOST
            item.count = cnp.PyArray_SIZE(<cnp.ndarray>value)
            item.data = cnp.PyArray_DATA(<cnp.ndarray>value)
            if row.role == VYC_ROLE_IN and cnp.PyArray_BASE(<cnp.ndarray>value) != NULL:
                pinned = pinned_of(<cnp.ndarray>value)
            if pinned is not None:
                item.kind = VYC_ARGUMENT_PINNED
                item.pinned = pinned._h
            else:
                frame.staged += item.count * row.itemsize
        elif row.role == VYC_ROLE_IN and isinstance(value, Span) and fill_span(frame, item, <Span>value, row, True):
            frame.mixed = True
        else:
            return False
        frame.counts[parameter] = item.count
        return item.count <= self.most_elements

    cdef bint enter_shapes(self, Frame *frame, PyObject *const *args) except -1:
        """Whether the arguments of a call have the axes, extents and sizes that are declared; notes the extents."""
        cdef uint32_t i
        cdef Py_ssize_t position = 0
        for i in range(self.parameter_count):
            if self.rows[i].role == VYC_ROLE_OUT:
                continue
            if self.rows[i].axes and not enter_extents(
                frame, &self.rows[i], <object>args[position], self.most_elements
            ):
                return False
            position += 1
        return self.as_declared(frame.counts, frame.scalars, False)

    cdef object results_of(self, Frame *frame, object out):
        """Where the results go, allocated or given; None if that is not plain."""
        cdef uint32_t i, given = 0
        cdef Py_ssize_t position = 0
        cdef bint several = self.result_count != 1
        cdef tuple results = None
        cdef object target
        if several and out is not None and not (PyTuple_CheckExact(out) and len(out) == self.result_count):
            return None
        if several:
            results = PyTuple_New(self.result_count)
        for i in range(self.parameter_count):
            if self.rows[i].role != VYC_ROLE_INOUT and self.rows[i].role != VYC_ROLE_OUT:
                continue
            target = out if not several or out is None else (<tuple>out)[position]
            given += target is not None
            target = self.give(frame, i, target)
            if target is None:
                return None
            if not several:
                break
            Py_INCREF(target)  # the tuple's
            PyTuple_SET_ITEM(results, position, target)
            position += 1
        if given and not self.apart(frame, given):
            return None
        return results if several else target

    cdef object give(self, Frame *frame, uint32_t parameter, object target):
        """Memory for one result: `target`, or a new array if that is None. Returns None if it is not plain."""
        cdef const Row *row = &self.rows[parameter]
        cdef vyc_argument *item = &frame.items[row.slot]
        cdef uint64_t count = 0
        cdef bint own = row.role == VYC_ROLE_OUT and row.begin == row.end
        cdef Pinned pinned = None
        if row.role == VYC_ROLE_INOUT:
            count = frame.counts[parameter]
        else:
            memset(item, 0, sizeof(vyc_argument))
            if not own and not self.size_of(&count, parameter, frame.counts, frame.scalars):
                return None
        if target is None:
            if own:
                return None
            target = new_array(self._prepared.context, count, row)
            if row.axes:
                target = target.reshape(tuple([frame.scalars[row.extents + axis] for axis in range(row.axes)]))
        elif row.axes and not (
            enter_extents(frame, row, target, self.most_elements) if own
            else has_extents(frame, row, target, self.most_elements)
        ):
            return None
        elif isinstance(target, Span):
            if row.role != VYC_ROLE_OUT or not fill_span(frame, item, <Span>target, row, True):
                return None
            frame.counts[parameter] = item.count
            frame.mixed = True
            return target if own or item.count == count else None
        elif not is_plain(target, row) or not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>target):
            return None
        item.count = cnp.PyArray_SIZE(<cnp.ndarray>target)
        if not own and item.count != count:
            return None
        item.kind = VYC_ARGUMENT_HOST
        item.result = cnp.PyArray_DATA(<cnp.ndarray>target)
        if cnp.PyArray_BASE(<cnp.ndarray>target) != NULL:
            pinned = pinned_of(<cnp.ndarray>target)
        if pinned is not None:
            item.kind = VYC_ARGUMENT_PINNED
            item.pinned = pinned._h
        else:
            frame.staged += item.count * row.itemsize
        frame.counts[parameter] = item.count
        return target if item.count <= self.most_elements else None

    cdef bint apart(self, Frame *frame, uint32_t given):
        """Whether no given result overlaps another, and none that the kernel itself writes overlaps what it reads."""
        cdef uint32_t i, j
        cdef vyc_argument *a
        cdef vyc_argument *b
        cdef uint64_t a_bytes, b_bytes
        if self.result_count > FEW_RESULTS:
            return self.many_apart(frame)
        for i in range(self.parameter_count):
            if self.rows[i].role == VYC_ROLE_SCALAR:
                continue
            a = &frame.items[self.rows[i].slot]
            a_bytes = a.count * self.rows[i].itemsize
            if a.result == NULL or (given == 1 and a.kind != VYC_ARGUMENT_PINNED):
                continue
            for j in range(self.parameter_count):
                if j == i or self.rows[j].role == VYC_ROLE_SCALAR:
                    continue
                b = &frame.items[self.rows[j].slot]
                b_bytes = b.count * self.rows[j].itemsize
                if b.result != NULL and meet(a.result, a_bytes, b.result, b_bytes):
                    return False
                if a.kind == VYC_ARGUMENT_PINNED and b.data != NULL and meet(a.result, a_bytes, b.data, b_bytes):
                    return False
        return True

    cdef bint many_apart(self, Frame *frame):
        """The same with sorted ranges: the time per argument hardly depends on how many there are."""
        cdef uint32_t i, count = 0, pinned = 0
        cdef Range own
        cdef Range *results = <Range *>(frame.counts + self.parameter_count + self.depth)
        cdef vyc_argument *item
        for i in range(self.parameter_count):
            if self.rows[i].role == VYC_ROLE_INOUT or self.rows[i].role == VYC_ROLE_OUT:
                item = &frame.items[self.rows[i].slot]
                count += range_of(&results[count], item.result, item.count * self.rows[i].itemsize, i)
        ranges_sort(results, count)
        if not ranges_apart(results, count):
            return False
        for i in range(count):
            if frame.items[self.rows[results[i].parameter].slot].kind == VYC_ARGUMENT_PINNED:
                results[pinned] = results[i]
                pinned += 1
        if pinned == 0:
            return True
        for i in range(self.parameter_count):
            if self.rows[i].role == VYC_ROLE_IN or self.rows[i].role == VYC_ROLE_INOUT:
                item = &frame.items[self.rows[i].slot]
                if range_of(&own, item.data, item.count * self.rows[i].itemsize, i) \
                        and ranges_meet(results, pinned, own):
                    return False
        return True

    cdef bint prepare_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1:
        """All parameters in declared order; False when this launch is not a plain one. The stream is the caller's.

        With a GIL nothing is held, and the frame must be used before any other thread may run.
        """
        if not self.fill_launch(frame, args, n, grid):
            return False
        frame.run.flags = VYC_RUN_GRID_OF_WORK if grid is None else 0
        frame.run.origin = origin_of(&self._seen)
        return True

    cdef bint fill_launch(self, Frame *frame, PyObject *const *args, Py_ssize_t n, object grid) except -1:
        """The arguments and the grid of `prepare_launch`."""
        cdef uint32_t i
        cdef const Row *row
        cdef PyObject *value  # borrowed from the caller's arguments
        cdef vyc_argument *item
        cdef vyc_argument *items = frame.items
        cdef uint64_t *counts = frame.counts
        cdef uint64_t declared
        if not self.simple or n != <Py_ssize_t>self.parameter_count:
            return False
        for i in range(self.parameter_count):
            row = &self.rows[i]
            value = args[i]
            if row.role == VYC_ROLE_SCALAR:
                if not bits_of(&frame.scalars[row.slot], <object>value, row):
                    return False
                continue
            item = &items[row.slot]
            if not isinstance(<object>value, Span) or not fill_span(frame, item, <Span>value, row, FREE_THREADED):
                return False
            if item.count > self.most_elements:
                return False
            counts[i] = item.count
        if self.shaped:
            for i in range(self.parameter_count):
                if self.rows[i].axes and not enter_extents(frame, &self.rows[i], <object>args[i], self.most_elements):
                    return False
            if not self.as_declared(counts, frame.scalars, True):
                return False
        for i in range(self.parameter_count):
            row = &self.rows[i]
            if row.begin == row.end or (row.as_of >= 0 and counts[row.as_of] == counts[i]):
                continue
            if not self.size_of(&declared, i, counts, frame.scalars) or declared != counts[i]:
                return False
        if grid is None:
            if not self.grid_of(frame.run.grid, counts, frame.scalars):
                return False
        elif not self.given_grid(frame.run.grid, grid):
            return False
        return True


cdef bint enter_extents(Frame *frame, const Row *row, object array, uint64_t most) except -1:
    """Whether an array or device array has as many axes, of `most` each at most, which one without elements can exceed;
    their extents are then among the scalars."""
    cdef uint64_t *extents = &frame.scalars[row.extents]
    cdef int32_t axis
    cdef tuple shape
    if isinstance(array, Span):
        shape = (<Span>array)._shape
        if shape is None or len(shape) != row.axes:
            return False
        for axis in range(row.axes):
            extents[axis] = shape[axis]
            if extents[axis] > most:
                return False
        return True
    if not cnp.PyArray_Check(array) or cnp.PyArray_NDIM(<cnp.ndarray>array) != row.axes:
        return False
    for axis in range(row.axes):
        extents[axis] = cnp.PyArray_DIMS(<cnp.ndarray>array)[axis]
        if extents[axis] > most:
            return False
    return True


cdef bint has_extents(Frame *frame, const Row *row, object array, uint64_t most) except -1:
    """Whether an array for a result has the extents that are among the scalars."""
    cdef uint64_t[4] wanted
    cdef uint64_t *extents = &frame.scalars[row.extents]
    memcpy(wanted, extents, row.axes * sizeof(uint64_t))
    return enter_extents(frame, row, array, most) and memcmp(wanted, extents, row.axes * sizeof(uint64_t)) == 0


cdef object new_array(Context context, uint64_t count, const Row *row):
    cdef cnp.npy_intp shape = count
    if count * row.itemsize >= LARGE:
        try:
            return pinned_empty_of(context, shape, row.typenum)
        except ResourceError:
            pass  # ordinary memory works as well
    return cnp.PyArray_EMPTY(1, &shape, row.typenum, 0)
