"""Brokers, topics, partitions and offsets over HTTP, compared with what confluent-kafka wrote."""

from __future__ import annotations

from tests.clients.confluent import create_topic, produce, producer_of
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest


def test_topics_are_listed_and_described_when_the_broker_has_them(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=2, config={"retention.ms": "1234567"})
    assert topic in rest.get("/topics").json
    brokers = rest.get("/brokers")
    assert brokers.headers["content-type"] == "application/vnd.kafka.v2+json"
    (node,) = brokers.json["brokers"]
    described = rest.get(f"/topics/{topic}").json
    assert described["name"] == topic
    assert described["configs"]["retention.ms"] == "1234567"
    replicas = [{"broker": node, "leader": True, "in_sync": True}]
    partitions = [{"partition": number, "leader": node, "replicas": replicas} for number in (0, 1)]
    assert described["partitions"] == partitions
    assert rest.get(f"/topics/{topic}/partitions").json == partitions
    assert rest.get(f"/topics/{topic}/partitions/1").json == partitions[1]


def test_offsets_count_the_records_when_a_client_has_written_them(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    produce(producer_of(broker.bootstrap_servers), topic, [b"one", b"two"])
    assert rest.get(f"/topics/{topic}/partitions/0/offsets").json == {"beginning_offset": 0, "end_offset": 2}


def test_unknown_topics_and_partitions_have_their_codes_when_asked_for(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    for path, code in (
        ("/topics/no-such-topic", 40401),
        ("/topics/no-such-topic/partitions", 40401),
        ("/topics/a%2Fb", 40401),
        (f"/topics/{topic}/partitions/1", 40402),
        (f"/topics/{topic}/partitions/x", 40402),
        (f"/topics/{topic}/partitions/99999999999", 40402),
        (f"/topics/{topic}/partitions/7/offsets", 40402),
    ):
        answer = rest.get(path)
        assert (answer.status, answer.code) == (404, code), path
        assert answer.json["message"]


def test_listener_answers_in_the_form_of_the_api_when_there_is_no_such_page(rest: Rest) -> None:
    assert rest.get("/nothing").json["error_code"] == 404
    assert rest.ask("PUT", "/topics").json["error_code"] == 405


def test_answers_are_refused_when_no_type_of_the_api_is_accepted(rest: Rest) -> None:
    assert rest.get("/topics", accept="text/html").status == 406
    assert rest.get("/topics", accept="application/vnd.kafka.v2+json;q=0").status == 406
    assert rest.get("/topics", accept="application/json").headers["content-type"] == "application/json"
    assert rest.get("/topics", accept="text/html, */*;q=0.1").status == 200
