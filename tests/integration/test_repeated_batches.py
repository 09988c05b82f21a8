"""Batches whose answers were lost, and that come again after the broker was stopped and started."""

from __future__ import annotations

from pathlib import Path

from penstock.client.connection import BlockingConnection
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from tests.clients.raw.wire import Wire, build_batch, create_topic, error_of, new_producer_id, produce
from tests.integration.served import served


def test_every_batch_in_flight_is_recognised_when_it_comes_again_after_a_clean_restart(tmp_path: Path) -> None:
    data = [tmp_path / "data"]
    with served(data, Files()) as server, BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection:
        wire = Wire(connection)
        topic, producer_id = create_topic(wire), new_producer_id(wire)
        batches = [
            build_batch([b"r"], producer_id=producer_id, producer_epoch=0, sequence=number) for number in range(6)
        ]
        assert [produce(wire, topic, batch).base_offset for batch in batches[:5]] == [0, 1, 2, 3, 4]
    with served(data, Files()) as server, BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection:
        wire = Wire(connection)
        answers = [produce(wire, topic, batch) for batch in batches]
        assert [error_of(answer) for answer in answers] == [ErrorCode.NONE] * 6
        assert [answer.base_offset for answer in answers] == [0, 1, 2, 3, 4, 5]
