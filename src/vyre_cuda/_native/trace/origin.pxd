from cpython.object cimport PyObject
from libc.stdint cimport intptr_t, uint32_t

cdef extern from "trace/current.h":
    ctypedef struct Seen "vyre_seen":
        PyObject *code
        uint32_t origin
    const uint32_t UNSEEN "VYRE_UNSEEN"
    bint current "vyre_current"(PyObject **code_out, intptr_t *where_out)
    bint origin_again "vyre_origin_again"(Seen **place, uint32_t *origin_out)
    void keep "vyre_seen_keep"(Seen **place, Seen *seen)


# The origin of the line of the program that makes this call, which is not of this package; 0: it is not known. The
# place is remembered in `place`, which begins as NULL: from the same place again it costs two comparisons.
cdef inline uint32_t origin_of(Seen **place) noexcept:
    cdef uint32_t origin
    return origin if origin_again(place, &origin) else find_origin(place)

cdef uint32_t find_origin(Seen **place) noexcept
