# cython: language_level=3, freethreading_compatible=True
"""Launches with their arguments bound."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from vyre_cuda._native.core.c_driver cimport vyc_stream
from vyre_cuda._native.core.c_kernel cimport vyc_call_create, vyc_call_run_at, vyc_call_set_run
from vyre_cuda._native.core.c_status cimport VYC_E_INVALID, vyc_status
from vyre_cuda._native.core.context cimport Context, Stream, load, looks_deep
from vyre_cuda._native.call.dispatch cimport Dispatcher
from vyre_cuda._native.call.frame cimport Frame, give_frame, take_frame
from vyre_cuda._native.trace.origin cimport origin_of
from vyre_cuda._native.call.prepared cimport AnyCall, Arguments
from vyre_cuda._native.core.status cimport check

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject *ob_item[1]


cdef class Call(AnyCall):
    """A launch with its arguments bound. Subclasses supply `_rebind`, for arguments that are not plain, and
    `_record_call`.
    """

    cdef Dispatcher _dispatcher
    cdef Context _context
    cdef bint _plain

    def __init__(self, Dispatcher dispatcher not None, Arguments arguments not None, tuple values not None,
                 Stream stream=None, bint plain=True) -> None:
        """With `plain` False, new arguments always go through `_rebind` (the grid is given, not computed)."""
        self._dispatcher = dispatcher
        self._context = dispatcher._prepared.context
        self._on = stream
        self._plain = plain and dispatcher.simple
        self._values = values
        check(vyc_call_create(&self._h, dispatcher._prepared._h, &arguments.run))

    def __call__(self, *args):
        """Launch; with arguments (all parameters in declared order), bind those first, for later launches too.
        TypeError, ValueError or OverflowError if they do not fit; then nothing is launched or bound."""
        cdef vyc_status status
        cdef uint32_t origin
        cdef vyc_stream *stream = NULL if self._on is None else self._on._h
        cdef Context context = self._context
        if load(context._recordings) != 0 and self._record_call(args):
            return
        if args:
            if self._plain and load(context.is_behind) == 0 and launch_plain(self, args, context, stream):
                return
            self._rebind(args)
        origin = origin_of(&self._seen)
        if looks_deep(context, stream):
            with nogil:
                status = vyc_call_run_at(self._h, origin)
        else:
            status = vyc_call_run_at(self._h, origin)
        check(status)

    def set_arguments(self, Arguments arguments not None, tuple values not None) -> None:
        """Bind these for later launches; `values` are the objects they were made from."""
        self.set_values(&arguments.run, values)


cdef bint launch_plain(Call call, tuple args, Context context, vyc_stream *stream) except -1:
    """Launch with these arguments and bind them; False if they are not plain."""
    cdef Dispatcher dispatcher = call._dispatcher
    cdef Frame *frame = take_frame(dispatcher, &dispatcher._launches)
    cdef vyc_status status
    cdef tuple _before
    try:
        if not dispatcher.prepare_launch(frame, (<PyTupleObject *>args).ob_item, len(args), None):
            return False
        looks_deep(context, stream)
        frame.run.stream = stream
        with cython.critical_section(call):
            status = vyc_call_set_run(call._h, &frame.run)
            if status != VYC_E_INVALID:
                _before = call._values  # released when this returns
                call._values = args
        if status == VYC_E_INVALID:
            return False  # an array of a peer, perhaps; else the general path says what is wrong
        check(status)
        return True
    finally:
        give_frame(frame, &dispatcher._launches)
