"""Prints the seconds from `penstock.Broker()`, just imported, until its first record is acknowledged."""

from __future__ import annotations

import time

from bench.loads import now_ms
from bench.wire import RawConnection, metadata_request, produce_error, produce_request, record_batch
from penstock import Broker

TOPIC = "first"


def main() -> None:
    produce = produce_request(TOPIC, 0, record_batch(b"first", now_ms()))
    started = time.perf_counter()
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with RawConnection(host, int(port)) as connection:
            connection.exchange(metadata_request(TOPIC, may_create=True))
            while produce_error(connection.exchange(produce), TOPIC) != 0:
                time.sleep(0.001)
            print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
