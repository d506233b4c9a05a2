# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""PreparedKernel kernels, the arguments of a run as the C layer takes them, and what keeps them bound."""
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cimport numpy as cnp

from vyre_cuda._native.core.c_driver cimport vyc_ticket
from vyre_cuda._native.core.c_kernel cimport (
    VYC_ARGUMENT_BUFFER, VYC_ARGUMENT_HOST, VYC_ARGUMENT_PINNED, VYC_PREPARED_COOPERATIVE, VYC_PREPARED_MAY_OVERLAP,
    VYC_PREPARED_PRINTS, VYC_RUN_GRID_OF_WORK, vyc_argument, vyc_binding, vyc_call_release, vyc_call_set,
    vyc_function_info, vyc_known, vyc_label, vyc_parameter, vyc_prepared_add_several, vyc_prepared_check,
    vyc_prepared_create, vyc_prepared_desc, vyc_prepared_function, vyc_prepared_launch, vyc_prepared_release,
    vyc_prepared_run, vyc_prepared_submit, vyc_run, vyc_ticket_release, vyc_ticket_timing, vyc_timing,
)
from vyre_cuda._native.core.c_status cimport VYC_E_TIMEOUT, VYC_OK, vyc_status
from vyre_cuda._native.core.context cimport Stream
from vyre_cuda._native.memory.memory cimport Buffer, Pinned, Span, buffer_of, pinned_of
from vyre_cuda._native.core.module cimport Module
from vyre_cuda._native.trace.origin cimport origin_of
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.call.ticket cimport Ticket, ticket_wait
from vyre_cuda._native.core.waiting cimport SLICE_NS, check_signals, slice_of

from vyre_cuda.errors import FREED, KernelTimeoutError

cnp.import_array()


cdef class PreparedKernel:
    """A function of a module with its block, parameter layout and bindings."""

    def __init__(
        self,
        Module module not None,
        str entry not None,
        tuple block not None,
        uint32_t dynamic_shared_bytes,
        uint32_t parameter_bytes,
        list parameters not None,
        list bindings not None,
        uint32_t scalar_count,
        uint64_t tag,
        bint cooperative,
        bint may_overlap=False,
        bint prints=False,
        str label=None,
        list labels=None,
        tuple known=(),
    ) -> None:
        """`parameters`: (kind, index, offset, size) each; `bindings`: (role, flags, element_bytes, sectors) each.

        `label` is the kernel's name in messages, by default `entry`; `labels` are those of its arguments, the
        bindings and then the scalars, as (name in UTF-8, code of the type or 0) each. `known`: (kind, index, code of
        the type, value, name in UTF-8) of what the code was compiled for.
        """
        cdef vyc_prepared_desc desc
        self.context = module.context
        cdef bytes name = entry.encode("ascii")
        cdef Py_ssize_t i
        memset(&desc, 0, sizeof(desc))
        desc.struct_size = sizeof(desc)
        desc.entry = name
        cdef bytes called = b"" if label is None else label.encode("utf-8", "replace")
        if label is not None:
            desc.name = called
        desc.block = [block[0], block[1], block[2]]
        desc.dynamic_shared_bytes = dynamic_shared_bytes
        desc.parameter_bytes = parameter_bytes
        desc.parameter_count = len(parameters)
        desc.binding_count = len(bindings)
        desc.scalar_count = scalar_count
        desc.tag = tag
        desc.flags = VYC_PREPARED_COOPERATIVE if cooperative else 0
        desc.flags |= VYC_PREPARED_MAY_OVERLAP if may_overlap else 0
        desc.flags |= VYC_PREPARED_PRINTS if prints else 0
        cdef vyc_parameter *c_parameters = <vyc_parameter *>calloc(len(parameters) + 1, sizeof(vyc_parameter))
        cdef vyc_binding *c_bindings = <vyc_binding *>calloc(len(bindings) + 1, sizeof(vyc_binding))
        cdef Py_ssize_t label_count = 0 if labels is None else len(labels)
        cdef vyc_label *c_labels = <vyc_label *>calloc(label_count + 1, sizeof(vyc_label))
        cdef vyc_known *c_known = <vyc_known *>calloc(len(known) + 1, sizeof(vyc_known))
        try:
            if c_parameters == NULL or c_bindings == NULL or c_labels == NULL or c_known == NULL:
                raise MemoryError
            for i in range(len(parameters)):
                kind, index, offset, size = parameters[i]
                c_parameters[i].kind = kind
                c_parameters[i].index = index
                c_parameters[i].offset = offset
                c_parameters[i].size = size
            for i in range(len(bindings)):
                role, flags, element_bytes, sectors = bindings[i]
                c_bindings[i].role = role
                c_bindings[i].flags = flags
                c_bindings[i].element_bytes = element_bytes
                c_bindings[i].sectors = sectors
            for i in range(label_count):
                c_labels[i].name = <bytes>labels[i][0]
                c_labels[i].type = labels[i][1]
            for i in range(len(known)):
                kind, index, type_, value, what = known[i]
                c_known[i].kind = kind
                c_known[i].index = index
                c_known[i].type = type_
                c_known[i].value = value
                c_known[i].name = <bytes>what
            desc.known = c_known
            desc.known_count = len(known)
            if labels is not None:
                if label_count != len(bindings) + scalar_count:
                    raise ValueError("each argument needs one label")
                desc.labels = c_labels
            desc.parameters = c_parameters
            desc.bindings = c_bindings
            with nogil:
                check(vyc_prepared_create(&self._h, module._h, &desc))
        finally:
            free(c_parameters)
            free(c_bindings)
            free(c_labels)
            free(c_known)
        self.binding_count = desc.binding_count
        self.scalar_count = scalar_count

    def __dealloc__(self):
        with nogil:
            vyc_prepared_release(self._h)

    def add_several(self, Module module not None, str entry not None, uint32_t elements, uint64_t threads) -> None:
        """Give it an entry with so many elements a thread, for launches of so many threads and more."""
        cdef bytes name = entry.encode("ascii")
        cdef const char *c_name = name
        if self._has_several:
            return  # an exception of a signal handler came after it
        with nogil:
            check(vyc_prepared_add_several(self._h, module._h, c_name, elements, threads))
        self._has_several = True

    def function_info(self) -> dict[str, int]:
        cdef vyc_function_info info
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        with nogil:
            check(vyc_prepared_function(self._h, &info))
        values = dict(info)
        del values["struct_size"]
        return values

    def run(self, Arguments arguments not None, *, int64_t timeout_ns=-1) -> None:
        """Run with host or mixed arguments and wait."""
        arguments.run.origin = origin_of(&self._seen)
        run_and_wait(self, &arguments.run, timeout_ns)

    def timed(self, Arguments arguments not None) -> dict[str, int]:
        """Run and wait; returns nanoseconds by name."""
        cdef vyc_timing timing
        memset(&timing, 0, sizeof(timing))
        timing.struct_size = sizeof(timing)
        arguments.run.origin = origin_of(&self._seen)
        arguments.run.timing_out = &timing
        try:
            run_and_wait(self, &arguments.run, -1)
        finally:
            arguments.run.timing_out = NULL
        values = dict(timing)
        del values["struct_size"]
        return values

    def submit(self, Arguments arguments not None) -> Ticket:
        """Run without waiting; the ticket holds the arrays until it is finished or dropped."""
        cdef Ticket ticket = Ticket.__new__(Ticket)
        arguments.run.origin = origin_of(&self._seen)
        submit_run(self, &ticket._h, &arguments.run)
        ticket._keep = arguments
        return ticket

    def launch(self, Arguments arguments not None) -> None:
        """Launch on buffers without waiting, except for room in the queue."""
        arguments.run.origin = origin_of(&self._seen)
        with nogil:
            check(vyc_prepared_launch(self._h, &arguments.run))

    def try_out(self, Arguments arguments not None) -> None:
        """Raise what a launch would."""
        check(vyc_prepared_check(self._h, &arguments.run))


cdef int run_and_wait(PreparedKernel prepared, vyc_run *run, int64_t timeout_ns) except -1:
    cdef vyc_ticket *ticket = NULL
    cdef vyc_status status
    run.timeout_ns = slice_of(timeout_ns)
    with nogil:
        status = vyc_prepared_run(prepared._h, &ticket, run)
    if status == VYC_OK:
        return 0
    return finish_run(prepared, status, ticket, run, timeout_ns)


cdef int finish_run(PreparedKernel prepared, vyc_status status, vyc_ticket *ticket, vyc_run *run,
                    int64_t left_ns=-1) except -1:
    """The rest of a run after vyc_prepared_run returned status and ticket; `left_ns` includes its time."""
    try:
        while ticket == NULL and status != VYC_OK:
            left_ns = less(left_ns, run.timeout_ns)
            if status != VYC_E_TIMEOUT or left_ns == 0:
                check(status)
            check_signals()  # too many runs are in flight; this one has not begun
            run.timeout_ns = slice_of(left_ns)
            with nogil:
                status = vyc_prepared_run(prepared._h, &ticket, run)
        if ticket == NULL:
            return 0
        check_signals()
        if not ticket_wait(ticket, less(left_ns, run.timeout_ns)):
            raise KernelTimeoutError(
                "the kernel has not finished in the time allowed: "
                "allow more with timeout=, or submit it and wait again", launches=prepared.context.in_flight())
        if run.timing_out != NULL:
            check(vyc_ticket_timing(ticket, run.timing_out))
    finally:
        with nogil:
            vyc_ticket_release(ticket)
    return 0


cdef int64_t less(int64_t left_ns, int64_t waited_ns) noexcept:
    return left_ns if left_ns < 0 else max(left_ns - waited_ns, 0)


cdef int submit_run(PreparedKernel prepared, vyc_ticket **ticket_out, vyc_run *run) except -1:
    """Submit, checking for signals while too many runs are in flight."""
    cdef vyc_status status
    run.timeout_ns = SLICE_NS
    while True:
        with nogil:
            status = vyc_prepared_submit(prepared._h, ticket_out, run)
        if status != VYC_E_TIMEOUT:
            return check(status)
        check_signals()


cdef class Arguments:
    """The C structs of one run, filled once, for the general path."""

    def __init__(self, list bindings not None, list scalars not None, tuple grid not None,
                 Stream stream=None, uint32_t iterations=1, bint of_work=False) -> None:
        """`bindings`: Span, or (count, input array or None, result array or None) with bytes arrays of that binding.

        `of_work`: the grid is not the caller's.
        """
        cdef Py_ssize_t i
        cdef cnp.ndarray array
        cdef Span span
        cdef Pinned pinned
        memset(&self.run, 0, sizeof(self.run))
        self.items = <vyc_argument *>calloc(len(bindings) + 1, sizeof(vyc_argument))
        self.scalars = <uint64_t *>calloc(len(scalars) + 1, sizeof(uint64_t))
        if self.items == NULL or self.scalars == NULL:
            raise MemoryError
        self.keep = [bindings, stream]
        for i in range(len(bindings)):
            entry = bindings[i]
            if isinstance(entry, Span):
                span = entry
                self.keep.append(fill_span(&self.items[i], span))
                continue
            count, data, result = entry
            self.items[i].kind = VYC_ARGUMENT_HOST
            self.items[i].count = count
            if data is not None:
                array = data
                self.items[i].data = cnp.PyArray_DATA(array)
            if result is not None:
                array = result
                self.items[i].result = cnp.PyArray_DATA(array)
            pinned = pinned_of(array)  # memory that the kernel may write, or only reads
            if pinned is not None and cnp.PyArray_ISALIGNED(array):
                self.items[i].kind = VYC_ARGUMENT_PINNED
                self.items[i].pinned = pinned._h
        for i in range(len(scalars)):
            self.scalars[i] = scalars[i]
        self.run.struct_size = sizeof(vyc_run)
        self.run.grid = [grid[0], grid[1], grid[2]]
        self.run.argument_count = len(bindings)
        self.run.scalar_count = len(scalars)
        self.run.arguments = self.items
        self.run.scalars = self.scalars
        self.run.timeout_ns = -1
        self.run.iterations = iterations
        self.run.flags = VYC_RUN_GRID_OF_WORK if of_work else 0
        if stream is not None:
            self.run.stream = stream._h

    def __dealloc__(self):
        free(self.items)
        free(self.scalars)


cdef Arguments copy_run(const vyc_run *run):
    cdef Arguments arguments = Arguments.__new__(Arguments)
    arguments.items = <vyc_argument *>malloc(run.argument_count * sizeof(vyc_argument) + 1)
    arguments.scalars = <uint64_t *>malloc(run.scalar_count * sizeof(uint64_t) + 1)
    if arguments.items == NULL or arguments.scalars == NULL:
        raise MemoryError
    memcpy(arguments.items, run.arguments, run.argument_count * sizeof(vyc_argument))
    memcpy(arguments.scalars, run.scalars, run.scalar_count * sizeof(uint64_t))
    arguments.run = run[0]
    arguments.run.arguments = arguments.items
    arguments.run.scalars = arguments.scalars
    return arguments


cdef class AnyCall:
    """A launch with bound arguments, and the objects that these were made from. Subclasses make and launch it."""

    def __init__(self) -> None:
        raise TypeError("a bound launch is made by a kernel's bind()")

    def __dealloc__(self):
        with nogil:
            vyc_call_release(self._h)

    @property
    def values(self) -> tuple[object, ...]:
        """What is bound now, in the order of the parameters."""
        cdef tuple values
        with cython.critical_section(self):
            values = self._values
        return values

    cdef int set_values(self, vyc_run *run, tuple values) except -1:
        """Bind these for later launches; `values` are the objects they were made from."""
        cdef tuple _before
        with cython.critical_section(self):
            check(vyc_call_set(self._h, run))
            _before = self._values  # released when this returns
            self._values = values
        return 0


cdef Buffer fill_span(vyc_argument *argument, Span span):
    """The buffer, which the caller keeps alive."""
    cdef Buffer buffer = buffer_of(span)
    if buffer is None:
        raise ValueError(FREED)
    argument.kind = VYC_ARGUMENT_BUFFER
    argument.count = span.count
    argument.buffer = buffer._h
    argument.offset = span.offset
    return buffer
