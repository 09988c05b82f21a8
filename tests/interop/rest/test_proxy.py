"""The REST proxy before Apache Kafka and before Penstock: it needs nothing that only our broker has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from penstock.testing.processes import ServerProcess
from tests.clients.rest.talking import Rest, b64, running_rest
from tests.clients.support import eventually, new_name
from tests.interop.conftest import KafkaTool, MakeTopic


@pytest.fixture
def rest(broker: ServerProcess) -> Iterator[Rest]:
    with running_rest(broker.bootstrap_servers) as running:
        yield running


def test_topics_are_described_when_the_broker_has_them(rest: Rest, make_topic: MakeTopic) -> None:
    topic = new_name("rest")
    make_topic(topic, partitions=2, retention_ms="1234567")
    assert topic in rest.get("/topics").json
    described = rest.get(f"/topics/{topic}").json
    assert described["configs"]["retention.ms"] == "1234567"
    assert [each["partition"] for each in described["partitions"]] == [0, 1]
    assert rest.get("/topics/no-such-topic-here").code == 40401
    assert rest.get(f"/topics/{topic}/partitions/2").code == 40402


def test_kafkas_tools_see_records_and_offsets_when_they_go_over_http(
    rest: Rest, make_topic: MakeTopic, kafka_tool: KafkaTool
) -> None:
    topic, group = new_name("rest"), new_name("group")
    make_topic(topic, partitions=2)
    records = [{"key": b64(f"k{each}".encode()), "value": b64(f"v{each}".encode())} for each in range(20)]
    written = rest.produce(topic, [*records, {"key": b64(b"k0"), "value": None}], "binary")
    assert written.status == 200, written
    assert {each["error_code"] for each in written.json["offsets"]} == {None}
    path = rest.instance(group, format="binary")
    assert rest.post(f"{path}/subscription", {"topics": [topic]}).status == 204
    found: list[str | None] = []

    def look() -> bool:
        found.extend(each["value"] for each in rest.get(f"{path}/records?timeout=3000").json)
        return len(found) >= 21

    eventually(look, "all records")
    assert sorted(map(str, found)) == sorted([*(each["value"] for each in records), "None"])
    assert rest.post(f"{path}/offsets").status == 200
    committed = {each["partition"]: each["offset"] for each in rest.get(f"{path}/offsets").json["offsets"]}
    assert sum(committed.values()) == 21
    assert rest.delete(path).status == 204
    shown = kafka_tool("kafka-consumer-groups", "--describe", "--group", group, "--offsets").output
    rows = [line.split() for line in shown.splitlines() if topic in line]
    assert {int(row[2]): int(row[3]) for row in rows} == committed


def test_partitions_are_shared_when_two_instances_are_in_a_group(rest: Rest, make_topic: MakeTopic) -> None:
    topic, group = new_name("rest"), new_name("group")
    make_topic(topic, partitions=2)
    paths = [rest.instance(group, format="json") for _ in range(2)]
    for path in paths:
        rest.post(f"{path}/subscription", {"topics": [topic]})

    def assigned() -> list[int]:
        answers = [rest.get(f"{path}/assignments").json["partitions"] for path in paths]
        return sorted(each["partition"] for each in itertools.chain.from_iterable(answers)) if all(answers) else []

    eventually(lambda: assigned() == [0, 1], "one partition each")
    rest.delete(paths[0])
    eventually(lambda: len(rest.get(f"{paths[1]}/assignments").json["partitions"]) == 2, "both go to the other")
    rest.delete(paths[1])
