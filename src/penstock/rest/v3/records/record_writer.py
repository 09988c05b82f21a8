"""Writes records of one caller to one topic: the error of a record is that record's answer, and the others go on.

Records that come together become one batch for each partition. A broker refuses a batch as a whole, also where one
record of it is at fault: parts of a batch that is refused for its content are sent again, before later records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from penstock.core.clock import Clock
from penstock.protocol.errors import ApiError
from penstock.rest.errors import PARTITION_NOT_FOUND, RestError, of_exception
from penstock.rest.fair_yield import FairYield
from penstock.rest.formats.formats import WriteRight
from penstock.rest.formats.payloads import Payloads
from penstock.rest.number_texts import reason_of
from penstock.rest.record_producer import Outcome, Outgoing, Written
from penstock.rest.v3.bodies import NewRecordBody
from penstock.rest.v3.calls import check_text
from penstock.rest.v3.rates import Rates
from penstock.rest.v3.records.documents import CutError
from penstock.rest.v3.records.entries import Entry, make_entry, show_time
from penstock.rest.v3.shapes import Produced

Made: TypeAlias = Entry | RestError

_OK = 200
# The number of records to read, or to answer, in one turn of the loop: each takes some ten microseconds.
SLICE: Final = 100
# Encoded bytes are written before more records are encoded: records may be much larger than their JSON.
_STEP_BYTES: Final = 1024 * 1024
_decode = msgspec.json.Decoder(NewRecordBody).decode


class MalformedError(RestError):
    """A document is no JSON. The bytes behind it in a stream may be anything."""


class WriteStep(NamedTuple):
    """Records that are written together."""

    made: list[Made]
    size: int  # the size of their JSON, or the bytes of the records where these are more
    failure: RestError | None = None  # the error behind them
    is_last: bool = True  # of what has come so far


class RecordWriter(Protocol):
    """The methods of `rest.record_producer.Producer` for a caller."""

    async def count_partitions(self, topic: str) -> int:
        """Raises RestError, ApiError and OSError."""
        ...

    async def produce(self, topic: str, records: Sequence[Outgoing]) -> list[Outcome]:
        """Raises RestError, ApiError and OSError."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a call, and its caller."""

    cluster_id: str
    topic: str
    caller: str
    producer: RecordWriter
    payloads: Payloads
    right: WriteRight
    rates: Rates
    clock: Clock
    fair_yield: FairYield = field(default_factory=FairYield)

    async def make(self, body: NewRecordBody, size: int) -> Made:
        """`size` is the size of the JSON; a caller is limited by that, or by the size of the record where it is
        larger.
        """
        try:
            self.rates.spend_record(self.caller, size)
            entry = await make_entry(body, self.topic, self.payloads, self.right, self.clock.now_ms())
            if entry.size > size:
                self.rates.add_bytes(self.caller, entry.size - size)
            return entry
        except RestError as error:
            return error
        except RecursionError:
            return RestError(400, "Bad Request: the JSON is nested too deeply")

    async def read(self, document: bytes) -> Made:
        """Raises MalformedError for bytes that are no JSON at all."""
        try:
            check_text(document)
            body = _decode(document)
        except RestError as error:
            return error
        except msgspec.ValidationError as error:
            return RestError(400, f"Bad Request: {reason_of(error)}")
        except msgspec.DecodeError as error:
            raise MalformedError(400, f"Bad Request: {error}") from None
        except RecursionError:
            return RestError(400, "Bad Request: the JSON is nested too deeply")
        return await self.make(body, len(document))

    async def read_step(self, documents: Iterator[bytes]) -> WriteStep:
        """Reads until the records are enough for a step, or up to the first that cannot be cut or is no JSON."""
        made: list[Made] = []
        size = 0
        try:
            for document in documents:
                if made and len(made) % SLICE == 0:
                    await self.fair_yield.take()
                each = await self.read(document)
                made.append(each)
                size += max(len(document), each.size if isinstance(each, Entry) else 0)
                if size > _STEP_BYTES:
                    return WriteStep(made, size, None, is_last=False)
        except CutError as error:
            return WriteStep(made, size, RestError(413 if error.is_too_large else 400, f"Bad Request: {error}"))
        except MalformedError as error:
            return WriteStep(made, size, error)
        return WriteStep(made, size)

    async def write(self, made: Sequence[Made]) -> list[Outcome]:
        """The outcome of each, in their order."""
        outcomes: list[Outcome | None] = [each if isinstance(each, RestError) else None for each in made]
        places = [index for index, each in enumerate(made) if isinstance(each, Entry)]
        if places:
            try:
                count = await self.producer.count_partitions(self.topic)
                places = self._check_partitions(made, places, count, outcomes)
                entries = [each for each in map(made.__getitem__, places) if isinstance(each, Entry)]
                outgoing = [each.outgoing for each in entries]
                written = await self.producer.produce(self.topic, outgoing) if entries else []
            except (RestError, ApiError, OSError) as error:
                known = of_exception(error)
                assert known is not None, "errors of brokers and of connections are known"
                written = [known] * len(places)
            for index, outcome in zip(places, written, strict=True):
                outcomes[index] = outcome
        return [each for each in outcomes if each is not None]

    @staticmethod
    def _check_partitions(
        made: Sequence[Made], places: list[int], count: int, outcomes: list[Outcome | None]
    ) -> list[int]:
        good: list[int] = []
        for index in places:
            entry = made[index]
            partition = entry.outgoing.partition if isinstance(entry, Entry) else None
            if partition is not None and partition >= count:
                outcomes[index] = RestError(PARTITION_NOT_FOUND, "Partition not found.")
            else:
                good.append(index)
        return good

    def describe(self, made: Made, outcome: Outcome) -> Produced:
        if isinstance(outcome, RestError) or isinstance(made, RestError):
            error = outcome if isinstance(outcome, RestError) else made
            assert isinstance(error, RestError)
            return Produced(error_code=error.code, message=error.message)
        assert isinstance(outcome, Written)
        return Produced(
            error_code=_OK,
            cluster_id=self.cluster_id,
            topic_name=self.topic,
            partition_id=outcome.partition,
            offset=outcome.offset,
            timestamp=show_time(made, outcome),
            key=made.key,
            value=made.value,
        )
