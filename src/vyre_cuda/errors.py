"""Every exception that the package raises on purpose, and how messages name types and numbers.

All derive from `Error`. Each class has a stable `code`, meant for programs; the message is meant for people and
carries the numbers. A wrong argument of a call is a `TypeError` (arity, dtype, kind) or a `ValueError` (size, shape,
contiguity) of Python itself, as NumPy users expect, and not defined here.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.records import FrozenRecord

# What every use of a freed array says.
FREED = "the array was freed: make another one, and free it after its last use"


def type_name(value: object) -> str:
    """The type of a value with its article, for messages: "an int"; "None" for None."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeio" or name == "ndarray" else f"a {name}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number and the noun that goes with it, for messages: "1 element", "2 elements"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


class Error(Exception):
    """Base of every error of this package."""

    code = "error"

    def __reduce__(self) -> tuple[object, ...]:
        """How to rebuild the same error in another process."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[Error], args: tuple[object, ...], state: dict[str, object]) -> Error:
    # Attributes are named after the arguments that they come from.
    code = getattr(kind.__init__, "__code__", None)
    taken = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    error = kind(*args, **{name: state[name] for name in taken if name in state})
    error.__dict__.update(state)
    return error


class Diagnostic(FrozenRecord):
    """One mistake in a program, and where it is.

    `path` leads to the statement: it alternates a statement index and the name of a nested body ("then", "orelse",
    "body", "setup"); `operand` narrows it to one operand. `source` is the Python or text line that built the node. In a
    kernel function, `column` (from 1, in bytes of UTF-8) and `expression` are where on that line, and what is there.
    """

    message: str
    path: tuple[int | str, ...] = ()
    operand: int | None = None
    source: tuple[str, int] | None = None
    column: int | None = None
    expression: str | None = None


class ProgramError(Error):
    """A program, its text or its wire bytes are not valid. `diagnostics` holds every finding."""

    code = "program"

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class Limit(FrozenRecord):
    """One limit of a launch: how much is `required` and `available`, and which parameters `change` that."""

    name: str
    required: int
    available: int
    change: str

    @property
    def is_exceeded(self) -> bool:
        """Whether more is required than available."""
        return self.required > self.available

    def __str__(self) -> str:
        return f"{self.name}: {self.required} required, {self.available} available; change {self.change}"


class CommunicationError(Error):
    """Collectives failed, or were ended because a rank is gone or late; their results are unspecified.

    `ranks` are those that are known to be gone, in errors of calls of the group; those of waits for the device name
    them in the message alone.
    """

    code = "communication"

    def __init__(self, message: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)


class UnsupportedError(Error):
    """This device, driver or target cannot do what was asked. `capability` names what is missing.

    `limits` are all the limits that a launch would exceed.
    """

    code = "unsupported"

    def __init__(self, message: str, *, capability: str, limits: Sequence[Limit] = ()) -> None:
        super().__init__(message)
        self.capability = capability
        self.limits = tuple(limits)


class DeviceUnavailableError(Error):
    """No driver, no device, a wrong ordinal, a closed device or a forked child; the message says what was sought."""

    code = "device_unavailable"


class DeviceLostError(DeviceUnavailableError):
    """A kernel fault or the driver ended this device's context; only a new process recovers it.

    `launches` are those not known to have finished, newest first on each stream, with
    their arguments and the lines that made them: one of them is the cause.
    """

    code = "device_lost"

    def __init__(self, message: str, *, launches: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.launches = tuple(launches)


class ResourceError(Error, MemoryError):
    """The device or the host ran out of memory.

    For device or page-locked memory, the message has the bytes requested, live, idle in the pool and free on
    the device.
    """

    code = "resource"


class DriverError(Error):
    """A driver call failed. `op` is the call, `status` its CUresult, `name` the CUresult's name."""

    code = "driver"

    def __init__(self, message: str, *, op: str = "", status: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.op = op
        self.status = status
        self.name = name


class CompileLocation(FrozenRecord):
    """What the driver's compiler said about one line of PTX, and the statement that the line belongs to.

    `line` counts from 1. `statement` is the text of the statement, "" where the line belongs to none, such as
    the header; `source` is the line of Python or of the program's text that it was written in.
    """

    message: str
    line: int
    instruction: str
    statement: str
    source: tuple[str, int] | None


class CompileError(DriverError):
    """The driver rejected the kernel's PTX. `log` is the compiler's output, `ptx` the text it was given.

    `locations` are the lines of the log that name a line of that text, with the statements of the program.
    """

    code = "compile"

    def __init__(
        self,
        message: str,
        *,
        op: str = "",
        status: int = 0,
        name: str = "",
        log: str = "",
        ptx: str = "",
        locations: Sequence[CompileLocation] = (),
    ) -> None:
        super().__init__(message, op=op, status=status, name=name)
        self.log = log
        self.ptx = ptx
        self.locations = tuple(locations)


class BundleError(Error):
    """Not a bundle, or one that is truncated, damaged or inconsistent; the message says where."""

    code = "bundle"


class BundleVersionError(BundleError):
    """A bundle in a newer format than this version reads."""

    code = "bundle_version"


class KernelAssertionError(Error):
    """An `assert_` of a program, or a bounds check compiled with bounds="trap", failed on the device.

    `message`, `program`, `statement` and `source` say which; `thread` is the linear id of the first thread
    (lowest id) that reported it, `index` the index that was out of range (None for an `assert_`).
    """

    code = "kernel_assertion"

    def __init__(
        self,
        text: str,
        *,
        message: str,
        program: str,
        statement: int,
        thread: int,
        source: tuple[str, int] | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(text)
        self.message = message
        self.program = program
        self.statement = statement
        self.thread = thread
        self.source = source
        self.index = index


class RacingAccess(FrozenRecord):
    """One of the two accesses of a data race: `thread` of `block` as (x, y, z), and the instruction that it ran.

    `statement` is its number in the program, in pre-order from 0; None for code that belongs to no statement.
    """

    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    instruction: str
    statement: int | None
    source: tuple[str, int] | None


class DataRaceError(Error):
    """Two threads accessed one element, at least one wrote, and nothing ordered them: found by check="races".

    `buffer` names the buffer or shared array, `index` the element; `first` and `second` say who did what, in the order
    in which it happened this time. The kernel's results are unspecified.
    """

    code = "data_race"

    def __init__(
        self, text: str, *, program: str, buffer: str, index: int, first: RacingAccess, second: RacingAccess
    ) -> None:
        super().__init__(text)
        self.program = program
        self.buffer = buffer
        self.index = index
        self.first = first
        self.second = second


class UninitializedError(Error):
    """An element that no thread wrote, of an out with `zeroed=False`, was read or returned: check="initialized".

    `buffer` names the out, `index` the element, counted through all axes. `statement`, its `source` and `thread`, the
    linear id, say who read it; they are None if it was returned.
    """

    code = "uninitialized"

    def __init__(
        self,
        text: str,
        *,
        program: str,
        buffer: str,
        index: int,
        statement: int | None = None,
        thread: int | None = None,
        source: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(text)
        self.program = program
        self.buffer = buffer
        self.index = index
        self.statement = statement
        self.thread = thread
        self.source = source


class KernelTimeoutError(Error, TimeoutError):
    """A wait ended before the kernel did. The kernel may still be running; what it uses is not reused until it ends.

    `launches` are the device's launches not known to have finished, newest first on each stream.
    """

    code = "timeout"

    def __init__(self, message: str, *, launches: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.launches = tuple(launches)


class RecordingError(Error, RuntimeError):
    """Something that cannot be recorded, or a use of a graph that does not fit its state."""

    code = "recording"


class CacheError(Error):
    """A disk cache cannot be used or configured as it is; the message says what to set or change."""

    code = "cache"


class InternalError(Error):
    """A defect in this package. Please report it with the message."""

    code = "internal"
