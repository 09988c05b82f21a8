"""Clients that live as long as the Python worker: Spark reuses its workers, and a new producer costs fifty round trips.

A task may run in any worker, so the same transactional id may be held in several; all but the newest are fenced, and
`transactional` finds that out before it is too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from penstock.client.resource_cache import ResourceCache
from penstock.pipelines.kafka.group_consumer import LIBRDKAFKA_LOG
from penstock.pipelines.topic_writing.delivery import Sender
from penstock.pipelines.topic_writing.marker import Marker
from penstock.pipelines.topic_writing.write_options import SinkOptions

# Each has a thread and a connection per broker. More tasks than this in one worker take turns.
_MOST_TRANSACTIONAL = 8
_MOST_SENDERS = 8

Settings = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class TransactionalSender:
    """Holds its transactional id since `init_transactions`; unless another producer took the id, it knows the
    marker.
    """

    sender: Sender
    marker: Marker | None


_senders: ResourceCache[Settings, Sender] = ResourceCache(_MOST_SENDERS, Sender.close)
_transactional: ResourceCache[tuple[Settings, str], TransactionalSender] = ResourceCache(
    _MOST_TRANSACTIONAL, lambda holder: holder.sender.close()
)


def _key(settings: Mapping[str, str]) -> Settings:
    return tuple(sorted(settings.items()))


def take_sender(options: SinkOptions) -> Sender:
    """Out of the registry: a task that fails does not give it back, and with it goes whatever is wrong with it."""
    return _senders.take(_key(options.settings)) or Sender.open(options.settings, options.message_timeout_s)


def give_sender_back(options: SinkOptions, sender: Sender) -> None:
    _senders.give_back(_key(options.settings), sender)


def take_transactional(options: SinkOptions, transactional_id: str) -> TransactionalSender | None:
    return _transactional.take((_key(options.settings), transactional_id))


def give_transactional_back(options: SinkOptions, transactional_id: str, sender: TransactionalSender) -> None:
    _transactional.give_back((_key(options.settings), transactional_id), sender)


def close_kept(options: SinkOptions, transactional_id: str) -> None:
    """Closes what this process has kept for a sink that comes to its end."""
    sender = _senders.take(_key(options.settings))
    if sender is not None:
        sender.close()
    holder = take_transactional(options, transactional_id)
    if holder is not None:
        holder.sender.close()


def open_admin(settings: Mapping[str, str]) -> AdminClient:
    """An admin client on the driver, for a few requests. It goes when its owner does."""
    return AdminClient({**settings}, logger=LIBRDKAFKA_LOG)
