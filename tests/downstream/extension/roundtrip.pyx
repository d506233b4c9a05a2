# cython: language_level=3, freethreading_compatible=True
"""Bytes through a device and back, without a Python object of vyre_cuda."""
from vyre_cuda.c_api cimport (
    VYC_OK,
    vyc_buffer,
    vyc_buffer_alloc,
    vyc_buffer_release,
    vyc_context,
    vyc_context_open,
    vyc_context_release,
    vyc_copy_in,
    vyc_copy_out,
    vyc_driver,
    vyc_driver_open,
    vyc_driver_release,
    vyc_error,
    vyc_last_error,
    vyc_status,
)


cdef int check(vyc_status status) except -1:
    cdef vyc_error error
    if status == VYC_OK:
        return 0
    error.struct_size = sizeof(error)
    vyc_last_error(&error)
    raise RuntimeError(f"{error.operation.decode()}: {error.message.decode()}")


def roundtrip(str path not None, bytes data not None) -> bytes:
    """`data`, as device 0 of the driver library at `path` gives it back. RuntimeError says what failed."""
    cdef vyc_driver *driver = NULL
    cdef vyc_context *context = NULL
    cdef vyc_buffer *buffer = NULL
    cdef bytearray received = bytearray(len(data))
    cdef char *into = received
    try:
        check(vyc_driver_open(&driver, path.encode()))
        check(vyc_context_open(&context, driver, 0))
        check(vyc_buffer_alloc(&buffer, context, len(data)))
        check(vyc_copy_in(buffer, 0, <const char *>data, len(data)))
        check(vyc_copy_out(buffer, 0, into, len(data)))
    finally:
        vyc_buffer_release(buffer)
        vyc_context_release(context)
        vyc_driver_release(driver)
    return bytes(received)
