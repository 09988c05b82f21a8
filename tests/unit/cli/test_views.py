from __future__ import annotations

import pytest

from penstock.cli.errors import CliError, UsageError
from penstock.cli.views.cluster import (
    BrokerView,
    api_table,
    choose_brokers,
    feature_documents,
    log_directory_documents,
    log_directory_table,
    partition_size_table,
)
from penstock.cli.views.configs import (
    Resource,
    ResourceKind,
    Setting,
    choose_resource,
    own_settings,
    parse_changes,
    setting_documents,
    setting_table,
)
from penstock.cli.views.groups import (
    GroupView,
    MemberView,
    compute_lags,
    format_assignment,
    group_document,
    lag_table,
    state_words,
)
from penstock.cli.views.topics import (
    PartitionView,
    TopicView,
    Troubles,
    partition_table,
    select_partitions,
    topic_document,
    topic_fields,
)
from penstock.core.config.resources import ConfigChange, ConfigOperation
from penstock.core.types import TopicPartition
from penstock.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
HEALTHY = PartitionView(0, 1, (1, 2), (1, 2))
LAGGING = PartitionView(1, 1, (1, 2), (1,))
LEADERLESS = PartitionView(2, None, (1, 2), (1, 2))
TOPIC = TopicView("t", "id", False, (HEALTHY, LAGGING, LEADERLESS), {"b": "2", "a": "1"})

MEMBER = MemberView("m1", None, "client", "10.0.0.1", (P1, P2))
GROUP = GroupView("g", "Stable", "Classic", "range", "h:1 (1)", (MEMBER,))


def test_only_partitions_in_trouble_remain_when_asked_for() -> None:
    quiet = TopicView("quiet", None, False, (HEALTHY,), {})

    def found(*topics: TopicView, **wanted: bool) -> list[tuple[PartitionView, ...]]:
        return [topic.partitions for topic in select_partitions(topics, Troubles(**wanted))]

    assert select_partitions([TOPIC, quiet], Troubles()) == [TOPIC, quiet]
    assert found(TOPIC, quiet, under_replicated=True) == [(LAGGING,)]
    assert found(TOPIC, quiet, unavailable=True) == [(LEADERLESS,)]
    assert found(TOPIC, under_replicated=True, unavailable=True) == [(LAGGING, LEADERLESS)]
    strict = TOPIC._replace(min_isr=2)
    assert found(strict, under_min_isr=True) == [(LAGGING, LEADERLESS)]
    assert found(strict, at_min_isr=True) == [(HEALTHY, LEADERLESS)]
    assert found(TOPIC, under_min_isr=True) == [(LEADERLESS,)]
    assert found(TOPIC, at_min_isr=True) == [(LAGGING,)]


def test_minimum_counts_as_the_number_of_replicas_when_it_is_higher() -> None:
    topic = TOPIC._replace(min_isr=5)
    ((below, _),) = [each.partitions for each in select_partitions([topic], Troubles(under_min_isr=True))]
    assert below is LAGGING
    ((at, _),) = [each.partitions for each in select_partitions([topic], Troubles(at_min_isr=True))]
    assert at is HEALTHY


def test_replicas_on_their_way_are_not_missed_when_partitions_in_trouble_are_looked_for() -> None:
    moving = PartitionView(0, 1, (3, 1, 2), (1, 2), adding=(3,), removing=(1,))
    topic = TopicView("t", None, False, (moving, moving._replace(isr=(2,))), {})
    assert topic.replication_factor == 2
    ((found,),) = [each.partitions for each in select_partitions([topic], Troubles(under_replicated=True))]
    assert found.isr == (2,)
    assert topic_document(topic)["partitions"][0]["adding"] == [3]
    assert partition_table(topic).rows[0][-2:] == ("3", "1")


def test_topic_document_holds_everything_when_described() -> None:
    document = topic_document(TOPIC)
    assert document["replication_factor"] == 2
    assert document["partitions"][2] == {"partition": 2, "leader": None, "replicas": [1, 2], "isr": [1, 2]}


def test_settings_are_listed_in_order_when_topic_is_described() -> None:
    assert topic_fields(TOPIC)[-2:] == [("Configs", "a=1"), ("", "b=2")]


def test_each_partition_with_commit_or_reader_has_a_line_when_lag_is_computed() -> None:
    lags = compute_lags(GROUP, {P0: 5, P1: 8}, {P0: 10, P1: 8, P2: 3})
    assert [(lag.key, lag.lag) for lag in lags] == [(P0, 5), (P1, 0), (P2, None)]
    assert [lag.member is not None for lag in lags] == [False, True, True]


def test_lag_is_never_negative_when_log_was_cut() -> None:
    (lag,) = compute_lags(GROUP._replace(members=()), {P0: 50}, {P0: 10})
    assert lag.lag == 0


def test_lag_is_unknown_when_partition_is_gone() -> None:
    (lag,) = compute_lags(GROUP._replace(members=()), {P0: 50}, {})
    assert (lag.log_end_offset, lag.lag) == (None, None)
    assert lag_table([lag]).rows == [("t", "0", "50", "-", "-", "-", "-", "-")]


def test_total_lag_adds_up_when_group_is_described() -> None:
    document = group_document(GROUP, compute_lags(GROUP, {P0: 5, P1: 1}, {P0: 10, P1: 8}))
    assert document["total_lag"] == 12
    assert document["members"][0]["partitions"] == [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 2}]


def test_assignment_is_grouped_by_topic_when_formatted() -> None:
    assert format_assignment([TopicPartition("b", 1), P2, P0]) == "b(1) t(0,2)"


def test_state_is_written_as_kafka_does_when_shown() -> None:
    assert [state_words(name) for name in ("STABLE", "PREPARING_REBALANCING")] == ["Stable", "PreparingRebalancing"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("t", None, False), Resource(ResourceKind.TOPIC, "t")),
        ((None, 0, False), Resource(ResourceKind.BROKER, "0")),
        ((None, None, True), Resource(ResourceKind.BROKER, "")),
        ((None, None, False, "topics", "t", False), Resource(ResourceKind.TOPIC, "t")),
        ((None, None, False, "brokers", "3", False), Resource(ResourceKind.BROKER, "3")),
        ((None, None, False, "brokers", None, True), Resource(ResourceKind.BROKER, "")),
    ],
)
def test_resource_is_chosen_when_named_in_either_way(
    arguments: tuple[str | None, int | None, bool], expected: Resource
) -> None:
    assert choose_resource(*arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        (None, None, False),
        ("t", 1, False),
        (None, 1, True),
        (None, None, False, "users", "u", False),
        (None, None, False, "topics", None, False),
        (None, None, False, "topics", None, True),
        (None, None, False, "brokers", "one", False),
        (None, None, False, "brokers", "1", True),
    ],
)
def test_usage_error_when_resource_is_not_exactly_one(arguments: tuple[str | None, int | None, bool]) -> None:
    with pytest.raises(UsageError):
        choose_resource(*arguments)


def test_changes_keep_their_operation_when_parsed() -> None:
    assert parse_changes(["a=1"], ["b,c"], ["d=x,y"], ["e=z"]) == [
        ConfigChange("a", ConfigOperation.SET, "1"),
        ConfigChange("b", ConfigOperation.DELETE, None),
        ConfigChange("c", ConfigOperation.DELETE, None),
        ConfigChange("d", ConfigOperation.APPEND, "x,y"),
        ConfigChange("e", ConfigOperation.SUBTRACT, "z"),
    ]


def test_usage_error_when_nothing_or_the_same_key_twice_is_changed() -> None:
    with pytest.raises(UsageError):
        parse_changes(None, None, None, None)
    with pytest.raises(UsageError, match="a is changed twice"):
        parse_changes(["a=1"], ["a"], None, None)


SETTINGS = [
    Setting("inherited", "1", 5, False, False),
    Setting("static", "1", 4, True, False),
    Setting("of.defaults", "1", 3, False, False),
    Setting("of.broker", "1", 2, False, False),
    Setting("of.topic", "secret", 1, False, True),
]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (Resource(ResourceKind.TOPIC, "t"), ["of.topic"]),
        (Resource(ResourceKind.BROKER, "1"), ["of.broker"]),
        (Resource(ResourceKind.BROKER, ""), ["of.defaults"]),
    ],
)
def test_only_own_settings_are_shown_when_not_all_are_asked_for(resource: Resource, expected: list[str]) -> None:
    assert [setting.name for setting in own_settings(resource, SETTINGS)] == expected


def test_value_is_hidden_when_setting_is_sensitive() -> None:
    assert "secret" not in str(setting_table(SETTINGS).rows)
    assert "secret" not in str(setting_documents(SETTINGS))


def test_api_has_its_name_when_listed() -> None:
    apis = [ApiVersion(api_key=999, min_version=0, max_version=1), ApiVersion(api_key=0, min_version=3, max_version=13)]
    assert api_table(ApiVersionsResponse(api_keys=apis)).rows == [("0", "Produce", "3", "13"), ("999", "?", "0", "1")]


def test_finalized_level_is_shown_when_feature_has_one() -> None:
    versions = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey(name=name, min_version=0, max_version=2) for name in ("b", "a")],
        finalized_features=[FinalizedFeatureKey(name="a", max_version_level=1, min_version_level=1)],
    )
    assert [(feature["name"], feature["finalized"]) for feature in feature_documents(versions)] == [
        ("a", 1),
        ("b", None),
    ]


def directories() -> list[tuple[int, list[DescribeLogDirsResult]]]:
    partitions = [DescribeLogDirsPartition(partition_index=1, partition_size=2048, offset_lag=3)]
    topics = [
        DescribeLogDirsTopic(name="t", partitions=partitions),
        DescribeLogDirsTopic(name="u", partitions=partitions),
    ]
    online = DescribeLogDirsResult(log_dir="/a", topics=topics, total_bytes=2**30, usable_bytes=2**20)
    return [(7, [online, DescribeLogDirsResult(log_dir="/b", error_code=56)])]


def test_sizes_and_states_are_shown_when_directories_are_listed() -> None:
    assert log_directory_table(directories()).rows == [
        ("7", "/a", "2", "0", "4.0 KiB", "1.0 MiB", "1.0 GiB", "online"),
        ("7", "/b", "0", "0", "0 B", "-", "-", "kafka_storage_error"),
    ]


def test_only_wanted_topics_are_shown_when_partitions_are_listed() -> None:
    assert partition_size_table(directories(), frozenset({"u"})).rows == [("7", "/a", "u", "1", "2.0 KiB", "3", "here")]
    documents = log_directory_documents(directories(), frozenset({"u"}))
    assert [partition["topic"] for partition in documents[0]["partitions"]] == ["u"]
    assert documents[1]["error"] == "KAFKA_STORAGE_ERROR"
    assert documents[1]["total_bytes"] is None


def test_copies_are_counted_by_themselves_when_partitions_move_between_directories() -> None:
    copy = DescribeLogDirsPartition(partition_index=1, partition_size=1024, offset_lag=9, is_future_key=True)
    topics = [DescribeLogDirsTopic(name="t", partitions=[copy])]
    brokers = [(7, [DescribeLogDirsResult(log_dir="/a", topics=topics, total_bytes=2**30, usable_bytes=2**20)])]
    assert log_directory_table(brokers).rows == [("7", "/a", "0", "1", "1.0 KiB", "1.0 MiB", "1.0 GiB", "online")]
    assert partition_size_table(brokers, None).rows == [("7", "/a", "t", "1", "1.0 KiB", "9", "arriving")]


def test_error_names_the_others_when_broker_does_not_exist() -> None:
    brokers = [BrokerView(1, "h", 1, None), BrokerView(2, "h", 2, None)]
    assert choose_brokers(brokers, None) == brokers
    assert choose_brokers(brokers, [2]) == brokers[1:]
    with pytest.raises(CliError, match="no broker 3"):
        choose_brokers(brokers, [3])
