"""The topics that a run reads and writes: checks that they exist, and that the user may read and write them.

A broker that does not answer in time is no reason to refuse: a run is more patient.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from penstock.pipelines.errors import PipelineError, RefusedLoginError
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.cluster import ClusterError, FoundTopic, SourceCluster
from penstock.pipelines.source.read_options import LookupOptions, TopicSubscription

READ, WRITE = "READ", "WRITE"
# A broker that is there answers within milliseconds, and a user waits for the command.
_TIMEOUT_S = 3.0
_NO_RIGHT = "TOPIC_AUTHORIZATION_FAILED"
_NO_NAME = "TOPIC_EXCEPTION"


@dataclass(frozen=True, slots=True)
class Need:
    """A topic, or with `pattern` all that match it, which the run is to read or to write."""

    topic: str
    right: str  # READ or WRITE
    whose: str  # begins the sentence, such as `the sink orders cannot be used`
    settings: tuple[tuple[str, str], ...]  # of the client, as librdkafka has them
    hint: str = ""  # what to do where there is no such topic
    may_be_missing: bool = False  # the run goes on without it
    pattern: str = ""  # those that are there; none need be


def check_needs(needs: Iterable[Need], made: Collection[str] = ()) -> None:
    """PipelineError for the first topic that is missing or may not be used. `made` are those that the run makes."""
    by_settings: dict[tuple[tuple[str, str], ...], list[Need]] = {}
    for need in needs:
        by_settings.setdefault(need.settings, []).append(need)
    for settings, own in by_settings.items():
        _check(dict(settings), own, made)


def _check(settings: Mapping[str, str], needs: list[Need], made: Collection[str]) -> None:
    try:
        opened = SourceCluster(settings, LookupOptions(retries=0), timeout_s=_TIMEOUT_S)
    except OptionError as error:
        raise PipelineError(f"{needs[0].whose}: {error}") from error
    with closing(opened) as cluster:
        try:
            needs = [each for need in needs for each in _named(need, cluster)]
            found = cluster.look({need.topic for need in needs}) if needs else {}
        except ClusterError as error:
            if error.refused_login:
                raise RefusedLoginError(
                    f"{needs[0].whose}: the brokers at {settings['bootstrap.servers']} refuse the login:"
                    f" {error.refused_login}"
                ) from error
            return
        for need in needs:
            topic = found.get(need.topic)
            if topic is None and need.topic not in made and not need.may_be_missing:
                raise _missing(need, cluster)
            if topic is not None:
                _check_right(need, topic)


def _named(need: Need, cluster: SourceCluster) -> list[Need]:
    if not need.pattern:
        return [need]
    there = cluster.find_partitions(TopicSubscription(pattern=need.pattern)).topic_ids
    return [replace(need, topic=topic, pattern="") for topic in sorted(there)]


def _check_right(need: Need, topic: FoundTopic) -> None:
    if topic.error == _NO_NAME:
        raise PipelineError(f"{need.whose}: {need.topic!r} is no name that a topic can have")
    right = need.right.capitalize()
    if topic.error == _NO_RIGHT:  # Describe comes with Read and with Write
        trouble = f"this user may not see the topic {need.topic}, and needs {right} on it"
    elif topic.operations and need.right not in topic.operations:
        trouble = f"the right {right} on topic {need.topic} is missing"
    else:
        return
    raise PipelineError(
        f"{need.whose}: {trouble}",
        "Somebody who may do so grants it:"
        f" penstock acls add --principal USER --operation {right.lower()} --topic {need.topic}",
    )


def _missing(need: Need, cluster: SourceCluster) -> PipelineError:
    try:
        near = difflib.get_close_matches(need.topic, cluster.topics(), n=1, cutoff=0.6)
    except ClusterError:
        near = []
    meant = f"Did you mean {near[0]}? " if near else ""
    hint = need.hint or f"`penstock topics create {need.topic}` makes it."
    return PipelineError(f"{need.whose}: the topic {need.topic} does not exist", f"{meant}{hint}")
