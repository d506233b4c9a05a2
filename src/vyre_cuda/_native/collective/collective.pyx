# cython: language_level=3, freethreading_compatible=True
"""Collectives: NCCL's library, members of groups of devices, and what they are given."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from posix.unistd cimport usleep
from threading import get_ident, main_thread
from time import monotonic

from vyre_cuda._native.collective.c_collective cimport (
    VYC_ALL_GATHER, VYC_ALL_REDUCE, VYC_ALL_TO_ALL, VYC_BROADCAST, VYC_COMMUNICATOR_ID_BYTES, VYC_ELEMENT_U8,
    VYC_INBOX_HANDLE_BYTES, VYC_ONE_SHOT_BLOCK_BYTES, VYC_RECEIVE, VYC_REDUCE_SCATTER, VYC_SEND,
    vyc_collective, vyc_collectives_begin, vyc_collectives_cancel, vyc_collectives_end, vyc_collectives_run,
    vyc_communicator, vyc_communicator_abort, vyc_communicator_check, vyc_communicator_close,
    vyc_communicator_create, vyc_communicator_left, vyc_communicator_may_close, vyc_communicator_release,
    vyc_communicator_run, vyc_communicator_state, vyc_communicator_watch,
    vyc_nccl_ask, vyc_nccl_open, vyc_nccl_unique_id, vyc_nccl_version,
    vyc_one_shot_add, vyc_one_shot_connect, vyc_one_shot_leave, vyc_one_shot_left, vyc_one_shot_limit,
    vyc_one_shot_open, vyc_one_shot_share,
)
from vyre_cuda._native.call.prepared cimport PreparedKernel
from vyre_cuda._native.collective.c_collective cimport VYC_MOST_TOGETHER
from vyre_cuda._native.core.c_status cimport vyc_status
from vyre_cuda._native.core.context cimport Context, Stream, load
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.memory.adopted cimport stream_of
from vyre_cuda._native.memory.memory cimport Buffer, Span, buffer_of

from vyre_cuda.errors import FREED

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST = VYC_ALL_REDUCE, VYC_ALL_GATHER, VYC_REDUCE_SCATTER, VYC_BROADCAST
ALL_TO_ALL, SEND, RECEIVE = VYC_ALL_TO_ALL, VYC_SEND, VYC_RECEIVE
# What every use of a communicator says once it is closed.
CLOSED = "the communicator is closed: make another one"
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "recv")
ONE_SHOT_BLOCK_BYTES = VYC_ONE_SHOT_BLOCK_BYTES

cdef enum:
    LOOK_US = 100  # between two looks of a close at those of other threads


cdef object interruption = None  # what a handler of a signal raised while NCCL kept a call


cdef int ask() noexcept with gil:
    """Whether the call is to end."""
    global interruption
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        interruption = error
        return 1
    return 0


cpdef int raise_interruption() except -1:
    """After a call that NCCL may have kept. Handlers run in one thread alone."""
    global interruption
    if interruption is not None and get_ident() == main_thread().ident:
        raised, interruption = interruption, None
        raise raised from None


cdef int check_given(vyc_status status) except -1:
    """As `check`, of such a call."""
    raise_interruption()
    return check(status)


vyc_nccl_ask(ask)


def nccl_open(path: str | None) -> None:
    """Open libnccl.so.2, once for the process. UnsupportedError where that fails."""
    cdef bytes encoded = b"" if path is None else path.encode()
    cdef const char *name = NULL
    if path is not None:
        name = encoded
    with nogil:
        check(vyc_nccl_open(name))


def nccl_version() -> int:
    """major * 10000 + minor * 100 + patch; UnsupportedError before it was opened."""
    cdef int32_t version = 0
    check(vyc_nccl_version(&version))
    return version


def nccl_unique_id() -> bytes:
    """What one rank makes and all get."""
    cdef uint8_t made[VYC_COMMUNICATOR_ID_BYTES]
    with nogil:
        check(vyc_nccl_unique_id(made))
    return (<char *>made)[:VYC_COMMUNICATOR_ID_BYTES]


class Group:
    """What this thread gives inside a `with` statement begins together at its end; after an exception nothing does."""

    def __enter__(self) -> None:
        check(vyc_collectives_begin())

    def __exit__(self, kind, error, traceback) -> None:
        if kind is not None:
            vyc_collectives_cancel()
            return
        cdef vyc_status status
        with nogil:
            status = vyc_collectives_end()
        check_given(status)


cdef class Member:
    """One rank of a group of devices."""

    def __init__(self, Context context not None, bytes identity not None, int rank, int size,
                 int64_t timeout_ns) -> None:
        """Returns when all ranks have come; KernelTimeoutError at the time limit."""
        cdef const uint8_t *data = <const uint8_t *><char *>identity
        if len(identity) != VYC_COMMUNICATOR_ID_BYTES:
            raise ValueError(f"an identity of {len(identity)} bytes; NCCL makes it, of {VYC_COMMUNICATOR_ID_BYTES}")
        self.context = context
        self.rank = rank
        self.size = size
        with nogil:
            check(vyc_communicator_create(&self._h, context._h, data, rank, size, timeout_ns))

    def __dealloc__(self):
        with nogil:
            vyc_communicator_release(self._h)

    def check_close(self) -> None:
        """ValueError in a handler of a signal that runs inside a call of this thread, which uses it."""
        with cython.critical_section(self):
            if self._h != NULL:
                check(vyc_communicator_may_close(self._h))

    def close(self) -> None:
        """End it, and the graphs that have its collectives before. ValueError while another thread gives it work, and
        does not return in five seconds."""
        cdef vyc_communicator *handle = NULL
        limit = monotonic() + 5.0
        while not self.begin_close(&handle):
            if self._users != 0 and monotonic() > limit:
                raise ValueError("the communicator is in use by another thread: close it when that call has returned")
            with nogil:
                usleep(LOOK_US)
        if handle == NULL:
            return
        with nogil:
            vyc_communicator_close(handle)
        with cython.critical_section(self):
            self._closing = NULL
        with nogil:
            vyc_communicator_release(handle)

    cdef bint begin_close(self, vyc_communicator **handle) noexcept:
        """Whether no thread uses it; none does from then on."""
        with cython.critical_section(self):
            if self._users != 0 or self._looks != 0:
                return False
            if self._h != NULL:
                handle[0] = self._closing = self._h
                self._h = NULL
        return True

    def left(self) -> None:
        """Another rank has ended: a close, also one that another thread is in, waits less long for NCCL."""
        with cython.critical_section(self):
            vyc_communicator_left(self._closing if self._h == NULL else self._h)

    @property
    def is_closed(self) -> bool:
        return self._h == NULL

    def run(self, int kind, int type, int op, int peer, Span source, Span out, uint64_t count, stream=None) -> None:
        """Give one collective of `count` elements (see vyc_collective) to a stream."""
        cdef vyc_collective w
        cdef Stream on = stream_of(self.context, stream)
        cdef tuple _keep = collective_of(&w, (kind, type, op, peer, source, out, count))
        cdef vyc_status status
        if on is not None:
            w.stream = on._h
        self.enter()
        try:
            with nogil:
                status = vyc_communicator_run(self._h, &w)
            check_given(status)
        finally:
            self.leave()

    def check(self, tuple part=None) -> None:
        """Refuse what cannot be a step of a graph; None: refuse if nothing could be given to the device now."""
        cdef vyc_collective w
        cdef tuple _keep = () if part is None else collective_of(&w, part)
        self.enter()
        try:
            check(vyc_communicator_check(self._h, NULL if part is None else &w))
        finally:
            self.leave()

    cdef int begin(self, int *calls) except -1:
        with cython.critical_section(self):
            if self._h == NULL:
                raise ValueError(CLOSED)
            calls[0] += 1
        return 0

    cdef void end(self, int *calls) noexcept:
        with cython.critical_section(self):
            calls[0] -= 1

    cdef int enter(self) except -1:
        return self.begin(&self._users)

    cdef void leave(self) noexcept:
        self.end(&self._users)

    def watch(self) -> tuple[bool, int, int, float, tuple[int, int, int, int, int], int]:
        """(is ended, collectives issued, digest of them, seconds that the oldest has not ended, the last one as (kind,
        type, op, peer, number of elements), NCCL's error)."""
        cdef vyc_communicator_state state
        memset(&state, 0, sizeof(state))
        state.struct_size = sizeof(state)
        self.begin(&self._looks)
        try:
            with nogil:
                check(vyc_communicator_watch(self._h, &state))
        finally:
            self.end(&self._looks)
        last = (state.last_kind, state.last_type, state.last_op, state.last_peer, state.last_count)
        return (bool(state.is_ended), state.issued, state.digest, state.waiting_ns / 1e9, last, state.error)

    def add_one_shot(self, uint32_t type, uint32_t op, PreparedKernel prepared not None) -> None:
        """The kernel of this rank for a type and an operation."""
        self.enter()
        try:
            with nogil:
                check(vyc_one_shot_add(self._h, type, op, prepared._h))
        finally:
            self.leave()

    def limit_one_shot(self, uint64_t bytes) -> None:
        """All-reduces of up to so many bytes go in one shot from now on."""
        self.enter()
        try:
            with nogil:
                check(vyc_one_shot_limit(self._h, bytes))
        finally:
            self.leave()

    def share_one_shot(self, uint64_t most_bytes) -> bytes:
        """Memory for small all-reduces, as a handle for the other processes. UnsupportedError where there is none."""
        cdef uint8_t handle[VYC_INBOX_HANDLE_BYTES]
        self.enter()
        try:
            with nogil:
                check(vyc_one_shot_share(self._h, most_bytes, handle))
        finally:
            self.leave()
        return (<char *>handle)[:VYC_INBOX_HANDLE_BYTES]

    def connect_one_shot(self, list handles not None) -> None:
        """The memory of the other processes, from the handles of all ranks. UnsupportedError where it cannot be had."""
        cdef bytes joined = b"".join(handles)
        cdef const uint8_t *data = <const uint8_t *><char *>joined
        if len(handles) != self.size or len(joined) != self.size * VYC_INBOX_HANDLE_BYTES:
            raise ValueError(
                f"{len(handles)} handles of {len(joined)} bytes in all, "
                f"for {self.size} ranks of {VYC_INBOX_HANDLE_BYTES} each"
            )
        self.enter()
        try:
            with nogil:
                check(vyc_one_shot_connect(self._h, data))
        finally:
            self.leave()

    def leave_one_shot(self) -> None:
        """Wait, and give back what other processes share; later small all-reduces are refused."""
        self.enter()
        try:
            with nogil:
                vyc_one_shot_leave(self._h)
        finally:
            self.leave()

    def left_one_shot(self) -> None:
        """All ranks have left."""
        self.enter()
        try:
            vyc_one_shot_left(self._h)
        finally:
            self.leave()

    def abort(self, str message not None) -> None:
        """End it: waits for the device fail with CommunicationError and the message."""
        cdef bytes encoded = message.encode()
        cdef const char *text = encoded
        self.begin(&self._looks)
        try:
            with nogil:
                check(vyc_communicator_abort(self._h, text))
        finally:
            self.end(&self._looks)


def one_shot_open(list members not None, uint64_t most_bytes) -> None:
    """Give all ranks of a group, by rank, memory for small all-reduces. UnsupportedError where they cannot have it."""
    cdef uint32_t count = len(members)
    cdef uint32_t entered = 0
    cdef vyc_communicator **handles = <vyc_communicator **>calloc(count + 1, sizeof(vyc_communicator *))
    if handles == NULL:
        raise MemoryError
    try:
        for member in members:
            (<Member?>member).enter()
            handles[entered] = (<Member>member)._h
            entered += 1
        with nogil:
            check(vyc_one_shot_open(handles, count, most_bytes))
    finally:
        for member in members[:entered]:
            (<Member>member).leave()
        free(handles)


cdef class Together:
    """The ranks of one process, whose collectives are given by one call."""

    def __init__(self, tuple members not None, dict types not None) -> None:
        """`types`: NCCL's numbers of types by those of NumPy."""
        self.members = members
        self.types = types

    def run(self, int kind, xs, outs, int op=0, int peer=0) -> list | None:
        """One collective, of an array of each rank; what its ranks' methods return. None: something about the arguments
        must be looked at first; nothing was done."""
        cdef vyc_collective made[VYC_MOST_TOGETHER]
        cdef vyc_communicator *handles[VYC_MOST_TOGETHER]
        cdef list keep = [], results = []
        cdef int n = <int>len(self.members), entered = 0
        cdef vyc_status status
        if n > <int>VYC_MOST_TOGETHER or not isinstance(xs, (list, tuple)) or len(xs) != n:
            return None
        if outs is not None and (not isinstance(outs, (list, tuple)) or len(outs) != n):
            return None
        memset(made, 0, n * sizeof(vyc_collective))
        for i in range(n):
            if self.note(&made[i], kind, i, xs[i], None if outs is None else outs[i], results, keep) == 0:
                return None
            if made[i].count != made[0].count or (<Span>xs[i]).typenum != (<Span>xs[0]).typenum:
                return None
            made[i].op, made[i].peer = op, peer
            if kind == VYC_ALL_REDUCE and not self.is_ready(&made[i], <Span>xs[i]):
                return None
        try:
            for member in self.members:
                (<Member>member).enter()
                handles[entered] = (<Member>member)._h
                entered += 1
            with nogil:
                status = vyc_collectives_run(handles, made, <uint32_t>n)
            check_given(status)
        finally:
            for i in range(entered):
                (<Member>self.members[i]).leave()
        return results

    cdef bint is_ready(self, const vyc_collective *made, Span source):
        """Whether it needs no kernel, or has it."""
        return (source.count > self.limit or source.count * <uint64_t>source.dtype.itemsize > self.limit
                or self.ready >> (made.type * 4 + made.op) & 1 == 1)

    cdef int note(self, vyc_collective *made, int kind, int i, object x, object out, list results,
                  list keep) except -1:
        """0: it is not plain. `keep` holds the buffers."""
        cdef Member member = <Member?>self.members[i]
        cdef uint64_t n = len(self.members), count, first = 0
        cdef Span source, to
        cdef Buffer from_buffer, to_buffer
        if not isinstance(x, Span) or load(member.context._recordings) != 0:
            return 0
        source = <Span>x
        count = source.count
        if kind == VYC_REDUCE_SCATTER or kind == VYC_ALL_TO_ALL or (kind == VYC_ALL_GATHER and out is None):
            if count % n != 0:
                return 0
            count //= n
        if out is None:
            out = x
            if kind == VYC_ALL_GATHER:
                first = i * count * <uint64_t>source.dtype.itemsize
            elif kind == VYC_REDUCE_SCATTER:
                out = x._flat(i * count, (i + 1) * count)
            elif kind == VYC_ALL_TO_ALL:
                source = <Span?>x.copy()
        if not isinstance(out, Span):
            return 0
        to = <Span>out
        if to.typenum != source.typenum or to.count != count * (
            n if kind == VYC_ALL_GATHER or kind == VYC_ALL_TO_ALL else 1
        ):
            return 0
        from_buffer = buffer_of(source)
        to_buffer = from_buffer if to is source else buffer_of(to)
        if from_buffer is None or to_buffer is None:
            return 0
        number = self.types.get(source.typenum)
        if number is None:
            if kind == VYC_ALL_REDUCE or kind == VYC_REDUCE_SCATTER:
                return 0
            number, count = VYC_ELEMENT_U8, count * <uint64_t>source.dtype.itemsize
        results.append(out)
        keep.append(from_buffer)
        keep.append(to_buffer)
        made.struct_size = sizeof(made[0])
        made.kind, made.type, made.count = kind, number, count
        made.input, made.in_offset = from_buffer._h, source.offset + first
        made.out, made.out_offset = to_buffer._h, to.offset
        return 1


cdef tuple collective_of(vyc_collective *made, tuple part):
    cdef Buffer from_buffer = None, to_buffer = None
    cdef Span source = part[4], out = part[5]
    memset(made, 0, sizeof(made[0]))
    made.struct_size = sizeof(made[0])
    made.kind, made.type, made.op, made.peer, made.count = part[0], part[1], part[2], part[3], part[6]
    if source is not None:
        from_buffer = held(source)
        made.input, made.in_offset = from_buffer._h, source.offset
    if out is not None:
        to_buffer = from_buffer if out is source else held(out)
        made.out, made.out_offset = to_buffer._h, out.offset
    return from_buffer, to_buffer


cdef Buffer held(Span span):
    cdef Buffer buffer = buffer_of(span)
    if buffer is None:
        raise ValueError(FREED)
    return buffer
