"""Checks the caller's rights before the proxy acts for the caller with a login of its own.

The registry knows the proxy alone, so the proxy registers a schema with its own rights. Rules:
- Nothing is registered for a caller that may not write the topic: the proxy asks the brokers, as the caller.
- Where brokers know the callers, a text is registered under subjects of the topic alone. Under another subject, which
  the caller names or which is the record's name, the text is looked up: it has to exist already. Where all callers have
  the proxy's rights, they have them in the registry as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.clients import CallerBrokers
from penstock.rest.errors import FORBIDDEN, RestError, of_exception
from penstock.security.acls.types import Operation


@dataclass(frozen=True, slots=True)
class TopicRight:
    """The right of one caller on one topic."""

    brokers: CallerBrokers
    topic: str
    may_choose_subject: bool

    async def check_write(self) -> None:
        """Raises RestError."""
        try:
            await self.brokers.producer.count_partitions(self.topic)  # creates the topic where brokers do that
            (row,) = (await self.brokers.metadata([self.topic], with_rights=True)).topics
        except (ApiError, OSError) as error:
            known = of_exception(error)
            assert known is not None, "errors of brokers and of connections are known"
            raise known from None
        bits = row.topic_authorized_operations
        is_told = bits >= 0  # by brokers since 2.3
        if row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED or (is_told and not bits & (1 << Operation.WRITE)):
            raise RestError(FORBIDDEN, f"not allowed to write to topic {self.topic}")
