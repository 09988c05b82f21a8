"""Deletes what the readers of a repartition topic can never ask for again.

Spark repeats the batch after the last one that is finished, and looks at the last one when it starts again. So what is
before the beginning of the last finished batch is no longer needed by a query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.runtime.postmortem import offsets_in
from penstock.streams.planner.plan import Plan, TopicKind
from penstock.streams.runtime.checkpoints import Files

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)

PURGE_EVERY_S = 30.0  # as repartition.purge.interval.ms of Kafka Streams
_TIMEOUT_S = 10.0


def readers_of(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """By repartition topic: the queries that read it. Pure."""
    cuts = [cut for cut in plan.cuts.values() if cut.kind is TopicKind.REPARTITION]
    return {cut.topic: tuple(query.name for query in plan.queries if cut.node in query.cuts) for cut in cuts}


def purgeable(files: Files, plan: Plan) -> Offsets:
    """Where the records that are still needed begin. A topic of which a reader has not read yet is left as it is."""
    found: Offsets = {}
    for topic, queries in readers_of(plan).items():
        begins = [_begin_of_last_batch(files, query, topic) for query in queries]
        if begins:
            found.update(_least(begins))
    return found


def _least(begins: Iterable[Offsets]) -> Offsets:
    """The smallest offset of each partition that all of them have."""
    first, *others = begins
    common = {place for place in first if all(place in other for other in others)}
    return {place: min(each[place] for each in (first, *others)) for place in common}


def _begin_of_last_batch(files: Files, query: str, topic: str) -> Offsets:
    finished = [int(name) for name in files.list(f"{query}/commits") if name.isdecimal()]
    text = files.read(f"{query}/offsets/{max(finished) - 1}") if finished else None
    if text is None:
        return {}
    # A query that joins a topic with itself reads it twice, and need not have come as far both times.
    read = [{place: offset for place, offset in each.items() if place.topic == topic} for each in offsets_in(text)]
    return _least(begins) if (begins := [each for each in read if each]) else {}


def purge_read(admin: AdminClient, files: Files, plan: Plan, done: Offsets) -> None:
    """Purges records that all readers are done with. Reads the checkpoint again the next time if it cannot be read."""
    try:
        begins = purgeable(files, plan)
    except OSError as error:
        logger.warning("repartition topics are not purged, since the checkpoint cannot be read: %s", error)
        return
    purge(admin, begins, done)


def purge(admin: AdminClient, begins: Offsets, done: Offsets) -> None:
    """`done` is what was purged before, and is added to. What fails is tried again the next time."""
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as Place

    wanted = {place: offset for place, offset in begins.items() if offset > done.get(place, 0)}
    if not wanted:
        return
    asked = [Place(place.topic, place.partition, offset) for place, offset in wanted.items()]
    for place, answer in admin.delete_records(asked, request_timeout=_TIMEOUT_S).items():
        ours = TopicPartition(place.topic, place.partition)
        try:
            answer.result()  # librdkafka ends it after the request's time
            done[ours] = wanted[ours]
        except KafkaException as error:
            logger.warning("%s-%d was not purged: %s", place.topic, place.partition, error.args[0].str())
