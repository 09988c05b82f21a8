"""What the tests of all client libraries share: names, patience, and a look at the batches a broker has stored."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient

from penstock.client.connection import BlockingConnection, ConnectionClosedError
from penstock.client.connection.core import ConnectionCore
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata import MetadataRequest

T = TypeVar("T")

# Nothing here takes a second on a quiet machine; the machine is not always quiet.
PATIENCE_S = 90.0
# Of a member that is to stay in its group: a busy machine keeps its heartbeats back for seconds. Heartbeats come often,
# since a member hears from them that others have joined.
STEADY_MEMBER = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 200}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_NUMBERS = {name: number for number, name in enumerate(CODECS)}
_FETCH_VERSION_BY_NAME = 12


def new_name(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:12]}"


def eventually(look: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """What `look` returns once that is true in the sense of `if`; a failure that says what was last seen otherwise."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not happen within {patience_s:.0f} s; last seen: {found!r}"
        time.sleep(0.01)
    return found


def librdkafka_can_log_in(config: Mapping[str, Any]) -> bool:
    """Fails where the broker neither answers nor refuses the login."""
    errors: list[str] = []
    settings: dict[str, Any] = {**config, "error_cb": lambda error: errors.append(error.name()), "log_level": 0}
    client = AdminClient(settings)
    answer = client.describe_cluster()
    eventually(
        lambda: client.poll(0.05) >= 0 and (answer.done() or "_AUTHENTICATION" in errors), "a login or its refusal"
    )
    return "_AUTHENTICATION" not in errors and bool(answer.result())


def is_cut_off(connection: BlockingConnection) -> bool:
    """Whether the broker ends the connection instead of an answer. The request is sent without another login before."""
    _, frame = ConnectionCore("tests").encode_request(MetadataRequest(topics=[]), 12)
    try:
        connection.send_bytes(frame)
        connection.receive_frame(timeout_s=PATIENCE_S)
    except ConnectionClosedError:
        return True
    return False


def stored_batches(bootstrap_servers: str, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The headers of a partition's batches as the broker hands them out, which is as it keeps them."""
    host, _, port = bootstrap_servers.rpartition(":")
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=50_000_000)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=50_000_000, topics=[FetchTopic(topic=topic, partitions=[wanted])], session_epoch=-1
    )
    with BlockingConnection(host, int(port), client_id="stored-batches") as connection:
        answer = connection.request(request, _FETCH_VERSION_BY_NAME)
    (found,) = answer.responses[0].partitions
    assert found.error_code == 0, found.error_code
    data, position, headers = bytes(found.records or b""), 0, []
    while position < len(data):
        headers.append(read_header(data, position))
        position += headers[-1].size
    return headers
