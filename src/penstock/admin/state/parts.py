"""The parts of a picture of a cluster: when each was read, and what of it could not be."""

from __future__ import annotations

import enum
from typing import Generic, NamedTuple, TypeVar

from penstock.protocol.errors import ApiError, ErrorCode

Found = TypeVar("Found")


class Part(enum.Enum):
    """What can be asked for. Topics, brokers and leaders are in every picture."""

    TOPICS = "topics"
    MOVES = "moves"
    DIRECTORIES = "directories"
    FIRST_OFFSETS = "first offsets"
    LAST_OFFSETS = "last offsets"
    LOG_ENDS = "log ends"  # of lagging replicas and their leaders
    CONFIGS = "configs"
    GROUPS = "groups"
    MEMBERS = "members"
    COMMITS = "commits"


class Failure(NamedTuple):
    """What could not be read, or done, and why. `node_id` is the broker that was asked, where it was one."""

    subject: str
    reason: str
    node_id: int | None = None
    code: ErrorCode | None = None  # None where no answer came

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"

    @classmethod
    def of(cls, subject: str, error: OSError | ApiError, node_id: int | None = None) -> Failure:
        if isinstance(error, ApiError):
            return cls(subject, error.message or error.code.name, node_id, error.code)
        return cls(subject, describe_silence(error), node_id)


class PartRead(NamedTuple):
    """`at_s` is by the reader's own steady clock."""

    at_s: float
    failures: tuple[Failure, ...] = ()


class Partial(NamedTuple, Generic[Found]):
    """What was found, and what was not."""

    found: Found
    failures: tuple[Failure, ...] = ()


def describe_silence(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
