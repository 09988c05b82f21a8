"""The topics of an application: which there are to be, with what configuration, and how they come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.streams.planning.plan import Plan, TopicKind


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    name: str
    kind: TopicKind
    partitions: int  # of the topic if it has to be made
    config: Mapping[str, str] = field(default_factory=dict)


def plan_topics(plan: Plan, partitions: Mapping[str, int]) -> tuple[PlannedTopic, ...]:
    """Those that the application writes; `partitions` are those of its sources, by topic. Pure."""
    raise NotImplementedError


def internal_topics(plan: Plan) -> tuple[str, ...]:
    """What `reset` deletes: changelogs and repartition topics. Pure."""
    raise NotImplementedError
