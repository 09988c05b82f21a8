"""What may be asked of a coordinator. Each coordinator has a table of these; `Shards` performs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penstock.coordinators.outcome import Result, Token
from penstock.protocol.errors import ErrorCode

ShardType = TypeVar("ShardType")  # the shard
OutcomeType = TypeVar("OutcomeType")  # the outcome
SettingsType = TypeVar("SettingsType")  # the settings
RequestType = TypeVar("RequestType")  # the request
ResultType = TypeVar("ResultType", bound=Result)  # its result, which may have to wait
AnswerType = TypeVar("AnswerType")  # what a query finds


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[ShardType, OutcomeType, SettingsType, RequestType, ResultType]):
    """A request that may write."""

    key: Callable[[RequestType], str]  # decides which shard has it
    check: Callable[[RequestType, SettingsType], Refusal | None]  # what is wrong with the request wherever its shard is
    run: Callable[
        [ShardType, Token[ResultType], RequestType, int], OutcomeType
    ]  # ... at that time; ApiError refuses the request
    refuse: Callable[[RequestType, Refusal], ResultType]


@dataclass(frozen=True, slots=True)
class Query(Generic[ShardType, RequestType, AnswerType]):
    """A request that only reads."""

    key: Callable[[RequestType], str]
    check: Callable[[RequestType], Refusal | None]
    look: Callable[[ShardType, RequestType], AnswerType]  # ApiError refuses the request
    refuse: Callable[[RequestType, Refusal], AnswerType]
