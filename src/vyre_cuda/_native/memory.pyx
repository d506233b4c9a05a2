# cython: language_level=3, freethreading_compatible=True
"""Device buffers and typed spans of them, page-locked memory as NumPy arrays."""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint64_t

cimport numpy as cnp

from vyre_cuda._native.c_api cimport (
    vyc_buffer, vyc_buffer_address, vyc_buffer_alloc, vyc_buffer_release, vyc_buffer_synchronize_for, vyc_copy,
    vyc_copy_in, vyc_copy_out, vyc_fill_zero, vyc_pinned_alloc, vyc_pinned_data, vyc_pinned_register,
    vyc_pinned_release, vyc_status,
)
from vyre_cuda._native.context cimport Context
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


cdef class Buffer:
    """Untyped device memory; offsets and lengths in bytes."""

    def __init__(self, Context context not None, uint64_t nbytes) -> None:
        with nogil:
            check(vyc_buffer_alloc(&self._h, context._h, nbytes))

    def __dealloc__(self):
        with nogil:
            vyc_buffer_release(self._h)

    @property
    def address(self) -> int:
        cdef uint64_t address = 0
        check(vyc_buffer_address(self._h, &address))
        return address

    def copy_in(self, uint64_t offset, const unsigned char[::1] data) -> None:
        cdef uint64_t n = data.shape[0]
        cdef const unsigned char *source = &data[0] if n else NULL
        wait_in_slices(wait_for_host, self._h, -1)
        with nogil:
            check(vyc_copy_in(self._h, offset, source, n))

    def copy_out(self, uint64_t offset, unsigned char[::1] data) -> None:
        cdef uint64_t n = data.shape[0]
        cdef unsigned char *target = &data[0] if n else NULL
        wait_in_slices(wait_for_host, self._h, -1)
        with nogil:
            check(vyc_copy_out(self._h, offset, target, n))

    def copy_from(self, uint64_t offset, Buffer source not None, uint64_t source_offset, uint64_t nbytes) -> None:
        wait_in_slices(wait_for_device, self._h, -1)
        wait_in_slices(wait_for_device, source._h, -1)
        with nogil:
            check(vyc_copy(self._h, offset, source._h, source_offset, nbytes))

    def fill_zero(self, uint64_t offset, uint64_t nbytes) -> None:
        wait_in_slices(wait_for_device, self._h, -1)
        with nogil:
            check(vyc_fill_zero(self._h, offset, nbytes))


cdef class Span:
    """`count` elements of a NumPy type number from byte `offset` of a buffer; `buffer` is None once released."""

    def __init__(self, Buffer buffer not None, uint64_t offset, uint64_t count, int typenum) -> None:
        self.buffer = buffer
        self.offset = offset
        self.count = count
        self.typenum = typenum

    def release(self) -> None:
        self.buffer = None


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
