# cython: language_level=3, freethreading_compatible=True
"""DLPack capsules, made and taken apart. Structs as in dlpack.h 1.1 (dmlc/dlpack); which device, stream and dtype
they should have is up to the runtime.

Our capsules hold the device buffer by a reference of the C layer: the deleter needs neither the GIL nor the
device, and may be called by any thread, even after a close.
"""
cimport cython
from cpython.pycapsule cimport (
    PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName,
)
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from vyre_cuda._native.core.c_driver cimport vyc_buffer
from vyre_cuda._native.core.c_memory cimport vyc_buffer_address, vyc_buffer_export, vyc_buffer_release
from vyre_cuda._native.memory.memory cimport Buffer
from vyre_cuda._native.core.status cimport check

cdef struct DLDevice:
    int32_t device_type
    int32_t device_id

cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void *data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

cdef struct DLManagedTensor:
    DLTensor dl_tensor
    void *manager_ctx
    void (*deleter)(DLManagedTensor *self) noexcept nogil

cdef struct DLPackVersion:
    uint32_t major
    uint32_t minor

cdef struct DLManagedTensorVersioned:
    DLPackVersion version
    void *manager_ctx
    void (*deleter)(DLManagedTensorVersioned *self) noexcept nogil
    uint64_t flags
    DLTensor dl_tensor

cdef enum:
    MAJOR = 1
    MINOR = 0  # nothing from a later minor version is used
    FLAG_READ_ONLY = 1
    FLAG_COPIED = 2

cdef const char *NAME = "dltensor"
cdef const char *NAME_VERSIONED = "dltensor_versioned"
cdef const char *USED = "used_dltensor"
cdef const char *USED_VERSIONED = "used_dltensor_versioned"


# ---- export ----------------------------------------------------------------------------------------------------------

# One allocation per capsule: the managed tensor first, then its extents, and then its strides.


cdef void delete_exported(DLManagedTensor *managed) noexcept nogil:
    vyc_buffer_release(<vyc_buffer *>managed.manager_ctx)
    free(managed)


cdef void delete_exported_versioned(DLManagedTensorVersioned *managed) noexcept nogil:
    vyc_buffer_release(<vyc_buffer *>managed.manager_ctx)
    free(managed)


cdef void delete_capsule(object capsule) noexcept:
    """A capsule that nobody consumed still owns its tensor."""
    cdef DLManagedTensor *managed
    cdef DLManagedTensorVersioned *versioned
    if PyCapsule_IsValid(capsule, NAME):
        managed = <DLManagedTensor *>PyCapsule_GetPointer(capsule, NAME)
        with nogil:
            managed.deleter(managed)
    elif PyCapsule_IsValid(capsule, NAME_VERSIONED):
        versioned = <DLManagedTensorVersioned *>PyCapsule_GetPointer(capsule, NAME_VERSIONED)
        with nogil:
            versioned.deleter(versioned)


def export(
    Buffer buffer not None, uint64_t offset, tuple shape not None, tuple dtype not None, tuple device not None,
    bint versioned, bint read_only, bint copied,
) -> object:
    """A capsule of a row-major array from byte `offset`; `dtype` (code, bits), `device` (type, id) as in DLPack."""
    cdef DLManagedTensor *plain = NULL
    cdef DLManagedTensorVersioned *newer = NULL
    cdef DLTensor tensor
    cdef uint64_t address = 0
    cdef size_t room = 2 * len(shape) * sizeof(int64_t)
    check(vyc_buffer_address(buffer._h, &address))
    tensor.data = <void *><size_t>(address + offset)
    tensor.device.device_type, tensor.device.device_id = device
    tensor.ndim = <int32_t>len(shape)
    tensor.dtype.code, tensor.dtype.bits = dtype
    tensor.dtype.lanes = 1
    tensor.byte_offset = 0
    if versioned:
        newer = <DLManagedTensorVersioned *>malloc(sizeof(DLManagedTensorVersioned) + room)
        if newer == NULL:
            raise MemoryError
        lay_out(&tensor, <int64_t *>(newer + 1), shape)
        newer.version.major = MAJOR
        newer.version.minor = MINOR
        newer.flags = (FLAG_READ_ONLY if read_only else 0) | (FLAG_COPIED if copied else 0)
        newer.dl_tensor = tensor
        newer.manager_ctx = buffer._h
        newer.deleter = delete_exported_versioned
        hold(buffer, newer)
        try:
            return PyCapsule_New(newer, NAME_VERSIONED, delete_capsule)
        except BaseException:
            delete_exported_versioned(newer)
            raise
    plain = <DLManagedTensor *>malloc(sizeof(DLManagedTensor) + room)
    if plain == NULL:
        raise MemoryError
    lay_out(&tensor, <int64_t *>(plain + 1), shape)
    plain.dl_tensor = tensor
    plain.manager_ctx = buffer._h
    plain.deleter = delete_exported
    hold(buffer, plain)
    try:
        return PyCapsule_New(plain, NAME, delete_capsule)
    except BaseException:
        delete_exported(plain)
        raise


cdef int hold(Buffer buffer, void *managed) except -1:
    """Give the tensor its reference to the buffer, or free it."""
    try:
        check(vyc_buffer_export(buffer._h))
    except BaseException:
        free(managed)
        raise
    return 0


cdef int lay_out(DLTensor *tensor, int64_t *room, tuple shape) except -1:
    """Extents and the strides of rows that follow each other, in elements."""
    cdef int32_t i
    cdef int64_t stride = 1
    tensor.shape = room
    tensor.strides = room + tensor.ndim
    for i in range(tensor.ndim - 1, -1, -1):
        tensor.shape[i] = shape[i]
        tensor.strides[i] = stride
        stride *= max(tensor.shape[i], 1)
    return 0


# ---- import ----------------------------------------------------------------------------------------------------------


cdef class Imported:
    """A tensor taken out of a capsule: it is deleted with this object.

    `dtype` (code, bits, lanes) and `device` (type, id) as DLPack numbers them; `strides` in elements, None when
    the tensor is row-major.
    """

    cdef DLManagedTensor *_managed
    cdef DLManagedTensorVersioned *_versioned
    cdef readonly uint64_t address
    cdef readonly tuple shape
    cdef readonly object strides
    cdef readonly tuple dtype
    cdef readonly tuple device
    cdef readonly bint read_only

    def __init__(self, object capsule) -> None:
        """Take over the tensor; BufferError if the capsule was consumed before or has a newer major version."""
        with cython.critical_section(capsule):  # one of two threads that consume it gets the tensor
            self._take(capsule)

    cdef int _take(self, object capsule) except -1:
        if PyCapsule_IsValid(capsule, NAME_VERSIONED):
            return self._take_versioned(capsule)
        if not PyCapsule_IsValid(capsule, NAME):
            raise BufferError(
                f"{capsule!r} does not hold a DLPack tensor, or it was consumed already: "
                "export the array again"
            )
        self._managed = <DLManagedTensor *>PyCapsule_GetPointer(capsule, NAME)
        PyCapsule_SetName(capsule, USED)
        return self._read(&self._managed.dl_tensor)

    cdef int _take_versioned(self, object capsule) except -1:
        cdef DLManagedTensorVersioned *managed
        managed = <DLManagedTensorVersioned *>PyCapsule_GetPointer(capsule, NAME_VERSIONED)
        if managed.version.major != MAJOR:
            raise BufferError(
                f"a DLPack tensor of version {managed.version.major}; version {MAJOR} is supported: "
                f"export it with max_version=({MAJOR}, 0)"
            )
        self._versioned = managed
        PyCapsule_SetName(capsule, USED_VERSIONED)
        self.read_only = (managed.flags & FLAG_READ_ONLY) != 0
        self._read(&managed.dl_tensor)
        return 0

    cdef int _read(self, DLTensor *tensor) except -1:
        cdef int32_t i
        self.address = <uint64_t><size_t>tensor.data + tensor.byte_offset
        self.shape = tuple([tensor.shape[i] for i in range(tensor.ndim)])
        if tensor.strides != NULL:
            self.strides = tuple([tensor.strides[i] for i in range(tensor.ndim)])
        self.dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
        self.device = (tensor.device.device_type, tensor.device.device_id)
        return 0

    def __dealloc__(self):
        # The deleter is another library's: it takes the GIL if it needs it.
        if self._managed != NULL and self._managed.deleter != NULL:
            with nogil:
                self._managed.deleter(self._managed)
        if self._versioned != NULL and self._versioned.deleter != NULL:
            with nogil:
                self._versioned.deleter(self._versioned)
