"""The tables of a cluster: its topics, and the columns of each.

A table whose schema the registry has costs one request to a broker and one to the registry. Where the key or the value
has no schema, a few records are read, too.
"""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Self

from confluent_kafka import KafkaException

from penstock.client.registry import RegistryAnswerError, RegistryClient, RegistryClientError
from penstock.client.retries import Retrying, RetryPolicy
from penstock.core.bounded_cache import BoundedCache
from penstock.core.config.types import ConfigError
from penstock.core.types import TopicPartition
from penstock.pipelines.errors import TableError
from penstock.pipelines.kafka.broker_patience import PAUSE_S
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.cluster import ClusterError, SourceCluster
from penstock.pipelines.source.complete import UnansweredError, ask_for_all
from penstock.pipelines.source.direct_fetch import FetchError
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.offsets import LATEST
from penstock.pipelines.source.read_options import FetchOptions, LookupOptions, TopicSubscription
from penstock.pipelines.tables.bounds import Times
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.ends import Seen
from penstock.pipelines.tables.format_choice import Registry, choose_key, choose_value
from penstock.pipelines.tables.sampling import Sample, peek_times, take_sample
from penstock.pipelines.tables.table import LATEST_SUFFIX, Table, make_columns
from penstock.protocol.errors import ErrorCode
from penstock.serdes.errors import SerdesError

# A user waits at a prompt. A broker that is there answers within milliseconds.
_TIMEOUT_S = 5.0
# For the two or three looks that one statement takes, and for completion; a new version is seen soon.
_KEEP_S = 5.0
_MOST_TABLES = 1_000
_REGISTRY_TOPIC = "_schemas"


def is_internal(topic: str) -> bool:
    return topic.startswith("__") or topic == _REGISTRY_TOPIC


class Catalog:
    """For several threads. Every method raises TableError."""

    def __init__(self, connection: KafkaConnection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.connection = connection
        self._tables: BoundedCache[str, Table] = BoundedCache(_MOST_TABLES, keep_s=_KEEP_S, clock=clock)
        # Of the cluster's client. Registries answer, and samples are read, for several threads at a time.
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if "_cluster" in self.__dict__:
                self._cluster.close()
            if self.__dict__.get("_registry") is not None:
                self.__dict__["_registry"].client.close()

    def topics(self, *, is_internal_wanted: bool = False) -> list[str]:
        """Sorted. Those that begin with `__`, and `_schemas`, are left out unless wanted."""
        with self._lock, self._explained():
            found = self._cluster.topics()
        return sorted(topic for topic in found if is_internal_wanted or not is_internal(topic))

    def table(self, name: str) -> Table:
        """`name` is a topic, or `<topic>$latest`. A topic with the name in other case is taken, if it is the only
        one."""
        known = self._tables.get(name)
        if known is None:
            known = self._look_up(name)
            self._tables.put(name, known)
        return known

    def forget(self, topic: str) -> None:
        """After a change of the topic: the next use of the table looks its columns up again."""
        for name in (topic, f"{topic}{LATEST_SUFFIX}"):
            self._tables.forget(name)

    def ranges(self, topics: Collection[str]) -> list[OffsetRange]:
        """The present ranges of the topics' partitions: from the first offset to the end of the readable records."""
        with self._lock, self._explained(", ".join(sorted(topics))):
            found = self._cluster.find_partitions(TopicSubscription(topics=frozenset(topics)))
            if found.missing:
                raise self._unknown(min(found.missing))
            return self._ranges(found.partitions)

    @property
    def offsets_at(self) -> Times:
        return Times(self._offsets_at, self._peek)

    def _offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset with that timestamp or a later one; None where there is none."""
        with self._lock, self._explained():
            found = self._of_all(timestamps_ms, lambda: self._cluster.at_timestamps(timestamps_ms))
        return {partition: None if offset == LATEST else offset for partition, offset in found.items()}

    def _peek(self, ranges: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
        """The first records of each range."""
        with self._explained(", ".join(sorted({part.partition.topic for part in ranges}))):
            return {part.partition: peek_times(part, self._fetch) for part in ranges}

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Such as message.timestamp.type. Empty where the broker does not allow to see it."""
        try:
            with self._lock:
                return self._cluster.topic_config(topic)
        except ClusterError:
            return {}

    def _look_up(self, name: str) -> Table:
        is_latest = name.endswith(LATEST_SUFFIX)
        asked = name.removesuffix(LATEST_SUFFIX)
        if not asked:
            raise TableError(f"{name!r} names no topic", "Write the topic's name, or the name with $latest behind it.")
        with self._explained(asked):
            with self._lock:
                topic, partitions = self._find(asked)
                registry = self._registry
            connection = self.connection
            fetched: list[Sample] = []

            def sample() -> Sample:
                if not fetched:
                    with self._lock:
                        ranges = self._ranges(partitions)
                    records, size = connection.sample_records, connection.sample_bytes
                    fetched.append(take_sample(ranges, self._fetch, records, size))
                return fetched[0]

            value = choose_value(topic, connection.subjects.get(topic), registry, sample)
            key = choose_key(topic, registry, sample)
            columns = make_columns(key.format.type, value.format.type)
        return Table(name, topic, len(partitions), key.format, value.format, columns, value.note, is_latest)

    def _find(self, asked: str) -> tuple[str, frozenset[TopicPartition]]:
        found = self._cluster.find_partitions(TopicSubscription(topics=frozenset({asked})))
        if not found.missing:
            return asked, found.partitions
        alike = [each for each in self._cluster.topics() if each.lower() == asked.lower()]
        if len(alike) != 1:
            raise self._unknown(asked)
        return alike[0], self._cluster.find_partitions(TopicSubscription(topics=frozenset(alike))).partitions

    def _unknown(self, topic: str) -> TableError:
        near = difflib.get_close_matches(topic, self._cluster.topics(), n=1, cutoff=0.6)
        hint = f"Did you mean {near[0]}?" if near else "SHOW TABLES lists the topics."
        return TableError(f"there is no topic {topic} at {self.connection.bootstrap_servers}", hint)

    def _ranges(self, partitions: Collection[TopicPartition]) -> list[OffsetRange]:
        """The range of every one of the partitions."""
        first = self._of_all(partitions, lambda: self._cluster.earliest(partitions))
        end = self._of_all(partitions, lambda: self._cluster.latest(partitions))
        return [OffsetRange(each, min(first[each], end[each]), end[each]) for each in sorted(partitions)]

    def _of_all(self, partitions: Collection[TopicPartition], ask: Callable[[], Offsets]) -> Offsets:
        return ask_for_all(partitions, ask, Retrying(RetryPolicy(_TIMEOUT_S, PAUSE_S, PAUSE_S)))

    @cached_property
    def _fetch(self) -> FetchOptions:
        return self.connection.fetch_options()

    @cached_property
    def _cluster(self) -> SourceCluster:
        with self._explained():
            return SourceCluster(
                self._fetch.settings,
                LookupOptions(retries=0),
                is_read_committed=self.connection.is_read_committed,
                timeout_s=_TIMEOUT_S,
            )

    @cached_property
    def _registry(self) -> Registry | None:
        address = self.connection.registry
        return None if address is None else Registry(RegistryClient(address.settings()), address)

    @contextmanager
    def _explained(self, topic: str = "") -> Iterator[None]:
        """Turns failures into errors with words for the user."""
        try:
            yield
        except ClusterError as error:
            raise _explain_cluster(error, topic, self.connection.bootstrap_servers) from error
        except FetchError as error:
            raise _explain_fetch(error, topic) from error
        except RegistryClientError as error:
            raise self._explain_registry(error, topic) from error
        except SerdesError as error:
            raise TableError(f"the schema of topic {topic} cannot be used: {error}") from error
        except (OptionError, ConfigError) as error:
            raise TableError(str(error)) from error

    def _explain_registry(self, error: RegistryClientError, topic: str) -> TableError:
        assert self.connection.registry is not None
        urls = ", ".join(str(each) for each in self.connection.registry.settings().urls)
        what = f"the schema of topic {topic} cannot be had from the registry at {urls}: {error}"
        if isinstance(error, RegistryAnswerError) and error.is_refused_login:
            return TableError(what, "Check the login that is given for the registry.")
        return TableError(what, "Check the registry's address, and that it runs.")


def missing_right(right: str, topic: str) -> TableError:
    what = f"the right {right} on topic {topic} is missing" if topic else f"the right {right} is missing"
    return TableError(what, f"Somebody who may do so grants it: an ACL that allows {right}.")


def _explain_cluster(error: ClusterError, topic: str, servers: str) -> TableError:
    if isinstance(error, UnansweredError):
        return TableError(str(error), "Ask again in a while.")
    cause = error.__cause__
    name = str(cause.args[0].name()) if isinstance(cause, KafkaException) else "_TIMED_OUT"
    if name == "TOPIC_AUTHORIZATION_FAILED":
        return missing_right("Describe", topic)
    if error.refused_login:
        return TableError(f"the brokers at {servers} refuse the login: {error.refused_login}")
    if name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"):
        return TableError(f"no broker answers at {servers}", "Check the address, and that a broker runs there.")
    if name == "TOPIC_EXCEPTION":
        return TableError(f"{topic!r} is no name that a topic can have")
    return TableError(str(error))


def _explain_fetch(error: FetchError, topic: str) -> TableError:
    if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return missing_right("Read", topic)
    return TableError(f"records of topic {topic} cannot be read: {error}")
