"""Clients that do everything wrong, and one that does everything right, to run against a real broker.

`HostileSocket` says any bytes in any rhythm and sees how the broker takes it. `GoodClient` produces and consumes with
a real client library in the background and remembers everything that went wrong for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from penstock.protocol.framing import encode_request_header

# A broker that closes does so at once; the machine may be busy.
PATIENCE_S = 20.0

HTTP_REQUEST = b"GET /brokers HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\n\r\n"
# The first record of a TLS 1.3 handshake as a client with the wrong security.protocol sends it.
TLS_CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))


def request_frame(
    api_key: int,
    version: int,
    body: bytes = b"",
    *,
    correlation_id: int = 1,
    client_id: str | None = "hostile",
    flexible: bool = False,
) -> bytes:
    """A whole frame around any body."""
    payload = encode_request_header(api_key, version, correlation_id, client_id, flexible) + body
    return struct.pack(">i", len(payload)) + payload


class HostileSocket:
    """A connection without any knowledge of the protocol. `receive_buffer_size` makes a reader that takes little."""

    def __init__(self, bootstrap_servers: str, *, receive_buffer_size: int | None = None) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.socket()
        if receive_buffer_size is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_what_fits(self, data: bytes) -> int:
        """How much the broker took before it stopped reading for a while, or closed."""
        self._socket.settimeout(0.5)
        position = 0
        with contextlib.suppress(OSError):
            while position < len(data):
                position += self._socket.send(data[position : position + 65_536])
        self._socket.settimeout(PATIENCE_S)
        return position

    def try_send(self, data: bytes) -> int:
        """Sends as much as fits right now, perhaps nothing. ConnectionError when the broker has closed."""
        self._socket.setblocking(False)
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        finally:
            self._socket.settimeout(PATIENCE_S)

    def try_receive(self, size: int = 1 << 16) -> bytes | None:
        """The bytes that have arrived; None if none have, empty bytes if the broker has closed."""
        self._socket.setblocking(False)
        try:
            return self._socket.recv(size)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""
        finally:
            self._socket.settimeout(PATIENCE_S)

    def receive(self, size: int, timeout_s: float = PATIENCE_S) -> bytes:
        """Up to `size` bytes; fewer where the broker closed before. TimeoutError if it does neither."""
        self._socket.settimeout(timeout_s)
        data = bytearray()
        try:
            while len(data) < size and (piece := self._socket.recv(min(size - len(data), 1 << 20))):
                data += piece
        except ConnectionError:
            pass
        return bytes(data)

    def receive_frame(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        """The next frame without its size; None if the broker closed instead."""
        head = self.receive(4, timeout_s)
        if len(head) < 4:
            return None
        return self.receive(struct.unpack(">i", head)[0], timeout_s)

    def is_closed_by_broker(self, timeout_s: float = PATIENCE_S) -> bool:
        """Waits for the end; answers to earlier requests are read over."""
        self._socket.settimeout(timeout_s)
        try:
            while self._socket.recv(1 << 20):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def end_of_requests(self) -> None:
        """Half a close: nothing more will be sent, answers are still welcome."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Gone without a word of goodbye: the broker's next write fails."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class GoodClient:
    """Produces to a topic of its own and reads everything back, in order, until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="good client", daemon=True)
        self.errors: list[str] = []
        self.produced = 0
        self.consumed = 0
        self.latencies_s: list[float] = []  # from handing a record to the producer to having it back
        self._sent_at: deque[float] = deque()

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_for_progress(self, records: int = 50) -> None:
        """Waits until so many more records went all the way. Raises whatever went wrong."""
        goal = self.consumed + records
        deadline = time.monotonic() + PATIENCE_S
        while self.consumed < goal:
            self.raise_if_failed()
            if time.monotonic() > deadline:
                raise AssertionError(f"the good client is stuck: {self.produced} produced, {self.consumed} consumed")
            time.sleep(0.01)
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        if self.errors:
            raise AssertionError(f"the good client saw {len(self.errors)} errors, the first: {self.errors[0]}")

    def _run(self) -> None:
        from confluent_kafka import Consumer, KafkaException, Producer

        self._create_topic()
        common = {
            "bootstrap.servers": self._bootstrap_servers,
            "error_cb": lambda error: self.errors.append(str(error)),
        }
        producer = Producer({**common, "enable.idempotence": True, "linger.ms": 1})
        consumer = Consumer(
            {**common, "group.id": f"{self._topic}-readers", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50}
        )
        try:
            consumer.subscribe([self._topic])
            while not self._stopping.is_set():
                self._exchange(producer, consumer)
            if producer.flush(PATIENCE_S):
                self.errors.append("records were not acknowledged in time")
            self._read_the_rest(consumer)
        except KafkaException as error:
            self.errors.append(str(error))
        finally:
            consumer.close()

    def _create_topic(self) -> None:
        """A consumer that subscribes to a missing topic reports an error, which would be taken for the broker's."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers})
        try:
            admin.create_topics([NewTopic(self._topic, 1, 1)])[self._topic].result(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                self.errors.append(str(error))

    def _exchange(self, producer: Any, consumer: Any) -> None:
        if self.produced - self.consumed < 100:
            for _ in range(10):
                self._sent_at.append(time.monotonic())
                producer.produce(self._topic, str(self.produced).encode(), on_delivery=self._on_delivery)
                self.produced += 1
        producer.poll(0)
        self._read(consumer)

    def _read_the_rest(self, consumer: Any) -> None:
        """What is left unread would be the first thing that the group's next member reads."""
        deadline = time.monotonic() + PATIENCE_S
        while self.consumed < self.produced and not self.errors:
            if time.monotonic() > deadline:
                self.errors.append(f"{self.produced - self.consumed} records were not read in time")
            self._read(consumer)

    def _read(self, consumer: Any) -> None:
        for message in consumer.consume(100, 0.02):
            if message.error() is not None:
                self.errors.append(str(message.error()))
            elif message.value() != str(self.consumed).encode():
                self.errors.append(f"record {self.consumed} expected, {message.value()!r} read")
            else:
                self.consumed += 1
                self.latencies_s.append(time.monotonic() - self._sent_at.popleft())

    def _on_delivery(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(str(error))
