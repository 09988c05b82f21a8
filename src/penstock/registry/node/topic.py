"""The registry's topic: made where it is missing, refused where records would be lost or out of order.

One partition, because the order of all records counts. Compaction alone, because every record with a key of its own has
to stay: a topic that also deletes by age would forget schemas that data still refers to.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from penstock.admin.changes.topics import NewTopic, create_topics
from penstock.admin.queries.configs import configs_requests, read_settings
from penstock.admin.state.configs import ConfigPlace
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_MOST_REPLICAS = 3
_POLICY = "cleanup.policy"
# Brokers know of a new topic one after the other.
_PATIENCE_S = 15.0
_LOOK_INTERVAL_S = 0.05


class TopicError(Exception):
    """The topic cannot be the registry's. The text is for the operator."""


class TopicSettings(NamedTuple):
    name: str = "_schemas"
    replication_factor: int = 0  # 0: as many brokers as there are, up to three


async def ensure_topic(brokers: Brokers, settings: TopicSettings) -> None:
    """Raises TopicError, ApiError and OSError."""
    if not await _exists(brokers, settings.name):
        await _create(brokers, settings)
        await _wait_until_known(brokers, settings.name)
    await _check(brokers, settings.name)


async def _exists(brokers: Brokers, name: str) -> bool:
    answer = await brokers.metadata([name])
    (topic,) = answer.topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        raise _refused(name, topic.error_code)
    if topic.error_code == ErrorCode.NONE and len(topic.partitions) != 1:
        raise TopicError(
            f"the topic {name} has {len(topic.partitions)} partitions, and the registry needs exactly one: "
            "name another topic with kafkastore.topic"
        )
    return True


async def _wait_until_known(brokers: Brokers, name: str) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not await _exists(brokers, name):  # noqa: ASYNC110  # only the brokers know
            await asyncio.sleep(_LOOK_INTERVAL_S)


async def _create(brokers: Brokers, settings: TopicSettings) -> None:
    count = len((await brokers.metadata([])).brokers)
    factor = settings.replication_factor or min(count, _MOST_REPLICAS)
    if factor > count:
        logger.warning(
            "there are fewer brokers than kafkastore.topic.replication.factor asks for",
            extra={"brokers": count, "replication_factor": settings.replication_factor},
        )
        factor = count
    topic = NewTopic(settings.name, 1, factor, {_POLICY: "compact"})
    refused = (await create_topics(brokers, [topic])).get(settings.name)
    if refused is None:
        logger.info("created the topic of the registry", extra={"topic": settings.name, "replication_factor": factor})
    elif refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another instance starts as well
        raise _refused(settings.name, refused.code, refused.message)


async def _check(brokers: Brokers, name: str) -> None:
    place = ConfigPlace.topic(name)
    (request,) = configs_requests([place], [_POLICY])
    found, failures = read_settings(await brokers.ask(request, retry=True))
    if place not in found:
        # A user who may read and write the topic need not have the right to read its settings.
        codes = [failure.code.name for failure in failures if failure.code is not None]
        logger.warning(
            "cannot see whether the topic of the registry is compacted",
            extra={"topic": name, "error": ", ".join(codes)},
        )
        return
    setting = found[place].get(_POLICY)
    policy = (setting.value if setting is not None else None) or ""
    policies = {each.strip() for each in policy.split(",")}
    if policies != {"compact"}:
        raise TopicError(
            f"the topic {name} has cleanup.policy={policy}, so that schemas would be lost: "
            f"penstock configs alter --topic {name} --set cleanup.policy=compact"
        )


def _refused(name: str, code: int, text: str | None = None) -> Exception:
    known = ErrorCode(code)
    if known in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return TopicError(f"no right to use or create the topic {name}: {text or known.name}")
    if known in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION):
        return TopicError(f"the topic {name} cannot be: {text or known.name}")
    return ApiError(known, text)
