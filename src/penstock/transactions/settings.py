"""The settings of transactions. Defaults are Kafka's."""

from __future__ import annotations

from typing import NamedTuple

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_DAY_MS = 24 * 60 * _MINUTE_MS


class TransactionSettings(NamedTuple):
    # transaction.max.timeout.ms: an open transaction holds back every reader of committed records for that long.
    max_timeout_ms: int = 15 * _MINUTE_MS
    # transactional.id.expiration.ms
    transactional_id_expiration_ms: int = 7 * _DAY_MS
    # The level of the feature transaction.version: from 1 on the log has version 1 values, from 2 on every transaction
    # has its own epoch (KIP-890).
    transaction_version: int = 2
    # transaction.two.phase.commit.enable: transactions without a timeout, ended by another coordinator (KIP-939).
    two_phase_commit_enable: bool = False
    # The pause before the coordinator repeats a decision of its own that could not be written. Not configurable in
    # Kafka either.
    retry_backoff_ms: int = _SECOND_MS
