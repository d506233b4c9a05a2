# cython: language_level=3, freethreading_compatible=True
"""Device buffers and typed spans of them, page-locked memory as NumPy arrays."""
cimport cython
from cpython.long cimport PyLong_AsLongLong, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cimport numpy as cnp

from vyre_cuda._native.c_api cimport (
    VYC_OK, vyc_buffer, vyc_buffer_address, vyc_buffer_alloc, vyc_buffer_release, vyc_buffer_synchronize_for,
    vyc_buffer_try_alloc, vyc_buffer_try_release, vyc_copy, vyc_download, vyc_fill, vyc_fill_zero, vyc_pinned_alloc,
    vyc_pinned_data, vyc_pinned_register, vyc_pinned_release, vyc_status, vyc_transfer, vyc_upload,
)
from vyre_cuda._native.context cimport Context, load
from vyre_cuda._native.status cimport check
from vyre_cuda._native.waiting cimport wait_in_slices

cdef extern from "numpy/arrayobject.h":
    # Takes over the reference to the dtype.
    object PyArray_NewFromDescr(
        PyTypeObject *subtype, PyArray_Descr *dtype, int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides,
        void *data, int flags, PyObject *obj)
    ctypedef struct PyArray_Descr:
        pass

cnp.import_array()


# What a copy or a fill will wait for is waited for beforehand, with an eye on signals.
cdef vyc_status wait_for_host(void *buffer, int64_t timeout_ns) noexcept nogil:
    return vyc_buffer_synchronize_for(<vyc_buffer *>buffer, 1, timeout_ns)


cdef vyc_status wait_for_device(void *buffer, int64_t timeout_ns) noexcept nogil:
    return vyc_buffer_synchronize_for(<vyc_buffer *>buffer, 0, timeout_ns)


# Larger transfers than this go in pieces, which wait for each other.
cdef uint64_t PIECE = 1 << 20
# An array of more elements than this cannot be of any type.
cdef long long COUNT_MAX = 1 << 60
cdef tuple NO_ARGUMENTS = ()


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
        """For what the transfer would wait for, with an eye on signals."""
        cdef Py_ssize_t i
        cdef vyc_buffer *last = NULL
        for i in range(len(self.keep)):
            if self.items[i].bytes == 0 or self.items[i].buffer == last:
                continue
            last = self.items[i].buffer
            wait_in_slices(wait_for_host if download or self.items[i].bytes > PIECE else wait_for_device, last, -1)
        return 0

    def upload(self) -> None:
        """From the arrays; returns once they have been read."""
        cdef uint32_t count = len(self.keep)
        self.wait(False)
        with nogil:
            check(vyc_upload(self.context._h, self.items, count))

    def download(self) -> None:
        """Into the arrays; returns once they have been written."""
        cdef uint32_t count = len(self.keep)
        self.wait(True)
        with nogil:
            check(vyc_download(self.context._h, self.items, count))


# ---- device arrays ---------------------------------------------------------------------------------------------------


cdef Buffer new_buffer(Context context, uint64_t nbytes):
    """Without the driver, and so with the GIL, where a block is at hand."""
    cdef Buffer buffer = Buffer.__new__(Buffer)
    if vyc_buffer_try_alloc(&buffer._h, context._h, nbytes) != VYC_OK:
        with nogil:
            check(vyc_buffer_alloc(&buffer._h, context._h, nbytes))
    return buffer


cdef class Span:
    """`count` elements of a dtype from byte `offset` of a buffer; `buffer` is None once released.

    Any thread may release it at any time; work that was given the buffer before keeps it.
    """

    def __init__(self, object device, Buffer buffer not None, uint64_t offset, uint64_t count,
                 cnp.dtype dtype not None) -> None:
        self.device = device
        self._buffer = buffer
        self.offset = offset
        self.count = count
        self.dtype = dtype
        self.typenum = dtype.type_num

    @property
    def buffer(self) -> Buffer | None:
        return buffer_of(self)

    def release(self) -> None:
        cdef Buffer _last  # goes when this returns, outside of the critical section
        with cython.critical_section(self):
            _last = self._buffer
            self._buffer = None


cdef class Allocator:
    """Makes device arrays. Subclasses supply `_empty` for arguments that are not plain, and its errors, and
    `_record_zeros`.
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
        """`n` elements with unspecified contents."""
        cdef Span span = self.span(n, type)
        return self._empty(n, type) if span is None else span

    def zeros(self, n, type):
        """`n` elements of zero."""
        cdef Span span = self.span(n, type)
        if span is None:
            span = self._empty(n, type)
        if load(self.context._recordings) != 0 and self._record_zeros(span):
            return span
        check(vyc_fill_zero(buffer_of(span)._h, 0, span.count * span.dtype.itemsize))
        return span

    cdef Span span(self, object n, object type):
        """None when the arguments are not plain."""
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

    It goes when the last view of it does. `owner` is the caller's array where its memory was registered, else None.
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


def pinned_empty(Context context not None, cnp.npy_intp count, cnp.dtype dtype not None) -> cnp.ndarray:
    """`count` elements of page-locked memory with unspecified contents."""
    cdef Pinned pinned = Pinned.__new__(Pinned)
    cdef uint64_t nbytes = <uint64_t>count * <uint64_t>dtype.itemsize
    cdef void *data = NULL
    pinned.context = context
    with nogil:
        check(vyc_pinned_alloc(&pinned._h, context._h, nbytes))
    check(vyc_pinned_data(pinned._h, &data))
    return view_of(pinned, dtype, 1, &count, data, cnp.NPY_ARRAY_CARRAY)


cdef object pinned_empty_of(Context context, cnp.npy_intp count, int typenum):
    return pinned_empty(context, count, cnp.PyArray_DescrFromType(typenum))


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
