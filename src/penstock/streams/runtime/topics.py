"""The topics of an application: their names and settings, and how they come and go.

A changelog is compacted, and nothing else: results of windows have the times of their events, and would go by retention
when old records are read again, before the query behind them has had them. A repartition topic is kept until it is
purged (see `purge`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.streams.planner.plan import Plan, TopicKind
from penstock.streams.runtime.pipelines import source_topics
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import Shape, Sink, Source
from penstock.streams.topology.topic_choice import TopicChoice, reads, topics_text

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)

_TIMEOUT_S = 30.0  # librdkafka ends a request after it
# Purging frees whole segments; as Kafka Streams has it for its own.
_SEGMENT_BYTES = str(50 * 1024 * 1024)
_CONFIGS: Mapping[TopicKind, Mapping[str, str]] = {
    TopicKind.CHANGELOG: {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
    TopicKind.REPARTITION: {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": _SEGMENT_BYTES,
        "message.timestamp.type": "CreateTime",
    },
    TopicKind.SINK: {},
}


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    name: str
    kind: TopicKind
    partitions: int  # of the topic if it has to be made
    config: Mapping[str, str] = field(default_factory=dict)


def plan_topics(plan: Plan, partitions: Mapping[str, int]) -> tuple[PlannedTopic, ...]:
    """The topics that the application writes; `partitions` are those of its sources, by topic. Pure."""
    most = _most(partitions)
    cuts = {cut.topic: cut.partitions for cut in plan.cuts.values()}
    found: dict[str, PlannedTopic] = {}
    for query in plan.queries:
        for output in query.outputs:
            wanted, config = cuts.get(output.topic, 0), _CONFIGS[output.kind]
            if output.sink:
                node = plan.topology.node(output.sink)
                assert isinstance(node, Sink)
                wanted, config = node.partitions, dict(node.config)
            if output.topic not in found:
                found[output.topic] = PlannedTopic(output.topic, output.kind, wanted or most, config)
    dead = plan.topology.dead_letters
    if dead is not None and dead not in found:
        found[dead] = PlannedTopic(dead, TopicKind.SINK, most)
    return tuple(found.values())


def _most(partitions: Mapping[str, int]) -> int:
    """The number of partitions for a topic without a number of its own; it stays when larger topics come."""
    return max(partitions.values(), default=1)


def read_now(sources: Iterable[TopicChoice], there: Mapping[str, int]) -> dict[str, int]:
    """Partitions by topic, of those that are read and exist. A pattern finds no topic that is Kafka's own. Pure."""
    found: dict[str, int] = {}
    for each in sources:
        own = INTERNAL_TOPICS if isinstance(each, re.Pattern) else frozenset()
        found |= {name: count for name, count in there.items() if reads(each, name) and name not in own}
    return found


def internal_topics(plan: Plan) -> tuple[str, ...]:
    """The topics that `reset` deletes: changelogs and repartition topics. Pure."""
    return tuple(topic.name for topic in plan_topics(plan, {}) if topic.kind is not TopicKind.SINK)


def table_topics(plan: Plan) -> frozenset[str]:
    """Topics of which the last record of a key counts: more partitions would part a key from its last record. Pure."""
    sources = [each for each in plan.topology.nodes if isinstance(each, Source)]
    tables = {each.only_topic for each in sources if each.shape is Shape.TABLE}
    return frozenset(tables | {cut.topic for cut in plan.cuts.values() if cut.shape is Shape.TABLE})


def open_admin(settings: Mapping[str, str]) -> AdminClient:
    from penstock.pipelines.kafka.client_settings import to_librdkafka
    from penstock.pipelines.topic_writing.clients import open_admin as open_it

    return open_it(to_librdkafka(settings))


def partition_counts(admin: AdminClient) -> dict[str, int]:
    """The number of partitions of each topic. PipelineError where no broker answers."""
    from confluent_kafka import KafkaException

    try:
        listed = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise StreamsError(
            f"the topics cannot be listed: {error.args[0].str()}",
            "Say where brokers are: PENSTOCK_BOOTSTRAP, --set bootstrap_servers=HOST:PORT, or Settings in the file.",
        ) from error
    return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}


def refuse_leftovers(admin: AdminClient, plan: Plan) -> None:
    """For a checkpoint that is new. What an earlier run has left in the application's own topics would be read from its
    beginning, and count beside what is now written again."""
    there = partition_counts(admin)
    for topic in internal_topics(plan):
        if topic in there and _was_written(admin, topic, there[topic]):
            raise StreamsError(
                f"the checkpoint is new, and the topic {topic} has rows of an earlier run: they would count twice",
                "Bring the old checkpoint back, or start over with `penstock streams reset`.",
            )


def _was_written(admin: AdminClient, topic: str, partitions: int) -> bool:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        ends = [answer.result().offset for answer in admin.list_offsets(asked, request_timeout=_TIMEOUT_S).values()]
    except KafkaException as error:
        raise StreamsError(f"the ends of the topic {topic} are not told: {error.args[0].str()}") from error
    return any(end > 0 for end in ends)


def make_topics(admin: AdminClient, plan: Plan) -> dict[str, int]:
    """Makes those that are missing; partitions by topic, of all that the application reads and writes."""
    there = partition_counts(admin)
    found = read_now(source_topics(plan), there)
    wanted = plan_topics(plan, found)
    own = {topic.name for topic in wanted}
    nodes = [each for each in plan.topology.nodes if isinstance(each, Source)]
    sources = list(dict.fromkeys(each.topic for each in nodes))
    needed = [each.topic for each in nodes if isinstance(each.topic, str) and each.fail_on_data_loss]
    missing = [topic for topic in needed if topic not in there and topic not in own]
    if missing:
        raise StreamsError(
            f"the topic {missing[0]} does not exist", "Make it: penstock topics create, or start its producer first."
        )
    for topic in wanted:
        if topic.name not in there:
            _create(admin, topic)
    for each in sources:
        if isinstance(each, re.Pattern) and not read_now([each], there):
            logger.warning(
                "there are no %s yet; they are read from their beginning once they are. Partitions of topics that the"
                " application makes now, where it does not say how many: %d",
                topics_text(each),
                _most(found),
            )
    return read_now(sources, there) | {topic.name: there.get(topic.name, topic.partitions) for topic in wanted}


def _create(admin: AdminClient, topic: PlannedTopic) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    new = NewTopic(topic.name, topic.partitions, -1, config=dict(topic.config))
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic.name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise StreamsError(f"the topic {topic.name} could not be made: {error.args[0].str()}") from error


def delete_topics(admin: AdminClient, names: tuple[str, ...]) -> Iterator[str]:
    """Yields a line for each step."""
    from confluent_kafka import KafkaError, KafkaException

    if not names:
        return
    for name, answer in admin.delete_topics(list(names), request_timeout=_TIMEOUT_S).items():
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise StreamsError(f"the topic {name} could not be deleted: {error.args[0].str()}") from error
            yield f"there was no topic {name}"
        else:
            yield f"deleted the topic {name}"
