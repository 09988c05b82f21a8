"""The arguments of a v3 handler: the caller's brokers, the cluster of the path, and the request's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.metadata import MetadataResponseTopic
from penstock.rest.errors import INVALID_PAYLOAD, RestError
from penstock.rest.v3.resource_urls import ResourceUrl

Body = TypeVar("Body")

_NUMBER = re.compile(r"[0-9]{1,10}")
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Call:
    brokers: Brokers
    cluster_id: str
    cluster: ResourceUrl
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""

    def number(self, name: str) -> int:
        """An id in the path. A text that is no id names nothing that exists."""
        text = self.path[name]
        if not _NUMBER.fullmatch(text) or int(text) > _MAX_INT32:
            raise not_found(f"{name} {text} cannot be found.")
        return int(text)

    def read(self, kind: type[Body]) -> Body:
        return read_body(self.body, kind)

    @property
    def topic(self) -> ResourceUrl:
        return self.cluster.under("topics", "topic", self.path["topic_name"])

    async def all_topics(self) -> dict[str, MetadataResponseTopic]:
        """The topics that the caller may describe, in the order of their names."""
        answer = await self.brokers.metadata(None)
        found = {row.name: row for row in answer.topics if row.name and row.error_code == ErrorCode.NONE}
        return {name: found[name] for name in sorted(found)}

    async def one_topic(self, *, with_rights: bool = False) -> MetadataResponseTopic:
        """The topic of the path. Raises ApiError where it does not exist, or the caller may not see it."""
        answer = await self.brokers.metadata([self.path["topic_name"]], with_rights=with_rights)
        topic = next(iter(answer.topics), None)
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code)
        assert topic is not None
        return topic


class Done(NamedTuple):
    """A handler's result with more than a body."""

    body: Any = None
    status: int | None = None  # replaces the operation's own
    location: str | None = None


def not_found(text: str) -> RestError:
    return RestError(404, text)


def check(code: int, message: str | None = None) -> None:
    """Raises ApiError for a broker's refusal. A code that is newer than this program is the broker's own mistake."""
    if code != ErrorCode.NONE:
        try:
            known = ErrorCode(code)
        except ValueError:
            known = ErrorCode.UNKNOWN_SERVER_ERROR
        raise ApiError(known, message or None)


def check_text(text: bytes) -> None:
    """msgspec does not check texts that it need not decode, and `Raw` keeps them. Raises RestError."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            raise RestError(400, "Bad Request: a text in the JSON is no UTF-8") from None


def read_body(body: bytes, kind: type[Body]) -> Body:
    """Raises RestError. JSON of the wrong shape is 400, as bodies that are no JSON are."""
    if not body.strip():
        raise RestError(INVALID_PAYLOAD, "Payload error. Request body is empty. Data is required.")
    check_text(body)
    try:
        return msgspec.json.decode(body, type=kind, strict=False)  # numbers may be texts, as in Confluent's proxy
    except msgspec.DecodeError as error:  # ValidationError is one
        raise RestError(400, f"Bad Request: {error}") from None
    except RecursionError:
        raise RestError(400, "Bad Request: the JSON is nested too deeply") from None
