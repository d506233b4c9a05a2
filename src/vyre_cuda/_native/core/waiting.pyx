# cython: language_level=3, freethreading_compatible=True
"""Waiting that Ctrl-C and a timeout can end: short waits without the GIL, checking signals in between."""
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.stdint cimport int64_t

from vyre_cuda._native.core.c_status cimport VYC_NOT_READY, vyc_status
from vyre_cuda._native.core.status cimport check

from vyre_cuda.errors import type_name


cdef double number(object timeout) except? -1:
    try:
        return timeout
    except TypeError:
        raise TypeError(f"timeout= is {type_name(timeout)}; it must be a number of seconds, or None") from None


cdef int64_t nanoseconds(object timeout) except? -2:
    """Seconds as nanoseconds: -1 for None and for more than 95 years, 0 for a negative number, as of a
    limit that is over; ValueError for NaN, TypeError for what is not a number."""
    cdef double seconds
    if timeout is None:
        return -1
    seconds = PyFloat_AS_DOUBLE(timeout) if PyFloat_CheckExact(timeout) else number(timeout)
    if seconds != seconds:
        raise ValueError("timeout= is NaN; it must be a number of seconds, or None")
    if seconds > 3e9:
        return -1
    return <int64_t>(seconds * 1e9) if seconds > 0 else 0


# Adds to a KeyboardInterrupt what runs on; context.pyx, which knows that, supplies it.
cdef object explain_interrupt = None


def explain_interrupts(explain) -> None:
    global explain_interrupt
    explain_interrupt = explain


cdef int check_signals() except -1:
    """Run the handlers of signals that have come."""
    try:
        PyErr_CheckSignals()
    except KeyboardInterrupt as interrupt:
        explain_interrupt(interrupt)
        raise
    return 0


cdef bint wait_in_slices(wait_function wait, void *what, int64_t timeout_ns) except -1:
    """False if the time passed first; negative: no limit. Raises the error of the wait."""
    cdef vyc_status status
    cdef int64_t left = timeout_ns
    cdef int64_t slice_ns
    while True:
        slice_ns = slice_of(left)
        with nogil:
            status = wait(what, slice_ns)
        if status != VYC_NOT_READY:
            check(status)
            return True
        if left >= 0:
            left -= slice_ns
            if left <= 0:
                return False
        check_signals()
