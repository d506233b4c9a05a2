"""What programs as bytes are made of: numbers, types and names, read from bytes that nobody vouches for."""

from __future__ import annotations

from vyre_cuda.errors import ProgramError, counted
from vyre_cuda.ir.core.types import BY_CODE as TYPE_BY_CODE
from vyre_cuda.ir.core.types import Type

_MAX_VARINT_BYTES = 10


class Units:
    """Reads one unit after the other; `at` is where the next one begins."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.names: list[str] = []
        self.known: set[str] = set()

    def fault(self, message: str) -> ProgramError:
        return ProgramError(f"wire bytes: {message}, at byte {self.at} of {len(self.data)}")

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise self.fault(f"{counted(count, 'more byte')} expected")
        raw = self.data[self.at : end]
        self.at = end
        return raw

    def number(self) -> int:
        if self.at < len(self.data) and self.data[self.at] < 0x80:
            self.at += 1
            return self.data[self.at - 1]
        value = 0
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise self.fault("a number is written with more bytes than it needs")
                return value
        raise self.fault(f"a number is longer than {_MAX_VARINT_BYTES} bytes")

    def below(self, limit: int, what: str) -> int:
        value = self.number()
        if value >= limit:
            raise self.fault(f"{what} is {value}; it must be below {limit}")
        return value

    def count(self, what: str) -> int:
        """A number of things that take a byte each at least."""
        value = self.number()
        if value > len(self.data) - self.at:
            raise self.fault(f"the number of {what} is {value}, too many for the remaining bytes")
        return value

    def type(self) -> Type:
        return self.of_code(self.number())

    def of_code(self, code: int) -> Type:
        if code not in TYPE_BY_CODE:
            raise self.fault(f"unknown type code {code}")
        return TYPE_BY_CODE[code]

    def name(self) -> str:
        number = self.below(len(self.names) + 1, "a name's number")
        if number == len(self.names):
            try:
                name = self.take(self.number()).decode()
            except UnicodeDecodeError:
                raise self.fault("a name is not UTF-8") from None
            if name in self.known:
                raise self.fault("a name is defined twice")
            self.known.add(name)
            self.names.append(name)
        return self.names[number]
