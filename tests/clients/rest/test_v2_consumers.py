"""Consumer instances over HTTP, in groups with confluent-kafka's consumers."""

from __future__ import annotations

import math

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.clients.confluent import admin_of, create_topic, produce, producer_of
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, b64, embedded, running_rest
from tests.clients.support import PATIENCE_S, eventually, new_name


def filled(broker: RunningBroker, count: int, partitions: int = 1) -> str:
    """A topic with the numbers from 0 on as JSON, round robin."""
    topic = create_topic(broker.bootstrap_servers, partitions=partitions)
    producer = producer_of(broker.bootstrap_servers)
    for partition in range(partitions):
        values = [str(each).encode() for each in range(partition, count, partitions)]
        produce(producer, topic, values, partition=partition)
    return topic


def committed(broker: RunningBroker, group: str, topic: str, partition: int = 0) -> int:
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
    found = admin_of(broker.bootstrap_servers).list_consumer_group_offsets(wanted)[group].result(PATIENCE_S)
    return int(found.topic_partitions[0].offset)


def read(rest: Rest, path: str, count: int) -> list[int]:
    """JSON numbers, until there are so many."""
    values: list[int] = []

    def look() -> bool:
        answer = rest.get(f"{path}/records?timeout=5000")
        assert answer.status == 200, answer
        values.extend(each["value"] for each in answer.json)
        return len(values) >= count

    eventually(look, f"{count} records")
    return values


def test_records_are_read_once_and_in_order_when_an_instance_subscribes(rest: Rest, broker: RunningBroker) -> None:
    topic, group = filled(broker, 20), new_name("group")
    path = rest.instance(group, format="json")
    assert rest.post(f"{path}/subscription", {"topics": [topic]}).status == 204
    assert rest.get(f"{path}/subscription").json == {"topics": [topic]}
    answer = rest.get(f"{path}/records?timeout=30000", accept=embedded("json"))
    assert answer.headers["content-type"] == embedded("json")
    assert answer.json[0] == {"topic": topic, "key": None, "value": 0, "partition": 0, "offset": 0}
    assert [each["value"] for each in answer.json] == list(range(20))
    assert rest.get(f"{path}/assignments").json == {"partitions": [{"topic": topic, "partition": 0}]}
    assert rest.get(f"{path}/records?timeout=0").json == []
    assert rest.delete(path).status == 204
    assert rest.get(f"{path}/records").code == 40403


def test_answers_are_small_when_the_caller_limits_their_bytes(rest: Rest, broker: RunningBroker) -> None:
    topic = filled(broker, 10)
    path = rest.instance(new_name("group"), format="json")
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    found = [[each["value"] for each in rest.get(f"{path}/records?max_bytes=4").json] for _ in range(3)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    rest.delete(path)


def test_next_instance_goes_on_when_offsets_were_committed(rest: Rest, broker: RunningBroker) -> None:
    topic, group = filled(broker, 10), new_name("group")
    path = rest.instance(group, format="json")
    rest.post(f"{path}/subscription", {"topics": [topic]})
    assert read(rest, path, 10) == list(range(10))
    answer = rest.post(f"{path}/offsets", {"offsets": [{"topic": topic, "partition": 0, "offset": 5, "metadata": "m"}]})
    assert (answer.status, answer.body) == (200, b"")
    assert committed(broker, group, topic) == 6
    wanted = {"partitions": [{"topic": topic, "partition": 0}]}
    expected = {"offsets": [{"topic": topic, "partition": 0, "offset": 6, "metadata": "m"}]}
    assert rest.ask("GET", f"{path}/offsets", wanted).json == expected
    assert rest.get(f"{path}/offsets").json == expected
    rest.delete(path)
    path = rest.instance(group, format="json")
    rest.post(f"{path}/subscription", {"topics": [topic]})
    assert read(rest, path, 4) == [6, 7, 8, 9]
    assert rest.post(f"{path}/offsets").status == 200
    assert committed(broker, group, topic) == 10
    rest.delete(path)


def test_offsets_are_committed_by_themselves_when_the_instance_says_so(rest: Rest, broker: RunningBroker) -> None:
    topic, group = filled(broker, 10), new_name("group")
    path = rest.instance(group, format="json", auto_commit_enable="true")
    rest.post(f"{path}/subscription", {"topics": [topic]})
    assert read(rest, path, 10) == list(range(10))
    rest.delete(path)
    assert committed(broker, group, topic) == 10


def test_group_is_left_at_once_when_the_instance_is_deleted(rest: Rest, broker: RunningBroker) -> None:
    topic, group = filled(broker, 4), new_name("group")
    path = rest.instance(group, format="json")
    rest.post(f"{path}/subscription", {"topics": [topic]})
    read(rest, path, 4)
    rest.delete(path)
    described = admin_of(broker.bootstrap_servers).describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.members == []


def test_partitions_are_shared_when_a_consumer_of_another_library_joins(group_broker: RunningBroker) -> None:
    servers = group_broker.bootstrap_servers
    topic, group = filled(group_broker, 8, partitions=2), new_name("group")
    quick = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 100}
    other = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0, **quick})
    with running_rest(servers, consumer_session_timeout_ms="1000") as rest:
        path = rest.instance(group, format="json")

        def assigned() -> set[int]:
            return {each["partition"] for each in rest.get(f"{path}/assignments").json["partitions"]}

        rest.post(f"{path}/subscription", {"topics": [topic]})
        assert sorted(read(rest, path, 8)) == list(range(8))
        other.subscribe([topic])

        def is_shared() -> bool:
            other.poll(0.05)
            answer = rest.get(f"{path}/records?timeout=20")  # answers in time, also while the group rebalances
            assert answer.status == 200
            return len(other.assignment()) == 1 and len(assigned()) == 1

        eventually(is_shared, "one partition each")
        assert {each.partition for each in other.assignment()} | assigned() == {0, 1}
        other.close()
        eventually(lambda: assigned() == {0, 1}, "both partitions come back")


def test_positions_move_when_the_caller_seeks(rest: Rest, broker: RunningBroker) -> None:
    topic = filled(broker, 5)
    path = rest.instance(new_name("group"), format="json")
    partition = {"topic": topic, "partition": 0}
    assert rest.post(f"{path}/assignments", {"partitions": [partition]}).status == 204
    assert read(rest, path, 5) == list(range(5))
    assert rest.post(f"{path}/positions", {"offsets": [{**partition, "offset": 3}]}).status == 204
    assert read(rest, path, 2) == [3, 4]
    assert rest.post(f"{path}/positions/beginning", {"partitions": [partition]}).status == 204
    assert read(rest, path, 5) == list(range(5))
    rest.post(f"{path}/positions/beginning", {"partitions": [partition]})
    assert rest.post(f"{path}/positions/end", {"partitions": [partition]}).status == 204
    assert rest.get(f"{path}/records?timeout=0").json == []
    assert (
        rest.post(f"{path}/positions", {"offsets": [{"topic": topic, "partition": "0", "offset": "3"}]}).status == 204
    )
    assert read(rest, path, 2) == [3, 4]  # Confluent's proxy takes numbers as texts
    other = {"topic": topic, "partition": 9}
    assert rest.post(f"{path}/positions/end", {"partitions": [other]}).code == 40903
    assert rest.post(f"{path}/positions", {"offsets": [{**partition, "offset": 99}]}).status == 204
    assert read(rest, path, 5) == list(range(5))  # out of range: from the earliest, as the instance says
    rest.delete(path)


def test_ways_to_choose_partitions_exclude_each_other_when_mixed(rest: Rest, broker: RunningBroker) -> None:
    topic = filled(broker, 1)
    path = rest.instance(new_name("group"), format="json")
    assert rest.get(f"{path}/records").code == 40903
    partitions = {"partitions": [{"topic": topic, "partition": 0}]}
    rest.post(f"{path}/assignments", partitions)
    assert rest.post(f"{path}/subscription", {"topics": [topic]}).code == 40903
    assert rest.delete(f"{path}/subscription").status == 204
    assert rest.post(f"{path}/subscription", {"topics": [topic]}).status == 204
    assert rest.post(f"{path}/assignments", partitions).code == 40903
    assert rest.post(f"{path}/subscription", {"topic_pattern": "x.*"}).code == 40903
    assert rest.post(f"{path}/subscription", {"topics": [], "topic_pattern": "x"}).code == 40903
    assert rest.post(f"{path}/subscription", {}).status == 422
    assert rest.delete(f"{path}/subscription").status == 204
    assert rest.get(f"{path}/subscription").json == {"topics": []}
    assert rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 5}]}).code == 40403
    rest.delete(path)


def test_topics_are_found_when_an_expression_is_subscribed_to(rest: Rest, broker: RunningBroker) -> None:
    stem = new_name("pattern")
    for name in (f"{stem}-a", f"{stem}-b", f"other-{stem}"):
        create_topic(broker.bootstrap_servers, name=name)
        produce(producer_of(broker.bootstrap_servers), name, [b"1"])
    path = rest.instance(new_name("group"), format="json")
    assert rest.post(f"{path}/subscription", {"topic_pattern": f"{stem}-.*"}).status == 204
    assert rest.get(f"{path}/subscription").json == {"topics": [f"{stem}-a", f"{stem}-b"]}
    assert read(rest, path, 2) == [1, 1]
    for pattern in ("(", "(a+)+(" * 200, "\\1", "a{1001}"):
        assert rest.post(f"{path}/subscription", {"topic_pattern": pattern}).status == 422, pattern
    rest.delete(path)


def test_formats_are_checked_when_instances_are_made_and_read(rest: Rest, broker: RunningBroker) -> None:
    group = new_name("group")
    name = new_name("mine")
    created = rest.post(f"/consumers/{group}", {"name": name, "format": "json"})
    assert created.json == {"instance_id": name, "base_uri": f"{rest.url}/consumers/{group}/instances/{name}"}
    assert rest.post(f"/consumers/{group}", {"name": name}).code == 40902
    path = f"/consumers/{group}/instances/{name}"
    topic = create_topic(broker.bootstrap_servers)
    rest.produce(topic, [{"value": 1}])
    rest.produce(topic, [{"value": b64(b"no json")}], "binary")
    rest.produce(topic, [{"value": 3}])
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    rest.post(f"{path}/positions/beginning", {"partitions": [{"topic": topic, "partition": 0}]})
    assert rest.get(f"{path}/records", accept=embedded("avro")).code == 40601
    assert rest.get(f"{path}/records", accept="text/html").status == 406
    assert [each["value"] for each in rest.get(f"{path}/records").json] == [1]
    refused = rest.get(f"{path}/records")
    assert (refused.status, refused.code) == (422, 42206)
    assert f"{topic}-0, offset 1" in refused.json["message"]
    rest.post(f"{path}/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]})
    assert [each["value"] for each in rest.get(f"{path}/records").json] == [3]
    rest.delete(path)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"format": "xml"}, 42204),
        ({"format": "string"}, 42204),
        ({"auto.offset.reset": "middle"}, 42204),
        ({"auto.commit.enable": "perhaps"}, 42204),
        ({"fetch.min.bytes": "many"}, 42204),
        ({"fetch.min.bytes": -2}, 42204),
        ({"consumer.request.timeout.ms": "99999999999999999999999"}, 42204),
        ({"name": "a/b"}, 42204),
        ({"name": ".."}, 42204),
        ({"name": ""}, 422),
        ({"name": 7}, 422),
        (b"{", 400),
        (b'{"name": "\xff"}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"fetch.min.bytes": 1e400}', 422),
        (b'{"more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400),
    ],
)
def test_instance_is_refused_when_its_settings_are_wrong(rest: Rest, body: object, code: int) -> None:
    answer = rest.post("/consumers/refused", body)
    assert answer.code == code, answer
    assert answer.status == int(str(code)[:3])


def test_requests_have_their_codes_when_the_instance_is_unknown(rest: Rest) -> None:
    path = "/consumers/g/instances/nobody"
    partitions: dict[str, list[object]] = {"partitions": []}
    offsets: dict[str, list[object]] = {"offsets": []}
    for method, rest_of_path, body in (
        ("DELETE", "", None),
        ("POST", "/subscription", {"topics": ["t"]}),
        ("GET", "/subscription", None),
        ("DELETE", "/subscription", None),
        ("POST", "/assignments", partitions),
        ("GET", "/assignments", None),
        ("GET", "/records", None),
        ("POST", "/offsets", offsets),
        ("GET", "/offsets", None),
        ("POST", "/positions", offsets),
        ("POST", "/positions/beginning", partitions),
        ("POST", "/positions/end", partitions),
    ):
        answer = rest.ask(method, f"{path}{rest_of_path}", body)
        assert (answer.status, answer.code) == (404, 40403), (method, rest_of_path)


def test_instances_expire_and_are_bounded_when_the_settings_say_so(broker: RunningBroker) -> None:
    with running_rest(
        broker.bootstrap_servers,
        consumer_instance_timeout_ms="200",
        penstock_rest_max_instances_per_client="2",
    ) as rest:
        group = new_name("group")
        topic = filled(broker, 1)
        path = rest.instance(group, format="json")
        rest.instance(group)
        assert rest.post(f"/consumers/{group}", {}).status == 429
        rest.post(f"{path}/subscription", {"topics": [topic]})
        assert rest.server is not None
        instances = rest.server.proxy.instances
        eventually(lambda: len(instances) == 0, "instances expire")
        assert rest.get(f"{path}/records").code == 40403

        def has_left() -> bool:
            found = admin_of(broker.bootstrap_servers).describe_consumer_groups([group])[group].result(PATIENCE_S)
            return not found.members

        eventually(has_left, "the group is left")


def test_instance_is_reached_through_any_proxy_when_there_are_several(broker: RunningBroker) -> None:
    with (
        running_rest(broker.bootstrap_servers) as probe,
        running_rest(broker.bootstrap_servers) as other,
    ):
        ports = {"a": probe.url, "b": other.url}
    peers = ",".join(f"{name}={url}" for name, url in ports.items())
    with (
        running_rest(broker.bootstrap_servers, id="a", listeners=ports["a"], penstock_rest_peers=peers) as first,
        running_rest(broker.bootstrap_servers, id="b", listeners=ports["b"], penstock_rest_peers=peers) as second,
    ):
        group = new_name("group")
        created = first.post(f"/consumers/{group}", {"format": "json"}).json
        path = created["base_uri"].removeprefix(first.url)
        assert created["base_uri"].startswith(first.url)
        assert first.get(f"{path}/assignments").status == 200
        sent = second.get(f"{path}/records?timeout=0")
        assert sent.status == 307
        assert sent.headers["location"] == f"{first.url}{path}/records?timeout=0"
        assert sent.json["base_uri"] == sent.headers["location"]
        named = {}
        for each in range(20):
            answer = first.post(f"/consumers/{group}", {"name": f"n{each}"})
            named[answer.status] = answer
        assert set(named) == {200, 307}
        assert named[307].headers["location"] == f"{second.url}/consumers/{group}"


def test_numbers_are_given_as_they_were_written_when_they_are_larger_than_any_computer_counts(
    rest: Rest, broker: RunningBroker
) -> None:
    topic = create_topic(broker.bootstrap_servers)
    large = b"[1e400, -1e400, %d, 1.50]" % 10**400
    assert rest.post(f"/topics/{topic}", b'{"records": [{"value": %s}]}' % large, embedded("json")).status == 200
    produce(producer_of(broker.bootstrap_servers), topic, [b"2"], partition=0)
    path = rest.instance(new_name("group"), format="json")
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert list[object](read(rest, path, 2)) == [[math.inf, -math.inf, 10**400, 1.5], 2]
    rest.delete(path)


def test_records_before_it_are_given_and_the_place_is_named_when_a_record_nests_too_deep(
    rest: Rest, broker: RunningBroker
) -> None:
    topic = create_topic(broker.bootstrap_servers)
    deep = b"[" * 5000 + b"]" * 5000
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2", deep, b"3"], partition=0)
    path = rest.instance(new_name("group"), format="json")
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert read(rest, path, 2) == [1, 2]
    refused = rest.get(f"{path}/records?timeout=5000")
    assert (refused.status, refused.code) == (422, 42206)
    assert f"{topic}-0, offset 2" in refused.json["message"]
    rest.post(f"{path}/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 3}]})
    assert read(rest, path, 1) == [3]
    rest.delete(path)
