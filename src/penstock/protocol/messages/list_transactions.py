"""ListTransactions: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TransactionState(Message):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    FIELDS = (
        Field("transactional_id", "string", (0, 32767), default=""),
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("transaction_state", "string", (0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("unknown_state_filters", ["string"], (0, 32767), default=()),
        Field("transaction_states", [TransactionState], (0, 32767), default=()),
    )
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] | None = None,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is None else unknown_state_filters
        self.transaction_states = [] if transaction_states is None else transaction_states


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    FIELDS = (
        Field("state_filters", ["string"], (0, 32767), default=()),
        Field("producer_id_filters", ["int64"], (0, 32767), default=()),
        Field("duration_filter", "int64", (1, 32767), default=-1),
        Field("transactional_id_pattern", "string", (2, 32767), nullable=(2, 32767)),
    )
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = ListTransactionsResponse

    def __init__(
        self,
        *,
        state_filters: list[str] | None = None,
        producer_id_filters: list[int] | None = None,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is None else state_filters
        self.producer_id_filters = [] if producer_id_filters is None else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
