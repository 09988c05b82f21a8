"""Requests that are almost right: random messages of every API and version, bent in the ways that break parsers.

Seeded: the same seed gives the same frames, so a failure can be repeated from the number it prints.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, compute_crc
from penstock.protocol.codec import encode
from penstock.protocol.compression import Codec
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.records import Record, build_batch

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
# Bytes at which parsers change their mind: lengths of null, of the sign bit, of one more and one less.
_INTERESTING = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)
# Payloads kept of each API and version, to be mutated again: enough that every field has been set to several values.
_POOL_SIZE = 8
_CRC_POSITION = 17  # of a batch
_HEADER_SIZE = 8  # of a request, without its client id


class FuzzedFrame(NamedTuple):
    api: str
    version: int
    data: bytes  # with its size in front
    is_valid: bool  # as it was encoded; it may be nonsense all the same


class Fuzzer:
    """`names` are the topics, groups and members that requests speak of; nobody else should use them.

    `fixed` says what fields of a name may hold wherever they occur, for instance where any number would go too far.
    """

    def __init__(
        self,
        seed: int,
        requests: Sequence[tuple[type[Message], int, int]],
        names: Sequence[str],
        topic_ids: Sequence[bytes] = (),
        fixed: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._dice = random.Random(seed)
        self._requests = requests
        self._names = [*names, "", "\N{BEAR FACE}", "n" * 300]
        self._topic_ids = [*topic_ids, bytes(16), b"\xff" * 16]
        self._fixed = fixed or {}
        self._pools: dict[tuple[type[Message], int], list[bytes]] = {}

    def frames(self, count: int, valid_share: float = 0.2, fresh_share: float = 1.0) -> Iterator[FuzzedFrame]:
        """With a `fresh_share` below 1, the other frames are made from earlier ones, which is ten times as fast."""
        for number in range(count):
            # Every API and version comes up, however few frames are asked for.
            request, low, high = self._requests[number % len(self._requests)]
            version = low + (number // len(self._requests)) % (high - low + 1)
            payload = self._take_payload(request, version, fresh_share)
            is_valid = self._dice.random() < valid_share
            if not is_valid:
                payload = self._mutate_request(payload)
            yield FuzzedFrame(request.__name__, version, struct.pack(">i", len(payload)) + payload, is_valid)

    def _mutate_request(self, payload: bytes) -> bytes:
        """Mutates mostly behind API key, version and correlation id: a header without sense is refused at once."""
        if self._dice.random() < 0.3:
            return self.mutate(payload)
        return payload[:_HEADER_SIZE] + self.mutate(payload[_HEADER_SIZE:])

    def _take_payload(self, request: type[Message], version: int, fresh_share: float) -> bytes:
        pool = self._pools.setdefault((request, version), [])
        if fresh_share < 1 and len(pool) >= _POOL_SIZE and self._dice.random() >= fresh_share:
            return self._dice.choice(pool)
        payload = self._payload(request, version)
        if len(pool) < _POOL_SIZE:
            pool.append(payload)
        else:
            pool[self._dice.randrange(_POOL_SIZE)] = payload
        return payload

    def _payload(self, request: type[Message], version: int) -> bytes:
        dice = self._dice
        client_id = dice.choice((None, "", "fuzzer", "f" * 500))
        flexible = version >= request.FLEXIBLE_FROM
        head = encode_request_header(request.API_KEY, version, dice.randrange(-1, 1 << 31), client_id, flexible)
        return head + encode(self.message(request, version), version)

    # ---- random messages

    def message(self, kind: type[Message], version: int) -> Message:
        values = {}
        for field in kind.FIELDS:
            if field.attribute in self._fixed:
                values[field.attribute] = self._dice.choice(self._fixed[field.attribute])
            elif field.is_in(version) or field.is_tagged(version):
                values[field.attribute] = self._value(field.kind, version, field.is_nullable(version))
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
        """A batch, often damaged, and now and then bytes of chance instead."""
        dice = self._dice
        if dice.random() < 0.1:
            return dice.randbytes(dice.choice((0, 5, 61, 100)))
        return self.batch()

    def batch(self) -> bytes:
        """Of every codec, transactional or not; half of them damaged, and most of those with the checksum made right
        again, so that what is behind it is tried as well.
        """
        dice = self._dice
        records = [Record(b"k", dice.randbytes(20), (("h", b"v"),), dice.choice((0, 1 << 40)))] * dice.randrange(1, 4)
        options: dict[str, Any] = {"codec": dice.choice((0, 0, *Codec))}
        if dice.random() < 0.5:
            options |= {"producer_id": dice.choice((0, 4)), "producer_epoch": 0, "base_sequence": dice.randrange(3)}
            options["is_transactional"] = dice.random() < 0.3
        batch = build_batch(records, **options)
        if dice.random() < 0.5:
            return batch
        damaged = self.mutate(batch)
        return damaged if dice.random() < 0.3 else _seal(damaged)

    # ---- mutations

    def mutate(self, data: bytes) -> bytes:
        mutated = bytearray(data)
        for _ in range(self._dice.choice((1, 1, 2, 3, 6))):
            self._dice.choice(_MUTATIONS)(self._dice, mutated)
        return bytes(mutated) or b"\0"


def _seal(batch: bytes) -> bytes:
    """The batch with the length and the checksum that fit its content."""
    if len(batch) < HEADER_SIZE:
        return batch
    sealed = bytearray(batch)
    struct.pack_into(">i", sealed, 8, len(batch) - LOG_OVERHEAD)
    sealed[16] = MAGIC
    struct.pack_into(">I", sealed, _CRC_POSITION, compute_crc(sealed, 0, len(sealed)))
    return bytes(sealed)


def _place(dice: random.Random, data: bytearray) -> int:
    """A position in the data, more often near the front, where headers and lengths are."""
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
    data[place : place + width] = struct.pack(
        layout, dice.choice((0, 1, edge - 1, edge, 2 * edge - 1, len(data) % edge))
    )


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
