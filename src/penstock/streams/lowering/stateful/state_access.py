"""The states of a machine's keys in Spark's state store, many requests at a time.

Spark's own classes wait for an answer to each request: to name the key, to read a value, to write it. With a few rows
for a key in a batch that is most of the time of a stateful node. Here one round of requests reads the values of many
keys, and one round writes back what their machines have written. That uses what Spark's client has under its classes
(StatefulProcessorApiClient and the messages it sends). pyspark is pinned, a test runs all of it, and `Wire` refuses a
client that lacks what it uses.

Why this cannot hang: what is sent before answers are read is at most `FLIGHT_BYTES`, which fits into the socket's
buffer, or it is one request alone, which Spark reads whole before it answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.streams.machines.machine import StateKind
from penstock.streams.topology.errors import StreamsError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Values = tuple[Any, ...]
# A request for a key and a value takes some 100 bytes plus the key, a socket's buffer 200 KB.
FLIGHT_BYTES = 64 << 10
# Keys whose values are read at once: more gain nothing, and all of their values are in memory.
FLIGHT_KEYS = 256
# Of all values of a flight. Keys with larger ones are taken by fewer at a time.
FLIGHT_VALUE_BYTES = 8 << 20
_CLIENT_PARTS = ("sockfile", "key_schema", "_serialize_to_bytes", "_deserialize_from_bytes")
_MESSAGES = (
    "StateRequest", "StateResponse", "StateVariableRequest", "ImplicitGroupingKeyRequest", "SetImplicitKey",
    "ValueStateCall", "ValueStateUpdate", "MapStateCall", "UpdateValue", "RemoveKey", "Get", "Clear",
    "StatefulProcessorCall", "TimerStateCallCommand", "RegisterTimer", "DeleteTimer",
)  # fmt: skip


class Wire:
    """Requests that are answered in their order."""

    def __init__(self, client: Any) -> None:
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

        _refuse_another_spark(client, messages)
        self.messages, self.client = messages, client
        self._waiting: list[bytes] = []
        self._size = 0
        self._answers: list[bytes] = []

    def add(self, request: Any) -> None:
        encoded = request.SerializeToString()
        if self._size + len(encoded) > FLIGHT_BYTES:
            self._send()
        self._waiting.append(encoded)
        self._size += len(encoded)

    def exchange(self) -> list[bytes]:
        """The answers to all that was added since. Those to writes are empty."""
        self._send()
        answers, self._answers = self._answers, []
        return answers

    def _send(self) -> None:
        from pyspark.errors import PySparkRuntimeError

        waiting, self._waiting, self._size = self._waiting, [], 0
        file = self.client.sockfile
        for encoded in waiting:
            file.write(b"\0\0\0\0" + len(encoded).to_bytes(4, "big") + encoded)
        file.flush()
        for _ in waiting:
            size = int.from_bytes(self._read(4), "big")
            answer = self.messages.StateResponse()
            answer.ParseFromString(self._read(size))
            if answer.statusCode != 0:
                raise PySparkRuntimeError(f"Spark's state store: {answer.errorMessage}")
            self._answers.append(answer.value)

    def _read(self, size: int) -> bytes:
        found: bytes = self.client.sockfile.read(size)
        if len(found) < size:
            raise EOFError("Spark's state store has closed the connection")
        return found

    # The requests.

    def name_key(self, key: str) -> None:
        m = self.messages
        encoded = self.client._serialize_to_bytes(self.client.key_schema, (key,))
        self.add(
            m.StateRequest(
                implicitGroupingKeyRequest=m.ImplicitGroupingKeyRequest(setImplicitKey=m.SetImplicitKey(key=encoded))
            )
        )

    def value_call(self, name: str, **call: Any) -> None:
        m = self.messages
        variable = m.StateVariableRequest(valueStateCall=m.ValueStateCall(stateName=name, **call))
        self.add(m.StateRequest(stateVariableRequest=variable))

    def map_call(self, name: str, **call: Any) -> None:
        m = self.messages
        variable = m.StateVariableRequest(mapStateCall=m.MapStateCall(stateName=name, **call))
        self.add(m.StateRequest(stateVariableRequest=variable))

    def timer_call(self, **call: Any) -> None:
        m = self.messages
        command = m.StatefulProcessorCall(timerStateCall=m.TimerStateCallCommand(**call))
        self.add(m.StateRequest(statefulProcessorCall=command))


class MachineStore:
    """The declared states of a machine, in the state store of a task."""

    def __init__(self, handle: Any, schemas: Mapping[str, tuple[StateKind, StructType, StructType | None, int | None]]):
        self.wire = Wire(getattr(handle, "_statefulProcessorApiClient", None))
        self.schemas, self.spark_states = schemas, {}
        self._named: str | None = None
        for name, (kind, columns, key, ttl_ms) in schemas.items():
            if kind is StateKind.MAP:
                assert key is not None
                self.spark_states[name] = handle.getMapState(name, key, columns, ttl_ms)
            elif kind is StateKind.LIST:
                self.spark_states[name] = handle.getListState(name, columns, ttl_ms)
            else:
                self.spark_states[name] = handle.getValueState(name, columns, ttl_ms)
        self.value_names = [name for name, (kind, *_) in schemas.items() if kind is StateKind.VALUE]
        self._flight_keys = 16  # to begin with, until it is known how large values are

    def flights(self, keys: list[str]) -> Iterator[list[KeyStates]]:
        """The states of all keys, some keys at a time. What was written to the ones before has left by then."""
        first = 0
        while first < len(keys):
            count = self._flight_keys
            yield self.open(keys[first : first + count])
            self.wire.exchange()
            first += count

    def open(self, keys: list[str]) -> list[KeyStates]:
        """The keys' states, their values read."""
        for key in keys:
            self.wire.name_key(key)
            for name in self.value_names:
                self.wire.value_call(name, get=self.wire.messages.Get())
        found = self.wire.exchange()
        fitting = len(keys) * FLIGHT_VALUE_BYTES // max(1, sum(map(len, found)))
        self._flight_keys = max(1, min(fitting, self._flight_keys * 2, FLIGHT_KEYS))
        answers = iter(found)
        opened = []
        for key in keys:
            next(answers)
            opened.append(KeyStates(self, key, {name: self._decoded(next(answers)) for name in self.value_names}))
        self._named = keys[-1]
        return opened

    def name(self, key: str) -> None:
        """For requests that follow."""
        if self._named != key:
            self.wire.name_key(key)
            self._named = key

    def forget_name(self) -> None:
        """Spark itself has named another key."""
        self._named = None

    def encoded(self, schema: Any, values: Values) -> bytes:
        return bytes(self.wire.client._serialize_to_bytes(schema, values))

    def _decoded(self, answer: bytes) -> Values | None:
        return tuple(self.wire.client._deserialize_from_bytes(answer)) if answer else None


class KeyStates:
    """The states of one key. Writes wait until `flush`, or until something of the key is read that was not before."""

    def __init__(self, store: MachineStore, key: str, values: dict[str, Values | None]) -> None:
        self.store, self.key = store, key
        self._values = {name: KeptValue(held) for name, held in values.items()}
        self._calls: list[tuple[str, dict[str, Any]]] = []
        self._timers: list[dict[str, Any]] = []

    def value(self, name: str) -> KeptValue:
        return self._values[name]

    def list(self, name: str) -> KeptList:
        return KeptList(self, name)

    def map(self, name: str) -> KeptMap:
        return KeptMap(self, name)

    def later(self, name: str, **call: Any) -> None:
        self._calls.append((name, call))

    def set_timer(self, at_ms: int) -> None:
        self._timers.append({"register": self.store.wire.messages.RegisterTimer(expiryTimestampMs=at_ms)})

    def delete_timer(self, at_ms: int) -> None:
        self._timers.append({"delete": self.store.wire.messages.DeleteTimer(expiryTimestampMs=at_ms)})

    def now(self, name: str) -> Any:
        """Spark's own state, after all that has waited."""
        self.store.name(self.key)
        self._write_calls()
        self.store.wire.exchange()
        return self.store.spark_states[name]

    def flush(self) -> None:
        """To what is waiting, which leaves when it is much or the store's user sends it."""
        wire, changed = self.store.wire, [name for name, each in self._values.items() if each.is_changed]
        if not (changed or self._calls or self._timers):
            return
        self.store.name(self.key)
        for name in changed:
            held = self._values[name].held
            if held is None:
                wire.value_call(name, clear=wire.messages.Clear())
            else:
                encoded = self.store.encoded(self.store.schemas[name][1], held)
                wire.value_call(name, valueStateUpdate=wire.messages.ValueStateUpdate(value=encoded))
        self._write_calls()
        for call in self._timers:
            wire.timer_call(**call)
        self._timers = []

    def _write_calls(self) -> None:
        for name, call in self._calls:
            self.store.wire.map_call(name, **call)
        self._calls = []


class KeptValue:
    __slots__ = ("held", "is_changed")

    def __init__(self, held: Values | None) -> None:
        self.held, self.is_changed = held, False

    def get(self) -> Values | None:
        return self.held

    def put(self, value: Values) -> None:
        self.held, self.is_changed = value, True

    def clear(self) -> None:
        self.is_changed = self.is_changed or self.held is not None
        self.held = None


class KeptList:
    def __init__(self, states: KeyStates, name: str) -> None:
        self._states, self._name = states, name

    def get(self) -> list[Values]:
        return [tuple(each) for each in self._states.now(self._name).get()]

    def append(self, value: Values) -> None:
        self._states.now(self._name).appendValue(value)

    def put(self, values: list[Values]) -> None:
        self._states.now(self._name).put(values)

    def clear(self) -> None:
        self._states.now(self._name).clear()


class KeptMap:
    def __init__(self, states: KeyStates, name: str) -> None:
        self._states, self._name = states, name
        _, self._columns, self._key, _ = states.store.schemas[name]

    def get(self, key: Values) -> Values | None:
        found = self._states.now(self._name).getValue(key)
        return None if found is None else tuple(found)

    def put(self, key: Values, value: Values) -> None:
        encoded, m = self._states.store.encoded, self._states.store.wire.messages
        call = m.UpdateValue(userKey=encoded(self._key, key), value=encoded(self._columns, value))
        self._states.later(self._name, updateValue=call)

    def remove(self, key: Values) -> None:
        m = self._states.store.wire.messages
        self._states.later(self._name, removeKey=m.RemoveKey(userKey=self._states.store.encoded(self._key, key)))

    def items(self) -> Iterator[tuple[Values, Values]]:
        # All of them at once: another key's machine may run, and name its key, before this one's generator ends.
        found = [(tuple(key), tuple(value)) for key, value in self._states.now(self._name).iterator()]
        return iter(found)

    def clear(self) -> None:
        self._states.now(self._name).clear()


def _refuse_another_spark(client: Any, messages: Any) -> None:
    lacking = [f"its client has no {name}" for name in _CLIENT_PARTS if not hasattr(client, name)]
    lacking += [f"its messages have no {name}" for name in _MESSAGES if not hasattr(messages, name)]
    if lacking:
        import pyspark

        raise StreamsError(
            f"nodes with state cannot speak to the state store of pyspark {pyspark.__version__}: {lacking[0]}",
            "Install the version of pyspark that this version of Penstock asks for.",
        )
