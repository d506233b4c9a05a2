# cython: language_level=3, freethreading_compatible=True
"""Device buffers and typed spans of them, page-locked memory as NumPy arrays."""
cimport cython
from cpython.long cimport PyLong_AsLongLong, PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from vyre_cuda._native.core.c_driver cimport vyc_buffer
from vyre_cuda._native.core.c_memory cimport (
    VYC_TRY_BYTES, vyc_buffer_address, vyc_buffer_alloc, vyc_buffer_release, vyc_buffer_synchronize_for,
    vyc_buffer_try_alloc, vyc_buffer_try_release, vyc_copy, vyc_copy_try_in, vyc_copy_try_out, vyc_download,
    vyc_fill, vyc_fill_zero, vyc_pinned_alloc, vyc_pinned_data, vyc_pinned_register, vyc_pinned_release,
    vyc_pinned_try_alloc, vyc_transfer, vyc_upload,
)
from vyre_cuda._native.core.c_status cimport VYC_NOT_READY, VYC_OK, vyc_status
from vyre_cuda._native.core.context cimport Context, load, looks_deep
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.core.waiting cimport HELD_NS, wait_in_slices

from math import prod

from vyre_cuda._native.core.status import AssertReport

cdef extern from "numpy/arrayobject.h":
    # Takes over the reference to the dtype.
    object PyArray_NewFromDescr(
        PyTypeObject *subtype, PyArray_Descr *dtype, int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides,
        void *data, int flags, PyObject *obj)
    ctypedef struct PyArray_Descr:
        pass

cnp.import_array()


# What a copy or a fill depends on is waited for first, checking for signals.
cdef vyc_status wait_for_host(void *buffer, int64_t timeout_ns) noexcept nogil:
    return vyc_buffer_synchronize_for(<vyc_buffer *>buffer, 1, timeout_ns)


cdef vyc_status wait_for_device(void *buffer, int64_t timeout_ns) noexcept nogil:
    return vyc_buffer_synchronize_for(<vyc_buffer *>buffer, 0, timeout_ns)


# Larger transfers than this are split into pieces, which wait for each other.
cdef uint64_t PIECE = 1 << 20
# No type allows an array of more elements than this.
cdef long long COUNT_MAX = 1 << 60
cdef tuple NO_ARGUMENTS = ()

cdef enum:
    MAX_AXES = 32  # as runtime.memory.shapes has it


@cython.freelist(64)
cdef class Buffer:
    """Untyped device memory; offsets and lengths in bytes."""

    def __init__(self, Context context not None, uint64_t nbytes) -> None:
        with nogil:
            check(vyc_buffer_alloc(&self._h, context._h, nbytes))

    def __dealloc__(self):
        if vyc_buffer_try_release(self._h) != VYC_OK:
            with nogil:
                vyc_buffer_release(self._h)

    @property
    def address(self) -> int:
        cdef uint64_t address = 0
        check(vyc_buffer_address(self._h, &address))
        return address

    def copy_from(self, uint64_t offset, Buffer source not None, uint64_t source_offset, uint64_t nbytes) -> None:
        wait_in_slices(wait_for_device, self._h, -1)
        wait_in_slices(wait_for_device, source._h, -1)
        with nogil:
            check(vyc_copy(self._h, offset, source._h, source_offset, nbytes))

    def fill(self, uint64_t offset, uint32_t value, uint32_t element_bytes, uint64_t nbytes) -> None:
        wait_in_slices(wait_for_device, self._h, -1)
        with nogil:
            check(vyc_fill(self._h, offset, value, element_bytes, nbytes))

    def fill_zero(self, uint64_t offset, uint64_t nbytes) -> None:
        wait_in_slices(wait_for_device, self._h, -1)
        with nogil:
            check(vyc_fill_zero(self._h, offset, nbytes))


# ---- transfers -------------------------------------------------------------------------------------------------------


cdef class Transfers:
    """Copies between buffers and C-contiguous arrays; page-locked arrays are used in place."""

    def __init__(self, Context context not None, list items not None) -> None:
        """`items`: (buffer, byte offset, array) each."""
        cdef Py_ssize_t i
        cdef cnp.ndarray array
        cdef Buffer buffer
        cdef Pinned pinned
        self.context = context
        self.keep = items
        self.items = <vyc_transfer *>calloc(len(items) + 1, sizeof(vyc_transfer))
        if self.items == NULL:
            raise MemoryError
        for i in range(len(items)):
            buffer, offset, array = items[i]
            pinned = pinned_of(array)
            self.items[i].buffer = buffer._h
            self.items[i].offset = offset
            self.items[i].bytes = cnp.PyArray_NBYTES(array)
            self.items[i].data = self.items[i].result = cnp.PyArray_DATA(array)
            if pinned is not None and pinned.context is context:
                self.items[i].pinned = pinned._h

    def __dealloc__(self):
        free(self.items)

    cdef int wait(self, bint download) except -1:
        """Wait for what the transfer depends on, checking for signals."""
        cdef Py_ssize_t i
        cdef vyc_buffer *last = NULL
        for i in range(len(self.keep)):
            if self.items[i].bytes == 0 or self.items[i].buffer == last:
                continue
            last = self.items[i].buffer
            wait_in_slices(wait_for_host if download or self.items[i].bytes > PIECE else wait_for_device, last, -1)
        return 0

    def upload(self) -> None:
        """Copy from the arrays; returns once they have been read."""
        cdef uint32_t count = len(self.keep)
        self.wait(False)
        with nogil:
            check(vyc_upload(self.context._h, self.items, count))

    def download(self) -> None:
        """Copy to the arrays; returns once they have been written."""
        cdef uint32_t count = len(self.keep)
        self.wait(True)
        with nogil:
            check(vyc_download(self.context._h, self.items, count))


# ---- device arrays ---------------------------------------------------------------------------------------------------


cdef Buffer new_buffer(Context context, uint64_t nbytes):
    """A new buffer; without the driver, and so with the GIL, if an idle block is available."""
    cdef Buffer buffer = Buffer.__new__(Buffer)
    if vyc_buffer_try_alloc(&buffer._h, context._h, nbytes) != VYC_OK:
        with nogil:
            check(vyc_buffer_alloc(&buffer._h, context._h, nbytes))
    return buffer


cdef class Span:
    """`count` elements of a dtype from byte `offset` of a buffer, row by row; `buffer` is None once released.

    Any thread may release it at any time; work that already has the buffer keeps it. Subclasses supply
    `_copy_from` and `_numpy`, for copies that are not small and plain, and their errors.
    """

    def __init__(self, object device, Buffer buffer not None, uint64_t offset, uint64_t count,
                 cnp.dtype dtype not None, tuple shape=None) -> None:
        """`shape`: extents whose product is `count`, () for one element without axes; None for one axis."""
        self.device = device
        self._buffer = buffer
        self.offset = offset
        self.count = count
        self.dtype = dtype
        self.typenum = dtype.type_num
        self._shape = shape if shape is not None and len(shape) != 1 else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return (self.count,) if self._shape is None else self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 1 if self._shape is None else len(self._shape)

    @property
    def buffer(self) -> Buffer | None:
        return buffer_of(self)

    def release(self) -> None:
        cdef Buffer _last  # released when this returns, outside the critical section
        with cython.critical_section(self):
            _last = self._buffer
            self._buffer = None

    def copy_from(self, data, offset=0):
        """Write data to this array; in a recording at each replay.

        Data of another device is copied in call order of both, from memory to memory where `device.peers` says so, else
        by way of the host.

        Parameters
        ----------
        data
            An array of this array's dtype, a device array of any device among them; in a recording a device array, a
            page-locked array or a symbol.
        offset
            The number of the element at which it begins, in the flat array.

        Raises
        ------
        TypeError
            Not an array, or another dtype.
        ValueError
            Data that reaches beyond the array, or an array that was freed; in a recording also data of another device
            that is not an enabled peer.
        RecordingError
            A symbol outside of a recording; in a recording an array that is not page-locked.
        """
        if not copy_in(self, data, offset):
            self._copy_from(data, offset)

    def numpy(self, out=None):
        """A copy on the host, after all earlier work on this array on any stream.

        Parameters
        ----------
        out
            A C-contiguous array of this dtype and size to copy to, with any shape; a page-locked one is written by the
            device itself if it is large.

        Returns
        -------
        array
            `out`, or a new array of this shape.

        Raises
        ------
        TypeError, ValueError
            `out` has another dtype or size, is not contiguous or is read-only; or this array was freed.
        RecordingError
            The thread is recording a graph of the device.
        Error
            Those of asynchronous launches before.
        """
        if self.count * self.dtype.itemsize <= VYC_TRY_BYTES:
            if out is not None:
                if copy_out(self, out):
                    return out
            else:
                made = new_array(self.dtype, self.count)
                if copy_out(self, made):
                    return made if self._shape is None else made.reshape(self._shape)
        return self._numpy(out)


cdef Context plain_context(Span span, object array):
    """The context of the array if the GIL may be kept while it is copied from or to `array`; else None."""
    cdef Context context
    if not cnp.PyArray_CheckExact(array) or not isinstance(span.device, Allocator):
        return None
    if <object>cnp.PyArray_DESCR(<cnp.ndarray>array) is not span.dtype:
        return None
    if not cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>array) or cnp.PyArray_NBYTES(<cnp.ndarray>array) > VYC_TRY_BYTES:
        return None
    context = (<Allocator>span.device).context
    return None if load(context._recordings) != 0 or looks_deep(context, NULL) else context


cdef bint copy_in(Span span, object data, object offset) except -1:
    """Whether it was a small copy of a plain array and has been made."""
    cdef Context context = plain_context(span, data)
    cdef Buffer buffer = None if context is None else buffer_of(span)
    cdef cnp.ndarray array
    cdef long long first
    cdef int overflow = 0
    cdef vyc_status status
    if buffer is None or not PyLong_CheckExact(offset):
        return False
    array = <cnp.ndarray>data
    first = PyLong_AsLongLongAndOverflow(offset, &overflow)
    if overflow != 0 or first < 0 or <uint64_t>first > span.count:
        return False
    if <uint64_t>cnp.PyArray_SIZE(array) > span.count - <uint64_t>first:
        return False
    status = vyc_copy_try_in(
        buffer._h, span.offset + <uint64_t>first * <uint64_t>cnp.PyArray_ITEMSIZE(array), cnp.PyArray_DATA(array),
        cnp.PyArray_NBYTES(array), HELD_NS)
    if status == VYC_NOT_READY:
        return False
    check(status)
    return True


cdef bint copy_out(Span span, object out) except -1:
    """The same for a copy to the host."""
    cdef Context context = plain_context(span, out)
    cdef Buffer buffer = None if context is None else buffer_of(span)
    cdef cnp.ndarray array
    cdef vyc_status status
    if buffer is None:
        return False
    array = <cnp.ndarray>out
    if <uint64_t>cnp.PyArray_SIZE(array) != span.count or not cnp.PyArray_ISWRITEABLE(array):
        return False
    status = vyc_copy_try_out(buffer._h, span.offset, cnp.PyArray_DATA(array), cnp.PyArray_NBYTES(array), HELD_NS)
    if status == VYC_NOT_READY:
        return False
    try:
        check(status)
    except AssertReport as report:
        raise context.error(report) from None
    return True


cdef object new_array(cnp.dtype dtype, cnp.npy_intp count):
    """`count` elements of host memory with unspecified contents."""
    Py_INCREF(dtype)
    return PyArray_NewFromDescr(
        <PyTypeObject *>cnp.ndarray, <PyArray_Descr *>dtype, 1, &count, NULL, NULL, 0, NULL)


cdef class Allocator:
    """Makes device arrays, and waits for all their work. Subclasses supply `_empty` for arguments that are not plain,
    and its errors, `_record_zeros` and `_refuse_in_recording`.
    """

    def __init__(self, Context context not None, type array not None, tuple rows not None) -> None:
        """`array`: the subclass of Span to make; `rows`: (type, dtype) each."""
        cdef Py_ssize_t i
        if not issubclass(array, Span) or len(rows) > 16:
            raise ValueError("an Allocator makes Spans, of 16 types at most")
        self.context = context
        self._array = array
        self._rows = rows
        self._types = len(rows)
        for i in range(self._types):
            type_, dtype = rows[i]
            self._table[i].type = <PyObject *>type_
            self._table[i].dtype = <PyObject *>dtype
            self._table[i].itemsize = (<cnp.dtype?>dtype).itemsize

    def empty(self, n, type):
        """An array with unspecified contents.

        Parameters
        ----------
        n
            The number of elements, or a tuple with the shape.
        type
            The type of an element.

        Returns
        -------
        DeviceArray
            The device array.

        Raises
        ------
        TypeError, ValueError
            Not a shape, or not a type.
        ResourceError
            The device has no memory left.
        """
        cdef Span span = self.span(n, type)
        return self._empty(n, type) if span is None else span

    def zeros(self, n, type):
        """An array of zeros; in a recording it is cleared at each replay.

        Parameters
        ----------
        n
            The number of elements, or a tuple with the shape.
        type
            The type of an element.

        Returns
        -------
        DeviceArray
            The device array.

        Raises
        ------
        TypeError, ValueError
            Not a shape, or not a type.
        ResourceError
            The device has no memory left.
        """
        cdef Span span = self.span(n, type)
        if span is None:
            span = self._empty(n, type)
        if load(self.context._recordings) != 0 and self._record_zeros(span):
            return span
        check(vyc_fill_zero(buffer_of(span)._h, 0, span.count * span.dtype.itemsize))
        return span

    def synchronize(self, timeout=None):
        """Wait for all work given to this device.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            It has not ended.
        ValueError
            The timeout is NaN.
        RecordingError
            The thread is recording a graph of the device.
        Error
            Those of asynchronous launches.
        """
        if load(self.context._recordings) != 0:
            self._refuse_in_recording("synchronize()")
        try:
            self.context.synchronize(timeout)
        except AssertReport as report:
            raise self.context.error(report) from None

    cdef Span span(self, object n, object type):
        """The new array; None if the arguments are not plain."""
        cdef Py_ssize_t i = 0
        cdef long long count
        cdef Span span
        if not PyLong_CheckExact(n):
            return None
        while self._table[i].type != <PyObject *>type:
            i += 1
            if i == self._types:
                return None
        try:
            count = PyLong_AsLongLong(n)
        except OverflowError:
            return None
        if count < 0 or count > COUNT_MAX:
            return None
        span = <Span>(<PyTypeObject *>self._array).tp_new(self._array, <PyObject *>NO_ARGUMENTS, NULL)
        span._buffer = new_buffer(self.context, <uint64_t>count * self._table[i].itemsize)
        span.device = self
        span.count = <uint64_t>count
        span.dtype = <cnp.dtype>self._table[i].dtype
        span.typenum = span.dtype.type_num
        return span


# ---- page-locked arrays ----------------------------------------------------------------------------------------------


cdef class Pinned:
    """Page-locked memory: the base of the arrays that `pinned_empty` and `register` make.

    It is released with its last view. `owner` is the caller's array if its memory was registered, else None.
    """

    def __init__(self) -> None:
        raise TypeError("Pinned is made by Device.pinned_empty() and Device.register()")

    def __dealloc__(self):
        with nogil:
            vyc_pinned_release(self._h)


cdef Pinned pinned_of(cnp.ndarray array):
    cdef PyObject *base = cnp.PyArray_BASE(array)
    while base != NULL:
        if isinstance(<object>base, Pinned):
            return <Pinned>base
        if not cnp.PyArray_Check(<object>base):
            return None
        base = cnp.PyArray_BASE(<cnp.ndarray>base)
    return None


def find_pinned(cnp.ndarray array not None) -> Pinned | None:
    """The page-locked memory that an array is a view of."""
    return pinned_of(array)


def pinned_empty(Context context not None, tuple shape not None, cnp.dtype dtype not None, *,
                 bint may_fail=False) -> cnp.ndarray:
    """An array of page-locked memory with unspecified contents. `may_fail`: ordinary memory would work as well, so
    nothing is taken from others for it.
    """
    cdef cnp.npy_intp extents[MAX_AXES]
    cdef int axis
    if len(shape) > MAX_AXES:
        raise ValueError(f"a shape of {len(shape)} axes; arrays have at most {MAX_AXES}: join some of them")
    for axis in range(<int>len(shape)):
        extents[axis] = shape[axis]
    return pinned_array(context, prod(shape), <int>len(shape), extents, dtype, may_fail)


cdef object pinned_empty_of(Context context, cnp.npy_intp count, int typenum):
    """For a result: may_fail."""
    return pinned_array(context, count, 1, &count, cnp.PyArray_DescrFromType(typenum), True)


cdef cnp.ndarray pinned_array(Context context, cnp.npy_intp count, int axes, cnp.npy_intp *shape, cnp.dtype dtype,
                              bint may_fail):
    """With no view between it and its memory, as each call looks for the memory."""
    cdef Pinned pinned = Pinned.__new__(Pinned)
    cdef uint64_t nbytes = <uint64_t>count * <uint64_t>dtype.itemsize
    cdef void *data = NULL
    pinned.context = context
    with nogil:
        if may_fail:
            check(vyc_pinned_try_alloc(&pinned._h, context._h, nbytes))
        else:
            check(vyc_pinned_alloc(&pinned._h, context._h, nbytes))
    check(vyc_pinned_data(pinned._h, &data))
    return view_of(pinned, dtype, axes, shape, data, cnp.NPY_ARRAY_CARRAY)


def register(Context context not None, cnp.ndarray array not None) -> cnp.ndarray:
    """A view of a C-contiguous array, whose memory is page-locked as long as a view of that view lives."""
    cdef Pinned pinned = Pinned.__new__(Pinned)
    cdef uint64_t nbytes = cnp.PyArray_NBYTES(array)
    cdef void *data = cnp.PyArray_DATA(array)
    cdef int flags = cnp.NPY_ARRAY_CARRAY if cnp.PyArray_ISWRITEABLE(array) else cnp.NPY_ARRAY_CARRAY_RO
    pinned.context = context
    pinned.owner = array
    with nogil:
        check(vyc_pinned_register(&pinned._h, context._h, data, nbytes))
    return view_of(pinned, array.dtype, cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), data, flags)


cdef cnp.ndarray view_of(Pinned pinned, cnp.dtype dtype, int dimensions, cnp.npy_intp *shape, void *data, int flags):
    Py_INCREF(dtype)
    view = PyArray_NewFromDescr(
        <PyTypeObject *>cnp.ndarray, <PyArray_Descr *>dtype, dimensions, shape, NULL, data, flags, NULL)
    cnp.set_array_base(view, pinned)
    return view
