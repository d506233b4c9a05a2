# cython: language_level=3, freethreading_compatible=True
"""Tickets of submitted runs."""
from libc.stdint cimport int64_t

from vyre_cuda._native.core.c_driver cimport vyc_event, vyc_ticket
from vyre_cuda._native.core.c_kernel cimport vyc_ticket_release, vyc_ticket_wait
from vyre_cuda._native.core.c_status cimport VYC_NOT_READY, vyc_status
from vyre_cuda._native.core.c_stream cimport vyc_event_query
from vyre_cuda._native.core.context cimport Event
from vyre_cuda._native.core.waiting cimport nanoseconds, wait_in_slices

from vyre_cuda._native.core.context import refuse_pickle


cdef vyc_status wait_once(void *ticket, int64_t timeout_ns) noexcept nogil:
    return vyc_ticket_wait(<vyc_ticket *>ticket, timeout_ns)


cdef bint ticket_wait(vyc_ticket *ticket, int64_t timeout_ns) except -1:
    return wait_in_slices(wait_once, ticket, timeout_ns)


cdef class Ticket:
    """A submitted run."""

    def __reduce_ex__(self, protocol):
        return refuse_pickle(self, protocol)

    def __init__(self) -> None:
        raise TypeError("Ticket is made by PreparedKernel.submit()")

    def __dealloc__(self):
        with nogil:
            vyc_ticket_release(self._h)

    def done(self) -> bool:
        """Whether it has finished, successfully or not; never raises for the run's own failure."""
        cdef vyc_status status
        with nogil:
            status = vyc_ticket_wait(self._h, 0)
        return status != VYC_NOT_READY

    def wait(self, object timeout=None) -> bool:
        """Wait; False if `timeout` seconds passed first. Raises the run's error."""
        return ticket_wait(self._h, nanoseconds(timeout))


def require_timeout(object timeout) -> None:
    """The error of a wait for a timeout that is not a number of seconds, before there is something to wait for."""
    nanoseconds(timeout)


cdef extern from "<sys/prctl.h>":
    int prctl(int option, unsigned long value)
    int PR_SET_TIMERSLACK


def exact_sleeps() -> None:
    """Make sleeps and waits of the calling thread end on time, not up to 50 us later as by default on Linux."""
    prctl(PR_SET_TIMERSLACK, 1)


cdef enum:
    AT_A_TIME = 64  # tickets that are polled between two holds of the GIL


def finished(list tickets not None) -> list[bool]:
    """Whether each ticket or event is done: polls each one once, without the GIL."""
    cdef vyc_ticket *handles[AT_A_TIME]
    cdef vyc_event *events[AT_A_TIME]
    cdef bint done[AT_A_TIME]
    cdef Py_ssize_t i, n, first
    cdef list found = []
    for first in range(0, len(tickets), AT_A_TIME):
        n = min(len(tickets) - first, AT_A_TIME)
        for i in range(n):
            handles[i] = NULL
            if isinstance(tickets[first + i], Ticket):
                handles[i] = (<Ticket>tickets[first + i])._h
            else:
                events[i] = (<Event?>tickets[first + i])._h
        with nogil:
            for i in range(n):
                if handles[i] != NULL:
                    done[i] = vyc_ticket_wait(handles[i], 0) != VYC_NOT_READY
                else:
                    done[i] = vyc_event_query(events[i]) != VYC_NOT_READY
        for i in range(n):
            found.append(bool(done[i]))
    return found
