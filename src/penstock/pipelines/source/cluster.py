"""The driver's requests to the cluster: partitions, offsets, and what groups have committed. Every wait has an end.

Through librdkafka, so that every security protocol works; these are a few small requests per batch.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo, OffsetSpec, TopicDescription

from penstock.client.bounded_call import StuckCallError
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.broker_patience import PATIENCE_S, PAUSE_S, STALE_LEADER, is_away
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.group_offsets import GroupOffsets
from penstock.pipelines.source.offsets import LATEST
from penstock.pipelines.source.read_options import LookupOptions, SourceOptions, TopicSubscription

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

# With the three retries of fetchOffset.numRetries a broker that does not answer may be away for a minute before a query
# fails; one that refuses at once gets the same minute, see `_retry`.
REQUEST_TIMEOUT_S = 15.0
# Between looks at librdkafka's events about brokers.
_LISTENING_S = 0.02
# From the first refusal of a login. Another server of the list may accept the login, or the next try may.
_REFUSED_S = 1.0
CLIENT_ID = "penstock-spark"
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
# Failures against which no attempt helps. Any other failure is doubtful, retriable or not: fetchOffset.numRetries is
# for all of them.
_FINAL = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION",
        "SASL_AUTHENTICATION_FAILED", "_AUTHENTICATION", "INVALID_GROUP_ID",
    }
)  # fmt: skip
# The text that librdkafka puts around a broker's words: the connection, and the time that it took.
_AROUND_REFUSALS = re.compile(r"^\S+: (SASL authentication error: )?| \(after \d+ms in state \w+\)$")
_UNKNOWN_SETTING = re.compile(r'No such configuration property: "(.+?)"')


class ClusterError(RuntimeError):
    """The cluster did not answer, or refused. `refused_login` is the broker's reason, if it refused the login."""

    def __init__(self, message: str, refused_login: str = "") -> None:
        super().__init__(message)
        self.refused_login = refused_login


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, str]  # a topic that was deleted and made anew has another
    missing: frozenset[str] = frozenset()  # wanted by name, and absent


@dataclass(frozen=True, slots=True)
class FoundTopic:
    operations: frozenset[str] = (
        frozenset()
    )  # what the user may do with it, by Kafka's names; empty if the broker does not send them
    error: str = ""  # why it may not be seen, by librdkafka's name


class SourceCluster:
    """The questions of a source to its brokers. Not for several threads."""

    def __init__(
        self,
        settings: Mapping[str, str],
        lookup: LookupOptions | None = None,
        *,
        is_read_committed: bool = False,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        # librdkafka repeats a refused login until a request is out of time, and reports the reason only to its
        # callback.
        self._heard: deque[KafkaError] = deque(maxlen=8)
        self._admin = _open_admin(settings, self._heard.append)
        self._groups = GroupOffsets({"client.id": CLIENT_ID, **settings})
        self._servers = settings["bootstrap.servers"]
        self._lookup = lookup or LookupOptions()
        self._isolation = IsolationLevel.READ_COMMITTED if is_read_committed else IsolationLevel.READ_UNCOMMITTED
        self._timeout_s = timeout_s
        self._cached: tuple[float, FoundPartitions] | None = None

    @classmethod
    def of(cls, options: SourceOptions) -> SourceCluster:
        return cls(options.fetch.settings, options.lookup, is_read_committed=options.fetch.is_read_committed)

    def close(self) -> None:
        """The admin client goes with the last reference to it: librdkafka's has no way to be closed."""
        self._groups.close()

    def find_partitions(self, subscription: TopicSubscription) -> FoundPartitions:
        now = time.monotonic()
        if self._cached is not None and (now - self._cached[0]) * 1000 < self._lookup.cache_ttl_ms:
            return self._cached[1]
        partitions = self._retry(f"looking up {subscription}", lambda: self._find_partitions(subscription))
        self._cached = (now, partitions)
        return partitions

    def topics(self) -> dict[str, int]:
        """All that may be seen, and how many partitions they have."""
        listed = self._retry("listing the topics", lambda: self._admin.list_topics(timeout=self._timeout_s).topics)
        return {name: len(found.partitions) for name, found in listed.items()}

    def look(self, topics: Collection[str]) -> dict[str, FoundTopic]:
        """The topics that exist, or may not be seen. A login that is refused shortens the wait."""

        def ask() -> dict[str, FoundTopic]:
            futures = self._admin.describe_topics(
                TopicCollection(sorted(topics)),
                include_authorized_operations=True,
                request_timeout=self._timeout_s,
            )
            self._await_answers(futures.values())
            found = {topic: self._found(future) for topic, future in futures.items()}
            return {topic: each for topic, each in found.items() if each is not None}

        return self._retry(f"looking up {', '.join(sorted(topics))}", ask)

    def _await_answers(self, futures: Collection[Future[Any]]) -> None:
        """Until the futures are done, or a second has passed since a broker refused the login. librdkafka would try
        again for as long as the request may take."""
        ends_at = time.monotonic() + self._timeout_s
        refused: KafkaError | None = None
        while wait(futures, _LISTENING_S).not_done:
            if time.monotonic() >= ends_at:
                if refused is not None:
                    raise KafkaException(refused)
                return
            if refused is None:
                refused = self._refusal()
                if refused is not None:
                    ends_at = min(ends_at, time.monotonic() + _REFUSED_S)

    def _refusal(self) -> KafkaError | None:
        """The event of a broker that refuses the login, if there was one."""
        self._admin.poll(0)
        return next((each for each in self._heard if each.code() == KafkaError._AUTHENTICATION), None)

    def _found(self, future: Future[Any]) -> FoundTopic | None:
        try:
            described = self._unless_unknown(future)
        except KafkaException as error:
            if _name(error) not in _FINAL:
                raise
            return FoundTopic(error=_name(error))
        if described is None:
            return None
        return FoundTopic(frozenset(each.name for each in described.authorized_operations or ()))

    def topic_config(self, topic: str) -> dict[str, str]:
        def ask() -> dict[str, str]:
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
            answer = self._admin.describe_configs([resource], request_timeout=self._timeout_s)[resource]
            return {name: str(entry.value) for name, entry in self._wait(answer).items() if entry.value is not None}

        return self._retry(f"looking up the settings of topic {topic}", ask)

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self._list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self._list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        """LATEST where no record is that late."""
        return self._list_offsets({partition: OffsetSpec.for_timestamp(at) for partition, at in timestamps.items()})

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Offsets:
        """The committed offsets, without partitions that the group has not committed."""
        doing = f"looking up what group {group_id} has committed"
        return self._retry(doing, lambda: self._groups.committed(group_id, partitions, self._timeout_s))

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Tried once: the next batch commits again."""
        try:
            self._groups.commit(group_id, offsets)
        except (KafkaException, StuckCallError) as error:
            raise ClusterError(f"committing the progress of group {group_id} failed: {_explain(error)}") from error

    def _find_partitions(self, subscription: TopicSubscription) -> FoundPartitions:
        wanted = subscription.topics or {partition.topic for partition in subscription.partitions}
        if subscription.pattern:
            listed = self._admin.list_topics(timeout=self._timeout_s).topics
            wanted = {name for name in listed if re.fullmatch(subscription.pattern, name)}
        if not wanted:
            return FoundPartitions(frozenset(), {})
        partitions: set[TopicPartition] = set()
        topic_ids: dict[str, str] = {}
        for topic, described in self._describe(wanted).items():
            if subscription.pattern and described.is_internal:
                continue
            topic_ids[topic] = str(described.topic_id)
            partitions.update(TopicPartition(topic, partition.id) for partition in described.partitions)
        missing = set() if subscription.pattern else wanted - topic_ids.keys()
        if subscription.partitions:
            missing |= {
                str(partition) for partition in subscription.partitions - partitions if partition.topic not in missing
            }
            partitions &= subscription.partitions
        return FoundPartitions(frozenset(partitions), topic_ids, frozenset(missing))

    def _describe(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        """The topics that exist, described; others are left out."""
        futures = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=self._timeout_s)
        descriptions = {topic: self._unless_unknown(future) for topic, future in futures.items()}
        return {topic: described for topic, described in descriptions.items() if described is not None}

    def _list_offsets(self, asked: Mapping[TopicPartition, OffsetSpec]) -> Offsets:
        """The offsets of the partitions that exist; others are left out."""
        if not asked:
            return {}
        request = {confluent_kafka.TopicPartition(*partition): spec for partition, spec in asked.items()}

        def ask() -> Offsets:
            futures = self._admin.list_offsets(
                request, isolation_level=self._isolation, request_timeout=self._timeout_s
            )
            try:
                answers = {
                    TopicPartition(partition.topic, partition.partition): self._unless_unknown(future)
                    for partition, future in futures.items()
                }
            except KafkaException as error:
                if _name(error) in STALE_LEADER and not self._describe({partition.topic for partition in asked}):
                    return {}
                raise
            return {partition: offset_of(answer) for partition, answer in answers.items() if answer is not None}

        return self._retry("looking up offsets", ask)

    def _unless_unknown(self, future: Future[Any]) -> Any:
        try:
            return self._wait(future)
        except KafkaException as error:
            if _name(error) in _UNKNOWN:
                return None
            raise

    def _wait(self, future: Future[_Result]) -> _Result:
        return future.result(self._timeout_s + 1)

    def _retry(self, doing: str, ask: Callable[[], _Result]) -> _Result:
        """Retries as often as fetchOffset.numRetries, and for a minute at least while a broker is away; 0 is no
        retry.
        """
        retries, pause_s = self._lookup.retries, self._lookup.retry_interval_ms / 1000
        patience_s = PATIENCE_S if retries else 0.0
        retrying = Retrying(RetryPolicy(patience_s, pause_s, max(pause_s, PAUSE_S), attempts=retries + 1))
        try:
            return retrying.run(
                ask,
                (KafkaException, FutureTimeoutError),
                _judge,
                lambda error: logger.warning("%s failed, trying again: %s", doing, _explain(error)),
            )
        except (KafkaException, FutureTimeoutError) as error:
            refusal = self._refusal()
            refused_login = "" if refusal is None else _AROUND_REFUSALS.sub("", refusal.str())
            why = f"{_explain(error)}. {refused_login}" if refused_login else _explain(error)
            raise ClusterError(
                f"{doing} failed after {retrying.attempts} tries: {why}. Check"
                f" kafka.bootstrap.servers={self._servers}"
                " and the broker's log; fetchOffset.numRetries allows for more tries",
                refused_login,
            ) from error
        finally:
            self._admin.poll(0)  # takes the events of the meantime, so that they do not pile up
            self._heard.clear()


def _judge(error: Exception) -> Outlook:
    if _name(error) in _FINAL:
        return Outlook.FINAL
    return Outlook.PASSING if is_away(error) else Outlook.DOUBTFUL


def _open_admin(settings: Mapping[str, str], hear: Callable[[KafkaError], None]) -> AdminClient:
    quiet = {} if "debug" in settings else {"log_level": 0}  # our own error reports a failure, once
    given: dict[str, Any] = {"client.id": CLIENT_ID, **quiet, **settings, "error_cb": hear}
    try:
        return AdminClient(given)
    except KafkaException as error:
        raise explain_setting(error) from error


def explain_setting(error: KafkaException) -> OptionError:
    text = error.args[0].str()
    unknown = _UNKNOWN_SETTING.search(text)
    if unknown is not None:
        return OptionError(f"option kafka.{unknown[1]} is not a setting that librdkafka, or the Java client, knows")
    return OptionError(f"the kafka.* options are not accepted: {text}")


def offset_of(answer: ListOffsetsResultInfo) -> int:
    """librdkafka was seen to answer -1001, and no error, when the broker went away."""
    if answer.offset < LATEST:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker went away while offsets were asked for"))
    return answer.offset


def _name(error: Exception) -> str:
    return str(error.args[0].name()) if isinstance(error, KafkaException) else "_TIMED_OUT"


def _explain(error: Exception) -> str:
    return str(error.args[0].str()) if isinstance(error, KafkaException) else "no answer in time"
