# cython: language_level=3, freethreading_compatible=True
"""Streams and memory of other libraries: adopted, never owned."""
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from vyre_cuda.errors import type_name
from vyre_cuda._native.core.c_context cimport vyc_context_stream
from vyre_cuda._native.core.c_driver cimport vyc_stream
from vyre_cuda._native.core.c_memory cimport (
    VYC_FOREIGN_READ_ONLY, vyc_buffer_adopt, vyc_buffer_adopt_peer, vyc_buffer_is_read_only, vyc_buffer_order,
    vyc_foreign_memory,
)
from vyre_cuda._native.core.c_stream cimport vyc_stream_adopt
from vyre_cuda._native.core.context cimport Context, Event, Stream
from vyre_cuda._native.memory.memory cimport Buffer
from vyre_cuda._native.core.status cimport check

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

# Adopted streams that a context keeps by handle; beyond that all are forgotten. Each has one of 62 numbers.
cdef enum:
    STREAMS_KEPT = 32

LEGACY_STREAM = 1


cdef Stream adopt_stream(Context context, object handle):
    cdef Stream stream = Stream.__new__(Stream)
    cdef uint64_t number
    if handle < 0 or handle > 0xFFFFFFFFFFFFFFFF:
        raise ValueError(f"stream={handle!r}: a CUstream handle is an unsigned 64-bit number")
    number = handle
    with nogil:
        check(vyc_stream_adopt(&stream._h, context._h, number))
    if len(context.adopted) >= STREAMS_KEPT:
        context.adopted.clear()
    context.adopted[handle] = stream
    return stream


cdef object handle_of(object value):
    """The handle that another library's stream reports by `__cuda_stream__`."""
    protocol = getattr(value, "__cuda_stream__", None)
    if protocol is None or isinstance(value, type):
        raise TypeError(
            f"stream= is {type_name(value)}; it needs a Stream, an object with __cuda_stream__, or an int handle"
        )
    answer = protocol()
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(
            f"__cuda_stream__ of {type_name(value)} returned {answer!r}, not (version, handle): "
            "give the handle itself, an int"
        )
    version, handle = answer
    if version != 0:
        raise ValueError(
            f"__cuda_stream__ of {type_name(value)} has version {version}; version 0 is supported: "
            "give the handle itself, an int"
        )
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError(
            f"__cuda_stream__ of {type_name(value)} returned {type_name(handle)} as its handle, not an int: "
            "give the handle itself"
        )
    return int(handle)


cdef Stream stream_of(Context context, object value):
    if value is None:
        return None
    if isinstance(value, Stream):
        return <Stream>value
    if not PyLong_CheckExact(value):
        value = handle_of(value)
    known = context.adopted.get(value)
    return adopt_stream(context, value) if known is None else <Stream>known


def named_stream(Context context not None, value: object) -> Stream | None:
    """The stream that a stream= argument names: a Stream, an object with `__cuda_stream__`, or an int handle."""
    return stream_of(context, value)


def event_on(Context context not None, Stream stream not None) -> Event:
    """An event after all work enqueued on the stream so far; an adopted stream does not know its context."""
    cdef Event event = stream.record()
    event._context = context
    return event


def order_stream(Context context not None) -> int:
    """The handle of the stream of call order."""
    cdef uint64_t handle = 0
    check(vyc_context_stream(context._h, &handle))
    return handle


cdef void drop_owner(void *owner) noexcept nogil:
    # At process exit the interpreter, and with it what the owner would free, may be gone.
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>owner)


def adopt_memory(
    Context context not None, uint64_t address, uint64_t nbytes, Stream source, bint read_only, owner: object
) -> Buffer:
    """Memory of `owner`, which stays alive as long as anything uses it, ordered with the stream `source`."""
    cdef Buffer buffer = Buffer.__new__(Buffer)
    cdef vyc_foreign_memory memory
    memset(&memory, 0, sizeof(memory))
    memory.struct_size = sizeof(memory)
    memory.flags = VYC_FOREIGN_READ_ONLY if read_only else 0
    memory.address = address
    memory.nbytes = nbytes
    memory.source = NULL if source is None else source._h
    memory.drop = drop_owner
    memory.owner = <void *>owner
    Py_INCREF(owner)
    try:
        check(vyc_buffer_adopt(&buffer._h, context._h, &memory))
    except BaseException:
        Py_DECREF(owner)
        raise
    return buffer


def adopt_peer(Context context not None, Buffer of not None) -> Buffer:
    """Memory of another context of the driver, which stays alive, as memory of this one."""
    cdef Buffer buffer = Buffer.__new__(Buffer)
    check(vyc_buffer_adopt_peer(&buffer._h, context._h, of._h))
    return buffer


def is_read_only(Buffer buffer not None) -> bool:
    cdef uint32_t read_only = 0
    check(vyc_buffer_is_read_only(buffer._h, &read_only))
    return bool(read_only)


def order_after(Buffer buffer not None, Stream stream) -> None:
    """Make work that the stream (None: call order) is given from now on wait for all work on the buffer."""
    cdef vyc_stream *handle = NULL if stream is None else stream._h
    with nogil:
        check(vyc_buffer_order(buffer._h, handle))
