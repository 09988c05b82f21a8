"""Requests that are almost right: random messages of every API and version, bent in the ways that break parsers.

Seeded: the same seed gives the same frames, so a failure can be repeated from the number it prints.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import UNBOUNDED, Message
from penstock.protocol.records import Record, build_batch

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
# Bytes at which parsers change their mind: lengths of null, of the sign bit, of one more and one less.
_INTERESTING = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)


class FuzzedFrame(NamedTuple):
    api: str
    version: int
    data: bytes  # with its size in front
    is_valid: bool  # as it was encoded; it may be nonsense all the same


class Fuzzer:
    """`names` are the topics, groups and members that requests speak of; nobody else should use them.

    `fixed` sets fields by name wherever they occur, for instance `validate_only` where creating would go too far.
    """

    def __init__(
        self,
        seed: int,
        requests: Sequence[tuple[type[Message], int, int]],
        names: Sequence[str],
        topic_ids: Sequence[bytes] = (),
        fixed: dict[str, Any] | None = None,
    ) -> None:
        self._dice = random.Random(seed)
        self._requests = requests
        self._names = [*names, "", "\N{BEAR FACE}", "n" * 300]
        self._topic_ids = [*topic_ids, bytes(16), b"\xff" * 16]
        self._fixed = fixed or {}

    def frames(self, count: int, valid_share: float = 0.2) -> Iterator[FuzzedFrame]:
        for number in range(count):
            # Every API and version comes up, however few frames are asked for.
            request, low, high = self._requests[number % len(self._requests)]
            version = low + (number // len(self._requests)) % (high - low + 1)
            payload = self._payload(request, version)
            is_valid = self._dice.random() < valid_share
            if not is_valid:
                payload = self._mutate(payload)
            yield FuzzedFrame(request.__name__, version, struct.pack(">i", len(payload)) + payload, is_valid)

    def _payload(self, request: type[Message], version: int) -> bytes:
        dice = self._dice
        client_id = dice.choice((None, "", "fuzzer", "f" * 500))
        flexible = version >= request.FLEXIBLE_FROM
        head = encode_request_header(request.API_KEY, version, dice.randrange(-1, 1 << 31), client_id, flexible)
        return head + encode(self.message(request, version), version)

    # ---- random messages

    def message(self, kind: type[Message], version: int) -> Message:
        values = {}
        for name, field_kind, versions, nullable, _, tagged, _ in kind.FIELDS:
            if name in self._fixed:
                values[name] = self._fixed[name]
            elif _holds(versions, version) or _holds(tagged, version):
                values[name] = self._value(field_kind, version, _holds(nullable, version))
        return kind(**values)

    def _value(self, kind: Any, version: int, is_nullable: bool) -> Any:
        dice = self._dice
        if is_nullable and dice.random() < 0.15:
            return None
        if isinstance(kind, list):
            return [self._value(kind[0], version, False) for _ in range(dice.choice((0, 1, 1, 1, 2, 3)))]
        if isinstance(kind, type):
            return self.message(kind, version)
        return self._scalar(kind)

    def _scalar(self, kind: str) -> Any:
        dice = self._dice
        if kind in _BITS:
            edge = 1 << (_BITS[kind] - 1)
            return dice.choice((-1, 0, 0, 1, 1, 2, dice.randrange(100), -edge, edge - 1, dice.randrange(-edge, edge)))
        if kind in _UNSIGNED_BITS:
            return dice.randrange(1 << _UNSIGNED_BITS[kind])
        choices: dict[str, Callable[[], Any]] = {
            "bool": lambda: dice.random() < 0.5,
            "float64": lambda: dice.choice((0.0, 1e300, float("nan"), float("-inf"))),
            "string": lambda: dice.choice(self._names),
            "bytes": lambda: dice.randbytes(dice.choice((0, 1, 10, 200))),
            "uuid": lambda: dice.choice(self._topic_ids),
            "records": self._records,
        }
        return choices[kind]()

    def _records(self) -> bytes:
        """Sometimes a batch, sometimes one with wrong bytes in it, sometimes none at all."""
        dice = self._dice
        if dice.random() < 0.2:
            return dice.randbytes(dice.choice((0, 5, 61, 100)))
        records = [Record(b"k", dice.randbytes(20), (), dice.choice((0, 1 << 40)))] * 2
        if dice.random() < 0.5:
            batch = build_batch(records)
        else:
            batch = build_batch(records, producer_id=4, producer_epoch=0, base_sequence=dice.randrange(3))
        return self._mutate(batch) if dice.random() < 0.5 else batch

    # ---- mutations

    def _mutate(self, data: bytes) -> bytes:
        mutated = bytearray(data)
        for _ in range(self._dice.choice((1, 1, 2, 3, 6))):
            self._dice.choice(_MUTATIONS)(self._dice, mutated)
        return bytes(mutated) or b"\0"


def _holds(versions: tuple[int, int] | None, version: int) -> bool:
    return versions is not None and versions[0] <= version <= min(versions[1], UNBOUNDED)


def _place(dice: random.Random, data: bytearray) -> int:
    """More often near the front, where headers and lengths are."""
    return min(dice.randrange(len(data) + 1), dice.randrange(len(data) + 1)) if data else 0


def _set_byte(dice: random.Random, data: bytearray) -> None:
    if data:
        data[_place(dice, data) % len(data)] = dice.choice(_INTERESTING)


def _flip_bit(dice: random.Random, data: bytearray) -> None:
    if data:
        data[_place(dice, data) % len(data)] ^= 1 << dice.randrange(8)


def _set_number(dice: random.Random, data: bytearray) -> None:
    width, layout = dice.choice(((2, ">H"), (4, ">I")))
    edge = 1 << (8 * width - 1)
    place = _place(dice, data)
    data[place : place + width] = struct.pack(layout, dice.choice((0, 1, edge - 1, edge, 2 * edge - 1, len(data))))


def _set_varint(dice: random.Random, data: bytearray) -> None:
    place = _place(dice, data)
    data[place : place + 5] = dice.choice(
        (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x08")
    )


def _truncate(dice: random.Random, data: bytearray) -> None:
    del data[_place(dice, data) :]


def _append(dice: random.Random, data: bytearray) -> None:
    data += dice.randbytes(dice.choice((1, 2, 8, 300)))


def _insert(dice: random.Random, data: bytearray) -> None:
    place = _place(dice, data)
    data[place:place] = bytes(dice.choice(_INTERESTING) for _ in range(dice.choice((1, 2, 4, 8))))


def _remove(dice: random.Random, data: bytearray) -> None:
    place = _place(dice, data)
    del data[place : place + dice.choice((1, 2, 4, 8))]


def _repeat(dice: random.Random, data: bytearray) -> None:
    start = _place(dice, data)
    data[start:start] = data[start : start + dice.randrange(1, 40)]


_MUTATIONS = (_set_byte, _flip_bit, _set_number, _set_varint, _truncate, _append, _insert, _remove, _repeat)
