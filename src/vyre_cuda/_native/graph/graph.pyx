# cython: language_level=3, freethreading_compatible=True
"""Recorded graphs and the copies and fills in them."""
from collections import namedtuple

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cimport numpy as cnp

from vyre_cuda._native.collective.c_collective cimport VYC_MOST_TOGETHER
from vyre_cuda._native.core.c_driver cimport vyc_prepared, vyc_stream
from vyre_cuda._native.core.c_graph cimport (
    VYC_NODE_CLEAR, VYC_NODE_COLLECTIVE, VYC_NODE_CONTROL, VYC_NODE_COPY, VYC_NODE_FILL, VYC_NODE_KERNEL,
    VYC_NODE_LOOP, VYC_SYMBOL_ARRAY, VYC_SYMBOL_SCALAR, vyc_graph_add_launch, vyc_graph_add_rows,
    vyc_graph_add_symbol, vyc_graph_add_tables_with, vyc_graph_add_transfer, vyc_graph_change, vyc_graph_create,
    vyc_graph_finish, vyc_graph_in_turns, vyc_graph_info, vyc_graph_info_get, vyc_graph_launch_at,
    vyc_graph_launch_between, vyc_graph_launch_together, vyc_graph_launch_with, vyc_graph_node, vyc_graph_node_get,
    vyc_graph_own, vyc_graph_part, vyc_graph_release, vyc_graph_repeat_begin, vyc_graph_repeat_end, vyc_graph_symbol,
    vyc_graph_transfer, vyc_graph_update, vyc_graph_use, vyc_symbol_value,
)
from vyre_cuda._native.core.c_kernel cimport vyc_rows
from vyre_cuda._native.core.c_status cimport VYC_E_INVALID, vyc_status
from vyre_cuda._native.collective.c_collective cimport vyc_collective, vyc_graph_add_collectives
from vyre_cuda._native.collective.collective cimport Member, collective_of
from vyre_cuda._native.core.context cimport Context, Event, Stream, load, looks_deep
from vyre_cuda._native.memory.adopted cimport stream_of
from vyre_cuda._native.memory.memory cimport Buffer, Pinned, Span, buffer_of, pinned_of
from vyre_cuda._native.call.many cimport Rows
from vyre_cuda._native.call.prepared cimport Arguments, PreparedKernel
from vyre_cuda._native.trace.origin cimport Seen, origin_of
from vyre_cuda._native.core.status cimport check
from vyre_cuda._native.graph.slot cimport Slot

from vyre_cuda.errors import FREED, counted

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyDescr_NewMethod(PyTypeObject *, PyMethodDef *)

cnp.import_array()

Node = namedtuple("Node", "kind step parent behind")

cdef dict KINDS = {
    VYC_NODE_KERNEL: "kernel",
    VYC_NODE_COPY: "copy",
    VYC_NODE_FILL: "fill",
    VYC_NODE_CLEAR: "clear",
    VYC_NODE_LOOP: "loop",
    VYC_NODE_CONTROL: "control",
    VYC_NODE_COLLECTIVE: "collective",
}

cdef enum:
    NO_NODE = 0xFFFFFFFF
    # A launch of more nodes than this takes long enough that other threads should run meanwhile.
    LONG = 1024
    # Values of one replay, beyond which it takes the general path.
    MOST_VALUES = 16
    # Kernels of one launch.
    MOST_TABLES = 16


cdef void *host_memory(cnp.ndarray array, vyc_graph_transfer *transfer) except NULL:
    cdef Pinned pinned = pinned_of(array)
    if pinned is None:
        raise ValueError(
            "an array of a recorded copy must be in page-locked memory: "
            "make it with Device.pinned_empty(), or give it to Device.register()"
        )
    transfer.pinned = pinned._h
    return cnp.PyArray_DATA(array)


cdef Buffer alive(Span span):
    """The buffer, which the caller keeps alive."""
    cdef Buffer buffer = buffer_of(span)
    if buffer is None:
        raise ValueError(FREED)
    return buffer


cdef class Transfer:
    """A copy between spans and page-locked arrays, or a fill of a span."""

    def __init__(self, object to not None, object source not None, uint64_t nbytes) -> None:
        cdef Buffer target = None
        cdef Buffer origin = None
        memset(&self.transfer, 0, sizeof(self.transfer))
        self.transfer.struct_size = sizeof(vyc_graph_transfer)
        self.transfer.bytes = nbytes
        if isinstance(to, Span):
            target = alive(<Span>to)
            self.transfer.to = target._h
            self.transfer.to_offset = (<Span>to).offset
        else:
            self.transfer.to_host = host_memory(to, &self.transfer)
        if isinstance(source, Span):
            origin = alive(<Span>source)
            self.transfer.from_ = origin._h
            self.transfer.from_offset = (<Span>source).offset
        else:
            self.transfer.from_host = host_memory(source, &self.transfer)
        self.keep = (to, source, target, origin)

    @staticmethod
    def fill(Span to not None, uint32_t value, uint32_t element_bytes) -> Transfer:
        """A fill of every element of `element_bytes` (1, 2, 4) with these bits."""
        cdef Transfer made = Transfer.__new__(Transfer)
        cdef Buffer target = alive(to)
        memset(&made.transfer, 0, sizeof(made.transfer))
        made.transfer.struct_size = sizeof(vyc_graph_transfer)
        made.transfer.element_bytes = element_bytes
        made.transfer.value = value
        made.transfer.bytes = to.count * element_bytes
        made.transfer.to = target._h
        made.transfer.to_offset = to.offset
        made.keep = (to, target)
        return made


cdef class Graph:
    """Steps that are launched as one."""

    def __init__(self, Context context not None) -> None:
        self._context = context
        self._slots = {}
        with nogil:
            check(vyc_graph_create(&self._h, context._h))

    def __dealloc__(self):
        with nogil:
            vyc_graph_release(self._h)

    def own(self, Buffer buffer not None) -> None:
        """The memory is the graph's alone, and each captured launch has its own; to be called before steps are added.
        """
        check(vyc_graph_own(self._h, buffer._h))

    def add_launch(self, PreparedKernel prepared not None, Arguments arguments not None) -> int:
        cdef uint32_t step = 0
        check(vyc_graph_add_launch(self._h, &step, prepared._h, &arguments.run))
        return step

    def add_rows(self, Rows rows not None, PreparedKernel many not None, PreparedKernel clearing=None,
                 PreparedKernel many_clearing=None) -> int:
        """One launch of all rows, and before it steps that clear outs; `many` and the others as in `Rows.launch`."""
        cdef uint32_t step = 0
        cdef vyc_prepared *prepared = rows._dispatcher._prepared._h
        rows._rows.clearing = NULL if clearing is None else clearing._h
        rows._rows.many_clearing = NULL if many_clearing is None else many_clearing._h
        with nogil:
            check(vyc_graph_add_rows(self._h, &step, prepared, many._h, &rows._rows))
        return step

    def add_tables(self, list rows not None, PreparedKernel entry not None, PreparedKernel clearing=None,
                   PreparedKernel many_clearing=None) -> int:
        """The same for rows of one kernel or several; `entry`: that of all of them, with the places that the rows
        have."""
        cdef vyc_prepared *prepared[MOST_TABLES]
        cdef const vyc_rows *of_each[MOST_TABLES]
        cdef const uint8_t *places[MOST_TABLES]
        cdef uint32_t step = 0, count = 0
        cdef Rows one
        if len(rows) > MOST_TABLES:
            raise ValueError(
                f"{len(rows)} kernels; one launch takes {MOST_TABLES} at most: "
                "record the others as another one"
            )
        for one in rows:
            one._rows.clearing = NULL if clearing is None else clearing._h
            one._rows.many_clearing = NULL if many_clearing is None else many_clearing._h
            prepared[count] = one._dispatcher._prepared._h
            of_each[count] = &one._rows
            places[count] = NULL if one.places is None else <const uint8_t *><const char *>one.places
            count += 1
        with nogil:
            check(vyc_graph_add_tables_with(self._h, &step, entry._h, count, prepared, of_each, places))
        return step

    def add_transfer(self, Transfer transfer not None) -> int:
        cdef uint32_t step = 0
        check(vyc_graph_add_transfer(self._h, &step, &transfer.transfer))
        return step

    def add_collectives(self, Member member not None, list parts not None) -> int:
        """Collectives that begin together; each is what `Member.check` takes. Launches wait without the GIL then:
        the driver may keep one until other threads make theirs."""
        cdef vyc_collective *made = <vyc_collective *>malloc((len(parts) + 1) * sizeof(vyc_collective))
        cdef list keep = []
        cdef uint32_t step = 0
        cdef uint32_t count = 0
        if made == NULL:
            raise MemoryError
        member.enter()
        try:
            for part in parts:
                keep.append(collective_of(&made[count], part))
                count += 1
            check(vyc_graph_add_collectives(self._h, &step, member._h, count, made))
        finally:
            member.leave()
            free(made)
        self._communicates = True
        return step

    def repeat_begin(self, uint64_t times, Span until, uint32_t until_bytes) -> int:
        """`until`: the device tests its first element after each repetition; None: `times` times."""
        cdef uint32_t step = 0
        cdef Buffer buffer = None
        cdef uint64_t offset = 0
        if until is not None:
            buffer = alive(until)
            offset = until.offset
        check(vyc_graph_repeat_begin(
            self._h, &step, times, NULL if buffer is None else buffer._h, offset, until_bytes))
        return step

    def repeat_end(self) -> None:
        check(vyc_graph_repeat_end(self._h))

    def add_symbol(self, str name not None, bint is_array, tuple type_ not None, list uses not None) -> None:
        """Let replays set these uses, each (step, place), in ascending order; `type_` is (NumPy type number, width,
        item size). A name can be given for several types.
        """
        cdef vyc_graph_use *places = <vyc_graph_use *>malloc((len(uses) + 1) * sizeof(vyc_graph_use))
        cdef vyc_graph_symbol symbol
        cdef uint32_t number = 0
        cdef Py_ssize_t i = 0
        if places == NULL:
            raise MemoryError
        try:
            for step, place in uses:
                places[i] = vyc_graph_use(step, place)
                i += 1
            memset(&symbol, 0, sizeof(symbol))
            symbol.struct_size = sizeof(symbol)
            symbol.kind = VYC_SYMBOL_ARRAY if is_array else VYC_SYMBOL_SCALAR
            symbol.element_bytes = type_[2]
            symbol.use_count = len(uses)
            symbol.uses = places
            check(vyc_graph_add_symbol(self._h, &number, &symbol))
        finally:
            free(places)
        self._slots[name] = Slot(number, is_array, *type_, self._slots.get(name))

    def finish(self) -> None:
        with nogil:
            check(vyc_graph_finish(self._h))
        self._long = self._communicates or self.info()["node_count"] > LONG

    def launch(self, list changes not None, Stream stream) -> None:
        """`changes`: (step, Arguments or Transfer) each, in the order of steps; they apply to this launch only."""
        cdef vyc_stream *on = NULL if stream is None else stream._h
        cdef uint32_t count = len(changes)
        cdef vyc_graph_change *list_of = NULL
        cdef uint32_t origin = origin_of(&self._seen)
        if count > 0:
            list_of = changes_of(changes)
        try:
            if self._long:
                with nogil:
                    check(vyc_graph_launch_at(self._h, list_of, count, on, origin))
            else:
                check(vyc_graph_launch_at(self._h, list_of, count, on, origin))
        finally:
            free(list_of)
        self.keep_changes(changes)

    def launch_between(self, list changes not None, Stream stream) -> tuple[Event, Event]:
        """The same between two events of the stream, which are returned."""
        cdef Event start = Event.__new__(Event)
        cdef Event stop = Event.__new__(Event)
        cdef vyc_stream *on = NULL if stream is None else stream._h
        cdef uint32_t count = len(changes)
        cdef vyc_graph_change *list_of = changes_of(changes)
        cdef uint32_t origin = origin_of(&self._seen)
        start._context = stop._context = self._context
        try:
            with nogil:
                check(vyc_graph_launch_between(self._h, &start._h, &stop._h, list_of, count, on, origin))
        finally:
            free(list_of)
        self.keep_changes(changes)
        return start, stop

    cdef int keep_changes(self, list changes) except -1:
        """Keep the arrays of the launch in flight."""
        cdef object _before
        if len(changes) > 0:
            with cython.critical_section(self):
                _before = self._last
                self._last = changes
        return 0

    cdef int launch_as_is(self, Stream stream) except -1:
        """Without changes."""
        cdef vyc_stream *on = NULL if stream is None else stream._h
        cdef uint32_t origin = origin_of(&self._seen)
        cdef vyc_status status
        if self._long or looks_deep(self._context, on):
            with nogil:
                status = vyc_graph_launch_at(self._h, NULL, 0, on, origin)
        else:
            status = vyc_graph_launch_at(self._h, NULL, 0, on, origin)
        check(status)
        return 0

    cdef int launch_with(self, Replayer graph, PyObject *const *args, tuple keys) except -1:
        """Whether it was launched with the values of these symbols; nothing else is made of them."""
        cdef vyc_symbol_value values[MOST_VALUES]
        cdef PyObject *held[MOST_VALUES]
        cdef PyObject *slots[MOST_VALUES]  # by key, of those for arrays
        cdef uint32_t count = 0
        cdef Py_ssize_t missing = len(graph._users) - len(graph._values)
        cdef Py_ssize_t number = len(keys)
        cdef Py_ssize_t i
        cdef Slot slot
        cdef object stream = None
        cdef PyObject *found
        cdef vyc_status status = VYC_E_INVALID
        if number > MOST_VALUES:
            return 0
        try:
            for i in range(number):
                slots[i] = NULL
                found = PyDict_GetItemWithError(self._slots, keys[i])
                if found == NULL:
                    if keys[i] != "stream":
                        return 0
                    stream = <object>args[i]
                    continue
                if missing > 0 and keys[i] not in graph._values:
                    missing -= 1
                slot = <Slot>found
                if slot.is_array:
                    slots[i] = found
                while slot is not None:
                    if count == MOST_VALUES or not slot.take(&values[count], &held[count], <object>args[i]):
                        return 0
                    count += 1
                    slot = slot.following
            if missing > 0:
                return 0
            self.give(&status, values, count, stream)
        finally:
            for i in range(count):
                Py_XDECREF(held[i])
        if status == VYC_E_INVALID:
            return 0  # the general path says what is wrong, or makes other changes
        check(status)
        for i in range(number):
            if slots[i] != NULL:
                self.keep_array(<Slot>slots[i], <object>args[i])
        return 1

    cdef int give(self, vyc_status *status, vyc_symbol_value *values, uint32_t count, object stream) except -1:
        cdef Stream named = stream_of(self._context, stream)
        cdef vyc_stream *on = NULL if named is None else named._h
        cdef uint32_t origin = origin_of(&self._seen)
        if self._long or looks_deep(self._context, on):
            with nogil:
                status[0] = vyc_graph_launch_with(self._h, values, count, on, origin)
        else:
            status[0] = vyc_graph_launch_with(self._h, values, count, on, origin)
        return 0

    cdef int keep_array(self, Slot slot, object value) except -1:
        """Keep an array of the launch in flight."""
        cdef object _before
        with cython.critical_section(self):
            _before = slot.last
            slot.last = value
        return 0

    def update(self, list changes not None) -> None:
        """The same for all later launches."""
        cdef uint32_t count = len(changes)
        cdef vyc_graph_change *list_of = changes_of(changes)
        try:
            with nogil:
                check(vyc_graph_update(self._h, list_of, count))
        finally:
            free(list_of)

    def run_in_turns(self, Graph of not None) -> None:
        """Its launches and those of another graph run one after the other; to be called before it is launched."""
        check(vyc_graph_in_turns(self._h, of._h))

    def info(self) -> dict[str, int]:
        cdef vyc_graph_info info
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        check(vyc_graph_info_get(self._h, &info))
        values = dict(info)
        del values["struct_size"]
        return values

    def nodes(self) -> list[Node]:
        """The driver's nodes: kind, step, the enclosing loop, the nodes that it depends on."""
        cdef vyc_graph_node node
        cdef uint32_t count = 0
        cdef uint32_t room = self.info()["edge_count"]
        cdef uint32_t *edges = <uint32_t *>malloc((room + 1) * sizeof(uint32_t))
        found = []
        if edges == NULL:
            raise MemoryError
        try:
            memset(&node, 0, sizeof(node))
            node.struct_size = sizeof(node)
            for index in range(self.info()["node_count"]):
                check(vyc_graph_node_get(self._h, &node, &count, edges, room, index))
                behind = tuple(sorted(edges[i] for i in range(min(count, room))))
                parent = None if node.parent == NO_NODE else node.parent
                found.append(Node(KINDS[node.kind], node.step, parent, behind))
        finally:
            free(edges)
        return found


cdef vyc_graph_change *changes_of(list changes) except NULL:
    cdef vyc_graph_change *made = <vyc_graph_change *>malloc((len(changes) + 1) * sizeof(vyc_graph_change))
    cdef Py_ssize_t i = 0
    if made == NULL:
        raise MemoryError
    for step, values in changes:
        memset(&made[i], 0, sizeof(made[i]))
        made[i].step = step
        if isinstance(values, Arguments):
            made[i].run = &(<Arguments>values).run
        else:
            made[i].transfer = &(<Transfer>values).transfer
        i += 1
    return made


# Where the last launch of several graphs came from.
cdef Seen *_together = NULL


def launch_together(list graphs not None, list changes, list streams) -> None:
    """Launch graphs of different devices, all or none; `changes` (what `Graph.launch` takes) and `streams` have one for
    each, or are None."""
    cdef vyc_graph_part parts[VYC_MOST_TOGETHER]
    cdef uint32_t count = 0
    cdef uint32_t launched = 0
    cdef uint32_t origin = origin_of(&_together)
    cdef Graph graph
    cdef Stream stream
    cdef list of_graph
    cdef vyc_status status
    if len(graphs) > VYC_MOST_TOGETHER:
        raise ValueError(
            f"{len(graphs)} graphs; {VYC_MOST_TOGETHER} at most can be launched together: "
            "launch the others in another call"
        )
    memset(parts, 0, sizeof(parts[0]) * len(graphs))
    try:
        for graph in graphs:
            parts[count].struct_size = sizeof(vyc_graph_part)
            parts[count].graph = graph._h
            if changes is not None and len(<list?>changes[count]) > 0:
                of_graph = changes[count]
                parts[count].change_count = len(of_graph)
                parts[count].changes = changes_of(of_graph)
            if streams is not None and streams[count] is not None:
                stream = streams[count]
                parts[count].stream = stream._h
            count += 1
        with nogil:
            status = vyc_graph_launch_together(parts, count, &launched, origin)
    finally:
        for i in range(len(graphs)):
            free(<void *>parts[i].changes)
    check(status)
    if changes is not None:
        for graph, of_graph in zip(graphs, changes):
            graph.keep_changes(of_graph)


# ---- replaying -------------------------------------------------------------------------------------------------------


cdef class Replayer:
    """A recording: `_users` are the steps of each symbol, `_values` their values, `_native` the driver's graph or
    None. `_is_behind`: the next replay with values has more to do than to launch it. Subclasses supply `_replay`, for
    replays that need more than one launch, and its errors.
    """

    def __init__(self, Context context not None) -> None:
        self._context = context
        self._users = {}
        self._values = {}


cdef object replay_plain(object self, PyObject *const *args, Py_ssize_t n, PyObject *names):
    """`Graph.replay(*, stream=None, **symbols)` without a frame where no symbol is given or missing."""
    cdef Replayer graph = <Replayer>self
    cdef tuple keys = () if names == NULL else <tuple>names
    cdef object stream = None
    cdef Stream on
    if n > 0:
        raise TypeError(
            f"replay() takes symbols by name, not by position ({counted(n, 'argument')} given): "
            "write replay(name=value)"
        )
    if len(keys) == 1 and keys[0] == "stream":
        stream = <object>args[0]
    elif len(keys) > 0:
        return replay_at_length(graph, args, keys)
    if graph._native is None or len(graph._users) > len(graph._values) or load(graph._context._recordings) != 0:
        return replay_at_length(graph, args, keys)
    on = stream_of(graph._context, stream)
    graph._native.launch_as_is(on)
    return None


cdef object replay_at_length(Replayer graph, PyObject *const *args, tuple keys):
    cdef Graph built = graph._native
    cdef dict given
    if built is not None and not graph._is_behind and load(graph._context._recordings) == 0:
        if len(keys) > 0 and built.launch_with(graph, args, keys):
            return None
    given = {keys[i]: <object>args[i] for i in range(len(keys))}
    graph._replay(given.pop("stream", None), given)
    return None


# With the interpreter's fast calling convention: no dict per replay.
cdef PyMethodDef replay_def
replay_def.ml_name = b"replay"
replay_def.ml_meth = <void *>replay_plain
replay_def.ml_flags = METH_FASTCALL | METH_KEYWORDS
replay_def.ml_doc = b"""replay(*, stream=None, **symbols)

Launch the graph and do not wait, in the order of the stream or of the device.

Replays of one graph run one after the other. Arrays of other sizes change the sizes and the grid of their
launches; nothing is instantiated again, unless an array becomes empty or shares memory with steps that it did
not share with. In a recording the steps are recorded, with the current values of symbols; later updates of this
graph do not change them.

Parameters
----------
stream
    A stream of this device, or anything that `launch` takes. A stream that is being captured takes the graph into the
    capture, with the values of this replay, and keeps what they use.
**symbols
    Values for this replay, by name; in a recording also symbols of the graph that is recorded.

Raises
------
RecordingError
    The graph is still being recorded, or a stream is named in a recording.
TypeError, ValueError, OverflowError
    A symbol is unknown or has no value, or a value does not fit its steps.
Error
    At the first replay those of `Graph.compile`."""
replay = PyDescr_NewMethod(<PyTypeObject *>Replayer, &replay_def)
