"""The operations of a coordinator. Each coordinator has a table of these; `Shards` performs them.

A decision, its append and its replay are one turn of the event loop. For thousands of records the turn would be too
long, so all work that needs no decision happens before, in slices: the encoding of the records, and the creation of the
objects for replay. `Prepared.decide` then checks the state again, because other requests had their turns meanwhile. If
the state needs other records than the prepared ones, there is no decision, and the runtime prepares again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.coordinators.outcome import CoordinatorRecord, Outcome, Result, Token
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import EncodedRecords, Record, encode_record

ShardType = TypeVar("ShardType")  # the shard
OutcomeType = TypeVar("OutcomeType", bound=Outcome[Any])  # the outcome
SettingsType = TypeVar("SettingsType")  # the settings
RequestType = TypeVar("RequestType")  # the request
ResultType = TypeVar("ResultType", bound=Result)  # its result, which may have to wait
AnswerType = TypeVar("AnswerType")  # the result of a query

Shard_contra = TypeVar("Shard_contra", contravariant=True)
Outcome_co = TypeVar("Outcome_co", bound=Outcome[Any], covariant=True)
Result_co = TypeVar("Result_co", bound=Result, covariant=True)  # of a token, which takes it


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None = None


class Prepared(Protocol[Shard_contra, Outcome_co, Result_co]):
    """A request with all its prepared parts."""

    def decide(self, shard: Shard_contra, token: Token[Result_co], now_ms: int) -> Outcome_co | None:
        """None if the state has changed so that other records are needed. ApiError refuses the request."""


def encode_records(records: Iterable[CoordinatorRecord | None], now_ms: int) -> Generator[None, None, EncodedRecords]:
    """The records of a prepared batch. One step for each of them, and for each None, which stands for an element
    without a record.
    """
    encoded: list[bytes] = []
    for record in records:
        if record is not None:
            encoded.append(encode_record(Record(*record), len(encoded), 0))
        yield
    return EncodedRecords(b"".join(encoded), len(encoded), now_ms)


@dataclass(frozen=True, slots=True)
class Operation(Generic[ShardType, OutcomeType, SettingsType, RequestType, ResultType]):
    """A request that may write."""

    key: Callable[[RequestType], str]  # the key selects the shard
    check: Callable[[RequestType, SettingsType], Refusal | None]  # the error of a request that is wrong in any shard
    run: Callable[
        [ShardType, Token[ResultType], RequestType, int], OutcomeType
    ]  # ... at that time; ApiError refuses the request
    refuse: Callable[[RequestType, Refusal], ResultType]
    # For a request that may have thousands of elements: prepares in steps the data for `run`. None: the decision is
    # always a small one.
    prepare: (
        Callable[
            [ShardType, RequestType, int], Generator[None, None, Prepared[ShardType, OutcomeType, ResultType] | None]
        ]
        | None
    ) = None


@dataclass(frozen=True, slots=True)
class Query(Generic[ShardType, RequestType, AnswerType]):
    """A request that only reads."""

    key: Callable[[RequestType], str]
    check: Callable[[RequestType], Refusal | None]
    look: Callable[[ShardType, RequestType], AnswerType]  # ApiError refuses the request
    refuse: Callable[[RequestType, Refusal], AnswerType]
