# cython: language_level=3, freethreading_compatible=True, boundscheck=False, wraparound=False
"""Prepared kernels and the ways to run them.

`Dispatcher` is the warm path: exact C-contiguous arrays and Python numbers go from the call's tuple into the C
structs of one run on the stack. Whatever it does not know at a glance, it hands to `_general`, which the runtime
supplies and which checks, converts and explains; both end in the same C calls.
"""
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as cnp

from vyre_cuda._native.c_api cimport (
    VYC_ARGUMENT_BUFFER, VYC_ARGUMENT_HOST, VYC_E_TIMEOUT, VYC_NOT_READY, VYC_OK, VYC_PLAN_COOPERATIVE,
    VYC_ROLE_INOUT, VYC_ROLE_OUT, vyc_argument, vyc_binding, vyc_call_create, vyc_call_release, vyc_call_run,
    vyc_call_set, vyc_function_info, vyc_parameter, vyc_plan_create, vyc_plan_desc, vyc_plan_function,
    vyc_plan_launch, vyc_plan_release, vyc_plan_run, vyc_plan_submit, vyc_run, vyc_status, vyc_ticket,
    vyc_ticket_release, vyc_ticket_wait, vyc_timing,
)
from vyre_cuda._native.context cimport Stream
from vyre_cuda._native.memory cimport Span
from vyre_cuda._native.module cimport Module
from vyre_cuda._native.status cimport check

from vyre_cuda._native.status import AssertReport

cnp.import_array()

# Between looks at Python's signals while a run is waited for.
cdef int64_t SLICE_NS = 50_000_000

cdef enum:
    ROLE_SCALAR = 4  # beside VYC_ROLE_IN, INOUT, OUT


cdef class Plan:
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
    ) -> None:
        """`parameters`: (kind, index, offset, size) each; `bindings`: (role, flags, element_bytes) each."""
        cdef vyc_plan_desc desc
        cdef bytes name = entry.encode("ascii")
        cdef Py_ssize_t i
        memset(&desc, 0, sizeof(desc))
        desc.struct_size = sizeof(desc)
        desc.entry = name
        desc.block = [block[0], block[1], block[2]]
        desc.dynamic_shared_bytes = dynamic_shared_bytes
        desc.parameter_bytes = parameter_bytes
        desc.parameter_count = len(parameters)
        desc.binding_count = len(bindings)
        desc.scalar_count = scalar_count
        desc.tag = tag
        desc.flags = VYC_PLAN_COOPERATIVE if cooperative else 0
        cdef vyc_parameter *c_parameters = <vyc_parameter *>calloc(len(parameters) + 1, sizeof(vyc_parameter))
        cdef vyc_binding *c_bindings = <vyc_binding *>calloc(len(bindings) + 1, sizeof(vyc_binding))
        try:
            if c_parameters == NULL or c_bindings == NULL:
                raise MemoryError
            for i in range(len(parameters)):
                kind, index, offset, size = parameters[i]
                c_parameters[i].kind = kind
                c_parameters[i].index = index
                c_parameters[i].offset = offset
                c_parameters[i].size = size
            for i in range(len(bindings)):
                c_bindings[i].role, c_bindings[i].flags, c_bindings[i].element_bytes = bindings[i]
            desc.parameters = c_parameters
            desc.bindings = c_bindings
            with nogil:
                check(vyc_plan_create(&self._h, module._h, &desc))
        finally:
            free(c_parameters)
            free(c_bindings)
        self.binding_count = desc.binding_count
        self.scalar_count = scalar_count

    def __dealloc__(self):
        with nogil:
            vyc_plan_release(self._h)

    def function_info(self) -> dict[str, int]:
        cdef vyc_function_info info
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        with nogil:
            check(vyc_plan_function(self._h, &info))
        values = dict(info)
        del values["struct_size"]
        return values

    def run(self, Arguments arguments not None, *, int64_t timeout_ns=-1) -> None:
        """Run with host or mixed arguments and wait."""
        with nogil:
            run_and_wait(self, &arguments.run, timeout_ns)

    def timed(self, Arguments arguments not None) -> dict[str, int]:
        """Run and wait; nanoseconds by name."""
        cdef vyc_timing timing
        memset(&timing, 0, sizeof(timing))
        timing.struct_size = sizeof(timing)
        arguments.run.timing_out = &timing
        try:
            arguments.run.timeout_ns = -1
            with nogil:
                check(vyc_plan_run(self._h, NULL, &arguments.run))
        finally:
            arguments.run.timing_out = NULL
        values = dict(timing)
        del values["struct_size"]
        return values

    def submit(self, Arguments arguments not None) -> Ticket:
        """Run without waiting; the ticket holds the arrays until it is finished or dropped."""
        cdef Ticket ticket = Ticket.__new__(Ticket)
        with nogil:
            check(vyc_plan_submit(self._h, &ticket._h, &arguments.run))
        ticket._keep = arguments
        return ticket

    def launch(self, Arguments arguments not None) -> None:
        """Launch on buffers without waiting."""
        check(vyc_plan_launch(self._h, &arguments.run))


cdef int run_and_wait(Plan plan, vyc_run *run, int64_t timeout_ns) except -1 nogil:
    cdef vyc_ticket *ticket = NULL
    cdef vyc_status status
    run.timeout_ns = SLICE_NS if timeout_ns < 0 or timeout_ns > SLICE_NS else timeout_ns
    status = vyc_plan_run(plan._h, &ticket, run)
    if status == VYC_OK:
        return 0
    if ticket == NULL:
        check(status)
    with gil:
        try:
            wait_in_slices(ticket, -1 if timeout_ns < 0 else max(timeout_ns - SLICE_NS, 0))
        finally:
            with nogil:
                vyc_ticket_release(ticket)
    return 0


cdef int wait_in_slices(vyc_ticket *ticket, int64_t timeout_ns) except -1:
    """Wait with an eye on signals; KernelTimeoutError when the time has passed."""
    cdef vyc_status status
    cdef int64_t left = timeout_ns
    cdef int64_t slice_ns
    while True:
        PyErr_CheckSignals()
        slice_ns = SLICE_NS if left < 0 or left > SLICE_NS else left
        with nogil:
            status = vyc_ticket_wait(ticket, slice_ns)
        if status != VYC_NOT_READY:
            check(status)
            return 0
        if left >= 0:
            left -= slice_ns
            if left <= 0:
                check(VYC_E_TIMEOUT)


cdef class Ticket:
    """A submitted run."""

    def __init__(self) -> None:
        raise TypeError("Ticket is made by Plan.submit()")

    def __dealloc__(self):
        with nogil:
            vyc_ticket_release(self._h)

    def done(self) -> bool:
        """Whether it has finished, well or not; never raises for the run's own failure."""
        cdef vyc_status status
        with nogil:
            status = vyc_ticket_wait(self._h, 0)
        return status != VYC_NOT_READY

    def wait(self, int64_t timeout_ns) -> bool:
        """False when the time passed first. Raises what the run failed with."""
        cdef vyc_status status
        if timeout_ns < 0:
            wait_in_slices(self._h, -1)
            return True
        cdef int64_t left = timeout_ns
        cdef int64_t slice_ns
        while True:
            slice_ns = SLICE_NS if left > SLICE_NS else left
            with nogil:
                status = vyc_ticket_wait(self._h, slice_ns)
            if status != VYC_NOT_READY:
                check(status)
                return True
            left -= slice_ns
            if left <= 0:
                return False
            PyErr_CheckSignals()


cdef class Arguments:
    """The C structs of one run, filled once: the general path's."""

    def __init__(self, list bindings not None, list scalars not None, tuple grid not None,
                 Stream stream=None) -> None:
        """`bindings`: Span, or (count, input array or None, result array or None) with bytes arrays of that binding."""
        cdef Py_ssize_t i
        cdef cnp.ndarray array
        cdef Span span
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
                fill_span(&self.items[i], span)
                self.keep.append(span.buffer)
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
        for i in range(len(scalars)):
            self.scalars[i] = scalars[i]
        self.run.struct_size = sizeof(vyc_run)
        self.run.grid = [grid[0], grid[1], grid[2]]
        self.run.argument_count = len(bindings)
        self.run.scalar_count = len(scalars)
        self.run.arguments = self.items
        self.run.scalars = self.scalars
        self.run.timeout_ns = -1
        if stream is not None:
            self.run.stream = stream._h

    def __dealloc__(self):
        free(self.items)
        free(self.scalars)


cdef int fill_span(vyc_argument *argument, Span span) except -1:
    if span.buffer is None:
        raise ValueError("the array was freed")
    argument.kind = VYC_ARGUMENT_BUFFER
    argument.count = span.count
    argument.buffer = span.buffer._h
    argument.offset = span.offset
    return 0


# ---- the warm path ---------------------------------------------------------------------------------------------------


cdef int scalar_bits(uint64_t *bits, object value, int typenum) except -1:
    """1 and the bits for an exact Python number that fits, 0 for anything else."""
    cdef double real
    cdef float single
    cdef int32_t as_int
    cdef long long integer
    if typenum == cnp.NPY_FLOAT32:
        if not PyFloat_CheckExact(value):
            return 0
        real = PyFloat_AS_DOUBLE(value)
        single = <float>real
        if isinf(single) and not isinf(real):
            return 0
        bits[0] = 0
        memcpy(bits, &single, sizeof(single))
        return 1
    if not PyLong_CheckExact(value):
        return 0
    try:
        integer = value
    except OverflowError:
        return 0
    if typenum == cnp.NPY_INT32 and -0x80000000 <= integer <= 0x7FFFFFFF:
        as_int = <int32_t>integer
        bits[0] = <uint32_t>as_int
        return 1
    if typenum == cnp.NPY_UINT32 and 0 <= integer <= 0xFFFFFFFF:
        bits[0] = <uint64_t>integer
        return 1
    return 0


cdef bint is_plain(object value, int typenum):
    """An exact ndarray of this type, C-contiguous, aligned and in native byte order."""
    return (
        cnp.PyArray_CheckExact(value)
        and cnp.PyArray_TYPE(<cnp.ndarray>value) == typenum
        and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>value)
    )


cdef class Dispatcher:
    """Calls of one kernel. Subclasses supply `_general`, `_general_launch` and `_assertion`."""

    def __init__(self, Plan plan not None, list parameters not None, int block, int work, bint simple) -> None:
        """`parameters`: (role, slot, typenum, size_of, size) each, in declared order.

        role 1 in, 2 inout, 3 out, 4 scalar; slot: its number among buffers or among scalars; an out's size is that of
        parameter `size_of` when >= 0, `size` when -1, the array's own when -2.
        `work`: the parameter whose size is the number of work items.
        `simple` False sends every call to the general path.
        """
        cdef Py_ssize_t i
        self._plan = plan
        self._simple = simple and len(parameters) <= 2 * FAST and plan.binding_count <= FAST \
            and plan.scalar_count <= FAST
        self._parameters = len(parameters)
        self._block = block
        self._work = work
        if not self._simple:
            return
        for i in range(len(parameters)):
            self._role[i], self._slot[i], self._typenum[i], self._size_of[i], self._size[i] = parameters[i]
            if self._role[i] == VYC_ROLE_INOUT or self._role[i] == VYC_ROLE_OUT:
                self._results += 1

    def __call__(self, *args, out=None, **kwargs):
        """Run with host arrays: see `vyre_cuda.Kernel`."""
        cdef vyc_argument items[FAST]
        cdef uint64_t scalars[FAST]
        cdef vyc_run run
        cdef object results
        if kwargs or not self._simple or (out is not None and self._results != 1):
            return self._general(args, kwargs, out)
        results = self.prepare(args, out, items, scalars, &run)
        if results is None:
            return self._general(args, kwargs, out)
        try:
            with nogil:
                run_and_wait(self._plan, &run, -1)
        except AssertReport as report:
            raise self._assertion(report) from None
        return results

    cdef object prepare(self, tuple args, object out, vyc_argument *items, uint64_t *scalars, vyc_run *run):
        """Fill the run; the results it will have, or None when this call is not a plain one."""
        cdef uint32_t i
        cdef int32_t role, slot
        cdef uint64_t count, total
        cdef Py_ssize_t position = 0
        cdef cnp.npy_intp shape
        cdef uint64_t counts[2 * FAST]
        cdef object value, first = None
        cdef list several = None
        cdef cnp.ndarray array
        for i in range(self._parameters):
            role = self._role[i]
            if role == VYC_ROLE_OUT:
                continue
            if position >= len(args):
                return None
            value = args[position]
            position += 1
            slot = self._slot[i]
            if role == ROLE_SCALAR:
                if not scalar_bits(&scalars[slot], value, self._typenum[i]):
                    return None
                continue
            if not is_plain(value, self._typenum[i]):
                return None
            counts[i] = cnp.PyArray_SIZE(<cnp.ndarray>value)
            items[slot].kind = VYC_ARGUMENT_HOST
            items[slot].count = counts[i]
            items[slot].data = cnp.PyArray_DATA(<cnp.ndarray>value)
            items[slot].result = NULL
        if position != len(args):
            return None
        for i in range(self._parameters):
            role = self._role[i]
            if role != VYC_ROLE_INOUT and role != VYC_ROLE_OUT:
                continue
            slot = self._slot[i]
            if role == VYC_ROLE_OUT:
                if self._size_of[i] == -2:
                    return None
                counts[i] = counts[self._size_of[i]] if self._size_of[i] >= 0 else self._size[i]
                items[slot].kind = VYC_ARGUMENT_HOST
                items[slot].count = counts[i]
                items[slot].data = NULL
            if out is None:
                shape = counts[i]
                array = cnp.PyArray_EMPTY(1, &shape, self._typenum[i], 0)
            elif is_plain(out, self._typenum[i]) and cnp.PyArray_ISWRITEABLE(<cnp.ndarray>out) \
                    and <uint64_t>cnp.PyArray_SIZE(<cnp.ndarray>out) == counts[i]:
                array = <cnp.ndarray>out
            else:
                return None
            items[slot].result = cnp.PyArray_DATA(array)
            if self._results == 1:
                first = array
            elif several is None:
                several = [array]
            else:
                several.append(array)
        count = counts[self._work]
        for i in range(self._plan.binding_count):
            if items[i].count > 0xFFFFFFFF:
                return None
        total = (count + self._block - 1) // self._block
        if total > 0x7FFFFFFF:
            return None
        run.struct_size = sizeof(vyc_run)
        run.grid = [<uint32_t>total, 1, 1]
        run.argument_count = self._plan.binding_count
        run.scalar_count = self._plan.scalar_count
        run.arguments = items
        run.scalars = scalars
        run.stream = NULL
        run.timing_out = NULL
        return first if several is None else tuple(several)

    def launch(self, *args, stream=None, **kwargs):
        """Launch on device arrays: see `vyre_cuda.Kernel.launch`."""
        cdef vyc_argument items[FAST]
        cdef uint64_t scalars[FAST]
        cdef vyc_run run
        if kwargs or not self.prepare_launch(args, items, scalars, &run):
            return self._general_launch(args, kwargs, stream)
        run.stream = NULL if stream is None else (<Stream?>stream)._h
        check(vyc_plan_launch(self._plan._h, &run))
        return None

    cdef int prepare_launch(self, tuple args, vyc_argument *items, uint64_t *scalars, vyc_run *run) except -1:
        """1 and the run for all parameters in declared order, 0 when this launch is not a plain one."""
        cdef uint32_t i
        cdef int32_t slot
        cdef uint64_t count
        cdef Span span
        if not self._simple or <uint32_t>len(args) != self._parameters:
            return 0
        for i in range(self._parameters):
            value = args[i]
            slot = self._slot[i]
            if self._role[i] == ROLE_SCALAR:
                if not scalar_bits(&scalars[slot], value, self._typenum[i]):
                    return 0
                continue
            if not isinstance(value, Span):
                return 0
            span = <Span>value
            if span.typenum != self._typenum[i] or span.buffer is None or span.count > 0xFFFFFFFF:
                return 0
            fill_span(&items[slot], span)
        for i in range(self._parameters):
            if self._role[i] == VYC_ROLE_OUT and not self.fits(items, i):
                return 0
        count = (items[self._slot[self._work]].count + self._block - 1) // self._block
        if count > 0x7FFFFFFF:
            return 0
        run.struct_size = sizeof(vyc_run)
        run.grid = [<uint32_t>count, 1, 1]
        run.argument_count = self._plan.binding_count
        run.scalar_count = self._plan.scalar_count
        run.arguments = items
        run.scalars = scalars
        run.stream = NULL
        run.timeout_ns = -1
        run.timing_out = NULL
        return 1

    cdef bint fits(self, vyc_argument *items, uint32_t i):
        """Whether a given out has the declared size."""
        cdef uint64_t declared = self._size[i]
        if self._size_of[i] == -2:
            return True
        if self._size_of[i] >= 0:
            declared = items[self._slot[self._size_of[i]]].count
        return items[self._slot[i]].count == declared


cdef class Call:
    """A launch with its arguments bound. Subclasses supply `_rebind`, for arguments that are not plain."""

    def __init__(self, Dispatcher dispatcher not None, Arguments arguments not None, tuple values not None,
                 Stream stream=None, bint plain=True) -> None:
        """`plain` False: other arguments always go by way of `_rebind` (the grid is given, not worked out)."""
        self._dispatcher = dispatcher
        self._on = stream
        self._plain = plain
        self.values = values
        check(vyc_call_create(&self._h, dispatcher._plan._h, &arguments.run))

    def __dealloc__(self):
        with nogil:
            vyc_call_release(self._h)

    def __call__(self, *args):
        """Launch; with arguments (all parameters in declared order), bind those first, for later launches too."""
        cdef vyc_argument items[FAST]
        cdef uint64_t scalars[FAST]
        cdef vyc_run run
        if args:
            if self._plain and self._dispatcher.prepare_launch(args, items, scalars, &run):
                run.stream = NULL if self._on is None else self._on._h
                check(vyc_call_set(self._h, &run))
                self.values = args
            else:
                self._rebind(args)
        check(vyc_call_run(self._h))

    def set_arguments(self, Arguments arguments not None, tuple values not None) -> None:
        """Bind these for later launches; `values` are the objects they were made of."""
        check(vyc_call_set(self._h, &arguments.run))
        self.values = values
