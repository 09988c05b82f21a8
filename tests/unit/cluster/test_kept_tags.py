"""Tags stay with the name of a topic that is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cluster.decisions.configs import decide_alter_configs
from penstock.cluster.decisions.decision import FullChange, NewTopic, TopicSelector
from penstock.cluster.decisions.security.kept_tags import MOST_NAMES, Room, with_kept_tags
from penstock.cluster.decisions.topics import decide_create_topics, decide_delete_topics
from penstock.cluster.image import MetadataImage, settings_with_tags
from penstock.cluster.levels import FIRST_LEVEL, SUPPORTED
from penstock.cluster.security_image import tags_key
from penstock.cluster.store import security_nodes
from penstock.core.config.resources import ConfigResourceType
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import choices, cluster, config

TAGS = "penstock.tags"


def created(image: MetadataImage, tags: str | None = None) -> MetadataImage:
    configs = (("retention.ms", "1"), *(() if tags is None else ((TAGS, tags),)))
    decision = decide_create_topics(image, config(), [NewTopic("a.b", 1, 1, (), configs)], choices())
    assert [result.code for result in decision.results] == [ErrorCode.NONE]
    return decision.image


def deleted(image: MetadataImage) -> MetadataImage:
    decision = decide_delete_topics(image, config().topics, [TopicSelector("a.b", ZERO_TOPIC_ID)])
    assert [result.code for result in decision.results] == [ErrorCode.NONE]
    return decision.image


def new_cluster(level: int = SUPPORTED.highest) -> MetadataImage:
    return replace(cluster(), metadata_level=level)


def tags_of(image: MetadataImage) -> str | None:
    return settings_with_tags(image, "a.b").get(TAGS)


@pytest.mark.parametrize(
    ("named", "borne"), [(None, "pii,hr"), ("open", "open"), ("", "")], ids=["nothing", "others", "none"]
)
def test_topic_bears_the_tags_of_its_name_unless_its_creator_names_tags(named: str | None, borne: str) -> None:
    gone = deleted(created(new_cluster(), "pii,hr"))
    assert tags_of(gone) == "pii,hr"
    again = created(gone, named)
    assert again.topics["a.b"].configs == {"retention.ms": "1", TAGS: borne}
    assert tags_of(deleted(again)) == (borne or None)


def test_name_keeps_no_tags_when_its_topic_bears_none() -> None:
    image = new_cluster()
    assert deleted(created(image)).security is image.security
    assert deleted(created(new_cluster(FIRST_LEVEL), "pii")).security == image.security, "there is no place for them"


def altered(image: MetadataImage, **settings: str) -> tuple[ErrorCode, MetadataImage]:
    named = tuple((key.replace("_", "."), value) for key, value in settings.items())
    change = FullChange(ConfigResourceType.TOPIC, "a.b", named)
    decision = decide_alter_configs(image, config(), [change])
    return decision.results[0].code, decision.image


def test_tags_of_a_name_are_changed_and_cleared_as_those_of_a_topic() -> None:
    gone = deleted(created(new_cluster(), "pii"))
    code, changed = altered(gone, penstock_tags="hr")
    assert (code, tags_of(changed)) == (ErrorCode.NONE, "hr")
    code, cleared = altered(gone)
    assert (code, tags_of(cleared), dict(cleared.security.entity_configs)) == (ErrorCode.NONE, None, {})
    assert altered(changed, penstock_tags="hr") == (ErrorCode.NONE, changed), "an answer may get lost"
    for image, settings in (
        (gone, {"penstock_tags": "hr", "retention_ms": "1"}),
        (cleared, {"penstock_tags": "pii"}),
    ):
        assert altered(image, **settings) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, image)


def test_topic_is_not_deleted_when_so_many_names_keep_tags() -> None:
    image = created(new_cluster(), "pii")
    topic = image.topics["a.b"]
    full = with_kept_tags(image, "another", "hr")
    with pytest.raises(ApiError, match="1 names keep those of deleted topics already") as refused:
        Room(full, most=1).take(topic)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    Room(full, most=1).take(topic._replace(configs={}))  # leaves none
    Room(with_kept_tags(image, "a.b", "hr"), most=1).take(topic)  # takes its own place
    room = Room(full, most=2)
    room.take(topic)
    with pytest.raises(ApiError):
        room.take(topic)


def test_deletion_of_a_topic_alone_is_refused_when_there_is_no_room_for_its_tags() -> None:
    image = created(new_cluster(), "pii")
    settings = {tags_key(f"gone-{number}"): {TAGS: "hr"} for number in range(MOST_NAMES)}
    full = replace(image, security=image.security._replace(entity_configs=settings))
    decision = decide_delete_topics(full, config().topics, [TopicSelector("a.b", ZERO_TOPIC_ID)])
    assert ([result.code for result in decision.results], decision.image) == ([ErrorCode.POLICY_VIOLATION], full)


def test_kept_tags_are_read_back_from_nodes() -> None:
    security = deleted(created(new_cluster(), "pii")).security
    nodes = security_nodes.nodes_of(security)
    assert "/config/tags/a.b" in nodes
    assert security_nodes.decode_nodes(nodes) == security
