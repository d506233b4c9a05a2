# cython: language_level=3, freethreading_compatible=True
"""The one place where a status becomes an exception."""
from vyre_cuda._native.core.c_status cimport (
    VYC_E_ASSERT, VYC_E_COMMUNICATION, VYC_E_COMPILE, VYC_E_DRIVER, VYC_E_FORMAT, VYC_E_INVALID, VYC_E_LOST,
    VYC_E_MEMORY, VYC_E_TIMEOUT, VYC_E_UNAVAILABLE, VYC_E_UNSUPPORTED, VYC_E_VERSION, VYC_OK, vyc_error,
    vyc_last_error, vyc_status,
)

from vyre_cuda.errors import (
    BundleError,
    BundleVersionError,
    CommunicationError,
    CompileError,
    DeviceLostError,
    DeviceUnavailableError,
    DriverError,
    InternalError,
    KernelTimeoutError,
    ResourceError,
    UnsupportedError,
)


class AssertReport(Exception):
    """A kernel reported a failed check: `report` is linear thread << 20 | site, `tag` that of the prepared kernel.

    `index` is the index that was out of bounds, if the check is of an index.
    """

    def __init__(self, message: str, report: int, tag: int, index: int) -> None:
        super().__init__(message)
        self.report = report
        self.tag = tag
        self.index = index


cdef int check(vyc_status status) except -1 nogil:
    if status == VYC_OK:
        return 0
    with gil:
        raise_last_error()
    return -1


cdef tuple lines(const char *text):
    return tuple(text.decode("utf-8", "replace").splitlines())


cdef object raise_last_error():
    cdef vyc_error error
    error.struct_size = sizeof(vyc_error)
    vyc_last_error(&error)
    message = error.message.decode("utf-8", "replace")
    if error.status == VYC_E_INVALID:
        raise ValueError(message)
    if error.status == VYC_E_UNAVAILABLE:
        raise DeviceUnavailableError(message)
    if error.status == VYC_E_UNSUPPORTED:
        raise UnsupportedError(message, capability=error.operation.decode("ascii", "replace"))
    if error.status == VYC_E_MEMORY:
        raise ResourceError(message)
    if error.status == VYC_E_LOST:
        raise DeviceLostError(message, launches=lines(error.launches))
    if error.status == VYC_E_TIMEOUT:
        raise KernelTimeoutError(message, launches=lines(error.launches))
    if error.status == VYC_E_ASSERT:
        raise AssertReport(message, error.report, error.tag, error.report_index)
    if error.status == VYC_E_COMMUNICATION:
        raise CommunicationError(message)
    if error.status == VYC_E_FORMAT:
        raise BundleError(message)
    if error.status == VYC_E_VERSION:
        raise BundleVersionError(message)
    if error.status == VYC_E_DRIVER or error.status == VYC_E_COMPILE:
        kind = CompileError if error.status == VYC_E_COMPILE else DriverError
        raise kind(
            message,
            op=error.operation.decode("ascii", "replace"),
            status=error.driver_result,
            name=error.driver_name.decode("ascii", "replace"),
        )
    raise InternalError(message)
