# cython: language_level=3, freethreading_compatible=True
"""Finds the source line of a launch, for messages about later faults.

A line becomes a number of the C layer (an origin) when it launches for the first time. After that its code object and
instruction are looked up in a table, and the number goes with the launch. A place is forgotten with its code object,
so that a line is never mistaken for another.
"""
import os
import weakref

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport intptr_t, uint32_t

import vyre_cuda
from vyre_cuda._native.core.c_status cimport VYC_OK
from vyre_cuda._native.core.c_telemetry cimport vyc_origin_add
from vyre_cuda._native.trace.origin cimport UNSEEN, Seen, current, keep

cdef extern from "Python.h":
    ctypedef struct PyThreadState
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject
    PyThreadState *PyThreadState_Get()
    PyFrameObject *PyThreadState_GetFrame(PyThreadState *state)
    PyFrameObject *PyFrame_GetBack(PyFrameObject *frame)
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    int PyFrame_GetLineNumber(PyFrameObject *frame)

cdef extern from "trace/current.h":
    intptr_t where_of "vyre_where_of"(PyFrameObject *frame, PyCodeObject *code)

cdef extern from "trace/seen.h":
    int seen_start "vyre_seen_start"()
    Seen *seen_find "vyre_seen_find"(PyObject *code, intptr_t where, bint *watched_out)
    Seen *seen_add "vyre_seen_add"(PyObject *code, intptr_t where, uint32_t origin)
    bint seen_is_full "vyre_seen_is_full"()
    void seen_forget "vyre_seen_forget"(const void *code)
    uint32_t seen_count "vyre_seen_count"()

if seen_start() != 0:
    raise MemoryError

# The directory whose frames are skipped, with the separator.
cdef str PACKAGE = os.path.dirname(os.path.abspath(vyre_cuda.__file__)) + os.sep
# Bytes of an origin's text that are kept, from its end: a path may be long.
cdef Py_ssize_t LONGEST = 200

# Origins by their texts.
cdef dict origins = {}
# The weak references to code objects in the table, which must live to be called.
cdef dict watchers = {}


cdef class Forget:
    """Called when a code object is about to be freed."""

    cdef const void *code

    def __call__(self, reference):
        seen_forget(self.code)
        watchers.pop(id(reference), None)


cdef uint32_t number_of(str text) except? 0:
    cdef uint32_t origin = 0
    known = origins.get(text)
    if known is not None:
        return known
    cdef bytes encoded = text.encode("utf-8", "replace")
    if vyc_origin_add(&origin, encoded) == VYC_OK:
        origins[text] = origin
    return origin


cdef Seen *remember(object code, intptr_t where, int line, bint watched) except? NULL:
    """A new place in the table; NULL without an error if it is full."""
    cdef uint32_t origin = UNSEEN
    cdef Forget forget
    cdef str path = code.co_filename
    if not path.startswith(PACKAGE):
        text = f"{path}:{line}"
        origin = number_of(text if len(text) <= LONGEST else f"...{text[-LONGEST:]}")
    if not watched:
        forget = Forget.__new__(Forget)
        forget.code = <void *>code
        reference = weakref.ref(code, forget)
        watchers[id(reference)] = reference
    return seen_add(<PyObject *>code, where, origin)


cdef Seen *place_of(PyFrameObject *frame) except? NULL:
    """The place of a frame; NULL without an error if it is not known and the table is full."""
    cdef bint watched = False
    cdef PyCodeObject *code = PyFrame_GetCode(frame)
    cdef intptr_t where = where_of(frame, code)
    cdef Seen *seen = seen_find(<PyObject *>code, where, &watched)
    try:
        if seen == NULL:
            seen = remember(<object>code, where, PyFrame_GetLineNumber(frame), watched)
    finally:
        Py_DECREF(<object>code)
    return seen


cdef uint32_t origin_of_frame(Seen **place, PyFrameObject *frame) except? 0:
    """The origin of the first frame from this one on that is outside this package. Takes over the frame."""
    cdef PyFrameObject *back
    cdef Seen *seen
    while frame != NULL:
        try:
            seen = place_of(frame)
            if seen == NULL:
                return 0
            if seen.origin != UNSEEN:
                keep(place, seen)
                return seen.origin
            back = PyFrame_GetBack(frame)
        finally:
            Py_DECREF(<object>frame)
        frame = back
    return 0


cdef uint32_t find_origin(Seen **place) noexcept:
    cdef PyObject *code = NULL
    cdef intptr_t where = 0
    cdef bint watched = False
    cdef Seen *seen
    if not current(&code, &where):
        return 0
    seen = seen_find(code, where, &watched)
    if seen != NULL and seen.origin != UNSEEN:
        keep(place, seen)
        return seen.origin
    if seen == NULL and seen_is_full():
        return 0
    try:
        return origin_of_frame(place, PyThreadState_GetFrame(PyThreadState_Get()))
    except MemoryError:
        return 0


def places() -> int:
    """The number of known places in live code."""
    return seen_count()
