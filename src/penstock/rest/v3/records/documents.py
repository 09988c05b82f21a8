"""Cuts a stream of bytes into JSON objects, wherever its chunks end. Pure.

Rules:
- Objects follow each other directly, or with white space between (a newline after each, mostly).
- An object ends where its braces are balanced; braces in strings do not count. The cutter checks nothing else: the
  decoder of the object finds its errors.
- Each byte is read twice at most, also when an object comes in a thousand chunks.
- An object of more than `most_bytes` is refused when its bytes are that many, not when it ends.
- Bytes behind an error are not cut: the start of the next object is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUOTE, _BEGIN = b'"{'
_NOT_WHITE = re.compile(rb"[^ \t\r\n]")
# Up to the next brace, or to a string that has an escape or goes on in the next chunk. Without the possessive forms a
# string that does not end would be tried at each of its bytes.
_PLAIN = re.compile(rb'(?:[^"{}]++|"[^"\\]*+")*+')
_INSIDE = re.compile(rb'["\\]')


class CutError(ValueError):
    """The stream cannot be cut any further. `is_too_large` distinguishes an object beyond the limit from bytes that are
    no object.
    """

    def __init__(self, text: str, *, is_too_large: bool = False) -> None:
        super().__init__(text)
        self.is_too_large = is_too_large


class Documents:
    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._begun: list[bytes] = []  # chunks of an object that has not ended
        self._begun_size = 0
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False  # the last byte of the last chunk was a backslash in a string
        self._is_broken = False

    @property
    def begun_size(self) -> int:
        """The kept bytes of an object that has not ended."""
        return self._begun_size

    def cut(self, chunk: bytes) -> Iterator[bytes]:
        """The objects that end in this chunk. Raises CutError behind the last one that can be cut."""
        position = begin = 0
        while True:
            if self._is_broken:
                return
            if self._depth == 0:
                found = _NOT_WHITE.search(chunk, position)
                if found is None:
                    return
                begin = position = found.start()
                if chunk[begin] != _BEGIN:
                    self._is_broken = True
                    raise CutError("a JSON object is expected")
            end = self._scan(chunk, position)
            size = self._begun_size + (len(chunk) if end is None else end) - begin
            if size > self._most_bytes:
                self._is_broken = True
                raise CutError(f"an object of more than {self._most_bytes} bytes", is_too_large=True)
            if end is None:
                self._begun.append(chunk[begin:])
                self._begun_size = size
                return
            document = b"".join([*self._begun, chunk[begin:end]]) if self._begun else chunk[begin:end]
            self._begun.clear()
            self._begun_size = 0
            position = begin = end
            yield document

    def finish(self) -> None:
        """Raises CutError where the stream ends inside of an object."""
        if self._depth and not self._is_broken:
            self._is_broken = True
            raise CutError("the last JSON object does not end")

    def _scan(self, chunk: bytes, position: int) -> int | None:
        """The end of the object, or None: it goes on in the next chunk.

        Costs 4 us for an object of 100 bytes with ten strings. A search for each quote took 10. The records of a stream
        cost some 15 us each beside it, without the broker.
        """
        size = len(chunk)
        if self._is_escaped and position < size:
            self._is_escaped = False
            position += 1
        while True:
            if self._is_in_string:
                found = _INSIDE.search(chunk, position)
                if found is None:
                    return None
                position = found.end()
                if chunk[position - 1] == _QUOTE:
                    self._is_in_string = False
                elif position == size:
                    self._is_escaped = True
                    return None
                else:
                    position += 1
                continue
            found = _PLAIN.match(chunk, position)
            assert found is not None, "nothing at all is plain"
            position = found.end() + 1
            if position > size:
                return None
            byte = chunk[position - 1]
            if byte == _QUOTE:
                self._is_in_string = True
            elif byte == _BEGIN:
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    return position
