"""The wire to Spark's state store, with a stand-in for the store behind a real socket."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any, Self

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
import pytest
from pyspark.sql.types import StructType

from penstock.streams.lowering.stateful.state_access import FLIGHT_KEYS, MachineStore
from penstock.streams.machines.machine import StateKind
from penstock.streams.topology.errors import StreamsError

VALUE = StructType().add("value", "string")


class Client:
    """What is used of StatefulProcessorApiClient."""

    key_schema = StructType().add("key", "string")

    def __init__(self, end: socket.socket) -> None:
        self.sockfile = end.makefile("rwb", 65536)

    def _serialize_to_bytes(self, schema: Any, data: Any) -> bytes:
        return pickle.dumps(data)

    def _deserialize_from_bytes(self, value: bytes) -> Any:
        return pickle.loads(value)


class Handle:
    def __init__(self, client: Any) -> None:
        self._statefulProcessorApiClient = client

    def getValueState(self, *_: Any) -> None: ...


class Served:
    """Answers in its thread, one request after the other, as Spark does. Every key's value is `value`."""

    def __init__(self, value: str) -> None:
        self.value, self.written = value, dict[str, Any]()
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.settimeout(20)
        self.client, self._end = Client(ours), theirs
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        file, key = self._end.makefile("rwb"), ""
        while len(header := file.read(8)) == 8:
            request = messages.StateRequest()
            request.ParseFromString(file.read(int.from_bytes(header[4:], "big")))
            answer = messages.StateResponse()
            if request.HasField("implicitGroupingKeyRequest"):
                (key,) = pickle.loads(request.implicitGroupingKeyRequest.setImplicitKey.key)
            elif request.stateVariableRequest.valueStateCall.HasField("get"):
                answer.value = pickle.dumps((self.value,))
            else:
                self.written[key] = pickle.loads(request.stateVariableRequest.valueStateCall.valueStateUpdate.value)
            encoded = answer.SerializeToString()
            file.write(len(encoded).to_bytes(4, "big") + encoded)
            file.flush()

    def close(self) -> None:
        self._end.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def store_of(served: Served) -> MachineStore:
    return MachineStore(Handle(served.client), {"held": (StateKind.VALUE, VALUE, None, None)})


def written_back(store: MachineStore, keys: list[str]) -> Iterator[int]:
    for flight in store.flights(keys):
        for states in flight:
            states.value("held").put((f"new {states.key[:9]}",))
            states.flush()
        yield len(flight)


def test_nothing_hangs_when_keys_and_values_are_far_larger_than_a_sockets_buffer() -> None:
    keys = [f"key {number:05} {'k' * 300_000}" for number in range(12)]
    with Served("v" * 1_000_000) as served:
        assert sum(written_back(store_of(served), keys)) == 12
    assert served.written == {key: (f"new {key[:9]}",) for key in keys}


def test_fewer_keys_are_taken_at_a_time_when_their_values_are_large() -> None:
    keys = [f"key {number:05}" for number in range(1000)]
    with Served("v") as served:
        assert max(written_back(store_of(served), keys)) == FLIGHT_KEYS
    with Served("v" * 2_000_000) as served:
        assert list(written_back(store_of(served), keys[:24])) == [16, 4, 4]


def test_a_closed_connection_is_an_error_when_answers_are_missing() -> None:
    served = Served("v")
    served.close()
    with pytest.raises((EOFError, BrokenPipeError)):
        list(written_back(store_of(served), ["a"]))


def test_another_pyspark_is_refused_when_its_client_lacks_what_is_used() -> None:
    with pytest.raises(StreamsError, match=r"state store of pyspark .*: its client has no sockfile") as refused:
        MachineStore(Handle(object()), {})
    assert "pyspark" in refused.value.hint
