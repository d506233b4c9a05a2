# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Many calls with host arrays as one launch: where their arrays are in one piece of device memory, and the copies."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cimport numpy as cnp

from vyre_cuda._native.core.c_kernel cimport VYC_ARGUMENT_BUFFER, vyc_argument
from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.call.frame cimport Frame, give_frame, let_go, take_frame
from vyre_cuda._native.call.many cimport Rows, as_tuple
from vyre_cuda._native.call.prepared cimport Arguments
from vyre_cuda._native.memory.memory cimport Buffer, Span, buffer_of

from vyre_cuda.errors import FREED

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]

cdef enum:
    ALIGN = 128  # bytes: a line of the device's caches


cdef struct Host:
    const void *data   # what is copied to the device; NULL: nothing
    void *result       # where what comes back goes; NULL: nowhere
    uint64_t bytes     # 0 also for device arrays
    uint64_t place     # bytes into the device memory


cdef class Calls(Rows):
    """Rows of host arrays and numbers, each as a call takes them.

    In the device memory of `nbytes` are first the arrays that are only read, then those that are read and written, then
    those that are only written: the first `read_end` bytes are copied there, and those from `written_at` on come back.
    """

    cdef readonly list results
    cdef readonly uint64_t written_at, read_end, nbytes
    cdef Host *_hosts

    def __init__(self, Dispatcher dispatcher not None, tuple rows not None, object grid,
                 tuple element_bytes not None) -> None:
        """`grid`: that of every row, or None for those that follow from the work; `element_bytes`: of each array. What
        is wrong with a row is raised with its number."""
        cdef Frame *frame
        cdef size_t i
        self.results = []
        self.make_room(dispatcher, len(rows), grid, None)
        self._hosts = <Host *>PyMem_Calloc(<size_t>self._rows.count * self._rows.argument_count + 1, sizeof(Host))
        if self._hosts == NULL:
            raise MemoryError
        frame = take_frame(dispatcher, &dispatcher._frames)
        try:
            for i in range(self._rows.count):
                self.read(frame, i, <object>(<PyTupleObject *>rows).ob_item[i], grid)
        finally:
            give_frame(frame, &dispatcher._frames)
        self.note_hosts(element_bytes)
        self.written_at = self.place(0, True, False)
        self.read_end = self.place(self.written_at, True, True)
        self.nbytes = self.place(self.read_end, False, True)

    def __dealloc__(self):
        PyMem_Free(self._hosts)

    cdef int read(self, Frame *frame, size_t at, object row, object grid) except -1:
        cdef Arguments arguments
        cdef tuple args = as_tuple(row)
        cdef object results = None
        if args is not None and self._dispatcher.simple:
            results = self._dispatcher.prepare(frame, (<PyTupleObject *>args).ob_item, len(args), None, grid)
        if results is not None:
            self._kept.append(args)
            self.take_held(frame)
            self.take(at, &frame.run)
        else:
            let_go(frame)
            arguments, results = self._dispatcher._general_call(at, row, grid)
            self._kept.append(arguments)
            self.take(at, &arguments.run)
        self.results.append(results)
        return 0

    cdef int note_hosts(self, tuple element_bytes) except -1:
        cdef uint32_t slot, row
        cdef size_t at
        cdef uint64_t each
        cdef vyc_argument *item
        for slot in range(self._rows.argument_count):
            each = element_bytes[slot]
            for row in range(self._rows.count):
                at = <size_t>row * self._rows.argument_count + slot
                item = &self._items[at]
                if item.kind != VYC_ARGUMENT_BUFFER:
                    self._hosts[at] = Host(item.data, item.result, item.count * each, 0)
        return 0

    cdef uint64_t place(self, uint64_t begin, bint with_data, bint with_result) noexcept:
        """Give those arrays their places from `begin` on; returns where they end. What follows itself from row to row
        is there once."""
        cdef size_t i, across = self._rows.argument_count
        cdef size_t n = <size_t>self._rows.count * across
        cdef Host *host
        for i in range(n):
            host = &self._hosts[i]
            if host.bytes == 0 or (host.data != NULL) != with_data or (host.result != NULL) != with_result:
                continue
            if not with_result and i >= across and is_same(host, &self._hosts[i - across]):
                host.place = self._hosts[i - across].place
                continue
            host.place = begin
            begin = (begin + host.bytes + ALIGN - 1) // ALIGN * ALIGN
        return begin

    def gather(self, cnp.ndarray staging not None) -> None:
        """Copy what the kernel reads to staging, which has `read_end` bytes."""
        cdef uint8_t *to = <uint8_t *>cnp.PyArray_DATA(staging)
        cdef size_t i, n = <size_t>self._rows.count * self._rows.argument_count
        cdef const Host *host
        with nogil:
            for i in range(n):
                host = &self._hosts[i]
                if host.data != NULL and host.bytes != 0:
                    memcpy(to + host.place, host.data, host.bytes)

    def put(self, Span memory not None) -> None:
        """The arrays are in this device memory from now on, which the caller keeps."""
        cdef Buffer buffer = buffer_of(memory)
        cdef size_t i, n = <size_t>self._rows.count * self._rows.argument_count
        cdef vyc_argument *item
        if buffer is None:
            raise ValueError(FREED)
        self._kept.append(buffer)
        for i in range(n):
            item = &self._items[i]
            if item.kind != VYC_ARGUMENT_BUFFER:
                item.kind = VYC_ARGUMENT_BUFFER
                item.buffer = buffer._h
                item.offset = memory.offset + self._hosts[i].place

    def scatter(self, cnp.ndarray staging not None) -> None:
        """Copy from staging, which has what came back, to the results."""
        cdef const uint8_t *source = <const uint8_t *>cnp.PyArray_DATA(staging)
        cdef size_t i, n = <size_t>self._rows.count * self._rows.argument_count
        cdef const Host *host
        with nogil:
            for i in range(n):
                host = &self._hosts[i]
                if host.result != NULL and host.bytes != 0:
                    memcpy(host.result, source + (host.place - self.written_at), host.bytes)


cdef bint is_same(const Host *a, const Host *b) noexcept:
    """Both are read and not written."""
    return a.data == b.data and a.bytes == b.bytes and b.result == NULL
